//! Problem details (RFC 9457): every answer that is not what was asked for has this one shape.

use axum::response::{IntoResponse, Response};
use http::{HeaderName, HeaderValue, StatusCode, header};
use serde::Serialize;
use utoipa::ToSchema;

/// What is wrong with one field of the body or the query.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct FieldError {
    /// The field, as it is written in the body (`config.relay_url` for a nested one).
    pub field: String,
    /// One plain sentence that says what to write.
    pub message: String,
}

/// The body of every error answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Problem)]
pub struct ProblemBody {
    /// `urn:skald:problem:` and a short word that never changes its meaning.
    #[serde(rename = "type")]
    #[schema(example = "urn:skald:problem:not_signed_in")]
    pub kind: String,
    /// The same for every problem of this type.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// One plain sentence that says what to do.
    pub detail: String,
    /// The fields at fault, where there are any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub errors: Vec<FieldError>,
}

/// An error answer on its way out.
///
/// It never carries a token, an answer's content or anything else that the request brought in confidence: texts are
/// written here, not copied from the request.
#[derive(Debug)]
pub struct Problem(Box<Parts>);

#[derive(Debug)]
struct Parts {
    status: StatusCode,
    code: &'static str,
    title: &'static str,
    detail: String,
    errors: Vec<FieldError>,
    header: Option<(HeaderName, HeaderValue)>,
    /// Further members beside the standard ones, e.g. the outcome that stands.
    extra: Option<serde_json::Map<String, serde_json::Value>>,
}

impl Problem {
    /// A problem of the given type. `detail` is one plain sentence that says what to do.
    pub fn new(
        status: StatusCode,
        code: &'static str,
        title: &'static str,
        detail: impl Into<String>,
    ) -> Self {
        Self(Box::new(Parts {
            status,
            code,
            title,
            detail: detail.into(),
            errors: Vec::new(),
            header: None,
            extra: None,
        }))
    }

