//! Signing in and out, sessions and API tokens.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde::{Deserialize, Serialize};
use skald_core_api::{Permission, Principal};
use utoipa::ToSchema;

use super::schema::ApiTokenDoc;
use crate::auth::{Administer, COOKIE, Caller, Read};
use crate::extract::{Body, Segment};
use crate::guard::{Link, OwnOrigin, check_origin};
use crate::problem::{Problem, ProblemBody};
use crate::state::AppState;

/// How long a browser keeps the cookie. The host ends a session much earlier, 30 days after its last use.
const COOKIE_AGE: u32 = 400 * 86_400;

/// The token of a sign-in link.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SignIn {
    /// What stands behind `#signin=` in the link.
    token: String,
}

fn cookie(value: &str, age: u32, secure: bool) -> Result<HeaderValue, Problem> {
    let secure = if secure { "; Secure" } else { "" };
    let text = format!("{COOKIE}={value}; HttpOnly; SameSite=Strict; Path=/; Max-Age={age}{secure}");
    let mut value =
        HeaderValue::try_from(text).map_err(|_| Problem::internal(&"a cookie cannot be written"))?;
    value.set_sensitive(true);
    Ok(value)
}

/// Whether the browser speaks https to a proxy in front of us.
fn over_tls(headers: &HeaderMap) -> bool {
    headers.get(header::ORIGIN).is_some_and(|v| v.as_bytes().starts_with(b"https://"))
}

/// Sign in with the token of a one-time link.
#[utoipa::path(post, path = "/api/v1/session", tag = "access", request_body = SignIn, security(()), responses(
    (status = 204, description = "Signed in; the session is in the cookie"),
    (status = 401, body = ProblemBody, content_type = "application/problem+json"),
    (status = 429, body = ProblemBody, content_type = "application/problem+json"),
))]
pub(crate) async fn sign_in(
    State(state): State<AppState>,
    axum::Extension(link): axum::Extension<Link>,
    axum::Extension(own): axum::Extension<OwnOrigin>,
    headers: HeaderMap,
    body: Result<Body<SignIn>, Problem>,
) -> Result<Response, Problem> {
    let Link::Tcp { peer, .. } = link else { return Err(Problem::not_from_a_device()) };
    check_origin(&own, &http::Method::POST, &headers, false)?;
    let Body(body) = body?;
    state.throttle().check(peer).map_err(Problem::too_many_attempts)?;
    let Some(session) = state.host().access().redeem_link(&body.token).await? else {
        state.throttle().failed(peer);
        return Err(Problem::link_not_valid());
    };
    let cookie = cookie(session.cookie.expose(), COOKIE_AGE, over_tls(&headers))?;
    Ok((StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie)]).into_response())
}

/// Who is signed in.
#[derive(Serialize, ToSchema)]
pub(crate) struct WhoAmI {
    principal: Who,
    /// What it may do: `read`, `answer`, `ask`, `administer`.
    permissions: Vec<&'static str>,
    /// The host's version.
    version: &'static str,
}

/// A principal.
#[derive(Serialize, ToSchema)]
pub(crate) struct Who {
    /// `owner`, `token` or `device`.
    kind: &'static str,
    /// The token's or device's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// The device's key.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
}

/// Who is signed in, and what it may do.
#[utoipa::path(get, path = "/api/v1/session", tag = "access", responses(
    (status = 200, body = WhoAmI),
    (status = 401, body = ProblemBody, content_type = "application/problem+json"),
))]
pub(crate) async fn who_am_i(caller: Caller<Read>) -> Json<WhoAmI> {
    let principal = match caller.principal().clone() {
        Principal::Owner => Who { kind: "owner", name: None, key: None },
        Principal::Token { name } => Who { kind: "token", name: Some(name), key: None },
        Principal::Device(peer) => Who { kind: "device", name: Some(peer.name), key: Some(peer.key) },
    };
    let all = [
        (Permission::Read, "read"),
        (Permission::Answer, "answer"),
        (Permission::Ask, "ask"),
        (Permission::Administer, "administer"),
    ];
    let permissions =
        all.into_iter().filter(|(p, _)| caller.principal().may(*p)).map(|(_, name)| name).collect();
    Json(WhoAmI { principal, permissions, version: env!("CARGO_PKG_VERSION") })
}

