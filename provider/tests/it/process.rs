//! The provider as a process.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    time::Duration,
};

/// Ended with the test, whatever its outcome.
struct Process {
    child: Child,
    lines: Receiver<String>,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Process {
    fn start(arguments: &[String]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_provider"));
        let mut child = command.args(arguments).stderr(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = channel();
        let log = BufReader::new(child.stderr.take().unwrap());
        std::thread::spawn(move || {
            for line in log.lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        Self { child, lines }
    }

    /// Reads the log up to a line with these words.
    fn until(&self, words: &str) -> String {
        let mut seen = String::new();
        loop {
            match self.lines.recv_timeout(Duration::from_secs(60)) {
                Ok(line) if line.contains(words) => return line,
                Ok(line) => seen.push_str(&format!("{line}\n")),
                Err(_) => panic!("{words:?} is not in the log:\n{seen}"),
            }
        }
    }
}

#[test]
fn a_changed_configuration_ends_the_process_in_order_and_an_unusable_one_does_not() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let config = |password: &str| {
        format!(
            "global: {{server: vc.invalid, insecureFlag: true, user: u, password: {password}}}\n"
        )
    };
    std::fs::write(path("vsphere.conf"), config("hunter2")).unwrap();
    // Nobody listens there: the process waits for the lease.
    let kubeconfig = "{apiVersion: v1, kind: Config, current-context: a, users: [{name: a, user: {}}], \
        contexts: [{name: a, context: {cluster: a, user: a}}], \
        clusters: [{name: a, cluster: {server: 'http://127.0.0.1:9'}}]}";
    std::fs::write(path("kubeconfig"), kubeconfig).unwrap();
    let mut process = Process::start(&[
        format!("--cloud-config={}", path("vsphere.conf").display()),
        format!("--kubeconfig={}", path("kubeconfig").display()),
        "--secure-port=0".to_owned(),
    ]);
    process.until("waiting for the lease");
    std::fs::write(path("vsphere.conf"), "global: {server: vc.invalid, user: u}\n").unwrap();
    let refused = process.until("going on with the old one");
    assert!(refused.contains("Password is missing"), "{refused}");
    let with_ca = config("hunter2").replace("insecureFlag: true", "caFile: /nowhere/ca.pem");
    std::fs::write(path("vsphere.conf"), with_ca).unwrap();
    let refused = process.until("going on with the old one");
    assert!(refused.contains("/nowhere/ca.pem"), "{refused}");
    // As a mounted ConfigMap changes: another file in its place.
    std::fs::write(path("new"), config("hunter3")).unwrap();
    std::fs::rename(path("new"), path("vsphere.conf")).unwrap();
    process.until("the configuration has changed: stopping");
    let said = process.until("to be started again with it");
    assert!(said.contains("vsphere.conf has changed"), "{said}");
    assert_eq!(process.child.wait().unwrap().code(), Some(1));
}
