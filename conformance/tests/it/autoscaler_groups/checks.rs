//! The checks of the catalogue, for a server whose groups are objects.

use conformance::checks::autoscaler::{AutoscalerCheck, Need, all};
use conformance::judge::verdict::Verdict;
use conformance::lab::autoscaler::Ours;
use conformance::lab::in_virtual_time;
use serde_json::Value;

use super::world::World;

/// Returns a world whose NodeGroups are the groups of the checks.
async fn world() -> World {
    let world = World::new().await;
    let file: Value = serde_saphyr::from_str(Ours::GROUPS).unwrap();
    for group in file["groups"].as_array().unwrap() {
        let mut spec = group.clone();
        let name = spec.as_object_mut().unwrap().remove("name").unwrap();
        world.create(name.as_str().unwrap(), spec).await;
    }
    world.ours.run(1).await.unwrap();
    world
}

/// Plays a check, and returns its failures.
fn play(check: &AutoscalerCheck) -> Vec<String> {
    let mut failed = Vec::new();
    for generation in check.generations {
        let verdict = in_virtual_time(async {
            let ours = world().await.ours.with_minimum().await.unwrap();
            check.play(&ours.subject(), *generation).await.0
        });
        if verdict != Verdict::Pass {
            failed.push(format!("{} {}: {verdict}", check.id, generation.as_str()));
        }
    }
    failed
}

#[test]
fn our_server_with_objects_as_groups_passes_every_check() {
    let all = all();
    let without_tls = all.iter().filter(|it| it.need != Need::Tls);
    let (n, failed) = without_tls.fold((0, Vec::new()), |(n, mut failed), check| {
        failed.extend(play(check));
        (n + 1, failed)
    });
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert!(n >= 60, "only {n} checks");
}
