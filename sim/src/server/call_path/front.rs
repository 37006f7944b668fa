//! Front of a server: a vCenter with its front ends SOAP and vAPI, an API server, or the calls of
//! Cluster Autoscalers that the sim forwards.

use bytes::Bytes;
use http::StatusCode;
use http::request::Parts;

use sim_world::vcenter::Service;
use sim_world::{ControlPlane, World};

use super::inbox::{BodyError, BodyReader, Limit};
use crate::call::{Call, Caller, Class, Face, Incoming, RequestNote, Target};
use crate::cluster::{ClusterFace, ParsedRequest};
use crate::faults::{ClusterAnswer, Effects, GrpcStatus};
use crate::server::autoscaler::AutoscalerFace;
use crate::vcenter::soap::{self, SoapFace, SoapRequest};
use crate::vcenter::vapi::{VapiFace, VapiRequest};
use crate::{Reply, WorldHandle};
use kube_sim_api::MAX_BODY_BYTES;

/// Largest body that a vCenter reads from a client that is logged in: 32 MiB, twice the size of a
/// request for a ListView of 100,000 machines.
const MAX_BODY: usize = 32 << 20;

/// Largest body that a vCenter reads from a client that is not logged in: 1 MiB.
const MAX_ANONYMOUS: usize = 1 << 20;

/// Largest request of a Cluster Autoscaler: 4 MiB, the limit of servers in Go.
const MAX_AUTOSCALER: usize = 4 << 20;

/// A server of the sim, which parses, classifies and answers requests.
#[derive(Debug)]
pub(crate) enum Front {
    /// A vCenter: `/sdk`, `/rest`, `/api`.
    VCenter { name: String, soap: Box<SoapFace>, vapi: VapiFace },
    /// The API server of the workload cluster or of the Supervisor.
    Cluster(ClusterFace),
    /// The server of Cluster Autoscalers behind the sim.
    Autoscaler(AutoscalerFace),
}

/// A parsed request to any front end.
pub(super) enum FrontRequest {
    Autoscaler(http::Request<Bytes>),
    Soap(SoapRequest),
    Vapi(VapiRequest),
    Cluster(ParsedRequest),
    /// A path that no front end serves.
    Nothing,
}

impl Front {
    pub(crate) fn vcenter(world: &WorldHandle, name: &str, secure: bool) -> Self {
        Self::VCenter {
            name: name.to_owned(),
            soap: Box::new(SoapFace::new(world.clone(), name, secure)),
            vapi: VapiFace::new(world.clone(), name, secure),
        }
    }

    /// Control plane of the API server; the workload cluster's for other servers.
    pub(super) fn plane(&self) -> ControlPlane {
        match self {
            Self::Cluster(api) => api.plane(),
            Self::VCenter { .. } | Self::Autoscaler(_) => ControlPlane::Workload,
        }
    }

    /// True if the server is a vCenter whose service is stopped.
    pub(crate) fn is_down(&self, world: &World) -> bool {
        match self {
            Self::VCenter { name, .. } => {
                world.vcenter(name).is_some_and(|vc| vc.service == Service::Stopped)
            }
            Self::Cluster(_) | Self::Autoscaler(_) => false,
        }
    }

