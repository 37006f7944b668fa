use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
};

use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};

use super::*;

/// Makes access checks with these settings.
fn access_of(settings: AccessSettings) -> Access {
    Access::new(settings, crate::Telemetry::default().cluster_requests())
}

/// An API server that accepts the tokens `good`, whose user may get `/metrics`, and `master`. Keeps
/// the reviews that it received. If `is_down`, answers each review with status 500.
#[derive(Clone, Default)]
struct Reviewer {
    asked: Arc<Mutex<Vec<Value>>>,
    is_down: bool,
}

impl Reviewer {
    fn client(&self) -> kube::Client {
        let this = self.clone();
        let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let this = this.clone();
            async move {
                let body = request.into_body().collect().await.unwrap().to_bytes();
                let review: Value = serde_json::from_slice(&body).unwrap();
                let answer = answer(&review);
                this.asked.lock().unwrap().push(review);
                let status = if this.is_down { 500 } else { 201 };
                let body = Full::new(bytes::Bytes::from(answer.to_string()));
                let response = http::Response::builder().status(status).body(body);
                Ok::<_, Infallible>(response.unwrap())
            }
        });
        kube::Client::new(service, "default")
    }

    fn access(&self) -> Access {
        let (authentication, authorization) = (Some(self.client()), Some(self.client()));
        access_of(AccessSettings { authentication, authorization, ..AccessSettings::default() })
    }

    /// Returns the kinds of the reviews that arrived since the last call of this function.
    fn asked(&self) -> Vec<String> {
        let asked = std::mem::take(&mut *self.asked.lock().unwrap());
        asked.iter().map(|it| it["kind"].as_str().unwrap().to_owned()).collect()
    }
}

fn answer(review: &Value) -> Value {
    let spec = &review["spec"];
    let status = match (review["kind"].as_str().unwrap(), spec["token"].as_str()) {
        ("TokenReview", Some("good")) => json!({"authenticated": true, "user": {
            "username": "scraper", "uid": "1", "groups": ["g"], "extra": {"k": ["v"]},
        }}),
        ("TokenReview", Some("master")) => json!({"authenticated": true, "user": {
            "username": "root", "groups": ["system:masters"],
        }}),
        ("TokenReview", _) => json!({"authenticated": false, "error": "no"}),
        _ => json!({"allowed": spec["user"] == "scraper"
            && spec["groups"] == json!(["g", "system:authenticated"])
            && spec["extra"] == json!({"k": ["v"]})
            && spec["nonResourceAttributes"] == json!({"path": "/metrics", "verb": "get"})}),
    };
    json!({"status": status})
}

async fn judged(access: &Access, path: &str, authorization: &str) -> u16 {
    let mut headers = HeaderMap::new();
    if !authorization.is_empty() {
        headers.insert(header::AUTHORIZATION, authorization.parse().unwrap());
    }
    let judged = access.judge(&Method::GET, path, &headers).await;
    judged.map_or_else(|(status, _)| status.as_u16(), |()| 200)
}

#[tokio::test(start_paused = true)]
async fn requests_are_judged_by_the_api_server() {
    const TOKEN: &str = "TokenReview";
    const ACCESS: &str = "SubjectAccessReview";
    for (path, authorization, want, asked) in [
        ("/healthz", "", 200, &[][..]),
        ("/metrics", "", 403, &[ACCESS]),
        ("/metrics", "Bearer good", 200, &[TOKEN, ACCESS]),
        ("/metrics", "bearer  good ", 200, &[TOKEN, ACCESS]),
        ("/other", "Bearer good", 403, &[TOKEN, ACCESS]),
        ("/metrics", "Bearer master", 200, &[TOKEN]),
        ("/metrics", "Bearer bad", 401, &[TOKEN]),
        ("/healthz", "Bearer bad", 401, &[TOKEN]),
        ("/metrics", "Basic good", 403, &[ACCESS]),
        ("/metrics", "Bearer ", 403, &[ACCESS]),
    ] {
        let reviewer = Reviewer::default();
        assert_eq!(
            judged(&reviewer.access(), path, authorization).await,
            want,
            "{path} {authorization}"
        );
        assert_eq!(reviewer.asked(), asked, "{path} {authorization}");
    }
}

#[tokio::test(start_paused = true)]
async fn without_an_api_server_only_allowed_paths_are_open() {
    let access = access_of(AccessSettings::default());
    for (path, authorization, want) in [
        ("/healthz", "", 200),
        ("/readyz", "Bearer good", 200),
        ("/metrics", "", 403),
        ("/metrics", "Bearer master", 403),
    ] {
        assert_eq!(judged(&access, path, authorization).await, want, "{path} {authorization}");
    }
}

#[tokio::test(start_paused = true)]
async fn reviews_are_cached_for_their_configured_times() {
    let reviewer = Reviewer::default();
    let access = access_of(AccessSettings {
        token_ttl: Duration::from_secs(5),
        allowed_ttl: Duration::from_secs(20),
        refused_ttl: Duration::from_secs(1),
        ..reviewer.access().settings
    });
    let mut seen = Vec::new();
    for _ in 0..12 {
        assert_eq!(judged(&access, "/metrics", "Bearer good").await, 200);
        assert_eq!(judged(&access, "/other", "Bearer good").await, 403);
        seen.push(reviewer.asked().iter().map(|kind| &kind[..1]).collect::<String>());
        tokio::time::advance(Duration::from_millis(1001)).await;
    }
    // T is a TokenReview and S a SubjectAccessReview. The refusal expires every second, the token
    // after 5 s, and the permission after 20 s.
    assert_eq!(seen.join(" "), "TSS S S S S TS S S S S TS S");
}

#[tokio::test(start_paused = true)]
async fn a_failed_review_refuses_the_request_and_is_not_cached() {
    let reviewer = Reviewer { is_down: true, ..Reviewer::default() };
    let access = reviewer.access();
    assert_eq!(judged(&access, "/metrics", "Bearer good").await, 401);
    assert_eq!(reviewer.asked().len(), 5);
    assert_eq!(judged(&access, "/metrics", "").await, 500);
    assert_eq!(judged(&access, "/metrics", "").await, 500, "refused again");
    assert_eq!(reviewer.asked().len(), 10);
    assert_eq!(judged(&access, "/healthz", "").await, 200);
}

#[test]
fn a_refusal_names_the_user_the_verb_and_the_path() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let access = access_of(AccessSettings::default());
    let refused = runtime.block_on(access.judge(&Method::GET, "/metrics", &HeaderMap::new()));
    let text = "forbidden: User \"system:anonymous\" cannot get path \"/metrics\"".to_owned();
    assert_eq!(refused, Err((StatusCode::FORBIDDEN, text)));
}
