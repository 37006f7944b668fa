//! Tests of credentials that change while the provider runs.

use std::sync::{Arc, Mutex};

use provider::{Deps, Options, SecretData};
use tokio::time::sleep;

use crate::{
    cluster::Cluster,
    scenarios::{SECOND, internal_ip, is_initialized, start, start_edited, swapped, uuid},
    vcenter::Vcenter,
};

const SECRET: &str = "global: {server: vc, secretName: creds, secretNamespace: kube-system}";
const DIRECTORY: &str = "global: {server: vc, secretsDirectory: /etc/cloud/secrets}";

fn one_node() -> (Vcenter, Cluster) {
    let (vcenter, cluster) = (Vcenter::new(), Cluster::new());
    vcenter.add("vm-1", &uuid(1), "node-001", Some("10.0.0.1"));
    cluster.join("node-001", &swapped(1));
    (vcenter, cluster)
}

fn pair(password: &str) -> [(&str, &str); 2] {
    [("vc.username", "ccm"), ("vc.password", password)]
}

#[tokio::test(start_paused = true)]
async fn a_rotated_secret_is_used_at_the_next_login() {
    let (vcenter, cluster) = one_node();
    cluster.set_secret(&pair("secret"));
    let lab = start(&vcenter, &cluster, SECRET, Options::default());
    sleep(5 * SECOND).await;
    assert!(is_initialized(&cluster.node("node-001").unwrap()));
    vcenter.take_calls();
    // The session stays valid, so the change alone causes no login.
    vcenter.set_password("new");
    cluster.set_secret(&pair("new"));
    sleep(600 * SECOND).await;
    assert_eq!(vcenter.take_calls().get("Login"), None);
    vcenter.end_session();
    vcenter.edit("vm-1", |vm| vm.address = Some("10.9.9.9".to_owned()));
    sleep(5 * SECOND).await;
    assert_eq!(internal_ip(&cluster.node("node-001").unwrap()), "10.9.9.9");
    assert_eq!(vcenter.take_calls()["Login"], 1, "attempts to log in");
    lab.finish().await;
}

#[tokio::test(start_paused = true)]
async fn a_corrected_secret_is_tried_at_once_and_a_wrong_one_seldom() {
    let (vcenter, cluster) = one_node();
    cluster.set_secret(&pair("wrong"));
    let lab = start(&vcenter, &cluster, SECRET, Options::default());
    sleep(1200 * SECOND).await;
    assert!(vcenter.take_calls()["Login"] <= 7, "so many attempts lock an account");
    cluster.set_secret(&pair("secret"));
    sleep(90 * SECOND).await;
    assert!(is_initialized(&cluster.node("node-001").unwrap()));
    lab.finish().await;
}

#[tokio::test(start_paused = true)]
async fn a_rotated_file_is_used_at_the_next_login() {
    let (vcenter, cluster) = one_node();
    let files = Arc::new(Mutex::new(SecretData::new()));
    let write = |password: &str| {
        let data = pair(password).map(|(key, value)| (key.to_owned(), value.as_bytes().to_vec()));
        *files.lock().unwrap() = data.into();
    };
    write("secret");
    let edit = |deps: &mut Deps| {
        let files = Arc::clone(&files);
        deps.secret_files = Some(Arc::new(move |_| Ok(files.lock().unwrap().clone())));
    };
    let lab = start_edited(&[&vcenter], &cluster, DIRECTORY, Options::default(), edit);
    sleep(5 * SECOND).await;
    assert!(is_initialized(&cluster.node("node-001").unwrap()));
    vcenter.take_calls();
    vcenter.set_password("new");
    write("new");
    vcenter.end_session();
    vcenter.edit("vm-1", |vm| vm.address = Some("10.9.9.9".to_owned()));
    sleep(5 * SECOND).await;
    assert_eq!(internal_ip(&cluster.node("node-001").unwrap()), "10.9.9.9");
    assert_eq!(vcenter.take_calls()["Login"], 1);
    lab.finish().await;
}
