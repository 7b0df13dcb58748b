//! One order: from an account to a certificate.

use std::sync::Arc;
use std::time::Duration;

use instant_acme::{
    Account, AuthorizationStatus, ChallengeType, Identifier, NewAccount, NewOrder, Order, OrderStatus,
    RetryPolicy,
};
use rcgen::{CertificateParams, DistinguishedName, KeyPair};

use super::super::TlsError;
use super::super::certificate::Certificate;
use super::challenge::Challenges;
use super::http::Http;
use super::kept::Kept;
use crate::settings::Acme;

/// How long the authority may take to look, and to sign.
const PATIENCE: RetryPolicy = RetryPolicy::new()
    .initial_delay(Duration::from_millis(250))
    .backoff(1.6)
    .timeout(Duration::from_secs(90));

/// Why no certificate was obtained.
#[derive(Debug, thiserror::Error)]
pub(super) enum OrderError {
    #[error("the certificate authority does not do what it is asked: {0}")]
    Authority(#[from] instant_acme::Error),
    #[error(
        "the certificate authority could not see that {name} is this relay ({reason}): port 443 of {name} must reach \
         this relay itself, with no proxy that ends TLS in between"
    )]
    Unproved { name: String, reason: String },
    #[error(
        "the certificate authority offers no tls-alpn-01 challenge for {0}: use another authority, or files"
    )]
    NoChallenge(String),
    #[error("a key or request could not be made: {0}")]
    Crypto(#[from] rcgen::Error),
    #[error(transparent)]
    Kept(#[from] TlsError),
}

/// Gets a certificate for all domains, and keeps it.
pub(super) async fn obtain(
    settings: &Acme,
    kept: &Kept,
    http: &Http,
    challenges: &Arc<Challenges>,
) -> Result<Certificate, OrderError> {
    let account = account(settings, kept, http).await?;
    let names: Vec<_> = settings.domains.iter().map(|domain| domain.to_ascii_lowercase()).collect();
    let identifiers: Vec<_> = names.iter().cloned().map(Identifier::Dns).collect();
    let mut order = account.new_order(&NewOrder::new(&identifiers)).await?;

    let mut offered = Vec::new();
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization = authorization?;
        if authorization.status == AuthorizationStatus::Valid {
            continue;
        }
        let name = authorization.identifier().to_string();
        let mut challenge = authorization
            .challenge(ChallengeType::TlsAlpn01)
            .ok_or_else(|| OrderError::NoChallenge(name.clone()))?;
        // Offered first: the authority may look before it has answered.
        offered.push(challenges.offer(&name, challenge.key_authorization().digest().as_ref())?);
        challenge.set_ready().await?;
    }
    let ready = order.poll_ready(&PATIENCE).await;
    drop(offered);
    if !matches!(ready, Ok(OrderStatus::Ready)) {
        return Err(match unproved(&mut order).await {
            Some(error) => error,
            None => ready.err().unwrap_or(instant_acme::Error::Str("an order that is ready")).into(),
        });
    }

    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name = DistinguishedName::new();
    order.finalize_csr(params.serialize_request(&key)?.der()).await?;
    let chain = order.poll_certificate(&PATIENCE).await?;
    Ok(kept.keep_certificate(&chain, &key.serialize_pem())?)
}

async fn account(settings: &Acme, kept: &Kept, http: &Http) -> Result<Account, OrderError> {
    let builder = || Account::builder_with_http(Box::new(http.clone()));
    if let Some(credentials) = kept.account()? {
        return Ok(builder().from_credentials(credentials).await?);
    }
    let contact: Vec<&str> = settings.contact.iter().map(String::as_str).collect();
    let new = NewAccount { contact: &contact, terms_of_service_agreed: true, only_return_existing: false };
    let (account, credentials) = builder().create(&new, settings.directory.clone(), None).await?;
    kept.keep_account(&credentials)?;
    Ok(account)
}

/// The reason that the authority gives for an order that failed.
async fn unproved(order: &mut Order) -> Option<OrderError> {
    let mut authorizations = order.authorizations();
    while let Some(Ok(mut authorization)) = authorizations.next().await {
        let Ok(state) = authorization.refresh().await else { continue };
        let name = state.identifier().to_string();
        if let Some(problem) = state.challenges.iter().find_map(|challenge| challenge.error.as_ref()) {
            let reason = problem.detail.clone().or_else(|| problem.r#type.clone()).unwrap_or_default();
            return Some(OrderError::Unproved { name, reason });
        }
    }
    None
}
