//! Checks the form of `/metrics`: each family has a description, a process always serves certain
//! families, and no series occurs twice. Also checks the metrics of leadership.

use std::collections::BTreeSet;

use super::ScrapedReplica;
use crate::judge::nodes::authors;

/// Endings of sample names that do not belong to the name of the family.
const SUFFIXES: [&str; 4] = ["_total", "_count", "_sum", "_bucket"];
/// Families that a process serves from its start. Labelled families appear with their first value.
const ALWAYS: [&str; 5] = [
    "vsphere_nodes_held",
    "vsphere_nodes_initialized",
    "vsphere_nodes_deleted",
    "vsphere_node_sync_failures",
    "vsphere_node_deletions_held",
];

impl ScrapedReplica<'_> {
    pub(super) fn families(&self) -> Vec<String> {
        let mut said = Vec::new();
        let described = |keyword: &str| -> BTreeSet<&str> {
            let lines = self.scrape.metrics.lines();
            lines.filter_map(|line| line.strip_prefix(keyword)?.split(' ').next()).collect()
        };
        let (helped, typed) = (described("# HELP "), described("# TYPE "));
        for (keyword, families) in [("HELP", &helped), ("TYPE", &typed)] {
            let bare: BTreeSet<&str> = self.samples.iter().map(|it| family(&it.name)).collect();
            for family in bare.difference(families) {
                said.push(format!("/metrics has {family} without a line # {keyword}"));
            }
        }
        for family in ALWAYS.iter().filter(|it| !typed.contains(**it)) {
            said.push(format!("/metrics has no {family}"));
        }
        let mut lines: Vec<&str> = Vec::new();
        for line in self.scrape.metrics.lines().filter(|line| !line.starts_with('#')) {
            let series = line.rsplit_once(' ').map_or(line, |(series, _)| series);
            lines.push(series);
        }
        let n_lines = lines.len();
        lines.sort_unstable();
        lines.dedup();
        if lines.len() < n_lines {
            said.push(format!("/metrics has {} series twice", n_lines - lines.len()));
        }
        if !self.scrape.metrics.ends_with("# EOF\n") {
            said.push("/metrics does not end with # EOF".to_owned());
        }
        said
    }

    /// Checks that the metric of leadership is 0 or 1. If the only replica of a calm scenario has
    /// written Nodes, also checks that the replica leads and that its controllers run.
    pub(super) fn leadership(&self) -> Vec<String> {
        let mut said = Vec::new();
        let leads = self.sum("leader_election_master_status", &[]);
        let controllers = self.sum("running_managed_controllers", &[]);
        if ![0.0, 1.0].contains(&leads) {
            said.push(format!("leader_election_master_status is {leads}; expected 0 or 1"));
        }
        let writes = self.calls.iter().any(|call| authors::is_write(call));
        let flags = &self.run.scenario.provider.flags;
        let all = if flags.iter().any(|it| it.starts_with("--controllers")) { 1.0 } else { 2.0 };
        if writes && self.is_alone && self.is_calm && (leads != 1.0 || controllers < all) {
            said.push(format!("the only replica writes nodes, but leader_election_master_status is {leads} and running_managed_controllers is {controllers}"));
        }
        said
    }
}

/// Returns the name of a sample's family: the name of the sample without its ending of
/// [`SUFFIXES`].
fn family(name: &str) -> &str {
    SUFFIXES.iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(name)
}
