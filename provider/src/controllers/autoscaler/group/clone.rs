//! Properties of machines that are clones of a template in a vCenter.

use std::path::PathBuf;

use serde::Deserialize;

use super::TokenShape;
use crate::InputError;

/// Most network cards of a machine.
const MOST_CARDS: usize = 10;
/// Fewest CPUs of a clone. A node with one CPU has too little for its own daemons.
const FEWEST_CPUS: u32 = 2;
/// Memory of a clone whose group says 0, in MiB.
const USUAL_MEMORY: u32 = 2048;

/// Properties of the clones of a group. Paths are names separated by slashes, below the folder of
/// their kind in the datacenter.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct CloneShape {
    /// Path of the datacenter.
    pub(crate) datacenter: String,
    /// Path of the template. A group has either this key or the next one.
    #[serde(default)]
    template: Option<String>,
    /// Library and name of an item of a content library, with a slash between them.
    #[serde(default)]
    library_item: Option<String>,
    pub(crate) folder: String,
    /// Path of the pool: cluster or host, `Resources`, and pools below.
    pub(crate) resource_pool: String,
    /// `None` for the datastore of the template.
    #[serde(default)]
    pub(crate) datastore: Option<String>,
    /// Networks of the cards; empty for the cards of the template.
    #[serde(default)]
    pub(crate) networks: Vec<String>,
    #[serde(default, rename = "numCPUs")]
    num_cpus: Option<u32>,
    #[serde(default, rename = "memoryMiB")]
    memory_mib: Option<u32>,
    /// Size of the first disk; `None` for that of the template.
    #[serde(default, rename = "diskGiB")]
    pub(crate) disk_gib: Option<u32>,
    #[serde(default)]
    pub(crate) clone_mode: CloneMode,
    /// Category and name of a vCenter tag, with a slash between them.
    #[serde(default)]
    tag: Option<String>,
    /// Zone of the Nodes.
    #[serde(default)]
    pub(crate) zone: Option<String>,
    pub(crate) bootstrap: BootstrapFile,
}

/// Original of the clones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Original {
    /// A template or machine at this path.
    Template(String),
    /// An item of a content library, whose latest template is cloned.
    LibraryItem { library: String, item: String },
}

/// Disks of a clone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum CloneMode {
    /// Differences from the snapshot of the template; a full clone if the template has none.
    #[default]
    Linked,
    /// Copies of the disks of the template.
    Full,
}

/// File with the data that makes a machine join the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct BootstrapFile {
    /// Path on the host of the server, which reads the file for each machine.
    pub(crate) file: PathBuf,
    #[serde(default)]
    pub(crate) format: BootstrapFormat,
    /// `None` if the data has a token that another program renews, or none.
    #[serde(default)]
    pub(crate) token: Option<TokenShape>,
}

/// Format of the data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) enum BootstrapFormat {
    /// `user-data` of cloud-init.
    #[default]
    #[serde(rename = "cloud-init")]
    CloudInit,
    /// A configuration of Ignition.
    #[serde(rename = "ignition")]
    Ignition,
}

impl CloneShape {
    /// Checks the values.
    pub(super) fn check(&self) -> Result<(), InputError> {
        let required = [
            ("datacenter", Some(&self.datacenter)),
            ("template", self.template.as_ref()),
            ("folder", Some(&self.folder)),
            ("resourcePool", Some(&self.resource_pool)),
            ("datastore", self.datastore.as_ref()),
            ("zone", self.zone.as_ref()),
        ];
        let networks = self.networks.iter().map(|it| ("networks", Some(it)));
        for (key, text) in required.into_iter().chain(networks) {
            if text.is_some_and(|text| text.trim_matches('/').trim().is_empty()) {
                let err = InputError::new("is empty").remedy("name the object");
                return Err(err.at_key(key));
            }
        }
        if self.networks.len() > MOST_CARDS {
            let err = InputError::new(format!("{} networks are too many", self.networks.len()));
            return Err(err.remedy(format!("name at most {MOST_CARDS}")).at_key("networks"));
        }
        self.check_original()?;
        self.check_hardware()?;
        if let Some(tag) = &self.tag
            && self.tag().is_none()
        {
            let err = InputError::invalid(tag, "does not name a tag");
            return Err(err.remedy("write CATEGORY/NAME").at_key("tag"));
        }
        if self.bootstrap.file.as_os_str().is_empty() {
            let err = InputError::new("is empty").remedy("name the file with the user-data");
            return Err(err.at_key("file").at_key("bootstrap"));
        }
        Ok(())
    }

