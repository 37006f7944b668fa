//! The CustomResourceDefinition of NodeGroups: the file of the manifests, which is part of the
//! program, so that both cannot differ.

/// Definition of the kind NodeGroup, in YAML.
pub const NODE_GROUP_DEFINITION: &str =
    include_str!("../../../../../deploy/autoscaler-nodegroups.yaml");

#[cfg(test)]
mod tests;
