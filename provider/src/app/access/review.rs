//! The two reviews by the API server. The provider repeats a review up to four times if the API
//! server does not answer, is overloaded or fails.

use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::cluster::{Cluster, ClusterError};

/// Maximum number of attempts to get one review.
const ATTEMPTS: u32 = 5;
/// Pause after the first attempt; each further pause is 1.5 times as long as the one before.
const PAUSE: Duration = Duration::from_millis(500);

/// The caller of a request to the endpoint.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct User {
    pub(super) name: String,
    uid: String,
    groups: Vec<String>,
    /// Extra attributes of the user, as the text of a JSON object; empty if the user has none.
    extra: String,
}

impl User {
    pub(super) fn anonymous() -> Self {
        Self {
            name: "system:anonymous".to_owned(),
            uid: String::new(),
            groups: vec!["system:unauthenticated".to_owned()],
            extra: String::new(),
        }
    }

    /// True if the user belongs to `system:masters` and so may do everything.
    pub(super) fn is_master(&self) -> bool {
        self.groups.iter().any(|group| group == "system:masters")
    }

    fn read(value: &Value) -> Self {
        let text = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
        let groups = value["groups"].as_array().into_iter().flatten();
        let mut groups: Vec<String> = groups.filter_map(Value::as_str).map(str::to_owned).collect();
        let authenticated = "system:authenticated";
        if !groups.iter().any(|group| group == authenticated) {
            groups.push(authenticated.to_owned());
        }
        let extra = value["extra"].as_object().map(|it| Value::Object(it.clone()).to_string());
        Self { name: text("username"), uid: text("uid"), groups, extra: extra.unwrap_or_default() }
    }
}

/// Returns the user of a token; `None` if the token is invalid.
pub(super) async fn user_of(cluster: &Cluster, token: &str) -> Result<Option<User>, ClusterError> {
    let review = json!({
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": {"token": token},
    });
    let answer = ask(cluster, "/apis/authentication.k8s.io/v1/tokenreviews", &review).await?;
    let status = &answer["status"];
    let is_good = status["authenticated"].as_bool().unwrap_or(false);
    Ok(is_good.then(|| User::read(&status["user"])))
}

/// Returns true if the API server allows the user to request the path with this verb.
pub(super) async fn is_allowed(
    cluster: &Cluster,
    user: &User,
    verb: &str,
    path: &str,
) -> Result<bool, ClusterError> {
    let extra: Map<String, Value> = serde_json::from_str(&user.extra).unwrap_or_default();
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "nonResourceAttributes": {"path": path, "verb": verb},
            "user": user.name,
            "uid": user.uid,
            "groups": user.groups,
            "extra": extra,
        },
    });
    let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    let status = &ask(cluster, path, &review).await?["status"];
    let is = |key: &str| status[key].as_bool().unwrap_or(false);
    Ok(is("allowed") && !is("denied"))
}

async fn ask(cluster: &Cluster, path: &str, review: &Value) -> Result<Value, ClusterError> {
    let mut pause = PAUSE;
    for _ in 1..ATTEMPTS {
        match cluster.post(path, review).await {
            Err(err) if err.code().is_none_or(|code| code == 429 || code >= 500) => {
                tracing::debug!(error = %provider_vcenter::Chain(&err), "review of a caller of the HTTPS endpoint failed; retrying");
            }
            other => return other,
        }
        tokio::time::sleep(pause).await;
        pause = pause.mul_f64(1.5);
    }
    cluster.post(path, review).await
}
