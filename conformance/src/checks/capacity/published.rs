//! Values that a reconciler publishes for each input.

use serde_json::json;

use super::Outcome;
use super::expected::difference;
use super::trial::{Trial, ensure};
use super::vsphere::{SMALL, class, image, small, spec};
use crate::lab::capacity::{Configuration, Expected, ObjectRef};

/// CAPZ-001: each sample gets its status, one that exists at the start and one that is created
/// later.
pub(super) async fn known_capacity_is_published(trial: &Trial<'_>) -> Outcome {
    let mut templates = Vec::new();
    for (n, sample) in trial.subject.kind.samples.iter().enumerate() {
        trial.create_objects(sample).await?;
        let template = trial.create_template(&format!("early-{n}"), &sample.spec).await?;
        templates.push((template, sample));
    }
    let running = trial.start_usual().await?;
    for (template, sample) in templates {
        trial.until_status(&template, &sample.status).await?;
    }
    for (n, sample) in trial.subject.kind.samples.iter().enumerate() {
        let later = trial.create_template(&format!("later-{n}"), &sample.spec).await?;
        trial.until_status(&later, &sample.status).await?;
    }
    trial.stop(running).await
}

/// Verifies that each template gets its status, and keeps it.
async fn all_settle(trial: &Trial<'_>, templates: &[(ObjectRef, Expected)]) -> Outcome {
    for (template, expected) in templates {
        trial.until_status(template, expected).await?;
    }
    trial.be_quiet().await;
    for (template, expected) in templates {
        let wrong = difference(&trial.get(template).await?["status"], expected);
        ensure!(wrong.is_none(), "{}: later, {}", template.name, wrong.unwrap_or_default());
    }
    Ok(())
}

/// CAPZ-005: a class without hardware leads to no capacity.
pub(super) async fn empty_hardware_leads_to_no_capacity(trial: &Trial<'_>) -> Outcome {
    trial.create(&class("empty", json!({}))).await?;
    trial.create(&image("vmi-1", "amd64", "linux")).await?;
    let template = trial.create_template("workers", &spec("empty", "vmi-1")).await?;
    let running = trial.start_usual().await?;
    let expected = Expected::new(&[], &[("architecture", "amd64"), ("operatingSystem", "linux")]);
    all_settle(trial, &[(template, expected)]).await?;
    trial.stop(running).await
}

/// CAPZ-007: a value that becomes unknown stays.
pub(super) async fn unknown_value_stays(trial: &Trial<'_>) -> Outcome {
    let template = trial.create_sample("workers").await?;
    let running = trial.start_usual().await?;
    trial.until_status(&template, &trial.sample().status).await?;
    let class = trial.management.object(&trial.sample().objects[0]);
    let change = json!({"spec": {"hardware": {"cpus": 0, "memory": "10Gi"}}});
    trial.patch(&class.path(), change).await?;
    let mut expected = trial.sample().status.clone();
    expected.capacity.insert("memory".to_owned(), "10Gi".to_owned());
    all_settle(trial, &[(template, expected)]).await?;
    trial.stop(running).await
}

/// CAPZ-008: a missing image does not hold the capacity back.
pub(super) async fn missing_image_leaves_the_capacity(trial: &Trial<'_>) -> Outcome {
    trial.create_objects(trial.sample()).await?;
    let template = trial.create_template("workers", &spec("small", "vmi-none")).await?;
    let running = trial.start_usual().await?;
    all_settle(trial, &[(template, small(&[]))]).await?;
    trial.stop(running).await
}

/// CAPZ-009: unknown values of the image are left out.
pub(super) async fn unknown_platform_is_left_out(trial: &Trial<'_>) -> Outcome {
    trial.create_objects(trial.sample()).await?;
    let mut templates = Vec::new();
    for (name, architecture, system, known) in [
        ("both", "x86", "macos", &[][..]),
        ("system", "arm64", "macos", &[("architecture", "arm64")][..]),
        ("architecture", "x86", "windows", &[("operatingSystem", "windows")][..]),
    ] {
        let template = trial.template_of_image(name, architecture, system).await?;
        templates.push((template, small(known)));
    }
    let running = trial.start_usual().await?;
    all_settle(trial, &templates).await?;
    trial.stop(running).await
}

/// CAPZ-010: the known values are published as they are, and their case matters.
pub(super) async fn known_platforms_are_published(trial: &Trial<'_>) -> Outcome {
    trial.create_objects(trial.sample()).await?;
    let mut templates = Vec::new();
    for architecture in ["amd64", "arm64", "s390x", "ppc64le"] {
        for system in ["linux", "windows"] {
            let name = format!("{architecture}-{system}");
            let template = trial.template_of_image(&name, architecture, system).await?;
            let known = [("architecture", architecture), ("operatingSystem", system)];
            templates.push((template, small(&known)));
        }
    }
    let upper = trial.template_of_image("upper", "AMD64", "Linux").await?;
    templates.push((upper, small(&[])));
    let running = trial.start_usual().await?;
    all_settle(trial, &templates).await?;
    trial.stop(running).await
}

/// CAPZ-011: a template without an image gets only the capacity.
pub(super) async fn without_image_only_the_capacity_is_published(trial: &Trial<'_>) -> Outcome {
    trial.create_objects(trial.sample()).await?;
    let template = trial.create_template("workers", &spec("small", "")).await?;
    let running = trial.start_usual().await?;
    all_settle(trial, &[(template, small(&[]))]).await?;
    trial.stop(running).await
}

/// CAPZ-031: mapped devices become GPUs, and others do not.
pub(super) async fn mapped_devices_become_gpus(trial: &Trial<'_>) -> Outcome {
    let profiles = ["t4-8q", "t4-16q"].map(str::to_owned).to_vec();
    let resource = "nvidia.com/gpu".to_owned();
    let configuration = Configuration::Gpus { profiles, resource };
    let mut templates = Vec::new();
    for (name, devices, n) in
        [("two", &["t4-8q", "t4-16q", "other"][..], Some("2")), ("none", &["other"], None)]
    {
        let devices: Vec<_> = devices.iter().map(|it| json!({"profileName": it})).collect();
        let hardware = json!({"cpus": 4, "memory": "8Gi", "devices": {"vgpuDevices": devices}});
        trial.create(&class(name, hardware)).await?;
        let template = trial.create_template(name, &spec(name, "")).await?;
        let capacity: Vec<(&str, &str)> =
            SMALL.into_iter().chain(n.map(|n| ("nvidia.com/gpu", n))).collect();
        templates.push((template, Expected::new(&capacity, &[])));
    }
    let running = trial.start(configuration).await?;
    all_settle(trial, &templates).await?;
    trial.stop(running).await
}
