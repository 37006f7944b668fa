//! Methods of the protocol of Cluster Autoscalers (`--cloud-provider=externalgrpc`).

use super::super::Class;

/// Methods of the protocol, with their kind of work.
pub(crate) const METHODS: [(&str, Class); 15] = [
    ("NodeGroups", Class::Read),
    ("NodeGroupForNode", Class::Read),
    ("PricingNodePrice", Class::Read),
    ("PricingPodPrice", Class::Read),
    ("GPULabel", Class::Read),
    ("GetAvailableGPUTypes", Class::Read),
    ("Cleanup", Class::Read),
    ("Refresh", Class::Read),
    ("NodeGroupTargetSize", Class::Read),
    ("NodeGroupIncreaseSize", Class::Write),
    ("NodeGroupDeleteNodes", Class::Write),
    ("NodeGroupDecreaseTargetSize", Class::Write),
    ("NodeGroupNodes", Class::Read),
    ("NodeGroupTemplateNodeInfo", Class::Read),
    ("NodeGroupGetOptions", Class::Read),
];
