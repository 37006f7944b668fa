//! Our reconciler in this process, and our reader of groups.

use futures::future::{BoxFuture, FutureExt as _};
use provider::scale_from_zero::{
    GroupObjects, GroupTemplate, NodeTemplate, ReaderSettings, read_group,
};
use provider::{CapacityDeps, CapacityPanicked, CapacitySettings};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::definitions::Definitions;
use super::management::Management;
use super::reader::{Driver, GroupReading, NodeReading, Reader, Taint};
use super::subject::{
    Change, Configuration, Expected, NotStarted, Reconciler, Running, Sample, Server, TemplateKind,
};

/// Our reconciler of templates of vSphere.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ours {
    /// Seed of every random draw.
    pub seed: u64,
}

struct RunningOurs {
    stop: CancellationToken,
    task: AbortOnDropHandle<Result<(), CapacityPanicked>>,
}

impl TemplateKind {
    /// Returns the kind of a Supervisor's templates, with the samples of checks. The definitions
    /// include the templates for vCenter and the groups of Cluster API.
    pub fn of_supervisor() -> Self {
        let version = "vmoperator.vmware.com/v1alpha6";
        let class = |name: &str, cpus: u32, memory: &str| {
            json!({
                "apiVersion": version, "kind": "VirtualMachineClass", "metadata": {"name": name},
                "spec": {"hardware": {"cpus": cpus, "memory": memory}},
            })
        };
        let image = |name: &str, arch: &str, system: &str| {
            let properties = json!([
                {"key": "vmware-system.tkr.os-arch", "value": arch},
                {"key": "vmware-system.tkr.os-type", "value": system},
            ]);
            json!({
                "apiVersion": version, "kind": "ClusterVirtualMachineImage",
                "metadata": {"name": name}, "spec": {},
                "status": {"vmwareSystemProperties": properties},
            })
        };
        let spec = |class: &str, image: &str| json!({"template": {"spec": {"className": class, "imageName": image}}});
        let linux = [("architecture", "amd64"), ("operatingSystem", "linux")];
        let windows = [("architecture", "arm64"), ("operatingSystem", "windows")];
        let first = Sample {
            objects: vec![class("small", 4, "8Gi"), image("vmi-1", "amd64", "linux")],
            spec: spec("small", "vmi-1"),
            status: Expected::new(&[("cpu", "4"), ("memory", "8Gi")], &linux),
        };
        let second = Sample {
            objects: vec![class("big", 16, "65536Mi"), image("vmi-2", "arm64", "windows")],
            spec: spec("big", "vmi-2"),
            status: Expected::new(&[("cpu", "16"), ("memory", "64Gi")], &windows),
        };
        let object = json!({
            "apiVersion": version, "kind": "VirtualMachineClass", "metadata": {"name": "small"},
            "spec": {"hardware": {"cpus": 6}},
        });
        let status = Expected::new(&[("cpu", "6"), ("memory", "8Gi")], &linux);
        Self {
            server: Server::Supervisor,
            definitions: Definitions::ours(),
            api_version: "vmware.infrastructure.cluster.x-k8s.io/v1beta2".to_owned(),
            kind: "VSphereMachineTemplate".to_owned(),
            samples: vec![first, second],
            change: Some(Change { spec: None, object: Some(object), status }),
        }
    }
}

impl Reconciler for Ours {
    fn start<'a>(
        &'a self,
        management: &'a Management,
        configuration: &'a Configuration,
    ) -> BoxFuture<'a, Result<Box<dyn Running>, NotStarted>> {
        let seed = self.seed;
        Box::pin(async move {
            let client = management.reconciler_client().map_err(NotStarted::Failed)?;
            let settings = settings(configuration)?;
            let stop = CancellationToken::new();
            let deps = CapacityDeps { client, settings, seed, stop: stop.clone() };
            let task = AbortOnDropHandle::new(tokio::spawn(deps.run()));
            Ok(Box::new(RunningOurs { stop, task }) as Box<dyn Running>)
        })
    }
}

fn settings(configuration: &Configuration) -> Result<CapacitySettings, NotStarted> {
    let defaults = CapacitySettings::default();
    Ok(match configuration {
        Configuration::Defaults => defaults,
        Configuration::WatchFilter(value) => {
            CapacitySettings { watch_filter: Some(value.clone()), ..defaults }
        }
        Configuration::Gpus { profiles, resource } => {
            let mappings = profiles.iter().map(|profile| format!("{profile}={resource}").parse());
            let gpus = mappings.collect::<Result<_, _>>();
            let gpus = gpus.map_err(|err| NotStarted::Failed(format!("{err}")))?;
            CapacitySettings { gpus, ..defaults }
        }
    })
}

impl Running for RunningOurs {
    fn stop(self: Box<Self>) -> BoxFuture<'static, ()> {
        self.stop.cancel();
        // A panic is in the log, and the check then misses the effects.
        Box::pin(self.task.map(drop))
    }

    fn end(&mut self) -> Option<String> {
        match (&mut self.task).now_or_never()? {
            Ok(Ok(())) => Some("it ended without a signal".to_owned()),
            Ok(Err(err)) => Some(err.to_string()),
            Err(err) => Some(err.to_string()),
        }
    }
}

/// Our reader of groups.
#[derive(Clone, Copy, Debug, Default)]
pub struct OurReader;

impl Reader for OurReader {
    fn read(&self, group: &Value, template: Option<&Value>) -> GroupReading {
        let template = template.map_or(GroupTemplate::Unread("not found"), GroupTemplate::Object);
        let objects = GroupObjects { group, template, live_labels: None, node_name: "new" };
        match read_group(&objects, &ReaderSettings::default()) {
            Err(why) => GroupReading::NotScaled(why.to_string()),
            Ok(read) => match &read.node {
                Ok(node) => GroupReading::Node(reading(node)),
                Err(why) => GroupReading::NotFromZero {
                    why: why.to_string(),
                    is_listed_at_zero: read.is_listed_at(0),
                },
            },
        }
    }
}

fn reading(node: &NodeTemplate) -> NodeReading {
    let taint = |it: &provider::scale_from_zero::ReadTaint| Taint {
        key: it.key.clone(),
        value: it.value.clone(),
        effect: it.effect.clone(),
    };
    let driver = |it: &provider::scale_from_zero::CsiDriver| Driver {
        name: it.name.clone(),
        limit: it.limit,
    };
    NodeReading {
        capacity: node.capacity.iter().map(|(name, it)| (name.clone(), it.to_string())).collect(),
        labels: node.labels.clone(),
        taints: node.taints.iter().map(taint).collect(),
        drivers: node.csi_drivers.iter().map(driver).collect(),
    }
}
