//! Settings of a group in `NodeGroupGetOptions`, as each generation of the protocol writes and reads
//! them.

use std::time::Duration;

use super::Generation;

/// Duration of the generations G1 and G2, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct OldDuration {
    /// Nanoseconds.
    #[prost(int64, tag = "1")]
    pub nanoseconds: i64,
}

/// Duration of the generations G2 and G3.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct NewDuration {
    /// Whole seconds.
    #[prost(int64, tag = "1")]
    pub seconds: i64,
    /// Rest in nanoseconds.
    #[prost(int32, tag = "2")]
    pub nanos: i32,
}

/// Settings of a group, with the fields of all generations.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct Options {
    /// Share of use below which a Node is unneeded.
    #[prost(double, tag = "1")]
    pub utilization: f64,
    /// The same for Nodes with GPUs.
    #[prost(double, tag = "2")]
    pub gpu_utilization: f64,
    /// Old field of [`Times::unneeded`].
    #[prost(message, optional, tag = "3")]
    pub old_unneeded: Option<OldDuration>,
    /// Old field of [`Times::unready`].
    #[prost(message, optional, tag = "4")]
    pub old_unready: Option<OldDuration>,
    /// Old field of [`Times::provision`].
    #[prost(message, optional, tag = "5")]
    pub old_provision: Option<OldDuration>,
    /// True if the group has either no Node or all.
    #[prost(bool, tag = "6")]
    pub zero_or_max: bool,
    /// True if Pods of DaemonSets do not count as use.
    #[prost(bool, tag = "7")]
    pub ignore_daemon_sets: bool,
    /// New field of [`Times::unneeded`].
    #[prost(message, optional, tag = "8")]
    pub new_unneeded: Option<NewDuration>,
    /// New field of [`Times::unready`].
    #[prost(message, optional, tag = "9")]
    pub new_unready: Option<NewDuration>,
    /// New field of [`Times::provision`].
    #[prost(message, optional, tag = "10")]
    pub new_provision: Option<NewDuration>,
}

/// The three durations of the settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// Time for which a Node must be unneeded before the autoscaler removes it.
    pub unneeded: Duration,
    /// The same for a Node that is not ready.
    pub unready: Duration,
    /// Time within which a new machine must become a Node.
    pub provision: Duration,
}

impl OldDuration {
    fn new(time: Duration) -> Self {
        Self { nanoseconds: i64::try_from(time.as_nanos()).unwrap_or(i64::MAX) }
    }

    /// Returns the duration; `None` if it is negative.
    pub fn time(self) -> Option<Duration> {
        u64::try_from(self.nanoseconds).ok().map(Duration::from_nanos)
    }
}

impl NewDuration {
    fn new(time: Duration) -> Self {
        let nanos = i32::try_from(time.subsec_nanos()).unwrap_or_default();
        Self { seconds: i64::try_from(time.as_secs()).unwrap_or(i64::MAX), nanos }
    }

    /// Returns the duration; `None` if it is negative.
    pub fn time(self) -> Option<Duration> {
        let (seconds, nanos) = (u64::try_from(self.seconds).ok()?, u32::try_from(self.nanos).ok()?);
        Some(Duration::new(seconds, nanos))
    }
}

impl Options {
    /// Returns the message that an autoscaler of this generation sends as its defaults.
    pub fn defaults(generation: Generation, thresholds: (f64, f64), times: Times) -> Self {
        let old = |time| generation.has_old_fields().then(|| OldDuration::new(time));
        let new = |time| generation.has_new_fields().then(|| NewDuration::new(time));
        Self {
            utilization: thresholds.0,
            gpu_utilization: thresholds.1,
            old_unneeded: old(times.unneeded),
            old_unready: old(times.unready),
            old_provision: old(times.provision),
            zero_or_max: false,
            ignore_daemon_sets: false,
            new_unneeded: new(times.unneeded),
            new_unready: new(times.unready),
            new_provision: new(times.provision),
        }
    }

    /// Returns the durations of the old fields; `None` if one is absent or negative.
    pub fn old_times(&self) -> Option<Times> {
        Some(Times {
            unneeded: self.old_unneeded?.time()?,
            unready: self.old_unready?.time()?,
            provision: self.old_provision?.time()?,
        })
    }

    /// Returns the durations of the new fields; `None` if one is absent or negative.
    pub fn new_times(&self) -> Option<Times> {
        Some(Times {
            unneeded: self.new_unneeded?.time()?,
            unready: self.new_unready?.time()?,
            provision: self.new_provision?.time()?,
        })
    }

    /// Returns these settings with other durations in all fields.
    #[must_use]
    pub fn with_times(self, times: Times) -> Self {
        let Self { utilization, gpu_utilization, zero_or_max, ignore_daemon_sets, .. } = self;
        let all = Self::defaults(Generation::G2, (utilization, gpu_utilization), times);
        Self { zero_or_max, ignore_daemon_sets, ..all }
    }
}

/// Request of `NodeGroupGetOptions`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct OfOptions {
    /// ID of the group.
    #[prost(string, tag = "1")]
    pub id: String,
    /// Settings of the autoscaler for groups without their own.
    #[prost(message, optional, tag = "2")]
    pub defaults: Option<Options>,
}

/// Answer of `NodeGroupGetOptions`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct OptionsAnswer {
    /// Settings of the group; absent if the defaults hold.
    #[prost(message, optional, tag = "1")]
    pub options: Option<Options>,
}
