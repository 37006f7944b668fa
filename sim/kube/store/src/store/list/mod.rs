//! Lists of objects, whole or in pages. All pages of a list show the same state, even if objects
//! change between the requests for the pages. Only a list that a client continues with the token of
//! a 410 answer may mix states.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Serialize;
use serde_json::Value;

use crate::schema::base64_of_url;
use crate::values::text::{json_problem, json_type, parse_uint, quote};
use crate::{FieldErrors, GroupResource, Selection, Status, Store};

const TOO_OLD_TO_CONTINUE: &str = "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.";
const TOO_OLD_TO_LIST: &str = "The resourceVersion for the provided list is too old.";

/// The parameters of a list request that select a page and a resourceVersion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Paging {
    /// Maximum number of objects; 0 for all. Does not apply to the first page of a list with
    /// `resource_version` 0, which then has all objects.
    pub limit: usize,
    /// Token of the previous page; empty for the first page.
    pub continue_token: String,
    /// `resourceVersion` of the request; empty for the newest state.
    pub resource_version: String,
    /// `resourceVersionMatch` of the request: `Exact`, `NotOlderThan`, or empty if absent.
    pub version_match: String,
}

/// A whole list, or one page of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    /// The objects, in the order of their keys.
    pub items: Vec<Arc<Value>>,
    /// Revision of the state that the page shows.
    pub revision: u64,
    /// Token of the next page; `None` on the last page.
    pub continue_token: Option<String>,
    /// Number of objects after this page, if another page follows and the request has no selector.
    pub remaining: Option<usize>,
}

#[derive(Debug, Default, Serialize)]
struct Token {
    v: String,
    rv: i64,
    start: String,
}

impl Store {
    /// Returns the selected objects of `resource`, or one page of them.
    ///
    /// # Errors
    /// 400 and 422 for invalid parameters, 410 for a revision that the store has forgotten, 504 for
    /// a revision in the future.
    pub fn list(
        &self,
        resource: &GroupResource,
        selection: &Selection,
        paging: &Paging,
    ) -> Result<Page, Status> {
        paging.check()?;
        let prefix = selection.namespace.as_ref().map(|namespace| format!("{namespace}/"));
        let prefix = prefix.unwrap_or_default();
        let (start, exact, is_continued) = self.position(paging)?;
        let at = exact.unwrap_or(self.revision);
        let state = match exact {
            Some(revision) => self.state_at(resource, revision).map_err(|mut status| {
                // The error for a future revision (504) keeps its message.
                if is_continued && status.code == 410 {
                    status.message = TOO_OLD_TO_CONTINUE.into();
                    status.continue_token = encode(-1, start.as_deref().unwrap_or_default());
                }
                status
            })?,
            None => State::Now,
        };
        // With resourceVersion 0 the real server answers from its watch cache, which has no pages.
        let limit = match (paging.limit, paging.resource_version.as_str()) {
            (0, _) => usize::MAX,
            (_, "0") if !is_continued => usize::MAX,
            (limit, _) => limit,
        };
        let from = match &start {
            Some(start) => Bound::Included(format!("{prefix}{start}")),
            None => Bound::Included(prefix.clone()),
        };
        let mut rest =
            self.entries(resource, &state, from).filter(|(key, _)| key.starts_with(&prefix));
        let mut page =
            Page { items: Vec::new(), revision: at, continue_token: None, remaining: None };
        let mut last = String::new();
        for (key, object) in rest.by_ref() {
            let object = self.read(resource, object);
            if selection.matches(&object) {
                page.items.push(object);
            }
            if page.items.len() >= limit {
                last.push_str(&key[prefix.len()..]);
                break;
            }
        }
        let n_rest = rest.count();
        if n_rest > 0 {
            let revision = i64::try_from(at).unwrap_or(i64::MAX);
            page.continue_token = encode(revision, &format!("{last}\0"));
            page.remaining = selection.selects_all().then_some(n_rest);
        }
        Ok(page)
    }

    /// Returns the revision before the last `n_changes` changes of a resource; the oldest revision
    /// that the store can still list if it keeps fewer changes.
    pub fn revision_before(&self, resource: &GroupResource, n_changes: usize) -> u64 {
        let Some(log) = self.logs.get(resource) else { return self.revision };
        log.before(n_changes).unwrap_or(self.revision).max(1)
    }