    fn check_original(&self) -> Result<(), InputError> {
        match (&self.template, &self.library_item) {
            (None, None) => {
                let err = InputError::new("names neither a template nor a library item");
                Err(err.remedy("add template or libraryItem"))
            }
            (Some(_), Some(_)) => {
                let err = InputError::new("cannot be combined with template");
                Err(err.remedy("write either template or libraryItem").at_key("libraryItem"))
            }
            (None, Some(text)) if self.original().is_none() => {
                let err = InputError::invalid(text, "does not name a library item");
                Err(err.remedy("write LIBRARY/ITEM").at_key("libraryItem"))
            }
            _ => Ok(()),
        }
    }

    fn check_hardware(&self) -> Result<(), InputError> {
        let outside = |key: &'static str, value: u32, remedy: &'static str| {
            let err = InputError::invalid(&value.to_string(), "is not a valid size");
            Err(err.remedy(remedy).at_key(key))
        };
        if let Some(cpus) = self.num_cpus.filter(|it| *it > 768) {
            return outside("numCPUs", cpus, "write at most 768");
        }
        if let Some(memory) = self.memory_mib.filter(|it| !it.is_multiple_of(4)) {
            return outside("memoryMiB", memory, "write a multiple of 4");
        }
        match (self.disk_gib, self.clone_mode) {
            (Some(size @ (0 | 65_536..)), _) => outside("diskGiB", size, "write 1 to 65535"),
            (Some(_), CloneMode::Linked) => {
                let err = InputError::new("the disk of a linked clone cannot grow");
                Err(err.remedy("write cloneMode: full, or leave diskGiB out").at_key("diskGiB"))
            }
            _ => Ok(()),
        }
    }

    /// Returns the number of CPUs of a clone; `None` for that of the template.
    pub(crate) fn cpus(&self) -> Option<u32> {
        self.num_cpus.map(|cpus| cpus.max(FEWEST_CPUS))
    }

    /// Returns the memory of a clone in MiB; `None` for that of the template.
    pub(crate) fn memory_mib(&self) -> Option<u32> {
        self.memory_mib.map(|memory| if memory == 0 { USUAL_MEMORY } else { memory })
    }

    /// Returns the original of the clones; `None` if the group names none or does not name it well.
    pub(crate) fn original(&self) -> Option<Original> {
        if let Some(path) = &self.template {
            return Some(Original::Template(path.clone()));
        }
        let (library, item) = self.library_item.as_deref()?.split_once('/')?;
        let is_name = |text: &str| !text.trim().is_empty() && !text.contains('/');
        (is_name(library) && is_name(item))
            .then(|| Original::LibraryItem { library: decoded(library), item: decoded(item) })
    }

    /// Returns the original in words, for logs.
    pub(crate) fn original_text(&self) -> String {
        match (&self.template, &self.library_item) {
            (None, Some(item)) => format!("library item {item}"),
            (template, _) => format!("template {}", template.as_deref().unwrap_or_default()),
        }
    }

    /// Returns category and name of the tag of the clones.
    pub(crate) fn tag(&self) -> Option<(&str, &str)> {
        let (category, name) = self.tag.as_deref()?.split_once('/')?;
        (!category.is_empty() && !name.is_empty()).then_some((category, name))
    }
}

/// Decodes a name in which `%2f` stands for a slash.
fn decoded(name: &str) -> String {
    name.replace("%2f", "/").replace("%2F", "/")
}
