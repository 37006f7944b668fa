//! Identifies a process, so that another process can find out later whether it still runs.

use std::path::Path;

use anyhow::Context as _;

/// Returns an ID of this boot of the machine and of the PID namespace: process IDs have no meaning elsewhere.
pub(crate) fn here() -> anyhow::Result<String> {
    let space = Path::new("/proc/self/ns/pid");
    let space = std::fs::read_link(space).with_context(|| space.display().to_string())?;
    let space: String = space.to_string_lossy().chars().filter(char::is_ascii_digit).collect();
    Ok(format!("{}-{space}", boot()?))
}

fn boot() -> anyhow::Result<String> {
    let boot = "/proc/sys/kernel/random/boot_id";
    let boot = std::fs::read_to_string(boot).with_context(|| format!("cannot read {boot}"))?;
    Ok(boot.trim().to_owned())
}

/// Returns the start time of a process, in clock ticks of the kernel; it distinguishes processes that reuse an ID.
fn started(process: u32) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // Start time is field 22; only the name before field 3 may contain blanks, and it stands in parentheses.
    stat.rsplit_once(") ")?.1.split(' ').nth(19).map(str::to_owned)
}

/// Returns a line that identifies this process, for [`may_run`].
pub(crate) fn this_process() -> anyhow::Result<String> {
    let process = std::process::id();
    let started = started(process).context("/proc does not tell of this process")?;
    Ok(format!("{process} {started} {}", here()?))
}

/// True if the process of that line runs, or may run in a PID namespace that is not visible from here.
pub(crate) fn may_run(line: &str) -> anyhow::Result<bool> {
    let mut words = line.split_whitespace();
    let (Some(process), Some(since), Some(place)) = (words.next(), words.next(), words.next())
    else {
        return Ok(false);
    };
    if place != here()? {
        // A reboot ends all processes, so only the same boot counts.
        return Ok(place.starts_with(&boot()?));
    }
    Ok(process.parse().ok().and_then(started).as_deref() == Some(since))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_its_start_and_its_place() {
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
        let here = here().unwrap();
        assert!(here.len() <= 63 && here.ends_with(|it: char| it.is_ascii_digit()), "{here}");
        assert!(here.chars().all(|it| it.is_ascii_alphanumeric() || it == '-'), "{here}");
    }
}