    /// Returns the key at which the list starts (`None` for the first), the revision if the request
    /// demands an exact one, and true if the request has a continue token. Fails with 400 for an
    /// invalid token or revision, or for a token together with a revision other than 0, and with
    /// 504 for a revision in the future.
    fn position(&self, paging: &Paging) -> Result<(Option<String>, Option<u64>, bool), Status> {
        if !paging.continue_token.is_empty() {
            let token = decode(&paging.continue_token)
                .map_err(|why| Status::bad_request(format!("invalid continue token: {why}")))?;
            if !matches!(paging.resource_version.as_str(), "" | "0") {
                return Err(Status::bad_request(
                    "specifying resource version is not allowed when using continue",
                ));
            }
            return Ok((Some(token.start), u64::try_from(token.rv).ok(), true));
        }
        let asked = parse_revision(&paging.resource_version)?;
        let is_exact = match paging.version_match.as_str() {
            "Exact" => true,
            "" => paging.limit > 0 && asked > 0,
            _ => false,
        };
        if asked > self.revision {
            return Err(Status::too_large_version(asked, self.revision));
        }
        Ok((None, is_exact.then_some(asked), false))
    }

    /// Returns the state of a resource at `revision`.
    ///
    /// # Errors
    /// 410 for a revision that the store has forgotten, 504 for a revision in the future.
    fn state_at(&self, resource: &GroupResource, revision: u64) -> Result<State<'_>, Status> {
        if revision > self.revision {
            return Err(Status::too_large_version(revision, self.revision));
        }
        let Some(log) = self.logs.get(resource) else { return Ok(State::Now) };
        if revision < log.floor() {
            return Err(Status::expired(TOO_OLD_TO_LIST));
        }
        let mut differing = BTreeMap::new();
        for entry in log.since(revision).rev() {
            differing.insert(entry.at.as_str(), entry.previous.as_ref());
        }
        Ok(State::Then(differing))
    }

    fn entries<'a>(
        &'a self,
        resource: &GroupResource,
        state: &'a State<'a>,
        from: Bound<String>,
    ) -> Box<dyn Iterator<Item = (&'a str, &'a Arc<Value>)> + 'a> {
        let range = (from.clone(), Bound::Unbounded);
        let now =
            self.objects.get(resource).into_iter().flat_map(move |all| all.range(range.clone()));
        let now = now.map(|(key, object)| (key.as_str(), object));
        let State::Then(differing) = state else { return Box::new(now) };
        // Merges the objects that have not changed since the revision with the earlier state of the
        // others, in the order of their keys.
        let mut all: BTreeMap<&str, &Arc<Value>> =
            now.filter(|(key, _)| !differing.contains_key(key)).collect();
        for (key, object) in differing {
            let is_in_range = match &from {
                Bound::Included(from) => *key >= from.as_str(),
                Bound::Excluded(from) => *key > from.as_str(),
                Bound::Unbounded => true,
            };
            if let (true, Some(object)) = (is_in_range, object) {
                all.insert(key, object);
            }
        }
        Box::new(all.into_iter())
    }
}

/// The state of a resource that a list reads.
enum State<'a> {
    /// The current state.
    Now,
    /// An earlier state: the current one, except that each key of the map has the object in the
    /// map, or no object for `None`.
    Then(BTreeMap<&'a str, Option<&'a Arc<Value>>>),
}

impl Paging {
    /// Returns the 410 error that a server gives if the continue token of the request is too old.
    /// Does not check the age of the token. `None` if the request has no valid token.
    pub fn expired(&self) -> Option<Status> {
        let token = decode(&self.continue_token).ok()?;
        let mut status = Status::expired(TOO_OLD_TO_CONTINUE);
        status.continue_token = encode(-1, &token.start);
        Some(status)
    }

