//! `skald plugins`.

use http::Method;
use serde_json::{Map, Value, json};

use crate::cli::{PluginsArgs, PluginsCommand, Target};
use crate::client::{Client, segment};
use crate::failure::{Exit, Failure};
use crate::output::{self, items, text};

/// Lists, switches and configures plugins.
pub async fn plugins(target: Target, args: PluginsArgs) -> Result<Exit, Failure> {
    let client = Client::new(target)?;
    match args.command {
        None => {
            let plugins = client.get("/api/v1/plugins").await?;
            if args.json {
                output::json(&plugins)?;
            } else {
                let rows: Vec<_> = items(&plugins).iter().map(row).collect();
                output::table(&["ID", "ENABLED", "STATE", "MESSAGE"], &rows)?;
            }
        }
        Some(PluginsCommand::Enable { id }) => switch(&client, &id, true).await?,
        Some(PluginsCommand::Disable { id }) => switch(&client, &id, false).await?,
        Some(PluginsCommand::Config { id, pairs, json }) => config(&client, &id, &pairs, json).await?,
    }
    Ok(Exit::ok())
}

fn place(id: &str) -> String {
    format!("/api/v1/plugins/{}", segment(id))
}

/// State and message of a plugin, for people.
pub fn standing(plugin: &Value) -> (String, String) {
    let status = plugin.get("status").unwrap_or(&Value::Null);
    (text(status, "state").to_owned(), text(status, "message").to_owned())
}

fn row(plugin: &Value) -> Vec<String> {
    let enabled = if plugin.get("enabled").and_then(Value::as_bool) == Some(true) { "yes" } else { "no" };
    let (state, message) = standing(plugin);
    vec![text(plugin, "id").to_owned(), enabled.to_owned(), state, message]
}

async fn switch(client: &Client, id: &str, enabled: bool) -> Result<(), Failure> {
    let plugin = client.json(Method::PUT, &place(id), Some(&json!({"enabled": enabled}))).await?;
    tell(&plugin)
}

/// Says where the plugin stands now; one that failed to start is a failure of the command.
fn tell(plugin: &Value) -> Result<(), Failure> {
    let (state, message) = standing(plugin);
    let id = text(plugin, "id");
    let line =
        if message.is_empty() { format!("{id} is {state}.") } else { format!("{id} is {state}: {message}") };
    if state == "failed" {
        return Err(Failure::failed(line));
    }
    eprintln!("{}", output::clean(&line));
    Ok(())
}

async fn config(client: &Client, id: &str, pairs: &[String], json: bool) -> Result<(), Failure> {
    let plugin = client.get(&place(id)).await?;
    let config = plugin.get("config").and_then(Value::as_object).cloned().unwrap_or_default();
    if pairs.is_empty() {
        return if json { output::json(&Value::Object(config)) } else { show(&config) };
    }
    let config = changed(config, plugin.get("schema").unwrap_or(&Value::Null), pairs)?;
    let plugin = client.json(Method::PUT, &place(id), Some(&json!({"config": config}))).await?;
    if json {
        output::json(plugin.get("config").unwrap_or(&Value::Null))?;
    }
    tell(&plugin)
}

fn show(config: &Map<String, Value>) -> Result<(), Failure> {
    for (key, value) in config {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        output::line(&format!("{key}={}", output::clean_line(&value)))?;
    }
    Ok(())
}

/// The settings with the pairs put in, each read as its schema says.
fn changed(
    mut config: Map<String, Value>,
    schema: &Value,
    pairs: &[String],
) -> Result<Map<String, Value>, Failure> {
    let none = Map::new();
    let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&none);
    for pair in pairs {
        let Some((key, value)) = pair.split_once('=') else {
            return Err(Failure::usage(format!("`{pair}` is not a setting: write KEY=VALUE.")));
        };
        let Some(property) = properties.get(key) else {
            let known: Vec<_> = properties.keys().map(String::as_str).collect();
            return Err(Failure::usage(format!(
                "There is no setting `{key}`: the settings are {}.",
                known.join(", ")
            )));
        };
        match read(property, value) {
            Ok(Some(value)) => config.insert(key.to_owned(), value),
            // An empty value takes a setting away that may be missing.
            Ok(None) => config.remove(key),
            Err(kind) => {
                return Err(Failure::usage(format!("`{key}` must be {kind}: write it as {key}=VALUE.")));
            }
        };
    }
    Ok(config)
}

fn read(property: &Value, value: &str) -> Result<Option<Value>, &'static str> {
    let kinds: Vec<&str> = match property.get("type") {
        Some(Value::String(kind)) => vec![kind],
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => vec![],
    };
    if value.is_empty() && kinds.contains(&"null") {
        return Ok(None);
    }
    if kinds.contains(&"string") {
        return Ok(Some(value.into()));
    }
    if kinds.contains(&"boolean") {
        return match value {
            "true" | "yes" | "on" => Ok(Some(true.into())),
            "false" | "no" | "off" => Ok(Some(false.into())),
            _ => Err("true or false"),
        };
    }
    if kinds.contains(&"integer") {
        return value.parse::<i64>().map(|n| Some(n.into())).map_err(|_| "a whole number");
    }
    serde_json::from_str(value).map(Some).map_err(|_| "JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(pairs: &[&str]) -> Result<Value, String> {
        let schema = json!({"properties": {
            "url": {"type": "string"}, "ca": {"type": ["string", "null"]}, "ttl": {"type": "integer"},
            "strict": {"type": "boolean"}, "list": {"type": "array"},
        }});
        let config = json!({"url": "old", "ca": "file", "ttl": 1}).as_object().cloned().unwrap_or_default();
        let pairs: Vec<String> = pairs.iter().map(|s| (*s).to_owned()).collect();
        changed(config, &schema, &pairs).map(Value::Object).map_err(|f| {
            assert_eq!(f.code, 2);
            f.text
        })
    }

    #[test]
    fn settings_are_read_as_their_schema_says() {
        assert_eq!(
            set(&["url=wss://a?b=c", "ttl=300", "strict=no", "list=[1]", "ca="]).unwrap(),
            json!({"url": "wss://a?b=c", "ttl": 300, "strict": false, "list": [1]})
        );
        assert_eq!(set(&["url="]).unwrap()["url"], "");
        assert_eq!(set(&["url=300"]).unwrap()["url"], "300");
    }

    #[test]
    fn wrong_settings_are_named() {
        assert!(set(&["ttl"]).unwrap_err().contains("KEY=VALUE"));
        assert!(set(&["tll=3"]).unwrap_err().contains("ttl"));
        assert!(set(&["ttl=soon"]).unwrap_err().contains("whole number"));
        assert!(set(&["strict=maybe"]).unwrap_err().contains("true or false"));
    }
}
