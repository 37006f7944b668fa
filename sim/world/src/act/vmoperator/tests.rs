//! Tests of VM Operator's steps: from a VirtualMachine to its machine, and from the machine's state
//! to the object's status.

use std::time::Duration;

use serde_json::{Value, json};

use crate::objects::{self, GroupResource, Key, PatchKind};
use crate::reactions::{Completion, Step};
use crate::supervisor::vmoperator::{GROUP, machines};
use crate::vcenter::Power;
use crate::{Command, Time, Topology, World};

struct Lab(World);

impl Lab {
    fn new(n_machines: u32) -> Self {
        let epoch = "2026-01-01T00:00:00Z".parse().unwrap();
        Self(Topology::zones(2).machines(n_machines).supervisor().build(epoch, 7))
    }

    fn at(&mut self, seconds: f64) {
        self.0.advance(Time::after_start(Duration::from_secs_f64(seconds)));
    }

    fn send(&mut self, command: objects::Command) -> Result<Value, String> {
        let now = self.0.latest;
        match self.0.apply(now, Command::Supervisor(command)) {
            Ok(applied) => match applied.outcome {
                crate::Outcome::Object(reply) => Ok(reply.object.as_ref().clone()),
                other => panic!("{other:?}"),
            },
            Err(fault) => Err(fault.to_string()),
        }
    }

    fn key(name: &str) -> Key {
        Key::new(machines(), "workloads", name)
    }

    fn object(&self, name: &str) -> Option<Value> {
        self.0.supervisor.objects.get(&Self::key(name)).map(|object| object.as_ref().clone())
    }

    fn at_pointer(&self, name: &str, pointer: &str) -> Value {
        let object = self.object(name).unwrap_or_default();
        object.pointer(pointer).cloned().unwrap_or_default()
    }

    fn create(&mut self, specification: Value) -> Result<Value, String> {
        let object = json!({
            "apiVersion": "vmoperator.vmware.com/v1alpha6",
            "kind": "VirtualMachine",
            "metadata": {"name": "new", "labels": {"capv.vmware.com/cluster.role": "node"}},
            "spec": specification,
        });
        self.send(objects::Command::create(machines(), "workloads", object))
    }

    fn patch(&mut self, name: &str, patch: Value) -> Result<Value, String> {
        self.send(objects::Command::patch(Self::key(name), PatchKind::Merge, patch))
    }
}

fn usual() -> Value {
    json!({
        "className": "best-effort-small",
        "image": {"kind": "ClusterVirtualMachineImage", "name": "vmi-0123456789abcdef0"},
        "storageClass": "default",
    })
}

#[test]
fn a_machine_of_the_topology_starts_with_a_complete_object() {
    let mut lab = Lab::new(3);
    let object = lab.object("node-0001").unwrap();
    let machine = lab.0.vcenter("vc0").unwrap().inventory.machines().next().unwrap();
    let uuid = machine.2.config.uuid.unwrap().to_string();
    assert_eq!(object["status"]["biosUUID"], uuid.as_str());
    assert_eq!(object["spec"]["biosUUID"], uuid.as_str());
    assert_eq!(object["spec"]["instanceUUID"], object["status"]["instanceUUID"]);
    assert_eq!(object["status"]["powerState"], "PoweredOn");
    assert_eq!(
        object["status"]["zone"],
        object["metadata"]["labels"]["topology.kubernetes.io/zone"]
    );
    let before = lab.0.supervisor.objects.revision();
    lab.at(3600.0);
    assert_eq!(lab.0.supervisor.objects.revision(), before, "VM Operator writes nothing");
}

