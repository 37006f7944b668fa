//! Creations that fail, and calls and tasks that cannot be read.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_lack_of_resources_is_a_failure_of_class_1_and_a_missing_template_one_of_class_99() {
    let server = start(file(0, "")).await;
    let full = Rule::new("full", [Action::soap_fault("InsufficientMemoryResourcesFault")]);
    let full = server.sim().fault(full.on(sim::Face::Soap).op(["CloneVM_Task"])).unwrap();
    server.increase(1).await;
    tokio::time::sleep(s(20)).await;
    let failure = |it: &Instance| {
        let error = it.status.clone().unwrap().error.unwrap();
        (error.code, error.class)
    };
    let instances = server.instances().await;
    assert_eq!(failure(&instances[0]), ("INSUFFICIENT_RESOURCES_MEMORY".to_owned(), 1));
    drop(full);
    tokio::time::sleep(s(240)).await;
    assert_eq!(server.states().await, [1], "the machine is made when there is room");

    server.sim().apply(Command::DeleteMachine("ubuntu".into())).unwrap();
    server.increase(1).await;
    tokio::time::sleep(s(20)).await;
    let instances = server.instances().await;
    assert_eq!(failure(&instances[1]), ("BAD_CONFIGURATION".to_owned(), 99));
    let node = SentNode::fake(&instances[1].id, "create-error");
    server.call::<Empty>("NodeGroupDeleteNodes", DeleteNodes::new(GROUP, [node])).await;
    tokio::time::sleep(s(20)).await;
    assert_eq!((server.target().await, server.states().await), (1, vec![1]));
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_may_pass_is_shown_only_after_two_minutes() {
    let server = start(file(0, "")).await;
    let busy = Rule::new("busy", [Action::soap_fault("TaskInProgress")]);
    let busy = server.sim().fault(busy.on(sim::Face::Soap).op(["CloneVM_Task"])).unwrap();
    server.increase(1).await;
    let has_error = |it: &[Instance]| it[0].status.clone().unwrap().error.is_some();
    tokio::time::sleep(s(110)).await;
    assert!(!has_error(&server.instances().await));
    tokio::time::sleep(s(80)).await;
    assert!(has_error(&server.instances().await));
    drop(busy);
    tokio::time::sleep(s(120)).await;
    assert_eq!(server.states().await, [1]);
}

#[tokio::test(start_paused = true)]
async fn a_failed_machine_of_a_group_at_its_minimum_is_replaced_after_a_pause() {
    let server = start(file(1, "")).await;
    let full = Rule::new("full", [Action::soap_fault("NoDiskSpace")]);
    let full = server.sim().fault(full.on(sim::Face::Soap).op(["CloneVM_Task"])).unwrap();
    server.increase(1).await;
    tokio::time::sleep(s(20)).await;
    let ids = server.ids().await;
    let node = SentNode::fake(&ids[0], "create-error");
    server.call::<Empty>("NodeGroupDeleteNodes", DeleteNodes::new(GROUP, [node])).await;
    let n_clones = calls(server.sim(), "CloneVM_Task");
    drop(full);
    assert_eq!(server.target().await, 1);
    tokio::time::sleep(s(20)).await;
    assert_eq!(calls(server.sim(), "CloneVM_Task"), n_clones, "the replacement waits");
    tokio::time::sleep(s(120)).await;
    let now = server.ids().await;
    assert_eq!((now.len(), server.states().await), (1, vec![1]));
    assert_ne!(now, ids);
}

#[tokio::test(start_paused = true)]
async fn a_template_whose_hardware_cannot_be_read_is_not_cloned() {
    for path in ["config.hardware.device", "config.hardware.numCPU", "config.hardware.memoryMB"] {
        let ours = Ours::over_vcenter(file(0, ""), 1, false).unwrap();
        let hidden = ours.sim().fault(unreadable(path)).unwrap();
        let server = next(&ours, 1).await;
        tokio::time::sleep(s(20)).await;
        server.increase(1).await;
        tokio::time::sleep(s(60)).await;
        assert_eq!(calls(server.sim(), "CloneVM_Task"), 0, "{path}");
        drop(hidden);
        tokio::time::sleep(s(180)).await;
        assert_eq!(server.states().await, [1], "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_that_the_login_may_not_read_is_a_failure_of_its_machine() {
    let server = start(file(0, "")).await;
    tasks_take(server.sim(), s(30));
    server.increase(1).await;
    tokio::time::sleep(s(5)).await;
    let denied = Rule::new("denied", [Action::soap_fault("NoPermission")]).on(sim::Face::Soap);
    let denied = server.sim().fault(denied.op(["RetrievePropertiesEx"])).unwrap();
    tokio::time::sleep(s(10)).await;
    let error = server.instances().await.remove(0).status.unwrap().error.unwrap();
    assert_eq!(error.code, "AUTH");
    let decrease = Resize::new(GROUP, -1);
    let code = server.code("NodeGroupDecreaseTargetSize", decrease).await;
    assert_eq!(code, FAILED_PRECONDITION, "the clone may be running");
    drop(denied);
    tokio::time::sleep(s(240)).await;
    assert_eq!((server.states().await, machines(server.sim()).len()), (vec![1], 1));
}

#[tokio::test(start_paused = true)]
async fn tasks_that_never_end_do_not_hold_up_other_machines_for_ever() {
    let server = start(file(0, "")).await;
    let completion = Completion::WhenTold;
    server.sim().apply(Command::SetTiming { step: Step::Task, completion }).unwrap();
    server.increase(9).await;
    tokio::time::sleep(s(1800)).await;
    assert_eq!(calls(server.sim(), "CloneVM_Task"), 8);
    tokio::time::sleep(s(2400)).await;
    assert!(calls(server.sim(), "CloneVM_Task") > 8);
}
