//! All routes in one router, which the listener and the devices' streams share.

use std::time::Instant;

use axum::Router;
use axum::extract::{MatchedPath, Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use http::header;
use skald_host::Host;
use tokio_util::sync::CancellationToken;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::api::{access, answers, ask, events, inbox, plugins, settings};
use crate::auth::{self, Caller, Read};
use crate::guard::{self, AllowedHost};
use crate::problem::Problem;
use crate::state::AppState;
use crate::{assets, headers, openapi};

/// The API's description.
#[utoipa::path(get, path = "/api/v1/openapi.json", tag = "about", responses(
    (status = 200, description = "This document", content_type = "application/json"),
))]
async fn description(State(state): State<AppState>, _: Caller<Read>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], state.openapi()).into_response()
}

/// Whether the host is up. Needs no sign-in.
#[utoipa::path(get, path = "/healthz", tag = "about", security(()), responses((status = 200, description = "It is up")))]
async fn healthz() -> &'static str {
    "ok\n"
}

async fn wrong_method() -> Problem {
    Problem::wrong_method()
}

async fn no_such_path() -> Problem {
    Problem::no_such_path()
}

/// Says at debug level what was asked. The route's pattern, never the address itself: addresses bear keys and codes.
async fn trace(request: Request, next: Next) -> Response {
    let method = request.method().clone();
    let route = request
        .extensions()
        .get::<MatchedPath>()
        .map_or_else(|| "page".to_owned(), |p| p.as_str().to_owned());
    let start = Instant::now();
    let response = next.run(request).await;
    let (status, ms) = (response.status().as_u16(), start.elapsed().as_millis());
    tracing::debug!(%method, route, status, ms, "answered");
    response
}

fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::with_openapi(openapi::Document::openapi())
        .routes(routes!(healthz))
        .routes(routes!(description))
        .routes(routes!(access::sign_in, access::who_am_i, access::sign_out))
        .routes(routes!(access::make_link))
        .routes(routes!(access::sessions))
        .routes(routes!(access::end_session))
        .routes(routes!(access::tokens, access::make_token))
        .routes(routes!(access::revoke_token))
        .routes(routes!(inbox::inbox))
        .routes(routes!(inbox::history))
        .routes(routes!(inbox::audit))
        .routes(routes!(ask::approval))
        .routes(routes!(ask::clarification))
        .routes(routes!(ask::elicitation))
        .routes(routes!(ask::notify))
        .routes(routes!(ask::status, ask::withdraw))
        .routes(routes!(answers::answer))
        .routes(routes!(events::events))
        .routes(routes!(settings::settings, settings::change_settings))
        .routes(routes!(settings::bypasses))
        .routes(routes!(settings::end_bypass))
        .routes(routes!(plugins::list))
        .routes(routes!(plugins::one, plugins::update))
}

/// Builds the router.
pub(crate) fn build(
    host: Host,
    url: String,
    allowed_hosts: Vec<AllowedHost>,
    stop: CancellationToken,
) -> Result<Router, serde_json::Error> {
    let (router, document) = routes().split_for_parts();
    let description = openapi::write(&document, &host)?;
    let state = AppState::new(host, url, allowed_hosts, stop, description);
    Ok(router
        .route("/api/plugin/{id}", any(plugins::forward))
        .route("/api/plugin/{id}/{*rest}", any(plugins::forward))
        .route("/api/plugin/{id}/", any(plugins::forward))
        .route("/api", get(no_such_path))
        .method_not_allowed_fallback(wrong_method)
        .fallback_service(assets::router())
        // The last layer is the first to see a request.
        .layer(middleware::from_fn_with_state(state.clone(), auth::require))
        .layer(middleware::from_fn_with_state(state.clone(), guard::check_host))
        .layer(middleware::from_fn(trace))
        .layer(middleware::from_fn(headers::secure))
        .with_state(state))
}
