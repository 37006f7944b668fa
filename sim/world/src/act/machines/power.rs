//! Power changes of machines: on, off, suspend, reset.

use crate::act::Execution;
use crate::reactions::{Reaction, Step};
use crate::vcenter::{Change, MoRef, Power, VcFault};

impl Execution<'_> {
    /// Powers a machine on. Refuses a template, and a machine that is on.
    pub(in crate::act) fn power_on(&mut self, vcenter: &str, id: MoRef) -> Result<(), VcFault> {
        let machine = self.manageable(vcenter, id)?;
        if machine.config.template {
            return Err(VcFault::NotSupported);
        }
        if machine.power == Power::PoweredOn {
            return Err(VcFault::InvalidPowerState {
                requested: Some(Power::PoweredOff),
                existing: Power::PoweredOn,
            });
        }
        self.boot(vcenter, id);
        Ok(())
    }

    /// Powers a machine on, on another host of its cluster if `host` is not the present one.
    pub(in crate::act) fn power_on_host(
        &mut self,
        vcenter: &str,
        id: MoRef,
        host: MoRef,
    ) -> Result<(), VcFault> {
        let inventory = &self.vcenter(vcenter)?.inventory;
        let machine = self.manageable(vcenter, id)?;
        if machine.config.template {
            return Err(VcFault::NotSupported);
        }
        let present = machine.host;
        let compute = |host| inventory.get(host).and_then(|it| it.parent);
        if inventory.get(host).is_none() {
            return Err(VcFault::ManagedObjectNotFound(host));
        }
        if compute(host) != compute(present) {
            return Err(VcFault::InvalidArgument("host".into()));
        }
        if host != present && self.machine(vcenter, id)?.power != Power::PoweredOn {
            self.relocate(vcenter, id, host, None)?;
        }
        self.power_on(vcenter, id)
    }

    /// Powers the machine on and schedules the steps of its guest's boot.
    pub(in crate::act) fn boot(&mut self, vcenter: &str, id: MoRef) {
        let Ok(machine) = self.machine(vcenter, id) else { return };
        let boot = machine.boot + 1;
        let guest = machine.guest.stopped();
        let booted = Some(self.now);
        self.change(vcenter, id, Change::Power { power: Power::PoweredOn, booted, boot });
        self.change(vcenter, id, Change::Guest(Box::new(guest)));
        let name = self.name_of(vcenter, id);
        for step in [Step::Tools, Step::Interface, Step::Address, Step::HostName, Step::Kubelet] {
            let vcenter = vcenter.to_owned();
            let reaction = Reaction::Guest { vcenter, machine: id, boot, step };
            self.after(step, self.now, Some(&name), reaction);
        }
    }

    pub(in crate::act) fn power_off(&mut self, vcenter: &str, id: MoRef) -> Result<(), VcFault> {
        let existing = self.manageable(vcenter, id)?.power;
        if existing == Power::PoweredOff {
            return Err(VcFault::InvalidPowerState { requested: Some(Power::PoweredOn), existing });
        }
        self.halt(vcenter, id, Power::PoweredOff);
        Ok(())
    }

    pub(in crate::act) fn suspend(&mut self, vcenter: &str, id: MoRef) -> Result<(), VcFault> {
        let existing = self.manageable(vcenter, id)?.power;
        if existing != Power::PoweredOn {
            return Err(VcFault::InvalidPowerState { requested: Some(Power::PoweredOn), existing });
        }
        self.halt(vcenter, id, Power::Suspended);
        Ok(())
    }

    pub(in crate::act) fn reset(&mut self, vcenter: &str, id: MoRef) -> Result<(), VcFault> {
        let existing = self.manageable(vcenter, id)?.power;
        if existing != Power::PoweredOn {
            return Err(VcFault::InvalidPowerState { requested: Some(Power::PoweredOn), existing });
        }
        self.stop_kubelet(vcenter, id);
        self.boot(vcenter, id);
        Ok(())
    }

    /// Sets the machine's power to `power` and stops its guest: the guest reports no addresses, and
    /// its kubelet stops.
    pub(in crate::act) fn halt(&mut self, vcenter: &str, id: MoRef, power: Power) {
        let Ok(machine) = self.machine(vcenter, id) else { return };
        let (boot, guest) = (machine.boot, machine.guest.stopped());
        self.change(vcenter, id, Change::Power { power, booted: None, boot: boot + 1 });
        self.change(vcenter, id, Change::Guest(Box::new(guest)));
        self.stop_kubelet(vcenter, id);
    }
}
