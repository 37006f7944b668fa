//! Questions about tokens and permissions, answered from the token table.
//!
//! There is no RBAC: whoever is authenticated may do everything.

use http::StatusCode;
use serde_json::{Value, json};
use sim_world::Time;

use super::route::Review;
use super::{Identity, Request, Tokens, answer};
use crate::Reply;

/// Answers a review.
pub(super) fn answer(
    review: Review,
    request: &Request,
    tokens: &Tokens,
    _asker: &Identity,
    now: Time,
) -> Reply {
    let (kind, group) = match review {
        Review::Token => ("TokenReview", "authentication.k8s.io"),
        Review::SubjectAccess => ("SubjectAccessReview", "authorization.k8s.io"),
        Review::SelfSubjectAccess => ("SelfSubjectAccessReview", "authorization.k8s.io"),
    };
    if let Err(status) = request.accepts_json() {
        return answer::failure(&status);
    }
    let body = match request.object(kind) {
        Ok(body) => body,
        Err(status) => return answer::failure(&status),
    };
    let status = match review {
        Review::Token => token_status(&body, tokens, now),
        Review::SubjectAccess => {
            let is_known = body["spec"]["user"]
                .as_str()
                .is_some_and(|user| !user.is_empty() && user != "system:anonymous");
            json!({"allowed": is_known})
        }
        Review::SelfSubjectAccess => json!({"allowed": true}),
    };
    let answered = json!({
        "kind": kind,
        "apiVersion": format!("{group}/v1"),
        "metadata": {},
        "spec": body.get("spec").cloned().unwrap_or_else(|| json!({})),
        "status": status,
    });
    answer::json(StatusCode::CREATED, &answered)
}

fn token_status(body: &Value, tokens: &Tokens, now: Time) -> Value {
    let token = body["spec"]["token"].as_str().unwrap_or_default();
    match tokens.identify(token, now) {
        Some(Identity { user, groups }) => {
            json!({"authenticated": true, "user": {"username": user, "groups": groups}})
        }
        None => json!({"user": {}, "error": "[invalid bearer token, token lookup failed]"}),
    }
}
