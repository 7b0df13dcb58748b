//! Which names this server answers to, and which pages may speak to it.
//!
//! A browser lets any page of any site send requests to a loopback address. Two checks keep such pages out: the
//! `Host` must be ours (against names that are re-bound to a loopback address), and what changes something on behalf
//! of a cookie must come from our own page.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::uri::Authority;
use http::{HeaderMap, Method, header};
use skald_core_api::DevicePeer;

use crate::problem::Problem;
use crate::state::AppState;

/// How a request reached the server. Every connection puts this into its requests; a request without it is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Link {
    /// Over the TCP listener.
    Tcp {
        /// The address of the server that the peer connected to.
        local: SocketAddr,
        /// Where it came from.
        peer: IpAddr,
    },
    /// Over a stream that a plugin opened for a device it has authenticated.
    Device(DevicePeer),
}

/// A further name under which the server may be reached, e.g. behind a reverse proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedHost {
    name: String,
    port: Option<u16>,
}

/// A name that cannot be a `Host`.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not a host name; write it as NAME or NAME:PORT")]
pub struct NotAHost(String);

impl FromStr for AllowedHost {
    type Err = NotAHost;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        let authority: Authority = s.parse().map_err(|_| NotAHost(s.to_owned()))?;
        if authority.as_str().contains(['@', '*']) || authority.host().is_empty() {
            return Err(NotAHost(s.to_owned()));
        }
        // `name:` parses as an authority without a port; refuse it rather than guess.
        if authority.port().is_none() && authority.as_str() != authority.host() {
            return Err(NotAHost(s.to_owned()));
        }
        Ok(Self { name: authority.host().to_ascii_lowercase(), port: authority.port_u16() })
    }
}

/// Why a request is let in under its `Host`, which decides the schemes its `Origin` may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Own {
    /// A loopback name or the listener's own address: plain http.
    Listener,
    /// A configured name, perhaps behind a proxy that speaks https.
    Configured,
}

/// The origin of our own page as this request's `Host` implies it; put into the request by [`check_host`].
#[derive(Debug, Clone)]
pub(crate) struct OwnOrigin {
    authority: String,
    own: Own,
}

impl OwnOrigin {
    fn is(&self, origin: &str) -> bool {
        let rest = match self.own {
            Own::Listener => origin.strip_prefix("http://"),
            Own::Configured => origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://")),
        };
        rest.is_some_and(|rest| rest.eq_ignore_ascii_case(&self.authority))
    }
}

fn single<'a>(headers: &'a HeaderMap, name: &header::HeaderName) -> Result<Option<&'a str>, Problem> {
    let mut values = headers.get_all(name).iter();
    let Some(first) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(if name == header::HOST { Problem::bad_host() } else { Problem::foreign_origin() });
    }
    first.to_str().map(Some).map_err(|_| Problem::bad_host())
}

fn loopback_name(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost") || bare.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

fn own_host(link: &Link, allowed: &[AllowedHost], authority: &Authority) -> Option<Own> {
    let host = authority.host();
    match link {
        // The device's own listener may have any port, and only a loopback name.
        Link::Device(_) => loopback_name(host).then_some(Own::Listener),
        Link::Tcp { local, .. } => {
            let port = authority.port_u16().unwrap_or(80);
            let bare = host.trim_start_matches('[').trim_end_matches(']');
            let listener = port == local.port()
                && (host.eq_ignore_ascii_case("localhost")
                    || matches!(host, "127.0.0.1" | "[::1]")
                    // An address cannot be re-bound to another, so the one that was connected to is as good.
                    || bare.parse::<IpAddr>().is_ok_and(|ip| ip == local.ip().to_canonical()));
            let configured = allowed.iter().any(|a| {
                a.name.eq_ignore_ascii_case(host) && a.port.is_none_or(|p| Some(p) == authority.port_u16())
            });
            if listener {
                Some(Own::Listener)
            } else if configured {
                Some(Own::Configured)
            } else {
                None
            }
        }
    }
}

fn check(request: &Request, allowed: &[AllowedHost]) -> Result<OwnOrigin, Problem> {
    let link = request
        .extensions()
        .get::<Link>()
        .ok_or_else(|| Problem::internal(&"a request without its connection"))?;
    let host = single(request.headers(), &header::HOST)?.ok_or_else(Problem::bad_host)?;
    let authority: Authority = host.parse().map_err(|_| Problem::bad_host())?;
    if authority.as_str().contains('@') {
        return Err(Problem::bad_host());
    }
    // A request line may bear an address of its own; two different names are a trick.
    if request.uri().authority().is_some_and(|a| !a.as_str().eq_ignore_ascii_case(host)) {
        return Err(Problem::bad_host());
    }
    let own = own_host(link, allowed, &authority).ok_or_else(Problem::wrong_host)?;
    Ok(OwnOrigin { authority: host.to_owned(), own })
}

/// Middleware: refuses every request, to pages too, whose `Host` is not ours.
pub(crate) async fn check_host(State(state): State<AppState>, mut request: Request, next: Next) -> Response {
    match check(&request, state.allowed_hosts()) {
        Ok(own) => {
            request.extensions_mut().insert(own);
            next.run(request).await
        }
        Err(problem) => problem.into_response(),
    }
}

/// Whether a request may act on a standing that the browser adds by itself: a cookie, or the connection of a device.
/// `proof_needed` says that a change must prove that it comes from our own page.
pub(crate) fn check_origin(
    own: &OwnOrigin,
    method: &Method,
    headers: &HeaderMap,
    proof_needed: bool,
) -> Result<(), Problem> {
    let origin = single(headers, &header::ORIGIN)?;
    let site = headers.get("sec-fetch-site").map(|v| v.as_bytes());
    // Under our own referrer policy a browser may write `null` for our own page; what it says of the site is then the
    // word that counts, for no page can forge it.
    let hidden = origin == Some("null") && site == Some(b"same-origin");
    if !hidden && origin.is_some_and(|origin| !own.is(origin)) {
        return Err(Problem::foreign_origin());
    }
    // `none` is the address bar. Everything else but our own page has no business below /api.
    if site.is_some_and(|site| site != b"same-origin" && site != b"none") {
        return Err(Problem::foreign_origin());
    }
    let proven = origin.is_some_and(|origin| own.is(origin)) || site == Some(b"same-origin");
    if proof_needed && !method.is_safe() && !proven {
        return Err(Problem::foreign_origin());
    }
    Ok(())
}
