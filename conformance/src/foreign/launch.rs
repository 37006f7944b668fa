//! Starting a provider so that it does not outlive this program, not even if this is killed.
//!
//! The kernel kills a process whose parent has ended if the process asked for it. Foreign programs do not ask, so this
//! program is started in their place, with a hidden subcommand: it asks, and becomes the provider. What counts as the
//! parent is the thread that started it, and workers of a runtime come and go. One thread starts them all, and stays.

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

/// The hidden subcommand.
pub const SUBCOMMAND: &str = "launch";

/// How what it writes begins if the provider cannot be started.
const CANNOT: &str = "cannot start ";

/// Starts processes from a thread of its own, which ends with the last of its clones.
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
    /// One that has this program, `conformance`, become what it starts.
    ///
    /// # Errors
    /// No thread can be had.
    pub fn new(program: PathBuf) -> std::io::Result<Self> {
        let (orders, received) = mpsc::channel::<Order>();
        std::thread::Builder::new().name("launcher".to_owned()).spawn(move || {
            for Order { mut command, runtime, reply } in received {
                let _inside = runtime.enter();
                // A child that nobody waits for any more is killed as it is dropped.
                let _ = reply.send(command.spawn());
            }
        })?;
        Ok(Self { program, orders })
    }

    /// The command that becomes this one.
    pub(super) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(&self.program);
        command.arg(SUBCOMMAND).arg(std::process::id().to_string()).arg("--").arg(program);
        command.kill_on_drop(true);
        command
    }

    /// Starts it.
    ///
    /// Cancel safe: what was started for nobody is killed.
    pub(super) async fn spawn(&self, command: Command) -> anyhow::Result<Child> {
        let (reply, answer) = oneshot::channel();
        let order = Order { command, runtime: Handle::current(), reply };
        self.orders.send(order).ok().context("the launcher has ended")?;
        Ok(answer.await.context("the launcher has ended")??)
    }
}

/// Why the provider was not started, if a line of its log says that.
pub(super) fn refusal(line: &str) -> Option<String> {
    // What `docker run` says of a container that it cannot have.
    if let Some(why) = line.strip_prefix("docker: ") {
        return Some(format!("docker: {why}"));
    }
    let why = line.strip_prefix("error: ")?;
    why.starts_with(CANNOT).then(|| why.to_owned())
}

/// Becomes a program that is killed when `parent` ends. Returns only if that cannot be.
///
/// # Errors
/// Why not.
pub fn become_program(parent: i32, command: &[OsString]) -> anyhow::Result<ExitCode> {
    let [program, arguments @ ..] = command else { bail!("which program?") };
    Err(replaced(parent, program, arguments).context(format!("{CANNOT}{}", program.display())))
}

/// Why this program was not replaced by the other.
fn replaced(parent: i32, program: &OsStr, arguments: &[OsString]) -> anyhow::Error {
    if let Err(error) = set_parent_process_death_signal(Some(Signal::KILL)) {
        return anyhow!("the kernel does not watch the driver: {error}");
    }
    // It may have ended before the kernel was told.
    if getppid() != Pid::from_raw(parent) {
        return anyhow!("the driver has ended");
    }
    std::process::Command::new(program).args(arguments).exec().into()
}
