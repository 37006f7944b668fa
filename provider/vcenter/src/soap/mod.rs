//! SOAP over the transport: envelope, session cookie, faults, login, and at most one new login per
//! call.

mod machines;
mod operations;
mod singly;
mod views;

use std::{sync::atomic::Ordering, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, header};
use http_body_util::Full;
use secrecy::{ExposeSecret, SecretString};

pub use machines::{CardNetwork, CloneSpec, DeviceChange, MachineConfig, TaskState};
pub use views::{InventoryExtent, InventoryRead};

use crate::{
    CallError, CallErrorKind, Fault, FaultKind, MoRef, ServiceContent, Session, Vcenter,
    client::Answer,
    xml::{self, Element, XmlWriter},
};

/// Value of the header `SOAPAction` that the reference provider (`cpi-vsphere` 2.2) sends to every
/// release of vCenter. Servers accept it.
const SOAP_ACTION: &str = "urn:vim25/9.1.0.0";
/// Name of the session cookie.
const COOKIE: &str = "vmware_soap_session";
/// Deadline of a logout. A slower one must not delay the end of the process.
const LOGOUT_DEADLINE: Duration = Duration::from_secs(5);

/// Session in which a call is made.
pub(crate) enum Scope<'a> {
    /// The current session, or a new one. If the server has ended the session, the client logs in
    /// again and repeats the call once.
    Any,
    /// Exactly this session, because objects in the arguments exist only in it. If it has ended,
    /// the call fails.
    Of(&'a Session),
}

impl Vcenter {
    /// Returns the current session, or logs in.
    ///
    /// # Errors
    ///
    /// With [`CallErrorKind::NotYet`] and [`CallErrorKind::Locked`], which hold the time to wait,
    /// and with [`CallErrorKind::Closed`] and [`CallErrorKind::Credential`], the client has sent
    /// no login. Other errors are those of the login.
    pub async fn session(&self) -> Result<Session, CallError> {
        if self.inner.closed.load(Ordering::Acquire) {
            return Err(self.error("Login", CallErrorKind::Closed));
        }
        #[cfg(feature = "mutants")]
        if self.inner.settings.defects.no_single_flight && self.inner.soap.current().is_none() {
            return self.login(u64::MAX).await;
        }
        self.inner
            .soap
            .get(
                async |epoch| self.login(epoch).await,
                |wait| self.error("Login", CallErrorKind::NotYet(wait)),
                |err| !matches!(err.kind, CallErrorKind::Locked(_)),
            )
            .await
    }

    /// Checks, without a call, that this session is still the current one.
    ///
    /// # Errors
    ///
    /// The fault `NotAuthenticated`, if the client has dropped the session, for example because
    /// another call has found that it has ended.
    pub fn still_holds(&self, session: &Session) -> Result<(), CallError> {
        if self.inner.soap.current().is_some_and(|it| it.epoch == session.epoch) {
            return Ok(());
        }
        let message = "another call found that the session has ended".to_owned();
        let fault = Fault { kind: FaultKind::NotAuthenticated, message };
        Err(self.error("WaitForUpdatesEx", CallErrorKind::Fault(fault)))
    }