/// Sign out.
#[utoipa::path(delete, path = "/api/v1/session", tag = "access", responses(
    (status = 204, description = "Signed out"),
    (status = 409, body = ProblemBody, content_type = "application/problem+json"),
))]
pub(crate) async fn sign_out(
    State(state): State<AppState>,
    caller: Caller<Administer>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let session = caller.signed.session.ok_or_else(Problem::no_session)?;
    state.host().access().end_session(&session.id).await?;
    let cookie = cookie("", 0, over_tls(&headers))?;
    Ok((StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie)]).into_response())
}

/// A sign-in link.
#[derive(Serialize, ToSchema)]
pub(crate) struct LinkMade {
    /// Open it in a browser; it works once.
    url: String,
    /// Unix milliseconds.
    expires_at: i64,
}

/// Make a one-time sign-in link.
#[utoipa::path(post, path = "/api/v1/session/links", tag = "access", responses((status = 200, body = LinkMade)))]
pub(crate) async fn make_link(
    State(state): State<AppState>,
    _: Caller<Administer>,
) -> Result<Json<LinkMade>, Problem> {
    let link = state.host().access().create_link().await?;
    Ok(Json(LinkMade { url: state.sign_in_url(link.token.expose()), expires_at: link.expires_at }))
}

/// A browser session.
#[derive(Serialize, ToSchema)]
pub(crate) struct SessionListed {
    id: String,
    created_at: i64,
    last_used: i64,
    /// Whether it is the one that asks.
    current: bool,
}

/// List the browser sessions.
#[utoipa::path(get, path = "/api/v1/sessions", tag = "access", responses((status = 200, body = [SessionListed])))]
pub(crate) async fn sessions(
    State(state): State<AppState>,
    caller: Caller<Administer>,
) -> Result<Json<Vec<SessionListed>>, Problem> {
    let current = caller.signed.session.map(|s| s.id);
    let sessions = state.host().access().sessions().await?;
    let listed = sessions.into_iter().map(|s| SessionListed {
        current: Some(&s.id) == current.as_ref(),
        id: s.id,
        created_at: s.created_at,
        last_used: s.last_used,
    });
    Ok(Json(listed.collect()))
}

/// End a browser session.
#[utoipa::path(delete, path = "/api/v1/sessions/{id}", tag = "access", params(("id" = String, Path)), responses(
    (status = 204, description = "Ended"),
    (status = 404, body = ProblemBody, content_type = "application/problem+json"),
))]
pub(crate) async fn end_session(
    State(state): State<AppState>,
    _: Caller<Administer>,
    Segment(id): Segment<String>,
) -> Result<StatusCode, Problem> {
    state.host().access().end_session(&id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// List the API tokens.
#[utoipa::path(get, path = "/api/v1/tokens", tag = "access", responses((status = 200, body = [ApiTokenDoc])))]
pub(crate) async fn tokens(
    State(state): State<AppState>,
    _: Caller<Administer>,
) -> Result<Json<Vec<skald_host::ApiToken>>, Problem> {
    Ok(Json(state.host().access().tokens().await?))
}

/// A token to make.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewToken {
    /// What it is for; unique.
    name: String,
}

/// A token that was made.
#[derive(Serialize, ToSchema)]
pub(crate) struct TokenMade {
    name: String,
    /// Shown this once.
    token: String,
}

/// Make an API token.
#[utoipa::path(post, path = "/api/v1/tokens", tag = "access", request_body = NewToken, responses(
    (status = 201, body = TokenMade),
    (status = 409, body = ProblemBody, content_type = "application/problem+json"),
))]
pub(crate) async fn make_token(
    State(state): State<AppState>,
    _: Caller<Administer>,
    Body(new): Body<NewToken>,
) -> Result<Response, Problem> {
    let token = state.host().access().create_token(&new.name).await?;
    let made = TokenMade { name: new.name, token: token.expose().to_owned() };
    Ok((StatusCode::CREATED, Json(made)).into_response())
}

/// Revoke an API token.
#[utoipa::path(delete, path = "/api/v1/tokens/{name}", tag = "access", params(("name" = String, Path)), responses(
    (status = 204, description = "Revoked"),
    (status = 404, body = ProblemBody, content_type = "application/problem+json"),
))]
pub(crate) async fn revoke_token(
    State(state): State<AppState>,
    _: Caller<Administer>,
    Segment(name): Segment<String>,
) -> Result<StatusCode, Problem> {
    state.host().access().revoke_token(&name).await?;
    Ok(StatusCode::NO_CONTENT)
}
