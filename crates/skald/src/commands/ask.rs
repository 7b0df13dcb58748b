//! `skald approve`, `skald ask` and `skald notify`.

use std::io::IsTerminal;
use std::time::Duration;

use http::Method;
use serde_json::{Map, Value, json};

use crate::cli::{ApproveArgs, AskArgs, Target};
use crate::client::Client;
use crate::failure::{Exit, Failure, REJECTED};
use crate::output::{self, text};
use crate::waiting::{self, Ended};

/// Adds what was given; what was not is left to the host.
pub fn put(body: &mut Map<String, Value>, name: &str, value: Option<impl Into<Value>>) {
    if let Some(value) = value {
        body.insert(name.to_owned(), value.into());
    }
}

/// What every question bears. The key makes a request that is sent twice one item.
pub fn question(timeout: Option<Duration>, label: Option<String>) -> Map<String, Value> {
    let mut body = Map::new();
    body.insert("idempotency_key".to_owned(), uuid::Uuid::new_v4().to_string().into());
    put(&mut body, "expires_in", timeout.map(|t| t.as_secs()));
    put(&mut body, "agent_label", label);
    body
}

/// Where approvals are asked for.
pub const APPROVALS: &str = "/api/v1/inbox/approvals";

/// Whether a status says approved, and why.
pub fn decision(status: &Value) -> (bool, &str) {
    // A rule's decision stands beside the state, a person's within the outcome.
    let outcome = status.get("outcome").unwrap_or(status);
    (text(outcome, "decision") == "approved", text(outcome, "reason"))
}

/// Says on standard error that it was rejected, and why.
pub fn tell_rejected(status: &Value) -> Exit {
    let (_, reason) = decision(status);
    let by = output::clean_line(text(status, "resolved_by"));
    if reason.is_empty() {
        eprintln!("skald: rejected by {by}.");
    } else {
        eprintln!("skald: rejected by {by}: {}", output::clean(reason));
    }
    Exit::Code(REJECTED)
}

/// Asks for approval and waits.
pub async fn approve(target: Target, args: ApproveArgs) -> Result<Exit, Failure> {
    let mut body = question(args.timeout, args.label);
    put(&mut body, "tool_name", Some(args.tool));
    put(&mut body, "summary", Some(args.summary));
    if let Some(text) = args.arguments {
        let arguments: Value = serde_json::from_str(&text).map_err(|e| {
            Failure::usage(format!("--arguments is not JSON (column {}): correct it.", e.column()))
        })?;
        put(&mut body, "arguments", Some(arguments));
    }
    put(&mut body, "detail", args.detail);
    put(&mut body, "session", args.session);
    let mut client = Client::new(target)?;
    match waiting::ask(&mut client, APPROVALS, &Value::Object(body)).await? {
        Ended::Resolved(status) => {
            if args.json {
                output::json(&status)?;
            }
            if decision(&status).0 {
                eprintln!("Approved by {}.", output::clean_line(text(&status, "resolved_by")));
                Ok(Exit::ok())
            } else {
                Ok(tell_rejected(&status))
            }
        }
        Ended::Lapsed(lapse) => {
            if args.json {
                output::json(&json!({"state": lapse.state()}))?;
            }
            Ok(lapse.tell())
        }
    }
}

/// Asks a question, waits and prints the answer.
pub async fn ask(target: Target, args: AskArgs) -> Result<Exit, Failure> {
    let mut body = question(args.timeout, args.label);
    put(&mut body, "question", Some(args.question));
    put(&mut body, "context", args.context);
    if !args.options.is_empty() {
        put(&mut body, "suggested_answers", Some(args.options));
    }
    let mut client = Client::new(target)?;
    match waiting::ask(&mut client, "/api/v1/inbox/clarifications", &Value::Object(body)).await? {
        Ended::Resolved(status) => {
            if args.json {
                output::json(&status)?;
            } else {
                let answer = text(status.get("outcome").unwrap_or(&Value::Null), "answer");
                // A script gets the answer as it was given; a terminal must not be driven by it.
                if std::io::stdout().is_terminal() {
                    output::line(&output::clean(answer))?;
                } else {
                    output::line(answer)?;
                }
            }
            Ok(Exit::ok())
        }
        Ended::Lapsed(lapse) => {
            if args.json {
                output::json(&json!({"state": lapse.state()}))?;
            }
            Ok(lapse.tell())
        }
    }
}

/// Tells the person something.
pub async fn notify(target: Target, title: String, body: String) -> Result<Exit, Failure> {
    let client = Client::new(target)?;
    client.json(Method::POST, "/api/v1/notifications", Some(&json!({"title": title, "body": body}))).await?;
    Ok(Exit::ok())
}
