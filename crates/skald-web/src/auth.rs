//! Who makes a request, and whether it may.

use std::marker::PhantomData;

use axum::extract::{FromRequestParts, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, header};
use skald_core_api::{DevicePeer, Permission, Principal};
use skald_host::SessionInfo;

use crate::guard::{Link, OwnOrigin, check_origin};
use crate::headers::is_api;
use crate::problem::Problem;
use crate::state::AppState;

/// The session's cookie.
pub(crate) const COOKIE: &str = "skald_session";
/// Where one signs in: the one call below `/api` that needs no principal.
const SIGN_IN: &str = "/api/v1/session";

/// A request whose sender is known.
#[derive(Debug, Clone)]
pub(crate) struct Signed {
    pub(crate) principal: Principal,
    /// The browser session, where it is one.
    pub(crate) session: Option<SessionInfo>,
    proof: Proof,
}

/// What the sender proved itself with; kept to look again during long-lived answers. The values are marked sensitive,
/// so that they do not print.
#[derive(Debug, Clone)]
enum Proof {
    Bearer(HeaderValue),
    Cookie(HeaderValue),
    Device(DevicePeer),
}

impl Signed {
    /// Whether the token or session is still good.
    pub(crate) async fn still_holds(&self, state: &AppState) -> Result<bool, Problem> {
        Ok(resolve(state, self.proof.clone()).await?.is_some())
    }
}

async fn resolve(state: &AppState, proof: Proof) -> Result<Option<Signed>, Problem> {
    let access = state.host().access();
    let text = |value: &HeaderValue| value.to_str().map(str::to_owned).unwrap_or_default();
    let found = match &proof {
        Proof::Device(peer) => Some((Principal::Device(peer.clone()), None)),
        Proof::Bearer(value) => access.by_token(&text(value)).await?.map(|principal| (principal, None)),
        Proof::Cookie(value) => {
            access.by_cookie(&text(value)).await?.map(|(principal, session)| (principal, Some(session)))
        }
    };
    Ok(found.map(|(principal, session)| Signed { principal, session, proof }))
}

fn bearer(headers: &HeaderMap) -> Result<Option<HeaderValue>, Problem> {
    let Some(value) = headers.get(header::AUTHORIZATION) else { return Ok(None) };
    let value = value.to_str().map_err(|_| Problem::not_signed_in())?;
    let (scheme, token) = value.split_once(' ').ok_or_else(Problem::not_signed_in)?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(Problem::not_signed_in());
    }
    sensitive(token.trim()).map(Some)
}

fn cookie(headers: &HeaderMap) -> Result<Option<HeaderValue>, Problem> {
    let pairs =
        headers.get_all(header::COOKIE).iter().filter_map(|v| v.to_str().ok()).flat_map(|v| v.split(';'));
    let value = pairs.filter_map(|p| p.trim().split_once('=')).find(|(name, _)| *name == COOKIE);
    value.map(|(_, value)| sensitive(value)).transpose()
}

fn sensitive(value: &str) -> Result<HeaderValue, Problem> {
    let mut value = HeaderValue::from_str(value).map_err(|_| Problem::not_signed_in())?;
    value.set_sensitive(true);
    Ok(value)
}

async fn identify(state: &AppState, request: &Parts) -> Result<Signed, Problem> {
    let headers = &request.headers;
    let own = request.extensions.get::<OwnOrigin>().ok_or_else(Problem::bad_host)?;
    // The connection itself says which device it is: whatever it sends along makes it no more than that.
    if let Some(Link::Device(peer)) = request.extensions.get::<Link>() {
        check_origin(own, &request.method, headers, false)?;
        return Ok(Signed {
            principal: Principal::Device(peer.clone()),
            session: None,
            proof: Proof::Device(peer.clone()),
        });
    }
    if let Some(token) = bearer(headers)? {
        return resolve(state, Proof::Bearer(token)).await?.ok_or_else(Problem::not_signed_in);
    }
    let cookie = cookie(headers)?.ok_or_else(Problem::not_signed_in)?;
    check_origin(own, &request.method, headers, true)?;
    resolve(state, Proof::Cookie(cookie)).await?.ok_or_else(Problem::not_signed_in)
}

/// Middleware: lets nothing below `/api` through whose sender is not known, whether the path exists or not.
pub(crate) async fn require(State(state): State<AppState>, request: Request, next: Next) -> Response {
    let path = request.uri().path();
    if !is_api(path) || (path == SIGN_IN && request.method() == Method::POST) {
        return next.run(request).await;
    }
    let (mut parts, body) = request.into_parts();
    match identify(&state, &parts).await {
        Ok(signed) => {
            parts.extensions.insert(signed);
            next.run(Request::from_parts(parts, body)).await
        }
        Err(problem) => problem.into_response(),
    }
}

/// Names a permission in a handler's signature.
pub(crate) trait Need {
    const PERMISSION: Permission;
}

macro_rules! needs {
    ($($name:ident),*) => {$(
        /// The permission of this name.
        pub(crate) enum $name {}
        impl Need for $name {
            const PERMISSION: Permission = Permission::$name;
        }
    )*};
}
needs!(Read, Answer, Ask, Administer);

/// The sender of a request, who has the permission. Every handler below `/api` takes one.
pub(crate) struct Caller<N> {
    pub(crate) signed: Signed,
    need: PhantomData<fn() -> N>,
}

impl<N> Caller<N> {
    pub(crate) fn principal(&self) -> &Principal {
        &self.signed.principal
    }
}

impl<N: Need> FromRequestParts<AppState> for Caller<N> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &AppState) -> Result<Self, Problem> {
        let signed = parts.extensions.get::<Signed>().cloned().ok_or_else(Problem::not_signed_in)?;
        // Only devices lack permissions.
        if !signed.principal.may(N::PERMISSION) {
            return Err(Problem::not_from_a_device());
        }
        Ok(Self { signed, need: PhantomData })
    }
}
