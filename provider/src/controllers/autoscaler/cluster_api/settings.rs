//! Settings of the backend.

use std::str::FromStr;

use super::super::group::Reserved;
use crate::{InputError, controllers::quantity::Quantity};

/// Settings of groups of Cluster API.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterApiSettings {
    /// Namespace of the groups; `None` for all namespaces.
    pub namespace: Option<String>,
    /// Name of the Cluster of the groups; `None` if the groups are all of one Cluster.
    pub cluster_name: Option<String>,
    /// Resources that the kubelets keep for the system.
    pub reserved: KubeletReservation,
}

/// Resources that each kubelet keeps for the system, such as `cpu=100m,memory=256Mi`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KubeletReservation(pub(super) Reserved);

impl FromStr for KubeletReservation {
    type Err = InputError;

    fn from_str(text: &str) -> Result<Self, InputError> {
        let mut reserved = Reserved::default();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let wrong = || {
                let err = InputError::invalid(part, "is not a reserved resource");
                err.remedy(
                    "write cpu, memory or ephemeral-storage with an amount: cpu=100m,memory=256Mi",
                )
            };
            let (name, amount) = part.split_once('=').ok_or_else(wrong)?;
            let place = match name {
                "cpu" => &mut reserved.cpu,
                "memory" => &mut reserved.memory,
                "ephemeral-storage" => &mut reserved.ephemeral_storage,
                _ => return Err(wrong()),
            };
            *place = amount.parse::<Quantity>().map_err(|err| err.at_key(name))?;
        }
        Ok(Self(reserved))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reservation_is_a_list_of_resources_and_amounts() {
        let read: KubeletReservation = "cpu=100m,memory=256Mi".parse().unwrap();
        assert_eq!(read.0.cpu, "100m".parse().unwrap());
        assert_eq!(read.0.memory, "256Mi".parse().unwrap());
        assert!(read.0.ephemeral_storage.is_zero());
        for (text, want) in [
            ("cpus=1", "\"cpus=1\" is not a reserved resource; write cpu, memory"),
            ("cpu", "\"cpu\" is not a reserved resource; write cpu, memory"),
            ("memory=1 GB", "memory: \"1 GB\" is not a quantity; write a number"),
        ] {
            let refused = text.parse::<KubeletReservation>().unwrap_err().to_string();
            assert!(refused.starts_with(want), "{refused}");
        }
    }
}
