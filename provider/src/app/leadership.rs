//! Leadership of this replica, as the server beside its controllers sees it.

use http::Method;
use kube::client::Body;
use tokio_util::sync::CancellationToken;

use crate::cluster::WritePermission;

/// Leadership of this replica, which a [`SideServer`](super::SideServer) gets when it starts.
#[derive(Clone, Debug)]
pub struct Leadership {
    pub(super) stop: CancellationToken,
    /// The lease; `None` without leader election.
    pub(super) permission: Option<WritePermission>,
}

/// The client did not send a write, because this replica does not hold the leader lease.
#[derive(Debug, thiserror::Error)]
#[error("not sent: this process does not hold the leader lease")]
struct NotLeading;

impl Leadership {
    /// Returns the token that is cancelled when the server must stop.
    pub fn stop(&self) -> &CancellationToken {
        &self.stop
    }

    /// Returns a client of the same API server that sends a request other than GET only while this
    /// replica holds the lease. A process that was suspended and wakes after the end of its lease so
    /// sends no write beside the next leader. Without leader election every request is sent.
    pub fn guard(&self, client: kube::Client) -> kube::Client {
        let Some(permission) = self.permission.clone() else { return client };
        let namespace = client.default_namespace().to_owned();
        let send = move |request: http::Request<Body>| {
            let (client, permission) = (client.clone(), permission.clone());
            async move {
                if request.method() != Method::GET && !permission.is_held() {
                    return Err(tower::BoxError::from(NotLeading));
                }
                Ok(client.send(request).await?)
            }
        };
        kube::Client::new(tower::service_fn(send), namespace)
    }
}
