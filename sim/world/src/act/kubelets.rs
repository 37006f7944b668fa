//! placeholder
use super::Act;
use crate::vcenter::{MoRef, VcFault};
use std::time::Duration;
impl Act<'_> {
    pub(super) fn add_kubelet(&mut self, _vcenter: &str, _id: MoRef) {}
    pub(super) fn start_kubelet(&mut self, _vcenter: &str, _id: MoRef) -> Result<(), VcFault> {
        Ok(())
    }
    pub(super) fn stop_kubelet_told(&mut self, _vcenter: &str, _id: MoRef) -> Result<(), VcFault> {
        Ok(())
    }
    pub(super) fn stop_kubelet(&mut self, _vcenter: &str, _id: MoRef) {}
    pub(super) fn run_kubelet(&mut self, _vcenter: &str, _id: MoRef) {}
    pub(super) fn move_kubelet(&mut self, _vcenter: &str, _id: MoRef, _to: MoRef) {}
    pub(super) fn heartbeat(&mut self, _node: &str, _run: u32) {}
    pub(super) fn node_silent(&mut self, _node: &str, _run: u32) {}
    pub(super) fn set_heartbeats(&mut self, _every: Option<Duration>) {}
}
