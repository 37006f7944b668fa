//! A reader with a flaw: ours, with a changed input or a changed result.

use serde_json::Value;

use super::ReaderFlaw;
use crate::lab::capacity::ours::OurReader;
use crate::lab::capacity::reader::{GroupReading, NodeReading, Reader};

const CAPACITY: &str = "capacity.cluster-autoscaler.kubernetes.io/";
const ARCH: &str = "kubernetes.io/arch";
const OS: &str = "kubernetes.io/os";

/// A reader with a flaw.
#[derive(Clone, Copy, Debug)]
pub struct FaultyReader(pub ReaderFlaw);

impl Reader for FaultyReader {
    fn read(&self, group: &Value, template: Option<&Value>) -> GroupReading {
        let mut changed = group.clone();
        let mut template = template.cloned();
        self.change_input(&mut changed, template.as_mut());
        if template.is_none() && self.0 == ReaderFlaw::NeedsTemplate {
            let why = "the template cannot be read".to_owned();
            return GroupReading::NotFromZero { why, is_listed_at_zero: false };
        }
        match OurReader.read(&changed, template.as_ref()) {
            GroupReading::Node(node) => {
                GroupReading::Node(self.change_node(node, group, template.as_ref()))
            }
            GroupReading::NotFromZero { why, .. } if self.0 == ReaderFlaw::ListsHalf => {
                GroupReading::NotFromZero { why, is_listed_at_zero: true }
            }
            other => other,
        }
    }
}

impl FaultyReader {
    fn change_input(&self, group: &mut Value, template: Option<&mut Value>) {
        let Some(annotations) = group["metadata"]["annotations"].as_object_mut() else { return };
        let key = |name: &str| format!("{CAPACITY}{name}");
        let text = |name: &str| annotations.get(&key(name)).and_then(Value::as_str).unwrap_or("");
        let is_wrong = |entry: &str| !entry.contains('=');
        match self.0 {
            ReaderFlaw::StatusWins => {
                annotations.remove(&key("cpu"));
            }
            ReaderFlaw::AnnotationReplacesStatus if annotations.contains_key(&key("cpu")) => {
                if let Some(template) = template {
                    template["status"] = Value::Null;
                }
            }
            ReaderFlaw::GpuWithoutType if annotations.contains_key(&key("gpu-count")) => {
                annotations.insert(key("gpu-type"), "nvidia.com/gpu".into());
            }
            ReaderFlaw::CutsGpuCount if text("gpu-count").contains('.') => {
                annotations.insert(key("gpu-count"), "1".into());
            }
            ReaderFlaw::LosesLabels if text("labels").split(',').any(is_wrong) => {
                annotations.remove(&key("labels"));
            }
            ReaderFlaw::LosesDrivers if text("csi-driver").split(',').any(is_wrong) => {
                annotations.remove(&key("csi-driver"));
            }
            _ => {}
        }
    }

    fn change_node(
        &self,
        mut node: NodeReading,
        group: &Value,
        template: Option<&Value>,
    ) -> NodeReading {
        let annotation =
            |name: &str| &group["metadata"]["annotations"][format!("{CAPACITY}{name}")];
        let status = template.map_or(&Value::Null, |it| &it["status"]);
        match self.0 {
            ReaderFlaw::NoDefaultPods if annotation("maxPods").is_null() => {
                node.capacity.remove("pods");
            }
            ReaderFlaw::PodsOfStatus => {
                if let Some(pods) = status["capacity"]["pods"].as_str() {
                    node.capacity.insert("pods".to_owned(), pods.to_owned());
                }
            }
            ReaderFlaw::NoArchitecture => {
                node.labels.remove(ARCH);
            }
            ReaderFlaw::BlanksPlatform => {
                for (field, label) in [("architecture", ARCH), ("operatingSystem", OS)] {
                    let told = status["nodeInfo"][field].as_str().unwrap_or_default();
                    if annotation("labels").is_null() {
                        node.labels.insert(label.to_owned(), told.to_owned());
                    }
                }
            }
            ReaderFlaw::KeepsFormerTaint => {
                let of_spec = group["spec"]["template"]["spec"]["taints"].as_array();
                for taint in of_spec.into_iter().flatten() {
                    let is_same = |it: &&mut crate::lab::capacity::reader::Taint| {
                        taint["key"] == it.key && taint["effect"] == it.effect
                    };
                    if let Some(it) = node.taints.iter_mut().find(is_same) {
                        it.value = taint["value"].as_str().unwrap_or_default().to_owned();
                    }
                }
            }
            ReaderFlaw::LimitZero => {
                for driver in &mut node.drivers {
                    driver.limit = driver.limit.or(Some(0));
                }
            }
            _ => {}
        }
        node
    }
}
