//! The host's own settings, and bypasses.

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use skald_host::{Bypass, Settings, SettingsUpdate};

use super::schema::{BypassDoc, SettingsDoc, SettingsUpdateDoc};
use crate::auth::{Administer, Caller, Read};
use crate::extract::{Body, Segment};
use crate::problem::{Problem, ProblemBody};
use crate::state::AppState;

/// The host's own settings.
#[utoipa::path(get, path = "/api/v1/settings", tag = "settings", responses((status = 200, body = SettingsDoc)))]
pub(crate) async fn settings(State(state): State<AppState>, _: Caller<Read>) -> Json<Settings> {
    Json(state.host().settings().current())
}

/// Change the host's own settings.
#[utoipa::path(put, path = "/api/v1/settings", tag = "settings", request_body = SettingsUpdateDoc, responses(
    (status = 200, body = SettingsDoc),
    (status = 422, body = ProblemBody, content_type = "application/problem+json"),
))]
pub(crate) async fn change_settings(
    State(state): State<AppState>,
    _: Caller<Administer>,
    Body(update): Body<SettingsUpdate>,
) -> Result<Json<Settings>, Problem> {
    Ok(Json(state.host().settings().update(update).await?))
}

/// Bypasses in force, newest first.
#[utoipa::path(get, path = "/api/v1/rules/bypasses", tag = "rules", responses((status = 200, body = [BypassDoc])))]
pub(crate) async fn bypasses(
    State(state): State<AppState>,
    _: Caller<Read>,
) -> Result<Json<Vec<Bypass>>, Problem> {
    Ok(Json(state.host().rules().list().await?))
}

/// End a bypass.
#[utoipa::path(delete, path = "/api/v1/rules/bypasses/{id}", tag = "rules", params(("id" = i64, Path)), responses(
    (status = 204, description = "Ended"),
    (status = 404, body = ProblemBody, content_type = "application/problem+json"),
))]
pub(crate) async fn end_bypass(
    State(state): State<AppState>,
    caller: Caller<Administer>,
    Segment(id): Segment<i64>,
) -> Result<StatusCode, Problem> {
    state.host().rules().end(id, &caller.principal().actor()).await?;
    Ok(StatusCode::NO_CONTENT)
}