    /// The same with a header field.
    pub fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.0.header = Some((name, value));
        self
    }

    /// The same with the fields at fault.
    pub fn with_errors(mut self, errors: Vec<FieldError>) -> Self {
        self.0.errors = errors;
        self
    }

    /// The same with further members.
    pub fn with_extra(mut self, extra: serde_json::Map<String, serde_json::Value>) -> Self {
        self.0.extra = Some(extra);
        self
    }

    /// Nobody is signed in, or the token is not known.
    pub fn not_signed_in() -> Self {
        Self::new(
            StatusCode::UNAUTHORIZED,
            "not_signed_in",
            "Not signed in",
            "Sign in with a fresh link from `skald link`, or send a valid API token as `Authorization: Bearer`.",
        )
        .with_header(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"skald\""))
    }

    /// The sign-in link is used up, too old or was never made.
    pub fn link_not_valid() -> Self {
        Self::new(
            StatusCode::UNAUTHORIZED,
            "link_not_valid",
            "Sign-in link not valid",
            "This sign-in link was used already or is older than ten minutes; make a new one with `skald link`.",
        )
    }

    /// A device asked for something that only the owner at home, or a script, may do.
    pub fn not_from_a_device() -> Self {
        Self::new(
            StatusCode::FORBIDDEN,
            "not_from_a_device",
            "Not from a device",
            "A paired device may read and answer the Inbox only; do this on the host itself.",
        )
    }

    /// The request came from another site's page.
    pub fn foreign_origin() -> Self {
        Self::new(
            StatusCode::FORBIDDEN,
            "foreign_origin",
            "Request from another site",
            "This request did not come from Skald's own page; open Skald's address directly, or use an API token.",
        )
    }

    /// `Host` does not name this server.
    pub fn wrong_host() -> Self {
        Self::new(
            StatusCode::MISDIRECTED_REQUEST,
            "wrong_host",
            "Wrong host name",
            "Skald does not answer under this name; use its own address, or allow the name with `skald serve --allow-host`.",
        )
    }

    /// `Host` is missing, doubled or unreadable.
    pub fn bad_host() -> Self {
        Self::new(
            StatusCode::BAD_REQUEST,
            "bad_host",
            "Unreadable Host",
            "The request needs exactly one readable Host header that agrees with its address.",
        )
    }

    /// No such path.
    pub fn no_such_path() -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            "no_such_path",
            "No such path",
            "Nothing is served at this path; the API is described at /api/v1/openapi.json.",
        )
    }

    /// The thing named in the path does not exist. `detail` says what to look at.
    pub fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", "Not found", detail)
    }

    /// The path is served, but not with this method.
    pub fn wrong_method() -> Self {
        Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "wrong_method",
            "Method not allowed",
            "This path does not take that method; use one of those in the Allow header.",
        )
    }

    /// The body is larger than a megabyte.
    pub fn too_large() -> Self {
        Self::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "too_large",
            "Body too large",
            "The body may be 1 MiB at most; send less.",
        )
    }

    /// The body is not declared as JSON.
    pub fn not_json() -> Self {
        Self::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "not_json",
            "Not JSON",
            "Send the body as JSON with `Content-Type: application/json`.",
        )
    }

    /// The body cannot be read as JSON.
    pub fn bad_json(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_json", "Unreadable JSON", detail)
    }

    /// The body broke off before its end.
    pub fn body_broke_off() -> Self {
        Self::new(
            StatusCode::BAD_REQUEST,
            "body_broke_off",
            "Body incomplete",
            "The body broke off before its end; send the request again.",
        )
    }

    /// Fields of the body or query are wrong.
    pub fn bad_fields(errors: Vec<FieldError>) -> Self {
        let detail = match errors.as_slice() {
            [one] => one.message.clone(),
            _ => "Some fields are wrong; correct those listed under `errors`.".to_owned(),
        };
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "bad_fields", "Fields are wrong", detail)
            .with_errors(errors)
    }

    /// One field is wrong.
    pub fn bad_field(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::bad_fields(vec![FieldError { field: field.into(), message: message.into() }])
    }

    /// What was sent cannot be done; the text says what to send instead.
    pub fn invalid(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", "Cannot be done", detail)
    }

    /// It collides with what is there already.
    pub fn conflict(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "conflict", "Conflict", detail)
    }

    /// The item had ended before this answer came. The outcome that stands goes into the body's `state`, `outcome`
    /// and `resolved_by`.
    pub fn late(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "late", "Answered too late", detail)
    }

    /// Signing out without a session.
    pub fn no_session() -> Self {
        Self::new(
            StatusCode::CONFLICT,
            "no_session",
            "No session",
            "An API token has no session to end; revoke the token with `skald token revoke`.",
        )
    }

    /// Too many attempts.
    pub fn too_many_attempts(retry_after_secs: u64) -> Self {
        Self::new(
            StatusCode::TOO_MANY_REQUESTS,
            "too_many_attempts",
            "Too many attempts",
            format!("Too many failed sign-ins; wait {retry_after_secs} seconds and try again."),
        )
        .with_header(header::RETRY_AFTER, HeaderValue::from(retry_after_secs))
    }

    /// Something failed that is not the caller's fault. The cause goes to the log, not to the caller.
    pub fn internal(cause: &dyn std::fmt::Display) -> Self {
        tracing::error!(%cause, "a request failed");
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal",
            "Internal error",
            "Skald could not do this because something failed inside; look at its log and try again.",
        )
    }

    /// Not available at the moment.
    pub fn unavailable(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, code, "Not available", detail)
    }
}

impl From<skald_host::Error> for Problem {
    fn from(e: skald_host::Error) -> Self {
        use skald_host::Error;
        match e {
            Error::Invalid(errors) => Self::bad_fields(
                errors.into_iter().map(|e| FieldError { field: e.field, message: e.message }).collect(),
            ),
            Error::NotFound(text) => Self::not_found(text),
            Error::Conflict(text) => Self::conflict(text),
            Error::Store(e) => e.into(),
            other => Self::internal(&other),
        }
    }
}

impl From<skald_host::StoreError> for Problem {
    fn from(e: skald_host::StoreError) -> Self {
        use skald_host::StoreError;
        match e {
            StoreError::Stopping => Self::unavailable("stopping", e.to_string()),
            StoreError::DiskFull => {
                Self::new(StatusCode::INSUFFICIENT_STORAGE, "disk_full", "Disk full", e.to_string())
            }
            other => Self::internal(&other),
        }
    }
}

impl From<skald_core_api::InboxError> for Problem {
    fn from(e: skald_core_api::InboxError) -> Self {
        match e {
            skald_core_api::InboxError::Invalid(text) => Self::invalid(text),
            other => Self::internal(&other),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let Parts { status, code, title, detail, errors, header: further, extra } = *self.0;
        let body = ProblemBody {
            kind: format!("urn:skald:problem:{code}"),
            title: title.to_owned(),
            status: status.as_u16(),
            detail,
            errors,
        };
        let mut value = serde_json::to_value(&body).unwrap_or_default();
        if let (Some(object), Some(extra)) = (value.as_object_mut(), extra) {
            object.extend(extra);
        }
        let mut response = (
            status,
            [(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"))],
            value.to_string(),
        )
            .into_response();
        if let Some((name, value)) = further {
            response.headers_mut().insert(name, value);
        }
        response
    }
}