    /// Logs in with the current credential, if it is not locked and the server is the vCenter of
    /// the first login.
    async fn login(&self, epoch: u64) -> Result<Session, CallError> {
        let credential = self
            .inner
            .credentials
            .credential()
            .await
            .map_err(|err| self.error("Login", CallErrorKind::Credential(err)))?;
        self.guard(&credential).map_err(|kind| self.error("Login", kind))?;
        let deadline = self.inner.settings.call_deadline;

        let mut body = XmlWriter::default();
        body.reference("_this", &MoRef::new("ServiceInstance", "ServiceInstance"));
        let (answer, cookie) =
            self.post("RetrieveServiceContent", &body.finish(), None, deadline).await?;
        let content =
            answer.child("returnval").and_then(ServiceContent::read).ok_or_else(|| {
                self.malformed("RetrieveServiceContent", "incomplete service content")
            })?;
        // Checked before the client sends a credential, because the inventory of another vCenter
        // proves nothing about our machines.
        let uuid = content.about.instance_uuid.as_str();
        if uuid.is_empty() && self.inner.instance.get().is_some() {
            let what = "service content without an instance UUID, so its identity is unknown";
            return Err(self.malformed("RetrieveServiceContent", what));
        }
        let first = self.inner.instance.get();
        let is_other = !uuid.is_empty() && first.is_some_and(|first| first != uuid);
        *self.inner.other_instance.lock().expect("nothing panics under this lock") =
            is_other.then(|| uuid.to_owned());
        if is_other {
            let seen = uuid.to_owned();
            return Err(self.error("RetrieveServiceContent", CallErrorKind::OtherInstance(seen)));
        }

        let mut body = XmlWriter::default();
        body.reference("_this", &content.session_manager);
        body.text("userName", &credential.username);
        body.text("password", credential.password.expose_secret());
        body.text("locale", "en_US");
        let result = self.post("Login", &body.finish(), cookie.as_ref(), deadline).await;
        if let Err(err) = &result
            && matches!(err.fault(), Some(FaultKind::InvalidLogin))
        {
            self.inner.lockout.rejected(&credential);
        }
        let (_, new_cookie) = result?;
        // Only a successful login fixes the instance UUID that later answers must have. The answer
        // before the login may come from a wrong server, which refuses the credential. An answer
        // without an instance UUID fixes none.
        if uuid.is_empty() {
            self.inner.was_anonymous.store(true, Ordering::Relaxed);
        } else {
            self.inner.instance.get_or_init(|| uuid.to_owned());
        }
        self.inner.lockout.accepted();
        tracing::info!(vcenter = %self.inner.name, epoch, version = %content.about.version, "logged in to vCenter; calls use the new session");
        Ok(Session { epoch, content, cookie: new_cookie.or(cookie) })
    }

    /// Returns an error for a credential that the server has rejected, until the pause after the
    /// rejection is over.
    pub(crate) fn guard(&self, credential: &crate::Credential) -> Result<(), CallErrorKind> {
        #[cfg(feature = "mutants")]
        if self.inner.settings.defects.no_lockout {
            return Ok(());
        }
        self.inner.lockout.check(credential)
    }

    /// Ends a SOAP session. Only logs an error.
    pub(crate) async fn logout_soap(&self, session: &Session) {
        let mut body = XmlWriter::default();
        body.reference("_this", &session.content.session_manager);
        let cookie = session.cookie.as_ref();
        if let Err(err) = self.post("Logout", &body.finish(), cookie, LOGOUT_DEADLINE).await {
            tracing::warn!(error = %crate::Chain(&err), "SOAP logout failed; the session stays until vCenter ends it");
        }
    }

    /// Makes one call. `body` writes the arguments, `_this` first, and gets the entry points of the
    /// session for that.
    pub(crate) async fn soap(
        &self,
        operation: &'static str,
        scope: Scope<'_>,
        deadline: Duration,
        body: impl Fn(&ServiceContent, &mut XmlWriter),
    ) -> Result<Element, CallError> {
        if self.inner.closed.load(Ordering::Acquire) {
            return Err(self.error(operation, CallErrorKind::Closed));
        }
        let write = |session: &Session| {
            let mut out = XmlWriter::default();
            body(&session.content, &mut out);
            out.finish()
        };
        let session = match scope {
            Scope::Any => {
                #[cfg(feature = "mutants")]
                if self.inner.settings.defects.login_per_call {
                    self.inner.soap.take();
                }
                self.session().await?
            }
            Scope::Of(session) => session.clone(),
        };
        let first = self.post(operation, &write(&session), session.cookie.as_ref(), deadline).await;
        let Err(err) = first else { return Ok(first?.0) };
        if !matches!(err.fault(), Some(FaultKind::NotAuthenticated)) {
            return Err(err);
        }
        self.inner.soap.invalidate(session.epoch);
        if let Scope::Of(_) = scope {
            return Err(err);
        }
        let session = self.session().await?;
        let second =
            self.post(operation, &write(&session), session.cookie.as_ref(), deadline).await;
        // The server rejected the new session too, so no call uses it again. `Slot` decides when
        // the next login may start.
        if let Err(err) = &second
            && matches!(err.fault(), Some(FaultKind::NotAuthenticated))
        {
            self.inner.soap.invalidate(session.epoch);
        }
        Ok(second?.0)
    }

