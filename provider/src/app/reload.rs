//! Detects changes of the configuration file.
//!
//! Upstream watches the path with inotify and ends the process at once, without ending sessions and
//! lease (`cloud-provider-vsphere: cmd/vsphere-cloud-controller-manager/main.go`,
//! `initializeWatch`). This provider compares the content of the file. A mounted ConfigMap changes
//! through a symbolic link in a parent directory, which a watch on the file does not notice. A new
//! text with which the provider could not start has no effect.

use std::time::Duration;

/// Number of failed reads in a row after which the provider logs that a file is not readable. Fewer
/// failures may mean that the file is just being replaced.
const MAX_UNREAD: u32 = 5;

/// Waits until `read` returns a text other than `first` that `check` accepts.
///
/// Reads once per `every`. A text that `check` refuses has no effect, because the file may be half
/// written; the function logs it once. A failed read has no effect either, because the file may
/// just be replaced; the function logs the fifth failure in a row.
///
/// Cancel safe.
pub async fn configuration_changed(
    first: &str,
    every: Duration,
    read: impl AsyncFn() -> Result<String, String>,
    check: impl Fn(&str) -> Result<(), String>,
) {
    let mut refused: Option<String> = None;
    let mut n_unread = 0_u32;
    loop {
        tokio::time::sleep(every).await;
        let text = match read().await {
            Ok(text) => text,
            Err(what) => {
                n_unread = n_unread.saturating_add(1);
                // Fewer failures mean that the file may just be replaced.
                if n_unread == MAX_UNREAD {
                    tracing::error!(error = %what, "cannot read a watched file any more; the provider keeps running with the last content");
                }
                continue;
            }
        };
        n_unread = 0;
        if text == first {
            refused = None;
            continue;
        }
        if refused.as_ref() == Some(&text) {
            continue;
        }
        match check(&text) {
            Ok(()) => return,
            Err(what) => {
                tracing::error!(error = %what, "the changed configuration is invalid; keeping the old configuration");
                refused = Some(text);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Returns the seconds after which the function notices a change of a file that has these
    /// contents, one per second, and then the old content; `None` if it notices none within 60 s.
    async fn noticed_after(contents: &[Result<&str, &str>]) -> Option<usize> {
        let (reads, checks) = (Mutex::new(0), Mutex::new(0));
        let read = async || {
            let n = &mut *reads.lock().unwrap();
            *n += 1;
            let content = contents.get(*n - 1).unwrap_or(&Ok("old"));
            content.map(str::to_owned).map_err(str::to_owned)
        };
        let check = |text: &str| {
            *checks.lock().unwrap() += 1;
            if text.starts_with("bad") { Err("unusable".to_owned()) } else { Ok(()) }
        };
        let changed = configuration_changed("old", Duration::from_secs(1), read, check);
        let limit = Duration::from_secs(60);
        let noticed = tokio::time::timeout(limit, changed).await.is_ok();
        assert!(*checks.lock().unwrap() <= 2, "the same text was checked again");
        noticed.then_some(*reads.lock().unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn a_configuration_change_is_noticed_only_if_the_new_text_is_usable() {
        let gone = Err("no such file");
        for (name, contents, want) in [
            ("nothing happens", &[][..], None),
            ("a new text", &[Ok("old"), Ok("new")], Some(2)),
            ("gone for a while", &[gone, gone, Ok("old")], None),
            ("replaced", &[gone, Ok("new")], Some(2)),
            ("unusable", &[Ok("bad"), Ok("bad"), Ok("old")], None),
            ("half written at first", &[Ok("bad"), Ok("bad"), Ok("new")], Some(3)),
            ("unusable twice", &[Ok("bad 1"), Ok("bad 2"), Ok("old")], None),
        ] {
            assert_eq!(noticed_after(contents).await, want, "{name}");
        }
    }
}
