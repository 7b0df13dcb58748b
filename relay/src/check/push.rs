//! Push providers: whether their keys can be used, and whether one of them takes a push.

use std::path::Path;

use skald_relay_common::frame::Platform;
use skald_relay_common::ids::{NamespaceId, PublicKey};
use skald_relay_push::{Bridges, Content, Push, PushSettings, Token, UnixMillis, Verdict, WallClock};
use sqlx::Connection as _;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};

use super::{Findings, sentence};
use crate::settings::Settings;
use crate::store::DATABASE;

const ABOUT: &str = "push";
/// How long a provider may try to deliver the push.
const WORTH_MS: i64 = 60 * 60 * 1000;

pub(super) fn check(settings: &Settings, findings: &mut Findings) {
    if settings.push.is_empty() {
        let text =
            "No push provider is set up, so devices that are away are not woken: see the section push.";
        return findings.warning(ABOUT, text);
    }
    let (all, data) = (&settings.push, &settings.data);
    let none =
        || PushSettings { apns: None, fcm: None, webpush: None, ntfy: None, gateway: None, ..all.clone() };
    // Each by itself, so that one that is wrong does not hide another.
    let alone = [
        ("Apple's service", all.apns.clone().map(|own| PushSettings { apns: Some(own), ..none() })),
        ("Google's service", all.fcm.clone().map(|own| PushSettings { fcm: Some(own), ..none() })),
        ("Web Push", all.webpush.clone().map(|own| PushSettings { webpush: Some(own), ..none() })),
        ("ntfy", all.ntfy.clone().map(|own| PushSettings { ntfy: Some(own), ..none() })),
        ("the push gateway", all.gateway.clone().map(|own| PushSettings { gateway: Some(own), ..none() })),
    ];
    for (name, own) in alone {
        let Some(own) = own else { continue };
        if own.webpush.is_some() && !data.join(skald_relay_push::webpush::vapid::KEY_FILE).exists() {
            findings.fine(ABOUT, "The key for Web Push is not there yet: the first start makes it.");
            continue;
        }
        match Bridges::set_up(&own, data, &WallClock::system()) {
            Ok(_) => findings.fine(ABOUT, format!("The settings and keys for {name} can be used.")),
            Err(error) => findings.problem(ABOUT, sentence(&error)),
        }
    }
}

/// Wakes one device as the relay would. `wanted` is `NAMESPACE:DEVICE`, each as the log shows it or longer.
pub(super) async fn test(settings: &Settings, wanted: &str, findings: &mut Findings) {
    let device = match device(&settings.data, wanted).await {
        Ok(device) => device,
        Err(why) => return findings.problem(ABOUT, why),
    };
    let clock = WallClock::system();
    let bridges = match Bridges::set_up(&settings.push, &settings.data, &clock) {
        Ok(bridges) => bridges,
        Err(error) => return findings.problem(ABOUT, sentence(&error)),
    };
    let expires = UnixMillis(clock.now().0.saturating_add(WORTH_MS));
    let push = Push { expires, ..device };
    let verdict = bridges.send(&push).await;
    let about = format!("{} on {}", push.device.short(), push.platform.name());
    match verdict {
        Verdict::Accepted => findings.fine(ABOUT, format!("The provider has taken the test push to {about}.")),
        Verdict::TokenDead { .. } => findings.problem(
            ABOUT,
            format!("The provider says that the token of {about} is dead: the device registers another when it connects."),
        ),
        Verdict::Later { .. } => {
            findings.warning(ABOUT, format!("The provider wants fewer pushes to {about}: try again later."));
        }
        Verdict::Refused { reason, .. } => findings.problem(
            ABOUT,
            format!("The provider refuses the test push to {about} ({reason}): check the keys and the app's identifier."),
        ),
        Verdict::Unreachable { reason } => findings.problem(
            ABOUT,
            format!("The provider for {about} cannot be reached ({reason}): check the network and firewall."),
        ),
        Verdict::NoProvider => {
            findings.problem(ABOUT, format!("No provider is set up that reaches {about}: see the section push."));
        }
        other => findings.problem(ABOUT, format!("The provider did not take the test push to {about} ({other:?}).")),
    }
}

type Row = (Vec<u8>, Vec<u8>, i64, Option<String>);

/// The one device that is meant.
async fn device(data: &Path, wanted: &str) -> Result<Push, String> {
    let hex =
        |text: &str| text.len() >= 8 && text.len() <= 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let Some((namespace, device)) = wanted.split_once(':').filter(|(a, b)| hex(a) && hex(b)) else {
        return Err(format!(
            "{wanted:?} names no device: give NAMESPACE:DEVICE, each with at least the 8 digits that the log shows."
        ));
    };
    let options = SqliteConnectOptions::new().filename(data.join(DATABASE)).read_only(true);
    let found: Result<Vec<Row>, sqlx::Error> = async {
        let mut db = SqliteConnection::connect_with(&options).await?;
        let rows = sqlx::query_as(
            "SELECT namespace, key, platform, push_token FROM clients \
             WHERE lower(hex(namespace)) LIKE ? || '%' AND lower(hex(key)) LIKE ? || '%' LIMIT 2",
        )
        .bind(namespace.to_ascii_lowercase())
        .bind(device.to_ascii_lowercase())
        .fetch_all(&mut db)
        .await?;
        db.close().await?;
        Ok(rows)
    }
    .await;
    let mut rows = found
        .map_err(|error| format!("The database cannot be read ({error}): run this as the relay's user."))?;
    if rows.len() > 1 {
        return Err(format!("{wanted} names more than one device: give more digits."));
    }
    let Some((namespace, key, platform, token)) = rows.pop() else {
        return Err(format!("The relay knows no device {wanted}."));
    };
    let Some(token) = token else {
        return Err(format!("The device {wanted} has told the relay no push token."));
    };
    let broken = || "The database holds a device of the wrong form: restore a backup.".to_owned();
    Ok(Push {
        namespace: NamespaceId::try_from(namespace.as_slice()).map_err(|_| broken())?,
        device: PublicKey::try_from(key.as_slice()).map_err(|_| broken())?,
        platform: i32::try_from(platform).ok().and_then(Platform::from_code).ok_or_else(broken)?,
        token: Token::new(token),
        expires: UnixMillis(0),
        content: Content::Wake,
    })
}