#[test]
fn a_vmotion_keeps_the_zone_and_a_changed_zone_label_is_recomputed() {
    let mut lab = Lab::new(3);
    let zones = |lab: &Lab| {
        ["/status/zone", "/metadata/labels/topology.kubernetes.io~1zone"]
            .map(|pointer| lab.at_pointer("node-0001", pointer))
    };
    assert_eq!(zones(&lab), ["zone-a", "zone-a"]);
    let moved = Command::VMotion { machine: "node-0001".into(), host: "DC0_C1_H0".into() };
    lab.0.apply(Time::after_start(Duration::from_secs(1)), moved).unwrap();
    lab.at(60.0);
    assert_eq!(lab.at_pointer("node-0001", "/status/nodeName"), "DC0_C1_H0");
    assert_eq!(zones(&lab), ["zone-a", "zone-a"]);
    let label = json!({"metadata": {"labels": {"topology.kubernetes.io/zone": "zone-z"}}});
    lab.patch("node-0001", label).unwrap();
    lab.at(70.0);
    assert_eq!(zones(&lab), ["zone-b", "zone-b"]);
}

#[test]
fn a_machine_is_created_in_the_steps_of_vm_operator() {
    let mut lab = Lab::new(0);
    let made = lab.create(usual()).unwrap();
    let bios = made["spec"]["biosUUID"].clone();
    assert!(bios.is_string() && made["spec"]["network"]["interfaces"][0]["name"] == "eth0");
    let mut seen = Vec::new();
    let mut last = Value::Null;
    for tenth in 1..=400 {
        lab.at(f64::from(tenth) / 10.0);
        let object = lab.object("new").unwrap();
        let status = &object["status"];
        let now = json!([
            object["metadata"]["finalizers"].is_array(),
            status["conditions"].is_array(),
            status["uniqueID"].is_string(),
            status["biosUUID"] == bios,
            status["powerState"],
            status["network"]["primaryIP4"].is_string(),
        ]);
        if now != last {
            seen.push((tenth, now.clone()));
            last = now;
        }
    }
    // Each line: time in tenths of a second; whether the object has finalizers, conditions, an id
    // and the BIOS UUID; its power state; and whether it has an address.
    insta::assert_snapshot!(
        seen.iter().map(|(at, what)| format!("{at} {what}\n")).collect::<String>(),
        @r#"
    1 [true,false,false,false,null,false]
    2 [true,true,false,false,null,false]
    52 [true,true,true,false,null,false]
    57 [true,true,true,true,"PoweredOff",false]
    82 [true,true,true,true,"PoweredOn",false]
    282 [true,true,true,true,"PoweredOn",true]
    "#
    );
    assert!(lab.0.cluster.get(&Key::node("new")).is_some(), "its kubelet has registered a Node");
}

#[test]
fn a_machine_with_a_missing_class_is_created_once_the_class_exists() {
    let mut lab = Lab::new(0);
    let mut specification = usual();
    specification["className"] = "huge".into();
    lab.create(specification).unwrap();
    lab.at(60.0);
    let conditions = lab.at_pointer("new", "/status/conditions");
    assert_eq!(conditions[0]["status"], "False", "{conditions}");
    assert!(conditions[0]["message"].as_str().unwrap().contains("\"huge\" not found"));
    let class = json!({
        "apiVersion": "vmoperator.vmware.com/v1alpha6",
        "kind": "VirtualMachineClass",
        "metadata": {"name": "huge"},
        "spec": {"hardware": {"cpus": 64, "memory": "1Ti"}},
    });
    let classes = objects::GroupResource::of("vmoperator.vmware.com", "virtualmachineclasses");
    lab.send(objects::Command::create(classes, "workloads", class)).unwrap();
    lab.at(120.0);
    assert_eq!(lab.at_pointer("new", "/status/powerState"), "PoweredOn");
}

#[test]
fn a_machine_follows_the_power_state_of_its_object() {
    let mut lab = Lab::new(1);
    lab.patch("node-0001", json!({"spec": {"powerState": "PoweredOff"}})).unwrap();
    lab.at(10.0);
    assert_eq!(lab.at_pointer("node-0001", "/status/powerState"), "PoweredOff");
    assert_eq!(lab.at_pointer("node-0001", "/status/network"), Value::Null);
    let denied = lab.patch("node-0001", json!({"spec": {"powerState": "Suspended"}})).unwrap_err();
    assert!(denied.contains("cannot suspend a VM that is powered off"), "{denied}");
    lab.patch("node-0001", json!({"spec": {"powerState": "PoweredOn"}})).unwrap();
    lab.at(60.0);
    assert!(lab.at_pointer("node-0001", "/status/network/primaryIP4").is_string());
    // Powers the machine off in vCenter, without VM Operator.
    let now = Time::after_start(Duration::from_secs(60));
    lab.0.apply(now, Command::PowerOff("node-0001".into())).unwrap();
    lab.at(120.0);
    let machine = lab.0.vcenter("vc0").unwrap().inventory.machines().next().unwrap();
    assert_eq!(machine.2.power, Power::PoweredOn, "VM Operator restores spec.powerState");
}

