//! The API's description, generated from the code.

use bytes::Bytes;
use serde_json::{Map, Value, json};
use skald_host::Host;
use utoipa::openapi::security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::{Modify, OpenApi};

use crate::api::plugins::PREFIX;
use crate::auth::COOKIE;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Skald",
        description = "The host's API. Errors are problem details (RFC 9457). Times are unix milliseconds.",
        license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0"),
    ),
    security(("token" = []), ("session" = [])),
    modifiers(&Schemes),
)]
pub(crate) struct Document;

struct Schemes;

impl Modify for Schemes {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let components = document.components.get_or_insert_default();
        components.add_security_scheme(
            "token",
            SecurityScheme::Http(HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build()),
        );
        components
            .add_security_scheme("session", SecurityScheme::ApiKey(ApiKey::Cookie(ApiKeyValue::new(COOKIE))));
    }
}

/// The whole document: the host's own calls and those of its plugins.
pub(crate) fn write(document: &utoipa::openapi::OpenApi, host: &Host) -> Result<Bytes, serde_json::Error> {
    let mut document = serde_json::to_value(document)?;
    for (id, theirs) in host.plugins().openapi_paths() {
        merge(&mut document, &id, theirs);
    }
    serde_json::to_vec(&document).map(Bytes::from)
}

fn merge(document: &mut Value, id: &str, theirs: Value) {
    let Value::Object(theirs) = theirs else { return };
    let Some(document) = document.as_object_mut() else { return };
    let paths = document.entry("paths").or_insert_with(|| json!({}));
    let Some(paths) = paths.as_object_mut() else { return };
    for (below, mut item) in theirs {
        tag(&mut item, id);
        // A plugin describes what lies below its own prefix and nothing else.
        paths.insert(format!("{PREFIX}{id}/{}", below.trim_start_matches('/')), item);
    }
}

/// Puts a plugin's operations under its own heading, where it has not done so itself.
fn tag(item: &mut Value, id: &str) {
    const METHODS: [&str; 5] = ["get", "put", "post", "delete", "patch"];
    let operations: Option<&mut Map<String, Value>> = item.as_object_mut();
    for (method, operation) in operations.into_iter().flatten() {
        if METHODS.contains(&method.as_str())
            && let Some(operation) = operation.as_object_mut()
        {
            operation.entry("tags").or_insert_with(|| json!([id]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugins_paths_stand_below_its_own_prefix_whatever_it_says() {
        let mut document = json!({"paths": {"/api/v1/inbox": {}}});
        let theirs =
            json!({"status": {"get": {}}, "/devices/{key}": {"delete": {"tags": ["own"]}, "parameters": []}});
        merge(&mut document, "phone", theirs);
        assert_eq!(document["paths"]["/api/plugin/phone/status"]["get"]["tags"], json!(["phone"]));
        assert_eq!(document["paths"]["/api/plugin/phone/devices/{key}"]["delete"]["tags"], json!(["own"]));
        assert_eq!(document["paths"].as_object().map(Map::len), Some(3));
    }
}
