//! What every answer bears: nothing is cached that should not be, nothing is framed, nothing is guessed.

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use http::header::{self, HeaderMap, HeaderName};
use http::{HeaderValue, StatusCode};

/// For pages: our own files and connections, and nothing else. Scripts and styles are files, never inline.
const PAGE_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; \
    font-src 'self'; connect-src 'self'; manifest-src 'self'; worker-src 'self'; form-action 'none'; \
    frame-ancestors 'none'; base-uri 'none'";
/// For everything that is not a page, should a browser ever show it as one.
const DATA_POLICY: &str = "default-src 'none'; frame-ancestors 'none'; form-action 'none'; base-uri 'none'";

const FIXED: [(HeaderName, &str); 5] = [
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// Middleware around everything.
pub(crate) async fn secure(request: Request, next: Next) -> Response {
    let api = is_api(request.uri().path());
    let mut response = next.run(request).await;
    let page = !api && is_html(response.headers());
    // A browser puts the headers of this answer over those it has kept. This one has no type to tell what it is about, so
    // it leaves the policy that was given with the content.
    let unchanged = response.status() == StatusCode::NOT_MODIFIED;
    let headers = response.headers_mut();
    for (name, value) in FIXED {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if !unchanged {
        let policy = if page { PAGE_POLICY } else { DATA_POLICY };
        headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    }
    if api || !headers.contains_key(header::CACHE_CONTROL) {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    response
}

/// Whether the path belongs to the API rather than to the page.
pub(crate) fn is_api(path: &str) -> bool {
    path == "/api" || path.starts_with("/api/")
}

fn is_html(headers: &HeaderMap) -> bool {
    headers.get(header::CONTENT_TYPE).is_some_and(|v| v.as_bytes().starts_with(b"text/html"))
}
