//! Answers to reviews of tokens, users and permissions. The server stores no review.

use http::StatusCode;
use kube_sim_store::{FieldErrors, Status};
use serde_json::{Value, json};

use crate::answer::{self, Reply};
use crate::auth::Identity;
use crate::auth::access::{Attributes, Object};
use crate::request::Request;
use crate::request::route::Review;
use crate::server::KubeApi;

/// Audience of every token, which a TokenReview may ask for.
const AUDIENCE: &str = "https://kubernetes.default.svc.cluster.local";

impl KubeApi {
    /// Answers a review that `asker` sends.
    ///
    /// # Errors
    /// 406 if the client does not accept JSON; 400, 413, 415 or 422 for an invalid review.
    pub(crate) fn review(
        &self,
        review: Review,
        namespace: &str,
        request: &Request,
        asker: &Identity,
    ) -> Result<Reply, Status> {
        request.wanted()?;
        let (group, kind) = (review.group(), review.kind());
        let api_version = format!("{group}/v1");
        let body = request.object(&api_version, kind)?;
        let mut metadata = json!({});
        if !namespace.is_empty() {
            metadata["namespace"] = namespace.into();
        }
        let status = match review {
            Review::Token => self.token(&body)?,
            Review::SubjectAccess | Review::LocalSubjectAccess => {
                let who = subject(&body);
                self.access_of(&who, &attributes(&body, namespace, Some(&who))?)
            }
            Review::SelfSubjectAccess => {
                self.access_of(asker, &attributes(&body, namespace, None)?)
            }
            Review::SelfSubjectRules => {
                let namespace = text(&body, "/spec/namespace");
                if namespace.is_empty() {
                    return Err(Status::bad_request("no namespace on request"));
                }
                self.cluster.read(|store| self.access.rules(asker, namespace, store))
            }
            Review::SelfSubject => {
                metadata["creationTimestamp"] = format!("{:.0}", self.cluster.timestamp()).into();
                let mut info = user_info(asker);
                if let Some(other) = &request.impersonated {
                    other.tell_more(&mut info);
                }
                json!({"userInfo": info})
            }
        };
        let mut answered = json!({"kind": kind, "apiVersion": api_version, "metadata": metadata});
        match review {
            Review::SelfSubject => {}
            // The real server leaves the spec empty.
            Review::SelfSubjectRules => answered["spec"] = json!({}),
            _ => answered["spec"] = body.get("spec").cloned().unwrap_or_else(|| json!({})),
        }
        answered["status"] = status;
        Ok(answer::json(StatusCode::CREATED, &answered))
    }

    fn token(&self, body: &Value) -> Result<Value, Status> {
        let token = text(body, "/spec/token");
        if token.is_empty() {
            let message = "token is required for TokenReview in authentication";
            return Err(Status::bad_request(message));
        }
        let wanted = body.pointer("/spec/audiences").and_then(Value::as_array);
        let wanted = wanted.filter(|wanted| !wanted.is_empty());
        let is_for_us = wanted.is_none_or(|wanted| wanted.iter().any(|it| *it == AUDIENCE));
        let found = self.tokens.identify(token, self.cluster.now()).filter(|_| is_for_us);
        Ok(match found {
            Some(identity) => json!({
                "authenticated": true,
                "user": user_info(&identity.authenticated()),
                "audiences": [AUDIENCE],
            }),
            None => json!({"user": {}, "error": "invalid bearer token"}),
        })
    }

    fn access_of(&self, who: &Identity, what: &Attributes) -> Value {
        let verdict = self.cluster.read(|store| self.access.decide(who, what, store));
        let mut status = json!({"allowed": verdict.is_allowed});
        if !verdict.reason.is_empty() {
            status["reason"] = verdict.reason.into();
        }
        status
    }
}

fn text<'a>(body: &'a Value, pointer: &str) -> &'a str {
    body.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn user_info(identity: &Identity) -> Value {
    let Identity { user, groups } = identity;
    let mut info = json!({"username": user});
    if !groups.is_empty() {
        info["groups"] = json!(groups);
    }
    info
}

fn subject(body: &Value) -> Identity {
    let groups = body.pointer("/spec/groups").and_then(Value::as_array);
    let groups = groups.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
    Identity { user: text(body, "/spec/user").to_owned(), groups: groups.collect() }
}

/// Attributes of the request that a review asks about. `subject` is the user in the review; `None`
/// if the review is about the permissions of its sender. `namespace` is that of the review, or
/// empty.
///
/// # Errors
/// 422 for an invalid review.
///
/// After `kubernetes: pkg/apis/authorization/validation`.
fn attributes(
    body: &Value,
    namespace: &str,
    subject: Option<&Identity>,
) -> Result<Attributes, Status> {
    let given = |pointer| body.pointer(pointer).filter(|it: &&Value| it.is_object());
    let resource = given("/spec/resourceAttributes");
    let path = given("/spec/nonResourceAttributes");
    let mut errors = FieldErrors::default();
    match (resource, path) {
        (Some(_), Some(path)) => {
            let shown = json!({"Path": text(path, "/path"), "Verb": text(path, "/verb")});
            errors.invalid(
                "spec.nonResourceAttributes",
                &shown,
                "cannot be specified in combination with resourceAttributes",
            );
        }
        (None, None) => errors.invalid(
            "spec.resourceAttributes",
            &Value::Null,
            "exactly one of nonResourceAttributes or resourceAttributes must be specified",
        ),
        _ => {}
    }
    if subject.is_some_and(|who| who.user.is_empty() && who.groups.is_empty()) {
        errors.invalid("spec.user", &"".into(), "at least one of user or group must be specified");
    }
    let asked = resource.map_or("", |it| text(it, "/namespace"));
    if !namespace.is_empty() && resource.is_some() && asked != namespace {
        errors.invalid(
            "spec.resourceAttributes.namespace",
            &asked.into(),
            "must match metadata.namespace",
        );
    }
    if !errors.is_empty() {
        return Err(Status::invalid("authorization.k8s.io", "", "", errors));
    }
    let owned = |from: &Value, pointer| text(from, pointer).to_owned();
    Ok(match (resource, path) {
        (Some(it), _) => Attributes {
            verb: owned(it, "/verb"),
            path: String::new(),
            object: Some(Object {
                group: owned(it, "/group"),
                resource: owned(it, "/resource"),
                subresource: owned(it, "/subresource"),
                namespace: owned(it, "/namespace"),
                name: owned(it, "/name"),
            }),
        },
        (None, Some(it)) => {
            Attributes { verb: owned(it, "/verb"), path: owned(it, "/path"), object: None }
        }
        (None, None) => Attributes::default(),
    })
}
