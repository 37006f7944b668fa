//! Tests that send requests to an API server and check its answers.

mod answers;
mod differences;
mod malformed;
mod permissions;
mod schemas;
mod watches;

use std::sync::Arc;

use bytes::Bytes;
use http::Request as HttpRequest;
use http_body_util::BodyExt as _;
use kube_sim_store::{Command, GroupResource};
use serde_json::{Value, json};

use crate::Backend as _;
use crate::answer::Reply;
use crate::auth::{Identity, Tokens};
use crate::backend::Memory;
use crate::request::Client;
use crate::server::{Effects, KubeApi};

/// A cluster with an API server, and the client that sends the requests of a test.
struct TestServer {
    api: KubeApi,
    memory: Arc<Memory>,
    client: Client,
}

/// An answer with its body as text.
struct Answer {
    code: u16,
    content_type: String,
    text: String,
    fault: Option<String>,
}

impl TestServer {
    fn new() -> Self {
        let epoch = "2026-03-01T08:00:00Z".parse().unwrap();
        let memory = Arc::new(Memory::new(7, epoch));
        let tokens = Tokens::default();
        let user = Identity { user: "ccm".into(), groups: vec!["system:authenticated".into()] };
        tokens.issue("good", user, None);
        let api = KubeApi::new(memory.clone(), tokens);
        Self { api, memory, client: trusted() }
    }

    fn node(&self, name: &str) {
        let node = json!({"metadata": {"name": name, "labels": {"name": name}}});
        self.apply(Command::create(GroupResource::core("nodes"), "", node));
    }

    fn apply(&self, command: Command) {
        self.memory.apply(command).unwrap();
    }

    async fn reply(&self, request: HttpRequest<Bytes>, effects: &Effects) -> (String, Reply) {
        let (parts, body) = request.into_parts();
        let (summary, request) = self.api.classify(&parts, &body, &self.client);
        let reply = self.api.handle(request, effects).await;
        (summary.operation, reply)
    }

    async fn ask(&self, request: HttpRequest<Bytes>) -> Answer {
        self.ask_with(request, &Effects::default()).await
    }

    async fn ask_with(&self, request: HttpRequest<Bytes>, effects: &Effects) -> Answer {
        let (_, reply) = self.reply(request, effects).await;
        let header =
            |name| reply.response.headers().get(name).map(|it| it.to_str().unwrap().to_owned());
        let content_type = header("content-type").unwrap_or_default();
        let code = reply.response.status().as_u16();
        let fault = reply.outcome.fault.clone();
        let body = reply.response.into_body().collect().await.unwrap().to_bytes();
        let text = String::from_utf8(body.to_vec()).unwrap();
        Answer { code, content_type, text, fault }
    }

    async fn get(&self, path: &str) -> Answer {
        self.ask(get(path)).await
    }

    async fn send(
        &self,
        method: &str,
        path: &str,
        content_type: &str,
        body: impl ToString,
    ) -> Answer {
        let request = HttpRequest::builder()
            .method(method)
            .uri(path)
            .header("content-type", content_type)
            .body(Bytes::from(body.to_string()));
        self.ask(request.unwrap()).await
    }
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap()
    }

    fn message(&self) -> String {
        self.json()["message"].as_str().unwrap_or_default().to_owned()
    }
}

/// A client that needs no credentials.
fn trusted() -> Client {
    Client { is_trusted: true, ..Client::default() }
}

fn get(path: &str) -> HttpRequest<Bytes> {
    HttpRequest::builder().uri(path).body(Bytes::new()).unwrap()
}

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
