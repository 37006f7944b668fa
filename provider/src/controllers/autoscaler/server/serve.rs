//! Serves the service, gRPC health and gRPC reflection over HTTP/2 connections.

use std::{convert::Infallible, io, pin::pin, sync::Arc, time::Duration};

use externalgrpc::protocol::cloud_provider_server::CloudProviderServer;
use http::{Request, Response};
use hyper::{body::Incoming, rt::Executor, server::conn::http2, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_util::sync::CancellationToken;
use tonic::{Code, Status, body::Body};
use tonic_health::{
    ServingStatus,
    pb::health_server::HealthServer,
    server::{HealthReporter, HealthService},
};
use tower::{Service as _, util::BoxCloneSyncService};

use super::{service::Service, status, tls::Tls};
use crate::{
    Listener,
    tasks::Tasks,
    telemetry::{AutoscalerMetrics, HEALTH_SERVICE, REFLECTION_SERVICE},
};

/// Interval of pings on a connection; the autoscaler sends none. A dead connection would otherwise
/// stay until the operating system gives up.
const PING: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(20);
/// Number of requests at a time on one connection. The autoscaler asks for all groups at once.
const STREAMS: u32 = 1000;
/// Longest time of a TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Time for which the stop waits for open requests.
const DRAIN: Duration = Duration::from_secs(5);

/// Runs the futures of a connection as tasks of the server.
#[derive(Clone)]
struct OnTasks(Tasks);

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for OnTasks {
    fn execute(&self, future: F) {
        self.0.spawn(tracing::Span::current(), future);
    }
}

/// The services of one port.
#[derive(Clone)]
pub(crate) struct Services {
    cloud_provider: CloudProviderServer<Service>,
    health: HealthServer<HealthService>,
    reporter: HealthReporter,
    reflection: BoxCloneSyncService<Request<Incoming>, Response<Body>, Infallible>,
    metrics: Arc<AutoscalerMetrics>,
}

impl Services {
    /// Makes the services. [`Services::set_serving`] sets their health, which the caller does before
    /// it serves.
    pub(crate) fn new(service: Service, metrics: Arc<AutoscalerMetrics>) -> Self {
        let reporter = HealthReporter::new();
        let health = HealthServer::new(HealthService::from_health_reporter(reporter.clone()));
        let cloud_provider = CloudProviderServer::new(service);
        let reflection = tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(externalgrpc::DESCRIPTOR)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            .build_v1()
            .expect("the descriptors are part of this program, and a test builds the service");
        let reflection = BoxCloneSyncService::new(reflection);
        Self { cloud_provider, health, reporter, reflection, metrics }
    }

    /// Sets the answer of gRPC health.
    pub(crate) async fn set_serving(&self, is_serving: bool) {
        let status = if is_serving { ServingStatus::Serving } else { ServingStatus::NotServing };
        for name in ["", externalgrpc::SERVICE] {
            self.reporter.set_service_status(name, status).await;
        }
    }

    /// Answers one request, and measures it.
    async fn answer(self, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
        let mut timer = self.metrics.call(request.uri().path());
        let Ok(answer) = self.dispatch(request).await;
        // Only an answer that fails at once has a code in its head; all others succeed.
        let code = answer.headers().get(Status::GRPC_STATUS).map(|it| it.as_bytes());
        timer.set_code(status::name(code.map_or(Code::Ok, Code::from_bytes)));
        Ok(answer)
    }

    /// Has the service answer that the first part of the path names.
    async fn dispatch(mut self, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
        let service = request.uri().path().split('/').nth(1).unwrap_or_default().to_owned();
        match service.as_str() {
            externalgrpc::SERVICE => self.cloud_provider.call(request).await,
            HEALTH_SERVICE => self.health.call(request).await,
            REFLECTION_SERVICE => self.reflection.call(request).await,
            _ => Ok(Status::unimplemented("this server has no such service").into_http()),
        }
    }
}

/// Accepts connections until the stop. Then tells the clients to go away, and waits for a while
/// until their open requests are answered.
pub(crate) async fn serve(
    mut listener: impl Listener,
    tls: Option<Arc<Tls>>,
    services: Services,
    tasks: &Tasks,
) {
    let stop = tasks.stopping();
    loop {
        let Some(accepted) = stop.run_until_cancelled(listener.accept()).await else { return };
        match accepted {
            Ok(stream) => {
                let (services, more, stop) = (services.clone(), tasks.clone(), stop.clone());
                let acceptor = tls.as_ref().map(|tls| TlsAcceptor::from(tls.current()));
                tasks.spawn(tracing::info_span!("connection"), async move {
                    match acceptor {
                        None => connection(stream, services, more, stop).await,
                        Some(acceptor) => {
                            if let Some(stream) = shake_hands(acceptor, stream).await {
                                connection(stream, services, more, stop).await;
                            }
                        }
                    }
                });
            }
            Err(err) => log_failed_accept(&err).await,
        }
    }
}

/// Returns the connection after the TLS handshake; `None` if the client has no certificate of an
/// authority that the server knows, or is too slow.
async fn shake_hands<S>(acceptor: TlsAcceptor, stream: S) -> Option<TlsStream<S>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    match tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => Some(stream),
        Ok(Err(err)) => {
            tracing::warn!(error = %err, "refused a connection: the TLS handshake failed");
            None
        }
        Err(_) => {
            tracing::warn!(
                "refused a connection: the TLS handshake took longer than {HANDSHAKE:?}"
            );
            None
        }
    }
}

async fn log_failed_accept(err: &io::Error) {
    tracing::warn!(error = %err, "accepting a connection of an autoscaler failed; retrying");
    tokio::time::sleep(Duration::from_millis(100)).await;
}

async fn connection<S>(stream: S, services: Services, tasks: Tasks, stop: CancellationToken)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request| services.clone().answer(request));
    let connection = http2::Builder::new(OnTasks(tasks))
        .timer(TokioTimer::new())
        .keep_alive_interval(PING)
        .keep_alive_timeout(PING_TIMEOUT)
        .max_concurrent_streams(STREAMS)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    let ended = stop.run_until_cancelled(connection.as_mut()).await;
    if ended.is_none() {
        connection.as_mut().graceful_shutdown();
        let _ = tokio::time::timeout(DRAIN, connection).await;
    }
}
