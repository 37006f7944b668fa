//! Tests of the metrics of the server for the Cluster Autoscaler.

use prost::Message as _;

use super::*;
use crate::telemetry::Telemetry;

fn group(id: &str) -> GroupReading {
    GroupReading { id: id.to_owned(), min: 1, max: 5, size: Some(3), n_failed: 1 }
}

fn show(telemetry: &Telemetry, groups: Vec<GroupReading>) -> String {
    let reading = AutoscalerReading { groups, view_age: None, trouble: None };
    telemetry.autoscaler().set_probe(Box::new(move || reading.clone()));
    telemetry.metrics()
}

/// Returns the number of lines with values.
fn n_values(text: &str) -> usize {
    text.lines().filter(|line| !line.starts_with('#')).count()
}

#[test]
fn each_method_of_the_protocol_has_a_label() {
    let all = prost_types::FileDescriptorSet::decode(externalgrpc::DESCRIPTOR).unwrap();
    let services = all.file.iter().flat_map(|file| &file.service);
    let service = services.into_iter().find(|it| it.name() == "CloudProvider").unwrap();
    let methods: Vec<&str> = service.method.iter().map(|it| it.name()).collect();
    assert_eq!((methods.len(), METHODS[0].1.len()), (15, 15));
    for method in methods {
        let labels = labels(&format!("/{}/{method}", externalgrpc::SERVICE));
        assert_eq!((labels.grpc_service, labels.grpc_method), (externalgrpc::SERVICE, method));
    }
}

#[test]
fn the_metrics_have_the_documented_names_and_labels() {
    let telemetry = Telemetry::of_autoscaler();
    let metrics = telemetry.autoscaler();
    metrics.call(&format!("/{}/Refresh", externalgrpc::SERVICE)).set_code("OK");
    metrics.machine_created("a");
    metrics.machine_deleted("a");
    metrics.machine_failed("a");
    metrics.file_read(FileRead::Applied);
    metrics.set_refused(2);
    telemetry.supervisor_requests().ended(&http::Method::GET, Some(200));
    let text = show(&telemetry, vec![group("a"), group("b")]);
    for line in [
        "grpc_server_handled_total{grpc_service=\"clusterautoscaler.cloudprovider.v1.externalgrpc.CloudProvider\",\
         grpc_method=\"Refresh\",grpc_code=\"OK\"} 1",
        "grpc_server_handling_seconds_count{grpc_service=\"clusterautoscaler.cloudprovider.v1.externalgrpc.CloudProvider\",\
         grpc_method=\"Refresh\"} 1",
        "rest_client_requests_total{server=\"supervisor\",method=\"GET\",code=\"200\"} 1",
        "vsphere_autoscaler_group_failed_instances{group=\"a\"} 1",
        "vsphere_autoscaler_group_file_reads_total{result=\"applied\"} 1",
        "vsphere_autoscaler_group_max{group=\"a\"} 5",
        "vsphere_autoscaler_group_min{group=\"a\"} 1",
        "vsphere_autoscaler_group_size{group=\"b\"} 3",
        "vsphere_autoscaler_groups_refused 2",
        "vsphere_autoscaler_machine_failures_total{group=\"a\"} 1",
        "vsphere_autoscaler_machines_created_total{group=\"a\"} 1",
        "vsphere_autoscaler_machines_created_total{group=\"b\"} 0",
        "vsphere_autoscaler_machines_deleted_total{group=\"a\"} 1",
        "vsphere_autoscaler_view_age_seconds -1.0",
    ] {
        assert!(text.lines().any(|it| it == line), "{line}\nin\n{text}");
    }
    assert!(!text.contains("vsphere_nodes_held"), "a metric of the controllers");
}

#[test]
fn no_caller_and_no_change_of_the_file_adds_labels_without_bound() {
    let telemetry = Telemetry::of_autoscaler();
    let metrics = telemetry.autoscaler();
    let text = |n: usize| {
        for path in ["/x", "", "/a/b/c"] {
            metrics.call(&format!("{path}{n}")).set_code("Unimplemented");
        }
        metrics.call(&format!("/{}/X{n}", externalgrpc::SERVICE)).set_code("Unimplemented");
        metrics.machine_created(&format!("g{n}"));
        show(&telemetry, vec![group(&format!("g{n}"))])
    };
    let first = text(0);
    let last = (1..1000).map(text).last().unwrap();
    assert_eq!(n_values(&last), n_values(&first), "{last}");
    assert!(last.contains("group=\"g999\"") && !last.contains("group=\"g998\""), "{last}");
    assert!(last.contains("grpc_service=\"other\",grpc_method=\"other\""), "{last}");
}

#[test]
fn a_call_that_its_caller_gave_up_counts_as_canceled() {
    let telemetry = Telemetry::of_autoscaler();
    drop(telemetry.autoscaler().call(&format!("/{}/Refresh", externalgrpc::SERVICE)));
    let text = telemetry.metrics();
    assert!(text.contains("grpc_method=\"Refresh\",grpc_code=\"Canceled\"} 1"), "{text}");
}

#[test]
fn the_server_is_ready_once_its_view_can_be_used() {
    let telemetry = Telemetry::of_autoscaler();
    assert!(telemetry.readiness().iter().any(|(_, it)| it.is_err()), "before the server runs");
    let trouble = Some("not listed".to_owned());
    let reading = AutoscalerReading { trouble, ..AutoscalerReading::default() };
    telemetry.autoscaler().set_probe(Box::new(move || reading.clone()));
    let failed = ("virtualmachines".to_owned(), Err("not listed".to_owned()));
    assert_eq!(telemetry.readiness(), [failed]);
    show(&telemetry, Vec::new());
    assert_eq!(telemetry.readiness(), [("virtualmachines".to_owned(), Ok(()))]);
}
