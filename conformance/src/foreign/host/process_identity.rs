//! Identifies a process, so that another process can find out later whether it still runs.

use std::path::Path;

use anyhow::Context as _;

/// Returns an ID of the current boot and PID namespace. Only within these does a process ID
/// identify a process.
pub(crate) fn boot_and_namespace() -> anyhow::Result<String> {
    let space = Path::new("/proc/self/ns/pid");
    let space = std::fs::read_link(space)
        .with_context(|| format!("cannot read the link {}", space.display()))?;
    let space: String = space.to_string_lossy().chars().filter(char::is_ascii_digit).collect();
    Ok(format!("{}-{space}", boot()?))
}

fn boot() -> anyhow::Result<String> {
    let boot = "/proc/sys/kernel/random/boot_id";
    let boot = std::fs::read_to_string(boot).with_context(|| {
        format!("cannot read {boot}, which identifies the boot of this computer")
    })?;
    Ok(boot.trim().to_owned())
}

/// Returns the start time of a process, in clock ticks of the kernel, or `None` if the process does
/// not run. The start time distinguishes two processes that had the same ID.
fn started(process: u32) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The start time is field 22. Only field 2, the name in parentheses, may contain blanks.
    stat.rsplit_once(") ")?.1.split(' ').nth(19).map(str::to_owned)
}

/// Returns a line that identifies this process, as input for [`may_run`].
pub(crate) fn this_process() -> anyhow::Result<String> {
    let process = std::process::id();
    let started = started(process)
        .context("cannot read the start time of this process from /proc/PID/stat")?;
    Ok(format!("{process} {started} {}", boot_and_namespace()?))
}

/// True if the process that `line` identifies runs, or may run in another PID namespace of the same
/// boot. False if `line` does not identify a process.
pub(crate) fn may_run(line: &str) -> anyhow::Result<bool> {
    let mut words = line.split_whitespace();
    let (Some(process), Some(since), Some(place)) = (words.next(), words.next(), words.next())
    else {
        return Ok(false);
    };
    if place != boot_and_namespace()? {
        // A process of another PID namespace is invisible and may run, unless a reboot has ended
        // it.
        return Ok(place.starts_with(&boot()?));
    }
    Ok(process.parse().ok().and_then(started).as_deref() == Some(since))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_identified_by_its_start_time_boot_and_namespace() {
        let this = this_process().unwrap();
        assert!(may_run(&this).unwrap(), "{this}");
        let words: Vec<&str> = this.split(' ').collect();
        let [process, started, place] = words[..] else { panic!("{this}") };
        let elsewhere = format!("{}-7", boot().unwrap());
        for (line, may) in [
            (format!("{process} 1 {place}"), false),
            (format!("0 {started} {place}"), false),
            (format!("{process} {started} another-machine"), false),
            (format!("{process} 1 {elsewhere}"), true),
            (String::new(), false),
        ] {
            assert_eq!(may_run(&line).unwrap(), may, "{line}");
        }
    }

    #[test]
    fn the_place_of_a_process_is_a_valid_label_value() {
        let here = boot_and_namespace().unwrap();
        assert!(here.len() <= 63 && here.ends_with(|it: char| it.is_ascii_digit()), "{here}");
        assert!(here.chars().all(|it| it.is_ascii_alphanumeric() || it == '-'), "{here}");
    }
}
