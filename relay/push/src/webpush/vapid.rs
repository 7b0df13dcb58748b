//! How the relay says who it is to push services (RFC 8292).
//!
//! A browser's subscription is bound to the key it was made with, so the key is made once, on the first start, and
//! never replaced: with a new one every browser would have to subscribe again.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use ring::{digest, hmac};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject as _;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::push::UnixMillis;

/// The key's file in the relay's data folder.
pub const KEY_FILE: &str = "vapid.pem";
/// How long a token is valid. A day is the most that is allowed.
const VALID: Duration = Duration::from_secs(12 * 3600);
/// How long a token is used. What is left is for clocks that differ.
const USED: Duration = Duration::from_secs(6 * 3600);
/// How many origins have a token at a time; one more and all are made anew.
const ORIGINS: usize = 256;

/// Who is to be told when something is wrong with the pushes: `mailto:ops@example.org` or an https page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Contact(String);

/// Text that is no contact.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no contact: give mailto: and an address, or an https page, where push services reach the operator"
)]
pub struct ContactError(String);

impl FromStr for Contact {
    type Err = ContactError;

    fn from_str(text: &str) -> Result<Self, ContactError> {
        let wrong = || ContactError(text.to_owned());
        let plain = text.len() <= 255 && text.bytes().all(|byte| byte.is_ascii_graphic());
        let host = match text.split_once(':') {
            Some(("mailto", address)) => {
                let (user, host) = address.rsplit_once('@').ok_or_else(wrong)?;
                if user.is_empty() || user.contains(['@', '<', ',', '?', '"', '\\']) {
                    return Err(wrong());
                }
                host.to_owned()
            }
            Some(("https", _)) => {
                let url = reqwest::Url::parse(text).map_err(|_| wrong())?;
                url.domain().ok_or_else(wrong)?.to_owned()
            }
            _ => return Err(wrong()),
        };
        // Apple refuses every push of a sender whose contact is not at a real name.
        let label = |label: &str| {
            !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        };
        let top = host.rsplit('.').next().unwrap_or_default().to_ascii_lowercase();
        let real = host.contains('.')
            && host.split('.').all(label)
            && !top.bytes().all(|byte| byte.is_ascii_digit())
            && !["localhost", "local", "localdomain", "invalid", "internal"].contains(&top.as_str());
        if plain && real { Ok(Self(text.to_owned())) } else { Err(wrong()) }
    }
}

impl TryFrom<String> for Contact {
    type Error = ContactError;
    fn try_from(text: String) -> Result<Self, ContactError> {
        text.parse()
    }
}

impl From<Contact> for String {
    fn from(contact: Contact) -> Self {
        contact.0
    }
}

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VapidError {
    /// The file cannot be read or written.
    #[error("the Web Push key {path} cannot be read or made: {cause}")]
    File {
        /// Which file.
        path: PathBuf,
        /// Why not.
        cause: io::Error,
    },
    /// The file holds something else.
    #[error(
        "{0} is no P-256 key in PKCS#8 PEM: put the right file back from a backup, for a new key means that every \
         browser has to subscribe again"
    )]
    NoKey(PathBuf),
    /// The system gave no random bytes.
    #[error("the system gives no random bytes for a Web Push key")]
    Random,
}

/// The relay's key, and the tokens that it has signed.
pub struct Vapid {
    key: EcdsaKeyPair,
    topics: hmac::Key,
    contact: Contact,
    random: SystemRandom,
    tokens: Mutex<HashMap<String, Signed>>,
}

struct Signed {
    header: http::HeaderValue,
    fresh_until: UnixMillis,
}

