//! `/sdk/vimServiceVersions.xml`: the versions of vim25 that a server supports. Clients choose one
//! of the versions.

use sim_world::vcenter::Release;

use crate::call::vim25::{self, Version};

/// Returns the document of a server of this release: the release's version of vim25, and all
/// earlier versions.
pub(super) fn document(release: &Release) -> String {
    let current = release.api_version();
    let own = Version::parse(&current);
    let prior: String = vim25::releases()
        .rev()
        .filter(|version| Version::parse(version) < own)
        .map(|version| format!("<version>{version}</version>"))
        .collect();
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<namespaces version=\"1.0\"><namespace><name>urn:vim25</name>\
         <version>{current}</version><priorVersions>{prior}</priorVersions></namespace></namespaces>"
    )
}
