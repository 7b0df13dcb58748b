//! The content encryption of Web Push (RFC 8291, in the coding of RFC 8188).
//!
//! Every message has a key pair and a salt of its own. The relay can seal for a browser and for nobody else, and it
//! cannot open what it has sealed before: nothing here decrypts.

use hkdf::Hkdf;
use p256::elliptic_curve::sec1::ToSec1Point as _;
use p256::{PublicKey, SecretKey};
use ring::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use sha2::Sha256;
use zeroize::Zeroizing;

/// Bytes of an uncompressed point on P-256.
pub const POINT_BYTES: usize = 65;
/// Bytes of the secret that a subscription shares with its senders.
pub const AUTH_BYTES: usize = 16;
/// Bytes of the salt.
pub const SALT_BYTES: usize = 16;
/// The largest body that every push service takes.
pub const BODY_BYTES: usize = 4096;
/// Salt, record size, length of the key and the key.
const HEADER_BYTES: usize = SALT_BYTES + 4 + 1 + POINT_BYTES;
/// The delimiter that ends the plaintext, and the tag.
const OVERHEAD_BYTES: usize = 1 + 16;
/// The largest plaintext, in bytes.
pub const PLAINTEXT_BYTES: usize = BODY_BYTES - HEADER_BYTES - OVERHEAD_BYTES;
/// Ends the plaintext of the last record; zeros follow.
const LAST_RECORD: u8 = 2;

/// For whom a message is sealed: the two keys of a subscription.
#[derive(Clone)]
pub struct Recipient {
    /// The browser's public key (`p256dh`), known to be a point on the curve.
    pub key: PublicKey,
    /// The secret that it shares with senders (`auth`).
    pub auth: Zeroizing<[u8; AUTH_BYTES]>,
}

/// Why a message was not sealed.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum EncryptError {
    /// More than [`PLAINTEXT_BYTES`].
    #[error("a Web Push message holds {PLAINTEXT_BYTES} bytes at most, and this one has {0}")]
    TooLong(usize),
    /// The cipher refused, or the system gave no random bytes.
    #[error("a Web Push message could not be encrypted")]
    Failed,
}

/// Seals `plaintext` with a fresh key and salt, padded with zeros to `padded` bytes.
pub fn seal(recipient: &Recipient, plaintext: &[u8], padded: usize) -> Result<Vec<u8>, EncryptError> {
    let mut salt = [0; SALT_BYTES];
    getrandom::fill(&mut salt).map_err(|_| EncryptError::Failed)?;
    seal_with(recipient, &fresh_key()?, &salt, plaintext, padded)
}

/// The same with a given key and salt, which must never be used for a second message.
pub fn seal_with(
    recipient: &Recipient,
    sender: &SecretKey,
    salt: &[u8; SALT_BYTES],
    plaintext: &[u8],
    padded: usize,
) -> Result<Vec<u8>, EncryptError> {
    let longest = plaintext.len().max(padded);
    if longest > PLAINTEXT_BYTES {
        return Err(EncryptError::TooLong(longest));
    }
    let own = sender.public_key().to_sec1_point(false);
    let own = own.as_bytes();
    let theirs = recipient.key.to_sec1_point(false);
    let shared = sender.diffie_hellman(&recipient.key);

    let mut info = Vec::with_capacity(14 + 2 * POINT_BYTES);
    info.extend_from_slice(b"WebPush: info\0");
    info.extend_from_slice(theirs.as_bytes());
    info.extend_from_slice(own);
    let secret = expand::<32>(&recipient.auth[..], shared.raw_secret_bytes(), &info)?;
    let key = expand::<16>(salt, &secret[..], b"Content-Encoding: aes128gcm\0")?;
    let nonce = expand::<12>(salt, &secret[..], b"Content-Encoding: nonce\0")?;

    let mut body = Vec::with_capacity(HEADER_BYTES + longest + OVERHEAD_BYTES);
    body.extend_from_slice(salt);
    body.extend_from_slice(&(BODY_BYTES as u32).to_be_bytes());
    body.push(POINT_BYTES as u8);
    body.extend_from_slice(own);
    let mut record = Zeroizing::new(Vec::with_capacity(longest + 1));
    record.extend_from_slice(plaintext);
    record.push(LAST_RECORD);
    record.resize(longest + 1, 0);
    let key = UnboundKey::new(&AES_128_GCM, &key[..]).map_err(|_| EncryptError::Failed)?;
    // The key is derived from a fresh salt, so the one nonce is used once.
    let tag = LessSafeKey::new(key)
        .seal_in_place_separate_tag(Nonce::assume_unique_for_key(*nonce), Aad::empty(), &mut record)
        .map_err(|_| EncryptError::Failed)?;
    body.extend_from_slice(&record);
    body.extend_from_slice(tag.as_ref());
    Ok(body)
}

