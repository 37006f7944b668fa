//! Content libraries: their creation, their items, and the templates of items.

use crate::act::Execution;
use crate::command::ItemName;
use crate::event::Outcome;
use crate::vcenter::{
    Change, CloneWork, Kind, Library, LibraryEvent, LibraryItem, MoRef, Power, TEMPLATE_ITEM,
    VcEvent, VcFault, is_same,
};

impl Execution<'_> {
    /// Creates an empty library. Refuses an empty name.
    pub(in crate::act) fn create_library(
        &mut self,
        vcenter: Option<String>,
        name: String,
    ) -> Result<(), VcFault> {
        let vcenter = self.vcenter_name(vcenter)?;
        if name.is_empty() {
            return Err(VcFault::InvalidArgument("name".into()));
        }
        let inventory = &self.vcenter(&vcenter)?.inventory;
        let datastore = inventory.of_kind(Kind::Datastore).map(|(id, _)| id).next();
        let library = Library::new(name, datastore, self.now);
        let id = self.next_library_id(&vcenter)?;
        self.emit_vc(&vcenter, VcEvent::Library(LibraryEvent::LibrarySet { id, library }));
        Ok(())
    }

    /// Adds an item to a library. Refuses an unknown library, an empty name, a machine that cannot
    /// become a template, and a template for an item of another type.
    pub(in crate::act) fn add_library_item(
        &mut self,
        item: ItemName,
        kind: String,
        template: Option<&str>,
    ) -> Result<(), VcFault> {
        let vcenter = self.vcenter_name(item.vcenter.clone())?;
        let library = self.library_named(&vcenter, &item.library)?;
        if item.name.is_empty() {
            return Err(VcFault::InvalidArgument("name".into()));
        }
        let id = self.next_library_id(&vcenter)?;
        let item = LibraryItem::new(library, item.name, kind, self.now);
        self.set_template(&vcenter, id, item, template)
    }

    /// Gives an item another template or none. Refuses an unknown item, and what
    /// [`Self::add_library_item`] refuses of a template.
    pub(in crate::act) fn set_library_template(
        &mut self,
        name: &ItemName,
        template: Option<&str>,
    ) -> Result<(), VcFault> {
        let vcenter = self.vcenter_name(name.vcenter.clone())?;
        let library = self.library_named(&vcenter, &name.library)?;
        let mut items = self.vcenter(&vcenter)?.libraries.items_of(&library);
        let found = items.find(|(_, item)| is_same(&item.name, &name.name));
        let (id, item) = found.ok_or_else(|| VcFault::NoSuchName {
            kind: "library item".into(),
            name: name.name.clone(),
        })?;
        let (id, mut item) = (id.clone(), item.clone());
        drop(items);
        item.template = None;
        self.set_template(&vcenter, id, item, template)
    }

    /// Creates a machine from the template of a library item. Refuses an unknown item, an item
    /// without template, and what the clone of a machine refuses.
    pub(in crate::act) fn deploy(
        &mut self,
        vcenter: &str,
        item: &str,
        work: &CloneWork,
    ) -> Result<Outcome, VcFault> {
        let items = &self.vcenter(vcenter)?.libraries.items;
        let found = items.get(item).ok_or_else(|| VcFault::LibraryNotFound(item.to_owned()))?;
        let template = found.template.ok_or_else(|| VcFault::NoTemplate(item.to_owned()))?;
        self.clone_machine(vcenter, template, work).map(Outcome::Reference)
    }

    /// Deletes the items whose template is this machine, as vCenter does when a template is removed
    /// from the inventory.
    pub(in crate::act) fn delete_items_of(&mut self, vcenter: &str, machine: MoRef) {
        let Ok(vc) = self.vcenter(vcenter) else { return };
        let items = vc.libraries.items.iter();
        let of_machine = items.filter(|(_, item)| item.template == Some(machine));
        let ids: Vec<String> = of_machine.map(|(id, _)| id.clone()).collect();
        for id in ids {
            self.emit_vc(vcenter, VcEvent::Library(LibraryEvent::ItemDeleted(id)));
        }
    }

    fn set_template(
        &mut self,
        vcenter: &str,
        id: String,
        mut item: LibraryItem,
        template: Option<&str>,
    ) -> Result<(), VcFault> {
        if let Some(name) = template {
            if item.kind != TEMPLATE_ITEM {
                return Err(VcFault::InvalidArgument("template".into()));
            }
            item.template = Some(self.make_template(vcenter, name)?);
        }
        item.version += 1;
        item.modified = self.now;
        self.emit_vc(vcenter, VcEvent::Library(LibraryEvent::ItemSet { id, item }));
        Ok(())
    }

    /// Makes a machine a template, unless it is one. Refuses a machine that is not off.
    fn make_template(&mut self, vcenter: &str, name: &str) -> Result<MoRef, VcFault> {
        let found = self.vcenter(vcenter)?.inventory.by_machine_name(name).next();
        let id = found
            .ok_or_else(|| VcFault::NoSuchName { kind: "machine".into(), name: name.to_owned() })?;
        let machine = self.manageable(vcenter, id)?;
        if machine.config.template {
            return Ok(id);
        }
        if machine.power != Power::PoweredOff {
            let requested = Some(Power::PoweredOff);
            return Err(VcFault::InvalidPowerState { requested, existing: machine.power });
        }
        let (mut config, host) = (machine.config.clone(), machine.host);
        config.template = true;
        config.change_version += 1;
        self.change(vcenter, id, Change::Config(Box::new(config)));
        self.change(vcenter, id, Change::Placed { host, pool: None });
        Ok(id)
    }

    fn library_named(&self, vcenter: &str, name: &str) -> Result<String, VcFault> {
        let id = self.vcenter(vcenter)?.libraries.named(name).next().cloned();
        id.ok_or_else(|| VcFault::NoSuchName {
            kind: "content library".into(),
            name: name.to_owned(),
        })
    }

    /// The id of the next library or item of this vCenter.
    fn next_library_id(&self, vcenter: &str) -> Result<String, VcFault> {
        let path = format!("{vcenter}/{}", self.vcenter(vcenter)?.libraries.created + 1);
        Ok(self.state.ids.uuid("library", &path).to_string())
    }
}

