//! The client of one vCenter: settings, the two logins (SOAP and vAPI), and the function
//! that sends every request.

use std::{
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use futures::future::BoxFuture;
use http::{HeaderValue, header};
use http_body_util::{BodyExt as _, Full};
use tokio::time::Instant;
use tower::ServiceExt as _;

use crate::{
    Call, CallError, CallErrorKind, CallObserver, CredentialSource, Endpoint, Jitter, Session,
    Transport, VcenterName,
    session::{Lockout, RestSession, Slot},
};

/// Value of the header `User-Agent`, the same as upstream's
/// (`cloud-provider-vsphere: pkg/common/vclib/connection.go`).
const USER_AGENT: &str = "k8s-cloud-provider-vsphere";
/// Maximum size of an answer in bytes (64 MiB); the client refuses a larger one. A page of a
/// thousand machines has about 3 MiB.
const MAX_BODY: usize = 64 * 1024 * 1024;

/// Switches for deliberate defects; see `provider::Mutant`.
#[cfg(feature = "mutants")]
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "one switch per defect")]
pub struct Defects {
    /// Every caller that finds no SOAP session logs in separately, instead of waiting for one
    /// login.
    pub no_single_flight: bool,
    /// Every SOAP call that may use any session drops the current session first, so that the call
    /// has to log in.
    pub login_per_call: bool,
    /// Calls wait for an answer without a deadline.
    pub no_deadline: bool,
    /// The client tries a rejected credential again without a pause.
    pub no_lockout: bool,
}

/// Settings of the client.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Deadline of every call except the wait for updates and logouts (default 30 s).
    pub call_deadline: Duration,
    /// Maximum time for which one `WaitForUpdatesEx` may block on the server (default 60 s).
    pub poll: Duration,
    /// Objects per page of a property read (default 1000).
    pub page_size: u32,
    /// Seed of the jitter of all pauses.
    pub seed: u64,
    /// Observer that receives the result of every sent call; `None` for no observer.
    pub observer: Option<Arc<dyn CallObserver>>,
    /// Deliberate defects.
    #[cfg(feature = "mutants")]
    pub defects: Defects,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            call_deadline: Duration::from_secs(30),
            poll: Duration::from_secs(60),
            page_size: 1000,
            seed: 0,
            observer: None,
            #[cfg(feature = "mutants")]
            defects: Defects::default(),
        }
    }
}

/// A client of one vCenter. Clones share logins and limits.
#[derive(Clone)]
pub struct Vcenter {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) name: VcenterName,
    host: HeaderValue,
    transport: Transport,
    pub(crate) credentials: Arc<dyn CredentialSource>,
    pub(crate) settings: Settings,
    pub(crate) soap: Slot<Session>,
    pub(crate) rest: Slot<RestSession>,
    pub(crate) lockout: Lockout,
    /// Instance UUID that the vCenter reported at the first successful login with one; set once.
    pub(crate) instance: OnceLock<String>,
    /// Instance UUID of the vCenter that the last login reached, if that vCenter is another one
    /// than at the first login; else `None`.
    pub(crate) other_instance: Mutex<Option<String>>,
    /// True if a server without an instance UUID in its answer ever accepted a login.
    pub(crate) was_anonymous: AtomicBool,
    /// True after [`Vcenter::close`].
    pub(crate) closed: AtomicBool,
}

impl std::fmt::Debug for Vcenter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Vcenter").field("name", &self.inner.name).finish_non_exhaustive()
    }
}

/// A complete HTTP answer.
pub(crate) struct Answer {
    pub(crate) status: http::StatusCode,
    pub(crate) headers: http::HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    /// Returns the time in the header `Retry-After`. Returns `None` without the header, or if the
    /// value is not a number of seconds: vCenter does not use the date form.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        let value = self.headers.get(header::RETRY_AFTER)?.to_str().ok()?;
        value.trim().parse().ok().map(Duration::from_secs)
    }
}