fn expand<const N: usize>(
    salt: &[u8],
    secret: &[u8],
    info: &[u8],
) -> Result<Zeroizing<[u8; N]>, EncryptError> {
    let mut out = Zeroizing::new([0; N]);
    Hkdf::<Sha256>::new(Some(salt), secret).expand(info, &mut out[..]).map_err(|_| EncryptError::Failed)?;
    Ok(out)
}

fn fresh_key() -> Result<SecretKey, EncryptError> {
    let mut bytes = Zeroizing::new([0; 32]);
    // One in four thousand million draws is no valid scalar; eight such in a row mean that the draws are not random.
    for _ in 0..8 {
        getrandom::fill(&mut bytes[..]).map_err(|_| EncryptError::Failed)?;
        if let Ok(key) = SecretKey::from_slice(&bytes[..]) {
            return Ok(key);
        }
    }
    Err(EncryptError::Failed)
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;

    use super::*;

    fn bytes(text: &str) -> Vec<u8> {
        URL_SAFE_NO_PAD.decode(text).unwrap()
    }

    /// The browser of RFC 8291, Appendix A.
    fn recipient() -> Recipient {
        let point =
            bytes("BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4");
        let auth: [u8; 16] = bytes("BTBZMqHH6r4Tts7J_aSIgg").try_into().unwrap();
        Recipient { key: PublicKey::from_sec1_bytes(&point).unwrap(), auth: auth.into() }
    }

    #[test]
    fn the_worked_example_of_rfc_8291_comes_out_to_the_byte() {
        let sender = SecretKey::from_slice(&bytes("yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw")).unwrap();
        let salt: [u8; 16] = bytes("DGv6ra1nlYgDCS1FRnbzlw").try_into().unwrap();
        let body =
            seal_with(&recipient(), &sender, &salt, b"When I grow up, I want to be a watermelon", 0).unwrap();
        let expected = "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8w\
                        EqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN";
        assert_eq!(URL_SAFE_NO_PAD.encode(body), expected);
    }

    #[test]
    fn padding_makes_all_lengths_alike_and_the_limit_is_exact() {
        let full = vec![7; PLAINTEXT_BYTES];
        assert_eq!(PLAINTEXT_BYTES, 3993);
        assert_eq!(seal(&recipient(), &full, 0).unwrap().len(), BODY_BYTES);
        assert_eq!(seal(&recipient(), b"x", PLAINTEXT_BYTES).unwrap().len(), BODY_BYTES);
        assert_eq!(seal(&recipient(), b"", 0).unwrap().len(), HEADER_BYTES + OVERHEAD_BYTES);
        assert_eq!(seal(&recipient(), &[7; 3994], 0), Err(EncryptError::TooLong(3994)));
        assert_eq!(seal(&recipient(), b"", 3994), Err(EncryptError::TooLong(3994)));
    }

    #[test]
    fn no_two_messages_share_a_salt_or_a_key() {
        let (one, two) = (seal(&recipient(), b"x", 0).unwrap(), seal(&recipient(), b"x", 0).unwrap());
        assert_ne!(one[..16], two[..16]);
        assert_ne!(one[21..86], two[21..86]);
        assert_ne!(one[86..], two[86..]);
    }
}
