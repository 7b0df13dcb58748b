//! `skald status`.

use serde_json::{Value, json};

use super::plugins::standing;
use crate::cli::Target;
use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::output::{self, items, text};

/// Shows whether the host runs and how it fares.
pub async fn status(target: Target, json: bool) -> Result<Exit, Failure> {
    let client = Client::new(target)?;
    let session = client.get("/api/v1/session").await?;
    let inbox = client.get("/api/v1/inbox").await?;
    let plugins = client.get("/api/v1/plugins").await?;
    let url = format!("http://{}", client.authority());
    if json {
        let plugins: Vec<Value> = items(&plugins)
            .iter()
            .map(|p| json!({"id": p["id"], "enabled": p["enabled"], "status": p["status"]}))
            .collect();
        output::json(&json!({
            "url": url,
            "version": session["version"],
            "badge": inbox["badge"],
            "plugins": plugins,
        }))?;
        return Ok(Exit::ok());
    }
    output::line(&format!("Skald {} runs at {url}.", output::clean_line(text(&session, "version"))))?;
    output::line(&format!("Waiting in the Inbox: {}", inbox["badge"]))?;
    for plugin in items(&plugins) {
        let (state, message) = standing(plugin);
        let line = format!(
            "{}: {state}{}{message}",
            text(plugin, "name"),
            if message.is_empty() { "" } else { ": " }
        );
        output::line(&output::clean_line(&line))?;
    }
    Ok(Exit::ok())
}
