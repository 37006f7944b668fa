//! Tests of the specs in `CreateVM_Task`, `CloneVM_Task`, `ReconfigVM_Task` and `RelocateVM_Task`, and
//! of the host of `PowerOnVM_Task`.

use std::time::Duration;

use sim::Sim;

use crate::client::{COLLECTOR, Client, SEARCH, lab, object, props};
use crate::xml::Node;

const FOLDER: (&str, &str) = ("Folder", "group-v3");

/// Starts a task, waits for it, and returns its result: the id of a new object, or the class of the
/// error.
async fn run(
    client: &mut Client,
    operation: &str,
    this: (&str, &str),
    arguments: &str,
) -> Result<String, String> {
    let answer = client.call(operation, this, arguments).await;
    if let Some(fault) = answer.fault() {
        return Err(fault);
    }
    let task = answer.reference().1;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let info = client.fetch(("Task", &task), "info").await.expect("a task has a property info");
    match info.child("error") {
        Some(error) => {
            let fault = error.child("fault").expect("an error has a fault");
            Err(fault.attribute("xsi:type").expect("a fault has a class").to_owned())
        }
        None => Ok(info.child("result").map(|it| it.text.clone()).unwrap_or_default()),
    }
}

async fn reconfigure(client: &mut Client, id: &str, spec: &str) -> Result<String, String> {
    let spec = format!("<spec>{spec}</spec>");
    run(client, "ReconfigVM_Task", ("VirtualMachine", id), &spec).await
}

async fn text(client: &mut Client, id: &str, path: &str) -> String {
    let value = client.fetch(("VirtualMachine", id), path).await;
    value.map(|it| it.text).unwrap_or_else(|| format!("{path} is unset"))
}

/// The devices of a machine, as type and key.
async fn devices(client: &mut Client, id: &str) -> Vec<(String, String)> {
    let list = client.fetch(("VirtualMachine", id), "config.hardware.device").await;
    let kind = |it: &Node| it.attribute("xsi:type").expect("a device has a type").to_owned();
    let list = list.expect("a machine has devices").children;
    list.iter().map(|it| (kind(it), it.text_of("key").to_owned())).collect()
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(kind, key)| ((*kind).to_owned(), (*key).to_owned())).collect()
}

async fn path(client: &mut Client, path: &str) -> String {
    let path = format!("<inventoryPath>{path}</inventoryPath>");
    client.call("FindByInventoryPath", SEARCH, &path).await.reference().1
}

/// A machine that is powered off.
async fn machine_off() -> (Sim, Client, String) {
    let (sim, mut client) = lab(3).await;
    let one = client.machine("node-0001").await;
    run(&mut client, "PowerOffVM_Task", ("VirtualMachine", &one), "").await.expect("it is on");
    (sim, client, one)
}

const CONTROLLER: &str = "<deviceChange><operation>add</operation>\
    <device xsi:type=\"VirtualLsiLogicController\"><key>-201</key><busNumber>0</busNumber>\
    <sharedBus>noSharing</sharedBus></device></deviceChange>";
const DISK: &str = "<deviceChange><operation>add</operation><fileOperation>create</fileOperation>\
    <device xsi:type=\"VirtualDisk\"><key>-1</key>\
    <backing xsi:type=\"VirtualDiskFlatVer2BackingInfo\"><fileName></fileName>\
    <diskMode>persistent</diskMode></backing><controllerKey>-201</controllerKey>\
    <unitNumber>0</unitNumber><capacityInKB>1048576</capacityInKB></device></deviceChange>";
const CARD: &str = "<deviceChange><operation>add</operation><device xsi:type=\"VirtualE1000\">\
    <key>-2</key><backing xsi:type=\"VirtualEthernetCardNetworkBackingInfo\">\
    <deviceName>VM Network</deviceName></backing></device></deviceChange>";

