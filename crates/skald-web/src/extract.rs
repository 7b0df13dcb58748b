//! Reading bodies, queries and paths, with problems that name the field and never repeat what it held.

use std::time::Duration;

use axum::extract::rejection::PathRejection;
use axum::extract::{FromRequest, FromRequestParts, Request};
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::de::DeserializeOwned;

use crate::problem::Problem;

/// The most that a body may hold.
pub(crate) const MAX_BODY: usize = 1024 * 1024;

/// How long a body may take to arrive.
const BODY_DEADLINE: Duration = Duration::from_secs(60);

/// Reads a body up to [`MAX_BODY`].
pub(crate) async fn read_body(request: Request) -> Result<Bytes, Problem> {
    let declared =
        request.headers().get(header::CONTENT_LENGTH).and_then(|v| v.to_str().ok()?.parse::<u64>().ok());
    if declared.is_some_and(|n| n > MAX_BODY as u64) {
        return Err(Problem::too_large());
    }
    let body = Limited::new(request.into_body(), MAX_BODY).collect();
    let Ok(body) = tokio::time::timeout(BODY_DEADLINE, body).await else {
        return Err(Problem::body_broke_off());
    };
    match body {
        Ok(body) => Ok(body.to_bytes()),
        Err(e) if e.is::<LengthLimitError>() => Err(Problem::too_large()),
        Err(e) if e.source().is_some_and(|s| s.is::<LengthLimitError>()) => Err(Problem::too_large()),
        Err(_) => Err(Problem::body_broke_off()),
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let Some(value) = headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()) else { return false };
    let essence = value.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/json")
}

/// A JSON body. The type refuses unknown fields; a wrong field is named in the problem.
pub(crate) struct Body<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        // Also what keeps a form on another site from posting here: it cannot send this content type unasked.
        if !is_json(request.headers()) {
            return Err(Problem::not_json());
        }
        parse(&read_body(request).await?).map(Self)
    }
}

/// Parses one JSON value that fills the whole body.
pub(crate) fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    skald_host::from_json(body).map_err(|e| match e {
        // The host names no field where the body as a whole cannot be read.
        skald_host::Error::Invalid(errors) if errors.iter().all(|e| e.field.is_empty()) => {
            Problem::bad_json(errors.into_iter().map(|e| e.message).collect::<Vec<_>>().join(" "))
        }
        other => other.into(),
    })
}

/// Query parameters; unknown ones are refused as unknown fields are.
pub(crate) struct Params<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let pairs = form_urlencoded::parse(parts.uri.query().unwrap_or_default().as_bytes());
        let de = serde_urlencoded::Deserializer::new(pairs);
        serde_path_to_error::deserialize(de).map(Self).map_err(|e| {
            // serde's texts may repeat what was sent; only the name is taken, and only where it is one of ours.
            let path = e.path().to_string();
            let text = e.inner().to_string();
            if text.starts_with("unknown field") {
                let known =
                    text.rsplit_once("expected ").map_or("", |(_, k)| k.trim_start_matches("one of "));
                return Problem::bad_field(
                    "query",
                    format!("The address bears a parameter that is not known here; use {known}."),
                );
            }
            Problem::bad_field(path.clone(), format!("`{path}` must be given once, as a whole number."))
        })
    }
}

/// The path's parameters. One that cannot be read names nothing that exists.
pub(crate) struct Segment<T>(pub(crate) T);

impl<T, S> FromRequestParts<S> for Segment<T>
where
    T: DeserializeOwned + Send,
    S: Send + Sync,
{
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        axum::extract::Path::<T>::from_request_parts(parts, state)
            .await
            .map(|axum::extract::Path(value)| Self(value))
            .map_err(|_: PathRejection| {
                Problem::not_found("Nothing of that name exists; check the last part of the address.")
            })
    }
}
