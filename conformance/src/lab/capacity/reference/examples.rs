//! Example kinds of other platforms, each with another way to the size of a machine.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Worker;
use super::templates::{Inputs, Wanted, text};

/// Sizes of instance types: name, CPUs, memory and architecture.
const INSTANCE_TYPES: [(&str, &str, &str, &str); 3] = [
    ("c1.large", "2", "4Gi", "amd64"),
    ("m1.xlarge", "4", "16Gi", "amd64"),
    ("m2.xlarge", "4", "16Gi", "arm64"),
];
const FLAVORS: &str = "/apis/flavors.example.com/v1/flavors";

/// An example kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Example {
    /// The template names an instance type, whose size the platform knows.
    InstanceType,
    /// The template has the size itself.
    Sizes,
    /// The template names an object with the size.
    Flavor,
}

impl Example {
    /// Returns the path of all templates.
    pub(super) fn templates(self) -> String {
        let resource = match self {
            Self::InstanceType => "cloudmachinetemplates",
            Self::Sizes => "virtmachinetemplates",
            Self::Flavor => "stackmachinetemplates",
        };
        format!("/apis/infrastructure.cluster.x-k8s.io/v1beta2/{resource}")
    }

    /// Reads the objects that templates name; `None` if they cannot be read.
    pub(super) async fn inputs(self, worker: &Worker) -> Option<Inputs> {
        let sizes = match self {
            Self::Flavor => worker.list(FLAVORS).await.ok()?,
            Self::InstanceType | Self::Sizes => Vec::new(),
        };
        Some(Inputs { sizes, images: None })
    }

    /// Returns the wanted status of a template; `None` if nothing is known.
    pub(super) fn wanted(self, template: &Value, inputs: &Inputs) -> Option<Wanted> {
        let spec = &template["spec"]["template"]["spec"];
        match self {
            Self::InstanceType => of_instance_type(text(&spec["instanceType"])),
            Self::Sizes => of_sizes(&spec["domain"]),
            Self::Flavor => {
                let own = &template["metadata"]["namespace"];
                let name = &spec["flavorRef"]["name"];
                let is_meant = |it: &&Value| {
                    it["metadata"]["name"] == *name && it["metadata"]["namespace"] == *own
                };
                of_flavor(&inputs.sizes.iter().find(is_meant)?["spec"])
            }
        }
    }
}

fn pairs(pairs: &[(&str, &str)]) -> BTreeMap<String, Option<String>> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), Some((*value).to_owned()))).collect()
}

fn of_instance_type(name: &str) -> Option<Wanted> {
    let (_, cpu, memory, architecture) = INSTANCE_TYPES.iter().find(|it| it.0 == name)?;
    Some(Wanted {
        capacity: pairs(&[("cpu", cpu), ("memory", memory)]),
        node_info: pairs(&[("architecture", architecture), ("operatingSystem", "linux")]),
    })
}

fn of_sizes(domain: &Value) -> Option<Wanted> {
    let cpu = &domain["cpu"];
    let number = |key: &str| cpu[key].as_u64().unwrap_or(1);
    let n_cpus = (number("sockets") * number("cores") * number("threads")).to_string();
    let memory = domain["memory"]["guest"].as_str()?;
    let capacity = pairs(&[("cpu", &n_cpus), ("memory", memory)]);
    Some(Wanted { capacity, node_info: BTreeMap::new() })
}

fn of_flavor(flavor: &Value) -> Option<Wanted> {
    let cpu = flavor["vcpus"].as_u64()?.to_string();
    let memory = format!("{}Mi", flavor["ram"].as_u64()?);
    let mut capacity = pairs(&[("cpu", &cpu), ("memory", &memory)]);
    if let Some(disk) = flavor["disk"].as_u64().filter(|it| *it > 0) {
        capacity.insert("ephemeral-storage".to_owned(), Some(format!("{disk}Gi")));
    }
    Some(Wanted { capacity, node_info: BTreeMap::new() })
}
