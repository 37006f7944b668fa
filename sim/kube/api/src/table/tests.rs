//! Tests that compare table rows with those of kube-apiserver 1.36.3 for the same objects.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{COLUMNS, cells, columns_of, pods};

fn now() -> Timestamp {
    "2026-03-01T08:11:00Z".parse().unwrap()
}

fn meta(name: &str) -> Value {
    json!({"name": name, "creationTimestamp": "2026-03-01T08:10:59Z"})
}

#[test]
fn every_kind_has_as_many_cells_as_columns() {
    assert!(COLUMNS.len() >= 14);
    for (resource, columns) in COLUMNS.iter() {
        let cells = cells::of(resource, &json!({}), now());
        assert_eq!(cells.len(), columns.as_array().unwrap().len(), "{resource}");
    }
}

#[test]
fn table_rows_equal_those_of_the_real_server() {
    let rows = [
        (
            "nodes",
            json!({
                "metadata": {
                    "name": "n1",
                    "creationTimestamp": "2026-03-01T08:10:59Z",
                    "labels": {"node-role.kubernetes.io/control-plane": "", "kubernetes.io/role": "master"},
                },
                "spec": {"unschedulable": true},
                "status": {"nodeInfo": {"osImage": "", "kernelVersion": ""}},
            }),
            json!([
                "n1",
                "Unknown,SchedulingDisabled",
                "control-plane,master",
                "1s",
                "",
                "<none>",
                "<none>",
                "<unknown>",
                "<unknown>",
                "<unknown>"
            ]),
        ),
        (
            "nodes",
            json!({
                "metadata": meta("n2"),
                "status": {
                    "conditions": [{"type": "MemoryPressure", "status": "False"}, {"type": "Ready", "status": "True"}],
                    "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "ExternalIP", "address": "1.2.3.4"}],
                    "nodeInfo": {"kubeletVersion": "v1.36.3", "osImage": "Photon", "kernelVersion": "6.1", "architecture": "amd64", "containerRuntimeVersion": "containerd://2"},
                },
            }),
            json!([
                "n2",
                "Ready",
                "<none>",
                "1s",
                "v1.36.3",
                "10.0.0.1",
                "1.2.3.4",
                "Photon",
                "6.1 (amd64)",
                "containerd://2"
            ]),
        ),
        (
            "services",
            json!({
                "metadata": meta("s1"),
                "spec": {
                    "type": "LoadBalancer",
                    "clusterIPs": ["10.96.102.83"],
                    "selector": {"b": "2", "a": "1"},
                    "externalIPs": ["1.2.3.4"],
                    "ports": [
                        {"port": 80, "nodePort": 30599, "protocol": "TCP"},
                        {"port": 53, "nodePort": 30494, "protocol": "UDP"},
                    ],
                },
            }),
            json!([
                "s1",
                "LoadBalancer",
                "10.96.102.83",
                "1.2.3.4",
                "80:30599/TCP,53:30494/UDP",
                "1s",
                "a=1,b=2"
            ]),
        ),
        (
            "services",
            json!({"metadata": meta("s2"), "spec": {"type": "LoadBalancer", "clusterIPs": ["None"], "ports": [{"port": 80, "protocol": "TCP"}]}}),
            json!(["s2", "LoadBalancer", "None", "<pending>", "80/TCP", "1s", "<none>"]),
        ),
        (
            "services",
            json!({"metadata": meta("s3"), "spec": {"type": "ExternalName", "externalName": "example.com"}}),
            json!(["s3", "ExternalName", "<none>", "example.com", "<none>", "1s", "<none>"]),
        ),
        (
            "endpoints",
            json!({
                "metadata": meta("e1"),
                "subsets": [{
                    "addresses": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}, {"ip": "10.0.0.3"}, {"ip": "10.0.0.4"}],
                    "ports": [{"port": 80}, {"port": 81}],
                }],
            }),
            json!(["e1", "10.0.0.1:80,10.0.0.2:80,10.0.0.3:80 + 5 more...", "1s"]),
        ),
        ("endpoints", json!({"metadata": meta("e2")}), json!(["e2", "<none>", "1s"])),
        (
            "endpointslices.discovery.k8s.io",
            json!({
                "metadata": meta("es1"),
                "addressType": "IPv4",
                "endpoints": [{"addresses": ["10.0.0.1"]}, {"addresses": ["10.0.0.2"]}, {"addresses": ["10.0.0.3"]}, {"addresses": ["10.0.0.4"]}],
                "ports": [{"port": 80, "name": "a"}, {"name": "x"}],
            }),
            json!(["es1", "IPv4", "80,x", "10.0.0.1,10.0.0.2,10.0.0.3 + 1 more...", "1s"]),
        ),
        (
            "endpointslices.discovery.k8s.io",
            json!({"metadata": meta("es2"), "addressType": "IPv4"}),
            json!(["es2", "IPv4", "<unset>", "<unset>", "1s"]),
        ),
        (
            "leases.coordination.k8s.io",
            json!({"metadata": meta("l1"), "spec": {"holderIdentity": "me"}}),
            json!(["l1", "me", "1s"]),
        ),
        (
            "configmaps",
            json!({"metadata": meta("c1"), "data": {"a": "b"}, "binaryData": {"x": "AAAA"}}),
            json!(["c1", 2, "1s"]),
        ),
        (
            "secrets",
            json!({"metadata": meta("s"), "type": "Opaque", "data": {"a": "Yg=="}}),
            json!(["s", "Opaque", 1, "1s"]),
        ),
        (
            "events",
            json!({
                "metadata": meta("ev1"),
                "involvedObject": {"kind": "Pod", "name": "p1", "fieldPath": "spec.containers{c}"},
                "type": "Normal",
                "reason": "R",
                "message": "hi\nyou",
                "source": {"component": "comp", "host": "h"},
                "count": 3,
                "firstTimestamp": "2026-03-01T07:30:00Z",
                "lastTimestamp": "2026-03-01T08:00:00Z",
                "reportingComponent": "",
                "reportingInstance": "",
            }),
            json!([
                "11m",
                "Normal",
                "R",
                "pod/p1",
                "spec.containers{c}",
                "comp, h",
                "hi\nyou",
                "41m",
                3,
                "ev1"
            ]),
        ),
        (
            "events",
            json!({
                "metadata": meta("ev2"),
                "involvedObject": {"kind": "Node", "name": "n1"},
                "type": "Normal",
                "reason": "R",
                "message": "hello",
                "source": {},
                "firstTimestamp": null,
                "eventTime": "2026-03-01T07:30:00.000000Z",
                "reportingComponent": "rc",
                "reportingInstance": "ri",
            }),
            json!(["41m", "Normal", "R", "node/n1", "", "rc, ri", "hello", "41m", 1, "ev2"]),
        ),
        (
            "rolebindings.rbac.authorization.k8s.io",
            json!({
                "metadata": meta("rb1"),
                "roleRef": {"kind": "Role", "name": "r1"},
                "subjects": [
                    {"kind": "User", "name": "u"},
                    {"kind": "Group", "name": "g"},
                    {"kind": "ServiceAccount", "name": "sa1", "namespace": "face"},
                    {"kind": "User", "name": "v"},
                ],
            }),
            json!(["rb1", "Role/r1", "1s", "u, v", "g", "face/sa1"]),
        ),
        (
            "clusterroles.rbac.authorization.k8s.io",
            json!({"metadata": meta("cr")}),
            json!(["cr", "2026-03-01T08:10:59Z"]),
        ),
        // The object of a bookmark at the end of the initial events.
        (
            "configmaps",
            json!({"metadata": {"resourceVersion": "415"}}),
            json!(["", 0, "<unknown>"]),
        ),
    ];
    for (resource, object, want) in rows {
        assert_eq!(Value::from(cells::of(resource, &object, now())), want, "{resource} {object}");
    }
}

