//! Starts a provider so that it ends with this program, even if this program is killed.
//!
//! The kernel kills a process when its parent ends, if the process has requested that. Providers
//! do not request it. So the driver starts this program again in place of the provider, with a
//! hidden subcommand that makes the request and then replaces itself by the provider
//! (`exec`). The kernel counts the thread that started a process as its parent, and threads of a
//! runtime come and go. So one permanent thread starts all processes.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc;

use anyhow::{Context as _, anyhow, bail};
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
use tokio::process::{Child, Command};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// Name of the hidden subcommand that becomes the provider.
pub const SUBCOMMAND: &str = "launch";

/// Beginning of the error that the hidden subcommand prints if it cannot start the provider.
const CANNOT: &str = "cannot start ";

/// Starts processes from one thread, which ends with the last clone of this value.
#[derive(Clone, Debug)]
pub struct Launcher {
    program: PathBuf,
    orders: mpsc::Sender<LaunchOrder>,
}

struct LaunchOrder {
    command: Command,
    runtime: Handle,
    reply: oneshot::Sender<std::io::Result<Child>>,
}

impl Launcher {
    /// Makes a launcher that starts every program through `program`: the path of the running
    /// program itself, which becomes another program when it is started with [`SUBCOMMAND`].
    ///
    /// # Errors
    /// Fails if the thread cannot be started.
    pub fn new(program: PathBuf) -> std::io::Result<Self> {
        let (orders, received) = mpsc::channel::<LaunchOrder>();
        std::thread::Builder::new().name("launcher".to_owned()).spawn(move || {
            for LaunchOrder { mut command, runtime, reply } in received {
                let _inside = runtime.enter();
                // If the caller no longer waits, the child is dropped and thereby killed.
                let _ = reply.send(command.spawn());
            }
        })?;
        Ok(Self { program, orders })
    }

    /// Returns a command that starts this program and becomes `program`.
    pub(in crate::foreign) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(&self.program);
        command.arg(SUBCOMMAND).arg(std::process::id().to_string()).arg("--").arg(program);
        command.kill_on_drop(true);
        command
    }

    /// Starts a command from the launcher's thread.
    ///
    /// Cancel safe: if the caller no longer waits, the child is killed.
    pub(in crate::foreign) async fn spawn(&self, command: Command) -> anyhow::Result<Child> {
        let (reply, answer) = oneshot::channel();
        let order = LaunchOrder { command, runtime: Handle::current(), reply };
        self.orders.send(order).ok().context(
            "the thread that starts processes has ended; report this bug of conformance",
        )?;
        Ok(answer.await.context(
            "the thread that starts processes has ended; report this bug of conformance",
        )??)
    }
}

/// Returns the reason why the provider could not be started, if this line of its log has one.
pub(in crate::foreign) fn refusal(line: &str) -> Option<String> {
    // `docker run` reports in this form that it cannot start a container.
    if let Some(why) = line.strip_prefix("docker: ") {
        return Some(format!("docker: {why}"));
    }
    let why = line.strip_prefix("error: ")?;
    why.starts_with(CANNOT).then(|| why.to_owned())
}

/// Replaces this process by the program `command`, which the kernel kills when the process `parent`
/// ends. Returns only on failure.
///
/// # Errors
/// Returns the reason of the failure.
pub fn become_program(parent: i32, command: &[OsString]) -> anyhow::Result<ExitCode> {
    let [program, arguments @ ..] = command else {
        bail!(
            "expected a program after `launch PID --`; only conformance itself calls this subcommand"
        )
    };
    Err(replaced(parent, program, arguments).context(format!("{CANNOT}{}", program.display())))
}

/// Replaces this process by a program that the kernel kills when the process `parent` ends. Returns
/// only on failure, with the error. If `parent` has ended already, fails and does not start the
/// program.
fn replaced(parent: i32, program: &OsStr, arguments: &[OsString]) -> anyhow::Error {
    if let Err(error) = set_parent_process_death_signal(Some(Signal::KILL)) {
        return anyhow!(
            "cannot ask the kernel to kill this program when conformance ends: {error}"
        );
    }
    // The parent may have ended before the kernel received the request.
    if getppid() != Pid::from_raw(parent) {
        return anyhow!("conformance, which started this program, has ended");
    }
    std::process::Command::new(program).args(arguments).exec().into()
}