#[cfg(test)]
mod tests {
    use crate::vcenter::{CloneWork, LibraryItem, MachineSpec, VcFault};
    use crate::{Command, Fault, Grant, ItemName, Outcome, Time, Topology, VcRequest, World};

    fn lab() -> World {
        let mut world =
            Topology::default().machines(2).build("2026-03-01T08:00:00Z".parse().unwrap(), 0);
        apply(&mut world, Command::PowerOff("node-0001".into())).unwrap();
        apply(&mut world, Command::CreateLibrary { vcenter: None, name: "images".into() }).unwrap();
        world
    }

    fn apply(world: &mut World, command: Command) -> Result<Outcome, Fault> {
        world.apply(Time::ZERO, command).map(|applied| applied.outcome)
    }

    fn name(name: &str) -> ItemName {
        ItemName { vcenter: None, library: "images".into(), name: name.into() }
    }

    fn add(item: &str, kind: &str, template: Option<&str>) -> Command {
        let template = template.map(str::to_owned);
        Command::AddLibraryItem { item: name(item), kind: kind.into(), template }
    }

    fn items(world: &World) -> Vec<LibraryItem> {
        world.vcenter("vc0").unwrap().libraries.items.values().cloned().collect()
    }

    fn deploy(world: &mut World, item: &str, machine: &str) -> Result<Outcome, Fault> {
        let vc = world.vcenter("vc0").unwrap();
        let other = vc.inventory.by_machine_name("node-0002").next().unwrap();
        let folder = vc.inventory.get(other).unwrap().parent.unwrap();
        let pool = vc.inventory.machine(other).unwrap().pool;
        let spec = MachineSpec { name: Some(machine.into()), ..MachineSpec::default() };
        let work = CloneWork { folder, spec, pool, host: None, template: false, power_on: true };
        let request = VcRequest::Deploy { item: item.into(), work: Box::new(work) };
        apply(world, Command::Request { vcenter: "vc0".into(), request })
    }

