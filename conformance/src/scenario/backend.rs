//! The backend of a provider: the system from which it reads machines, vCenter or a Supervisor.
//! Checks take the differences between backends from here, so that one check tests a promise in
//! every mode.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sim::Face;
use sim::ledger::Record;
use sim::world::objects::GroupResource;
use sim::world::{Command, ControlPlane};

/// The system from which a provider reads machines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// vCenter, which a provider reads through searches, properties and tags.
    #[default]
    VCenter,
    /// A Supervisor, which a provider reads through VirtualMachine objects.
    Supervisor,
}

impl FromStr for Backend {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|it| it.as_str() == text);
        found.ok_or_else(|| "expected vcenter or supervisor".to_owned())
    }
}

impl Backend {
    /// Every backend, in the order in which a run of the catalogue judges them.
    pub const ALL: [Self; 2] = [Self::VCenter, Self::Supervisor];

    /// Returns the word for this backend in the catalogue and on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::VCenter => "vcenter",
            Self::Supervisor => "supervisor",
        }
    }

    /// Returns the name for use within a sentence.
    pub const fn name(self) -> &'static str {
        match self {
            Self::VCenter => "vCenter",
            Self::Supervisor => "Supervisor",
        }
    }

    /// Returns the name for use in a headline.
    pub const fn title(self) -> &'static str {
        match self {
            Self::VCenter => "vCenter mode",
            Self::Supervisor => "Supervisor mode",
        }
    }

    /// True for vCenter.
    pub const fn is_vcenter(self) -> bool {
        matches!(self, Self::VCenter)
    }

    /// Returns the face of the simulator that answers the provider's requests for machines.
    pub const fn face(self) -> Face {
        match self {
            Self::VCenter => Face::Soap,
            Self::Supervisor => Face::Supervisor,
        }
    }

    /// Returns the operations that read machines, as patterns of fault rules.
    pub const fn operations(self) -> &'static [&'static str] {
        match self {
            Self::VCenter => &[
                "Find*",
                "RetrieveProperties*",
                "ContinueRetrievePropertiesEx",
                "WaitForUpdatesEx",
                "CreateFilter",
                "CreateListView",
                "ModifyListView",
                "CreateContainerView",
            ],
            Self::Supervisor => {
                &["get virtualmachines", "list virtualmachines", "watch virtualmachines"]
            }
        }
    }

    /// True for a call to this backend.
    pub fn receives(self, call: &Record) -> bool {
        match self {
            Self::VCenter => call.is_vcenter_call(),
            Self::Supervisor => call.face == Some(Face::Supervisor),
        }
    }

    /// True for a call that waits for changes: the long poll of vCenter or the watch of a
    /// Supervisor.
    pub fn is_wait(self, call: &Record) -> bool {
        match self {
            Self::VCenter => call.op == "WaitForUpdatesEx",
            Self::Supervisor => call.op.starts_with("watch "),
        }
    }

    /// Returns the command that cuts off the provider's news: it expires all sessions of the first
    /// vCenter, or ends all watches of the Supervisor.
    pub const fn disconnect(self) -> Command {
        match self {
            Self::VCenter => Command::ExpireSessions { vcenter: None, family: None },
            Self::Supervisor => Command::EndWatches { plane: ControlPlane::Supervisor },
        }
    }
}

/// Returns the resource of VirtualMachine objects, the machines of a Supervisor.
pub(crate) fn virtual_machines() -> GroupResource {
    GroupResource::of("vmoperator.vmware.com", "virtualmachines")
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
