//! Our server over the vCenter of a sim: a template, a tag and the journal.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use provider::{
    AutoscalerBackend, AutoscalerJournal, Clock, Config, InputError, JournalError, JournalStore,
    UnknownKeys, VcenterLink, from_service,
};
use sim::Sim;
use sim::faults::{Action, Rule};
use sim::world::vcenter::{Cardinality, Category, MachineSpec, Tag};
use sim::world::{Command, Completion, PROVIDER_USER, Step, VcRequest, World};

/// Name of the only vCenter.
const VCENTER: &str = "vc0";
/// Name of the machine that the groups clone.
const TEMPLATE: &str = "ubuntu";

/// Groups for the checks, as those over the Supervisor.
pub(super) const GROUPS: &str = "groups:
- name: pool
  max: 60
  clone: &clone
    datacenter: DC0
    template: ubuntu
    folder: /DC0/vm
    resourcePool: DC0_C0/Resources
    tag: nodes/autoscaled
    bootstrap: {file: user-data}
- {name: pair, min: 1, max: 3, clone: *clone}
- {name: gpu, max: 2, clone: *clone, gpu: {resource: nvidia.com/gpu, type: a100, count: 1}}
- {name: tuned, max: 2, clone: *clone, options: {scaleDownUnneededTime: 77s}}
";

/// A journal in memory, which outlives the processes of the server.
#[derive(Clone, Default)]
pub struct MemoryJournal(Arc<Content>);

#[derive(Default)]
struct Content {
    text: Mutex<Option<String>>,
    is_refusing: AtomicBool,
    /// True if writes take effect and fail nevertheless, as if their answers were lost.
    loses_answers: AtomicBool,
    /// Duration of a write in milliseconds.
    write_time: AtomicU64,
    /// Number of writes.
    n_writes: AtomicUsize,
}

impl MemoryJournal {
    /// Returns the text of the journal.
    pub fn text(&self) -> Option<String> {
        self.0.text.lock().expect("no holder panics").clone()
    }

    /// Replaces the journal, or removes it.
    pub fn set(&self, text: Option<String>) {
        *self.0.text.lock().expect("no holder panics") = text;
    }

    /// Makes writes fail, or not.
    pub fn refuse(&self, is_refusing: bool) {
        self.0.is_refusing.store(is_refusing, Ordering::Relaxed);
    }

    /// Makes writes take effect and fail nevertheless, or not.
    pub fn lose_answers(&self, loses_answers: bool) {
        self.0.loses_answers.store(loses_answers, Ordering::Relaxed);
    }

    /// Makes each write take this time, half of it before the write takes effect and half after. Parts
    /// of a millisecond do not count.
    pub fn slow_down(&self, write_time: Duration) {
        let millis = u64::try_from(write_time.as_millis()).unwrap_or(u64::MAX);
        self.0.write_time.store(millis, Ordering::Relaxed);
    }

    /// Returns the number of writes.
    pub fn n_writes(&self) -> usize {
        self.0.n_writes.load(Ordering::Relaxed)
    }
}

#[provider::async_trait]
impl JournalStore for MemoryJournal {
    fn place(&self) -> String {
        "--journal memory".to_owned()
    }

    async fn read(&self) -> Result<Option<String>, InputError> {
        Ok(self.text())
    }

    async fn write(&self, text: &str) -> Result<(), JournalError> {
        if self.0.is_refusing.load(Ordering::Relaxed) {
            return Err(JournalError::Failed("the lab refuses the write".to_owned()));
        }
        let half = Duration::from_millis(self.0.write_time.load(Ordering::Relaxed)) / 2;
        tokio::time::sleep(half).await;
        self.set(Some(text.to_owned()));
        self.0.n_writes.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(half).await;
        if self.0.loses_answers.load(Ordering::Relaxed) {
            return Err(JournalError::Failed("the lab loses the answer".to_owned()));
        }
        Ok(())
    }
}

/// Creates the template and the tag.
///
/// # Errors
///
/// If the sim refuses them.
pub(super) fn furnish(sim: &Sim) -> Result<(), String> {
    make_template(sim)?;
    let request = |request| {
        let command = Command::Request { vcenter: VCENTER.to_owned(), request };
        sim.apply(command).map(|applied| applied.outcome).map_err(|err| format!("{err:?}"))
    };
    let category = Category {
        name: "nodes".to_owned(),
        description: String::new(),
        cardinality: Cardinality::Multiple,
        associable_types: Vec::new(),
    };
    let sim::world::Outcome::Id(category) = request(VcRequest::CreateCategory(category))? else {
        return Err("the sim made no category".to_owned());
    };
    let (name, description) = ("autoscaled".to_owned(), String::new());
    request(VcRequest::CreateTag(Tag { category, name, description })).map(drop)
}

