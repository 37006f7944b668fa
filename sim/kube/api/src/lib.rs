//! A Kubernetes API server in a library. Imitates kube-apiserver 1.36.3, the "real server" of the
//! comments, over the objects of a [`Backend`].
//!
//! [`KubeApi::service`] returns a connection as a tower service: for a client in the same process,
//! or for an HTTP server such as hyper's. [`Memory`] is a backend that stands alone.
//! A caller that records requests, or that changes answers by [`Effects`], reads each request with
//! [`KubeApi::classify`] and answers it with [`KubeApi::handle`].
//!
//! ```
//! use std::sync::Arc;
//!
//! use http_body_util::{BodyExt as _, Empty};
//! use kube_sim_api::{Client, KubeApi, Memory, Tokens};
//! use tower_service::Service as _;
//!
//! # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
//! let objects = Arc::new(Memory::new(0, "2026-01-01T00:00:00Z".parse().unwrap()));
//! let api = KubeApi::new(objects, Tokens::default());
//! let mut service = api.service(Client { is_trusted: true, ..Client::default() });
//! let body = Empty::<bytes::Bytes>::new();
//! let request = http::Request::get("/api/v1/namespaces/default").body(body).unwrap();
//! let answer = service.call(request).await.unwrap();
//! assert_eq!(answer.status(), 200);
//! let namespace = answer.into_body().collect().await.unwrap().to_bytes();
//! assert!(namespace.starts_with(br#"{"kind":"Namespace""#));
//! # });
//! ```
//!
//! This server writes objects only as JSON. A request for a resource or feature of the real server
//! that this server does not implement gets a `Status` that names the resource or feature.

mod answer;
mod auth;
mod backend;
mod discovery;
#[cfg(any(fuzzing, test))]
pub mod fuzzing;
mod objects;
mod openapi;
mod protobuf;
mod query;
mod request;
mod server;
mod table;
#[cfg(test)]
mod tests;

pub use answer::{Body, Outcome, Reply};
pub use auth::{Access, Identity, Tokens};
pub use backend::{Backend, Changes, Memory, Signal};
pub use objects::{Effects, WatchEffects};
pub use protobuf::AnswerFacts;
pub use request::{Class, Client, MAX_BODY_BYTES, Request, Summary};
pub use server::{KubeApi, Service};

/// The examples of the README, which are tested with those of this documentation.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
