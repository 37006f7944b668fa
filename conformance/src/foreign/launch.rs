//! Starts a provider so that it ends with this program, even if this program is killed.
//!
//! The kernel kills a process whose parent has ended if the process asked for it. Other programs do not ask, so this
//! program is started in their place with a hidden subcommand: it asks, and then becomes the provider. The kernel
//! counts the starting thread as the parent, and threads of a runtime come and go. So one permanent thread starts all
//! processes.

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

/// Name of the hidden subcommand.
pub const SUBCOMMAND: &str = "launch";

/// Beginning of the error if the provider cannot be started.
const CANNOT: &str = "cannot start ";

/// Starts processes from a thread of its own, which ends with the last clone of this value.
#[derive(Clone, Debug)]
pub struct Launcher {
    program: PathBuf,
    orders: mpsc::Sender<Order>,
}

struct Order {
    command: Command,
    runtime: Handle,
    reply: oneshot::Sender<std::io::Result<Child>>,
}

impl Launcher {
    /// Makes a launcher that starts every program through `program`: the running program itself, which becomes the
    /// wanted one when it is called with [`SUBCOMMAND`].
    ///
    /// # Errors
    /// Fails if the thread cannot be started.
    pub fn new(program: PathBuf) -> std::io::Result<Self> {
        let (orders, received) = mpsc::channel::<Order>();
        std::thread::Builder::new().name("launcher".to_owned()).spawn(move || {
            for Order { mut command, runtime, reply } in received {
                let _inside = runtime.enter();
                // If the caller no longer waits, the child is dropped and thereby killed.
                let _ = reply.send(command.spawn());
            }
        })?;
        Ok(Self { program, orders })
    }

    /// Returns the command that becomes `program`.
    pub(super) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(&self.program);
        command.arg(SUBCOMMAND).arg(std::process::id().to_string()).arg("--").arg(program);
        command.kill_on_drop(true);
        command
    }

    /// Starts a command.
    ///
    /// Cancel safe: a child whose caller no longer waits is killed.
    pub(super) async fn spawn(&self, command: Command) -> anyhow::Result<Child> {
        let (reply, answer) = oneshot::channel();
        let order = Order { command, runtime: Handle::current(), reply };
        self.orders.send(order).ok().context("the launcher has ended")?;
        Ok(answer.await.context("the launcher has ended")??)
    }
}

/// Returns the reason why the provider was not started, if a line of its log contains one.
pub(super) fn refusal(line: &str) -> Option<String> {
    // `docker run` reports in this form that it cannot start a container.
    if let Some(why) = line.strip_prefix("docker: ") {
        return Some(format!("docker: {why}"));
    }
    let why = line.strip_prefix("error: ")?;
    why.starts_with(CANNOT).then(|| why.to_owned())
}

/// Becomes a program that is killed when `parent` ends. Returns only on failure.
///
/// # Errors
/// Returns the reason of the failure.
pub fn become_program(parent: i32, command: &[OsString]) -> anyhow::Result<ExitCode> {
    let [program, arguments @ ..] = command else { bail!("which program?") };
    Err(replaced(parent, program, arguments).context(format!("{CANNOT}{}", program.display())))
}

/// Replaces this program and returns only the error.
fn replaced(parent: i32, program: &OsStr, arguments: &[OsString]) -> anyhow::Error {
    if let Err(error) = set_parent_process_death_signal(Some(Signal::KILL)) {
        return anyhow!("the kernel does not watch the driver: {error}");
    }
    // The parent may have ended before the kernel got the request.
    if getppid() != Pid::from_raw(parent) {
        return anyhow!("the driver has ended");
    }
    std::process::Command::new(program).args(arguments).exec().into()
}