#[tokio::test(start_paused = true)]
async fn a_new_machine_has_exactly_the_devices_of_its_spec() {
    let (_sim, mut client) = lab(1).await;
    let pool = path(&mut client, "DC0/host/DC0_C1/Resources").await;
    let host = path(&mut client, "DC0/host/DC0_C1/DC0_C1_H0").await;
    let place =
        format!("<pool type=\"ResourcePool\">{pool}</pool><host type=\"HostSystem\">{host}</host>");
    let config = |name: &str, more: &str| {
        format!("<config><name>{name}</name><numCPUs>1</numCPUs>{more}</config>{place}")
    };
    let bare = config("bare", "<files><vmPathName>[LocalDS_0]</vmPathName></files>");
    let bare = run(&mut client, "CreateVM_Task", FOLDER, &bare).await.expect("a machine");
    let controllers = [("VirtualPCIController", "100"), ("VirtualIDEController", "200")];
    let mut found = devices(&mut client, &bare).await;
    found.sort();
    let mut want = pairs(&controllers);
    want.sort();
    assert_eq!(found, want);
    assert_eq!(text(&mut client, &bare, "summary.config.numVirtualDisks").await, "0");
    assert_eq!(text(&mut client, &bare, "summary.config.numEthernetCards").await, "0");
    assert_eq!(
        text(&mut client, &bare, "config.files.vmPathName").await,
        "[LocalDS_0] bare/bare.vmx"
    );
    assert_eq!(text(&mut client, &bare, "runtime.host").await, host);
    assert_eq!(text(&mut client, &bare, "resourcePool").await, pool);

    let full = config(
        "full",
        &format!(
            "<files><vmPathName>[LocalDS_0] there</vmPathName></files>{CONTROLLER}{DISK}{CARD}"
        ),
    );
    let full = run(&mut client, "CreateVM_Task", FOLDER, &full).await.expect("a machine");
    want.extend(pairs(&[
        ("VirtualDisk", "2000"),
        ("VirtualE1000", "4000"),
        ("VirtualLsiLogicController", "1000"),
    ]));
    want.sort();
    let mut found = devices(&mut client, &full).await;
    found.sort();
    assert_eq!(found, want);
    for (path, want) in [
        ("config.files.vmPathName", "[LocalDS_0] there/full.vmx"),
        ("summary.config.vmPathName", "[LocalDS_0] there/full.vmx"),
        ("config.hardware.device[2000].controllerKey", "1000"),
        ("config.hardware.device[2000].capacityInBytes", "1073741824"),
        ("config.hardware.device[2000].deviceInfo.summary", "1,048,576 KB"),
        ("config.hardware.device[2000].backing.fileName", "[LocalDS_0] full/full.vmdk"),
        ("config.hardware.device[4000].backing.deviceName", "VM Network"),
        ("config.hardware.device[4000].addressType", "assigned"),
    ] {
        assert_eq!(text(&mut client, &full, path).await, want, "{path}");
    }
    let elsewhere = config("elsewhere", "<files><vmPathName>[nowhere] a</vmPathName></files>");
    let fault = run(&mut client, "CreateVM_Task", FOLDER, &elsewhere).await;
    assert_eq!(fault, Err("InvalidDatastorePath".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn settings_are_visible_after_a_change() {
    let (_sim, mut client, one) = machine_off().await;
    let spec = "<name>renamed</name><uuid>42000000-0000-4000-8000-000000000001</uuid>\
        <instanceUuid>50000000-0000-4000-8000-000000000002</instanceUuid>\
        <guestId>rhel8_64Guest</guestId><annotation>a note</annotation>\
        <numCoresPerSocket>2</numCoresPerSocket><cpuHotAddEnabled>true</cpuHotAddEnabled>\
        <cpuAllocation><reservation>500</reservation></cpuAllocation>\
        <extraConfig><key>guestinfo.a</key><value xsi:type=\"xsd:string\">b</value></extraConfig>\
        <bootOptions><bootDelay>1000</bootDelay></bootOptions><firmware>efi</firmware>\
        <tools><afterPowerOn>false</afterPowerOn></tools>\
        <managedBy><extensionKey>k</extensionKey><type>t</type></managedBy>";
    reconfigure(&mut client, &one, spec).await.expect("a machine that is off accepts all");
    let more = "<cpuAllocation><limit>2000</limit></cpuAllocation>";
    reconfigure(&mut client, &one, more).await.expect("a change of a part");
    for (path, want) in [
        ("name", "renamed"),
        ("config.uuid", "42000000-0000-4000-8000-000000000001"),
        ("config.instanceUuid", "50000000-0000-4000-8000-000000000002"),
        ("config.guestId", "rhel8_64Guest"),
        ("config.annotation", "a note"),
        ("config.hardware.numCoresPerSocket", "2"),
        ("config.cpuHotAddEnabled", "true"),
        ("config.cpuAllocation.reservation", "500"),
        ("config.cpuAllocation.limit", "2000"),
        ("summary.config.cpuReservation", "500"),
        ("config.extraConfig[\"guestinfo.a\"].value", "b"),
        ("config.bootOptions.bootDelay", "1000"),
        ("config.firmware", "efi"),
        ("config.tools.afterPowerOn", "false"),
        ("config.tools.afterResume", "true"),
        ("config.tools.toolsVersion", "12389"),
        ("summary.config.managedBy.extensionKey", "k"),
    ] {
        assert_eq!(text(&mut client, &one, path).await, want, "{path}");
    }
    let uuid = "<uuid>50000000-0000-4000-8000-000000000002</uuid><vmSearch>true</vmSearch>\
        <instanceUuid>true</instanceUuid>";
    assert_eq!(client.call("FindByUuid", SEARCH, uuid).await.reference().1, one);
}

#[tokio::test(start_paused = true)]
async fn a_changed_setting_is_reported_to_filters() {
    let (_sim, mut client, one) = machine_off().await;
    let spec = format!(
        "<spec>{}{}</spec><partialUpdates>false</partialUpdates>",
        props("VirtualMachine", &["config.cpuHotAddEnabled", "config.hardware.device"]),
        object("VirtualMachine", &one)
    );
    client.call("CreateFilter", COLLECTOR, &spec).await.ok();
    let first = client.call("WaitForUpdatesEx", COLLECTOR, "").await.returned().expect("updates");
    reconfigure(&mut client, &one, "<cpuHotAddEnabled>true</cpuHotAddEnabled>")
        .await
        .expect("a change");
    let version = format!("<version>{}</version>", first.text_of("version"));
    let next = client.call("WaitForUpdatesEx", COLLECTOR, &version).await;
    assert!(next.body.contains("<name>config.cpuHotAddEnabled</name>"), "{}", next.body);
    assert!(!next.body.contains("<name>config.hardware.device</name>"), "{}", next.body);
}

#[tokio::test(start_paused = true)]
async fn an_added_card_is_reported_to_a_filter_of_the_number_of_cards() {
    let (_sim, mut client, one) = machine_off().await;
    let spec = format!(
        "<spec>{}{}</spec><partialUpdates>false</partialUpdates>",
        props("VirtualMachine", &["summary.config.numEthernetCards"]),
        object("VirtualMachine", &one)
    );
    client.call("CreateFilter", COLLECTOR, &spec).await.ok();
    let first = client.call("WaitForUpdatesEx", COLLECTOR, "").await.returned().expect("updates");
    reconfigure(&mut client, &one, CARD).await.expect("a new card");
    let wait = format!(
        "<version>{}</version><options><maxWaitSeconds>1</maxWaitSeconds></options>",
        first.text_of("version")
    );
    let next = client.call("WaitForUpdatesEx", COLLECTOR, &wait).await;
    assert!(next.body.contains("<name>summary.config.numEthernetCards</name>"), "{}", next.body);
}

#[tokio::test(start_paused = true)]
async fn the_clock_rate_of_very_many_processors_is_the_highest_number() {
    let (_sim, mut client, one) = machine_off().await;
    reconfigure(&mut client, &one, "<numCPUs>2147483647</numCPUs>").await.expect("processors");
    assert_eq!(text(&mut client, &one, "runtime.maxCpuUsage").await, "2147483647");
}

#[tokio::test(start_paused = true)]
async fn a_running_machine_gets_processors_only_with_hot_add() {
    let (_sim, mut client, one) = machine_off().await;
    let this = ("VirtualMachine", one.as_str());
    let refused = Err("InvalidPowerState".to_owned());
    let hot =
        "<cpuHotAddEnabled>true</cpuHotAddEnabled><numCPUs>2</numCPUs><memoryMB>2048</memoryMB>";
    reconfigure(&mut client, &one, hot).await.expect("the machine is off");
    run(&mut client, "PowerOnVM_Task", this, "").await.expect("the machine is off");
    reconfigure(&mut client, &one, "<numCPUs>4</numCPUs>").await.expect("hot add");
    for spec in [
        "<numCPUs>1</numCPUs>",
        "<memoryMB>4096</memoryMB>",
        "<memoryHotAddEnabled>true</memoryHotAddEnabled>",
        "<firmware>efi</firmware>",
        "<guestId>rhel8_64Guest</guestId>",
        "<uuid>42000000-0000-4000-8000-000000000001</uuid>",
    ] {
        assert_eq!(reconfigure(&mut client, &one, spec).await, refused, "{spec}");
    }
    let same = "<memoryMB>2048</memoryMB><firmware>bios</firmware><annotation>x</annotation>\
        <nestedHVEnabled>false</nestedHVEnabled>";
    reconfigure(&mut client, &one, same).await.expect("values that the machine has");
    assert_eq!(text(&mut client, &one, "config.hardware.numCPU").await, "4");
    assert_eq!(text(&mut client, &one, "config.hardware.memoryMB").await, "2048");
}

#[tokio::test(start_paused = true)]
async fn a_change_of_another_version_is_refused() {
    let (_sim, mut client, one) = machine_off().await;
    let version = text(&mut client, &one, "config.changeVersion").await;
    let spec = format!("<changeVersion>{version}</changeVersion><annotation>x</annotation>");
    reconfigure(&mut client, &one, &spec).await.expect("the version is the present one");
    let fault = reconfigure(&mut client, &one, &spec).await;
    assert_eq!(fault, Err("ConcurrentAccess".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn devices_are_added_changed_and_removed() {
    let (_sim, mut client, one) = machine_off().await;
    let this = ("VirtualMachine", one.as_str());
    let before = client.fetch(this, "config.hardware.device").await.expect("devices");
    let cdrom = "<deviceChange><operation>add</operation><device xsi:type=\"VirtualCdrom\">\
        <key>-1</key><backing xsi:type=\"VirtualCdromIsoBackingInfo\"><fileName>[LocalDS_0] a.iso\
        </fileName></backing><controllerKey>200</controllerKey></device></deviceChange>";
    reconfigure(&mut client, &one, &format!("{cdrom}{CARD}")).await.expect("new devices");
    let after = client.fetch(this, "config.hardware.device").await.expect("devices");
    for device in &before.children {
        assert!(after.children.contains(device), "{device:#?} has changed");
    }
    assert_eq!(after.children.len(), before.children.len() + 2);
    let mac = "<deviceChange><operation>edit</operation><device xsi:type=\"VirtualE1000\">\
        <key>4001</key><macAddress>00:50:56:AA:00:01</macAddress>\
        <wakeOnLanEnabled>false</wakeOnLanEnabled></device></deviceChange>";
    let grow = "<deviceChange><operation>edit</operation><device xsi:type=\"VirtualDisk\">\
        <key>2000</key><capacityInKB>52428800</capacityInKB></device></deviceChange>";
    reconfigure(&mut client, &one, &format!("{mac}{grow}")).await.expect("changed devices");
    for (path, want) in [
        ("config.hardware.device[3000].backing.fileName", "[LocalDS_0] a.iso"),
        ("config.hardware.device[4001].macAddress", "00:50:56:aa:00:01"),
        ("config.hardware.device[4001].wakeOnLanEnabled", "false"),
        ("config.hardware.device[4001].backing.deviceName", "VM Network"),
        ("config.hardware.device[2000].capacityInKB", "52428800"),
        ("config.hardware.device[2000].capacityInBytes", "53687091200"),
        ("config.hardware.device[2000].backing.thinProvisioned", "true"),
        ("summary.config.numEthernetCards", "2"),
    ] {
        assert_eq!(text(&mut client, &one, path).await, want, "{path}");
    }
    let shrink = grow.replace("52428800", "1024");
    let controller = "<deviceChange><operation>remove</operation><device xsi:type=\"VirtualDevice\">\
        <key>1000</key></device></deviceChange>";
    for spec in [shrink.as_str(), controller] {
        let fault = reconfigure(&mut client, &one, spec).await;
        assert_eq!(fault, Err("InvalidDeviceSpec".to_owned()), "{spec}");
    }
    for key in ["4000", "2000"] {
        let remove = format!(
            "<deviceChange><operation>remove</operation><device xsi:type=\"VirtualDevice\">\
             <key>{key}</key></device></deviceChange>"
        );
        reconfigure(&mut client, &one, &remove).await.expect("the device exists");
        let again = reconfigure(&mut client, &one, &remove).await;
        assert_eq!(again, Err("InvalidDeviceSpec".to_owned()));
    }
    let lonely = DISK.replace("-201", "1007");
    for (spec, fault) in [
        (lonely.as_str(), "MissingController"),
        (&grow.replace("52428800", "1024").replace("2000", "2001"), "InvalidDeviceSpec"),
        (&mac.replace("AA:00", "AA"), "InvalidDeviceSpec"),
        (&DISK.replace("persistent<", "sometimes<"), "InvalidArgument"),
        (
            &DISK.replace(
                "<diskMode>",
                "<datastore type=\"Datastore\">host-1</datastore><diskMode>",
            ),
            "InvalidArgument",
        ),
        (&CARD.replace("VM Network", "none"), "InvalidDeviceBacking"),
        (&CARD.replace("<operation>add</operation>", ""), "InvalidDeviceSpec"),
        (
            "<deviceChange><operation>add</operation><device xsi:type=\"VirtualTPM\"><key>-1</key></device></deviceChange>",
            "DeviceUnsupportedForVmPlatform",
        ),
    ] {
        assert_eq!(reconfigure(&mut client, &one, spec).await, Err(fault.to_owned()), "{spec}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_clone_is_a_copy_in_the_place_of_its_spec() {
    let (_sim, mut client) = lab(1).await;
    let one = client.machine("node-0001").await;
    let pool = path(&mut client, "DC0/host/DC0_C1/Resources").await;
    let host = path(&mut client, "DC0/host/DC0_C1/DC0_C1_H0").await;
    let datastore = path(&mut client, "DC0/datastore/LocalDS_0").await;
    let clone = format!(
        "<folder type=\"Folder\">group-v3</folder><name>copy</name><spec><location>\
         <datastore type=\"Datastore\">{datastore}</datastore>\
         <pool type=\"ResourcePool\">{pool}</pool><host type=\"HostSystem\">{host}</host>{CARD}\
         </location><template>false</template><config><numCPUs>3</numCPUs></config>\
         <powerOn>true</powerOn></spec>"
    );
    let this = ("VirtualMachine", one.as_str());
    let copy = run(&mut client, "CloneVM_Task", this, &clone).await.expect("a copy");
    for (path, want) in [
        ("name", "copy"),
        ("parent", "group-v3"),
        ("runtime.host", host.as_str()),
        ("resourcePool", pool.as_str()),
        ("runtime.powerState", "poweredOn"),
        ("config.hardware.numCPU", "3"),
        ("config.hardware.memoryMB", "8192"),
        ("summary.config.numEthernetCards", "2"),
    ] {
        assert_eq!(text(&mut client, &copy, path).await, want, "{path}");
    }
    for path in ["config.uuid", "config.instanceUuid", "config.hardware.device[4000].macAddress"] {
        let [old, new] =
            [text(&mut client, &one, path).await, text(&mut client, &copy, path).await];
        assert_ne!(old, new, "{path}");
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(text(&mut client, &copy, "guest.hostName").await, "copy");
    assert_ne!(
        text(&mut client, &copy, "guest.ipAddress").await,
        text(&mut client, &one, "guest.ipAddress").await
    );
    let again = run(&mut client, "CloneVM_Task", this, &clone).await;
    assert_eq!(again, Err("DuplicateName".to_owned()));
    let two = clone.replace("<config>", "<config><name>other</name>");
    let two = run(&mut client, "CloneVM_Task", this, &two).await;
    assert_eq!(two, Err("InvalidArgument".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_template_is_cloned_into_a_pool() {
    let (_sim, mut client) = lab(1).await;
    let one = client.machine("node-0001").await;
    let pool = path(&mut client, "DC0/host/DC0_C0/Resources").await;
    let clone = |name: &str, location: &str, template: bool, power_on: bool| {
        format!(
            "<folder type=\"Folder\">group-v3</folder><name>{name}</name><spec>\
             <location>{location}</location><template>{template}</template>\
             <powerOn>{power_on}</powerOn></spec>"
        )
    };
    let this = ("VirtualMachine", one.as_str());
    let both = run(&mut client, "CloneVM_Task", this, &clone("t", "", true, true)).await;
    assert_eq!(both, Err("InvalidArgument".to_owned()));
    let template = run(&mut client, "CloneVM_Task", this, &clone("t", "", true, false)).await;
    let template = template.expect("a template");
    assert_eq!(text(&mut client, &template, "config.template").await, "true");
    assert_eq!(client.fetch(("VirtualMachine", &template), "resourcePool").await, None);
    let this = ("VirtualMachine", template.as_str());
    let nowhere = run(&mut client, "CloneVM_Task", this, &clone("m", "", false, false)).await;
    assert_eq!(nowhere, Err("InvalidArgument".to_owned()));
    let pool = format!("<pool type=\"ResourcePool\">{pool}</pool>");
    let not_supported = Err("NotSupported".to_owned());
    let present = text(&mut client, &template, "runtime.host").await;
    for host in [String::new(), format!("<host type=\"HostSystem\">{present}</host>")] {
        let on = run(&mut client, "PowerOnVM_Task", this, &host).await;
        assert_eq!(on, not_supported, "{host}");
    }
    let machine = run(&mut client, "CloneVM_Task", this, &clone("m", &pool, false, true)).await;
    let machine = machine.expect("a machine");
    assert_eq!(text(&mut client, &machine, "config.template").await, "false");
    assert_eq!(text(&mut client, &machine, "runtime.powerState").await, "poweredOn");
}

#[tokio::test(start_paused = true)]
async fn a_machine_is_powered_on_on_the_given_host() {
    let (_sim, mut client, one) = machine_off().await;
    let present = text(&mut client, &one, "runtime.host").await;
    let hosts = ["DC0_C0_H0", "DC0_C0_H1", "DC0_C1_H0"];
    let mut ids = Vec::new();
    for host in hosts {
        let cluster = &host[..6];
        let found = format!("<inventoryPath>DC0/host/{cluster}/{host}</inventoryPath>");
        let answer = client.call("FindByInventoryPath", SEARCH, &found).await.returned();
        ids.extend(answer.map(|it| (it.text, cluster == "DC0_C0")));
    }
    let this = ("VirtualMachine", one.as_str());
    let on = |host: &str| format!("<host type=\"HostSystem\">{host}</host>");
    let (far, _) = ids.iter().find(|(_, is_near)| !is_near).expect("another cluster");
    let fault = run(&mut client, "PowerOnVM_Task", this, &on(far)).await;
    assert_eq!(fault, Err("InvalidArgument".to_owned()));
    let near = ids.iter().find(|(id, is_near)| *is_near && *id != present);
    let (near, _) = near.cloned().unwrap_or((present, true));
    run(&mut client, "PowerOnVM_Task", this, &on(&near)).await.expect("a host of the cluster");
    assert_eq!(text(&mut client, &one, "runtime.host").await, near);
    assert_eq!(text(&mut client, &one, "runtime.powerState").await, "poweredOn");
}

#[tokio::test(start_paused = true)]
async fn a_move_changes_host_and_pool_only() {
    let (_sim, mut client) = lab(1).await;
    let one = client.machine("node-0001").await;
    let pool = path(&mut client, "DC0/host/DC0_C1/Resources").await;
    let host = path(&mut client, "DC0/host/DC0_C1/DC0_C1_H0").await;
    let datastore = path(&mut client, "DC0/datastore/LocalDS_0").await;
    let this = ("VirtualMachine", one.as_str());
    let spec = |datastore: &str, more: &str| {
        format!(
            "<spec><datastore type=\"Datastore\">{datastore}</datastore>\
             <pool type=\"ResourcePool\">{pool}</pool><host type=\"HostSystem\">{host}</host>{more}\
             </spec>"
        )
    };
    for wrong in [spec("datastore-9999", ""), spec(&datastore, CARD)] {
        let fault = run(&mut client, "RelocateVM_Task", this, &wrong).await;
        assert_eq!(fault, Err("NotSupported".to_owned()), "{wrong}");
    }
    run(&mut client, "RelocateVM_Task", this, &spec(&datastore, "")).await.expect("a move");
    assert_eq!(text(&mut client, &one, "runtime.host").await, host);
    assert_eq!(text(&mut client, &one, "resourcePool").await, pool);
}

#[tokio::test(start_paused = true)]
async fn a_reference_to_an_object_of_another_type_is_refused() {
    let (_sim, mut client) = lab(1).await;
    let one = client.machine("node-0001").await;
    let host = path(&mut client, "DC0/host/DC0_C1/DC0_C1_H0").await;
    let spec = |more: &str| format!("<spec>{more}<host type=\"HostSystem\">{host}</host></spec>");
    let this = ("VirtualMachine", one.as_str());
    for (operation, arguments, fault) in [
        // The stated type is not the declared one.
        (
            "RelocateVM_Task",
            spec(&format!("<pool type=\"HostSystem\">{host}</pool>")),
            "InvalidArgument",
        ),
        (
            "RelocateVM_Task",
            spec(&format!("<datastore type=\"VirtualMachine\">{one}</datastore>")),
            "InvalidArgument",
        ),
        // No object of the stated type has the id.
        (
            "RelocateVM_Task",
            spec(&format!("<pool type=\"ResourcePool\">{host}</pool>")),
            "ManagedObjectNotFound",
        ),
        (
            "RelocateVM_Task",
            spec(&format!("<datastore type=\"Datastore\">{one}</datastore>")),
            "ManagedObjectNotFound",
        ),
        (
            "PowerOnVM_Task",
            format!("<host type=\"HostSystem\">{one}</host>"),
            "ManagedObjectNotFound",
        ),
        (
            "PowerOnVM_Task",
            format!("<host type=\"VirtualMachine\">{one}</host>"),
            "InvalidArgument",
        ),
    ] {
        let refused = run(&mut client, operation, this, &arguments).await;
        assert_eq!(refused, Err(fault.to_owned()), "{operation} {arguments}");
    }
    let pool = "<pool type=\"VirtualApp\">resgroup-v999</pool>";
    let refused = run(&mut client, "RelocateVM_Task", this, &spec(pool)).await;
    assert_eq!(refused, Err("ManagedObjectNotFound".to_owned()), "a vApp is a pool");
}
