//! Runs other programs and returns their output, or an error with the last lines of their output.

use std::ffi::OsStr;
use std::path::Path;
use std::pin::pin;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, bail};
use rustix::process::{Pid, Signal, WaitOptions, kill_process_group, waitpid};
use tokio::io::AsyncWriteExt as _;
use tokio::process::{Child, Command};

use crate::foreign::launch;

/// A program and its arguments, to be run with one of the methods that return its output.
#[derive(Debug)]
pub(super) struct Call {
    command: Command,
    words: String,
}

/// Returns a call of a program, by name or path.
pub(super) fn call(program: impl AsRef<OsStr>) -> Call {
    let program = program.as_ref();
    let mut command = Command::new(program);
    command.stdin(Stdio::null()).stderr(Stdio::piped());
    // Signals of the terminal reach only this program, which then cleans up; see `Group`.
    command.process_group(0);
    Call { command, words: program.to_string_lossy().into_owned() }
}

impl Call {
    /// Adds an argument.
    pub(super) fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.words.push(' ');
        self.words.push_str(&argument.as_ref().to_string_lossy());
        self.command.arg(argument);
        self
    }

    /// Adds arguments.
    pub(super) fn args<S: AsRef<OsStr>>(self, arguments: impl IntoIterator<Item = S>) -> Self {
        arguments.into_iter().fold(self, Self::arg)
    }

    /// Sets the working directory.
    pub(super) fn inside(mut self, directory: &Path) -> Self {
        self.command.current_dir(directory);
        self
    }

    /// Returns a call that the kernel ends together with this program, even if this program is
    /// killed. Use it for programs that would otherwise continue to create containers.
    pub(super) fn bound(program: impl AsRef<OsStr>) -> anyhow::Result<Self> {
        let this = std::env::current_exe()
            .context("cannot find the path of the program conformance; mount /proc")?;
        let process = std::process::id().to_string();
        let mut bound = call(this).args([launch::SUBCOMMAND, &process, "--"]).arg(&program);
        bound.words = program.as_ref().to_string_lossy().into_owned();
        Ok(bound)
    }

    /// Runs the program and returns its standard output, trimmed. The standard error of the program
    /// goes to that of `conformance`, so that the user sees the progress.
    pub(super) async fn output_with_progress(mut self) -> anyhow::Result<String> {
        self.command.stderr(Stdio::inherit());
        self.finish(None).await
    }

    /// Runs the program and returns its standard output, trimmed.
    pub(super) async fn output(self) -> anyhow::Result<String> {
        self.finish(None).await
    }

    /// Runs the program with `input` as its standard input, and returns its standard output,
    /// trimmed.
    pub(super) async fn with_input(mut self, input: &str) -> anyhow::Result<String> {
        self.command.stdin(Stdio::piped());
        self.finish(Some(input)).await
    }

    /// Runs the program; true if it starts and exits with 0.
    pub(super) async fn succeeds(self) -> bool {
        self.finish(None).await.is_ok()
    }

    async fn finish(self, input: Option<&str>) -> anyhow::Result<String> {
        let Self { mut command, words } = self;
        command.stdout(Stdio::piped());
        let mut child = command.spawn().with_context(|| {
            format!("cannot start `{words}`; check that the program is in a folder of PATH")
        })?;
        let group = Group::led_by(&child);
        if let (Some(input), Some(mut pipe)) = (input, child.stdin.take()) {
            // Ignores an error: a program that does not read all its input reports the reason when
            // it ends.
            let _ = pipe.write_all(input.as_bytes()).await;
        }
        let mut done = pin!(child.wait_with_output());
        // Makes `group` drop before `done`, which holds the pipes. If the pipes closed first, a
        // shell that reports a killed command would get SIGPIPE before it cleans up.
        let mut group = group;
        let done = done.as_mut().await?;
        group.has_ended();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        if !done.status.success() {
            let said = [text(&done.stderr), text(&done.stdout)].join("\n");
            let tail: Vec<&str> = said.trim().lines().rev().take(8).collect();
            let tail: Vec<&str> = tail.into_iter().rev().collect();
            bail!("`{words}` failed with {}: {}", done.status, tail.join(" | "));
        }
        Ok(text(&done.stdout))
    }
}

/// The process group of a started program. Dropping it before the program has ended sends SIGTERM
/// to the whole group, so that scripts clean up, and SIGKILL once the program has ended or after
/// [`GRACE`].
struct Group(Option<Pid>);

/// Maximum time for the cleanup of a script after SIGTERM.
const GRACE: Duration = Duration::from_secs(20);

impl Group {
    fn led_by(child: &Child) -> Self {
        Self(child.id().and_then(|it| Pid::from_raw(i32::try_from(it).ok()?)))
    }

    fn has_ended(&mut self) {
        self.0 = None;
    }

    /// True if the program itself, whose process ID is that of the group, still runs. Does not
    /// check its children, which may stay zombies for ever if no process reaps orphans.
    fn is_left(group: Pid) -> bool {
        matches!(waitpid(Some(group), WaitOptions::NOHANG), Ok(None))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let Some(group) = self.0 else { return };
        let _ = kill_process_group(group, Signal::TERM);
        let step = Duration::from_millis(100);
        // Waits for the end of the program, because the caller then removes what the program has
        // left.
        let mut waited = Duration::ZERO;
        while Self::is_left(group) && waited < GRACE {
            std::thread::sleep(step);
            waited += step;
        }
        let _ = kill_process_group(group, Signal::KILL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Dropping a call returns only after its script, which gets SIGTERM, has cleaned up.
    #[tokio::test]
    async fn dropping_a_call_waits_until_its_script_has_cleaned_up() {
        let folder = tempfile::tempdir().unwrap();
        let (begun, cleaned) = (folder.path().join("begun"), folder.path().join("cleaned"));
        let script = format!(
            "trap 'touch {}; exit 1' TERM; touch {}; sleep 1000 & wait",
            cleaned.display(),
            begun.display()
        );
        let work = call("sh").args(["-c", &script]).output();
        let has_begun = async {
            while !begun.exists() {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            done = work => panic!("{done:?}"),
            () = has_begun => {}
        }
        assert!(cleaned.exists());
    }

    #[tokio::test]
    async fn a_program_that_does_not_read_its_input_reports_its_own_error() {
        let input = "x".repeat(1 << 20);
        let error = call("sh").args(["-c", "echo no >&2; exit 3"]).with_input(&input).await;
        let error = error.unwrap_err().to_string();
        assert!(error.contains("no") && error.contains('3'), "{error}");
    }
}
