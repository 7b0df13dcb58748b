//! Asking: what sources create, wait for and withdraw.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde::{Deserialize, Serialize};
use skald_core_api::{Decision, RequestId};
use skald_host::{Created, ItemState, NewApproval, NewClarification, NewElicitation, RequestStatus};
use utoipa::{IntoParams, ToSchema};

use super::schema::{ItemStateDoc, NewApprovalDoc, NewClarificationDoc, NewElicitationDoc, RequestStatusDoc};
use crate::auth::{Ask, Caller, Read};
use crate::extract::{Body, Params, Segment};
use crate::problem::{Problem, ProblemBody};
use crate::state::AppState;

/// The longest that a long poll waits, in seconds.
const LONGEST_WAIT: u64 = 60;

/// What became of a question.
#[derive(Serialize, ToSchema)]
pub(crate) struct Asked {
    /// Names the item.
    #[schema(value_type = uuid::Uuid)]
    request_id: RequestId,
    /// `pending`, or how it ended already.
    #[schema(value_type = ItemStateDoc)]
    state: ItemState,
    /// When it lapses.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<i64>,
    /// Where a rule decided an approval at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    decision: Option<Decision>,
    /// Who decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    resolved_by: Option<String>,
}

async fn asked(state: &AppState, created: Created) -> Result<Response, Problem> {
    match created {
        Created::Pending { request_id, expires_at, existing: false } => {
            let asked = Asked {
                request_id,
                state: ItemState::Pending,
                expires_at: Some(expires_at),
                decision: None,
                resolved_by: None,
            };
            let place = format!("/api/v1/inbox/requests/{request_id}");
            let mut response = (StatusCode::CREATED, Json(asked)).into_response();
            if let Ok(place) = HeaderValue::try_from(place) {
                response.headers_mut().insert(header::LOCATION, place);
            }
            Ok(response)
        }
        Created::Pending { request_id, expires_at, existing: true } => {
            let entry = state.host().inbox().get(request_id).await?;
            let asked = Asked {
                request_id,
                state: entry.state,
                expires_at: Some(expires_at),
                decision: None,
                resolved_by: entry.resolved_by,
            };
            Ok(Json(asked).into_response())
        }
        Created::Decided { request_id, decision, resolved_by } => {
            let asked = Asked {
                request_id,
                state: ItemState::Resolved,
                expires_at: None,
                decision: Some(decision),
                resolved_by: Some(resolved_by),
            };
            Ok(Json(asked).into_response())
        }
    }
}

/// Ask for an approval.
#[utoipa::path(post, path = "/api/v1/inbox/approvals", tag = "ask", request_body = NewApprovalDoc, responses(
    (status = 201, body = Asked, description = "It waits in the Inbox"),
    (status = 200, body = Asked, description = "A rule decided, or the idempotency key is known already"),
    (status = 422, body = ProblemBody, content_type = "application/problem+json"),
))]
pub(crate) async fn approval(
    State(state): State<AppState>,
    caller: Caller<Ask>,
    Body(new): Body<NewApproval>,
) -> Result<Response, Problem> {
    let created = state.host().inbox().create_approval(&caller.principal().actor(), new).await?;
    asked(&state, created).await
}

/// Ask a question.
#[utoipa::path(post, path = "/api/v1/inbox/clarifications", tag = "ask", request_body = NewClarificationDoc, responses(
    (status = 201, body = Asked, description = "It waits in the Inbox"),
    (status = 200, body = Asked, description = "The idempotency key is known already"),
    (status = 422, body = ProblemBody, content_type = "application/problem+json"),
))]
pub(crate) async fn clarification(
    State(state): State<AppState>,
    caller: Caller<Ask>,
    Body(new): Body<NewClarification>,
) -> Result<Response, Problem> {
    let created = state.host().inbox().create_clarification(&caller.principal().actor(), new).await?;
    asked(&state, created).await
}

