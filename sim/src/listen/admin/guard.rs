//! Access to the admin port: open on loopback, bearer token elsewhere and where `--admin-token`
//! sets one.
//!
//! A browser on this computer can reach loopback too, and runs scripts of foreign web pages.
//! Without a token, the guard therefore checks two headers. `Host` must be an IP address,
//! localhost, a name below localhost or the advertised name, because a foreign name may resolve to
//! this computer (DNS rebinding). `Origin`, if sent, must name the same host and port, because a
//! foreign page may have sent the request. With and without a token, every POST must declare its
//! body as JSON; a POST of rules may declare YAML instead. A browser sends these types from a
//! foreign page only with the consent of the server (CORS preflight), which the admin port never
//! gives.

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, Method, StatusCode, header};
use sha2::{Digest, Sha256};

use super::AdminError;

/// Access rules of the admin port.
#[derive(Clone, Debug)]
pub(super) struct Guard {
    /// SHA-256 of the token; `None` if the port requires no token. The guard compares digests, so
    /// that the time of a comparison reveals nothing about the token.
    token: Option<[u8; 32]>,
    /// Host name of the admin port's URL, which `--admin-advertise` can set; `None` if the URL has
    /// none.
    advertised: Option<String>,
}

impl Guard {
    /// Returns the guard of a port that requires `token`, if any, and that clients reach at `url`.
    pub(super) fn new(token: Option<&str>, url: &str) -> Self {
        let advertised = url.parse::<http::Uri>().ok().and_then(|it| it.host().map(str::to_owned));
        Self { token: token.map(|token| Sha256::digest(token.as_bytes()).into()), advertised }
    }

    fn admits(&self, request: &Request) -> Result<(), AdminError> {
        match self.token {
            Some(wanted) => shows(request.headers(), wanted)?,
            None => is_from_here(request, self.advertised.as_deref())?,
        }
        if request.method() == Method::POST { says_what_it_is(request) } else { Ok(()) }
    }
}

/// Passes a request to the handlers if the guard admits it, else answers with an error.
pub(super) async fn check(State(guard): State<Guard>, request: Request, next: Next) -> Response {
    match guard.admits(&request) {
        Ok(()) => next.run(request).await,
        Err(error) => error.into_response(),
    }
}

/// Checks that the header `Authorization` has the bearer token whose SHA-256 is `wanted`; the error
/// answers 401.
fn shows(headers: &HeaderMap, wanted: [u8; 32]) -> Result<(), AdminError> {
    let shown = text(headers, header::AUTHORIZATION)
        .and_then(|value| value.strip_prefix("Bearer "))
        .map(|token| <[u8; 32]>::from(Sha256::digest(token.trim().as_bytes())));
    if shown == Some(wanted) {
        return Ok(());
    }
    let problem = "the request has no valid token for the admin port";
    let remedy = "send the token that `sim serve` prints as SIM_ADMIN_TOKEN: in the header \
                  `Authorization: Bearer TOKEN`, or with --admin-token of sim";
    Err(AdminError::new(StatusCode::UNAUTHORIZED, problem).remedy(remedy))
}

/// Checks that `Host` (or, without it, the host of the URI) is local ([`is_local`]), and that
/// `Origin`, if sent, names the same host and port. The error answers 400 without a host, 421 for a
/// host that is not local, and 403 for another origin.
fn is_from_here(request: &Request, advertised: Option<&str>) -> Result<(), AdminError> {
    let headers = request.headers();
    let named = text(headers, header::HOST).or(request.uri().authority().map(|it| it.as_str()));
    let Some(host) = named else {
        return Err(AdminError::bad("the request has no Host header")
            .remedy("send a Host header, as HTTP/1.1 requires"));
    };
    if !is_local(host, advertised) {
        let what = format!("Host {host:?} is not an IP address, localhost or the advertised name");
        return Err(AdminError::new(StatusCode::MISDIRECTED_REQUEST, what).remedy(
            "use the address that `sim serve` prints as SIM_ADMIN, or start sim with --admin-token",
        ));
    }
    match text(headers, header::ORIGIN) {
        Some(origin) if origin.split_once("://").map(|(_, host)| host) != Some(host) => {
            let what = format!("a page of {origin:?} may not use the admin port");
            Err(AdminError::new(StatusCode::FORBIDDEN, what)
                .remedy("send no Origin, or start sim with --admin-token and send the token"))
        }
        _ => Ok(()),
    }
}

/// True if a host, with or without port, is an IP address, localhost, a name below localhost, or
/// the advertised name. DNS rebinding cannot use these.
fn is_local(host: &str, advertised: Option<&str>) -> bool {
    let Ok(authority) = host.parse::<http::uri::Authority>() else { return false };
    let name = authority.host().trim_start_matches('[').trim_end_matches(']');
    let is_localhost =
        name.eq_ignore_ascii_case("localhost") || name.to_ascii_lowercase().ends_with(".localhost");
    let is_advertised = advertised.is_some_and(|it| it.eq_ignore_ascii_case(authority.host()));
    is_localhost || is_advertised || name.parse::<std::net::IpAddr>().is_ok()
}

/// Checks that a POST has a content type that its path accepts: JSON, and for rules also YAML. The
/// error answers 415.
fn says_what_it_is(request: &Request) -> Result<(), AdminError> {
    const JSON: &[&str] = &["application/json"];
    const RULES: &[&str] =
        &["application/json", "application/yaml", "application/x-yaml", "text/yaml"];
    let served = if request.uri().path().ends_with("/faults") { RULES } else { JSON };
    let said = text(request.headers(), header::CONTENT_TYPE).unwrap_or_default();
    let essence = said.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if served.contains(&essence.as_str()) {
        return Ok(());
    }
    let what = format!("Content-Type {said:?} is not supported here");
    Err(AdminError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, what)
        .remedy(format!("send Content-Type: {}", served.join(" or "))))
}

fn text(headers: &HeaderMap, name: header::HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_hosts_are_addresses_localhost_and_the_advertised_name() {
        let local = [
            "127.0.0.1:8900",
            "[::1]:8900",
            "localhost",
            "LOCALHOST:8900",
            "sim.localhost",
            "192.0.2.7",
        ];
        for host in local {
            assert!(is_local(host, None), "{host}");
        }
        assert!(is_local("Lab.Test:8900", Some("lab.test")));
        for host in ["example.com", "localhost.example.com:8900", "127.0.0.1.nip.io", "", "a b"] {
            assert!(!is_local(host, Some("lab.test")), "{host}");
        }
    }
}
