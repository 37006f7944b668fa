//! The server side of the Cluster Autoscaler's protocol `externalgrpc`.
//!
//! The autoscaler embeds Kubernetes types in three ways, called generations: G1 (releases 1.25 to
//! 1.34.1) sends messages of Kubernetes, G3 (1.35 and later) sends bytes and Google's well-known
//! types, and G2 (1.34.2 and later) sends both. The messages here are read from all of them, and
//! the constructors of this crate fill the fields for all of them.
//!
//! | item | content |
//! | --- | --- |
//! | [`protocol`] | messages and service, generated from `proto/externalgrpc.proto` |
//! | [`kubernetes`] | the messages of Kubernetes that the protocol embeds |
//! | [`Options`] | settings of a group, read from and written for any generation |
//! | [`template`] | the answer about the Node that a new instance would become |

pub mod kubernetes;
mod options;

pub use options::Options;

/// Messages and service, generated from `proto/externalgrpc.proto`.
#[expect(missing_docs, reason = "the definition explains what is not obvious")]
#[allow(clippy::all, clippy::pedantic, clippy::nursery, clippy::restriction, reason = "generated")]
#[rustfmt::skip]
#[path = "generated.rs"]
pub mod protocol;

/// Name of the service.
pub const SERVICE: &str = "clusterautoscaler.cloudprovider.v1.externalgrpc.CloudProvider";

/// The definition in the form that gRPC reflection serves: a serialized `FileDescriptorSet`.
pub const DESCRIPTOR: &[u8] = include_bytes!("descriptor.bin");

/// Returns the answer with this Node, which must not be empty.
///
/// Both fields contain the Node, because autoscalers of G1 read only the old field, and crash if it
/// is absent.
pub fn template(node: &kubernetes::Node) -> protocol::NodeGroupTemplateNodeInfoResponse {
    let bytes = prost::Message::encode_to_vec(node);
    protocol::NodeGroupTemplateNodeInfoResponse { node_info: bytes.clone(), node_bytes: bytes }
}
