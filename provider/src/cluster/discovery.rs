//! Looks up in which version an API server serves a resource.

use serde_json::Value;

use super::{Cluster, ClusterError};

/// Returns the preferred version of those in which the API server serves a resource; `None` if it
/// serves the resource in none. Only its lists of groups and resources prove that: a 404 can also
/// come from a proxy.
///
/// # Errors
///
/// If a request fails, or an answer is not a list.
pub(crate) async fn served_version(
    cluster: &Cluster,
    group: &str,
    resource: &str,
) -> Result<Option<String>, ClusterError> {
    let groups = list(cluster, "/apis".to_owned(), "groups").await?;
    let Some(described) = groups.iter().find(|it| it["name"] == group) else { return Ok(None) };
    // The server lists the versions in the order of its preference.
    for version in described["versions"].as_array().into_iter().flatten() {
        let version = version["version"].as_str().unwrap_or_default();
        let path = format!("/apis/{group}/{version}");
        let resources = list(cluster, path, "resources").await?;
        if resources.iter().any(|it| it["name"] == resource) {
            return Ok(Some(version.to_owned()));
        }
    }
    Ok(None)
}

/// Reads a list of the discovery API.
async fn list(
    cluster: &Cluster,
    path: String,
    key: &'static str,
) -> Result<Vec<Value>, ClusterError> {
    let mut answer = cluster.get(&path).await?;
    match answer[key].take() {
        Value::Array(items) => Ok(items),
        _ => Err(ClusterError::Malformed { path, what: format!("the answer has no {key}") }),
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use serde_json::json;

    use super::*;

    /// An API server with the resource `things` in v1beta1, and with the resource `others` in both
    /// versions.
    fn cluster() -> Cluster {
        let service = tower::service_fn(|request: http::Request<kube::client::Body>| async move {
            let (status, body) = match request.uri().path() {
                "/apis" => {
                    let versions = json!([{"version": "v1"}, {"version": "v1beta1"}]);
                    let group = |name: &str| json!({"name": name, "versions": versions});
                    (200, json!({"groups": [group("example.com"), group("broken.example.com")]}))
                }
                "/apis/example.com/v1" => (200, json!({"resources": [{"name": "others"}]})),
                "/apis/example.com/v1beta1" => {
                    (200, json!({"resources": [{"name": "things"}, {"name": "others"}]}))
                }
                _ => (404, json!({})),
            };
            let body = http_body_util::Full::new(bytes::Bytes::from(body.to_string()));
            let answer = http::Response::builder().status(status).body(body);
            Ok::<_, Infallible>(answer.unwrap())
        });
        Cluster::new(kube::Client::new(service, "default"), -1.0, 0)
    }

    #[tokio::test]
    async fn the_preferred_version_that_has_the_resource_is_found() {
        for (group, resource, version) in [
            ("example.com", "things", Some("v1beta1")),
            ("example.com", "others", Some("v1")),
            ("example.com", "none", None),
            ("absent.example.com", "things", None),
        ] {
            let served = served_version(&cluster(), group, resource).await.unwrap();
            assert_eq!(served.as_deref(), version, "{group} {resource}");
        }
        let broken = served_version(&cluster(), "broken.example.com", "things").await;
        assert!(broken.is_err(), "the group has the version, so that this 404 proves nothing");
    }
}
