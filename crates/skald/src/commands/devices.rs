//! `skald devices`.

use http::Method;
use serde_json::Value;

use crate::cli::{DevicesArgs, DevicesCommand, Target};
use crate::client::{Client, segment};
use crate::failure::{Exit, Failure};
use crate::output::{self, items, text, time};

/// Where the connector serves devices.
pub const DEVICES: &str = "/api/plugin/mobile-connector/devices";
/// The shortest part of a key that names a device.
const SHORTEST: usize = 8;

/// Lists, admits and revokes devices.
pub async fn devices(target: Target, args: DevicesArgs) -> Result<Exit, Failure> {
    let client = Client::new(target)?;
    match args.command {
        None => {
            let devices = client.get(DEVICES).await?;
            if args.json {
                output::json(&devices)?;
            } else {
                let rows: Vec<_> = items(&devices).iter().map(row).collect();
                output::table(&["KEY", "NAME", "STATE", "PLATFORM", "ONLINE", "LAST SEEN", "CODE"], &rows)?;
            }
        }
        Some(DevicesCommand::Authorize { key }) => {
            let key = full_key(&client, &key).await?;
            authorize(&client, &key).await?;
            eprintln!("The device is admitted.");
        }
        Some(DevicesCommand::Revoke { key }) => {
            let key = full_key(&client, &key).await?;
            revoke(&client, &key).await?;
            eprintln!("The device is revoked.");
        }
    }
    Ok(Exit::ok())
}

/// Admits a device.
pub async fn authorize(client: &Client, key: &str) -> Result<(), Failure> {
    client.json(Method::POST, &format!("{DEVICES}/{}/authorize", segment(key)), None).await.map(|_| ())
}

/// Revokes a device, or refuses one that waits.
pub async fn revoke(client: &Client, key: &str) -> Result<(), Failure> {
    client.json(Method::DELETE, &format!("{DEVICES}/{}", segment(key)), None).await.map(|_| ())
}

/// A device's name for people.
pub fn name(device: &Value) -> String {
    let info = device.get("device_info").unwrap_or(&Value::Null);
    [text(device, "name"), text(info, "device_name"), text(info, "model"), text(device, "platform")]
        .into_iter()
        .find(|s| !s.is_empty())
        .unwrap_or("-")
        .to_owned()
}

async fn full_key(client: &Client, part: &str) -> Result<String, Failure> {
    let part = part.to_ascii_lowercase();
    if part.len() < SHORTEST || !part.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(Failure::usage(format!(
            "A device is named by its key, {SHORTEST} characters of it at least: see `skald devices`."
        )));
    }
    let devices = client.get(DEVICES).await?;
    let mut matching = items(&devices).iter().map(|d| text(d, "key")).filter(|k| k.starts_with(&part));
    match (matching.next(), matching.next()) {
        (Some(key), None) => Ok(key.to_owned()),
        (Some(_), Some(_)) => {
            Err(Failure::usage("More than one device begins with that: write more of its key."))
        }
        (None, _) => Err(Failure::failed("There is no such device: see `skald devices`.")),
    }
}

fn row(device: &Value) -> Vec<String> {
    let online = if device.get("online").and_then(Value::as_bool) == Some(true) { "yes" } else { "no" };
    let code = match text(device, "verification_code") {
        "" => "-",
        code => code,
    };
    vec![
        text(device, "key").chars().take(16).collect(),
        name(device),
        text(device, "state").to_owned(),
        text(device, "platform").to_owned(),
        online.to_owned(),
        time(device.get("last_seen").and_then(Value::as_i64)),
        code.to_owned(),
    ]
}
