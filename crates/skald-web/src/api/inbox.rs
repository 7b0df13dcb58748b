//! Reading: the Inbox, its history and the record of decisions.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use skald_core_api::{Approval, Clarification, Elicitation, Inbox};
use skald_host::{AuditEntry, HistoryPage};
use utoipa::{IntoParams, ToSchema};

use super::schema::{ApprovalDoc, AuditEntryDoc, ClarificationDoc, ElicitationDoc, HistoryPageDoc};
use crate::auth::{Administer, Caller, Read};
use crate::extract::Params;
use crate::problem::Problem;
use crate::state::AppState;

/// All that is pending, oldest first.
#[derive(Serialize, ToSchema)]
pub(crate) struct Pending {
    /// How many items are pending.
    badge: usize,
    /// Rises with every change.
    revision: u64,
    #[schema(value_type = Vec<ApprovalDoc>)]
    approvals: Vec<Approval>,
    #[schema(value_type = Vec<ClarificationDoc>)]
    clarifications: Vec<Clarification>,
    #[schema(value_type = Vec<ElicitationDoc>)]
    elicitations: Vec<Elicitation>,
}

/// All that is pending.
#[utoipa::path(get, path = "/api/v1/inbox", tag = "inbox", responses((status = 200, body = Pending)))]
pub(crate) async fn inbox(State(state): State<AppState>, _: Caller<Read>) -> Result<Json<Pending>, Problem> {
    let snapshot = state.host().inbox().snapshot().await?;
    Ok(Json(Pending {
        badge: snapshot.badge(),
        revision: snapshot.revision,
        approvals: snapshot.approvals,
        clarifications: snapshot.clarifications,
        elicitations: snapshot.elicitations,
    }))
}

/// Which page.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Page {
    /// The `next` of the page before.
    before: Option<i64>,
    /// How many entries at most.
    #[serde(default = "page_size")]
    #[param(default = 50, minimum = 1, maximum = 200, required = false)]
    limit: u32,
}

fn page_size() -> u32 {
    50
}

impl Page {
    fn checked(self, most: u32) -> Result<Self, Problem> {
        if (1..=most).contains(&self.limit) {
            Ok(self)
        } else {
            Err(Problem::bad_field("limit", format!("`limit` must be 1 to {most}.")))
        }
    }
}

/// Ended items, newest first.
#[utoipa::path(get, path = "/api/v1/inbox/history", tag = "inbox", params(Page),
    responses((status = 200, body = HistoryPageDoc)))]
pub(crate) async fn history(
    State(state): State<AppState>,
    _: Caller<Read>,
    Params(page): Params<Page>,
) -> Result<Json<HistoryPage>, Problem> {
    let page = page.checked(200)?;
    Ok(Json(state.host().inbox().history(page.before, page.limit).await?))
}

/// A page of the record of decisions, newest first.
#[derive(Serialize, ToSchema)]
pub(crate) struct AuditPage {
    #[schema(value_type = Vec<AuditEntryDoc>)]
    items: Vec<AuditEntry>,
    /// Give it as `before` for the next page; missing on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<i64>,
}

/// The record of decisions, newest first.
#[utoipa::path(get, path = "/api/v1/audit", tag = "inbox", params(Page), responses((status = 200, body = AuditPage)))]
pub(crate) async fn audit(
    State(state): State<AppState>,
    _: Caller<Administer>,
    Params(page): Params<Page>,
) -> Result<Json<AuditPage>, Problem> {
    let page = page.checked(200)?;
    let items = state.host().audit().list(page.before, page.limit).await?;
    let full = items.len() == page.limit as usize;
    let next = items.last().filter(|_| full).map(|e| e.seq);
    Ok(Json(AuditPage { items, next }))
}
