//! Access to the admin port: open on loopback, bearer token elsewhere and where `--admin-token` sets one.
//!
//! A browser on this machine can reach loopback too, and runs the scripts of foreign pages. Without a token, a request must
//! therefore name an IP address or localhost in `Host`, because a foreign name may point here by now (DNS rebinding). An `Origin`
//! must name that host too, because a foreign page may have sent the request. Every POST must declare its body as JSON, or as
//! YAML for rules, which a page may not send unasked.

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, Method, StatusCode, header};
use sha2::{Digest, Sha256};

use super::AdminError;

/// The conditions that a request must meet.
#[derive(Clone, Debug)]
pub(super) struct Guard {
    /// The digest of the token; comparing digests takes the same time for every guess.
    token: Option<[u8; 32]>,
    /// The host name in `--admin-advertise`, which clients use.
    advertised: Option<String>,
}

impl Guard {
    /// Builds the guard of a port with this token, whose clients use this URL.
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

/// Passes an admitted request on and refuses any other.
pub(super) async fn check(State(guard): State<Guard>, request: Request, next: Next) -> Response {
    match guard.admits(&request) {
        Ok(()) => next.run(request).await,
        Err(error) => error.into_response(),
    }
}

/// Checks that the request carries the token.
fn shows(headers: &HeaderMap, wanted: [u8; 32]) -> Result<(), AdminError> {
    let shown = text(headers, header::AUTHORIZATION)
        .and_then(|value| value.strip_prefix("Bearer "))
        .map(|token| <[u8; 32]>::from(Sha256::digest(token.trim().as_bytes())));
    if shown == Some(wanted) {
        return Ok(());
    }
    Err(AdminError::new(StatusCode::UNAUTHORIZED, "the admin port wants its bearer token")
        .remedy("send Authorization: Bearer with SIM_ADMIN_TOKEN of the file that --env named"))
}

/// Checks that a request without a token names this machine and does not come from a foreign page.
fn is_from_here(request: &Request, advertised: Option<&str>) -> Result<(), AdminError> {
    let headers = request.headers();
    let named = text(headers, header::HOST).or(request.uri().authority().map(|it| it.as_str()));
    let Some(host) = named else {
        return Err(
            AdminError::bad("the request has no Host").remedy("send Host, as HTTP/1.1 has it")
        );
    };
    if !is_local(host, advertised) {
        let what = format!("Host {host:?} is neither an IP address nor localhost");
        return Err(AdminError::new(StatusCode::MISDIRECTED_REQUEST, what).remedy(
            "use the address that sim serve prints as SIM_ADMIN, or start it with --admin-token",
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

/// True if a name, perhaps with a port, certainly belongs to this machine, or is the advertised one.
fn is_local(host: &str, advertised: Option<&str>) -> bool {
    let Ok(authority) = host.parse::<http::uri::Authority>() else { return false };
    let name = authority.host().trim_start_matches('[').trim_end_matches(']');
    let is_localhost =
        name.eq_ignore_ascii_case("localhost") || name.to_ascii_lowercase().ends_with(".localhost");
    let is_advertised = advertised.is_some_and(|it| it.eq_ignore_ascii_case(authority.host()));
    is_localhost || is_advertised || name.parse::<std::net::IpAddr>().is_ok()
}

/// Checks that a request with a body has a content type that its path accepts.
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
    let what = format!("Content-Type {said:?} is not served here");
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
