//! Tests of the production transport against a real TLS listener: it accepts trusted certificates
//! and refuses all others.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::TokioIo;
use provider::{Endpoint, TlsTrust, https};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use sha2::Digest as _;
use tower::ServiceExt as _;

struct Server {
    endpoint: Endpoint,
    pem: Vec<u8>,
    sha256: String,
    requests: Arc<AtomicUsize>,
}

/// Starts a server whose certificate is for `name`; it counts requests.
async fn serve(name: &str) -> Server {
    let made = rcgen::generate_simple_self_signed(vec![name.to_owned()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let requests = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&requests);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(stream) = acceptor.accept(stream).await else { continue };
            let counter = Arc::clone(&counter);
            let service = hyper::service::service_fn(move |request: Request<_>| {
                let _: &hyper::body::Incoming = request.body();
                counter.fetch_add(1, Ordering::Relaxed);
                async { Ok::<_, Infallible>(Response::new(Full::new(Bytes::from("hello")))) }
            });
            let connection = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service);
            tokio::spawn(connection);
        }
    });
    let digest = sha2::Sha256::digest(made.cert.der());
    Server {
        endpoint: Endpoint { name: "vc".into(), host: "127.0.0.1".to_owned(), port },
        pem: made.cert.pem().into_bytes(),
        sha256: digest.iter().map(|byte| format!("{byte:02X}:")).collect(),
        requests,
    }
}

async fn get(server: &Server, trust: &TlsTrust) -> Result<String, String> {
    let transport = https(&server.endpoint, trust).map_err(|err| err.to_string())?;
    let request = Request::post("/sdk").body(Full::new(Bytes::from("secret"))).unwrap();
    let response = transport.oneshot(request).await.map_err(|err| err.to_string())?;
    let body = response.into_body().collect().await.unwrap().to_bytes();
    Ok(String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn an_untrusted_server_gets_no_request() {
    let known = serve("127.0.0.1").await;
    let misnamed = serve("elsewhere.example").await;
    let wrong = "AB:".repeat(32);
    let trust = |pem: &[u8], thumbprint: Option<&str>, insecure| TlsTrust {
        roots_pem: pem.to_vec(),
        thumbprint: thumbprint.map(str::to_owned),
        insecure,
    };
    for (name, server, trust, is_trusted) in [
        ("its root", &known, trust(&known.pem, None, false), true),
        ("another root", &known, trust(&misnamed.pem, None, false), false),
        (
            "another root and its thumbprint",
            &known,
            trust(&misnamed.pem, Some(&known.sha256), false),
            true,
        ),
        (
            "another name and its thumbprint",
            &misnamed,
            trust(&[], Some(&misnamed.sha256), false),
            true,
        ),
        ("another name", &misnamed, trust(&misnamed.pem, None, false), false),
        ("another thumbprint", &known, trust(&[], Some(&wrong), false), false),
        ("insecure", &misnamed, trust(&[], None, true), true),
    ] {
        let before = server.requests.load(Ordering::Relaxed);
        let answer = get(server, &trust).await;
        assert_eq!(answer.is_ok(), is_trusted, "{name}: {answer:?}");
        let n_requests = server.requests.load(Ordering::Relaxed) - before;
        assert_eq!(n_requests, usize::from(is_trusted), "{name}: number of requests");
    }
}