impl Vapid {
    /// Reads the key from the relay's data folder, or makes it if there is none.
    pub fn open(folder: &Path, contact: Contact) -> Result<Self, VapidError> {
        let path = folder.join(KEY_FILE);
        let file = |cause| VapidError::File { path: path.clone(), cause };
        let text = match fs::read_to_string(&path) {
            Ok(text) => Zeroizing::new(text),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                make(folder, &path)?;
                Zeroizing::new(fs::read_to_string(&path).map_err(file)?)
            }
            Err(error) if error.kind() == ErrorKind::InvalidData => return Err(VapidError::NoKey(path)),
            Err(error) => return Err(file(error)),
        };
        Self::from_pem(&text, contact).ok_or(VapidError::NoKey(path))
    }

    fn from_pem(text: &str, contact: Contact) -> Option<Self> {
        let pkcs8 = PrivatePkcs8KeyDer::from_pem_slice(text.as_bytes()).ok()?;
        let random = SystemRandom::new();
        let der = pkcs8.secret_pkcs8_der();
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der, &random).ok()?;
        let mut seed = digest::Context::new(&digest::SHA256);
        seed.update(b"skald web push topics\0");
        seed.update(der);
        let topics = hmac::Key::new(hmac::HMAC_SHA256, seed.finish().as_ref());
        Some(Self { key, topics, contact, random, tokens: Mutex::default() })
    }

    /// The public key, as subscriptions name it: an uncompressed point of 65 bytes.
    pub fn public_key(&self) -> &[u8] {
        self.key.public_key().as_ref()
    }

    /// The `Authorization` header for pushes to this origin, such as `https://fcm.googleapis.com`.
    pub fn authorization(&self, origin: &str, now: UnixMillis) -> Option<http::HeaderValue> {
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(signed) = tokens.get(origin) {
            // A clock that was set back far must not leave a token in use whose validity begins to be doubted.
            let left = now.until(signed.fresh_until);
            if !left.is_zero() && left <= USED {
                return Some(signed.header.clone());
            }
        }
        let header = self.sign(origin, now)?;
        if tokens.len() >= ORIGINS {
            tokens.clear();
        }
        tokens.insert(origin.to_owned(), Signed { header: header.clone(), fresh_until: now.plus(USED) });
        Some(header)
    }

    /// Forgets the token for an origin, whose service did not like it.
    pub fn forget(&self, origin: &str) {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner).remove(origin);
    }

    /// An opaque name of 32 letters and digits for what `parts` identify. Nobody who lacks the key can guess it.
    pub fn opaque(&self, parts: &[&[u8]]) -> String {
        let mut context = hmac::Context::with_key(&self.topics);
        for part in parts {
            context.update(&(part.len() as u64).to_be_bytes());
            context.update(part);
        }
        let mut name = hex::encode(context.sign());
        name.truncate(32);
        name
    }

    fn sign(&self, origin: &str, now: UnixMillis) -> Option<http::HeaderValue> {
        #[derive(Serialize)]
        struct Claims<'a> {
            aud: &'a str,
            exp: i64,
            sub: &'a str,
        }
        let claims = Claims { aud: origin, exp: now.plus(VALID).secs(), sub: &self.contact.0 };
        let claims = URL_SAFE_NO_PAD.encode(serde_json::to_vec(&claims).ok()?);
        let head = URL_SAFE_NO_PAD.encode(br#"{"typ":"JWT","alg":"ES256"}"#);
        let signed = format!("{head}.{claims}");
        let signature = self.key.sign(&self.random, signed.as_bytes()).ok()?;
        let signature = URL_SAFE_NO_PAD.encode(signature);
        let key = URL_SAFE_NO_PAD.encode(self.public_key());
        let mut header =
            http::HeaderValue::try_from(format!("vapid t={signed}.{signature}, k={key}")).ok()?;
        header.set_sensitive(true);
        Some(header)
    }
}

/// Makes the relay's data folder where this is the very first start.
fn private_folder(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Makes a key. It becomes visible whole or not at all, and one that is there already stays.
fn make(folder: &Path, path: &Path) -> Result<(), VapidError> {
    let file = |cause| VapidError::File { path: path.to_owned(), cause };
    let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new())
        .map_err(|_| VapidError::Random)?;
    private_folder(folder).map_err(file)?;
    let body = Zeroizing::new(STANDARD.encode(pkcs8.as_ref()));
    let mut pem = Zeroizing::new(String::with_capacity(512));
    pem.push_str("-----BEGIN PRIVATE KEY-----\n");
    for line in body.as_bytes().chunks(64) {
        pem.push_str(&String::from_utf8_lossy(line));
        pem.push('\n');
    }
    pem.push_str("-----END PRIVATE KEY-----\n");
    let unfinished = folder.join(format!("{KEY_FILE}.{}.new", std::process::id()));
    let _ = fs::remove_file(&unfinished);
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let linked = options.open(&unfinished).and_then(|mut to| {
        to.write_all(pem.as_bytes())?;
        to.sync_all()?;
        // A link, unlike a rename, never takes the place of another file.
        fs::hard_link(&unfinished, path)
    });
    let _ = fs::remove_file(&unfinished);
    match linked {
        Ok(()) => File::open(folder).and_then(|folder| folder.sync_all()).map_err(file),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(file(error)),
    }
}

