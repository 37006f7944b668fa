//! Measures how long the processes of a provider waited for a processor.
//!
//! The delay meter measures tasks of this process only. On an overloaded computer a provider's
//! process can wait much longer than they do. The processes of a container or pod are found by
//! their control group, if they run on this computer.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;

/// Real time between two readings of a process.
const PERIOD: Duration = Duration::from_millis(250);
/// Real time between two searches for the processes of a container or pod. Its first process may be
/// a shell that starts the provider.
const SEARCH: Duration = Duration::from_secs(2);
/// Real time after which a search that has found nothing ends: the container or pod is on another
/// computer.
const LONGEST_SEARCH: Duration = Duration::from_secs(20);
/// World time over which waits are summed: the shortest of the usual bounds of checks.
const WINDOW: Duration = Duration::from_secs(10);

/// Waits of all processes of a run, as read every [`PERIOD`]. Clones share the readings.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProcessorWaits(Arc<Mutex<BTreeMap<u32, Vec<Reading>>>>);

/// Instant of a reading, and the time for which the process had waited until then since its start.
type Reading = (Instant, Duration);

impl ProcessorWaits {
    /// Reads every [`PERIOD`] how long all threads of each process have waited for a processor since
    /// the process started, and records the sum. Skips readings that the system does not provide,
    /// as on systems other than Linux. Never ends.
    ///
    /// Cancel safe.
    pub(in crate::foreign) async fn follow(&self, which: ProviderProcesses) -> Infallible {
        let (begin, mut search_at) = (Instant::now(), Instant::now());
        let mut processes = BTreeSet::new();
        loop {
            if Instant::now() >= search_at {
                let searched = which.clone();
                let found = tokio::task::spawn_blocking(move || searched.find()).await;
                // A process of a container or pod is found late, so its waits before count too.
                for process in found.unwrap_or_default() {
                    if processes.insert(process) {
                        self.record(process, Instant::now(), Duration::ZERO);
                    }
                }
                if processes.is_empty() && begin.elapsed() >= LONGEST_SEARCH {
                    return std::future::pending().await;
                }
                search_at = Instant::now() + SEARCH;
            }
            for process in &processes {
                if let Some(total) = total(&folder(*process)) {
                    self.record(*process, Instant::now(), total);
                }
            }
            tokio::time::sleep(PERIOD).await;
        }
    }

    fn record(&self, process: u32, at: Instant, total: Duration) {
        let mut all = self.0.lock().expect("no holder panics");
        all.entry(process).or_default().push((at, total));
    }

    /// Returns the longest wait of one process within 10 s of world time, in real time. `pace` is
    /// the number of seconds of world time per second of the clock.
    pub(in crate::foreign) fn worst(&self, pace: u32) -> Duration {
        let all = self.0.lock().expect("no holder panics");
        let worst = all.values().map(|readings| worst(readings, WINDOW / pace.max(1)));
        worst.max().unwrap_or_default()
    }
}

/// Processes of a provider whose waits are read.
#[derive(Clone, Debug)]
pub(in crate::foreign) enum ProviderProcesses {
    /// The process with this ID.
    Id(u32),
    /// All processes of this computer whose control group contains this ID: that of a container, or
    /// the UID of a pod.
    Group(String),
}

impl ProviderProcesses {
    /// Returns the IDs of the processes. The list is empty if the container or pod runs on another
    /// computer, has not started yet, or is not visible in this PID namespace.
    fn find(&self) -> Vec<u32> {
        match self {
            Self::Id(process) => vec![*process],
            Self::Group(id) => {
                let listed = std::fs::read_dir("/proc").into_iter().flatten().flatten();
                let all = listed.filter_map(|it| it.file_name().to_str()?.parse().ok());
                all.filter(|process| is_in_group(&folder(*process), id)).collect()
            }
        }
    }
}

/// True if the control group of the process whose folder in `/proc` is given contains `id`. Some
/// kubelets write the UID of a pod with underscores there.
fn is_in_group(process: &Path, id: &str) -> bool {
    std::fs::read_to_string(process.join("cgroup"))
        .is_ok_and(|group| group.contains(id) || group.contains(&id.replace('-', "_")))
}

fn folder(process: u32) -> PathBuf {
    Path::new("/proc").join(process.to_string())
}

