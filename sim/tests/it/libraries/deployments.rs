//! Deployments of machines from library items.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_deployment_makes_a_machine_as_a_clone_does() {
    let sim = lab();
    let mut rest = Rest::new(&sim, PROVIDER_USER).await;
    let (_, ubuntu) = rest.ids("ubuntu").await;
    let (pool, folder) = places(&sim);
    for (n, base) in TEMPLATES.into_iter().enumerate() {
        let placement = json!({"resource_pool": pool, "folder": folder});
        let name = format!("new-{n}");
        // As govc sends it.
        let storage = json!({"storage_policy": {"type": "USE_SOURCE_POLICY"}});
        let mut spec = json!({"name": name, "placement": placement, "powered_on": true});
        (spec["vm_home_storage"], spec["disk_storage"]) = (storage.clone(), storage);
        let path = format!("{base}/{ubuntu}?action=deploy");
        let (status, body) = rest.post(&path, spec.clone()).await;
        assert_eq!(status, 200, "{body}");
        let id = value(base, body);
        let (made, is_on) = sim.world().read(|world| {
            let inventory = &world.vcenter("vc0").unwrap().inventory;
            let id = inventory.by_machine_name(&name).next().unwrap();
            let machine = inventory.machine(id).unwrap();
            assert_eq!((machine.config.template, machine.config.cpus), (false, 4));
            (id.to_string(), machine.booted.is_some())
        });
        assert_eq!((id, is_on), (json!(made), true));
        let (status, body) = rest.post(&path, spec).await;
        assert_eq!((status, kind(&body)), (400, "ALREADY_EXISTS".to_owned()));
    }
}

/// Returns the ids of the pool and of the folder of a machine.
fn places(sim: &Sim) -> (String, String) {
    sim.world().read(|world| {
        let inventory = &world.vcenter("vc0").expect("the sim has it").inventory;
        let id = inventory.by_machine_name("node-0002").next().expect("the sim has it");
        let entity = inventory.get(id).expect("the sim has it");
        let pool = entity.machine().expect("the sim has it").pool.expect("the sim has it");
        (pool.to_string(), entity.parent.expect("the sim has it").to_string())
    })
}

#[tokio::test(start_paused = true)]
async fn a_deployment_that_the_sim_does_not_carry_out_is_refused_by_name() {
    let sim = lab();
    let mut rest = Rest::new(&sim, PROVIDER_USER).await;
    let (_, ubuntu) = rest.ids("ubuntu").await;
    let (_, empty) = rest.ids("empty").await;
    let (pool, _) = places(&sim);
    let before = sim.world().read(|world| world.vcenter("vc0").unwrap().inventory.len());
    let placement = json!({"resource_pool": pool});
    let spec = |key: &str, value: Value| {
        let mut spec = json!({"name": "new", "placement": placement});
        spec[key] = value;
        spec
    };
    for (item, spec, status, wanted) in [
        (
            &ubuntu,
            spec("guest_customization", json!({"name": "c"})),
            400,
            "spec.guest_customization: the sim does",
        ),
        (
            &ubuntu,
            spec("disk_storage_overrides", json!([])),
            400,
            "spec.disk_storage_overrides: the sim does",
        ),
        (
            &ubuntu,
            spec(
                "vm_home_storage",
                json!({"storage_policy": {"type": "USE_SPECIFIED_POLICY", "policy": "p"}}),
            ),
            400,
            "spec.vm_home_storage.storage_policy: the",
        ),
        (
            &ubuntu,
            spec("placement", json!({"network": "network-7"})),
            400,
            "spec.placement.network: the sim does",
        ),
        (
            &ubuntu,
            spec("placement", json!({})),
            400,
            "spec.placement: resource_pool, cluster or host is required",
        ),
        (
            &ubuntu,
            spec("placement", json!({"folder": "group-v999"})),
            404,
            "spec: folder: no object is 'group-v999'",
        ),
        (&ubuntu, spec("placement", json!({"resource_pool": "group-v3"})), 404, ""),
        (&ubuntu, spec("name", json!("")), 400, "A specified parameter was not correct: name"),
        (&ubuntu, json!({"placement": {}}), 400, "spec: missing field `name`"),
        (&empty, spec("powered_on", json!(false)), 400, "the library item '"),
    ] {
        for base in TEMPLATES {
            let path = format!("{base}/{item}?action=deploy");
            let (got, body) = rest.post(&path, spec.clone()).await;
            assert_eq!(got, status, "{spec}: {body}");
            assert!(text(&body).starts_with(wanted), "{spec}: {body}");
        }
    }
    revoke(&sim, "DC0");
    let path = format!("{}/{ubuntu}?action=deploy", TEMPLATES[1]);
    let (status, body) = rest.post(&path, spec("powered_on", json!(true))).await;
    assert_eq!((status, kind(&body)), (403, "UNAUTHORIZED".to_owned()));
    let after = sim.world().read(|world| world.vcenter("vc0").unwrap().inventory.len());
    assert_eq!(after, before);
}
