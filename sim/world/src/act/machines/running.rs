//! Changes of settings that a machine accepts only in some power states.

use crate::act::Execution;
use crate::vcenter::{Config, MachineSpec, MoRef, Power, Setting, VcFault, is_present, known};

impl Execution<'_> {
    /// Checks that the machine accepts the settings of `spec` in its power state. A machine that is
    /// not powered off keeps its UUID, its guest id and some other settings. It accepts more
    /// processors or memory only while it runs, and only with the setting that allows it.
    pub(in crate::act) fn accepts(
        &self,
        vcenter: &str,
        id: MoRef,
        spec: &MachineSpec,
    ) -> Result<(), VcFault> {
        let machine = self.manageable(vcenter, id)?;
        let existing = machine.power;
        if existing == Power::PoweredOff || !needs_power_off(&machine.config, spec, existing) {
            return Ok(());
        }
        Err(VcFault::InvalidPowerState { requested: Some(Power::PoweredOff), existing })
    }
}

/// True if `spec` has a change that this machine accepts only if it is powered off.
fn needs_power_off(config: &Config, spec: &MachineSpec, power: Power) -> bool {
    let setting = |(path, new): (&String, &Setting)| {
        known(path).is_some_and(|(_, needs_off)| needs_off)
            && !is_present(&config.settings, path, new)
    };
    let hot = |path: &str| {
        let allowed = config.settings.get(path).and_then(Setting::text);
        power == Power::PoweredOn && allowed == Some("true")
    };
    let refuses = |new: Option<u32>, old: u32, path: &str| {
        new.is_some_and(|new| new != old && !(new > old && hot(path)))
    };
    spec.settings.iter().any(setting)
        || refuses(spec.cpus, config.cpus, "config.cpuHotAddEnabled")
        || refuses(spec.memory_mib, config.memory_mib, "config.memoryHotAddEnabled")
        || spec.uuid.is_some_and(|uuid| config.uuid != Some(uuid))
        || spec.guest_id.as_ref().is_some_and(|guest_id| *guest_id != config.guest_id)
}