/// Rows of upstream's `TestPrintPod`, `TestPrintPodWithRestartableInitContainer` and similar tests.
#[test]
fn a_pod_row_shows_ready_containers_status_and_restarts() {
    let running = json!({"running": {}});
    let done = |code: i64| json!({"terminated": {"exitCode": code, "reason": if code == 0 { "Completed" } else { "Error" }}});
    let row = |spec: Value, status: Value| -> Value {
        let pod = json!({"metadata": meta("p"), "spec": spec, "status": status});
        pods::cells(&pod, now())[1..4].to_vec().into()
    };
    let two = json!({"containers": [{"name": "a"}, {"name": "b"}]});
    let init =
        json!({"containers": [{"name": "a"}], "initContainers": [{"name": "i"}, {"name": "j"}]});
    let sidecar = json!({"containers": [{"name": "a"}], "initContainers": [{"name": "i", "restartPolicy": "Always"}]});
    for (name, spec, status, want) in [
        (
            "no status of a container yet",
            &two,
            json!({"phase": "Pending"}),
            json!(["0/2", "Pending", "0"]),
        ),
        (
            "one of two containers is ready",
            &two,
            json!({"phase": "Running", "containerStatuses": [
                {"name": "a", "ready": true, "restartCount": 3, "state": running},
                {"name": "b", "restartCount": 3},
            ]}),
            json!(["1/2", "Running", "6"]),
        ),
        (
            "restarted a while ago",
            &two,
            json!({"phase": "Running", "containerStatuses": [
                {"name": "a", "ready": true, "restartCount": 3, "state": running, "lastState": {"terminated": {"finishedAt": "2026-03-01T08:10:50Z"}}},
            ]}),
            json!(["1/2", "Running", "3 (10s ago)"]),
        ),
        (
            "an image cannot be pulled",
            &two,
            json!({"phase": "Pending", "containerStatuses": [{"name": "a", "state": {"waiting": {"reason": "ImagePullBackOff"}}}]}),
            json!(["0/2", "ImagePullBackOff", "0"]),
        ),
        (
            "a container was killed",
            &two,
            json!({"phase": "Running", "containerStatuses": [{"name": "a", "state": {"terminated": {"signal": 9, "exitCode": 137}}}]}),
            json!(["0/2", "Signal:9", "0"]),
        ),
        (
            "one container has completed, one runs",
            &two,
            json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}], "containerStatuses": [
                {"name": "a", "state": done(0)},
                {"name": "b", "ready": true, "state": running},
            ]}),
            json!(["1/2", "Running", "0"]),
        ),
        (
            "one container has completed, one runs, the pod is not ready",
            &two,
            json!({"phase": "Running", "containerStatuses": [
                {"name": "a", "state": done(0)},
                {"name": "b", "ready": true, "state": running},
            ]}),
            json!(["1/2", "NotReady", "0"]),
        ),
        (
            "an init container waits",
            &init,
            json!({"phase": "Pending", "initContainerStatuses": [{"name": "i", "restartCount": 2, "state": running}, {"name": "j"}]}),
            json!(["0/1", "Init:0/2", "2"]),
        ),
        (
            "the second init container fails",
            &init,
            json!({"phase": "Pending", "initContainerStatuses": [
                {"name": "i", "state": done(0)},
                {"name": "j", "state": {"terminated": {"exitCode": 3}}},
            ]}),
            json!(["0/1", "Init:ExitCode:3", "0"]),
        ),
        (
            "a sidecar counts",
            &sidecar,
            json!({"phase": "Running",
                "initContainerStatuses": [{"name": "i", "started": true, "ready": true, "restartCount": 1, "state": running}],
                "containerStatuses": [{"name": "a", "ready": true, "state": running}]}),
            json!(["2/2", "Running", "1"]),
        ),
        (
            "the pod is gated",
            &two,
            json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]}),
            json!(["0/2", "SchedulingGated", "0"]),
        ),
    ] {
        assert_eq!(row(spec.clone(), status), want, "{name}");
    }
    let leaving = json!({"metadata": {"deletionTimestamp": "2026-03-01T08:10:59Z"}, "status": {"phase": "Running"}});
    assert_eq!(pods::cells(&leaving, now())[2], "Terminating");
    let through = json!({"metadata": {}, "status": {"phase": "Succeeded"}});
    assert_eq!(pods::conditions(&through).unwrap()[0]["type"], "Completed");
}

