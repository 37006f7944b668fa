//! One vCenter: its endpoint, its settings, its two logins, and the path that all requests take.

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
    Call, CallError, CallErrorKind, CallObserver, CredentialSource, Jitter, Session, Transport,
    session::{Lockout, Slot},
    vapi::RestSession,
};

/// Upstream's name in `User-Agent` (`cloud-provider-vsphere: pkg/common/vclib/connection.go`).
const USER_AGENT: &str = "k8s-cloud-provider-vsphere";
/// Maximum size of an answer; the client refuses a larger one. A page of a thousand machines is about 3 MiB.
const MAX_BODY: usize = 64 * 1024 * 1024;

/// Address of a vCenter.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Endpoint {
    /// Key in the configuration; identity of this vCenter inside the provider.
    pub name: String,
    /// Host name or address, without brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
}

impl Endpoint {
    /// `host:port`, with brackets around an IPv6 literal.
    pub fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

/// Deliberate defects; see `provider::Mutant`.
#[cfg(feature = "mutants")]
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "one switch per defect")]
pub struct Defects {
    /// Every caller without a session logs in by itself.
    pub no_single_flight: bool,
    /// Every call drops the session first.
    pub login_per_call: bool,
    /// Calls wait forever.
    pub no_deadline: bool,
    /// A rejected credential is tried again at once.
    pub no_lockout: bool,
}

/// Settings of the client.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Deadline of every call except the long poll (default 30 s).
    pub call_deadline: Duration,
    /// Maximum time that one `WaitForUpdatesEx` may block on the server (default 60 s).
    pub poll: Duration,
    /// Objects per page of a property read (default 1000).
    pub page_size: u32,
    /// Seeds the jitter of all pauses.
    pub seed: u64,
    /// Receives the result of every call.
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
    pub(crate) name: Arc<str>,
    host: HeaderValue,
    transport: Transport,
    pub(crate) credentials: Arc<dyn CredentialSource>,
    pub(crate) settings: Settings,
    pub(crate) soap: Slot<Session>,
    pub(crate) rest: Slot<RestSession>,
    pub(crate) lockout: Lockout,
    /// Instance UUID of the vCenter that accepted the first login under this name.
    pub(crate) instance: OnceLock<String>,
    /// Instance UUID of the other vCenter that answered the last login under this name, if another one did.
    pub(crate) other_instance: Mutex<Option<String>>,
    /// True if a server accepted a login without saying its instance UUID.
    pub(crate) was_anonymous: AtomicBool,
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
    /// `Retry-After` in seconds; vCenter does not use the date form.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        let value = self.headers.get(header::RETRY_AFTER)?.to_str().ok()?;
        value.trim().parse().ok().map(Duration::from_secs)
    }
}

impl Vcenter {
    /// A client that has not called anything yet.
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
                name: Arc::from(endpoint.name.as_str()),
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

    /// Name of the vCenter in the configuration.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// The instance UUID that the vCenter reported at the first login that succeeded; `None` before.
    ///
    /// It never changes within a process: the client does not log in to a server with another instance UUID.
    pub fn instance_uuid(&self) -> Option<&str> {
        self.inner.instance.get().map(String::as_str)
    }

    /// True if the identity became known only after a login to a server that did not say its instance UUID: references from
    /// that time may be those of another server.
    pub fn was_identified_late(&self) -> bool {
        self.inner.was_anonymous.load(Ordering::Relaxed) && self.instance_uuid().is_some()
    }

    /// The instance UUID of another vCenter that answered the last login under this name; `None` if the first vCenter
    /// answered it.
    ///
    /// The client does not log in to the other vCenter. A person has to decide by a restart whether it replaces the
    /// first one.
    pub fn other_instance(&self) -> Option<String> {
        self.inner.other_instance.lock().expect("nothing panics under this lock").clone()
    }

    /// Ends both logins and refuses further calls. Errors are only logged, because a caller cannot act on them.
    pub async fn close(&self) {
        self.inner.closed.store(true, Ordering::Release);
        let (soap, rest) = (self.inner.soap.take(), self.inner.rest.take());
        let ((), ()) = futures::join!(
            async {
                if let Some(session) = soap {
                    self.logout_soap(&session).await;
                }
            },
            async {
                if let Some(session) = rest {
                    self.logout_rest(&session).await;
                }
            }
        );
    }

    pub(crate) fn error(&self, operation: &'static str, kind: CallErrorKind) -> CallError {
        CallError { operation, vcenter: Arc::clone(&self.inner.name), kind }
    }

    /// Waits for a call, and reports its result to the observer.
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

    /// Sends one request and reads the whole answer, within the deadline.
    ///
    /// The future is boxed, which keeps the body's types out of every future above.
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
