//! A minimal SOAP client over TLS or plain HTTP, with the features that a list of machines needs.

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, header};
use http_body_util::{BodyExt as _, Full};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;

use crate::Error;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A SOAP call: the method, the object on which it is called (type and id), and its arguments as
/// XML.
pub(crate) struct Call<'a> {
    pub(crate) operation: &'static str,
    pub(crate) this: (&'static str, &'a str),
    pub(crate) arguments: &'a str,
}

/// A SOAP client that keeps the session cookie.
pub(crate) struct Soap {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    url: String,
    cookie: Option<header::HeaderValue>,
}

impl Soap {
    pub(crate) fn new(url: &str, ca_pem: &[u8]) -> Result<Self, Error> {
        let failed = |error: Failure| Error::Authority(error);
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(ca_pem) {
            let certificate = certificate.map_err(|error| failed(error.into()))?;
            roots.add(certificate).map_err(|error| failed(error.into()))?;
        }
        let tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| failed(error.into()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let connector = hyper_rustls::HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http1()
            .build();
        let client = Client::builder(TokioExecutor::new()).build(connector);
        Ok(Self { client, url: format!("{}/sdk", url.trim_end_matches('/')), cookie: None })
    }

    /// Drops the session cookie, so that the next call has no session.
    pub(crate) fn forget(&mut self) {
        self.cookie = None;
    }

    /// Sends a call with the session cookie, and returns status and body of the answer. Stores the
    /// cookie that the answer sets, if any. Fails if the connection breaks, or if the cookie or the
    /// body is not text.
    pub(crate) async fn send(&mut self, call: Call<'_>) -> Result<(u16, String), Failure> {
        let Call { operation, this: (kind, id), arguments } = call;
        let envelope = format!(
            r#"<?xml version="1.0" encoding="UTF-8"?>
<soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">
<soapenv:Body><{operation} xmlns="urn:vim25"><_this type="{kind}">{id}</_this>{arguments}</{operation}></soapenv:Body></soapenv:Envelope>"#
        );
        let mut request = Request::post(&self.url)
            .header(header::CONTENT_TYPE, "text/xml; charset=utf-8")
            .header(header::USER_AGENT, "inventory/0.0")
            .header("SOAPAction", "urn:vim25/8.0.3.0");
        if let Some(cookie) = &self.cookie {
            request = request.header(header::COOKIE, cookie);
        }
        let response = self.client.request(request.body(Full::new(envelope.into()))?).await?;
        let status = response.status().as_u16();
        if let Some(cookie) = response.headers().get(header::SET_COOKIE) {
            let pair = cookie.to_str()?.split(';').next().unwrap_or_default();
            self.cookie = Some(pair.parse()?);
        }
        let body = response.into_body().collect().await?.to_bytes();
        Ok((status, String::from_utf8(body.to_vec())?))
    }
}

/// Returns the class of the fault in the answer `body`: the first `xsi:type` in its `detail`, or
/// `(no class)` without one.
pub(crate) fn fault(body: &str) -> String {
    let class =
        element(body, "detail").and_then(|it| it.split("xsi:type=\"").nth(1)?.split('"').next());
    class.unwrap_or("(no class)").to_owned()
}

/// Returns the content of the first element with this name; `None` if the answer has none. Works
/// only for answers in which elements of this name are neither nested nor written as `<name/>`.
pub(crate) fn element<'a>(xml: &'a str, name: &'static str) -> Option<&'a str> {
    elements(xml, name).next()
}

/// Iterates over the contents of the elements with this name. Works only for answers in which
/// elements of this name are neither nested nor written as `<name/>`.
pub(crate) fn elements<'a>(xml: &'a str, name: &'static str) -> impl Iterator<Item = &'a str> {
    let (open, close) = (format!("<{name}"), format!("</{name}>"));
    let mut rest = xml;
    std::iter::from_fn(move || {
        loop {
            let tail = &rest[rest.find(&open)? + open.len()..];
            // Accepts `<name>` and `<name type="…">`, but not `<names>`.
            if !tail.starts_with(['>', ' ']) {
                rest = tail;
                continue;
            }
            let inside = &tail[tail.find('>')? + 1..];
            let end = inside.find(&close)?;
            rest = &inside[end..];
            return Some(&inside[..end]);
        }
    })
}

/// Escapes `&`, `<` and `>` for the text of an XML element.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_element_is_found_only_by_its_whole_name() {
        let xml = r#"<a><names>x</names><name type="T">one</name><name>two</name></a>"#;
        assert_eq!(elements(xml, "name").collect::<Vec<_>>(), ["one", "two"]);
        assert_eq!(element(xml, "nam"), None);
    }

    #[test]
    fn the_class_of_a_fault_is_the_type_of_its_detail() {
        let body = r#"<detail><InvalidLoginFault xmlns="urn:vim25" xsi:type="InvalidLogin"></InvalidLoginFault></detail>"#;
        assert_eq!(fault(body), "InvalidLogin");
    }
}
