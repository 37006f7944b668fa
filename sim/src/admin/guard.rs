//! Who may use the admin port: everybody on loopback, holders of the token elsewhere and where one was asked for.
//!
//! A browser is on loopback, too, and does what the pages say that it shows. Without a token a request has to name an address
//! or localhost (a name of somebody else may point here by now: DNS rebinding) and must not come from a page of elsewhere. And
//! whatever has a body says that it is JSON, or YAML for rules: that no page may send unasked.

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, Method, StatusCode, header};
use sha2::{Digest, Sha256};

use super::AdminError;

/// What is asked for.
#[derive(Clone, Debug)]
pub(super) struct Guard {
    /// The digest of the token; comparing digests takes the same time for every guess.
    token: Option<[u8; 32]>,
    /// The name that clients were told, `--admin-advertise`.
    advertised: Option<String>,
}

impl Guard {
    /// For a port with this token, whose URL clients were told.
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

/// Lets a request in, or does not.
pub(super) async fn check(State(guard): State<Guard>, request: Request, next: Next) -> Response {
    match guard.admits(&request) {
        Ok(()) => next.run(request).await,
        Err(error) => error.into_response(),
    }
}

/// Whether the token is shown.
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

/// Whether a request without a token may come from somebody on this machine, and from no page of elsewhere.
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

/// Whether a name, perhaps with a port, is that of this machine for sure, or the one that clients were told.
fn is_local(host: &str, advertised: Option<&str>) -> bool {
    let Ok(authority) = host.parse::<http::uri::Authority>() else { return false };
    let name = authority.host().trim_start_matches('[').trim_end_matches(']');
    let is_localhost =
        name.eq_ignore_ascii_case("localhost") || name.to_ascii_lowercase().ends_with(".localhost");
    let is_advertised = advertised.is_some_and(|it| it.eq_ignore_ascii_case(authority.host()));
    is_localhost || is_advertised || name.parse::<std::net::IpAddr>().is_ok()
}

/// Whether a request with a body has a content type that is served there.
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
    fn only_addresses_and_localhost_are_names_of_this_machine() {
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