    /// Checks `resourceVersionMatch` against the other parameters.
    ///
    /// # Errors
    /// 422 if the parameters contradict each other, or if the value is unknown.
    fn check(&self) -> Result<(), Status> {
        let Self { limit: _, continue_token, resource_version, version_match } = self;
        let mut errors = FieldErrors::default();
        let field = "resourceVersionMatch";
        if !version_match.is_empty() {
            if resource_version.is_empty() {
                errors.forbidden(
                    field,
                    "resourceVersionMatch is forbidden unless resourceVersion is provided",
                );
            }
            if !continue_token.is_empty() {
                errors.forbidden(
                    field,
                    "resourceVersionMatch is forbidden when continue is provided",
                );
            }
            if !matches!(version_match.as_str(), "Exact" | "NotOlderThan") {
                errors.not_supported(field, version_match, &["Exact", "NotOlderThan", ""]);
            }
            if version_match == "Exact" && resource_version == "0" {
                errors.forbidden(
                    field,
                    "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
                );
            }
        }
        if errors.is_empty() {
            Ok(())
        } else {
            Err(Status::invalid("meta.k8s.io", "ListOptions", "", errors))
        }
    }
}

/// Reads a resourceVersion parameter; empty means 0.
///
/// # Errors
/// 400 if it is not a number.
pub(crate) fn parse_revision(text: &str) -> Result<u64, Status> {
    if text.is_empty() {
        return Ok(0);
    }
    parse_uint(text).map_err(|why| {
        let shown = quote(text);
        Status::bad_request(format!(
            "invalid resource version: resourceVersion: Invalid value: {shown}: {why}"
        ))
    })
}

fn encode(revision: i64, start: &str) -> Option<String> {
    let token = Token { v: "meta.k8s.io/v1".into(), rv: revision, start: start.into() };
    let text = serde_json::to_string(&token).ok()?;
    Some(URL_SAFE_NO_PAD.encode(text))
}

fn decode(token: &str) -> Result<Token, String> {
    let broken = |why: &str| format!("continue key is not valid: {why}");
    let bytes = base64_of_url(token).map_err(|why| broken(&why))?;
    if let Some(why) = json_problem(&bytes) {
        return Err(broken(&why));
    }
    let document = serde_json::from_str(&String::from_utf8_lossy(&bytes));
    let mut token =
        read(&document.map_err(|why| broken(&why.to_string()))?).map_err(|why| broken(&why))?;
    if token.v != "meta.k8s.io/v1" {
        let version = token.v;
        return Err(broken(&format!("server does not recognize this encoded version {version}")));
    }
    if token.rv == 0 {
        return Err(broken("incorrect encoded start resourceVersion (version meta.k8s.io/v1)"));
    }
    if token.start.is_empty() {
        return Err(broken("encoded start key empty (version meta.k8s.io/v1)"));
    }
    let below = token.start.strip_prefix('/').unwrap_or(&token.start);
    let is_odd = |part: &str| matches!(part, "" | "." | "..");
    if !below.is_empty() && below.split('/').any(is_odd) {
        return Err(broken(&token.start));
    }
    token.start = below.to_owned();
    Ok(token)
}

/// Decodes a token as Go's JSON decoder does: names are case-insensitive, and missing fields are
/// empty. Fails with Go's error text for a value of the wrong type.
fn read(document: &Value) -> Result<Token, String> {
    let mut token = Token::default();
    let fields = match document {
        Value::Object(fields) => fields,
        Value::Null => return Ok(token),
        other => {
            return Err(format!(
                "json: cannot unmarshal {} into Go value of type storage.continueToken",
                json_type(other)
            ));
        }
    };
    for (name, value) in fields {
        let name = name.to_ascii_lowercase();
        let mismatch = |found: &str, go: &str| {
            format!(
                "json: cannot unmarshal {found} into Go struct field continueToken.{name} of type {go}"
            )
        };
        match (name.as_str(), value) {
            (_, Value::Null) => {}
            ("v", Value::String(text)) => token.v.clone_from(text),
            ("start", Value::String(text)) => token.start.clone_from(text),
            ("v" | "start", other) => return Err(mismatch(json_type(other), "string")),
            ("rv", Value::Number(number)) => {
                let refuse = || mismatch(&format!("number {number}"), "int64");
                token.rv = number.as_i64().ok_or_else(refuse)?;
            }
            ("rv", other) => return Err(mismatch(json_type(other), "int64")),
            _ => {}
        }
    }
    Ok(token)
}

#[cfg(test)]
mod tests;
