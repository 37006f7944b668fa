//! Builds the Kubernetes objects of a replica: a Secret with its files, and a Pod.

use std::collections::BTreeMap;
use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::files::{Files, Mount, MountContent};
use crate::foreign::host::remote::Start;
use crate::foreign::manifest;

/// Grace period of the pod in seconds. It is longer than the time after which this program kills a
/// provider that does not stop, so that this program decides about the end.
const GRACE_SECONDS: u32 = 60;

/// Returns the Secret and the Pod of a replica as a Kubernetes `List`.
pub(super) fn objects(start: &Start<'_>, labels: &BTreeMap<&str, String>, files: &Files) -> Value {
    let name = start.full_name();
    let metadata = json!({"name": name, "labels": labels});
    let data: Map<String, Value> = files
        .data
        .iter()
        .map(|(key, bytes)| (key.clone(), Value::from(STANDARD.encode(bytes))))
        .collect();
    let (volumes, mounts) = volumes(start, &name, files);
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        // The pod needs no token of its cluster, because the provider uses the sim's API server.
        "automountServiceAccountToken": false,
        "enableServiceLinks": false,
        // Some clusters have only control plane nodes, or nodes that the cluster's own cloud
        // provider has not initialized.
        "tolerations": [
            {"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"},
            {"key": "node.cloudprovider.kubernetes.io/uninitialized", "operator": "Exists"},
        ],
        "hostAliases": aliases(&start.container.hosts),
        "containers": [container(start, mounts)],
        "volumes": volumes,
    }});
    json!({"apiVersion": "v1", "kind": "List", "items": [secret, pod]})
}

fn container(start: &Start<'_>, mounts: Vec<Value>) -> Value {
    let Start { container, directory, arguments, env, .. } = start;
    let arguments: Vec<String> = arguments.iter().map(|it| literal(it)).collect();
    let env: Vec<Value> =
        env.iter().map(|(name, value)| json!({"name": name, "value": literal(value)})).collect();
    let mut it = json!({
        "name": "provider",
        "image": container.image,
        "imagePullPolicy": "IfNotPresent",
        "args": arguments,
        "env": env,
        "workingDir": directory.display().to_string(),
        "volumeMounts": mounts,
    });
    if let Some(entrypoint) = &container.entrypoint {
        it["command"] = json!([literal(entrypoint)]);
    }
    if let Some((user, group)) = container.user.as_deref().and_then(manifest::user) {
        it["securityContext"] = json!({"runAsUser": user});
        if let Some(group) = group {
            it["securityContext"]["runAsGroup"] = json!(group);
        }
    }
    it
}

/// Returns the pod's volumes and the container's mounts: a writable directory of the run, and the
/// files, read-only.
fn volumes(start: &Start<'_>, secret: &str, files: &Files) -> (Vec<Value>, Vec<Value>) {
    let mut volumes = vec![json!({"name": "run", "emptyDir": {}})];
    let run = start.directory.display().to_string();
    let mut mounts = vec![json!({"name": "run", "mountPath": run})];
    for (n, Mount { inside, what }) in files.mounts.iter().enumerate() {
        let name = format!("mount-{n}");
        let items = |items: &[(&str, &str)]| -> Value {
            let items: Vec<Value> =
                items.iter().map(|(path, key)| json!({"path": path, "key": key})).collect();
            json!({"secretName": secret, "items": items})
        };
        let path = inside.display().to_string();
        let mut mount = json!({"name": name, "mountPath": path, "readOnly": true});
        volumes.push(match what {
            // A Secret volume with an empty list of items would contain all keys of the Secret.
            MountContent::Directory(all) if all.is_empty() => json!({"name": name, "emptyDir": {}}),
            MountContent::Directory(all) => {
                let all: Vec<(&str, &str)> =
                    all.iter().map(|(path, key)| (path.as_str(), key.as_str())).collect();
                json!({"name": name, "secret": items(&all)})
            }
            MountContent::File(key) => {
                mount["subPath"] = json!("file");
                json!({"name": name, "secret": items(&[("file", key.as_str())])})
            }
        });
        mounts.push(mount);
    }
    (volumes, mounts)
}

fn aliases(hosts: &BTreeMap<String, IpAddr>) -> Vec<Value> {
    let mut names = BTreeMap::<IpAddr, Vec<&str>>::new();
    for (name, address) in hosts {
        names.entry(*address).or_default().push(name);
    }
    names.iter().map(|(address, names)| json!({"ip": address, "hostnames": names})).collect()
}

/// Returns the text with each `$` escaped, because a kubelet would replace `$(NAME)` by a variable.
fn literal(text: &str) -> String {
    text.replace('$', "$$")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::foreign::manifest::Container;

    /// Files at three places: a directory, a single file, and an empty directory.
    fn files() -> Files {
        let key = |n: u32| format!("file-{n}");
        let directory = vec![("ca.pem".to_owned(), key(0)), ("a/token".to_owned(), key(1))];
        let mount = |inside: &str, what| Mount { inside: inside.into(), what };
        Files {
            data: [(key(0), b"pem".to_vec()), (key(1), b"secret".to_vec())].into(),
            mounts: vec![
                mount("/tmp/run/replica-0", MountContent::Directory(directory)),
                mount("/etc/mine.pem", MountContent::File(key(0))),
                mount("/etc/empty", MountContent::Directory(Vec::new())),
            ],
            ..Files::default()
        }
    }

    #[test]
    fn a_pod_has_files_at_the_paths_of_a_process_and_no_service_account_token() {
        let container = Container {
            image: "registry.example/mine:1".to_owned(),
            entrypoint: Some("/mine".to_owned()),
            user: Some("1000:2000".to_owned()),
            hosts: [("b.example", 1), ("a.example", 1), ("c.example", 2)]
                .map(|(name, n)| (name.to_owned(), [192, 0, 2, n].into()))
                .into(),
            ..Container::default()
        };
        let start = Start {
            container: &container,
            directory: Path::new("/tmp/run"),
            replica: Path::new("/tmp/run/replica-0"),
            name: "NODE-004-0-0".to_owned(),
            arguments: vec!["--ca=/tmp/run/replica-0/ca.pem".to_owned(), "$(HOME)".to_owned()],
            env: vec![("A".to_owned(), "5$".to_owned())],
            binds: Vec::new(),
        };
        let labels = BTreeMap::from([("io.vsphere-lab.driver", "conformance-7".to_owned())]);
        let mut list = objects(&start, &labels, &files());
        let name = format!("conformance-{}-node-004-0-0", std::process::id());
        for item in list["items"].as_array_mut().unwrap() {
            assert_eq!(item["metadata"]["name"], name.as_str());
            item["metadata"]["name"] = "NAME".into();
        }
        let text = serde_json::to_string_pretty(&list).unwrap().replace(&name, "NAME");
        insta::assert_snapshot!("pod", text);
    }
}
