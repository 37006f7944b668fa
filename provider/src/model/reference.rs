//! Reference of a node's machine, which the provider notes on the Node as an annotation and reads
//! after a restart.
//!
//! A search that finds nothing cannot distinguish a machine that is gone from one whose storage is
//! lost or that this login may not see. A read of the reference can: the server answers "no such
//! object" only if the machine is gone, or is registered again under another reference. A search by
//! UUID rules out the latter.

use std::{fmt, str::FromStr};

use uuid::Uuid;

use super::parse_uuid;

/// The annotation on a Node whose value is a [`MachineReference`]. Only this provider writes and
/// reads it.
pub const MACHINE_ANNOTATION: &str = "vsphere.cloud-provider/machine";

/// The annotation with which a person confirms that a node's machine is gone. It counts only if its
/// value is the node's provider ID, so that an annotation from a template cannot confirm anything
/// about another node.
pub const MACHINE_GONE_ANNOTATION: &str = "vsphere.cloud-provider/machine-gone";

/// A machine's managed object id, and the vCenter in which it is valid: `<instance UUID>/<id>`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MachineReference {
    /// Instance UUID of the vCenter.
    pub vcenter: Uuid,
    /// Managed object id, for example `vm-17`.
    pub machine: String,
}

/// Error for a text that is not a [`MachineReference`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the reference is not of the form <vCenter instance UUID>/<managed object id>")]
pub struct ParseReferenceError;

impl FromStr for MachineReference {
    type Err = ParseReferenceError;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        let (vcenter, machine) = s.trim().split_once('/').ok_or(ParseReferenceError)?;
        let is_id = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
        if machine.is_empty() || machine.len() > 80 || !machine.bytes().all(is_id) {
            return Err(ParseReferenceError);
        }
        let vcenter = parse_uuid(vcenter).ok_or(ParseReferenceError)?;
        Ok(Self { vcenter, machine: machine.to_owned() })
    }
}

impl fmt::Display for MachineReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.vcenter.hyphenated(), self.machine)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_parse_as_they_are_written() {
        let text = "dbed6e0c-bd88-4ef6-b594-21283e1c677f/vm-17";
        let reference: MachineReference = text.parse().unwrap();
        assert_eq!((reference.machine.as_str(), reference.to_string().as_str()), ("vm-17", text));
        for (name, text) in [
            ("empty", ""),
            ("no vCenter", "vm-17"),
            ("no machine", "dbed6e0c-bd88-4ef6-b594-21283e1c677f/"),
            ("not a UUID", "vc.example/vm-17"),
            ("the nil UUID", "00000000-0000-0000-0000-000000000000/vm-17"),
            ("a path", "dbed6e0c-bd88-4ef6-b594-21283e1c677f/vm/17"),
            ("markup", "dbed6e0c-bd88-4ef6-b594-21283e1c677f/<vm>"),
        ] {
            assert_eq!(text.parse::<MachineReference>(), Err(ParseReferenceError), "{name}");
        }
    }
}