#[test]
fn a_machine_lost_in_vcenter_keeps_its_object_with_a_false_condition() {
    let mut lab = Lab::new(1);
    lab.0.apply(Time::ZERO, Command::DeleteMachine("node-0001".into())).unwrap();
    lab.at(60.0);
    let conditions = lab.at_pointer("node-0001", "/status/conditions");
    let created =
        conditions.as_array().unwrap().iter().find(|it| it["type"] == "VirtualMachineCreated");
    assert_eq!(created.unwrap()["status"], "False");
    assert!(lab.at_pointer("node-0001", "/status/biosUUID").is_string(), "the object remains");
}

#[test]
fn a_finalizer_holds_a_deleted_object_until_its_machine_is_gone() {
    let mut lab = Lab::new(2);
    lab.send(objects::Command::delete(Lab::key("node-0002"))).unwrap();
    lab.at(1.0);
    assert!(lab.object("node-0002").is_some(), "its finalizer delays the deletion");
    lab.at(10.0);
    assert_eq!(lab.object("node-0002"), None);
    assert_eq!(lab.0.vcenter("vc0").unwrap().inventory.machines().count(), 1);
}

#[test]
fn a_held_step_of_vm_operator_waits_for_the_tell_command() {
    let mut lab = Lab::new(0);
    let step = |step, completion| Command::SetTiming { step, completion };
    lab.0.apply(Time::ZERO, step(Step::VmPower, Completion::WhenTold)).unwrap();
    lab.create(usual()).unwrap();
    lab.at(600.0);
    assert_eq!(lab.at_pointer("new", "/status/powerState"), "PoweredOff");
    let now = Time::after_start(Duration::from_secs(600));
    lab.0
        .apply(now, Command::Tell { step: Some(Step::VmPower), machine: Some("new".into()) })
        .unwrap();
    lab.at(700.0);
    assert_eq!(lab.at_pointer("new", "/status/powerState"), "PoweredOn");
}

#[test]
fn a_machine_is_created_and_deleted_at_once_with_immediate_timing() {
    let epoch = "2026-01-01T00:00:00Z".parse().unwrap();
    let topology =
        Topology { timing: crate::Timing::immediate(), ..Topology::zones(1).supervisor() };
    let mut lab = Lab(topology.build(epoch, 7));
    lab.create(usual()).unwrap();
    assert!(lab.at_pointer("new", "/status/network/primaryIP4").is_string());
    lab.send(objects::Command::delete(Lab::key("new"))).unwrap();
    assert_eq!(lab.object("new"), None);
}

#[test]
fn a_machine_has_the_processors_and_the_memory_of_its_class() {
    for (n, memory) in [json!("16Gi"), json!(16_u64 << 30)].into_iter().enumerate() {
        let mut lab = Lab::new(0);
        let class = json!({
            "apiVersion": "vmoperator.vmware.com/v1alpha6", "kind": "VirtualMachineClass",
            "metadata": {"name": "large"}, "spec": {"hardware": {"cpus": 8, "memory": memory}},
        });
        let classes = GroupResource::of(GROUP, "virtualmachineclasses");
        lab.send(objects::Command::create(classes, "workloads", class)).unwrap();
        let mut specification = usual();
        specification["className"] = "large".into();
        lab.create(specification).unwrap();
        lab.at(60.0);
        let vcenter = lab.0.vcenter("vc0").unwrap();
        let config = &vcenter.inventory.machines().next().unwrap().2.config;
        assert_eq!((config.cpus, config.memory_mib), (8, 16384), "{n}");
    }
}
