//! Plugins: their settings, and the routes they serve themselves.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde::Deserialize;
use serde_json::Value;
use skald_core_api::PluginRequest;
use skald_host::PluginInfo;
use utoipa::ToSchema;

use super::schema::PluginDoc;
use crate::auth::{Administer, Caller, Read};
use crate::extract::{Body, Segment, read_body};
use crate::problem::{Problem, ProblemBody};
use crate::state::AppState;

/// Where plugins' own routes begin.
pub(crate) const PREFIX: &str = "/api/plugin/";

fn no_such_plugin() -> Problem {
    Problem::not_found("There is no plugin of that name; list them with `skald plugins`.")
}

/// The plugins.
#[utoipa::path(get, path = "/api/v1/plugins", tag = "plugins", responses((status = 200, body = [PluginDoc])))]
pub(crate) async fn list(State(state): State<AppState>, _: Caller<Read>) -> Json<Vec<PluginInfo>> {
    Json(state.host().plugins().list())
}

/// One plugin.
#[utoipa::path(get, path = "/api/v1/plugins/{id}", tag = "plugins", params(("id" = String, Path)), responses(
    (status = 200, body = PluginDoc),
    (status = 404, body = ProblemBody, content_type = "application/problem+json"),
))]
pub(crate) async fn one(
    State(state): State<AppState>,
    _: Caller<Read>,
    Segment(id): Segment<String>,
) -> Result<Json<PluginInfo>, Problem> {
    state.host().plugins().get(&id).map(Json).ok_or_else(no_such_plugin)
}

/// What to change of a plugin.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PluginUpdate {
    /// Whether it is to run.
    enabled: Option<bool>,
    /// All its settings: what is missing goes back to its default.
    #[schema(value_type = Option<Object>)]
    config: Option<Value>,
}

/// Switch a plugin on or off, and replace its settings.
#[utoipa::path(put, path = "/api/v1/plugins/{id}", tag = "plugins", params(("id" = String, Path)),
    request_body = PluginUpdate,
    responses(
        (status = 200, body = PluginDoc),
        (status = 404, body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, body = ProblemBody, content_type = "application/problem+json"),
    ))]
pub(crate) async fn update(
    State(state): State<AppState>,
    _: Caller<Administer>,
    Segment(id): Segment<String>,
    Body(update): Body<PluginUpdate>,
) -> Result<Json<PluginInfo>, Problem> {
    Ok(Json(state.host().plugins().update(&id, update.enabled, update.config).await?))
}

/// Hands a request below `/api/plugin/{id}/` to the plugin. The plugin checks the permission that its route needs.
pub(crate) async fn forward(
    State(state): State<AppState>,
    caller: Caller<Read>,
    request: Request,
) -> Response {
    match hand_on(&state, caller, request).await {
        Ok(response) => response,
        Err(problem) => problem.into_response(),
    }
}

async fn hand_on(state: &AppState, caller: Caller<Read>, request: Request) -> Result<Response, Problem> {
    let below = request.uri().path().strip_prefix(PREFIX).ok_or_else(Problem::no_such_path)?;
    let mut path = below.split('/').map(decode).collect::<Result<Vec<_>, _>>()?;
    let id = path.remove(0);
    if state.host().plugins().get(&id).is_none() {
        return Err(no_such_plugin());
    }
    let Some(routes) = state.host().plugins().http(&id) else {
        return Err(Problem::unavailable(
            "plugin_not_running",
            "This plugin is not running; switch it on, and see its status with `skald plugins`.",
        ));
    };
    let mut query = BTreeMap::new();
    for (name, value) in form_urlencoded::parse(request.uri().query().unwrap_or_default().as_bytes()) {
        if query.insert(name.into_owned(), value.into_owned()).is_some() {
            return Err(Problem::bad_field("query", "The address bears a parameter twice; give it once."));
        }
    }
    let method = request.method().as_str().to_owned();
    let body = read_body(request).await?;
    let principal = caller.signed.principal;
    let answer = routes.handle(PluginRequest { method, path, query, body, principal }).await;
    let status = StatusCode::from_u16(answer.status)
        .ok()
        .filter(|s| !s.is_informational())
        .ok_or_else(|| Problem::internal(&"a plugin answered with a status that cannot be sent"))?;
    let kind = HeaderValue::try_from(answer.content_type)
        .map_err(|_| Problem::internal(&"a plugin answered with a content type that cannot be sent"))?;
    let mut response = (status, answer.body).into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    Ok(response)
}

fn decode(segment: &str) -> Result<String, Problem> {
    let decoded = percent_encoding::percent_decode_str(segment).decode_utf8();
    decoded.map(|s| s.into_owned()).map_err(|_| Problem::no_such_path())
}
