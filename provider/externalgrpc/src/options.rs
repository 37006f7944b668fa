//! Settings of the autoscaler for one group, read from and written for any generation.

use std::time::Duration;

use prost_types::Duration as ProtoDuration;

use crate::protocol::{GoDuration, NodeGroupAutoscalingOptions};

/// Settings of the autoscaler for one group.
///
/// A message that lacks one duration crashes an autoscaler of G1 or G2, and means zero to one of
/// G3. So [`Options::message`] always fills all six.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// The autoscaler removes a Node whose Pods request at most this share of its resources.
    pub scale_down_utilization_threshold: f64,
    /// Like the former, for Nodes with GPUs.
    pub scale_down_gpu_utilization_threshold: f64,
    /// Time for which a Node must be unneeded before the autoscaler removes it.
    pub scale_down_unneeded_time: Duration,
    /// Like the former, for a Node that is not ready.
    pub scale_down_unready_time: Duration,
    /// Time within which a new machine must become a Node.
    pub max_node_provision_time: Duration,
    /// True if the group has either no Node or its largest number.
    pub zero_or_max_node_scaling: bool,
    /// True if the Pods of DaemonSets do not count as use of a Node.
    pub ignore_daemon_sets_utilization: bool,
}

impl Options {
    /// Reads a message of any generation. A new field wins over the old one, and a duration that
    /// neither has is that of the autoscaler's defaults.
    pub fn read(message: &NodeGroupAutoscalingOptions) -> Self {
        let time = |new: Option<&ProtoDuration>, old: Option<&GoDuration>, default: u64| {
            let new = new.and_then(|it| Duration::try_from(*it).ok());
            let old = || old.and_then(|it| u64::try_from(it.duration).ok());
            new.or_else(|| old().map(Duration::from_nanos))
                .unwrap_or(Duration::from_secs(default * 60))
        };
        let it = message;
        Self {
            scale_down_utilization_threshold: it.scale_down_utilization_threshold,
            scale_down_gpu_utilization_threshold: it.scale_down_gpu_utilization_threshold,
            scale_down_unneeded_time: time(
                it.scale_down_unneeded_duration.as_ref(),
                it.scale_down_unneeded_time.as_ref(),
                10,
            ),
            scale_down_unready_time: time(
                it.scale_down_unready_duration.as_ref(),
                it.scale_down_unready_time.as_ref(),
                20,
            ),
            max_node_provision_time: time(
                it.max_node_provision_duration.as_ref(),
                it.max_node_provision_time.as_ref(),
                15,
            ),
            zero_or_max_node_scaling: it.zero_or_max_node_scaling,
            ignore_daemon_sets_utilization: it.ignore_daemon_sets_utilization,
        }
    }

    /// Returns the message for all generations: each duration in the old and in the new field.
    pub fn message(&self) -> NodeGroupAutoscalingOptions {
        let old = |time: Duration| {
            Some(GoDuration { duration: i64::try_from(time.as_nanos()).unwrap_or(i64::MAX) })
        };
        let new = |time: Duration| ProtoDuration::try_from(time).ok();
        NodeGroupAutoscalingOptions {
            scale_down_utilization_threshold: self.scale_down_utilization_threshold,
            scale_down_gpu_utilization_threshold: self.scale_down_gpu_utilization_threshold,
            scale_down_unneeded_time: old(self.scale_down_unneeded_time),
            scale_down_unready_time: old(self.scale_down_unready_time),
            max_node_provision_time: old(self.max_node_provision_time),
            zero_or_max_node_scaling: self.zero_or_max_node_scaling,
            ignore_daemon_sets_utilization: self.ignore_daemon_sets_utilization,
            scale_down_unneeded_duration: new(self.scale_down_unneeded_time),
            scale_down_unready_duration: new(self.scale_down_unready_time),
            max_node_provision_duration: new(self.max_node_provision_time),
        }
    }

    /// True if an autoscaler of G3 sent the message: it has no old field.
    pub fn is_of_third_generation(message: &NodeGroupAutoscalingOptions) -> bool {
        let it = message;
        it.scale_down_unneeded_time.is_none()
            && it.scale_down_unready_time.is_none()
            && it.max_node_provision_time.is_none()
            && it.scale_down_unneeded_duration.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn minutes(n: u64) -> Duration {
        Duration::from_secs(60 * n)
    }

    fn old(n: i64) -> Option<GoDuration> {
        Some(GoDuration { duration: n * 60_000_000_000 })
    }

    fn new(n: i64) -> Option<ProtoDuration> {
        Some(ProtoDuration { seconds: n * 60, nanos: 0 })
    }

    #[test]
    fn options_of_each_generation_are_read_and_written_for_all() {
        let first = NodeGroupAutoscalingOptions {
            scale_down_utilization_threshold: 0.5,
            scale_down_unneeded_time: old(7),
            scale_down_unready_time: old(8),
            max_node_provision_time: old(9),
            ..Default::default()
        };
        let third = NodeGroupAutoscalingOptions {
            scale_down_utilization_threshold: 0.5,
            scale_down_unneeded_duration: new(7),
            scale_down_unready_duration: new(8),
            max_node_provision_duration: new(9),
            ..Default::default()
        };
        // The fields of the second generation contradict each other here, to show which one wins.
        let second = NodeGroupAutoscalingOptions { scale_down_unneeded_time: old(1), ..third };
        for (message, is_third) in [(first, false), (second, false), (third, true)] {
            let options = Options::read(&message);
            assert_eq!(options.scale_down_unneeded_time, minutes(7), "{message:?}");
            assert_eq!(options.scale_down_unready_time, minutes(8), "{message:?}");
            assert_eq!(options.max_node_provision_time, minutes(9), "{message:?}");
            assert_eq!(Options::is_of_third_generation(&message), is_third, "{message:?}");
            let written = options.message();
            assert_eq!(written.scale_down_unneeded_time, old(7));
            assert_eq!(written.max_node_provision_duration, new(9));
            assert_eq!(Options::read(&written), options);
        }
    }

    #[test]
    fn a_duration_that_is_absent_or_negative_is_the_default_of_the_autoscaler() {
        let message = NodeGroupAutoscalingOptions {
            scale_down_unready_time: Some(GoDuration { duration: -1 }),
            ..Default::default()
        };
        let options = Options::read(&message);
        assert_eq!(options.scale_down_unneeded_time, minutes(10));
        assert_eq!(options.scale_down_unready_time, minutes(20));
        assert_eq!(options.max_node_provision_time, minutes(15));
    }
}
