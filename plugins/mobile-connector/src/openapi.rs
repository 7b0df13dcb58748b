//! The routes in the host's OpenAPI document.

use serde_json::{Value, json};

fn problem(text: &str) -> Value {
    json!({"description": text, "content": {"application/problem+json": {"schema": {"type": "object"}}}})
}

fn answer(text: &str, schema: Value) -> Value {
    json!({"description": text, "content": {"application/json": {"schema": schema}}})
}

fn body(schema: Value, required: bool) -> Value {
    json!({"required": required, "content": {"application/json": {"schema": schema}}})
}

fn parameter(name: &str, place: &str, text: &str) -> Value {
    json!({"name": name, "in": place, "required": true, "description": text, "schema": {"type": "string"}})
}

fn device() -> Value {
    json!({
        "type": "object",
        "required": ["key", "name", "state", "platform", "device_info", "created_at", "last_seen", "online"],
        "properties": {
            "key": {"type": "string", "description": "Ed25519 public key, lowercase hex"},
            "name": {"type": "string"},
            "state": {"type": "string", "enum": ["pending", "authorized"]},
            "platform": {"type": "string", "enum": ["ios", "android", "web", "desktop", "unknown"]},
            "device_info": {"type": ["object", "null"], "description": "What the device says of itself"},
            "verification_code": {"type": "string", "description": "Six digits to compare, while it is pending"},
            "created_at": {"type": "integer", "description": "Unix milliseconds"},
            "last_seen": {"type": ["integer", "null"], "description": "Unix milliseconds"},
            "online": {"type": "boolean"}
        }
    })
}

/// The `paths` object, keys below `/api/plugin/mobile-connector/`.
pub(crate) fn paths() -> Value {
    let key = parameter("key", "path", "The device's key");
    let code = |place| parameter("code", place, "The pairing's code");
    let no_device = problem("No such device");
    let denied = problem("Not from a device");
    json!({
        "status": {"get": {
            "summary": "Where the link to the relay stands",
            "responses": {"200": answer("The status", json!({
                "type": "object",
                "required": ["state", "relay_url", "namespace_id", "since"],
                "properties": {
                    "state": {"type": "string", "enum": ["idle", "connecting", "connected", "waiting", "stopped"]},
                    "relay_url": {"type": "string"},
                    "namespace_id": {"type": ["string", "null"]},
                    "last_error": {"type": "string"},
                    "since": {"type": "integer"}
                }
            }))}
        }},
        "pairing": {"post": {
            "summary": "Open a pairing window in place of any other",
            "requestBody": body(json!({"type": "object", "properties": {"ttl": {"type": "integer", "minimum": 1, "maximum": 600}}}), false),
            "responses": {
                "200": answer("The window", json!({
                    "type": "object",
                    "required": ["code", "qr_url", "expires_at"],
                    "properties": {"code": {"type": "string"}, "qr_url": {"type": "string"}, "expires_at": {"type": "integer"}}
                })),
                "403": denied, "409": problem("No relay is configured"), "422": problem("The ttl is out of range"), "503": problem("The relay is not reached")
            }
        }},
        "pairing/{code}": {"get": {
            "summary": "What became of a pairing window",
            "parameters": [code("path")],
            "responses": {
                "200": answer("Its state", json!({
                    "type": "object",
                    "required": ["state"],
                    "properties": {"state": {"type": "string", "enum": ["open", "paired", "expired", "superseded"]}, "device": device()}
                })),
                "404": problem("No such code")
            }
        }},
        "pairingqrcode": {"get": {
            "summary": "The picture of a pairing window: its QR while it is open, words afterwards",
            "parameters": [code("query")],
            "responses": {
                "200": {"description": "The picture", "content": {"image/png": {"schema": {"type": "string", "format": "binary"}}}},
                "403": denied, "404": problem("No such code")
            }
        }},
        "devices": {"get": {
            "summary": "The paired devices",
            "responses": {"200": answer("The devices", json!({"type": "array", "items": device()}))}
        }},
        "devices/{key}": {
            "put": {
                "summary": "Name a device; an empty name gives its own back",
                "parameters": [key],
                "requestBody": body(json!({"type": "object", "required": ["name"], "properties": {"name": {"type": "string", "maxLength": 60}}}), true),
                "responses": {"200": answer("The device", device()), "403": denied, "404": no_device, "422": problem("The name does not fit")}
            },
            "delete": {
                "summary": "Revoke a device, or refuse one that waits",
                "parameters": [key],
                "responses": {"204": {"description": "It is gone"}, "403": denied, "404": no_device}
            }
        },
        "devices/{key}/authorize": {"post": {
            "summary": "Admit a device",
            "parameters": [key],
            "responses": {"200": answer("The device", device()), "403": denied, "404": no_device}
        }}
    })
}