#[cfg(test)]
mod tests {
    use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};

    use super::*;

    const ORIGIN: &str = "https://fcm.googleapis.com";
    const NOW: UnixMillis = UnixMillis(1_800_000_000_000);

    fn contact() -> Contact {
        "mailto:ops@example.org".parse().unwrap()
    }

    fn claims(header: &http::HeaderValue, key: &[u8]) -> serde_json::Value {
        let text = header.to_str().unwrap();
        let (token, named) = text.strip_prefix("vapid t=").unwrap().split_once(", k=").unwrap();
        assert_eq!(URL_SAFE_NO_PAD.decode(named).unwrap(), key);
        let (signed, signature) = token.rsplit_once('.').unwrap();
        let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, key).verify(signed.as_bytes(), &signature).unwrap();
        let (head, claims) = signed.split_once('.').unwrap();
        let json = |part: &str| -> serde_json::Value {
            serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
        };
        assert_eq!(json(head), serde_json::json!({"typ": "JWT", "alg": "ES256"}));
        json(claims)
    }

    #[test]
    fn the_key_is_made_once_for_the_owner_alone_and_stays() {
        let above = tempfile::tempdir().unwrap();
        let folder = above.path().join("data");
        let first = Vapid::open(&folder, contact()).unwrap();
        assert_eq!((first.public_key().len(), first.public_key()[0]), (65, 4));
        let again = Vapid::open(&folder, contact()).unwrap();
        assert_eq!(first.public_key(), again.public_key());
        let names: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, [KEY_FILE], "nothing else is left behind");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = fs::metadata(folder.join(KEY_FILE)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }

    #[test]
    fn a_key_that_cannot_be_read_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(KEY_FILE);
        for text in ["", "nonsense", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"] {
            fs::write(&path, text).unwrap();
            let Err(error) = Vapid::open(folder.path(), contact()) else { panic!("{text:?} was taken") };
            assert!(error.to_string().contains("backup"), "{error}");
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        make(folder.path(), &path).unwrap();
        assert!(fs::read(&path).unwrap().len() < 200, "a key that is there stays");
    }

    #[test]
    fn a_token_names_origin_expiry_and_contact_and_is_used_for_half_its_life() {
        let folder = tempfile::tempdir().unwrap();
        let vapid = Vapid::open(folder.path(), contact()).unwrap();
        let first = vapid.authorization(ORIGIN, NOW).unwrap();
        assert!(first.is_sensitive());
        let expected = serde_json::json!({
            "aud": ORIGIN, "exp": NOW.secs() + 12 * 3600, "sub": "mailto:ops@example.org"
        });
        assert_eq!(claims(&first, vapid.public_key()), expected);
        let hours = |n: u64| NOW.plus(Duration::from_secs(3600 * n));
        assert_eq!(vapid.authorization(ORIGIN, hours(5)).unwrap(), first);
        let renewed = vapid.authorization(ORIGIN, hours(6)).unwrap();
        assert_eq!(claims(&renewed, vapid.public_key())["exp"], hours(18).secs());
        let back = vapid.authorization(ORIGIN, NOW).unwrap();
        assert_eq!(claims(&back, vapid.public_key()), expected, "the clock was set back");
        let other = vapid.authorization("https://web.push.apple.com", NOW).unwrap();
        assert_eq!(claims(&other, vapid.public_key())["aud"], "https://web.push.apple.com");
        vapid.forget(ORIGIN);
        assert_ne!(vapid.authorization(ORIGIN, NOW).unwrap(), back, "a signature is never the same twice");
    }

    #[test]
    fn many_origins_do_not_grow_the_cache_beyond_its_bound() {
        let folder = tempfile::tempdir().unwrap();
        let vapid = Vapid::open(folder.path(), contact()).unwrap();
        for n in 0..ORIGINS + 10 {
            vapid.authorization(&format!("https://{n}.notify.windows.com"), NOW).unwrap();
        }
        assert!(vapid.tokens.lock().unwrap().len() <= ORIGINS);
    }

    #[test]
    fn topics_are_letters_and_digits_and_differ_by_key_and_part() {
        let folder = tempfile::tempdir().unwrap();
        let vapid = Vapid::open(folder.path(), contact()).unwrap();
        let topic = vapid.opaque(&[b"ab", b"c"]);
        assert_eq!(topic.len(), 32);
        assert!(topic.bytes().all(|byte| byte.is_ascii_alphanumeric()));
        assert_eq!(topic, vapid.opaque(&[b"ab", b"c"]));
        assert_ne!(topic, vapid.opaque(&[b"a", b"bc"]));
        let elsewhere = tempfile::tempdir().unwrap();
        assert_ne!(topic, Vapid::open(elsewhere.path(), contact()).unwrap().opaque(&[b"ab", b"c"]));
    }

    #[test]
    fn a_contact_is_one_that_push_services_accept() {
        for good in ["mailto:ops@example.org", "mailto:a.b+c@mail.example.org", "https://example.org/contact"]
        {
            assert_eq!(String::from(good.parse::<Contact>().unwrap()), good);
        }
        for bad in [
            "",
            "ops@example.org",
            "mailto:",
            "mailto:ops",
            "mailto:ops@localhost",
            "mailto:@example.org",
            "mailto:ops@relay.local",
            "mailto:<ops@example.org>",
            "mailto:ops@example.org ",
            "mailto:ops@192.168.1.1",
            "https://localhost",
            "https://localhost/x",
            "https://127.0.0.1",
            "http://example.org",
            "tel:1",
            "mailto:a@example.org,b@example.org",
            "mailto:ops@example..org",
        ] {
            assert!(bad.parse::<Contact>().is_err(), "{bad}");
        }
    }
}
