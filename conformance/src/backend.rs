//! What stands behind a provider: where it looks for machines. Checks ask here, so that one promise is put to
//! the test in every mode.

use std::fmt;

use serde::{Deserialize, Serialize};
use sim::Face;
use sim::ledger::Record;
use sim::world::objects::GroupResource;
use sim::world::{Command, ControlPlane};

/// What stands behind a provider.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// vCenter: searches, properties, tags.
    #[default]
    VCenter,
    /// A Supervisor: VirtualMachine objects.
    Supervisor,
}

impl Backend {
    /// Every one, in the order in which they are judged.
    pub const ALL: [Self; 2] = [Self::VCenter, Self::Supervisor];

    /// As the catalogue and the command line write it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::VCenter => "vcenter",
            Self::Supervisor => "supervisor",
        }
    }

    /// As a sentence names it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::VCenter => "vCenter",
            Self::Supervisor => "Supervisor",
        }
    }

    /// As a headline says it.
    pub const fn title(self) -> &'static str {
        match self {
            Self::VCenter => "vCenter mode",
            Self::Supervisor => "Supervisor mode",
        }
    }

    /// Whether it is vCenter.
    pub const fn is_vcenter(self) -> bool {
        matches!(self, Self::VCenter)
    }

    /// Where machines are asked for.
    pub const fn face(self) -> Face {
        match self {
            Self::VCenter => Face::Soap,
            Self::Supervisor => Face::Supervisor,
        }
    }

    /// Operations that are about machines, as rules name them.
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

    /// Whether it is a call to what stands behind the provider.
    pub fn takes(self, call: &Record) -> bool {
        match self {
            Self::VCenter => call.is_vcenter_call(),
            Self::Supervisor => call.face == Some(Face::Supervisor),
        }
    }

    /// Whether it is a call that waits for news: the long poll, the watch.
    pub fn is_news(self, call: &Record) -> bool {
        match self {
            Self::VCenter => call.op == "WaitForUpdatesEx",
            Self::Supervisor => call.op.starts_with("watch "),
        }
    }

    /// Whatever keeps a provider up to date ends, and has to be begun anew: sessions, watches.
    pub const fn cut(self) -> Command {
        match self {
            Self::VCenter => Command::ExpireSessions { vcenter: None, family: None },
            Self::Supervisor => Command::EndWatches { plane: ControlPlane::Supervisor },
        }
    }
}

/// The machines of a Supervisor.
pub(crate) fn virtual_machines() -> GroupResource {
    GroupResource::of("vmoperator.vmware.com", "virtualmachines")
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
