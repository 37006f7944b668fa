//! The HTTPS endpoint: `/healthz`, `/livez`, `/readyz` and `/metrics`.
//!
//! Upstream answers 404 on `/livez` and `/readyz`; serving them is an intended difference.

use std::{convert::Infallible, fmt::Write as _, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio_rustls::TlsAcceptor;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    access::{Access, AccessSettings},
    certificate::{Certificate, CertificateSource, ServingTls},
};
use crate::{InputError, tasks::Listener, telemetry::Telemetry};

/// Time for which the stop waits for the tasks of connections. It drops established connections at
/// once, so that only a TLS handshake may take longer.
const GRACE: Duration = Duration::from_secs(2);
/// Time that a client may take for the TLS handshake, and again for the headers of each request.
const HEADERS: Duration = Duration::from_secs(10);
const PLAIN: &str = "text/plain; charset=utf-8";

/// Settings of the endpoint.
#[derive(Clone, Default)]
pub struct Serving {
    /// Source of the certificate; `None` makes a self-signed one at start.
    pub certificate: Option<CertificateSource>,
    /// TLS versions, cipher suites and key exchange groups.
    pub tls: ServingTls,
    /// Settings of the access checks.
    pub access: AccessSettings,
}

/// The endpoint, ready to serve; see [`HealthEndpoint::serve`].
pub struct HealthEndpoint {
    certificate: Arc<Certificate>,
    tls: Arc<rustls::ServerConfig>,
    access: AccessSettings,
}

impl HealthEndpoint {
    /// Reads or makes the certificate and prepares TLS, without sending a request.
    ///
    /// # Errors
    ///
    /// If the source of the certificate fails, or if the certificate, its key or the TLS settings
    /// are invalid; the text names the problem and the remedy.
    pub fn new(serving: Serving) -> Result<Self, InputError> {
        let certificate = Certificate::new(serving.certificate)?;
        let tls = Arc::new(Arc::clone(&certificate).config(&serving.tls)?);
        Ok(Self { certificate, tls, access: serving.access })
    }

    /// Serves health and metrics from `telemetry` until `stop` is cancelled. `telemetry` also
    /// counts the reviews that the endpoint requests from an API server.
    pub async fn serve(
        self,
        listener: impl Listener,
        telemetry: Arc<Telemetry>,
        stop: CancellationToken,
    ) {
        let acceptor = TlsAcceptor::from(self.tls);
        let access = Arc::new(Access::new(self.access, telemetry.cluster_requests()));
        let accepting = accept(listener, acceptor, access, telemetry, stop);
        tokio::select! {
            () = accepting => {}
            () = self.certificate.follow() => {}
        }
    }
}

