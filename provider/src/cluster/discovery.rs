//! Looks up in which version an API server serves a resource.

use serde_json::Value;

use super::{Cluster, ClusterError};

/// Returns the preferred version of those in which the API server serves a resource; `None` if it
/// serves the resource in none.
///
/// # Errors
///
/// If a request fails for another reason than a missing group or version.
pub(crate) async fn served_version(
    cluster: &Cluster,
    group: &str,
    resource: &str,
) -> Result<Option<String>, ClusterError> {
    let Some(described) = found(cluster.get(&format!("/apis/{group}")).await)? else {
        return Ok(None);
    };
    // The server lists the versions in the order of its preference.
    for version in described["versions"].as_array().into_iter().flatten() {
        let version = version["version"].as_str().unwrap_or_default();
        let Some(resources) = found(cluster.get(&format!("/apis/{group}/{version}")).await)? else {
            continue;
        };
        let mut listed = resources["resources"].as_array().into_iter().flatten();
        if listed.any(|it| it["name"] == resource) {
            return Ok(Some(version.to_owned()));
        }
    }
    Ok(None)
}

/// Returns the answer, or `None` for 404.
fn found(answer: Result<Value, ClusterError>) -> Result<Option<Value>, ClusterError> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(err) if err.is_not_found() => Ok(None),
        Err(err) => Err(err),
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
                "/apis/example.com" => {
                    (200, json!({"versions": [{"version": "v1"}, {"version": "v1beta1"}]}))
                }
                "/apis/example.com/v1" => (200, json!({"resources": [{"name": "others"}]})),
                "/apis/example.com/v1beta1" => {
                    (200, json!({"resources": [{"name": "things"}, {"name": "others"}]}))
                }
                "/apis/broken.example.com" => (503, json!({"message": "later"})),
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
        assert!(served_version(&cluster(), "broken.example.com", "things").await.is_err());
    }
}
