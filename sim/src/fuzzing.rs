//! Promises that fuzz targets check: properties of the code in this crate that reads foreign bytes.
//!
//! Compiled only for fuzzing and tests, which replay the committed inputs; the targets are in `fuzz/`.

use bytes::Bytes;
use futures::FutureExt as _;
use http::{Method, Request, header};
use http_body_util::{BodyExt as _, Full};
use sim_world::vcenter::Family;
use sim_world::{PROVIDER_USER, Topology, VcRequest};
use tower::Service as _;

use crate::document::{self, Wrong};
pub use crate::kubeapi::fuzzing::{json, protobuf};
use crate::soap::{self, MalformedEnvelope};
use crate::{Sim, cli};

/// Sends an envelope to a vCenter. The vCenter answers any envelope with a readable one, and still serves the next request.
///
/// # Panics
/// If the promise does not hold.
pub fn envelope(body: &[u8]) {
    let answer = asked(|sim| {
        let user_agent = String::from("fuzz");
        let (user, family) = (PROVIDER_USER.to_owned(), Family::Soap);
        let password = sim.password("vc0", &user).expect("the provider has an account");
        let login = VcRequest::Login { family, token: None, user, password, user_agent };
        let session = match sim.world().request("vc0", login) {
            Ok(sim_world::Outcome::Session(token)) => token,
            other => panic!("no session: {other:?}"),
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
        // An answer is an envelope without a `_this`.
        let read = soap::read(&body).map(drop);
        assert!(matches!(read, Ok(()) | Err(MalformedEnvelope::NoThis)), "{read:?}");
    }
}

/// Sends a REST request. The vCenter answers with JSON or an empty body. Input: a line with method and path, then the body.
///
/// # Panics
/// If the promise does not hold.
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
    let answer = asked(|sim| {
        let (user, family) = (PROVIDER_USER.to_owned(), Family::Vapi);
        let password = sim.password("vc0", &user).expect("the provider has an account");
        let user_agent = String::from("fuzz");
        let login = VcRequest::Login { family, token: None, user, password, user_agent };
        let session = match sim.world().request("vc0", login) {
            Ok(sim_world::Outcome::Session(token)) => token,
            other => panic!("no session: {other:?}"),
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

/// Returns the answer of a fresh vCenter, or `None` if the call waits. Checks that the vCenter still serves afterwards.
fn asked(request: impl FnOnce(&Sim) -> http::Result<Request<Full<Bytes>>>) -> Option<(u16, Bytes)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let runtime = runtime.expect("the system has room for a runtime");
    let _entered = runtime.enter();
    let sim = Sim::builder().topology(Topology::zones(1).machines(2)).start();
    let mut vcenter = sim.vcenter("vc0").expect("vc0 is there").service("fuzz");
    let request = request(&sim).ok()?;
    let answer = vcenter.call(request).now_or_never().map(|answer| {
        let (parts, body) = answer.expect("no rule breaks it").into_parts();
        let body = body.collect().now_or_never().expect("it is there as a whole");
        (parts.status.as_u16(), body.expect("it is whole").to_bytes())
    });
    let versions = Request::get("/sdk/vimServiceVersions.xml").body(Full::<Bytes>::default());
    let next = vcenter.call(versions.expect("a good request")).now_or_never();
    assert!(next.is_some_and(|next| next.is_ok_and(|next| next.status() == 200)));
    answer
}

/// Parses a world file. The parser accepts it or explains the error.
///
/// # Panics
/// If the promise does not hold.
pub fn world(text: &[u8]) {
    said(cli::world(text).map(drop));
}

/// Parses fault rules. The parser accepts rules that survive a round trip, or explains the error.
///
/// # Panics
/// If the promise does not hold.
pub fn rules(text: &[u8]) {
    let read = document::yaml(text).and_then(document::rules);
    if let Ok(rules) = &read {
        for rule in rules {
            let text = serde_json::to_vec(rule).expect("a rule can be written");
            let again = document::yaml(&text).and_then(document::rules);
            assert_eq!(again.as_deref(), Ok(std::slice::from_ref(rule)));
        }
    }
    said(read.map(drop));
}

fn said(read: Result<(), Wrong>) {
    if let Err(wrong) = read {
        assert!(!wrong.problem.is_empty() && !wrong.remedy.is_empty(), "{wrong:?}");
        assert!(wrong.what().len() < 2000, "{}", wrong.what());
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    /// Replays the committed inputs of a target.
    fn replay(target: &str, play: fn(&[u8])) {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/inputs").join(target);
        let inputs = fs::read_dir(&folder).expect("the inputs are committed");
        let mut n_played = 0;
        for input in inputs {
            let path = input.expect("a file").path();
            println!("{}", path.display());
            play(&fs::read(&path).expect("it can be read"));
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
        replay("json", super::json);
        replay("protobuf", super::protobuf);
    }
}