    /// Reads the body of a request whose head is `parts`, within the limits of `inbox`.
    ///
    /// An API server cuts a body that is too large instead of refusing it. Its handler can then
    /// answer requests that need no body, or that it refuses for another reason.
    pub(super) async fn read<B>(
        &self,
        inbox: &BodyReader,
        world: &WorldHandle,
        parts: &Parts,
        body: B,
    ) -> Result<Bytes, BodyError>
    where
        B: http_body::Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (open, known, cuts) = match self {
            Self::VCenter { .. } => (MAX_ANONYMOUS, MAX_BODY, false),
            Self::Cluster(_) => (MAX_BODY_BYTES, MAX_BODY_BYTES, true),
            Self::Autoscaler(_) => (MAX_AUTOSCALER, MAX_AUTOSCALER, false),
        };
        let is_known = || match self {
            Self::VCenter { soap, vapi, .. } => {
                let world = world.lock();
                soap.is_logged_in(&world, &parts.headers)
                    || vapi.is_logged_in(&world, &parts.headers)
            }
            Self::Cluster(_) | Self::Autoscaler(_) => false,
        };
        inbox.read(body, Limit { open, known, is_known, cuts }).await
    }

    /// Answer to a request whose body cannot be read: 413, 408, 503 or 400 as plain text. An API
    /// server answers a broken body with a `Status`.
    pub(super) fn unread(&self, unread: &BodyError) -> Reply {
        let (status, fault) = match unread {
            BodyError::TooLarge(_) => (StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge"),
            BodyError::TooSlow => (StatusCode::REQUEST_TIMEOUT, "RequestTimeout"),
            BodyError::Crowded => (StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable"),
            BodyError::Broken(why) => match self {
                Self::Cluster(_) => return ClusterFace::unreadable(why),
                Self::VCenter { .. } | Self::Autoscaler(_) => {
                    (StatusCode::BAD_REQUEST, "BadRequest")
                }
            },
        };
        Reply::new(status, "text/plain", format!("{}\n", unread.why())).with_fault(fault)
    }

    /// Parses a request before the caller locks the world. Also classifies a request to an API
    /// server, because this classification locks the world itself. The call is `None` for a request
    /// to a vCenter.
    pub(super) fn parse(&self, incoming: &Incoming) -> (FrontRequest, Option<Call>) {
        match self {
            Self::Cluster(api) => {
                let (call, request) = api.classify(incoming);
                (FrontRequest::Cluster(request), Some(call))
            }
            Self::Autoscaler(face) => {
                let request =
                    http::Request::from_parts(incoming.parts.clone(), incoming.body.clone());
                (FrontRequest::Autoscaler(request), Some(face.classify(incoming)))
            }
            Self::VCenter { .. } => {
                let path = incoming.parts.uri.path();
                match path.split('/').nth(1).unwrap_or_default() {
                    "sdk" => (FrontRequest::Soap(SoapFace::parse(incoming)), None),
                    "rest" | "api" => (FrontRequest::Vapi(VapiFace::parse(incoming)), None),
                    _ => (FrontRequest::Nothing, None),
                }
            }
        }
    }

    /// Classifies a request to a vCenter: operation, target and caller.
    pub(super) fn classify(
        &self,
        world: &World,
        incoming: &Incoming,
        parsed: &FrontRequest,
    ) -> Call {
        match (self, parsed) {
            (Self::VCenter { soap, .. }, FrontRequest::Soap(parsed)) => {
                soap.classify(world, incoming, parsed)
            }
            (Self::VCenter { vapi, .. }, FrontRequest::Vapi(parsed)) => {
                vapi.classify(world, incoming, parsed)
            }
            (Self::VCenter { name, .. }, _) => unknown(name, incoming),
            (Self::Cluster(api), _) => api.classify(incoming).0,
            (Self::Autoscaler(face), _) => face.classify(incoming),
        }
    }

    pub(super) async fn handle(
        &self,
        world: &WorldHandle,
        call: &Call,
        parsed: FrontRequest,
        effects: &Effects,
    ) -> Reply {
        match (self, parsed) {
            (Self::Cluster(api), FrontRequest::Cluster(request)) => {
                api.handle(call, request, effects).await
            }
            (Self::VCenter { soap, .. }, FrontRequest::Soap(parsed)) => {
                soap.handle(parsed, effects).await
            }
            (Self::VCenter { name, vapi, .. }, parsed) => {
                if let Some(reply) = soap::refused(&world.lock(), name) {
                    return reply;
                }
                match parsed {
                    FrontRequest::Vapi(parsed) => vapi.handle(parsed, effects),
                    _ => nothing(),
                }
            }
            (Self::Autoscaler(face), FrontRequest::Autoscaler(request)) => {
                face.handle(call, request).await
            }
            (Self::Cluster(_) | Self::Autoscaler(_), _) => nothing(),
        }
    }

    /// Answer with the vim25 fault `class`. Front ends other than SOAP answer with status 500 in
    /// their own format.
    pub(super) fn soap_fault(
        &self,
        call: &Call,
        incoming: &Incoming,
        class: &str,
        message: Option<&str>,
    ) -> Reply {
        match call.face {
            Face::Soap => SoapFace::fault(class, message),
            Face::Autoscaler => AutoscalerFace::internal(message.unwrap_or(class)),
            Face::Vapi | Face::Cluster | Face::Supervisor => {
                self.status(call, incoming, StatusCode::INTERNAL_SERVER_ERROR, message, None)
            }
        }
    }

    /// Answer with a gRPC status that a rule forces. Other servers than that of Cluster Autoscalers
    /// answer with status 500 in their own format.
    pub(super) fn grpc_status(
        &self,
        call: &Call,
        incoming: &Incoming,
        status: &GrpcStatus,
    ) -> Reply {
        match self {
            Self::Autoscaler(_) => AutoscalerFace::grpc_status(status),
            Self::VCenter { .. } | Self::Cluster(_) => {
                let (code, text) = (StatusCode::INTERNAL_SERVER_ERROR, status.message.as_deref());
                self.status(call, incoming, code, text, None)
            }
        }
    }

    /// Answer that a rule for API servers forces. Other servers answer with the status code of
    /// `answer` in their own format.
    pub(super) fn cluster_answer(
        &self,
        call: &Call,
        incoming: &Incoming,
        answer: &ClusterAnswer,
    ) -> Reply {
        match self {
            Self::Cluster(api) => api.forced_answer(call, incoming.parts.uri.path(), answer),
            Self::VCenter { .. } | Self::Autoscaler(_) => {
                let code = StatusCode::from_u16(answer.code());
                let code = code.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
                self.status(call, incoming, code, None, None)
            }
        }
    }

    /// Answer with the HTTP status `status` that a rule forces, in the format of the front end.
    /// Only an API server writes `retry_after` (seconds) into its answer.
    pub(super) fn status(
        &self,
        call: &Call,
        incoming: &Incoming,
        status: StatusCode,
        message: Option<&str>,
        retry_after: Option<u32>,
    ) -> Reply {
        match (self, call.face) {
            (Self::Cluster(api), _) => api.failure(call, status.as_u16(), message, retry_after),
            (Self::Autoscaler(_), _) => AutoscalerFace::http_status(status, message),
            (_, Face::Vapi) => {
                VapiFace::status(incoming.parts.uri.path().starts_with("/api"), status, message)
            }
            _ => SoapFace::status(status, message),
        }
    }
}

fn unknown(server: &str, incoming: &Incoming) -> Call {
    let detail = format!("{} {}", incoming.parts.method, incoming.parts.uri.path());
    Call {
        face: Face::Soap,
        server: server.to_owned(),
        operation: "unknown".to_owned(),
        class: Class::Read,
        target: Target::default(),
        caller: Caller {
            client: soap::label(incoming, None),
            user_agent: soap::text(&incoming.parts.headers, http::header::USER_AGENT),
            user: None,
        },
        session: None,
        request: RequestNote { bytes: incoming.body.len() as u64, detail },
    }
}

fn nothing() -> Reply {
    Reply::new(StatusCode::NOT_FOUND, "text/plain", "404 page not found\n").with_fault("NotFound")
}
