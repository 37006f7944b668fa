//! `provider capacity` as a process.

use std::process::{Command, Output};

use rustix::process::{Pid, Signal, kill_process};

use crate::process::{Process, kubeconfig};

const TEMPLATE: &str = "
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: VSphereMachineTemplate
metadata: {name: workers, namespace: team}
spec: {template: {spec: {numCPUs: 4, memoryMiB: 8192}}}
";

fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_provider"));
    command.arg("capacity").args(arguments).env_clear().output().unwrap()
}

#[test]
fn a_template_in_a_file_is_printed_as_annotations() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("template.yaml").display().to_string();
    std::fs::write(&path, TEMPLATE).unwrap();
    let output = run(&["--template", &path]);
    assert_eq!(output.status.code(), Some(0));
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(
        printed.contains("capacity.cluster-autoscaler.kubernetes.io/cpu: \"4\"\n"),
        "{printed}"
    );
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
}

#[test]
fn wrong_input_ends_with_2_and_names_flag_file_key_value_and_remedy() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("template.yaml").display().to_string();
    std::fs::write(&path, TEMPLATE.replace("8192", "8Gi")).unwrap();
    let absent = directory.path().join("absent.yaml").display().to_string();
    for (arguments, text) in [
        (
            &["--template", &*path][..],
            format!(
                "provider: --template {path}: spec: template: spec: memoryMiB: \"8Gi\" is not a whole \
                 number; write a number such as 4, without quotes\n"
            ),
        ),
        (
            &["--template", &absent],
            format!(
                "provider: --template {absent}: cannot be read: No such file or directory (os error 2); \
                 check the path\n"
            ),
        ),
        (
            &["--kubeconfig", &absent],
            format!(
                "provider: --kubeconfig {absent}: cannot be read: No such file or directory (os error \
                 2); check the path\n"
            ),
        ),
        (
            &["--clear-unknown=maybe"],
            "provider: --clear-unknown: \"maybe\" is neither true nor false\n".to_owned(),
        ),
    ] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert_eq!(String::from_utf8(output.stderr).unwrap(), text);
    }
}

#[test]
fn a_signal_ends_the_controller_with_0_also_without_an_api_server() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("kubeconfig").display().to_string();
    std::fs::write(&path, kubeconfig("http://127.0.0.1:9")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_provider"));
    let mut process = Process::spawn(command.args(["capacity", "--kubeconfig", &path]).env_clear());
    process.until("cannot find out whether the API server serves this kind; retrying");
    let id = Pid::from_raw(process.child.id().try_into().unwrap()).unwrap();
    kill_process(id, Signal::TERM).unwrap();
    process.until("received a signal; finishing the current write, then stopping");
    assert_eq!(process.child.wait().unwrap().code(), Some(0));
}
