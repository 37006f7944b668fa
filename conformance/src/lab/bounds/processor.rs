//! Reads the processor time of a thread from `/proc`.

use std::path::PathBuf;
use std::time::Duration;

/// Returns a function that reads the processor time of the calling thread, for any thread. It returns
/// `None` if the system does not report this time.
pub(super) fn clock_of_this_thread() -> impl FnMut() -> Option<Duration> + Send + 'static {
    // The link leads to `PID/task/TID`.
    let thread = std::fs::read_link("/proc/thread-self").ok();
    let file = thread.map(|it| PathBuf::from("/proc").join(it).join("schedstat"));
    move || parse(&std::fs::read_to_string(file.as_ref()?).ok()?)
}

/// Parses `schedstat`, whose first number is the time on a processor in nanoseconds.
fn parse(text: &str) -> Option<Duration> {
    text.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn the_first_number_is_the_time_on_a_processor() {
        assert_eq!(parse("1500000000 7 9\n"), Some(Duration::from_millis(1500)));
        assert_eq!(parse(""), None);
        assert_eq!(parse("-"), None);
    }

    #[test]
    fn the_clock_counts_the_work_of_its_thread_and_not_its_waits() {
        let (send, receive) = mpsc::channel();
        let (release, waits) = mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            let clock = clock_of_this_thread();
            send.send(clock).unwrap();
            // Waits until the test ends.
            let _ = waits.recv();
        });
        let mut theirs = receive.recv().unwrap();
        let mut ours = clock_of_this_thread();
        let (Some(before), Some(at_rest)) = (ours(), theirs()) else {
            eprintln!("this system reports no times of threads; not testing their clock");
            return;
        };
        while ours().is_some_and(|now| now - before < Duration::from_millis(20)) {
            std::hint::spin_loop();
        }
        let waited = theirs().unwrap() - at_rest;
        assert!(waited < Duration::from_millis(10), "{waited:?}");
        drop(release);
        thread.join().unwrap();
    }
}
