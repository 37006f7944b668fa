//! Changes of a vCenter as a whole: stop, start, certificate, release and instance UUID.

use uuid::Uuid;

use super::Execution;
use crate::reactions::{Reaction, Step};
use crate::vcenter::{EndReason, Release, Service, VcEvent, VcFault};

impl Execution<'_> {
    /// Stops a vCenter: its sessions end, and it refuses connections. Does nothing if it is
    /// stopped.
    pub(super) fn stop_vcenter(&mut self, vcenter: Option<String>) -> Result<(), VcFault> {
        let vcenter = self.vcenter_name(vcenter)?;
        if self.vcenter(&vcenter)?.service == Service::Stopped {
            return Ok(());
        }
        self.emit_vc(&vcenter, VcEvent::Service(Service::Stopped));
        self.end_all(&vcenter, None, EndReason::Stopped);
        Ok(())
    }

    /// Starts a stopped vCenter: it answers 503 until the step `serviceStart` ends. Does nothing if
    /// it is not stopped.
    pub(super) fn start_vcenter(&mut self, vcenter: Option<String>) -> Result<(), VcFault> {
        let vcenter = self.vcenter_name(vcenter)?;
        if self.vcenter(&vcenter)?.service != Service::Stopped {
            return Ok(());
        }
        self.emit_vc(&vcenter, VcEvent::Service(Service::Starting));
        let reaction = Reaction::ServiceReady { vcenter };
        self.after(Step::ServiceStart, self.now, None, reaction);
        Ok(())
    }

    pub(super) fn service_ready(&mut self, vcenter: &str) {
        if self.vcenter(vcenter).is_ok_and(|vc| vc.service == Service::Starting) {
            self.emit_vc(vcenter, VcEvent::Service(Service::Running));
        }
    }

    pub(super) fn swap_certificate(&mut self, vcenter: Option<String>) -> Result<(), VcFault> {
        let vcenter = self.vcenter_name(vcenter)?;
        let number = self.vcenter(&vcenter)?.certificate + 1;
        self.emit_vc(&vcenter, VcEvent::Certificate(number));
        Ok(())
    }

    /// Sets the release of a stopped vCenter. Refuses a vCenter that is not stopped, and an invalid
    /// version or build.
    pub(super) fn upgrade_vcenter(
        &mut self,
        vcenter: Option<String>,
        version: String,
        build: String,
    ) -> Result<(), VcFault> {
        let release = Release::new(version, build)?;
        let vcenter = self.vcenter_name(vcenter)?;
        if self.vcenter(&vcenter)?.service != Service::Stopped {
            return Err(VcFault::Runs(vcenter));
        }
        self.emit_vc(&vcenter, VcEvent::Upgraded(release));
        Ok(())
    }

    pub(super) fn set_instance_uuid(
        &mut self,
        vcenter: Option<String>,
        uuid: Uuid,
    ) -> Result<(), VcFault> {
        let vcenter = self.vcenter_name(vcenter)?;
        self.emit_vc(&vcenter, VcEvent::InstanceUuid(uuid));
        self.end_all(&vcenter, None, EndReason::Stopped);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
