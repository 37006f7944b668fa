//! Detects changes of the configuration file.
//!
//! Upstream watches the path with inotify and ends the process at once, without ending sessions and lease
//! (`cloud-provider-vsphere: cmd/vsphere-cloud-controller-manager/main.go`, `initializeWatch`). This provider compares
//! the content, because a mounted ConfigMap changes by a link elsewhere, which a watch on the file does not see. A text
//! with which the provider could not start has no effect.

use std::time::Duration;

/// Number of failed reads in a row after which a file counts as missing rather than as being replaced.
const MAX_UNREAD: u32 = 5;

/// Waits until `read` returns a text other than `first` that `check` accepts.
///
/// Reads once per `every`. A text that `check` refuses is logged once and has no effect, and neither has a failure to
/// read: a file may be half written, or be replaced at this moment. A file that stays unreadable is logged, too.
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
                // The file may be replaced at this moment.
                if n_unread == MAX_UNREAD {
                    tracing::error!(error = %what, "a file is no longer readable; keeping its last content");
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
                tracing::error!(error = %what, "the changed configuration is not usable; keeping the old one");
                refused = Some(text);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Seconds after which the change is noticed, for a file with these contents second by second.
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
        assert!(*checks.lock().unwrap() <= 2, "each text is judged once");
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
