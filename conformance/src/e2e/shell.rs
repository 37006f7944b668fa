//! Other people's programs: what they print, and why they failed.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context as _, bail};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

/// A program and its arguments.
#[derive(Debug)]
pub(super) struct Call {
    command: Command,
    words: String,
}

/// A call of a program, by name or path.
pub(super) fn call(program: impl AsRef<OsStr>) -> Call {
    let program = program.as_ref();
    let mut command = Command::new(program);
    command.stdin(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
    // A signal of the terminal is for this program, which cleans up then.
    command.process_group(0);
    Call { command, words: program.to_string_lossy().into_owned() }
}

impl Call {
    /// With an argument.
    pub(super) fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.words.push(' ');
        self.words.push_str(&argument.as_ref().to_string_lossy());
        self.command.arg(argument);
        self
    }

    /// With arguments.
    pub(super) fn args<S: AsRef<OsStr>>(self, arguments: impl IntoIterator<Item = S>) -> Self {
        arguments.into_iter().fold(self, Self::arg)
    }

    /// In this directory.
    pub(super) fn inside(mut self, directory: &Path) -> Self {
        self.command.current_dir(directory);
        self
    }

    /// What it prints. Its steps, on standard error, are this program's.
    pub(super) async fn told(mut self) -> anyhow::Result<String> {
        self.command.stderr(Stdio::inherit());
        self.finish(None).await
    }

    /// What it prints.
    pub(super) async fn output(self) -> anyhow::Result<String> {
        self.finish(None).await
    }

    /// What it prints once it has read this.
    pub(super) async fn with_input(mut self, input: &str) -> anyhow::Result<String> {
        self.command.stdin(Stdio::piped());
        self.finish(Some(input)).await
    }

    /// Whether it succeeds.
    pub(super) async fn succeeds(self) -> bool {
        self.finish(None).await.is_ok()
    }

    async fn finish(self, input: Option<&str>) -> anyhow::Result<String> {
        let Self { mut command, words } = self;
        command.stdout(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("cannot start `{words}`"))?;
        if let (Some(input), Some(mut pipe)) = (input, child.stdin.take()) {
            pipe.write_all(input.as_bytes()).await?;
        }
        let done = child.wait_with_output().await?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        if !done.status.success() {
            let said = [text(&done.stderr), text(&done.stdout)].join("\n");
            let tail: Vec<&str> = said.trim().lines().rev().take(8).collect();
            let tail: Vec<&str> = tail.into_iter().rev().collect();
            bail!("`{words}`: {}: {}", done.status, tail.join(" | "));
        }
        Ok(text(&done.stdout))
    }
}
