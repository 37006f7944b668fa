//! Properties of the code that reads foreign bytes. Each fuzz target in `fuzz/` checks one.
//!
//! Compiled only for fuzzing and for tests. The tests replay the committed inputs.

use bytes::Bytes;
use futures::FutureExt as _;
use http::{Method, Request, header};
use http_body_util::{BodyExt as _, Full};
use sim_world::vcenter::SessionService;
use sim_world::{PROVIDER_USER, Topology, VcRequest};
use tower::Service as _;

use crate::document::{self, DocumentError};
use crate::faults;
use crate::vcenter::soap::{self, MalformedEnvelope};
use crate::{Sim, cli};
#[cfg(fuzzing)]
pub use kube_sim_api::fuzzing::{json, protobuf};

/// Sends `body` as a SOAP request with a valid session to a vCenter.
///
/// # Panics
/// If the vCenter answers with anything but a readable envelope with status 200 or 500, or if it
/// does not serve the next request. A call that waits has no answer to check.
pub fn envelope(body: &[u8]) {
    let answer = answer_of_new_vcenter(|sim| {
        let user_agent = String::from("fuzz");
        let (user, family) = (PROVIDER_USER.to_owned(), SessionService::Soap);
        let password = sim.password("vc0", &user).expect("an account of the provider");
        let login = VcRequest::Login { family, token: None, user, password, user_agent };
        let session = match sim.world().request("vc0", login) {
            Ok(sim_world::Outcome::Session(token)) => token,
            other => panic!("the login gave no session: {other:?}"),
        };
        Request::builder()
            .method(Method::POST)
            .uri("/sdk")
            .header(header::CONTENT_TYPE, "text/xml")
            .header(header::COOKIE, format!("vmware_soap_session={session}"))
            .body(Full::new(Bytes::copy_from_slice(body)))
    });
    if let Some((status, body)) = answer {
        assert!([200, 500].contains(&status), "{status}");
        assert!(body.starts_with(b"<?xml") && body.ends_with(b"</soapenv:Envelope>"));
        // `soap::read` parses requests. An answer is readable, but has no `_this`.
        let read = soap::read(&body).map(drop);
        assert!(matches!(read, Ok(()) | Err(MalformedEnvelope::NoThis)), "{read:?}");
    }
}

/// Sends a REST request with a valid session to a vCenter. The first line of `input` has method and
/// path; the body follows. Ignores an input without a valid method and a path below `/api/` or
/// `/rest/`.
///
/// # Panics
/// If the body of the vCenter's answer is neither empty nor JSON, if the status is a server error
/// other than 503, or if the vCenter does not serve the next request.
pub fn rest(input: &[u8]) {
    let at = input.iter().position(|byte| *byte == b'\n').unwrap_or(input.len());
    let (line, body) = input.split_at(at);
    let Ok(line) = std::str::from_utf8(line) else { return };
    let Some((method, path)) = line.split_once(' ') else { return };
    let (Ok(method), Ok(uri)) = (method.parse::<Method>(), path.parse::<http::Uri>()) else {
        return;
    };
    if !uri.path().starts_with("/api/") && !uri.path().starts_with("/rest/") {
        return;
    }
    let body = Bytes::copy_from_slice(body.get(1..).unwrap_or_default());
    let answer = answer_of_new_vcenter(|sim| {
        let (user, family) = (PROVIDER_USER.to_owned(), SessionService::Vapi);
        let password = sim.password("vc0", &user).expect("an account of the provider");
        let user_agent = String::from("fuzz");
        let login = VcRequest::Login { family, token: None, user, password, user_agent };
        let session = match sim.world().request("vc0", login) {
            Ok(sim_world::Outcome::Session(token)) => token,
            other => panic!("the login gave no session: {other:?}"),
        };
        Request::builder()
            .method(method)
            .uri(uri)
            .header(header::CONTENT_TYPE, "application/json")
            .header("vmware-api-session-id", session)
            .body(Full::new(body))
    });
    if let Some((status, body)) = answer {
        assert!(status < 500 || status == 503, "{status}: {}", String::from_utf8_lossy(&body));
        let is_json = serde_json::from_slice::<serde_json::Value>(&body).is_ok();
        assert!(body.is_empty() || is_json, "{}", String::from_utf8_lossy(&body));
    }
}

/// Sends a request to a new vCenter and returns status and body of the answer; `None` if the
/// request is invalid or the call waits. Checks that the vCenter serves another request after a
/// valid one.
fn answer_of_new_vcenter(
    request: impl FnOnce(&Sim) -> http::Result<Request<Full<Bytes>>>,
) -> Option<(u16, Bytes)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let runtime = runtime.expect("a tokio runtime");
    let _entered = runtime.enter();
    let sim = Sim::builder().topology(Topology::zones(1).machines(2)).start();
    let mut vcenter = sim.vcenter("vc0").expect("a vCenter vc0").service("fuzz");
    let request = request(&sim).ok()?;
    let answer = vcenter.call(request).now_or_never().map(|answer| {
        let (parts, body) = answer.expect("no rule breaks the connection").into_parts();
        let body = body.collect().now_or_never().expect("a body without a stream");
        (parts.status.as_u16(), body.expect("a readable body").to_bytes())
    });
    let versions = Request::get("/sdk/vimServiceVersions.xml").body(Full::<Bytes>::default());
    let next = vcenter.call(versions.expect("a valid request")).now_or_never();
    assert!(next.is_some_and(|next| next.is_ok_and(|next| next.status() == 200)));
    answer
}

/// Parses a world file.
///
/// # Panics
/// If the parser refuses the file with an error that lacks a problem or a remedy, or whose
/// [`DocumentError::summary`] has 2,000 bytes or more.
pub fn world(text: &[u8]) {
    check_error(cli::world(text).map(drop));
}

/// Parses fault rules.
///
/// # Panics
/// If an accepted rule changes when it is written and read again. If the parser refuses the rules
/// with an error that lacks a problem or a remedy, or whose [`DocumentError::summary`] has 2,000
/// bytes or more.
pub fn rules(text: &[u8]) {
    let read = document::yaml(text).and_then(faults::read_rules);
    if let Ok(rules) = &read {
        for rule in rules {
            let text = serde_json::to_vec(rule).expect("a rule as JSON");
            let again = document::yaml(&text).and_then(faults::read_rules);
            assert_eq!(again.as_deref(), Ok(std::slice::from_ref(rule)));
        }
    }
    check_error(read.map(drop));
}

/// Checks that an error, if any, has a problem and a remedy, and that its
/// [`DocumentError::summary`] has less than 2,000 bytes.
fn check_error(read: Result<(), DocumentError>) {
    if let Err(wrong) = read {
        assert!(!wrong.problem.is_empty() && !wrong.remedy.is_empty(), "{wrong:?}");
        assert!(wrong.summary().len() < 2000, "{}", wrong.summary());
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    /// Calls `play` with each committed input of a fuzz target.
    fn replay(target: &str, play: fn(&[u8])) {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz").join(target);
        let inputs = fs::read_dir(&folder).expect("a directory of inputs");
        let mut n_played = 0;
        for input in inputs {
            let path = input.expect("a readable directory entry").path();
            println!("{}", path.display());
            play(&fs::read(&path).expect("a readable input"));
            n_played += 1;
        }
        assert!(n_played > 0, "{}", folder.display());
    }

    #[test]
    fn the_committed_fuzzing_inputs_pass_their_checks() {
        replay("soap", super::envelope);
        replay("vapi", super::rest);
        replay("world", super::world);
        replay("rules", super::rules);
    }
}
