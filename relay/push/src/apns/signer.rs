//! Provider tokens: made as rarely as Apple allows and as often as it asks for.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::json;
use zeroize::Zeroizing;

use crate::bridges::SetupError;
use crate::http::file_error;
use crate::jwt::{SigningKey, Unsigned};
use crate::push::UnixMillis;
use crate::settings::ApnsSettings;

/// Apple takes a token for an hour and a new one every twenty minutes at most. Half-way between, either clock may be off.
const RENEW: Duration = Duration::from_secs(40 * 60);
/// Before this age a token is not replaced, or Apple answers `TooManyProviderTokenUpdates`.
const SOONEST: Duration = Duration::from_secs(20 * 60);

pub(super) struct Signer {
    key: SigningKey,
    key_id: String,
    team_id: String,
    current: Mutex<Option<Signed>>,
}

struct Signed {
    token: Zeroizing<String>,
    at: UnixMillis,
}

impl Signer {
    pub(super) fn load(settings: &ApnsSettings) -> Result<Self, SetupError> {
        const KEY: &str = "push.apns.key";
        for (setting, value) in
            [("push.apns.key_id", &settings.key_id), ("push.apns.team_id", &settings.team_id)]
        {
            if value.len() != 10 || !value.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
                let problem = "must be the 10 letters and digits that Apple shows for it".to_owned();
                return Err(SetupError::Value { setting, problem });
            }
        }
        let path = &settings.key;
        let pem = Zeroizing::new(std::fs::read(path).map_err(|cause| file_error(KEY, path, cause))?);
        let key = SigningKey::es256(&pem).ok_or_else(|| SetupError::Content {
            setting: KEY,
            path: path.clone(),
            problem: "holds no P-256 private key: it must be the .p8 file that Apple gave for download"
                .to_owned(),
        })?;
        Ok(Self::new(key, settings.key_id.clone(), settings.team_id.clone()))
    }

    fn new(key: SigningKey, key_id: String, team_id: String) -> Self {
        Self { key, key_id, team_id, current: Mutex::new(None) }
    }

    /// The token to use now.
    pub(super) fn token(&self, now: UnixMillis) -> Result<Zeroizing<String>, Unsigned> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(signed) = current.as_ref().filter(|signed| signed.is_good(now)) {
            return Ok(signed.token.clone());
        }
        let claims = json!({"iss": self.team_id, "iat": now.secs()});
        let token = self.key.sign(&[("kid", &self.key_id)], &claims)?;
        *current = Some(Signed { token: token.clone(), at: now });
        Ok(token)
    }

    /// Apple called this token expired. True: another one can be had now.
    pub(super) fn refused(&self, token: &str, now: UnixMillis) -> bool {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(signed) = current.as_ref() else { return true };
        if *signed.token != token {
            // Someone else has replaced it meanwhile.
            return true;
        }
        if signed.at.until(now) < SOONEST {
            return false;
        }
        *current = None;
        true
    }
}

impl Signed {
    fn is_good(&self, now: UnixMillis) -> bool {
        // A clock that was set back by a minute or more makes a token from the future, which Apple refuses.
        now.until(self.at) < Duration::from_secs(60) && self.at.until(now) < RENEW
    }
}

#[cfg(test)]
mod tests {
    use ring::rand::SystemRandom;
    use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};

    use super::*;

    const MINUTE: i64 = 60_000;

    fn signer() -> Signer {
        let random = SystemRandom::new();
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        let key =
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8.as_ref(), &random).unwrap();
        Signer::new(SigningKey::Es256(Box::new(key)), "KEY0123456".to_owned(), "TEAM012345".to_owned())
    }

    fn at(signer: &Signer, minutes: i64) -> String {
        signer.token(UnixMillis(minutes * MINUTE)).unwrap().to_string()
    }

    #[test]
    fn a_token_serves_for_forty_minutes_and_is_then_renewed_once() {
        let signer = signer();
        let first = at(&signer, 0);
        assert_eq!(at(&signer, 39), first);
        let second = at(&signer, 40);
        assert_ne!(second, first);
        assert_eq!(at(&signer, 79), second);
    }

    #[test]
    fn a_token_called_expired_is_replaced_but_never_within_twenty_minutes() {
        let signer = signer();
        let first = at(&signer, 0);
        assert!(!signer.refused(&first, UnixMillis(19 * MINUTE)));
        assert_eq!(at(&signer, 19), first);
        assert!(signer.refused(&first, UnixMillis(20 * MINUTE)));
        let second = at(&signer, 20);
        assert_ne!(second, first);
        assert!(signer.refused(&first, UnixMillis(21 * MINUTE)), "it has been replaced already");
        assert_eq!(at(&signer, 21), second);
    }

    #[test]
    fn a_clock_that_was_set_back_makes_a_new_token() {
        let signer = signer();
        let first = at(&signer, 100);
        assert_ne!(at(&signer, 10), first);
    }
}
