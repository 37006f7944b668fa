//! Drivers of devices and of volumes on a new Node.

use super::{
    super::keys::{CSI_DRIVER, DRA_DRIVER},
    Annotations,
    resources::gpu_count,
};
use crate::InputError;

/// Devices of one driver for dynamic resource allocation (a ResourceSlice).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceSlice {
    /// Name of the slice.
    pub name: String,
    /// Driver.
    pub driver: String,
    /// Pool, which has the name of the Node.
    pub pool: String,
    /// Names of the devices, whose attribute `type` is `gpu`.
    pub devices: Vec<String>,
}

/// A driver of volumes (an entry of a CSINode).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsiDriver {
    /// Name of the driver.
    pub name: String,
    /// Largest number of volumes; `None` without a limit.
    pub limit: Option<u32>,
}

/// Largest number of devices that a slice may have in Kubernetes.
const MOST_DEVICES: usize = 128;

/// Returns the devices; `None` if the annotations name no driver or no GPU.
pub(super) fn devices(
    annotations: &Annotations<'_>,
    node_name: &str,
) -> Result<Option<DeviceSlice>, InputError> {
    let Some(driver) = annotations.of_capacity(DRA_DRIVER) else { return Ok(None) };
    let Some(count) = gpu_count(annotations)? else { return Ok(None) };
    let n_devices = count.to_string().parse::<usize>().unwrap_or(MOST_DEVICES).min(MOST_DEVICES);
    Ok(Some(DeviceSlice {
        name: format!("{node_name}-{driver}"),
        driver: driver.to_owned(),
        pool: node_name.to_owned(),
        devices: (0..n_devices).map(|n| format!("gpu-{n}")).collect(),
    }))
}

/// Returns the drivers of volumes. An entry that cannot be read is left out with a note.
pub(super) fn csi_drivers(
    annotations: &Annotations<'_>,
    notes: &mut Vec<String>,
) -> Vec<CsiDriver> {
    let mut drivers = Vec::new();
    let entries = annotations.of_capacity(CSI_DRIVER).into_iter().flat_map(|text| text.split(','));
    for entry in entries.map(str::trim).filter(|entry| !entry.is_empty()) {
        match read(entry) {
            Some(driver) => drivers.push(driver),
            None => notes.push(format!("csi-driver: left out {entry:?}; write NAME=LIMIT")),
        }
    }
    drivers
}

fn read(entry: &str) -> Option<CsiDriver> {
    let (name, limit) = entry.split_once('=')?;
    let limit: i32 = limit.trim().parse().ok()?;
    let limit = u32::try_from(limit).ok()?;
    let name = name.trim().to_owned();
    (!name.is_empty()).then_some(CsiDriver { name, limit: Some(limit).filter(|limit| *limit > 0) })
}
