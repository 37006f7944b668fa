//! Options of the autoscaler that a group overrides.

use std::time::Duration;

use super::Annotations;
use crate::input::parse_duration;

/// Options of the autoscaler that a group overrides.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupOptions {
    /// Use of a Node below which it may be removed.
    pub scale_down_utilization_threshold: Option<f64>,
    /// The same for a Node with GPUs.
    pub scale_down_gpu_utilization_threshold: Option<f64>,
    /// Time after which an unneeded Node is removed.
    pub scale_down_unneeded_time: Option<Duration>,
    /// The same for a Node that is not ready.
    pub scale_down_unready_time: Option<Duration>,
    /// Time that a new machine has to become a Node.
    pub max_node_provision_time: Option<Duration>,
    /// Time that a new Node has to become ready.
    pub max_node_startup_time: Option<Duration>,
}

/// Reads the options. One that cannot be read keeps the autoscaler's default, with a note.
pub(super) fn options(annotations: &Annotations<'_>, notes: &mut Vec<String>) -> GroupOptions {
    let mut options = GroupOptions::default();
    for (name, text) in annotations.with_prefix("autoscaling-options-") {
        let text = text.to_lowercase();
        if text.is_empty() {
            continue;
        }
        let number = || text.parse::<f64>().ok();
        let time = || parse_duration(&text).ok();
        let is_read = match name {
            "scaledownutilizationthreshold" => {
                set(&mut options.scale_down_utilization_threshold, number())
            }
            "scaledowngpuutilizationthreshold" => {
                set(&mut options.scale_down_gpu_utilization_threshold, number())
            }
            "scaledownunneededtime" => set(&mut options.scale_down_unneeded_time, time()),
            "scaledownunreadytime" => set(&mut options.scale_down_unready_time, time()),
            "maxnodeprovisiontime" => set(&mut options.max_node_provision_time, time()),
            "maxnodestartuptime" => set(&mut options.max_node_startup_time, time()),
            _ => continue,
        };
        if !is_read {
            notes.push(format!(
                "autoscaling-options-{name}: cannot read {text:?}; the autoscaler's default counts"
            ));
        }
    }
    options
}

/// Sets an option. Returns true if the value could be read.
fn set<T>(option: &mut Option<T>, value: Option<T>) -> bool {
    *option = value;
    option.is_some()
}
