//! Machines that must not be destroyed.

use super::*;

/// Returns the machine with this name as the spec of a copy by an administrator.
fn copy_of(machine: &Machine, name: &str) -> MachineSpec {
    MachineSpec {
        name: Some(name.to_owned()),
        extra: machine.config.extra.clone(),
        ..MachineSpec::default()
    }
}

/// Returns the machine as a restore from a backup makes it.
fn restored(machine: &Machine) -> MachineSpec {
    MachineSpec {
        uuid: machine.config.uuid,
        instance_uuid: Some(machine.config.instance_uuid),
        ..copy_of(machine, "restored")
    }
}

#[tokio::test(start_paused = true)]
async fn a_copy_by_an_administrator_is_never_touched() {
    let (server, ids) = running_group(1).await;
    let (name, machine) = machines(server.sim()).remove(0);
    // With the mark alone, and with the BIOS UUID too, as after a restore beside the original.
    create(server.sim(), copy_of(&machine, "copy-1"));
    create(server.sim(), MachineSpec { uuid: machine.config.uuid, ..copy_of(&machine, "copy-2") });
    tokio::time::sleep(s(60)).await;
    assert_eq!((server.target().await, server.ids().await), (1, ids.clone()));
    server.delete(&ids).await;
    tokio::time::sleep(s(120)).await;
    let left: Vec<String> = machines(server.sim()).into_iter().map(|(name, _)| name).collect();
    assert_eq!(left, ["copy-1", "copy-2"], "{name} is destroyed");
    let server = server.crash(2).await;
    tokio::time::sleep(s(60)).await;
    assert_eq!((server.target().await, machines(server.sim()).len()), (0, 2));
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_took_the_identity_of_a_named_one_is_not_destroyed() {
    let other = uuid::Uuid::from_u128(1);
    let foreign_mark = ("vsphere.cloud-provider.node-group".to_owned(), "others/x/y".to_owned());
    for (what, spec) in [
        ("another BIOS UUID", MachineSpec { uuid: Some(other), ..MachineSpec::default() }),
        ("another mark", MachineSpec { extra: [foreign_mark].into(), ..MachineSpec::default() }),
    ] {
        let (server, ids) = running_group(1).await;
        let (name, _) = machines(server.sim()).remove(0);
        let machine = name.as_str().into();
        server.sim().apply(Command::Reconfigure { machine, spec }).unwrap();
        server.delete(&ids).await;
        tokio::time::sleep(s(300)).await;
        assert_eq!(machines(server.sim()).len(), 1, "{what}");
        assert_eq!(calls(server.sim(), "Destroy_Task"), 0, "{what}");
        assert_eq!(calls(server.sim(), "PowerOffVM_Task"), 0, "{what}");
        assert_eq!((server.target().await, server.states().await), (0, vec![3]), "{what}");
    }
}

/// Attaches or detaches a disk, as the CSI driver does.
fn change_disk(sim: &Sim, machine: &str, change: DeviceChange) {
    let spec = MachineSpec { devices: Some(vec![change]), ..MachineSpec::default() };
    sim.apply(Command::Reconfigure { machine: machine.into(), spec }).unwrap();
}

/// A disk at the controller that every machine has.
fn disk() -> DeviceChange {
    let text = |text: &str| Setting::Text(text.to_owned());
    let fields = [("controllerKey", text("1000")), ("capacityInKB", text("1048576"))];
    let fields = fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let device = Structure { kind: "VirtualDisk".to_owned(), fields };
    DeviceChange::Add(DeviceSpec { key: -1, network: None, device })
}

#[tokio::test(start_paused = true)]
async fn an_attached_disk_protects_its_machine_until_it_is_detached() {
    let (server, ids) = running_group(1).await;
    let (name, _) = machines(server.sim()).remove(0);
    change_disk(server.sim(), &name, disk());
    server.delete(&ids).await;
    tokio::time::sleep(s(600)).await;
    assert_eq!((server.target().await, server.states().await), (0, vec![3]));
    assert_eq!(calls(server.sim(), "Destroy_Task"), 0);
    let server = server.crash(2).await;
    tokio::time::sleep(s(120)).await;
    assert_eq!(calls(server.sim(), "Destroy_Task"), 0, "after a restart, too");
    change_disk(server.sim(), &name, DeviceChange::Remove(2001));
    tokio::time::sleep(s(120)).await;
    assert_eq!((machines(server.sim()).len(), server.states().await), (0, vec![]));
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_is_attached_during_the_power_off_protects_its_machine() {
    let (server, ids) = running_group(1).await;
    let (name, _) = machines(server.sim()).remove(0);
    tasks_take(server.sim(), s(10));
    server.delete(&ids).await;
    tokio::time::sleep(s(5)).await;
    assert_eq!(calls(server.sim(), "PowerOffVM_Task"), 1);
    change_disk(server.sim(), &name, disk());
    tokio::time::sleep(s(300)).await;
    assert_eq!((machines(server.sim()).len(), calls(server.sim(), "Destroy_Task")), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_is_restored_after_its_deletion_is_left_alone() {
    for is_answer_lost in [false, true] {
        let (server, ids) = running_group(1).await;
        let (_, machine) = machines(server.sim()).remove(0);
        let lost = Rule::new("lost", [Action::Reset]).on(sim::Face::Soap).op(["Destroy_Task"]);
        let lost = is_answer_lost.then(|| server.sim().fault(lost.applied()).unwrap());
        server.delete(&ids).await;
        tokio::time::sleep(s(60)).await;
        drop(lost);
        assert_eq!((calls(server.sim(), "Destroy_Task"), machines(server.sim()).len()), (1, 0));
        create(server.sim(), restored(&machine));
        tokio::time::sleep(s(120)).await;
        let server = server.crash(2).await;
        tokio::time::sleep(s(120)).await;
        let left = (running(server.sim()), calls(server.sim(), "Destroy_Task"));
        assert_eq!(left, (ids, 1), "answer lost: {is_answer_lost}");
        assert_eq!(server.target().await, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_was_never_seen_destroyed_is_not_destroyed_after_an_hour() {
    let (server, ids) = running_group(1).await;
    let (name, machine) = machines(server.sim()).remove(0);
    // Other hands delete the machine before the server does.
    let busy = Rule::new("busy", [Action::soap_fault("TaskInProgress")]).on(sim::Face::Soap);
    let busy = server.sim().fault(busy.op(["PowerOffVM_Task"])).unwrap();
    server.delete(&ids).await;
    server.sim().apply(Command::DeleteMachine(name.as_str().into())).unwrap();
    drop(busy);
    tokio::time::sleep(s(3700)).await;
    create(server.sim(), restored(&machine));
    tokio::time::sleep(s(120)).await;
    assert_eq!((running(server.sim()), calls(server.sim(), "Destroy_Task")), (ids, 0));
}

#[tokio::test(start_paused = true)]
async fn a_machine_whose_disks_cannot_be_read_is_not_destroyed() {
    let (server, ids) = running_group(2).await;
    let (name, _) = machines(server.sim()).remove(0);
    let hidden = server.sim().fault(unreadable("config.hardware.device")).unwrap();
    server.delete(&ids).await;
    tokio::time::sleep(s(300)).await;
    assert_eq!((server.target().await, server.states().await), (0, vec![3, 3]));
    assert_eq!(calls(server.sim(), "Destroy_Task"), 0);
    // The machine shows none of the disks from its template.
    change_disk(server.sim(), &name, DeviceChange::Remove(2000));
    drop(hidden);
    tokio::time::sleep(s(120)).await;
    let left: Vec<String> = machines(server.sim()).into_iter().map(|(name, _)| name).collect();
    assert_eq!((left, server.states().await), (vec![name], vec![3]));
}
