//! Templates of a Supervisor: their status, from a VirtualMachineClass and an image.

use std::collections::BTreeMap;

use serde_json::Value;

use super::templates::{Inputs, Wanted, text};
use super::{Flaw, Worker};
use crate::lab::capacity::subject::Configuration;

pub(super) const TEMPLATES: &str =
    "/apis/vmware.infrastructure.cluster.x-k8s.io/v1beta2/vspheremachinetemplates";
const CLASSES: &str = "/apis/vmoperator.vmware.com/v1alpha6/virtualmachineclasses";
const IMAGES: &str = "/apis/vmoperator.vmware.com/v1alpha6/clustervirtualmachineimages";
const PROPERTIES: [(&str, &str, &[&str]); 2] = [
    ("architecture", "vmware-system.tkr.os-arch", &["amd64", "arm64", "s390x", "ppc64le"]),
    ("operatingSystem", "vmware-system.tkr.os-type", &["linux", "windows"]),
];

impl Worker {
    /// Reads classes and images; `None` if the classes cannot be read.
    pub(super) async fn vsphere_inputs(&self) -> Option<Inputs> {
        let sizes = self.list(CLASSES).await.ok()?;
        Some(Inputs { sizes, images: self.list(IMAGES).await.ok() })
    }

    /// Returns the wanted status; `None` if nothing is known.
    pub(super) fn vsphere_wanted(&self, template: &Value, inputs: &Inputs) -> Option<Wanted> {
        let spec = &template["spec"]["template"]["spec"];
        let class = self.class(template, text(&spec["className"]), inputs)?;
        let image = text(&spec["imageName"]);
        let node_info = match &inputs.images {
            None if self.has(Flaw::ImageErrorIsFatal) => return None,
            None => BTreeMap::new(),
            Some(images) => {
                let found = images.iter().find(|it| it["metadata"]["name"] == image);
                let is_empty = image.is_empty();
                if (self.has(Flaw::NeedsImage) && found.is_none() && !is_empty)
                    || (self.has(Flaw::NeedsImageName) && is_empty)
                {
                    return None;
                }
                self.platform(found.unwrap_or(&Value::Null))
            }
        };
        Some(Wanted { capacity: self.capacity(template, class), node_info })
    }

    fn class<'a>(&self, template: &Value, name: &str, inputs: &'a Inputs) -> Option<&'a Value> {
        let own = &template["metadata"]["namespace"];
        let is_meant = |class: &&Value| {
            let is_near = class["metadata"]["namespace"] == *own || self.has(Flaw::AnyNamespace);
            let is_default = name.is_empty() && self.has(Flaw::DefaultClass);
            is_near && (class["metadata"]["name"] == name || is_default)
        };
        inputs.sizes.iter().find(is_meant)
    }

    fn capacity(&self, template: &Value, class: &Value) -> BTreeMap<String, Option<String>> {
        let hardware = &class["spec"]["hardware"];
        let mut known = BTreeMap::new();
        let cpus = hardware["cpus"].as_u64().filter(|it| *it > 0).map(|it| it.to_string());
        let memory = hardware["memory"].as_str().map(str::to_owned);
        let memory = match memory {
            Some(text) if self.has(Flaw::HalfMemory) && text == "65536Mi" => {
                Some("32Gi".to_owned())
            }
            other => other,
        };
        known.insert("cpu".to_owned(), cpus);
        known.insert("memory".to_owned(), memory);
        if let Configuration::Gpus { profiles, resource } = &self.configuration {
            let devices = hardware["devices"]["vgpuDevices"].as_array().into_iter().flatten();
            let profile = |device: &Value| text(&device["profileName"]).to_owned();
            let counts =
                |it: &&Value| profiles.contains(&profile(it)) || self.has(Flaw::CountsEveryDevice);
            let n = devices.filter(counts).count();
            known.insert(resource.clone(), (n > 0).then(|| n.to_string()));
        }
        let is_unlabelled = class["metadata"]["labels"].is_null();
        let has_filter = matches!(self.configuration, Configuration::WatchFilter(_));
        let is_published = template["status"]["capacity"].is_object();
        if self.has(Flaw::FiltersClasses) && is_unlabelled && has_filter && is_published {
            return BTreeMap::new();
        }
        known.retain(|_, value| value.is_some() || self.has(Flaw::ClearsUnknown));
        known
    }

    fn platform(&self, image: &Value) -> BTreeMap<String, Option<String>> {
        let mut platform = BTreeMap::new();
        for (key, property, known) in PROPERTIES {
            let all = image["status"]["vmwareSystemProperties"].as_array().into_iter().flatten();
            let told = all.into_iter().find(|it| it["key"] == property);
            let told = told.and_then(|it| it["value"].as_str()).map(str::to_owned);
            let told = match told {
                Some(told) if self.has(Flaw::IgnoresCase) => Some(told.to_lowercase()),
                other => other,
            };
            let is_known =
                |it: &String| known.contains(&it.as_str()) || self.has(Flaw::PublishesUnknown);
            let assumed = || self.has(Flaw::AssumesPlatform).then(|| known[0].to_owned());
            if let Some(value) = told.filter(is_known).or_else(assumed) {
                platform.insert(key.to_owned(), Some(value));
            }
        }
        platform
    }
}
