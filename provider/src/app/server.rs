//! The HTTPS endpoint: `/healthz`, `/livez`, `/readyz` and `/metrics`, with a certificate made at start.
//!
//! Upstream answers 404 on `/livez` and `/readyz`; serving them is one of the differences on purpose.

use std::{convert::Infallible, fmt::Write as _, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::telemetry::Telemetry;

/// How long open connections may take to finish at the stop.
const GRACE: Duration = Duration::from_secs(2);
/// A client that takes longer than this to say what it wants is cut off.
const HEADERS: Duration = Duration::from_secs(10);

/// Serves health and metrics until `stop` is cancelled.
///
/// # Errors
///
/// When no certificate can be made; nothing was served then.
pub async fn serve(
    listener: TcpListener,
    telemetry: Arc<Telemetry>,
    stop: CancellationToken,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let acceptor = TlsAcceptor::from(Arc::new(tls()?));
    let connections = TaskTracker::new();
    loop {
        let Some(accepted) = stop.run_until_cancelled(listener.accept()).await else { break };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(err) => {
                tracing::warn!(error = %err, "connection not accepted");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let (acceptor, telemetry, stop) = (acceptor.clone(), Arc::clone(&telemetry), stop.clone());
        connections.spawn(async move {
            let Ok(Ok(stream)) = tokio::time::timeout(HEADERS, acceptor.accept(stream)).await
            else {
                return;
            };
            let service = service_fn(move |request: Request<Incoming>| {
                let response = answer(&telemetry, request.uri().path(), request.uri().query());
                async move { Ok::<_, Infallible>(response) }
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
    Ok(())
}

fn tls() -> Result<rustls::ServerConfig, Box<dyn std::error::Error + Send + Sync>> {
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let made = rcgen::generate_simple_self_signed(names)?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    Ok(rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)?)
}

fn answer(telemetry: &Telemetry, path: &str, query: Option<&str>) -> Response<Full<Bytes>> {
    match path {
        "/healthz" | "/livez" => health(path, telemetry.checks(), query),
        "/readyz" => {
            let mut checks = telemetry.checks();
            checks.extend(telemetry.vcenters().into_iter().map(|(name, is_current)| {
                let outcome = if is_current { Ok(()) } else { Err("view not current".to_owned()) };
                (format!("vcenter-{name}"), outcome)
            }));
            let supervisor = telemetry.supervisor_check();
            checks.extend(supervisor.map(|outcome| ("supervisor".to_owned(), outcome)));
            checks.push(("machines".to_owned(), telemetry.machines_check()));
            health(path, checks, query)
        }
        "/metrics" => {
            let content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            respond(StatusCode::OK, content_type, telemetry.metrics())
        }
        _ => respond(StatusCode::NOT_FOUND, "text/plain; charset=utf-8", "not found\n".to_owned()),
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
    let plain = "text/plain; charset=utf-8";
    match (is_well, is_verbose) {
        (true, false) => respond(StatusCode::OK, plain, "ok".to_owned()),
        (true, true) => respond(StatusCode::OK, plain, text),
        (false, _) => respond(StatusCode::INTERNAL_SERVER_ERROR, plain, text),
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
    async fn health_says_ok_or_what_is_wrong() {
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
    async fn a_leader_that_cannot_renew_for_long_is_unhealthy_as_with_client_go() {
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
        assert_eq!(verbose().await, well, "leads no more");
    }
}
