//! Parses the head of a request once into route, query and credentials. The module `body` decodes
//! the body.

pub(crate) mod accept;
mod body;
pub(crate) mod json;
pub(crate) mod options;
pub(crate) mod route;
pub(crate) mod served;
pub(crate) mod summary;

pub use body::MAX_BODY_BYTES;
pub use summary::{Class, Summary};

use bytes::Bytes;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE, IF_NONE_MATCH, USER_AGENT,
};
use http::request::Parts;
use http::{HeaderMap, Method};
use kube_sim_store::{ResourceDef, Status, Subresource};

use crate::auth::impersonation::{Impersonated, impersonated};
use crate::auth::tokens::Identity;
use crate::query::{self, Query};
use crate::request::route::{Route, Target, Verb};
use accept::{Representation, ResourceClass};
/// Client side of a connection, as the transport sees it.
#[derive(Clone, Debug, Default)]
pub struct Client {
    /// Identity in the client certificate; `None` without one.
    pub certificate: Option<Identity>,
    /// True for a client that needs no credentials and may do everything.
    pub is_trusted: bool,
}

/// A parsed request to the API server.
#[derive(Clone, Debug)]
pub struct Request {
    pub(crate) route: Route,
    pub(crate) query: Query,
    pub(crate) method: Method,
    /// The percent-decoded path.
    pub(crate) path: String,
    /// Identity in the client certificate; `None` without one.
    pub(crate) certificate: Option<Identity>,
    /// Identity in the `Impersonate-*` headers, as which the client asks to act; `None` without
    /// any.
    pub(crate) impersonated: Option<Box<Impersonated>>,
    /// The bearer token; `None` without one.
    pub(crate) token: Option<String>,
    /// True for a client that needs no credentials.
    pub(crate) is_trusted: bool,
    accept: String,
    user_agent: String,
    content_type: String,
    /// `If-None-Match`: tags of the document states that the client already has, such as `"tag"`.
    pub(crate) if_none_match: String,
    /// True if `Accept-Encoding` lists `gzip` without a weight, as the real server requires.
    pub(crate) takes_gzip: bool,
    pub(crate) body: Bytes,
}

impl Request {
    pub(crate) fn read(parts: &Parts, body: &Bytes, client: &Client) -> Self {
        let query = Query::parse(parts.uri.query().unwrap_or_default());
        let path = query::decode(parts.uri.path(), false);
        let token = header(&parts.headers, AUTHORIZATION).and_then(|value| {
            let (scheme, token) = value.trim().split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| token.trim().to_owned())
        });
        Self {
            route: match query::is_well_formed(parts.uri.path()) {
                true if Route::is_objectless(&path) => {
                    Route::VerbWithoutResource(parts.uri.to_string())
                }
                true => Route::find(&parts.method, &path, &query),
                false => Route::Malformed,
            },
            query,
            method: parts.method.clone(),
            path,
            certificate: client.certificate.clone(),
            impersonated: impersonated(&parts.headers).map(Box::new),
            token,
            is_trusted: client.is_trusted,
            accept: accepts(&parts.headers),
            user_agent: header(&parts.headers, USER_AGENT).unwrap_or_default(),
            content_type: header(&parts.headers, CONTENT_TYPE).unwrap_or_default(),
            if_none_match: header(&parts.headers, IF_NONE_MATCH).unwrap_or_default(),
            takes_gzip: header(&parts.headers, ACCEPT_ENCODING)
                .is_some_and(|it| it.split(',').any(|coding| coding.trim() == "gzip")),
            body: body.clone(),
        }
    }

    /// Representation that the `Accept` header asks for, for built-in kinds.
    ///
    /// # Errors
    /// 406 if the header accepts no representation that this server writes.
    pub(crate) fn wanted(&self) -> Result<Representation, Status> {
        let is_list = |target: &Target| matches!(target.verb, Verb::List | Verb::Watch);
        let is_list = matches!(&self.route, Route::Resource(target) if is_list(target));
        accept::objects(
            &self.accept,
            if is_list { ResourceClass::List } else { ResourceClass::One },
        )
    }

    /// Representation that the `Accept` header asks for, for this built-in or custom kind.
    ///
    /// # Errors
    /// 406 if the header accepts no representation that this server writes.
    pub(crate) fn wanted_of(&self, def: &ResourceDef) -> Result<Representation, Status> {
        match def.custom {
            None => self.wanted(),
            Some(_) => accept::objects(&self.accept, ResourceClass::Custom),
        }
    }

    /// True if the request is for the subresource `scale`.
    pub(crate) fn is_of_scale(&self) -> bool {
        matches!(&self.route, Route::Resource(target) if target.part == Some(Subresource::Scale))
    }

    /// Version of aggregated discovery that the client prefers; `None` for the plain document. A
    /// client that accepts JSON only in another known conversion, such as a table, gets the plain
    /// document, too.
    ///
    /// # Errors
    /// 406 if the client accepts neither aggregated discovery nor JSON in a known conversion.
    pub(crate) fn aggregated_discovery(&self) -> Result<Option<&'static str>, Status> {
        accept::aggregated_discovery(&self.accept)
    }

    /// True if the client accepts plain JSON, for a document that is not a Kubernetes object.
    pub(crate) fn accepts_json(&self) -> bool {
        accept::takes_json(&self.accept)
    }

    /// True if the answer should be indented. The parameter `pretty` decides. Without it, the
    /// answer is indented for curl, Wget and browsers, and if the winning clause of `Accept` has a
    /// true `pretty`, such as `pretty=1`.
    ///
    /// After `apiserver: pkg/endpoints/handlers/negotiation`, `isPrettyPrint`.
    pub(crate) fn is_pretty(&self) -> bool {
        match self.query.get("pretty") {
            "" => {
                let tools = ["curl", "Wget", "Mozilla/5.0"];
                tools.iter().any(|tool| self.user_agent.starts_with(tool))
                    || self.wanted().is_ok_and(|wanted| wanted.pretty)
            }
            pretty => accept::is_true(pretty),
        }
    }

    /// Field manager of a write: the parameter `fieldManager`. Without it, `User-Agent` up to the
    /// first `/`, cut to 128 characters and without control characters, or `unknown` if that is
    /// empty.
    pub(crate) fn manager(&self) -> String {
        const MAX_LENGTH: usize = 128;
        match self.query.get("fieldManager") {
            "" => {
                let name = self.user_agent.split('/').next().unwrap_or_default();
                let name = name.chars().filter(|c| !c.is_control());
                Some(name.take(MAX_LENGTH).collect::<String>())
                    .filter(|name| !name.is_empty())
                    .unwrap_or_else(|| "unknown".into())
            }
            manager => manager.to_owned(),
        }
    }

    pub(crate) fn media_type(&self) -> &str {
        match self.content_type.split(';').next().unwrap_or_default().trim() {
            // The header is present and names no media type.
            "" if !self.content_type.is_empty() => ";",
            media_type => media_type,
        }
    }

    /// The body as the client sent it.
    pub fn into_body(self) -> Bytes {
        self.body
    }

    pub(crate) fn n_bytes(&self) -> u64 {
        self.body.len() as u64
    }
}

fn header(headers: &HeaderMap, name: http::HeaderName) -> Option<String> {
    headers.get(name)?.to_str().ok().map(str::to_owned)
}

fn accepts(headers: &HeaderMap) -> String {
    let ranges: Vec<&str> =
        headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()).collect();
    ranges.join(",")
}
