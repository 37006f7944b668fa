//! A client of the admin port.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;

use super::CliError;
use super::args::Admin;
use crate::admin::{Complaint, VERSION_HEADER};

/// Longest wait for an answer. A sim answers at once, but a large ledger takes a moment.
const PATIENCE: Duration = Duration::from_secs(30);

/// Content type of a request body. Rules may be YAML, which includes JSON; events are JSON.
fn content_type(path: &str) -> &'static str {
    if path == "/faults" { "application/yaml" } else { "application/json" }
}

/// Sends one request and returns the body of the answer.
///
/// # Errors
/// No connection, or an error answer of the admin port.
pub(super) fn call(
    admin: &Admin,
    method: Method,
    path: &str,
    body: Vec<u8>,
) -> Result<String, CliError> {
    let base = admin.admin.trim_end_matches('/');
    let mut request = http::Request::builder().method(method).uri(format!("{base}{path}"));
    if !body.is_empty() {
        request = request.header(header::CONTENT_TYPE, content_type(path));
    }
    if let Some(token) = &admin.admin_token {
        request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
    }
    let request = request.body(Full::new(Bytes::from(body))).map_err(|error| {
        CliError::input(
            format!("--admin {base}: {error}"),
            "write it as sim serve prints SIM_ADMIN: http://127.0.0.1:8900",
        )
    })?;
    let unreachable = |error: &dyn std::fmt::Display| {
        CliError::failed(
            format!("no sim answers at {base}: {error}"),
            "start one with sim serve, or say where it is: --admin URL or SIM_ADMIN",
        )
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| CliError::failed(format!("no runtime: {error}"), "try again"))?;
    let exchange = async {
        let client = Client::builder(TokioExecutor::new()).build_http();
        let response = client.request(request).await.map_err(|error| {
            // The client's own message says less than its cause.
            let cause = std::error::Error::source(&error);
            match cause {
                Some(cause) => unreachable(&cause),
                None => unreachable(&error),
            }
        })?;
        let status = response.status();
        if !response.headers().contains_key(VERSION_HEADER) {
            return Err(CliError::failed(
                format!(
                    "what answers at {base} is no sim: it says {status}, and no {VERSION_HEADER}"
                ),
                "say where the admin port of a sim is: --admin URL or SIM_ADMIN, as sim serve prints it",
            ));
        }
        let body = response.into_body().collect().await.map_err(|error| unreachable(&error))?;
        Ok::<_, CliError>((status, body.to_bytes()))
    };
    let (status, body) = runtime.block_on(async {
        let answer = tokio::time::timeout(PATIENCE, exchange).await;
        answer.unwrap_or_else(|_| Err(unreachable(&"it is silent")))
    })?;
    let text = String::from_utf8_lossy(&body).into_owned();
    if status.is_success() {
        return Ok(text);
    }
    let (error, remedy) = match serde_json::from_str::<Complaint>(&text) {
        // The admin port names its paths in the remedy; the command line has commands instead.
        Ok(Complaint { error, remedy, .. }) => {
            (error, remedy.replace("GET /world", "sim world list"))
        }
        Err(_) => (format!("{base} answers {status}: {text}"), "is that a sim?".to_owned()),
    };
    Err(match status {
        // The named object does not exist, or the input is not valid.
        StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND => CliError::input(error, remedy),
        _ => CliError::failed(error, remedy),
    })
}
