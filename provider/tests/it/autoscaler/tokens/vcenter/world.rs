//! A sim with a template in a vCenter and a workload cluster, for a server over the vCenter.

use std::sync::{Arc, Mutex};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use provider::{
    AutoscalerBackend, AutoscalerDeps, AutoscalerJournal, BootstrapTokens, Clock, Config,
    GroupsSource, InputError, JournalError, JournalStore, Telemetry, UnknownKeys, VcenterLink,
    from_service,
};
use sim::{
    Identity, RuleGuard, Sim,
    faults::{Action, Rule},
    world::{Command, PROVIDER_USER, Retain, Topology, vcenter::MachineSpec},
};
use tokio_util::sync::CancellationToken;

use super::super::{
    super::world::Server,
    world::{ADMIN, ROLES, TOKEN, USER_DATA, WORKLOAD, World, client, random, user},
};
use crate::capacity::s;

pub(super) const GROUP: &str = "vcenter/workers";
const VCENTER: &str = "vc0";
pub(super) const GROUPS: &str = "groups:
- name: workers
  max: 10
  clone:
    datacenter: DC0
    template: ubuntu
    folder: /DC0/vm
    resourcePool: DC0_C0/Resources
    bootstrap: {file: user-data, token: {ttl: 1h}}
";

/// Role for events about clones.
const EVENTS_ROLE: &str = include_str!("../../../../../deploy/autoscaler-events-role.yaml");

/// A journal in memory, which outlives the processes of the server.
#[derive(Clone, Default)]
pub(super) struct Journal(Arc<Mutex<Option<String>>>);

impl Journal {
    pub(super) fn text(&self) -> String {
        self.0.lock().unwrap().clone().unwrap_or_default()
    }
}

#[provider::async_trait]
impl JournalStore for Journal {
    fn place(&self) -> String {
        "--journal memory".to_owned()
    }

    async fn read(&self) -> Result<Option<String>, InputError> {
        Ok(self.0.lock().unwrap().clone())
    }

    async fn write(&self, text: &str) -> Result<(), JournalError> {
        *self.0.lock().unwrap() = Some(text.to_owned());
        Ok(())
    }
}

/// A world of clones, and what the server knows of it.
pub(super) struct Clones {
    pub(super) world: World,
    pub(super) journal: Journal,
    user_data: Arc<Mutex<Vec<u8>>>,
}

impl Clones {
    pub(super) async fn new() -> Self {
        let topology = Topology::zones(1).machines(0);
        let sim = Sim::builder().topology(topology).retain(Retain::Everything).start();
        sim.tokens().issue(TOKEN, user(), None);
        sim.tokens().issue(ADMIN, Identity::admin(), None);
        sim.access().require_rbac();
        let template = MachineSpec {
            name: Some("ubuntu".to_owned()),
            cpus: Some(4),
            memory_mib: Some(8192),
            ..MachineSpec::default()
        };
        let create = Command::CreateMachine {
            vcenter: None,
            spec: template,
            cluster: None,
            power_on: false,
            kubelet: false,
        };
        sim.apply(create).unwrap();
        let workload = client(sim.cluster().service("test"), ADMIN);
        let groups = Arc::new(Mutex::new(GROUPS.to_owned()));
        let world = World { sim, groups, supervisor: workload.clone(), workload };
        world.grant(ROLES[2], false).await;
        world.grant(EVENTS_ROLE, false).await;
        let user_data = Arc::new(Mutex::new(USER_DATA.as_bytes().to_vec()));
        Self { world, journal: Journal::default(), user_data }
    }

    pub(super) fn set_user_data(&self, data: &[u8]) {
        *self.user_data.lock().unwrap() = data.to_vec();
    }

    /// Keeps machines off after their clone, until the guard is dropped.
    pub(super) fn keep_off(&self) -> RuleGuard {
        self.soap_fault("PowerOnVM_Task", Action::soap_fault("TaskInProgress"))
    }

    pub(super) fn soap_fault(&self, op: &str, action: Action) -> RuleGuard {
        let rule = Rule::new(format!("{op} fails"), [action]).on(sim::Face::Soap);
        self.world.sim.fault(rule.op([op])).unwrap()
    }

    /// Returns name and decoded user data of each clone.
    pub(super) fn clones(&self) -> Vec<(String, String)> {
        let state = self.world.sim.world().read(|world| sim::world::World::state(world).clone());
        let all = state.vcenter(VCENTER).unwrap().inventory.machines();
        let mut clones: Vec<(String, String)> = all
            .filter(|(_, entity, _)| entity.name != "ubuntu")
            .map(|(_, entity, it)| {
                let data = it.config.extra.get("guestinfo.userdata").cloned().unwrap_or_default();
                let data = String::from_utf8(STANDARD.decode(data).unwrap()).unwrap();
                (entity.name.clone(), data)
            })
            .collect();
        clones.sort();
        clones
    }

    /// Returns the number of calls of an operation.
    pub(super) fn n_calls(&self, op: &str) -> usize {
        self.world.sim.ledger().records().iter().filter(|it| it.op == op).count()
    }

    /// Returns the number of requests of the server to the workload cluster.
    pub(super) fn n_requests(&self) -> usize {
        let records = self.world.sim.ledger().records();
        records.iter().filter(|it| it.client.client == WORKLOAD).count()
    }

    pub(super) async fn start(&self, seed: u64) -> Server {
        self.start_with(seed, true).await
    }

    /// Starts a process of the server, with or without workload cluster.
    pub(super) async fn start_with(&self, seed: u64, has_workload: bool) -> Server {
        let (sim, clock) = (&self.world.sim, Clock::starting_at(self.world.now()));
        let password = sim.password(VCENTER, PROVIDER_USER).unwrap();
        let text = format!(
            "global: {{server: {VCENTER}, user: {PROVIDER_USER}, password: {:?}}}",
            password.expose()
        );
        let (mut config, _) = Config::parse("f", &text, UnknownKeys::Refuse).unwrap();
        let link = VcenterLink {
            config: config.vcenters.remove(0),
            transport: from_service(sim.vcenter(VCENTER).unwrap().service("autoscaler")),
            cluster: Some(client(sim.cluster().service("events"), TOKEN)),
            secret_files: None,
        };
        let journal = AutoscalerJournal::open(Arc::new(self.journal.clone()), &clock, seed).await;
        let (data, groups) = (Arc::clone(&self.user_data), Arc::clone(&self.world.groups));
        let read = move || Ok(("groups.yaml".to_owned(), groups.lock().unwrap().clone()));
        let deps = AutoscalerDeps {
            backend: AutoscalerBackend::Vcenter {
                link: Box::new(link),
                journal: journal.unwrap(),
                read_bootstrap: Arc::new(move |_| Ok(data.lock().unwrap().clone())),
                tokens: has_workload.then(|| BootstrapTokens {
                    client: client(sim.cluster().service(WORKLOAD), TOKEN),
                    random: random(seed),
                }),
            },
            groups: Some(GroupsSource::File(Arc::new(read))),
            tls: None,
            gpu_label: String::new(),
            telemetry: Arc::new(Telemetry::of_autoscaler()),
            clock,
            seed,
            grace: AutoscalerDeps::GRACE,
            stop: CancellationToken::new(),
        };
        Server::started(deps, s(5)).await
    }
}
