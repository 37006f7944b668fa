//! Groups whose machines are clones of the template of a content library item.

use sim::world::{Grant, ItemName, PROVIDER_USER};

use super::*;

/// Operations with which the server resolves an item.
pub(crate) const RESOLUTION: [&str; 4] = [
    "content.library.find",
    "content.library.item.find",
    "content.library.item.get",
    "vcenter.vm-template.library-items.get",
];

fn file_of(item: &str) -> String {
    file(0, "").replace("template: ubuntu", &format!("libraryItem: {item}"))
}

fn add_item(sim: &Sim, library: &str, name: &str, kind: &str, template: Option<&str>) {
    let item = ItemName { vcenter: None, library: library.to_owned(), name: name.to_owned() };
    let template = template.map(str::to_owned);
    sim.apply(Command::AddLibraryItem { item, kind: kind.to_owned(), template }).unwrap();
}

fn add_library(sim: &Sim, name: &str) {
    sim.apply(Command::CreateLibrary { vcenter: None, name: name.to_owned() }).unwrap();
}

/// Creates the library `images`, whose item `noble` has the template `ubuntu`.
pub(crate) fn furnish(sim: &Sim) {
    add_library(sim, "images");
    add_item(sim, "images", "noble", "vm-template", Some("ubuntu"));
}

/// Starts a server with groups of this item; `furnish` prepares the sim.
async fn start_with(item: &str, prepare: impl FnOnce(&Sim)) -> Server {
    let ours = Ours::over_vcenter(file_of(item), 1, false).unwrap();
    furnish(ours.sim());
    prepare(ours.sim());
    next(&ours, 1).await
}

