//! Tests of the effects of machine events on the VirtualMachines in the Supervisor.

use http::Method;
use serde_json::{Value, json};
use sim::Sim;
use sim::world::supervisor::OperatorChange;
use sim::world::{Command, Completion, Fault, Step};

use super::{MACHINES, admin, builder, get, pass};

async fn object(sim: &Sim, name: &str) -> Value {
    get(sim, &format!("{MACHINES}/{name}")).await.1
}

async fn status(sim: &Sim, name: &str) -> Value {
    object(sim, name).await["status"].clone()
}

fn condition(status: &Value, kind: &str) -> Value {
    let mut all = status["conditions"].as_array().into_iter().flatten();
    all.find(|it| it["type"] == kind).cloned().unwrap_or_default()
}

fn operator(change: OperatorChange) -> Command {
    Command::SetVmOperator(change)
}

sim::test! {
    async fn uuids_may_come_in_upper_case(sim: &Sim = builder()) -> Result<(), Fault> {
        let before = status(sim, "node-0001").await;
        let lower = before["biosUUID"].as_str().expect("the machine has a UUID").to_owned();
        let upper = OperatorChange { upper_case_uuids: Some(true), ..OperatorChange::default() };
        sim.apply(operator(upper))?;
        pass(2).await;
        assert_eq!(status(sim, "node-0001").await["biosUUID"], lower.to_uppercase());
        let older = MACHINES.replace("v1alpha6", "v1alpha2");
        let (_, shown) = get(sim, &format!("{older}/node-0001")).await;
        assert_eq!(shown["status"]["biosUUID"], lower.to_uppercase());
        let lower_again = OperatorChange { upper_case_uuids: Some(false), ..upper };
        sim.apply(operator(lower_again))?;
        pass(2).await;
        assert_eq!(status(sim, "node-0001").await["biosUUID"], lower);
        Ok(())
    }

    async fn the_status_follows_a_uuid_that_is_cleared_and_changed(sim: &Sim = builder()) -> Result<(), Fault> {
        let machine = || "node-0001".into();
        sim.apply(Command::SetUuid { machine: machine(), uuid: None })?;
        pass(2).await;
        assert_eq!(status(sim, "node-0001").await["biosUUID"], Value::Null);
        for uuid in ["421a7c0e-1111-4222-8333-abcdefabcdef", "421a7c0e-2222-4222-8333-abcdefabcdef"] {
            let wanted = uuid.parse().expect("a UUID");
            sim.apply(Command::SetUuid { machine: machine(), uuid: Some(wanted) })?;
            pass(2).await;
            let told = object(sim, "node-0001").await;
            assert_eq!(told["status"]["biosUUID"], uuid, "the object has the new UUID");
            assert_eq!(told["metadata"]["name"], "node-0001");
        }
        Ok(())
    }

    async fn a_restored_machine_has_the_uuid_of_another(sim: &Sim = builder()) -> Result<(), Fault> {
        let first = status(sim, "node-0001").await["biosUUID"].clone();
        let uuid = first.as_str().and_then(|it| it.parse().ok());
        sim.apply(Command::SetUuid { machine: "node-0002".into(), uuid })?;
        pass(2).await;
        assert_eq!(status(sim, "node-0002").await["biosUUID"], first);
        assert_eq!(status(sim, "node-0001").await["biosUUID"], first);
        Ok(())
    }

    async fn a_machine_may_have_another_name_than_its_object_and_its_node(sim: &Sim = builder()) -> Result<(), Fault> {
        let before = status(sim, "node-0001").await;
        sim.apply(Command::Rename { machine: "node-0001".into(), to: "renamed".into() })?;
        pass(60).await;
        let after = status(sim, "node-0001").await;
        for field in ["biosUUID", "uniqueID", "powerState", "network"] {
            assert_eq!(after[field], before[field], "{field}");
        }
        let node = sim::world::objects::Key::node("node-0001");
        assert!(sim.world().read(|world| world.cluster.get(&node).is_some()), "the Node keeps its name");
        Ok(())
    }

    async fn a_reregistered_machine_keeps_its_bios_uuid(sim: &Sim = builder()) -> Result<(), Fault> {
        let before = status(sim, "node-0001").await;
        // If the step that writes the status takes no time, the object briefly has no machine.
        for completion in [Completion::Immediately, Completion::After(std::time::Duration::from_secs(3))] {
            sim.apply(Command::SetTiming { step: Step::VmStatus, completion })?;
            let was = status(sim, "node-0001").await["uniqueID"].clone();
            sim.apply(Command::Reregister("node-0001".into()))?;
            pass(5).await;
            let after = status(sim, "node-0001").await;
            assert_ne!(after["uniqueID"], was);
            assert_eq!(after["biosUUID"], before["biosUUID"]);
            assert_eq!(condition(&after, "VirtualMachineCreated")["status"], "True");
        }
        Ok(())
    }

    async fn vm_operator_may_report_zones_late(sim: &Sim = builder()) -> Result<(), Fault> {
        let quiet = OperatorChange { tells_zones: Some(false), ..OperatorChange::default() };
        sim.apply(operator(quiet))?;
        let machine = json!({
            "apiVersion": "vmoperator.vmware.com/v1alpha6",
            "kind": "VirtualMachine",
            "metadata": {"name": "new"},
            "spec": {"className": "best-effort-small", "storageClass": "default"},
        });
        assert_eq!(admin(sim, Method::POST, MACHINES, machine).await.0, 201);
        pass(60).await;
        let told = object(sim, "new").await;
        assert!(told["status"]["network"]["primaryIP4"].is_string(), "{told}");
        assert_eq!(told["status"]["zone"], Value::Null);
        assert_eq!(told["metadata"]["labels"]["topology.kubernetes.io/zone"], Value::Null);
        let telling = OperatorChange { tells_zones: Some(true), ..quiet };
        sim.apply(operator(telling))?;
        pass(2).await;
        let told = object(sim, "new").await;
        assert!(told["status"]["zone"].is_string(), "{told}");
        assert_eq!(told["status"]["zone"], told["metadata"]["labels"]["topology.kubernetes.io/zone"]);
        Ok(())
    }

    async fn a_machine_whose_tools_stop_loses_its_network_status(sim: &Sim = builder()) -> Result<(), Fault> {
        let before = status(sim, "node-0001").await["network"].clone();
        sim.apply(Command::StopTools("node-0001".into()))?;
        pass(2).await;
        let stopped = status(sim, "node-0001").await;
        assert_eq!(stopped["network"], Value::Null);
        assert_eq!(stopped["powerState"], "PoweredOn");
        assert_eq!(condition(&stopped, "VirtualMachineTools")["status"], "False");
        sim.apply(Command::StartTools("node-0001".into()))?;
        pass(2).await;
        assert_eq!(status(sim, "node-0001").await["network"], before);
        Ok(())
    }

    async fn vm_operator_powers_on_a_machine_that_was_powered_off_in_vcenter(sim: &Sim = builder()) -> Result<(), Fault> {
        sim.apply(Command::SetTiming { step: Step::VmPower, completion: Completion::WhenTold })?;
        sim.apply(Command::PowerOff("node-0001".into()))?;
        pass(60).await;
        // VM Operator's step is held, so that the status does not yet show that the machine is off.
        let held = status(sim, "node-0001").await;
        assert_eq!(held["powerState"], "PoweredOn", "VM Operator does one step at a time");
        sim.apply(Command::Tell { step: Some(Step::VmPower), machine: Some("node-0001".into()) })?;
        pass(60).await;
        let after = status(sim, "node-0001").await;
        assert_eq!(after["powerState"], "PoweredOn");
        assert!(after["network"]["primaryIP4"].is_string(), "{after}");
        assert_eq!(condition(&after, "VirtualMachinePowerStateSynced")["status"], "True");
        let power = sim.world().read(|world| {
            let machines = &world.vcenter("vc0").expect("the world has vc0").inventory;
            let id = machines.by_machine_name("node-0001").next().expect("the machine exists");
            machines.machine(id).map(|machine| machine.power)
        });
        assert_eq!(power, Some(sim::world::vcenter::Power::PoweredOn));
        Ok(())
    }

    async fn a_machine_destroyed_in_vcenter_keeps_its_object_until_it_is_deleted(sim: &Sim = builder()) -> Result<(), Fault> {
        let before = status(sim, "node-0001").await;
        sim.apply(Command::DeleteMachine("node-0001".into()))?;
        pass(3600).await;
        let after = status(sim, "node-0001").await;
        let created = condition(&after, "VirtualMachineCreated");
        assert_eq!((&created["status"], &created["reason"]), (&json!("False"), &json!("NotFound")));
        assert_eq!(after["biosUUID"], before["biosUUID"], "the status keeps the UUID");
        assert_eq!(get(sim, &format!("{MACHINES}/node-0001")).await.0, 200);
        // The object stays until a client deletes it.
        assert_eq!(admin(sim, Method::DELETE, &format!("{MACHINES}/node-0001"), Value::Null).await.0, 200);
        pass(60).await;
        assert_eq!(get(sim, &format!("{MACHINES}/node-0001")).await.0, 404);
        Ok(())
    }

    async fn a_machine_rebuilt_under_its_name_is_reported_as_not_created(sim: &Sim = builder()) -> Result<(), Fault> {
        let before = status(sim, "node-0001").await;
        let uuid = "421a7c0e-3333-4222-8333-abcdefabcdef".parse().expect("a UUID");
        sim.apply(Command::Replace { machine: "node-0001".into(), uuid })?;
        pass(120).await;
        let after = status(sim, "node-0001").await;
        assert_eq!(after["biosUUID"], before["biosUUID"]);
        assert_eq!(condition(&after, "VirtualMachineCreated")["status"], "False");
        Ok(())
    }

    async fn a_frozen_vm_operator_does_nothing_and_catches_up(sim: &Sim = builder()) -> Result<(), Fault> {
        let frozen = OperatorChange { reconciles: Some(false), ..OperatorChange::default() };
        sim.apply(operator(frozen))?;
        let path = format!("{MACHINES}/node-0001");
        assert_eq!(admin(sim, Method::DELETE, &path, Value::Null).await.0, 200);
        let patch = json!({"spec": {"powerState": "PoweredOff"}});
        let other = format!("{MACHINES}/node-0002");
        assert_eq!(admin(sim, Method::PATCH, &other, patch).await.0, 200, "its webhooks answer");
        pass(3600).await;
        assert!(object(sim, "node-0001").await["metadata"]["deletionTimestamp"].is_string());
        assert_eq!(status(sim, "node-0002").await["powerState"], "PoweredOn");
        sim.apply(operator(OperatorChange::back()))?;
        pass(60).await;
        assert_eq!(get(sim, &path).await.0, 404);
        assert_eq!(status(sim, "node-0002").await["powerState"], "PoweredOff");
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_vm_operator_command_without_a_supervisor_is_refused() {
    let sim = Sim::builder().topology(sim::world::Topology::zones(1).machines(1)).start();
    let refused =
        sim.apply(operator(OperatorChange::away())).expect_err("the world has no Supervisor");
    assert_eq!(refused.to_string(), "this world has no Supervisor");
}
