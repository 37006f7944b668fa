//! A simple client of a vCenter: SOAP and REST over a tower service.

use bytes::Bytes;
use http::{Method, Request, header};
use http_body_util::{BodyExt, Full};
use sim::world::{ADMINISTRATOR, Nodes, Topology};
use sim::{Service, Sim};
use tower::ServiceExt;

use crate::xml::Node;

pub(crate) const COLLECTOR: (&str, &str) = ("PropertyCollector", "propertyCollector");
pub(crate) const VIEWS: (&str, &str) = ("ViewManager", "ViewManager");
pub(crate) const SEARCH: (&str, &str) = ("SearchIndex", "SearchIndex");
pub(crate) const SESSIONS: (&str, &str) = ("SessionManager", "SessionManager");

/// Starts a sim with three zones and `n` machines without kubelets and Nodes.
pub(crate) fn machines(n: u32) -> Sim {
    Sim::builder().topology(Topology::zones(3).machines(n).nodes(Nodes::Count(0))).start()
}

/// Starts a sim with three zones and `n` machines, and logs a client in.
pub(crate) async fn lab(n: u32) -> (Sim, Client) {
    let sim = machines(n);
    let client = Client::logged_in(&sim).await;
    (sim, client)
}

/// An HTTP answer of a vCenter.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: http::HeaderMap,
    pub(crate) body: String,
}

impl Answer {
    /// The element in the body of a SOAP answer: `…Response` or `soapenv:Fault`. Panics if the
    /// answer is not a SOAP envelope with one such element.
    pub(crate) fn payload(&self) -> Node {
        let envelope = Node::parse(&self.body)
            .unwrap_or_else(|error| panic!("the answer is not XML, {error}: {}", self.body));
        assert_eq!(envelope.name, "soapenv:Envelope", "{}", self.body);
        let body = envelope.child("soapenv:Body").expect("an envelope has a body");
        assert_eq!(body.children.len(), 1, "{}", self.body);
        body.children[0].clone()
    }

    /// The class of the fault; `None` if the answer is not a fault. Panics if the status is not 500
    /// for a fault and 200 otherwise.
    pub(crate) fn fault(&self) -> Option<String> {
        let payload = self.payload();
        if payload.name != "soapenv:Fault" {
            assert_eq!(self.status, 200, "{}", self.body);
            return None;
        }
        assert_eq!(self.status, 500, "{}", self.body);
        assert!(
            !payload.text_of("faultstring").is_empty(),
            "the fault has an empty faultstring: {}",
            self.body
        );
        let detail = &payload.child("detail").expect("a fault has a detail").children[0];
        Some(detail.attribute("xsi:type").expect("a fault has a class").to_owned())
    }

    /// The payload of the answer. Panics if the answer is a fault.
    pub(crate) fn ok(&self) -> Node {
        assert_eq!(self.fault(), None, "{}", self.body);
        self.payload()
    }

    /// The element `returnval`, if any. Panics if the answer is a fault.
    pub(crate) fn returned(&self) -> Option<Node> {
        self.ok().child("returnval").cloned()
    }

    /// The type and id of the returned reference. Panics if the answer has none.
    pub(crate) fn reference(&self) -> (String, String) {
        let returned = self.returned().unwrap_or_else(|| panic!("no returnval: {}", self.body));
        (returned.attribute("type").expect("a reference has a type").to_owned(), returned.text)
    }

    pub(crate) fn header(&self, name: header::HeaderName) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}

/// A client of a vCenter with its session cookie. A clone uses the same session until one of the
/// two gets another cookie.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) service: Service,
    pub(crate) cookie: Option<String>,
}

impl Client {
    /// Creates a client of `vc0` without a session.
    pub(crate) fn new(sim: &Sim) -> Self {
        Self { service: sim.vcenter("vc0").expect("the world has vc0").service(""), cookie: None }
    }

    /// Creates a client of `vc0` and logs it in as the administrator.
    pub(crate) async fn logged_in(sim: &Sim) -> Self {
        let mut client = Self::new(sim);
        client.login(sim).await;
        client
    }

