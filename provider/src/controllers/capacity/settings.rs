//! Settings of the controller, which are flags of `provider capacity`.

use std::str::FromStr;

use super::super::node::valid_label;
use crate::InputError;

/// Settings of the controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapacitySettings {
    /// Namespace of the templates and groups; `None` for all namespaces.
    pub namespace: Option<String>,
    /// Value of the label `cluster.x-k8s.io/watch-filter` of the templates; `None` for all templates.
    pub watch_filter: Option<String>,
    /// True if a change of a VirtualMachineClass counts only if the class is not paused and has the
    /// label of `watch_filter`.
    pub filter_classes: bool,
    /// True to watch images, also those of a namespace; false to read the image of the cluster when
    /// a template or its class changes.
    pub watch_images: bool,
    /// True to publish the capacity although the image cannot be read.
    pub capacity_without_image: bool,
    /// True to clear published values that became unknown.
    pub clear_unknown: bool,
    /// True to publish `amd64` and `linux` with a capacity if the image tells nothing.
    pub assume_node_info: bool,
    /// True to publish the capacity of the templates of the group `infrastructure.cluster.x-k8s.io`.
    pub govmomi: bool,
    /// Resources that devices provide.
    pub gpus: Vec<GpuMapping>,
}

impl Default for CapacitySettings {
    fn default() -> Self {
        Self {
            namespace: None,
            watch_filter: None,
            filter_classes: false,
            watch_images: true,
            capacity_without_image: true,
            clear_unknown: false,
            assume_node_info: false,
            govmomi: true,
            gpus: Vec::new(),
        }
    }
}

/// The resource that each device of a kind provides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuMapping {
    pub(crate) device: Device,
    pub(crate) resource: String,
}

/// Kind of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Device {
    /// A vGPU with this profile.
    Profile(String),
    /// A PCI device that the machine gets as a whole.
    Pci { vendor: u32, device: u32 },
}

impl FromStr for GpuMapping {
    type Err = InputError;

    /// Parses `PROFILE=RESOURCE` or `VENDOR:DEVICE=RESOURCE`, with hexadecimal ids.
    fn from_str(text: &str) -> Result<Self, InputError> {
        let refuse = |problem: &'static str| {
            InputError::invalid(text, problem).remedy(
                "write a vGPU profile or VENDOR:DEVICE in hexadecimal, then = and a resource, such as \
                 grid_t4-16q=nvidia.com/gpu or 10de:1eb8=nvidia.com/gpu",
            )
        };
        let Some((device, resource)) = text.split_once('=') else {
            return Err(refuse("has no = between device and resource"));
        };
        if !resource.contains('/') || !valid_label(resource) {
            return Err(refuse("does not end with the name of an extended resource"));
        }
        let device = match device.split_once(':') {
            _ if device.is_empty() => return Err(refuse("names no device")),
            None => Device::Profile(device.to_owned()),
            Some((vendor, device)) => {
                let id = |text| u32::from_str_radix(text, 16);
                match (id(vendor), id(device)) {
                    (Ok(vendor), Ok(device)) => Device::Pci { vendor, device },
                    _ => return Err(refuse("has ids that are not hexadecimal")),
                }
            }
        };
        Ok(Self { device, resource: resource.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_mapping_is_read_from_profile_or_ids() {
        let mapping = |device| GpuMapping { device, resource: "nvidia.com/gpu".to_owned() };
        let profile = Device::Profile("grid_t4-16q".to_owned());
        let pci = Device::Pci { vendor: 0x10de, device: 0x1eb8 };
        for (text, device) in [("grid_t4-16q", profile), ("10de:1eb8", pci)] {
            assert_eq!(format!("{text}=nvidia.com/gpu").parse(), Ok(mapping(device)), "{text}");
        }
        for (text, problem) in [
            ("grid_t4-16q", "has no = between device and resource"),
            ("=nvidia.com/gpu", "names no device"),
            ("grid_t4-16q=gpu", "does not end with the name of an extended resource"),
            ("grid_t4-16q=", "does not end with the name of an extended resource"),
            ("10de:xyz=nvidia.com/gpu", "has ids that are not hexadecimal"),
        ] {
            let refused = text.parse::<GpuMapping>().unwrap_err().to_string();
            assert!(refused.starts_with(&format!("{text:?} {problem}; write a vGPU")), "{refused}");
        }
    }
}