#[test]
fn custom_resource_rows_have_the_printer_columns_of_their_definition() {
    let definition = json!({"spec": {"versions": [
        {"name": "v1", "additionalPrinterColumns": [
            {"name": "Size", "type": "integer", "jsonPath": ".spec.size", "description": "how big"},
            {"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status", "priority": 1},
            {"name": "Tags", "type": "string", "jsonPath": ".spec.tags"},
            {"name": "Obj", "type": "string", "jsonPath": ".spec.obj"},
            {"name": "Flag", "type": "boolean", "jsonPath": ".spec.flag"},
            {"name": "Num", "type": "number", "jsonPath": ".spec.num"},
            {"name": "When", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        ]},
        {"name": "v2"},
    ]}});
    let objects = [
        (
            json!({"size": 3, "tags": ["a", "b"], "obj": {"x": 1, "a": ["q"]}, "flag": true, "num": 1.5}),
            json!([3, null, r#"["a","b"]"#, r#"{"a":["q"],"x":1}"#, true, 1.5, "1s"]),
        ),
        (
            json!({"size": 3.5, "tags": "hi", "flag": "x", "num": 2}),
            json!([3, null, "hi", null, null, 2, "1s"]),
        ),
    ];
    let columns = columns_of(&definition, "v1");
    assert_eq!(
        columns[1].definition,
        json!({"name": "Ready", "type": "string", "format": "", "description": "Custom resource definition column (in JSONPath format): .status.conditions[?(@.type==\"Ready\")].status", "priority": 1})
    );
    for (spec, want) in objects {
        let object = json!({"metadata": meta("g"), "spec": spec});
        let row: Vec<Value> = columns.iter().map(|column| column.cell(&object, now())).collect();
        assert_eq!(Value::from(row), want);
    }
    let columns = columns_of(&definition, "v2");
    assert_eq!(columns.len(), 1);
    assert_eq!(columns[0].definition["name"], "Age");
    assert_eq!(columns[0].cell(&json!({"metadata": meta("g")}), now()), "1s");
}
