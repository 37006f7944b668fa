//! vAPI REST under `/rest`: one login, and calls that read tags and categories. The module [`libraries`]
//! has those of content libraries.

mod libraries;

use std::{collections::BTreeMap, sync::atomic::Ordering, time::Duration};

use base64::Engine as _;
use bytes::Bytes;
use http::{HeaderValue, Method, header};
use http_body_util::Full;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};

use crate::{
    CallError, CallErrorKind, MoRef, Vcenter, client::Answer, error::passes, session::RestSession,
};

pub use libraries::{LibraryId, LibraryItemId};

/// Path of the login and logout.
const SESSION_PATH: &str = "/rest/com/vmware/cis/session";
const TAGGING: &str = "/rest/com/vmware/cis/tagging";
/// Reason why an answer without a field `value` is malformed.
pub(crate) const NO_VALUE: &str = "no value in the answer";
/// Deadline of a logout. A slower one must not delay the end of the process.
const LOGOUT_DEADLINE: Duration = Duration::from_secs(5);
/// Maximum number of objects per call for the tags of many objects. Servers limit the size of a
/// request, and this number stays far below that limit.
const BATCH: usize = 2000;

/// Id of a tag, as vAPI returns it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TagId(pub String);

/// Id of a tag category, as vAPI returns it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CategoryId(pub String);

/// A vSphere tag, without its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tag {
    /// Name; for zone and region categories, the value of the labels.
    pub name: String,
    /// Category of the tag.
    pub category: CategoryId,
}

/// A category of vSphere tags, without its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Category {
    /// Name of the category, which the configuration uses.
    pub name: String,
}

impl Vcenter {
    /// `list-attached-tags-on-objects`: returns the tags directly attached to each object. Objects
    /// that the server leaves out, such as those without tags, are absent.
    ///
    /// # Errors
    ///
    /// As every call; see [`CallError::retry`]. A failed batch fails the whole read.
    pub async fn tags_on_objects(
        &self,
        objects: &[MoRef],
    ) -> Result<BTreeMap<MoRef, Vec<TagId>>, CallError> {
        const OPERATION: &str = "tagging.tag-association.list-attached-tags-on-objects";
        let path = format!("{TAGGING}/tag-association?~action=list-attached-tags-on-objects");
        let mut tags: BTreeMap<MoRef, Vec<TagId>> = BTreeMap::new();
        for batch in objects.chunks(BATCH) {
            let ids: Vec<Value> =
                batch.iter().map(|o| json!({"type": o.kind(), "id": o.id()})).collect();
            let body = json!({ "object_ids": ids });
            let value = self.rest(OPERATION, Method::POST, &path, Some(&body)).await?;
            let malformed = || self.malformed(OPERATION, "not a list of objects and tag ids");
            for entry in list(&value).ok_or_else(malformed)? {
                let object = entry.get("object_id").ok_or_else(malformed)?;
                let kind = text(object, "type").ok_or_else(malformed)?;
                let id = text(object, "id").ok_or_else(malformed)?;
                let entry_tags = entry.get("tag_ids").and_then(list).ok_or_else(malformed)?;
                let ids = tags.entry(MoRef::new(kind, id)).or_default();
                for tag in entry_tags {
                    ids.push(TagId(tag.as_str().ok_or_else(malformed)?.to_owned()));
                }
            }
        }
        Ok(tags)
    }

    /// `list-attached-tags`: returns the tags directly attached to one object, in the server's
    /// order.
    ///
    /// # Errors
    ///
    /// As every call; see [`CallError::retry`].
    pub async fn tags_on(&self, object: &MoRef) -> Result<Vec<TagId>, CallError> {
        const OPERATION: &str = "tagging.tag-association.list-attached-tags";
        let path = format!("{TAGGING}/tag-association?~action=list-attached-tags");
        let body = json!({"object_id": {"type": object.kind(), "id": object.id()}});
        let value = self.rest(OPERATION, Method::POST, &path, Some(&body)).await?;
        let malformed = || self.malformed(OPERATION, "not a list of tag ids");
        let ids = list(&value).ok_or_else(malformed)?.iter();
        ids.map(|id| id.as_str().map(|id| TagId(id.to_owned())).ok_or_else(malformed)).collect()
    }

    /// Makes sure that a vAPI session exists; logs in if necessary.
    ///
    /// # Errors
    ///
    /// As every login; see [`CallError::retry`].
    pub async fn begin_tagging(&self) -> Result<(), CallError> {
        self.rest_session().await.map(drop)
    }

    /// Ends the vAPI session, if any. The next call that needs one logs in. The client only logs
    /// errors.
    pub async fn end_tagging(&self) {
        if let Some(session) = self.inner.rest.finish().await {
            self.logout_rest(&session).await;
        }
    }

