//! A fake API server on a socket, with objects of two built-in kinds and of a custom one. Prints a
//! command that lists them.

#![allow(clippy::print_stdout, reason = "an example prints its address")]

use std::sync::Arc;

use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use kube_sim_api::{Backend as _, Client, KubeApi, Memory, Tokens};
use kube_sim_store::{Command, GroupResource};
use serde_json::{Value, json};
use tokio::task::JoinSet;

fn create(group: &'static str, plural: &'static str, object: Value) -> Command {
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
    Command::create(GroupResource::of(group, plural), &namespace, object)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let objects = Arc::new(Memory::new(0, "2026-01-01T00:00:00Z".parse()?));
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
    let names = json!({"plural": "cars", "singular": "car", "kind": "Car", "listKind": "CarList"});
    let cars = json!({
        "metadata": {"name": "cars.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]},
    });
    for command in [
        create("", "nodes", json!({"metadata": {"name": "node-1"}})),
        create("", "configmaps", json!({"metadata": {"name": "colors", "namespace": "default"}})),
        create("apiextensions.k8s.io", "customresourcedefinitions", cars),
        create(
            "example.com",
            "cars",
            json!({"apiVersion": "example.com/v1", "kind": "Car", "metadata": {"name": "beetle", "namespace": "default"}}),
        ),
    ] {
        objects.apply(command).map_err(|status| status.message)?;
    }
    let api = KubeApi::new(objects, Tokens::default());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("kubectl -s http://{} get nodes,configmaps,cars", listener.local_addr()?);
    let client = Client { is_trusted: true, ..Client::default() };
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await?;
        let service = TowerToHyperService::new(api.service(client.clone()));
        connections.spawn(async move {
            let server = auto::Builder::new(TokioExecutor::new());
            server.serve_connection(TokioIo::new(stream), service).await.ok();
        });
    }
}