    #[test]
    fn an_item_makes_its_machine_a_template_and_a_deployment_copies_it() {
        let mut world = lab();
        apply(&mut world, add("ubuntu", "vm-template", Some("node-0001"))).unwrap();
        let [item] = &items(&world)[..] else { panic!("one item") };
        let template = item.template.unwrap();
        let machine = world.vcenter("vc0").unwrap().inventory.machine(template).unwrap();
        assert_eq!((machine.config.template, machine.pool), (true, None));
        let id = world.vcenter("vc0").unwrap().libraries.items.keys().next().unwrap().clone();
        let Outcome::Reference(made) = deploy(&mut world, &id, "new").unwrap() else {
            panic!("a machine")
        };
        let machine = world.vcenter("vc0").unwrap().inventory.machine(made).unwrap();
        assert!(!machine.config.template && machine.booted.is_some());
        apply(&mut world, Command::DeleteMachine("node-0001".into())).unwrap();
        assert_eq!(items(&world), [], "an item goes with its template");
        let missing = deploy(&mut world, &id, "other").unwrap_err();
        assert_eq!(missing, Fault::VCenter(VcFault::LibraryNotFound(id)));
    }

    #[test]
    fn a_world_without_libraries_has_none_in_its_state() {
        let world = Topology::default().build("2026-03-01T08:00:00Z".parse().unwrap(), 0);
        let text = serde_json::to_string(world.vcenter("vc0").unwrap()).unwrap();
        assert!(!text.contains("librar"), "{text}");
        assert!(serde_json::to_string(lab().vcenter("vc0").unwrap()).unwrap().contains("librar"));
    }

    #[test]
    fn each_wrong_item_is_refused_and_changes_nothing() {
        let mut world = lab();
        let before = world.vcenter("vc0").unwrap().clone();
        let elsewhere = ItemName { library: "none".into(), ..name("a") };
        for (why, command) in [
            ("a machine that is on", add("a", "vm-template", Some("node-0002"))),
            ("an unknown machine", add("a", "vm-template", Some("node-0009"))),
            ("a template in an ISO", add("a", "iso", Some("node-0001"))),
            ("an empty name", add("", "iso", None)),
            ("an unknown item", Command::SetLibraryTemplate { item: name("a"), template: None }),
            ("an unknown library", Command::SetLibraryTemplate { item: elsewhere, template: None }),
            ("an unnamed library", Command::CreateLibrary { vcenter: None, name: String::new() }),
        ] {
            assert!(apply(&mut world, command).is_err(), "{why}");
            assert_eq!(*world.vcenter("vc0").unwrap(), before, "{why}");
        }
    }

    #[test]
    fn a_template_can_be_replaced_and_taken_away() {
        let mut world = lab();
        apply(&mut world, add("ubuntu", "vm-template", Some("node-0001"))).unwrap();
        apply(&mut world, Command::PowerOff("node-0002".into())).unwrap();
        for (template, version) in [(Some("node-0002"), 2), (None, 3)] {
            let template = template.map(str::to_owned);
            let set = Command::SetLibraryTemplate { item: name("Ubuntu"), template };
            apply(&mut world, set).unwrap();
            assert_eq!(items(&world)[0].version, version);
        }
        assert_eq!(items(&world)[0].template, None);
    }

    #[test]
    fn privileges_on_a_library_can_be_revoked_and_granted() {
        let mut world = lab();
        let user = crate::PROVIDER_USER;
        let grant = Grant { vcenter: None, user: user.into(), object: "images".into() };
        let sees = |world: &World| {
            let vc = world.vcenter("vc0").unwrap();
            vc.may_see_library(user, vc.libraries.libraries.keys().next().unwrap())
        };
        assert!(sees(&world));
        apply(&mut world, Command::RevokePrivilege(grant.clone())).unwrap();
        assert!(!sees(&world));
        apply(&mut world, Command::GrantPrivilege(grant)).unwrap();
        assert!(sees(&world));
    }
}