    /// Reads the name and category of a tag.
    ///
    /// # Errors
    ///
    /// As every call; see [`CallError::retry`].
    pub async fn tag(&self, id: &TagId) -> Result<Tag, CallError> {
        const OPERATION: &str = "tagging.tag.get";
        let path = format!("{TAGGING}/tag/id:{}", id.0);
        let value = self.rest(OPERATION, Method::GET, &path, None).await?;
        let tag = (|| {
            let category = CategoryId(text(&value, "category_id")?.to_owned());
            Some(Tag { name: text(&value, "name")?.to_owned(), category })
        })();
        tag.ok_or_else(|| self.malformed(OPERATION, "not a tag"))
    }

    /// Reads the name of a category.
    ///
    /// # Errors
    ///
    /// As every call; see [`CallError::retry`].
    pub async fn category(&self, id: &CategoryId) -> Result<Category, CallError> {
        const OPERATION: &str = "tagging.category.get";
        let path = format!("{TAGGING}/category/id:{}", id.0);
        let value = self.rest(OPERATION, Method::GET, &path, None).await?;
        let name = text(&value, "name");
        let name = name.ok_or_else(|| self.malformed(OPERATION, "not a category"))?;
        Ok(Category { name: name.to_owned() })
    }

    /// Returns the tag of this name in the category of this name; `None` if the login sees none.
    ///
    /// # Errors
    ///
    /// As every call; see [`CallError::retry`].
    pub async fn find_tag(&self, category: &str, name: &str) -> Result<Option<TagId>, CallError> {
        const OPERATION: &str = "tagging.category.list";
        let value = self.rest(OPERATION, Method::GET, &format!("{TAGGING}/category"), None).await?;
        for id in self.ids(OPERATION, &value)? {
            let id = CategoryId(id);
            if self.category(&id).await?.name == category {
                return self.find_tag_in(&id, name).await;
            }
        }
        Ok(None)
    }

    async fn find_tag_in(
        &self,
        category: &CategoryId,
        name: &str,
    ) -> Result<Option<TagId>, CallError> {
        const OPERATION: &str = "tagging.tag.list-tags-for-category";
        let path = format!("{TAGGING}/tag/id:{}?~action=list-tags-for-category", category.0);
        let value = self.rest(OPERATION, Method::POST, &path, None).await?;
        for id in self.ids(OPERATION, &value)? {
            let id = TagId(id);
            if self.tag(&id).await?.name == name {
                return Ok(Some(id));
            }
        }
        Ok(None)
    }

    /// `attach`: gives an object a tag. An object that has the tag keeps it.
    ///
    /// # Errors
    ///
    /// As every call; see [`CallError::retry`].
    pub async fn attach_tag(&self, tag: &TagId, object: &MoRef) -> Result<(), CallError> {
        const OPERATION: &str = "tagging.tag-association.attach";
        let path = format!("{TAGGING}/tag-association/id:{}?~action=attach", tag.0);
        let body = json!({"object_id": {"type": object.kind(), "id": object.id()}});
        self.rest(OPERATION, Method::POST, &path, Some(&body)).await.map(drop)
    }

    /// Reads a list of ids.
    pub(crate) fn ids(
        &self,
        operation: &'static str,
        value: &Value,
    ) -> Result<Vec<String>, CallError> {
        let malformed = || self.malformed(operation, "not a list of ids");
        let ids = list(value).ok_or_else(malformed)?.iter();
        ids.map(|id| id.as_str().map(str::to_owned).ok_or_else(malformed)).collect()
    }

    /// Makes one call in the current vAPI session. If the server has ended the session, logs in and
    /// repeats the call once.
    pub(crate) async fn rest(
        &self,
        operation: &'static str,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, CallError> {
        let mut relogged = false;
        loop {
            let session = self.rest_session().await?;
            let result = self.rest_once(operation, &method, path, body, Some(&session)).await;
            match result {
                Err(err) if err.retry() == crate::Retry::AfterLogin && !relogged => {
                    self.inner.rest.invalidate(session.epoch);
                    relogged = true;
                }
                Err(err) => {
                    if err.retry() == crate::Retry::AfterLogin {
                        self.inner.rest.invalidate(session.epoch);
                    }
                    return Err(err);
                }
                Ok(value) => return Ok(value),
            }
        }
    }

    /// Returns the current vAPI session, or logs in.
    async fn rest_session(&self) -> Result<RestSession, CallError> {
        const OPERATION: &str = "cis.session.create";
        if self.inner.closed.load(Ordering::Acquire) {
            return Err(self.error(OPERATION, CallErrorKind::Closed));
        }
        self.inner
            .rest
            .get(
                async |epoch| self.rest_login(OPERATION, epoch).await,
                |wait| self.error(OPERATION, CallErrorKind::NotYet(wait)),
                |err| !matches!(err.kind, CallErrorKind::Locked(_)),
            )
            .await
    }