    /// Returns the error for an answer that violates the protocol.
    pub(crate) fn malformed(&self, operation: &'static str, what: &str) -> CallError {
        self.error(operation, CallErrorKind::Malformed(what.to_owned()))
    }

    /// Sends one SOAP request. Returns the response element and the session cookie of the answer,
    /// if any.
    async fn post(
        &self,
        operation: &'static str,
        body: &str,
        cookie: Option<&SecretString>,
        deadline: Duration,
    ) -> Result<(Element, Option<SecretString>), CallError> {
        let mut request = http::Request::post("/sdk")
            .header(header::CONTENT_TYPE, "text/xml; charset=\"utf-8\"")
            .header("soapaction", SOAP_ACTION)
            .body(Full::new(Bytes::from(envelope(operation, body))))
            .expect("a constant path and constant headers");
        if let Some(cookie) = cookie
            && let Ok(mut value) =
                HeaderValue::try_from(format!("{COOKIE}={}", cookie.expose_secret()))
        {
            value.set_sensitive(true);
            request.headers_mut().insert(header::COOKIE, value);
        }
        self.observed(operation, async {
            let answer = self.exchange(operation, request, deadline).await?;
            let cookie = session_cookie(&answer);
            let element = decode(operation, &answer).map_err(|kind| self.error(operation, kind))?;
            Ok((element, cookie))
        })
        .await
    }
}

/// Returns a request as a SOAP document.
pub(crate) fn envelope(operation: &str, body: &str) -> String {
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\
         <soapenv:Envelope xmlns:soapenv=\"http://schemas.xmlsoap.org/soap/envelope/\" \
         xmlns:xsd=\"http://www.w3.org/2001/XMLSchema\" \
         xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\">\
         <soapenv:Body><{operation} xmlns=\"urn:vim25\">{body}</{operation}></soapenv:Body>\
         </soapenv:Envelope>"
    )
}

/// Returns the value of the last session cookie in the answer, without attributes and quotes;
/// `None` if the answer sets none.
fn session_cookie(answer: &Answer) -> Option<SecretString> {
    answer.headers.get_all(header::SET_COOKIE).iter().rev().find_map(|value| {
        let pair = value.to_str().ok()?.split(';').next()?;
        let (name, value) = pair.split_once('=')?;
        (name.trim() == COOKIE).then(|| SecretString::from(value.trim().trim_matches('"')))
    })
}

/// Returns the response element of an answer, or the reason why the call failed.
fn decode(operation: &str, answer: &Answer) -> Result<Element, CallErrorKind> {
    let status = answer.status.as_u16();
    if !matches!(status, 200 | 500) {
        return Err(CallErrorKind::Http { status, retry_after: answer.retry_after() });
    }
    let malformed = |what: String| {
        // A proxy in front of vCenter may answer 500 with text or HTML. That does not count as
        // malformed SOAP.
        if status == 500 {
            CallErrorKind::Http { status, retry_after: answer.retry_after() }
        } else {
            CallErrorKind::Malformed(what)
        }
    };
    let text = std::str::from_utf8(&answer.body).map_err(|_| malformed("not UTF-8".to_owned()))?;
    let envelope = xml::parse(text).map_err(|err| malformed(err.to_string()))?;
    let mut body = envelope
        .children
        .into_iter()
        .find(|c| &*c.name == "Body")
        .ok_or_else(|| malformed("no Body element".to_owned()))?;
    let content = if body.children.is_empty() { None } else { Some(body.children.swap_remove(0)) };
    let content = content.ok_or_else(|| malformed("an empty Body element".to_owned()))?;
    if &*content.name == "Fault" {
        let message = content.text_of("faultstring").unwrap_or_default().to_owned();
        let detail = content.child("detail").and_then(|d| d.children.first());
        let fault = match detail {
            Some(detail) => Fault::read(detail, &message),
            None => Fault { kind: FaultKind::Other("unnamed".to_owned()), message },
        };
        return Err(CallErrorKind::Fault(fault));
    }
    if status == 200 && content.name.strip_suffix("Response") == Some(operation) {
        Ok(content)
    } else {
        Err(malformed(format!("element {} in the answer to {operation}", content.name)))
    }
}