#[tokio::test(start_paused = true)]
async fn a_group_of_a_library_item_grows_from_zero_and_shrinks_to_zero() {
    let server = start_with("images/noble", |_| {}).await;
    let node = server.call::<Template>("NodeGroupTemplateNodeInfo", OfGroup::new(GROUP)).await.new;
    let node = String::from_utf8_lossy(&node);
    assert!(node.contains("vsphere-vm.cpu-4.mem-8gb.os-ubuntu"), "as the template: {node}");

    server.increase(2).await;
    let ids = server.ids().await;
    tokio::time::sleep(s(120)).await;
    assert_eq!((server.states().await, running(server.sim())), (vec![1, 1], ids.clone()));
    assert_eq!(calls(server.sim(), "CloneVM_Task"), 2);
    assert_eq!(calls(server.sim(), "vcenter.vm-template.library-items.deploy"), 0);
    for (_, machine) in machines(server.sim()) {
        let (bios, instance) = (machine.config.uuid.unwrap(), machine.config.instance_uuid);
        let mark = &machine.config.extra["vsphere.cloud-provider.node-group"];
        assert_eq!(*mark, format!("workers/{bios}/{instance}"));
        assert!(!machine.config.template);
    }
    server.delete(&ids).await;
    tokio::time::sleep(s(60)).await;
    assert_eq!((server.target().await, machines(server.sim()).len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn the_resolution_of_an_item_costs_no_call_per_machine() {
    let server = start_with("images/noble", |_| {}).await;
    let resolutions = || RESOLUTION.map(|op| calls(server.sim(), op));
    assert_eq!(resolutions(), [2; 4], "one of each for each of two groups");
    server.increase(10).await;
    tokio::time::sleep(s(50)).await;
    assert_eq!((resolutions(), calls(server.sim(), "CloneVM_Task")), ([2; 4], 10));
    tokio::time::sleep(s(600)).await;
    assert!(resolutions().iter().all(|n| *n <= 2 * 12), "{:?}: one per minute", resolutions());
}

/// Returns code, class and message of the failure of a first machine, which was not cloned.
async fn failure(server: &Server) -> (String, i32, String) {
    server.increase(1).await;
    tokio::time::sleep(s(20)).await;
    let error = server.instances().await.remove(0).status.unwrap().error.unwrap();
    assert_eq!(calls(server.sim(), "CloneVM_Task"), 0);
    (error.code, error.class, error.message)
}

#[tokio::test(start_paused = true)]
async fn an_item_that_cannot_be_cloned_is_a_bad_configuration_that_names_it() {
    for (item, wanted) in [
        ("none/noble", "vCenter has no content libraries with the name \"none\""),
        ("images/none", "vCenter has no items with the name \"none\" in the content library"),
        ("twins/noble", "vCenter has 2 content libraries with the name \"twins\"; rename all but"),
        ("images/twin", "vCenter has 2 items with the name \"twin\" in the content library"),
        ("images/appliance", "has the type ovf; name an item of type vm-template"),
        ("images/installer", "has the type iso; name an item of type vm-template"),
        ("images/empty", "the item \"empty\" of the content library \"images\" has no template"),
    ] {
        let server = start_with(item, |sim| {
            add_library(sim, "twins");
            add_library(sim, "Twins");
            for name in ["twin", "Twin", "empty"] {
                add_item(sim, "images", name, "vm-template", None);
            }
            add_item(sim, "images", "appliance", "ovf", None);
            add_item(sim, "images", "installer", "iso", None);
        })
        .await;
        let (code, class, message) = failure(&server).await;
        assert_eq!((&*code, class), ("BAD_CONFIGURATION", 99), "{item}: {message}");
        assert!(message.starts_with("libraryItem: ") && message.contains(wanted), "{message}");
    }
}

fn revoke(sim: &Sim, object: &str) {
    let (vcenter, user) = (None, PROVIDER_USER.to_owned());
    let grant = Grant { vcenter, user, object: object.to_owned() };
    sim.apply(Command::RevokePrivilege(grant)).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_missing_privilege_on_library_item_or_template_is_a_named_failure() {
    let server = start_with("images/noble", |sim| revoke(sim, "images")).await;
    let (code, class, message) = failure(&server).await;
    assert_eq!((&*code, class), ("BAD_CONFIGURATION", 99));
    assert!(message.contains("or the login does not see one"), "{message}");

    let server = start_with("images/noble", |sim| revoke(sim, "ubuntu")).await;
    let (code, class, message) = failure(&server).await;
    assert_eq!((&*code, class), ("AUTH", 99), "{message}");
    assert!(message.starts_with("libraryItem: the login does not see"), "{message}");

    for op in RESOLUTION {
        let denied = Rule::new("denied", [Action::Status(sim::faults::HttpStatus::new(403))]);
        let ours = Ours::over_vcenter(file_of("images/noble"), 1, false).unwrap();
        furnish(ours.sim());
        let denied = ours.sim().fault(denied.on(sim::Face::Vapi).op([op])).unwrap();
        let server = next(&ours, 1).await;
        let (code, class, message) = failure(&server).await;
        assert_eq!((&*code, class), ("AUTH", 99), "{op}: {message}");
        drop(denied);
        tokio::time::sleep(s(300)).await;
        assert_eq!(server.states().await, [1], "{op}: the machine is made with the privilege");
    }
}

#[tokio::test(start_paused = true)]
async fn a_vcenter_whose_library_does_not_answer_fails_no_machine() {
    for op in RESOLUTION {
        let ours = Ours::over_vcenter(file_of("images/noble"), 1, false).unwrap();
        furnish(ours.sim());
        let down = Rule::new("down", [Action::Status(sim::faults::HttpStatus::new(503))]);
        let down = ours.sim().fault(down.on(sim::Face::Vapi).op([op])).unwrap();
        let server = next(&ours, 1).await;
        server.increase(1).await;
        tokio::time::sleep(s(180)).await;
        let status = server.instances().await.remove(0).status.unwrap();
        assert!(status.error.is_none(), "{op}");
        drop(down);
        tokio::time::sleep(s(240)).await;
        assert_eq!(server.states().await, [1], "{op}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_template_of_the_item_is_cloned_and_described_within_two_minutes() {
    let server = start_with("images/noble", |_| {}).await;
    let node = async || {
        server.call::<Template>("NodeGroupTemplateNodeInfo", OfGroup::new(GROUP)).await.new
    };
    let before = node().await;
    let spec =
        MachineSpec { name: Some("newer".to_owned()), cpus: Some(6), ..MachineSpec::default() };
    let (vcenter, cluster) = (None, None);
    let made = Command::CreateMachine { vcenter, spec, cluster, power_on: false, kubelet: false };
    server.sim().apply(made).unwrap();
    let item = ItemName { vcenter: None, library: "images".into(), name: "noble".into() };
    let set = Command::SetLibraryTemplate { item, template: Some("newer".to_owned()) };
    server.sim().apply(set).unwrap();
    tokio::time::sleep(s(120)).await;
    assert_ne!(node().await, before);
    server.increase(1).await;
    tokio::time::sleep(s(120)).await;
    let clones = machines(server.sim()).into_iter().filter(|(name, _)| name != "newer");
    let cpus: Vec<u32> = clones.map(|(_, it)| it.config.cpus).collect();
    assert_eq!(cpus, [6]);
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_moment_of_an_increase_from_an_item_loses_and_doubles_no_machine() {
    for after in [0, 700, 2500, 6000] {
        let server = start_with("images/noble", |_| {}).await;
        tasks_take(server.sim(), s(2));
        server.increase(5).await;
        let ids = server.ids().await;
        tokio::time::sleep(Duration::from_millis(after)).await;
        let server = server.crash(2).await;
        assert_eq!((server.target().await, server.ids().await), (5, ids.clone()), "{after}");
        tokio::time::sleep(s(240)).await;
        assert_eq!((running(server.sim()), machines(server.sim()).len()), (ids, 5), "{after}");
    }
}