    pub(crate) async fn login(&mut self, sim: &Sim) {
        let password =
            sim.password("vc0", ADMINISTRATOR).expect("the administrator has an account");
        let arguments = format!(
            "<userName>{ADMINISTRATOR}</userName><password>{}</password>",
            password.expose().replace('&', "&amp;").replace('<', "&lt;")
        );
        self.call("Login", SESSIONS, &arguments).await.ok();
    }

    /// Sends a request, and stores the session cookie of the answer.
    pub(crate) async fn send(&mut self, request: Request<Full<Bytes>>) -> Answer {
        let response = self.service.clone().oneshot(request).await.expect("an answer");
        let (parts, body) = response.into_parts();
        let body = body.collect().await.expect("the body is complete").to_bytes();
        let body = String::from_utf8(body.to_vec()).expect("text");
        let answer = Answer { status: parts.status.as_u16(), headers: parts.headers, body };
        let cookie = answer.header(header::SET_COOKIE);
        if let Some(pair) = cookie.split(';').next().filter(|it| it.starts_with("vmware_soap")) {
            self.cookie = Some(pair.to_owned());
        }
        answer
    }

    /// Sends a SOAP envelope.
    pub(crate) async fn post(&mut self, envelope: impl Into<Bytes>) -> Answer {
        let mut request = Request::builder()
            .method(Method::POST)
            .uri("/sdk")
            .header(header::CONTENT_TYPE, "text/xml; charset=utf-8")
            .header("SOAPAction", "urn:vim25/8.0.3.0");
        if let Some(cookie) = &self.cookie {
            request = request.header(header::COOKIE, cookie);
        }
        self.send(request.body(Full::new(envelope.into())).expect("the request is valid")).await
    }

    /// Calls a SOAP operation on the object `this`, given as type and id.
    pub(crate) async fn call(
        &mut self,
        operation: &str,
        this: (&str, &str),
        arguments: &str,
    ) -> Answer {
        self.post(envelope(operation, this, arguments)).await
    }

    /// Sends a REST request.
    pub(crate) async fn rest(
        &mut self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.send(request.body(Full::from(body.to_owned())).expect("the request is valid")).await
    }

    /// The id of the machine with this name in the folder `DC0/vm`.
    pub(crate) async fn machine(&mut self, name: &str) -> String {
        let path = format!("<inventoryPath>DC0/vm/{name}</inventoryPath>");
        self.call("FindByInventoryPath", SEARCH, &path).await.reference().1
    }

    /// Reads a property of an object; `None` if it is not set.
    pub(crate) async fn fetch(&mut self, this: (&str, &str), path: &str) -> Option<Node> {
        self.call("Fetch", this, &format!("<prop>{path}</prop>")).await.returned()
    }
}

/// Builds a SOAP envelope for a call, in the style of simple clients.
pub(crate) fn envelope(operation: &str, (kind, id): (&str, &str), arguments: &str) -> String {
    format!(
        "<soapenv:Envelope xmlns:soapenv=\"http://schemas.xmlsoap.org/soap/envelope/\" \
         xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\"><soapenv:Body>\
         <{operation} xmlns=\"urn:vim25\"><_this type=\"{kind}\">{id}</_this>{arguments}\
         </{operation}></soapenv:Body></soapenv:Envelope>"
    )
}

/// Builds a `<propSet>` that selects properties of a type.
pub(crate) fn props(kind: &str, paths: &[&str]) -> String {
    let paths: String = paths.iter().map(|path| format!("<pathSet>{path}</pathSet>")).collect();
    format!("<propSet><type>{kind}</type>{paths}</propSet>")
}

/// Builds an `<objectSet>` that selects one object.
pub(crate) fn object(kind: &str, id: &str) -> String {
    format!("<objectSet><obj type=\"{kind}\">{id}</obj></objectSet>")
}

/// Builds an `<objectSet>` that selects the members of a view.
pub(crate) fn members(kind: &str, view: &str) -> String {
    format!(
        "<objectSet><obj type=\"{kind}\">{view}</obj><skip>true</skip>\
         <selectSet xsi:type=\"TraversalSpec\"><type>{kind}</type><path>view</path>\
         <skip>false</skip></selectSet></objectSet>"
    )
}
