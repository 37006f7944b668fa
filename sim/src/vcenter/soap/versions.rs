//! `/sdk/vimServiceVersions.xml`: the versions of vim25 that a server supports. Clients choose one
//! of the versions.

use sim_world::vcenter::Release;

/// Released versions of vim25 up to 9.0, newest first.
const RELEASED: [&str; 32] = [
    "9.0.0.0", "8.0.3.0", "8.0.2.0", "8.0.1.0", "8.0.0.2", "8.0.0.1", "8.0.0.0", "7.0.3.2",
    "7.0.3.1", "7.0.3.0", "7.0.2.1", "7.0.2.0", "7.0.1.1", "7.0.1.0", "7.0.0.2", "7.0.0.0",
    "6.9.1", "6.8.7", "6.7.3", "6.7.2", "6.7.1", "6.7", "6.5", "6.0", "5.5", "5.1", "5.0", "4.1",
    "4.0", "2.5u2", "2.5", "2.0",
];

/// Returns the document of a server of this release: the release's version of vim25, and all
/// earlier versions.
pub(super) fn document(release: &Release) -> String {
    let current = release.api_version();
    let own = numbers(&current);
    let prior: String = RELEASED
        .iter()
        .filter(|version| numbers(version) < own)
        .map(|version| format!("<version>{version}</version>"))
        .collect();
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<namespaces version=\"1.0\"><namespace><name>urn:vim25</name>\
         <version>{current}</version><priorVersions>{prior}</priorVersions></namespace></namespaces>"
    )
}

/// Returns the numeric parts of a version; `2.5u2` counts as `2.5`.
fn numbers(version: &str) -> Vec<u64> {
    let digits = |part: &str| part.chars().map_while(|it| it.to_digit(10)).collect::<Vec<u32>>();
    let number = |digits: Vec<u32>| digits.iter().fold(0, |sum, it| sum * 10 + u64::from(*it));
    version.split('.').map(|part| number(digits(part))).collect()
}