impl Vcenter {
    /// Creates a client. It makes no call and does not log in yet.
    pub fn new(
        endpoint: &Endpoint,
        transport: Transport,
        credentials: Arc<dyn CredentialSource>,
        settings: Settings,
    ) -> Self {
        let jitter = |what: &str| Jitter::new(settings.seed, &format!("{}/{what}", endpoint.name));
        let host = HeaderValue::try_from(endpoint.authority())
            .unwrap_or_else(|_| HeaderValue::from_static("vcenter"));
        Self {
            inner: Arc::new(Inner {
                name: endpoint.name.clone(),
                host,
                transport,
                credentials,
                soap: Slot::new(jitter("soap")),
                rest: Slot::new(jitter("rest")),
                lockout: Lockout::default(),
                instance: OnceLock::new(),
                other_instance: Mutex::new(None),
                was_anonymous: AtomicBool::new(false),
                closed: AtomicBool::new(false),
                settings,
            }),
        }
    }

    /// Returns the name of the vCenter in the configuration.
    pub fn name(&self) -> &VcenterName {
        &self.inner.name
    }

    /// Returns the instance UUID that the vCenter reported at the first successful login with one;
    /// `None` before.
    ///
    /// It never changes within a process, because the client does not log in to a server with
    /// another instance UUID.
    pub fn instance_uuid(&self) -> Option<&str> {
        self.inner.instance.get().map(String::as_str)
    }

    /// True if the instance UUID became known only after a login to a server that did not report
    /// one. References from before may be those of another server.
    pub fn was_identified_late(&self) -> bool {
        self.inner.was_anonymous.load(Ordering::Relaxed) && self.instance_uuid().is_some()
    }

    /// Returns the instance UUID of the vCenter that the last login reached, if that vCenter is
    /// another one than at the first login; otherwise `None`.
    ///
    /// The client does not log in to the other vCenter. Only a person can decide, by a restart,
    /// that the other vCenter replaces the first one.
    pub fn other_instance(&self) -> Option<String> {
        self.inner.other_instance.lock().expect("nothing panics under this lock").clone()
    }

    /// Returns the error of a call to this vCenter.
    pub(crate) fn error(&self, operation: &'static str, kind: CallErrorKind) -> CallError {
        CallError { operation, vcenter: self.inner.name.clone(), kind }
    }

    /// Waits for a call to end, and reports its result to the observer.
    pub(crate) async fn observed<T>(
        &self,
        operation: &'static str,
        call: impl Future<Output = Result<T, CallError>>,
    ) -> Result<T, CallError> {
        let since = Instant::now();
        let result = call.await;
        if let Some(observer) = &self.inner.settings.observer {
            observer.called(&Call {
                vcenter: &self.inner.name,
                operation,
                code: result.as_ref().err().map_or("ok".into(), CallError::code),
                took: since.elapsed(),
            });
        }
        result
    }

    /// Sends one request and reads the whole answer. Fails with [`CallErrorKind::TimedOut`] after
    /// `deadline`.
    ///
    /// The future is boxed, so that the types of the callers' futures do not contain the types of
    /// the body.
    pub(crate) fn exchange(
        &self,
        operation: &'static str,
        mut request: http::Request<Full<Bytes>>,
        deadline: Duration,
    ) -> BoxFuture<'_, Result<Answer, CallError>> {
        let headers = request.headers_mut();
        headers.insert(header::HOST, self.inner.host.clone());
        headers.insert(header::USER_AGENT, HeaderValue::from_static(USER_AGENT));
        tracing::debug!(vcenter = %self.inner.name, operation, "call");
        let exchange = exchange(self.inner.transport.clone(), request);
        Box::pin(async move {
            #[cfg(feature = "mutants")]
            if self.inner.settings.defects.no_deadline {
                return exchange.await.map_err(|kind| self.error(operation, kind));
            }
            match tokio::time::timeout(deadline, exchange).await {
                Ok(result) => result.map_err(|kind| self.error(operation, kind)),
                Err(_) => Err(self.error(operation, CallErrorKind::TimedOut(deadline))),
            }
        })
    }
}

/// Sends one request and reads the whole answer, up to [`MAX_BODY`] bytes.
async fn exchange(
    transport: Transport,
    request: http::Request<Full<Bytes>>,
) -> Result<Answer, CallErrorKind> {
    let response = transport.oneshot(request).await.map_err(CallErrorKind::Transport)?;
    let (parts, mut body) = response.into_parts();
    let mut bytes = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(CallErrorKind::Transport)?.into_data() else { continue };
        if bytes.len() + data.len() > MAX_BODY {
            return Err(CallErrorKind::Malformed(format!(
                "an answer of more than {MAX_BODY} bytes"
            )));
        }
        bytes.extend_from_slice(&data);
    }
    Ok(Answer { status: parts.status, headers: parts.headers, body: bytes.freeze() })
}
