//! The page's files, built into the program.
//!
//! The build puts a compressed form beside each file that compresses (`.br`, `.gz`); what has none is compressed as it is
//! sent. Only these files ever are: an answer of the API holds secrets beside what strangers chose, and the length of a
//! compressed body tells of both; an event stream must not wait in a compressor. Parts of files are not served, for none
//! is large, and the answers say so.

use std::borrow::Cow;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use rust_embed::{EmbeddedFile, RustEmbed};
use tower_http::compression::{CompressionLayer, Predicate};

use crate::headers::is_api;
use crate::problem::Problem;

#[derive(RustEmbed)]
#[folder = "$CARGO_MANIFEST_DIR/../../web/packages/app/dist"]
struct Files;

/// Compresses text. Only the page's own files pass here, so nothing secret shares a compressed body with what a
/// stranger chose.
#[derive(Clone, Copy)]
struct Text;

impl Predicate for Text {
    fn should_compress<B>(&self, response: &http::Response<B>) -> bool
    where
        B: http_body::Body,
    {
        let Some(kind) = response.headers().get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()) else {
            return false;
        };
        let essence = kind.split(';').next().unwrap_or_default().trim();
        response.status() == StatusCode::OK
            && (essence.starts_with("text/")
                || essence.ends_with("javascript")
                || essence.ends_with("json")
                || essence.ends_with("+xml")
                || essence == "application/wasm")
    }
}

/// Serves whatever no route of the API serves.
pub(crate) fn router() -> Router {
    Router::new().fallback(serve).layer(CompressionLayer::new().gzip(true).compress_when(Text))
}

async fn serve(request: Request) -> Response {
    let path = request.uri().path();
    if is_api(path) {
        return Problem::no_such_path().into_response();
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return Problem::wrong_method()
            .with_header(header::ALLOW, HeaderValue::from_static("GET, HEAD"))
            .into_response();
    }
    let name = path.trim_start_matches('/');
    let form = FORMS.iter().any(|(_, ending)| name.ends_with(ending));
    if let Some(file) = Files::get(name).filter(|_| name != "index.html" && !form) {
        let cache = if is_hashed(name) { "public, max-age=31536000, immutable" } else { "no-cache" };
        return answer(name, file, cache, request.headers());
    }
    // Routes of the page are drawn by the page; they bear no file extension.
    if name.rsplit('/').next().is_some_and(|last| last.contains('.')) && name != "index.html" {
        return Problem::no_such_path().into_response();
    }
    match Files::get("index.html") {
        Some(file) => answer("index.html", file, "no-cache", request.headers()),
        None => Problem::unavailable(
            "no_page",
            "This build of Skald holds no page; build it again with npm installed, or use the command line.",
        )
        .into_response(),
    }
}

