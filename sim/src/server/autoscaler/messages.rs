//! The parts of the protocol's messages that the ledger shows: groups, sizes and instances.
//!
//! The types have only these fields. The decoder skips all others.

use std::collections::BTreeMap;

use bytes::Bytes;
use prost::Message;

/// Most nodes of a request whose IDs the ledger has.
const MOST: usize = 10;

#[derive(Clone, PartialEq, Message)]
struct Node {
    #[prost(string, tag = "1")]
    provider_id: String,
    #[prost(string, tag = "2")]
    name: String,
}

/// Request about the group with this ID.
#[derive(Clone, PartialEq, Message)]
struct OfGroup {
    #[prost(string, tag = "1")]
    id: String,
}

/// Request that changes the size of a group.
#[derive(Clone, PartialEq, Message)]
struct Resize {
    #[prost(int32, tag = "1")]
    delta: i32,
    #[prost(string, tag = "2")]
    id: String,
}

#[derive(Clone, PartialEq, Message)]
struct DeleteNodes {
    #[prost(message, repeated, tag = "1")]
    nodes: Vec<Node>,
    #[prost(string, tag = "2")]
    id: String,
}

/// Request about a node.
#[derive(Clone, PartialEq, Message)]
struct OfNode {
    #[prost(message, optional, tag = "1")]
    node: Option<Node>,
}

#[derive(Clone, PartialEq, Message)]
struct Group {
    #[prost(string, tag = "1")]
    id: String,
    #[prost(int32, tag = "2")]
    min: i32,
    #[prost(int32, tag = "3")]
    max: i32,
}

#[derive(Clone, PartialEq, Message)]
struct Groups {
    #[prost(message, repeated, tag = "1")]
    groups: Vec<Group>,
}

#[derive(Clone, PartialEq, Message)]
struct OneGroup {
    #[prost(message, optional, tag = "1")]
    group: Option<Group>,
}

#[derive(Clone, PartialEq, Message)]
struct TargetSize {
    #[prost(int32, tag = "1")]
    size: i32,
}

#[derive(Clone, PartialEq, Message)]
struct Label {
    #[prost(string, tag = "1")]
    label: String,
}

#[derive(Clone, PartialEq, Message)]
struct InstanceError {
    #[prost(string, tag = "1")]
    code: String,
}

#[derive(Clone, PartialEq, Message)]
struct InstanceStatus {
    #[prost(int32, tag = "1")]
    state: i32,
    #[prost(message, optional, tag = "2")]
    error: Option<InstanceError>,
}

#[derive(Clone, PartialEq, Message)]
struct Instance {
    #[prost(string, tag = "1")]
    id: String,
    #[prost(message, optional, tag = "2")]
    status: Option<InstanceStatus>,
}

#[derive(Clone, PartialEq, Message)]
struct Instances {
    #[prost(message, repeated, tag = "1")]
    instances: Vec<Instance>,
}

/// Description of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Request {
    /// ID of the group, if the request names one.
    pub(super) group: Option<String>,
    pub(super) detail: String,
}

/// Description of an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Answer {
    /// Number of groups or instances.
    pub(super) objects: u64,
    pub(super) text: String,
}

/// Describes the request of a method; `None` if it cannot be decoded.
pub(super) fn request(method: &str, message: Bytes) -> Option<Request> {
    let of = |id: String, detail: String| Request { group: Some(id), detail };
    Some(match method {
        "NodeGroupIncreaseSize" | "NodeGroupDecreaseTargetSize" => {
            let Resize { delta, id } = Resize::decode(message).ok()?;
            of(id, format!("delta={delta}"))
        }
        "NodeGroupDeleteNodes" => {
            let DeleteNodes { nodes, id } = DeleteNodes::decode(message).ok()?;
            let mut names: Vec<&str> = nodes.iter().take(MOST).map(Node::shown).collect();
            if nodes.len() > MOST {
                names.push("…");
            }
            of(id, format!("{} nodes: {}", nodes.len(), names.join(", ")))
        }
        "NodeGroupTargetSize"
        | "NodeGroupNodes"
        | "NodeGroupTemplateNodeInfo"
        | "NodeGroupGetOptions" => of(OfGroup::decode(message).ok()?.id, String::new()),
        "NodeGroupForNode" | "PricingNodePrice" => {
            let node = OfNode::decode(message).ok()?.node.unwrap_or_default();
            Request { group: None, detail: format!("node {}", node.shown()) }
        }
        _ => Request::default(),
    })
}

impl Node {
    /// The provider ID, or the name of a node without one.
    fn shown(&self) -> &str {
        if self.provider_id.is_empty() { &self.name } else { &self.provider_id }
    }
}