async fn accept(
    mut listener: impl Listener,
    acceptor: TlsAcceptor,
    access: Arc<Access>,
    telemetry: Arc<Telemetry>,
    stop: CancellationToken,
) {
    let connections = TaskTracker::new();
    loop {
        let Some(accepted) = stop.run_until_cancelled(listener.accept()).await else { break };
        let stream = match accepted {
            Ok(stream) => stream,
            Err(err) => {
                tracing::warn!(error = %err, "accepting a connection to the HTTPS endpoint failed; retrying");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let (acceptor, telemetry, stop) = (acceptor.clone(), Arc::clone(&telemetry), stop.clone());
        let access = Arc::clone(&access);
        connections.spawn(async move {
            let Ok(Ok(stream)) = tokio::time::timeout(HEADERS, acceptor.accept(stream)).await
            else {
                return;
            };
            let service = service_fn(move |request: Request<Incoming>| {
                let (access, telemetry) = (Arc::clone(&access), Arc::clone(&telemetry));
                async move {
                    let (path, query) = (request.uri().path(), request.uri().query());
                    let judged = access.judge(request.method(), path, request.headers()).await;
                    let response = match judged {
                        Ok(()) => answer(&telemetry, path, query),
                        Err((status, what)) => respond(status, PLAIN, what + "\n"),
                    };
                    Ok::<_, Infallible>(response)
                }
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEADERS)
                .serve_connection(TokioIo::new(stream), service);
            let _ = stop.run_until_cancelled(connection).await;
        });
    }
    connections.close();
    let _ = tokio::time::timeout(GRACE, connections.wait()).await;
}

fn answer(telemetry: &Telemetry, path: &str, query: Option<&str>) -> Response<Full<Bytes>> {
    match path {
        "/healthz" | "/livez" => health(path, telemetry.checks(), query),
        "/readyz" => health(path, telemetry.readiness(), query),
        "/metrics" => {
            let content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            respond(StatusCode::OK, content_type, telemetry.metrics())
        }
        _ => respond(StatusCode::NOT_FOUND, PLAIN, "not found\n".to_owned()),
    }
}

fn health(
    path: &str,
    mut checks: Vec<(String, Result<(), String>)>,
    query: Option<&str>,
) -> Response<Full<Bytes>> {
    let parameters: Vec<&str> = query.unwrap_or_default().split('&').collect();
    let is_verbose = parameters.iter().any(|p| *p == "verbose" || p.starts_with("verbose="));
    let excluded: Vec<&str> =
        parameters.iter().filter_map(|p| p.strip_prefix("exclude=")).collect();
    if checks.is_empty() {
        checks.push(("ping".to_owned(), Ok(())));
    }
    checks.retain(|(name, _)| !excluded.contains(&name.as_str()));
    let is_well = checks.iter().all(|(_, outcome)| outcome.is_ok());
    let mut text = String::new();
    for (name, outcome) in &checks {
        let _ = match outcome {
            Ok(()) => writeln!(text, "[+]{name} ok"),
            Err(why) => writeln!(text, "[-]{name} failed: {why}"),
        };
    }
    let what = path.trim_start_matches('/');
    let _ = writeln!(text, "{what} check {}", if is_well { "passed" } else { "failed" });
    match (is_well, is_verbose) {
        (true, false) => respond(StatusCode::OK, PLAIN, "ok".to_owned()),
        (true, true) => respond(StatusCode::OK, PLAIN, text),
        (false, _) => respond(StatusCode::INTERNAL_SERVER_ERROR, PLAIN, text),
    }
}

fn respond(status: StatusCode, content_type: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, header::HeaderValue::from_static(content_type));
    response
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    async fn text(response: Response<Full<Bytes>>) -> (u16, String) {
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn the_health_endpoint_answers_ok_or_names_the_failed_check() {
        let telemetry = Telemetry::default();
        assert_eq!(text(answer(&telemetry, "/healthz", None)).await, (200, "ok".into()));
        telemetry.set_check("a", Ok(()));
        telemetry.set_check("b", Err("broken".into()));
        let (status, body) = text(answer(&telemetry, "/livez", None)).await;
        assert_eq!(
            (status, body.as_str()),
            (500, "[+]a ok\n[-]b failed: broken\nlivez check failed\n")
        );
        let (status, body) = text(answer(&telemetry, "/healthz", Some("verbose&exclude=b"))).await;
        assert_eq!((status, body.as_str()), (200, "[+]a ok\nhealthz check passed\n"));
        assert_eq!(text(answer(&telemetry, "/nowhere", None)).await.0, 404);
    }

    #[tokio::test(start_paused = true)]
    async fn a_leader_that_does_not_renew_is_unhealthy_20_s_after_the_end_of_its_lease() {
        let telemetry = Telemetry::default();
        telemetry.set_election("ccm", Duration::from_secs(15));
        let verbose = async || text(answer(&telemetry, "/healthz", Some("verbose"))).await;
        let well = (200, "[+]leaderElection ok\nhealthz check passed\n".to_owned());
        tokio::time::advance(Duration::from_secs(3600)).await;
        assert_eq!(verbose().await, well, "waiting for the lease");
        telemetry.lease_renewed();
        tokio::time::advance(Duration::from_secs(35)).await;
        assert_eq!(verbose().await, well, "twenty seconds after the lease ran out");
        tokio::time::advance(Duration::from_millis(1)).await;
        let why = "failed election to renew leadership on lease ccm";
        let ill = format!("[-]leaderElection failed: {why}\nhealthz check failed\n");
        assert_eq!(verbose().await, (500, ill));
        telemetry.lease_renewed();
        assert_eq!(verbose().await, well, "renewed");
        tokio::time::advance(Duration::from_secs(36)).await;
        telemetry.set_leader(false);
        assert_eq!(verbose().await, well, "no longer the leader");
    }
}