/// Vite puts a hash of the content before the extension of everything below `assets/`: such a name never changes its
/// meaning.
fn is_hashed(name: &str) -> bool {
    let Some(file) = name.strip_prefix("assets/") else { return false };
    let Some((stem, _)) = file.split_once('.') else { return false };
    stem.len() > 8
        && stem.is_char_boundary(stem.len() - 8)
        && stem[..stem.len() - 8].ends_with('-')
        && stem[stem.len() - 8..].bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

/// Compressed forms, the smallest first: what a browser calls them, and how their files end.
const FORMS: [(&str, &str); 2] = [("br", ".br"), ("gzip", ".gz")];

/// The smallest form of a file that the asker takes.
fn compressed(name: &str, asked: &HeaderMap) -> Option<(&'static str, EmbeddedFile)> {
    FORMS
        .into_iter()
        .filter(|(coding, _)| takes(coding, asked))
        .find_map(|(coding, ending)| Files::get(&format!("{name}{ending}")).map(|file| (coding, file)))
}

/// Whether `Accept-Encoding` names a coding and does not weigh it with nothing.
fn takes(coding: &str, asked: &HeaderMap) -> bool {
    let lists = asked.get_all(header::ACCEPT_ENCODING).iter().filter_map(|v| v.to_str().ok());
    lists.flat_map(|list| list.split(',')).any(|item| {
        let mut parts = item.split(';').map(str::trim);
        let named = parts.next().is_some_and(|name| name.eq_ignore_ascii_case(coding));
        let weight = parts.find_map(|p| p.strip_prefix("q=")).map(|q| q.trim().parse::<f32>());
        named && !weight.is_some_and(|q| q.is_ok_and(|q| q <= 0.0))
    })
}

fn body(data: Cow<'static, [u8]>) -> Body {
    match data {
        Cow::Borrowed(bytes) => Body::from(Bytes::from_static(bytes)),
        Cow::Owned(bytes) => Body::from(bytes),
    }
}

fn answer(name: &str, file: EmbeddedFile, cache: &'static str, asked: &HeaderMap) -> Response {
    use std::fmt::Write;
    // Weak, because the same tag stands for the compressed form.
    let mut tag = String::from("W/\"");
    for byte in &file.metadata.sha256_hash()[..16] {
        let _ = write!(tag, "{byte:02x}");
    }
    tag.push('"');
    let known = asked.get_all(header::IF_NONE_MATCH).iter().filter_map(|v| v.to_str().ok()).any(|list| {
        list.split(',')
            .map(str::trim)
            .any(|t| t == "*" || t.trim_start_matches("W/") == tag.trim_start_matches("W/"))
    });
    let kind = mime_guess::from_path(name).first_or_octet_stream();
    let kind = match kind.essence_str() {
        "text/html" => "text/html; charset=utf-8".to_owned(),
        "text/javascript" | "application/javascript" => "text/javascript; charset=utf-8".to_owned(),
        "text/css" => "text/css; charset=utf-8".to_owned(),
        other => other.to_owned(),
    };
    let (coding, data) = match compressed(name, asked) {
        Some((coding, form)) => (Some(coding), form.data),
        None => (None, file.data),
    };
    let mut response =
        if known { StatusCode::NOT_MODIFIED.into_response() } else { body(data).into_response() };
    let headers = response.headers_mut();
    headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("none"));
    if let Some(coding) = coding.filter(|_| !known) {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static(coding));
    }
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(cache));
    if let Ok(tag) = HeaderValue::try_from(tag) {
        headers.insert(header::ETAG, tag);
    }
    if !known && let Ok(kind) = HeaderValue::try_from(kind) {
        headers.insert(header::CONTENT_TYPE, kind);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_with_a_hash_below_assets_are_kept_for_ever() {
        assert!(is_hashed("assets/index-BJq3k_2f.js"));
        assert!(is_hashed("assets/app-page-0a1B2c3D.css"));
        assert!(is_hashed("assets/index-BJq3k_2f.js.map"));
        assert!(!is_hashed("assets/logo.svg"));
        assert!(!is_hashed("index-BJq3k_2f.js"));
        assert!(!is_hashed("index.html"));
        assert!(!is_hashed("assets/ünïcödë-x.js"));
    }

    async fn get(path: &str, headers: &[(header::HeaderName, &str)]) -> Response {
        use tower::ServiceExt;
        let mut request = http::Request::get(path);
        for (name, value) in headers {
            request = request.header(name, *value);
        }
        match router().oneshot(request.body(Body::empty()).unwrap()).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }

    #[tokio::test]
    async fn a_file_that_is_not_there_is_a_problem_and_never_the_page() {
        let response = get("/assets/gone-00000000.js", &[]).await;
        assert_eq!(response.status(), StatusCode::NOT_FOUND);
        assert_eq!(response.headers()[header::CONTENT_TYPE], "application/problem+json");
    }

    #[tokio::test]
    async fn an_unknown_path_of_the_api_is_never_the_page() {
        assert_eq!(get("/api/v1/nothing", &[]).await.status(), StatusCode::NOT_FOUND);
    }

    /// What holds for the page holds only where the build has one.
    #[tokio::test]
    async fn the_page_answers_its_own_routes_and_is_asked_again_every_time() {
        if Files::get("index.html").is_none() {
            assert_eq!(get("/", &[]).await.status(), StatusCode::SERVICE_UNAVAILABLE);
            return;
        }
        for path in ["/", "/index.html", "/history", "/inbox/1b4e28ba-2fa1-41d2-883f-0016d3cca427"] {
            let response = get(path, &[]).await;
            assert_eq!(response.status(), StatusCode::OK, "{path}");
            assert_eq!(response.headers()[header::CONTENT_TYPE], "text/html; charset=utf-8");
            assert_eq!(response.headers()[header::CACHE_CONTROL], "no-cache");
            let tag = response.headers()[header::ETAG].to_str().unwrap().to_owned();
            let again = get(path, &[(header::IF_NONE_MATCH, &tag)]).await;
            assert_eq!(again.status(), StatusCode::NOT_MODIFIED);
        }
        for (asked, coding) in [
            ("gzip", Some("gzip")),
            ("gzip, deflate, br, zstd", Some("br")),
            ("br;q=0, gzip;q=0.5", Some("gzip")),
            ("identity", None),
        ] {
            let response = get("/", &[(header::ACCEPT_ENCODING, asked)]).await;
            let given = response.headers().get(header::CONTENT_ENCODING).map(|v| v.to_str().unwrap());
            // A page that was built elsewhere may have no compressed forms beside it.
            if Files::get("index.html.br").is_some() || coding != Some("br") {
                assert_eq!(given, coding, "{asked}");
            }
            assert_eq!(response.headers()[header::ACCEPT_RANGES], "none");
            assert_eq!(response.headers()[header::VARY], "accept-encoding");
        }
        assert_eq!(get("/index.html.gz", &[]).await.status(), StatusCode::NOT_FOUND);
    }

    #[tokio::test]
    async fn every_file_is_served_under_its_own_name() {
        let form = |name: &str| FORMS.iter().any(|(_, ending)| name.ends_with(ending));
        for name in Files::iter().filter(|n| n != "index.html" && !form(n)) {
            let response = get(&format!("/{name}"), &[]).await;
            assert_eq!(response.status(), StatusCode::OK, "{name}");
            if is_hashed(&name) {
                let cache = response.headers()[header::CACHE_CONTROL].to_str().unwrap();
                assert!(cache.contains("immutable"), "{name}");
            }
        }
    }
}
