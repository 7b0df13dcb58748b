//! `skald link` and `skald token`.

use http::Method;
use serde_json::{Value, json};

use crate::cli::{Target, TokenCommand};
use crate::client::{Client, segment};
use crate::failure::{Exit, Failure};
use crate::output::{self, items, text, time};

/// Prints a fresh sign-in link.
pub async fn link(target: Target, json: bool) -> Result<Exit, Failure> {
    let client = Client::new(target)?;
    let link = client.json(Method::POST, "/api/v1/session/links", None).await?;
    if json {
        output::json(&link)?;
    } else {
        output::line(text(&link, "url"))?;
        eprintln!("The link works once, within ten minutes.");
    }
    Ok(Exit::ok())
}

/// API tokens.
pub async fn token(target: Target, command: TokenCommand) -> Result<Exit, Failure> {
    let client = Client::new(target)?;
    match command {
        TokenCommand::Create { name, json } => {
            let made = client.json(Method::POST, "/api/v1/tokens", Some(&json!({"name": name}))).await?;
            if json {
                output::json(&made)?;
            } else {
                output::line(text(&made, "token"))?;
                eprintln!("Keep it: it is shown this once.");
            }
        }
        TokenCommand::List { json } => {
            let tokens = client.get("/api/v1/tokens").await?;
            if json {
                output::json(&tokens)?;
            } else {
                let rows: Vec<_> = items(&tokens).iter().map(row).collect();
                output::table(&["NAME", "CREATED", "LAST USED"], &rows)?;
            }
        }
        TokenCommand::Revoke { name } => {
            client.json(Method::DELETE, &format!("/api/v1/tokens/{}", segment(&name)), None).await?;
            eprintln!("The token is revoked.");
        }
    }
    Ok(Exit::ok())
}

fn row(token: &Value) -> Vec<String> {
    let when = |key: &str| time(token.get(key).and_then(Value::as_i64));
    vec![text(token, "name").to_owned(), when("created_at"), when("last_used")]
}