/// Ask for input.
#[utoipa::path(post, path = "/api/v1/inbox/elicitations", tag = "ask", request_body = NewElicitationDoc, responses(
    (status = 201, body = Asked, description = "It waits in the Inbox"),
    (status = 200, body = Asked, description = "The idempotency key is known already"),
    (status = 422, body = ProblemBody, content_type = "application/problem+json"),
))]
pub(crate) async fn elicitation(
    State(state): State<AppState>,
    caller: Caller<Ask>,
    Body(new): Body<NewElicitation>,
) -> Result<Response, Problem> {
    let created = state.host().inbox().create_elicitation(&caller.principal().actor(), new).await?;
    asked(&state, created).await
}

/// Something to tell.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewNotification {
    /// One line.
    title: String,
    /// More text.
    #[serde(default)]
    body: String,
}

/// What was told.
#[derive(Serialize, ToSchema)]
pub(crate) struct Notified {
    /// Its position in the log of notifications.
    seq: i64,
    /// Unix milliseconds.
    created_at: i64,
}

/// Tell people something.
#[utoipa::path(post, path = "/api/v1/notifications", tag = "ask", request_body = NewNotification, responses(
    (status = 201, body = Notified),
    (status = 422, body = ProblemBody, content_type = "application/problem+json"),
))]
pub(crate) async fn notify(
    State(state): State<AppState>,
    caller: Caller<Ask>,
    Body(new): Body<NewNotification>,
) -> Result<Response, Problem> {
    let told = state.host().inbox().notify(&caller.principal().actor(), &new.title, &new.body).await?;
    Ok((StatusCode::CREATED, Json(Notified { seq: told.seq, created_at: told.created_at })).into_response())
}

/// How long to wait.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Wait {
    /// Seconds to wait for the end, 0 to 60.
    #[serde(default)]
    #[param(maximum = 60, required = false)]
    wait: u64,
}

/// Where a request stands; waits for its end on demand.
#[utoipa::path(get, path = "/api/v1/inbox/requests/{id}", tag = "ask",
    params(("id" = uuid::Uuid, Path), Wait),
    responses(
        (status = 200, body = RequestStatusDoc),
        (status = 404, body = ProblemBody, content_type = "application/problem+json"),
    ))]
pub(crate) async fn status(
    State(state): State<AppState>,
    caller: Caller<Read>,
    Segment(id): Segment<RequestId>,
    Params(Wait { wait }): Params<Wait>,
) -> Result<Json<RequestStatus>, Problem> {
    if wait > LONGEST_WAIT {
        return Err(Problem::bad_field("wait", format!("`wait` must be 0 to {LONGEST_WAIT} seconds.")));
    }
    let inbox = state.host().inbox();
    if wait > 0 {
        let access = state.host().access();
        let mut revocations = access.revocations();
        let waiting = inbox.wait(id, caller.principal(), Duration::from_secs(wait));
        tokio::pin!(waiting);
        loop {
            tokio::select! {
                status = &mut waiting => return Ok(Json(status?)),
                () = state.stop().cancelled() => break,
                // Whoever loses its token while it waits hears no more.
                Ok(()) = revocations.changed() => {
                    if !caller.signed.still_holds(&state).await? {
                        return Err(Problem::not_signed_in());
                    }
                }
            }
        }
    }
    Ok(Json(inbox.status(id, caller.principal()).await?))
}

/// Withdraw a request.
#[utoipa::path(delete, path = "/api/v1/inbox/requests/{id}", tag = "ask", params(("id" = uuid::Uuid, Path)),
    responses(
        (status = 204, description = "Withdrawn"),
        (status = 404, body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, body = ProblemBody, content_type = "application/problem+json"),
    ))]
pub(crate) async fn withdraw(
    State(state): State<AppState>,
    caller: Caller<Ask>,
    Segment(id): Segment<RequestId>,
) -> Result<StatusCode, Problem> {
    state.host().inbox().withdraw(id, caller.principal()).await?;
    Ok(StatusCode::NO_CONTENT)
}
