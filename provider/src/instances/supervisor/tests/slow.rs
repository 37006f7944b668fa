//! A Supervisor that answers slowly, in part, or not for now.

use futures::StreamExt as _;

use super::*;

/// A tick of the lifecycle controller: every question has twenty seconds.
async fn tick(lab: &Lab, nodes: &[NodeIdentity]) -> Vec<Lookup<()>> {
    let ask = |node: NodeIdentity| async move {
        let asked = lab.exists(&node);
        let unanswered = Lookup::Unknown(Unknown::Pending);
        timeout(Duration::from_secs(20), asked).await.unwrap_or(unanswered)
    };
    let questions = nodes.iter().cloned().map(ask);
    futures::stream::iter(questions).buffered(lab.instances.n_at_once()).collect().await
}

#[tokio::test(start_paused = true)]
async fn many_nodes_that_are_read_one_by_one_are_all_answered_in_every_tick() {
    let fake = Fake::with(150);
    fake.refuse(forbidden(true, true));
    let lab = Lab::started(fake, InstancesMode::Auto, 150).await;
    let nodes: Vec<NodeIdentity> = (0..150).map(nth).collect();
    for round in 0..4 {
        let answers = tick(&lab, &nodes).await;
        let n_answered = answers.iter().filter(|it| **it == Lookup::Found(())).count();
        assert_eq!(n_answered, 150, "tick {round}");
        seconds(5).await;
    }
}