fn make_template(sim: &Sim) -> Result<(), String> {
    let spec = MachineSpec {
        name: Some(TEMPLATE.to_owned()),
        cpus: Some(4),
        memory_mib: Some(8192),
        ..MachineSpec::default()
    };
    let command = Command::CreateMachine {
        vcenter: None,
        spec,
        cluster: None,
        power_on: false,
        kubelet: false,
    };
    sim.apply(command).map(drop).map_err(|err| format!("{err:?}"))
}

/// Returns the backend of a process of the server.
///
/// # Errors
///
/// If the sim has no such vCenter, or the journal cannot be used.
pub(super) async fn backend(
    sim: &Sim,
    journal: &MemoryJournal,
    clock: &Clock,
    seed: u64,
) -> Result<AutoscalerBackend, String> {
    let server = sim.vcenter(VCENTER).ok_or("the sim has no vCenter")?;
    let password = sim.password(VCENTER, PROVIDER_USER).ok_or("the account has no password")?;
    let text = format!(
        "global: {{server: {VCENTER}, user: {PROVIDER_USER}, password: {:?}}}",
        password.expose()
    );
    let parsed = Config::parse("vsphere.conf", &text, UnknownKeys::Refuse);
    let (mut config, _) = parsed.map_err(|err| err.to_string())?;
    let opened = AutoscalerJournal::open(Arc::new(journal.clone()), clock, seed).await;
    let link = VcenterLink {
        config: config.vcenters.remove(0),
        transport: from_service(server.service(super::AGENT)),
        cluster: None,
        secret_files: None,
    };
    Ok(AutoscalerBackend::Vcenter {
        link: Box::new(link),
        journal: opened.map_err(|err| err.to_string())?,
        read_bootstrap: Arc::new(|_| Ok(b"#cloud-config".to_vec())),
        tokens: None,
    })
}

/// Returns the rule that makes clones fail with a fault.
pub(super) fn failing_clones(class: &str) -> Rule {
    Rule::new("clones", [Action::soap_fault(class)]).on(sim::Face::Soap).op(["CloneVM_Task"])
}

/// Removes the template, so that clones fail.
pub(super) fn remove_template(sim: &Sim) -> Result<(), String> {
    sim.apply(Command::DeleteMachine(TEMPLATE.into())).map(drop).map_err(|err| format!("{err:?}"))
}

/// Makes tasks never end, or end as usual.
pub(super) fn hold_tasks(sim: &Sim, is_held: bool) -> Result<(), String> {
    let completion = match is_held {
        true => Completion::WhenTold,
        false => Completion::After(Duration::from_millis(500)),
    };
    let set = Command::SetTiming { step: Step::Task, completion };
    sim.apply(set).map_err(|err| format!("{err:?}"))?;
    if !is_held {
        let tell = Command::Tell { step: Some(Step::Task), machine: None };
        sim.apply(tell).map_err(|err| format!("{err:?}"))?;
    }
    Ok(())
}

/// Ends each act that lasts.
pub(super) fn release(sim: &Sim, journal: &MemoryJournal) -> Result<(), String> {
    journal.refuse(false);
    hold_tasks(sim, false)?;
    let exists = sim.world().read(|world| {
        let state = World::state(world);
        let vcenter = state.vcenter(VCENTER);
        vcenter.is_some_and(|it| it.inventory.by_machine_name(TEMPLATE).next().is_some())
    });
    if exists { Ok(()) } else { make_template(sim) }
}

/// Destroys the machine of an instance.
pub(super) fn destroy(sim: &Sim, id: &str) -> Result<(), String> {
    let uuid = id.trim_start_matches("vsphere://");
    let name = sim.world().read(|world| {
        let state = World::state(world);
        let machines = state.vcenter(VCENTER)?.inventory.machines();
        let mut found =
            machines.filter(|(_, _, it)| it.config.uuid.is_some_and(|it| it.to_string() == uuid));
        found.next().map(|(_, entity, _)| entity.name.clone())
    });
    let name = name.ok_or_else(|| format!("no machine has the ID {id}"))?;
    let command = Command::DeleteMachine(name.as_str().into());
    sim.apply(command).map(drop).map_err(|err| format!("{err:?}"))
}