/// Describes the answer of a method; `None` if it cannot be decoded.
pub(super) fn answer(method: &str, message: Bytes) -> Option<Answer> {
    let text = |text: String| Answer { objects: 0, text };
    Some(match method {
        "NodeGroups" => {
            let groups = Groups::decode(message).ok()?.groups;
            Answer { objects: groups.len() as u64, text: format!("{} groups", groups.len()) }
        }
        "NodeGroupForNode" => {
            let group = OneGroup::decode(message).ok()?.group.unwrap_or_default();
            let is_none = group.id.is_empty();
            text(if is_none { "no group".to_owned() } else { format!("group {}", group.id) })
        }
        "NodeGroupTargetSize" => text(format!("size={}", TargetSize::decode(message).ok()?.size)),
        "NodeGroupNodes" => instances(&Instances::decode(message).ok()?.instances),
        "GPULabel" => text(format!("label={:?}", Label::decode(message).ok()?.label)),
        "NodeGroupTemplateNodeInfo" => text(format!("{} bytes", message.len())),
        _ => Answer::default(),
    })
}

/// Counts the instances by state: `3 instances: 1 creating, 2 running`.
fn instances(all: &[Instance]) -> Answer {
    let mut by_state = BTreeMap::<&str, usize>::new();
    for status in all.iter().map(|it| it.status.clone().unwrap_or_default()) {
        let state = match (status.state, status.error) {
            (_, Some(_)) => "failed",
            (1, _) => "running",
            (2, _) => "creating",
            (3, _) => "deleting",
            _ => "without state",
        };
        *by_state.entry(state).or_default() += 1;
    }
    let states: Vec<String> = by_state.iter().map(|(state, n)| format!("{n} {state}")).collect();
    let text = match all.len() {
        0 => "0 instances".to_owned(),
        n => format!("{n} instances: {}", states.join(", ")),
    };
    Answer { objects: all.len() as u64, text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(id: &str, name: &str) -> Node {
        Node { provider_id: id.to_owned(), name: name.to_owned() }
    }

    #[test]
    fn requests_name_the_group_and_what_is_asked_for() {
        let shown = |method: &str, message: Vec<u8>| {
            let request = request(method, message.into()).unwrap();
            (request.group.unwrap_or_default(), request.detail)
        };
        let resize = Resize { delta: -2, id: "g".to_owned() };
        let wanted = ("g".to_owned(), "delta=-2".to_owned());
        assert_eq!(shown("NodeGroupDecreaseTargetSize", resize.encode_to_vec()), wanted);
        let nodes = vec![node("vsphere://a", "a"), node("", "b")];
        let delete = DeleteNodes { nodes, id: "g".to_owned() };
        let wanted = ("g".to_owned(), "2 nodes: vsphere://a, b".to_owned());
        assert_eq!(shown("NodeGroupDeleteNodes", delete.encode_to_vec()), wanted);
        let nodes = vec![node("", "n"); MOST + 1];
        let delete = DeleteNodes { nodes, id: "g".to_owned() }.encode_to_vec();
        assert!(shown("NodeGroupDeleteNodes", delete).1.starts_with("11 nodes: n, n"));
        let of = OfNode { node: Some(node("vsphere://a", "a")) }.encode_to_vec();
        assert_eq!(shown("NodeGroupForNode", of), (String::new(), "node vsphere://a".to_owned()));
        assert_eq!(shown("Refresh", Vec::new()), Default::default());
        assert_eq!(request("NodeGroupNodes", Bytes::from_static(&[0xff])), None);
    }

    #[test]
    fn answers_count_groups_and_instances() {
        let shown = |method: &str, message: Vec<u8>| {
            let answer = answer(method, message.into()).unwrap();
            (answer.objects, answer.text)
        };
        let instance = |state, failed: bool| {
            let error = failed.then(|| InstanceError { code: "X".to_owned() });
            let status = Some(InstanceStatus { state, error });
            Instance { id: "i".to_owned(), status }
        };
        let all =
            vec![instance(1, false), instance(2, true), instance(1, false), instance(3, false)];
        let wanted = (4, "4 instances: 1 deleting, 1 failed, 2 running".to_owned());
        assert_eq!(shown("NodeGroupNodes", Instances { instances: all }.encode_to_vec()), wanted);
        assert_eq!(shown("NodeGroupNodes", Vec::new()), (0, "0 instances".to_owned()));
        let group = Group { id: "g".to_owned(), min: 0, max: 3 };
        let groups = Groups { groups: vec![group.clone()] };
        assert_eq!(shown("NodeGroups", groups.encode_to_vec()), (1, "1 groups".to_owned()));
        let one = OneGroup { group: Some(group) };
        assert_eq!(shown("NodeGroupForNode", one.encode_to_vec()).1, "group g");
        assert_eq!(shown("NodeGroupForNode", Vec::new()).1, "no group");
        assert_eq!(
            shown("NodeGroupTargetSize", TargetSize { size: 7 }.encode_to_vec()).1,
            "size=7"
        );
    }
}
