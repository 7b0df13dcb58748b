//! Answering.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use skald_core_api::{Answer, AnswerOutcome, Decision, ElicitationAction, Inbox, Outcome, RequestId};
use utoipa::ToSchema;

use super::schema::OutcomeDoc;
use crate::auth::{self, Caller};
use crate::extract::{Body, Segment};
use crate::problem::{Problem, ProblemBody};
use crate::state::AppState;

/// `{decision, reason?, bypass_secs?}` to an approval, `{answer}` to a clarification, `{action, content?}` to an
/// elicitation. No `Debug`: the content may be a secret.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AnswerGiven {
    /// `approved` or `rejected`.
    #[schema(value_type = Option<String>)]
    decision: Option<Decision>,
    /// Why, for the source.
    reason: Option<String>,
    /// Also let similar calls through for so many seconds; 0 means for the source's session.
    bypass_secs: Option<u64>,
    /// The answer to a question.
    answer: Option<String>,
    /// `accept`, `decline` or `cancel`.
    #[schema(value_type = Option<String>)]
    action: Option<ElicitationAction>,
    /// The form's content, an object.
    #[schema(value_type = Option<Object>)]
    content: Option<Value>,
}

impl AnswerGiven {
    fn into_answer(self) -> Result<Answer, Problem> {
        let stray = |field: &'static str, kind: &str| {
            Problem::bad_field(field, format!("`{field}` does not belong to {kind}; leave it out."))
        };
        match (self.decision, self.answer, self.action) {
            (Some(decision), None, None) => {
                if self.content.is_some() {
                    return Err(stray("content", "a decision"));
                }
                Ok(Answer::Approval {
                    decision,
                    reason: self.reason,
                    bypass_secs: self.bypass_secs,
                    proof: None,
                })
            }
            (None, answer, action) if self.reason.is_some() || self.bypass_secs.is_some() => {
                let field = if self.reason.is_some() { "reason" } else { "bypass_secs" };
                let kind = match (answer, action) {
                    (Some(_), _) => "an answer",
                    (_, Some(_)) => "an action",
                    _ => {
                        return Err(Problem::bad_field(
                            "decision",
                            "`decision` is missing; add `approved` or `rejected`.",
                        ));
                    }
                };
                Err(stray(field, kind))
            }
            (None, Some(_), None) if self.content.is_some() => Err(stray("content", "an answer")),
            (None, Some(answer), None) => Ok(Answer::Clarification { answer }),
            (None, None, Some(action)) => Ok(Answer::Elicitation { action, content: self.content }),
            _ => Err(Problem::invalid("Send exactly one of `decision`, `answer` and `action`.")),
        }
    }
}

/// An answer that was taken.
#[derive(Serialize, ToSchema)]
pub(crate) struct Answered {
    #[schema(value_type = uuid::Uuid)]
    request_id: RequestId,
    /// `resolved`.
    state: &'static str,
    /// What stands now.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<OutcomeDoc>)]
    outcome: Option<Outcome>,
    /// Who answered.
    resolved_by: String,
}

/// Answer an item. The first answer wins.
#[utoipa::path(post, path = "/api/v1/inbox/requests/{id}/answer", tag = "inbox", params(("id" = uuid::Uuid, Path)),
    request_body = AnswerGiven,
    responses(
        (status = 200, body = Answered),
        (status = 404, body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, body = ProblemBody, content_type = "application/problem+json",
            description = "The item had ended; `state`, `outcome` and `resolved_by` say what stands"),
        (status = 422, body = ProblemBody, content_type = "application/problem+json"),
    ))]
pub(crate) async fn answer(
    State(state): State<AppState>,
    caller: Caller<auth::Answer>,
    Segment(id): Segment<RequestId>,
    Body(given): Body<AnswerGiven>,
) -> Result<Json<Answered>, Problem> {
    let answer = given.into_answer()?;
    let told = match &answer {
        Answer::Approval { decision, reason, .. } => {
            Outcome::Approval { decision: *decision, reason: reason.clone() }
        }
        Answer::Clarification { answer } => Outcome::Clarification { answer: answer.clone() },
        Answer::Elicitation { action, .. } => Outcome::Elicitation { action: *action },
    };
    let by = caller.principal().actor();
    match state.host().inbox().answer(id, answer, &by).await? {
        AnswerOutcome::Resolved => Ok(Json(Answered {
            request_id: id,
            state: "resolved",
            outcome: Some(told),
            resolved_by: by.to_string(),
        })),
        AnswerOutcome::Unknown => Err(no_such_item()),
        AnswerOutcome::Late { standing, state: ended } => {
            let entry = state.host().inbox().get(id).await?;
            let detail = match ended.as_str() {
                "expired" => {
                    "The question lapsed before this answer came, so it changes nothing; ask for it anew if it still matters."
                }
                "cancelled" => "The question was withdrawn before this answer came, so it changes nothing.",
                _ => "Another answer came first and stands; this one was noted as late.",
            };
            let mut extra = serde_json::Map::new();
            extra.insert("state".to_owned(), ended.into());
            if let Some(outcome) = standing {
                let outcome = serde_json::to_value(outcome).map_err(|e| Problem::internal(&e))?;
                extra.insert("outcome".to_owned(), outcome);
            }
            if let Some(by) = entry.resolved_by {
                extra.insert("resolved_by".to_owned(), by.into());
            }
            Err(Problem::late(detail).with_extra(extra))
        }
    }
}

fn no_such_item() -> Problem {
    Problem::not_found("There is no such item in the Inbox or its history; read the Inbox again.")
}
