//! Asks the host how an item ended. An Inbox without the item says only that it is over; another surface may have been
//! quicker. The host's pages know more, and a device may read them through a pipe.

use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::time::timeout;

use crate::session::Session;
use crate::text::one_line;
use crate::wire::{Reply, Request};

/// A person waits for this; without an answer by then the Inbox has the last word.
const LIMIT: Duration = Duration::from_secs(6);
const MAX_HEAD: u64 = 64 * 1024;
const MAX_BODY: usize = 4 * 1024 * 1024;

/// How an item ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Truth {
    /// By this device.
    Ours,
    /// By somebody or something else, for people.
    Other(String),
}

/// Finds out how `request_id` ended, if the host can be asked.
pub async fn of(session: &Session, request_id: &str) -> Option<Truth> {
    timeout(LIMIT, ask(session, request_id)).await.ok()?
}

async fn ask(session: &Session, request_id: &str) -> Option<Truth> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if request_id.is_empty() || !request_id.chars().all(plain) {
        return None;
    }
    let mut conversation = session.converse().await.ok()?;
    conversation.say(&Request::Pipe).await.ok()?;
    let Ok(Some(Reply::Ready { .. })) = conversation.answer().await else { return None };
    let (mut reader, mut writer) = conversation.split();
    let mut get = async |path: &str| -> Option<Value> {
        // The address an existing app listens on; the host lets any loopback address in through a pipe.
        let head =
            format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1:50001\r\nAccept: application/json\r\n\r\n");
        writer.write_all(head.as_bytes()).await.ok()?;
        json(&mut reader).await
    };
    let me = get("/api/v1/session").await?;
    let request = get(&format!("/api/v1/inbox/requests/{request_id}")).await?;
    judge(&me, &request)
}

/// Reads one answer with a length, and its JSON where it went well.
async fn json(reader: &mut BufReader<impl tokio::io::AsyncRead + Unpin>) -> Option<Value> {
    let mut head = reader.take(MAX_HEAD);
    let mut line = String::new();
    head.read_line(&mut line).await.ok()?;
    let ok = line.split(' ').nth(1)? == "200";
    let mut length = None;
    loop {
        line.clear();
        if head.read_line(&mut line).await.ok()? == 0 {
            return None;
        }
        let field = line.trim_end();
        if field.is_empty() {
            break;
        }
        let (name, value) = field.split_once(':')?;
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse::<usize>().ok();
        }
    }
    let mut body = vec![0; length.filter(|l| *l <= MAX_BODY)?];
    reader.read_exact(&mut body).await.ok()?;
    if ok { serde_json::from_slice(&body).ok() } else { None }
}

fn judge(me: &Value, request: &Value) -> Option<Truth> {
    let name = me.pointer("/principal/name").and_then(Value::as_str)?;
    let by = request.get("resolved_by").and_then(Value::as_str);
    let decision = request.pointer("/outcome/decision").and_then(Value::as_str);
    Some(match request.get("state").and_then(Value::as_str)? {
        "resolved" if by == Some(format!("device:{name}").as_str()) => Truth::Ours,
        "resolved" => {
            let who = by.map_or_else(|| "elsewhere".to_owned(), |by| format!("by {}", one_line(by)));
            Truth::Other(match decision {
                Some(decision) => format!("it was {} {who}", one_line(decision)),
                None => format!("it was answered {who}"),
            })
        }
        "expired" => Truth::Other("it had lapsed".into()),
        "cancelled" => Truth::Other("it was withdrawn".into()),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn who_ended_an_item_is_told_apart() {
        let me = json!({"principal": {"kind": "device", "name": "phone"}});
        let by =
            |by: &str| json!({"state": "resolved", "resolved_by": by, "outcome": {"decision": "approved"}});
        assert_eq!(judge(&me, &by("device:phone")), Some(Truth::Ours));
        assert_eq!(judge(&me, &by("web")), Some(Truth::Other("it was approved by web".into())));
        assert_eq!(judge(&me, &json!({"state": "expired"})), Some(Truth::Other("it had lapsed".into())));
        assert_eq!(judge(&me, &json!({"state": "pending"})), None);
        assert_eq!(judge(&json!({}), &by("web")), None);
    }

    #[tokio::test]
    async fn answers_are_read_one_after_the_other_and_failures_are_no_answer() {
        let two = b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n{\"a\":1}HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\n{}";
        let mut reader = BufReader::new(&two[..]);
        assert_eq!(json(&mut reader).await, Some(json!({"a": 1})));
        assert_eq!(json(&mut reader).await, None);
        assert_eq!(json(&mut BufReader::new(&b"HTTP/1.1 200 OK\r\n\r\n"[..])).await, None);
        assert_eq!(json(&mut BufReader::new(&b"nonsense"[..])).await, None);
    }
}