    /// Logs in with the current credential, if it is not locked.
    async fn rest_login(
        &self,
        operation: &'static str,
        epoch: u64,
    ) -> Result<RestSession, CallError> {
        let credential = self
            .inner
            .credentials
            .credential()
            .await
            .map_err(|err| self.error(operation, CallErrorKind::Credential(err)))?;
        self.guard(&credential).map_err(|kind| self.error(operation, kind))?;
        let pair = format!("{}:{}", credential.username, credential.password.expose_secret());
        let basic = base64::engine::general_purpose::STANDARD.encode(pair);
        let mut authorization = HeaderValue::try_from(format!("Basic {basic}"))
            .map_err(|_| self.malformed(operation, "the credential does not fit into a header"))?;
        authorization.set_sensitive(true);
        let request = http::Request::post(SESSION_PATH)
            .header(header::ACCEPT, "application/json")
            .header(header::AUTHORIZATION, authorization)
            .header("vmware-use-header-authn", "true")
            .body(Full::new(Bytes::new()))
            .expect("a constant path and checked headers");
        let answer = self.exchange_rest(operation, request).await;
        if let Err(err) = &answer
            && err.code() == "401"
        {
            self.inner.lockout.rejected(&credential);
        }
        let value = answer?;
        let id = value.as_str().filter(|id| !id.is_empty());
        let id = id.ok_or_else(|| self.malformed(operation, "no session id"))?;
        self.inner.lockout.accepted();
        Ok(RestSession { epoch, id: SecretString::from(id) })
    }

    /// Ends a vAPI session. Only logs an error.
    pub(crate) async fn logout_rest(&self, session: &RestSession) {
        let call = self.rest_once(
            "cis.session.delete",
            &Method::DELETE,
            SESSION_PATH,
            None,
            Some(session),
        );
        match tokio::time::timeout(LOGOUT_DEADLINE, call).await {
            Ok(Ok(_)) => {}
            Ok(Err(err)) => {
                tracing::warn!(error = %crate::Chain(&err), "vAPI logout failed; the session stays until vCenter ends it");
            }
            Err(_) => {
                tracing::warn!("vAPI logout timed out; the session stays until vCenter ends it");
            }
        }
    }

    /// Makes one call without another try, in `session` if it is set.
    async fn rest_once(
        &self,
        operation: &'static str,
        method: &Method,
        path: &str,
        body: Option<&Value>,
        session: Option<&RestSession>,
    ) -> Result<Value, CallError> {
        let bytes = body.map(|b| Bytes::from(b.to_string())).unwrap_or_default();
        let mut builder = http::Request::builder()
            .method(method)
            .uri(path)
            .header(header::ACCEPT, "application/json");
        if body.is_some() {
            builder = builder.header(header::CONTENT_TYPE, "application/json");
        }
        if let Some(session) = session
            && let Ok(mut value) = HeaderValue::try_from(session.id.expose_secret())
        {
            value.set_sensitive(true);
            builder = builder.header("vmware-api-session-id", value);
        }
        let request = builder.body(Full::new(bytes)).map_err(|err| {
            self.malformed(operation, &format!("the id in {path:?} does not fit into a URL: {err}"))
        })?;
        self.exchange_rest(operation, request).await
    }

    /// Sends one request, decodes the answer, and reports the result to the observer.
    async fn exchange_rest(
        &self,
        operation: &'static str,
        request: http::Request<Full<Bytes>>,
    ) -> Result<Value, CallError> {
        let deadline = self.inner.settings.call_deadline;
        self.observed(operation, async {
            let answer = self.exchange(operation, request, deadline).await?;
            decode(&answer).map_err(|kind| self.error(operation, kind))
        })
        .await
    }
}

/// Returns the value of an answer; `null` for an empty body.
fn decode(answer: &Answer) -> Result<Value, CallErrorKind> {
    let status = answer.status.as_u16();
    let parsed = serde_json::from_slice::<Value>(&answer.body);
    if matches!(status, 200 | 201 | 204) {
        if answer.body.is_empty() {
            return Ok(Value::Null);
        }
        let mut value = parsed.map_err(|err| CallErrorKind::Malformed(err.to_string()))?;
        return match value.get_mut("value") {
            Some(inner) => Ok(inner.take()),
            None => Err(CallErrorKind::Malformed(NO_VALUE.to_owned())),
        };
    }
    let id = parsed.ok().and_then(|value| {
        // The type says whether an error passes; the ids of messages differ between services.
        let kind = value.get("type").filter(|it| it.as_str().is_some_and(passes));
        let message = kind.or_else(|| value.pointer("/value/messages/0/id"));
        let message = message.or_else(|| value.get("type"));
        message.and_then(Value::as_str).map(str::to_owned)
    });
    let retry_after = answer.retry_after();
    Err(match id {
        Some(id) => CallErrorKind::Rest { status, id, retry_after },
        None if status == 401 => {
            CallErrorKind::Rest { status, id: "unauthenticated".to_owned(), retry_after }
        }
        None => CallErrorKind::Http { status, retry_after },
    })
}

/// Returns the items of a list; `None` if the value is not a list. Older servers and simulators
/// send null for an empty one.
fn list(value: &Value) -> Option<&[Value]> {
    match value {
        Value::Null => Some(&[]),
        Value::Array(items) => Some(items),
        _ => None,
    }
}

/// Returns a text field; `None` if it is missing, empty or not a text.
pub(crate) fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key).and_then(Value::as_str).filter(|t| !t.is_empty())
}
