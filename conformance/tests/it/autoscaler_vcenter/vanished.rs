//! Machines that the view does not show.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_machine_that_vanishes_lowers_the_size_of_its_group() {
    let (server, ids) = running_group(2).await;
    let (name, machine) = machines(server.sim()).remove(0);
    server.sim().apply(Command::DeleteMachine(name.as_str().into())).unwrap();
    tokio::time::sleep(s(60)).await;
    let gone = format!("vsphere://{}", machine.config.uuid.unwrap());
    let left: Vec<String> = ids.iter().filter(|id| **id != gone).cloned().collect();
    assert_eq!((server.target().await, server.ids().await), (1, left));
    let node = SentNode::fake(&gone, "unregistered");
    let of = server.call::<OneGroup>("NodeGroupForNode", OfNode { node: Some(node) }).await;
    assert_eq!(of.group.unwrap_or_default().id, "");
    server.delete(&[gone]).await;
    assert_eq!((server.target().await, calls(server.sim(), "CloneVM_Task")), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn a_vcenter_that_does_not_answer_makes_no_machine_vanish() {
    let (server, ids) = running_group(2).await;
    let down = Rule::new("down", [Action::Reset]).on(sim::Face::Soap);
    let down = server.sim().fault(down).unwrap();
    tokio::time::sleep(s(200)).await;
    assert_eq!((server.target().await, server.ids().await), (2, ids.clone()));
    server.call::<Empty>("Refresh", Empty {}).await;
    tokio::time::sleep(s(200)).await;
    assert_eq!(server.code("Refresh", Empty {}).await, UNAVAILABLE);
    drop(down);
    tokio::time::sleep(s(120)).await;
    server.call::<Empty>("Refresh", Empty {}).await;
    assert_eq!((server.target().await, server.ids().await), (2, ids));
}

#[tokio::test(start_paused = true)]
async fn machines_that_are_hidden_for_a_while_come_back_to_their_group() {
    let (server, ids) = running_group(2).await;
    let hidden = Rule::new("hidden", [Action::EmptyResult]).on(sim::Face::Soap);
    let hidden = hidden.op(["RetrievePropertiesEx", "FindAllByUuid"]);
    let hidden = server.sim().fault(hidden).unwrap();
    tokio::time::sleep(s(100)).await;
    assert_eq!(server.target().await, 0);
    drop(hidden);
    tokio::time::sleep(s(100)).await;
    assert_eq!((server.target().await, server.ids().await), (2, ids.clone()));
    assert_eq!((server.states().await, running(server.sim())), (vec![1, 1], ids));
}

#[tokio::test(start_paused = true)]
async fn an_inaccessible_machine_stays_in_its_group_and_in_its_deletion() {
    let (server, ids) = running_group(2).await;
    let (name, machine) = machines(server.sim()).remove(0);
    let id = format!("vsphere://{}", machine.config.uuid.unwrap());
    server.sim().apply(Command::Inaccessible(name.as_str().into())).unwrap();
    tokio::time::sleep(s(120)).await;
    assert_eq!((server.target().await, server.ids().await), (2, ids.clone()));
    let server = server.crash(2).await;
    tokio::time::sleep(s(120)).await;
    assert_eq!((server.target().await, server.ids().await), (2, ids.clone()), "after a restart");
    server.sim().apply(Command::Connect(name.as_str().into())).unwrap();
    tokio::time::sleep(s(60)).await;
    assert_eq!((server.states().await, running(server.sim())), (vec![1, 1], ids));

    server.sim().apply(Command::Inaccessible(name.as_str().into())).unwrap();
    server.delete(&[id]).await;
    tokio::time::sleep(s(120)).await;
    let server = server.crash(3).await;
    tokio::time::sleep(s(120)).await;
    let mut states = server.states().await;
    states.sort_unstable();
    assert_eq!((server.target().await, states), (1, vec![1, 3]));
    server.sim().apply(Command::Connect(name.as_str().into())).unwrap();
    tokio::time::sleep(s(180)).await;
    assert_eq!((server.states().await, machines(server.sim()).len()), (vec![1], 1));
}
