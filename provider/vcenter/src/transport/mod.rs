//! Transports for requests to an endpoint: any tower service, or HTTPS in production, through a
//! proxy if the configuration says so.

mod endpoint;
mod name;
mod proxy;
mod tls;

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, combinators::UnsyncBoxBody};
use hyper_util::{
    client::legacy::{
        Client,
        connect::{Connection, HttpConnector, proxy::Tunnel},
    },
    rt::{TokioExecutor, TokioTimer},
};
use tower::{Service, util::BoxCloneSyncService};

pub use endpoint::Endpoint;
pub use name::VcenterName;
pub use proxy::{Proxy, ProxyError, ProxyRules};
pub use tls::{TlsError, TlsTrust};

/// Any error, boxed; the error type of [`Transport`].
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Body of an HTTP answer, read in parts.
pub type Body = UnsyncBoxBody<Bytes, BoxError>;

/// Service that answers HTTP requests to one vCenter.
///
/// The URI of a request is only a path (`/sdk`, `/rest/…`); the header `Host` names the vCenter.
/// The service decides where to send requests: over TLS ([`https`]) or directly to a router.
pub type Transport =
    BoxCloneSyncService<http::Request<Full<Bytes>>, http::Response<Body>, BoxError>;

/// Converts any HTTP service into a transport.
pub fn from_service<S, B>(service: S) -> Transport
where
    S: Service<http::Request<Full<Bytes>>, Response = http::Response<B>>
        + Clone
        + Send
        + Sync
        + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    use tower::ServiceExt as _;
    BoxCloneSyncService::new(
        service
            .map_response(|response: http::Response<B>| {
                response.map(|body| body.map_err(Into::into).boxed_unsync())
            })
            .map_err(Into::into),
    )
}

/// Creates a transport that sends requests to the endpoint over HTTPS, with HTTP/1.1 and kept
/// connections.
///
/// # Errors
///
/// If the trust settings cannot be used. The function opens no connection.
pub fn https(endpoint: &Endpoint, trust: &TlsTrust) -> Result<Transport, TlsError> {
    https_through(endpoint, trust, None)
}

/// Creates a transport like [`https`], but through a tunnel of `proxy` if that is set.
///
/// # Errors
///
/// See [`https`].
pub fn https_through(
    endpoint: &Endpoint,
    trust: &TlsTrust,
    proxy: Option<&Proxy>,
) -> Result<Transport, TlsError> {
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(Duration::from_secs(10)));
    connector.set_keepalive(Some(Duration::from_secs(30)));
    let config = trust.client_config()?;
    let Some(Proxy { uri, authorization }) = proxy else {
        return Ok(over(endpoint, config, connector));
    };
    let mut tunnel = Tunnel::new(uri.clone(), connector);
    if let Some(authorization) = authorization {
        tunnel = tunnel.with_auth(authorization.clone());
    }
    Ok(over(endpoint, config, tunnel))
}

/// Creates a transport that speaks TLS to the endpoint over this connector.
fn over<C>(endpoint: &Endpoint, config: rustls::ClientConfig, connector: C) -> Transport
where
    C: Service<http::Uri> + Clone + Send + Sync + 'static,
    C::Response: Connection + hyper::rt::Read + hyper::rt::Write + Send + Unpin + 'static,
    C::Future: Send + 'static,
    C::Error: Into<BoxError>,
{
    use tower::ServiceExt as _;
    let connector = hyper_rustls::HttpsConnectorBuilder::new()
        .with_tls_config(config)
        .https_only()
        .enable_http1()
        .wrap_connector(connector);
    let client: Client<_, Full<Bytes>> = Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(Duration::from_secs(60))
        .build(connector);
    let authority = endpoint.authority();
    let service = client.map_request(move |mut request: http::Request<Full<Bytes>>| {
        let path = request.uri().path_and_query().map_or("/", |p| p.as_str());
        if let Ok(uri) = format!("https://{authority}{path}").parse() {
            *request.uri_mut() = uri;
        }
        request
    });
    from_service(service)
}
