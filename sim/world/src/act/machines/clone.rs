//! Copies of machines and templates.

use super::creation::{check, settle};
use super::placement::Places;
use crate::act::Execution;
use crate::vcenter::identity::{bios_uuid, mac, spare_address};
use crate::vcenter::{
    Change, CloneWork, Config, Connection, Data, Entity, Guest, Kind, Machine, MoRef,
    NextGuestReport, Power, Setting, VcFault,
};

impl Execution<'_> {
    /// Creates a copy of a machine or template. The copy has the configuration of the source with the
    /// changes of the spec, but UUIDs, MAC addresses, host name and addresses of its own. Refuses
    /// what the creation of a machine refuses, a source that vCenter cannot manage, a source without a
    /// pool if the work names none, and a template that shall be powered on.
    pub(in crate::act) fn clone_machine(
        &mut self,
        vcenter: &str,
        source: MoRef,
        work: &CloneWork,
    ) -> Result<MoRef, VcFault> {
        let CloneWork { folder, spec, pool, host, template, power_on } = work;
        if *template && *power_on {
            return Err(VcFault::NotSupported);
        }
        let original = self.manageable(vcenter, source)?.clone();
        let name = self.free_name(vcenter, *folder, spec)?;
        let pool = pool.or(original.pool);
        let pool = pool.ok_or_else(|| VcFault::InvalidArgument("spec.location.pool".into()))?;
        let Places { host, datastore, .. } = self.places(vcenter, pool, *host, spec.datastore)?;
        check(spec)?;
        let id = self.next_id(vcenter, Kind::Machine)?;
        let path = format!("{vcenter}/{id}");
        let ids = self.state.ids;
        let mut config = original.config;
        config.uuid = Some(bios_uuid(ids, &path));
        config.instance_uuid = ids.uuid("instance", &path);
        config.template = *template;
        config.change_version = 1;
        config.created = self.now;
        forget_files(&mut config);
        for copy in &mut config.cards {
            copy.mac = mac(copy.key, id);
        }
        let mut machine = Machine {
            config,
            power: Power::PoweredOff,
            connection: Connection::Connected,
            host,
            pool: Some(pool).filter(|_| !template),
            datastore,
            booted: None,
            guest: Guest::silent(),
            plan: NextGuestReport {
                host_name: name.clone(),
                addresses: vec![vec![spare_address(vcenter, id.number)]],
                swapped_uuid: original.plan.swapped_uuid,
            },
            boot: 0,
        };
        settle(&mut machine, id, spec)?;
        let data = Data::Machine(Box::new(machine));
        let entity = Entity { name, parent: Some(*folder), data };
        self.change(vcenter, id, Change::Created(Box::new(entity)));
        if *power_on {
            self.power_on(vcenter, id)?;
        }
        Ok(id)
    }
}

/// Removes the date of creation and the names of files, which the copy gets anew.
fn forget_files(config: &mut Config) {
    config.settings.remove("config.files");
    config.settings.remove("config.createDate");
    for device in config.devices.iter_mut().flat_map(|devices| devices.values_mut()) {
        if device.kind == "VirtualDisk"
            && let Some(Setting::Object(backing)) = device.fields.get_mut("backing")
        {
            backing.fields.remove("fileName");
            backing.fields.remove("uuid");
        }
    }
}