/// Returns the largest growth of the wait between two readings that are adjacent or at most
/// `window` apart.
fn worst(readings: &[Reading], window: Duration) -> Duration {
    let mut longest = Duration::ZERO;
    let mut first = 0;
    for (last, (at, total)) in readings.iter().enumerate().skip(1) {
        while first + 1 < last && *at - readings[first].0 > window {
            first += 1;
        }
        // The total shrinks when a thread ends.
        longest = longest.max(total.saturating_sub(readings[first].1));
    }
    longest
}

/// Returns the sum of the waits of all threads of the process whose folder in `/proc` is given, or
/// `None` if the system does not show it. The second field of `schedstat` is the time, in
/// nanoseconds, for which a thread was ready but did not run.
fn total(process: &Path) -> Option<Duration> {
    let mut sum = Duration::ZERO;
    for thread in std::fs::read_dir(process.join("task")).ok()? {
        // A thread that ends meanwhile has no file.
        let Ok(text) = std::fs::read_to_string(thread.ok()?.path().join("schedstat")) else {
            continue;
        };
        sum += Duration::from_nanos(text.split_whitespace().nth(1)?.parse().ok()?);
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    #[test]
    fn the_worst_wait_is_the_largest_growth_within_ten_seconds_of_the_world() {
        let (waits, begin) = (ProcessorWaits::default(), Instant::now());
        // Waits a tenth of the time, and between 20 s and 25 s all the time.
        let mut total = Duration::ZERO;
        for second in 0..40 {
            waits.record(1, begin + S * second, total);
            total += if (20..25).contains(&second) { S } else { S / 10 };
        }
        waits.record(2, begin, 90 * S);
        assert_eq!(waits.worst(1), Duration::from_millis(5_500));
        assert_eq!(waits.worst(5), 2 * S);
        // The window is shorter than the distance of two readings.
        assert_eq!(waits.worst(40), S);
        assert_eq!(ProcessorWaits::default().worst(1), Duration::ZERO);
    }

    #[test]
    fn a_total_that_shrinks_counts_as_no_wait() {
        let (waits, begin) = (ProcessorWaits::default(), Instant::now());
        for (second, total) in [(0, 5 * S), (1, 2 * S), (2, 3 * S)] {
            waits.record(1, begin + S * second, total);
        }
        assert_eq!(waits.worst(1), Duration::ZERO);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_wait_of_this_process_can_be_read() {
        assert!(total(Path::new("/proc/self")).is_some());
        assert_eq!(total(Path::new("/proc/0")), None);
    }

    #[cfg(target_os = "linux")]
    #[tokio::test(start_paused = true)]
    async fn a_process_is_read_four_times_a_second() {
        let waits = ProcessorWaits::default();
        let absent = ProviderProcesses::Group("6c1d0f1e-no-such-group".to_owned());
        for which in [ProviderProcesses::Id(std::process::id()), absent] {
            let following = waits.follow(which);
            assert!(tokio::time::timeout(S - PERIOD / 2, following).await.is_err());
        }
        let all = waits.0.lock().unwrap();
        assert_eq!(all.values().map(Vec::len).collect::<Vec<_>>(), [1 + 4]);
    }

    #[test]
    fn a_process_is_found_by_its_pod_or_container() {
        let (docker, pod) = ("0a1b2c3d4e5f", "9d8c7b6a-1111-2222-3333-444455556666");
        let under = |group: &str| {
            let folder = tempfile::tempdir().unwrap();
            std::fs::write(folder.path().join("cgroup"), format!("0::{group}\n")).unwrap();
            folder
        };
        let table = [
            ("/system.slice/docker-0a1b2c3d4e5f.scope", docker, true),
            ("/kubelet/kubepods/besteffort/pod9d8c7b6a-1111-2222-3333-444455556666/abc", pod, true),
            ("/kubepods-pod9d8c7b6a_1111_2222_3333_444455556666.slice/cri-x.scope", pod, true),
            ("/user.slice", pod, false),
        ];
        for (group, id, expected) in table {
            assert_eq!(is_in_group(under(group).path(), id), expected, "{group}");
        }
        assert!(!is_in_group(Path::new("/proc/0"), docker));
    }
}
