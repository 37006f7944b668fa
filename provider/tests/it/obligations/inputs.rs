//! Tests of invalid input: the provider reports it, keeps running, and writes nothing because of
//! it.

use std::convert::Infallible;

use http::{Request, Response};
use kube::client::Body;

use super::*;

/// Runs a provider whose Supervisor is behind `client`, with an old node that is not ready; returns
/// the error of the check `supervisor`.
async fn told(client: kube::Client) -> String {
    let cluster = Cluster::new();
    cluster.put(old_node("ours", "vsphere://abc"));
    cluster.join("new", "");
    let tuning = tuning(InstancesMode::Auto);
    let lab = Lab::start_with(Supervisor::new(), cluster, tuning, client);
    lab.not_ready("ours");
    sleep(10 * MINUTE).await;
    assert_eq!(lab.cluster.n_nodes(), 2);
    assert_eq!(lab.cluster.take_writes(), Vec::<String>::new());
    assert!(!lab.running.is_finished());
    lab.telemetry.supervisor_check().unwrap().unwrap_err()
}

/// A client of a server that gives every request this answer.
fn server(code: u16, text: &'static str) -> kube::Client {
    let service = tower::service_fn(move |_: Request<Body>| async move {
        let mut response = Response::new(Body::from(text.as_bytes().to_vec()));
        *response.status_mut() = http::StatusCode::from_u16(code).unwrap();
        Ok::<_, Infallible>(response)
    });
    kube::Client::new(service, "dev")
}

#[tokio::test(start_paused = true)]
async fn a_version_that_the_supervisor_does_not_serve_is_named() {
    let text = r#"{"kind":"Status","code":404,"reason":"NotFound","message":"the server could not find the requested resource","details":{}}"#;
    let said = told(server(404, text)).await;
    assert!(said.contains("vmoperator.vmware.com/v1alpha2"), "{said}");
    assert!(said.contains("the server could not find the requested resource"), "{said}");
}

#[tokio::test(start_paused = true)]
async fn an_error_names_an_answer_that_is_not_a_list() {
    for (text, want) in [
        ("<html>login</html>", "invalid content"),
        ("", "invalid content"),
        (r#"{"kind":"Status","status":"Success"}"#, "an object that is not a list"),
        (r#"{"items":null,"metadata":{}}"#, "an object that is not a list"),
        (r#"{"items":{"a":1}}"#, "an object that is not a list"),
        ("[]", "an object that is not a list"),
    ] {
        let said = told(server(200, text)).await;
        assert!(said.contains(want), "{text}: {said}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_with_an_unreadable_uuid_proves_no_machine_gone() {
    let lab = Lab::joined(3, InstancesMode::Poll).await;
    lab.not_ready(&name(0));
    // A UUID that is a number might be the wanted one.
    let mut odd = machine(7);
    odd["status"]["biosUUID"] = json!(7);
    lab.supervisor.put(odd);
    lab.supervisor.delete(&name(0));
    sleep(5 * MINUTE).await;
    assert!(lab.is_there(&name(0)));
    lab.supervisor.delete(&name(7));
    lab.until(20 * SECOND, |lab| !lab.is_there(&name(0))).await;
}

#[tokio::test(start_paused = true)]
async fn a_token_file_that_breaks_at_run_time_leaves_the_last_token_in_use() {
    let file = Arc::new(std::sync::Mutex::new(Ok("one")));
    let read = {
        let file = Arc::clone(&file);
        move || file.lock().unwrap().map(|it| it.as_bytes().to_vec()).map_err(str::to_owned)
    };
    let (supervisor, cluster) = (Supervisor::with(2), Cluster::new());
    supervisor.accept("one");
    cluster.join(&name(0), "");
    let tokens = Arc::new(TokenSource::new(Arc::new(read)));
    let client = authenticated(supervisor.client(), tokens, HeaderValue::from_static("provider"));
    let lab = Lab::start_with(supervisor, cluster, tuning(InstancesMode::Auto), client);
    lab.until(10 * SECOND, |lab| lab.is_initialized(&name(0))).await;
    for content in [Err("gone"), Ok(""), Ok("a b"), Ok("a\nb")] {
        *file.lock().unwrap() = content;
        lab.supervisor.cut();
        sleep(2 * MINUTE).await;
        assert!(lab.is_state("fresh"), "{content:?}");
    }
    assert_eq!(lab.supervisor.n_refused(), 0);
    assert_eq!(lab.cluster.n_nodes(), 1);
}
