//! Passes a provider's requests to the workload cluster on to the real server.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use sim::{AnswerFuture, Backing, Body, Call, Class};
use tokio_util::task::TaskTracker;

use super::client::Client;
use super::mirror::Mirror;
use super::resources::{self, Resource};

/// Answers providers' requests from the real server, and lets the mirror carry their successful
/// writes of mirrored resources to the world.
#[derive(Debug)]
pub(super) struct Forwarder {
    client: Client,
    mirror: Arc<Mirror>,
    tasks: TaskTracker,
}

/// Object or collection that a request writes.
struct WriteTarget {
    resource: &'static Resource,
    /// Namespace of the object or collection; empty if the request does not name one.
    namespace: String,
    /// Name of the object; empty if the request does not name one.
    name: String,
}

impl Forwarder {
    pub(super) fn new(client: Client, mirror: Arc<Mirror>, tasks: TaskTracker) -> Self {
        Self { client, mirror, tasks }
    }
}

impl Backing for Forwarder {
    fn answer(&self, call: &Call, request: Request<Bytes>) -> AnswerFuture {
        let written = written(call, &request);
        let client = self.client.clone();
        let Some(WriteTarget { resource, namespace, name }) = written else {
            return Box::pin(async move { client.pass_on(request).await });
        };
        let mirror = Arc::clone(&self.mirror);
        // The task runs to its end even if the caller disconnects, because the world must see the
        // write.
        let done = self.tasks.spawn(async move {
            let response = client.pass_on(request).await?;
            if response.status().is_success() {
                mirror.carry_write(resource, &namespace, &name).await;
            }
            Ok::<Response<Body>, io::Error>(response)
        });
        Box::pin(async move { done.await.map_err(io::Error::other)? })
    }
}

fn written(call: &Call, request: &Request<Bytes>) -> Option<WriteTarget> {
    if call.class != Class::Write {
        return None;
    }
    let (resource, namespace, name) = resources::about(request.uri().path())?;
    let is_creation = request.method() == http::Method::POST;
    let given = call.target.name.clone().filter(|_| is_creation && name.is_empty());
    Some(WriteTarget { resource, namespace, name: given.unwrap_or(name) })
}
