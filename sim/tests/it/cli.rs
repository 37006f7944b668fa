//! Tests of the command line: they run the binary `sim` as a process.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use sim::ledger::Record;

fn sim(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sim"));
    command.args(arguments).env_clear().env("COLUMNS", "100").env("TMPDIR", std::env::temp_dir());
    command
}

fn run(arguments: &[&str]) -> Output {
    sim(arguments).output().expect("the binary runs")
}

/// The text of an ended process: exit code, then standard output and standard error.
fn said(output: &Output) -> String {
    format!(
        "exit code {}\n{}{}",
        output.status.code().unwrap_or(-1),
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// A running process of `sim serve`. Dropping this value kills it.
struct Serving {
    child: Child,
    /// Standard output up to and including the line that reports the file of variables.
    told: String,
    /// The environment variables in the file of `--env`.
    variables: std::collections::BTreeMap<String, String>,
}

const PICKED: [&str; 6] = [
    "--vcenter-listen",
    "127.0.0.1:0",
    "--cluster-listen",
    "127.0.0.1:0",
    "--admin-listen",
    "127.0.0.1:0",
];

impl Serving {
    /// Starts a sim, and returns when its file of variables exists.
    fn start(directory: &Path, arguments: &[&str]) -> Self {
        Self::start_at(directory, &PICKED, arguments)
    }

    /// Starts a sim with these listen options.
    fn start_at(directory: &Path, listen: &[&str], arguments: &[&str]) -> Self {
        let env = directory.join("env");
        let mut command = sim(&["serve", "--env"]);
        command.arg(&env).args(listen).args(arguments);
        let mut child = command
            .env("TMPDIR", directory)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        // The sim prints everything before it writes the file, and nothing after.
        let mut told = String::new();
        let is_last = BufReader::new(child.stdout.take().expect("a pipe")).lines().any(|line| {
            let line = line.expect("text");
            told.push_str(&line);
            told.push('\n');
            line.contains("these lines are also in")
        });
        if !is_last {
            let mut said = String::new();
            child.stderr.take().expect("a pipe").read_to_string(&mut said).expect("text");
            panic!("sim did not start: {said}");
        }
        let text = loop {
            if let Ok(text) = std::fs::read_to_string(&env) {
                break text;
            }
            std::thread::yield_now();
        };
        let line = |line: &str| {
            let (key, value) = line.strip_prefix("export ")?.split_once('=')?;
            Some((key.to_owned(), value.trim_matches('\'').to_owned()))
        };
        let variables = text.lines().filter_map(line).collect();
        Self { child, told, variables }
    }

    fn ask(&self, arguments: &[&str]) -> Output {
        let mut command = sim(arguments);
        command.env("SIM_ADMIN", &self.variables["SIM_ADMIN"]);
        command.output().expect("the binary runs")
    }

    /// Sends SIGTERM; returns exit code and standard error.
    fn stop(self) -> (Option<i32>, String) {
        self.stop_by(&["TERM"])
    }

    /// Sends these signals at once; returns exit code and standard error.
    fn stop_by(mut self, signals: &[&str]) -> (Option<i32>, String) {
        let id = self.child.id();
        let kill: Vec<String> = signals.iter().map(|it| format!("kill -{it} {id}")).collect();
        // One shell sends all signals in direct succession. The process may end at the first one.
        let script = format!("{} 2>/dev/null; true", kill.join("; "));
        let sent = Command::new("sh").args(["-c", &script]).status();
        assert!(sent.expect("sh runs").success());
        let status = self.child.wait().expect("the process ends");
        let mut said = String::new();
        let mut stderr = self.child.stderr.take().expect("a pipe");
        stderr.read_to_string(&mut said).expect("text");
        (status.code(), said)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn help_explains_every_command() {
    for (name, arguments) in [
        ("help", vec!["--help"]),
        ("help_serve", vec!["serve", "--help"]),
        ("help_world", vec!["world", "--help"]),
        ("help_world_vm", vec!["world", "vm", "--help"]),
        ("help_fault", vec!["fault", "--help"]),
        ("help_fault_add", vec!["fault", "add", "--help"]),
        ("help_ledger", vec!["ledger", "--help"]),
        ("help_health", vec!["health", "--help"]),
    ] {
        insta::assert_snapshot!(name, said(&run(&arguments)));
    }
}

#[test]
fn input_that_cannot_be_used_is_named() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).expect("a file");
        path.display().to_string()
    };
    let world = |spec: &str| {
        let name = format!("w{}.yaml", spec.len());
        file(&name, &format!("apiVersion: sim.vsphere/v1alpha1\nkind: World\nspec: {spec}\n"))
    };
    let gone = directory.path().join("nowhere/x").display().to_string();
    let mut out = String::new();
    let cases: Vec<(&str, Vec<String>)> = vec![
        ("no file", vec!["--world".into(), gone.clone()]),
        ("a misspelt key", vec!["--world".into(), world("{machnes: 3}")]),
        ("a wrong value", vec!["--world".into(), world("{machines: several}")]),
        ("no YAML", vec!["--world".into(), file("bad.yaml", "spec: [\n")]),
        ("another kind", vec!["--world".into(), file("pod.yaml", "apiVersion: v1\nkind: Pod\n")]),
        ("a rule without actions", vec!["--faults".into(), file("f1.yaml", "- id: a\n")]),
        (
            "a rule that is misspelt",
            vec!["--faults".into(), file("f2.yaml", "- id: a\n  do: [rest]\n")],
        ),
        (
            "rules of one name",
            vec![
                "--faults".into(),
                file("f3.yaml", "- {id: a, do: [reset]}\n- {id: a, do: [reset]}\n"),
            ],
        ),
        ("a name no certificate can have", vec!["--tls-san".into(), "no name é".into()]),
        ("a name with a space", vec!["--tls-san".into(), "a b".into()]),
        ("no name to advertise", vec!["--vcenter-advertise".into(), "x y".into()]),
        ("an address without brackets", vec!["--cluster-advertise".into(), "fd00::1".into()]),
        ("no port to advertise", vec!["--admin-advertise".into(), "sim.example:0".into()]),
        (
            "ports beyond the last",
            ["--vcenter-advertise", "vc:65535", "--vcenters", "2"].map(str::to_owned).into(),
        ),
        ("no address", vec!["--cluster-listen".into(), "nowhere".into()]),
        ("no number", vec!["--nodes".into(), "some".into()]),
        ("no vCenter", vec!["--vcenters".into(), "0".into()]),
        ("too many vCenters", vec!["--vcenters".into(), "99999".into()]),
        ("too many vCenters in a file", vec!["--world".into(), world("{vcenters: 101}")]),
        ("more nodes than machines", ["--nodes", "5", "--vms", "3"].map(str::to_owned).into()),
        ("nodes without machines", ["--nodes", "5"].map(str::to_owned).into()),
        (
            "more nodes than machines in a file",
            vec!["--world".into(), world("{machines: 3, nodes: {count: 5}}")],
        ),
        (
            "fewer machines than a file has nodes",
            vec![
                "--world".into(),
                world("{machines: 90, nodes: {count: 7}}"),
                "--vms".into(),
                "3".into(),
            ],
        ),
        ("no zone", ["--zones", "0"].map(str::to_owned).into()),
        ("an empty world", vec!["--world".into(), file("empty.yaml", "")]),
        ("a world that is a list", vec!["--world".into(), file("list.yaml", "- machines: 3\n")]),
        (
            "no such class",
            vec![
                "--faults".into(),
                file("f4.yaml", "- {id: a, match: {op: '@nope'}, do: [reset]}\n"),
            ],
        ),
        ("an unknown option", vec!["--vm".into(), "3".into()]),
        ("nowhere to write", vec!["--env".into(), gone]),
    ];
    for (name, more) in cases {
        let mut arguments = vec!["serve"];
        let options: Vec<&str> = more.iter().map(String::as_str).collect();
        arguments.extend(PICKED.chunks(2).filter(|it| !options.contains(&it[0])).flatten());
        arguments.extend(&options);
        let output = run(&arguments);
        assert_eq!(output.status.code(), Some(2), "{name}: {}", said(&output));
        out.push_str(&format!("--- {name}\n{}\n", said(&output)));
    }
    let holder = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let held = holder.local_addr().expect("an address").to_string();
    let output = run(&[
        "serve",
        "--vcenter-listen",
        &held,
        "--cluster-listen",
        "127.0.0.1:0",
        "--admin-listen",
        "127.0.0.1:0",
    ]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    out.push_str(&format!("--- a busy port\n{}\n", said(&output).replace(&held, "ADDRESS")));
    let mut arguments = vec!["serve", "--supervisor-listen", &held, "--vms", "1", "--supervisor"];
    let mounts = directory.path().join("mounts").display().to_string();
    arguments.push(&mounts);
    arguments.extend(PICKED);
    let output = run(&arguments);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    let told = said(&output).replace(&held, "ADDRESS");
    out.push_str(&format!("--- a busy port of the Supervisor\n{told}\n"));
    // No process listens on port 1; a port that was just freed may already belong to another test.
    let output = run(&["ledger", "--admin", "http://127.0.0.1:1"]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    out.push_str(&format!("--- nobody answers\n{}", said(&output)));
    let out = out.replace(&directory.path().display().to_string(), "DIR");
    insta::assert_snapshot!(out);
}

/// A command that gets the answer of another server must fail, whatever the status of the answer.
/// It must not show an empty world.
#[test]
fn a_command_refuses_the_answer_of_a_server_that_is_not_a_sim() {
    use std::io::Write as _;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let base = format!("http://{}", listener.local_addr().expect("an address"));
    let answers = [
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}",
        "HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\n<html>",
        "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n",
    ];
    let commands = [["world", "list"], ["fault", "list"], ["ledger", "--counts"]];
    let n = answers.len() * commands.len();
    let server = std::thread::spawn(move || {
        for i in 0..n {
            let (mut stream, _) = listener.accept().expect("a client");
            let mut reader = BufReader::new(stream.try_clone().expect("a socket"));
            let mut line = String::new();
            while reader.read_line(&mut line).is_ok_and(|n| n > 2) {
                line.clear();
            }
            stream.write_all(answers[i % answers.len()].as_bytes()).expect("the client reads");
        }
    });
    for command in commands {
        for _ in answers {
            let output = run(&[command[0], command[1], "--admin", &base]);
            let told = said(&output);
            assert_eq!(output.status.code(), Some(1), "{command:?}: {told}");
            assert!(told.contains("is not a sim") && told.contains("remedy: "), "{told}");
        }
    }
    server.join().expect("the server answers every command");
}

#[test]
fn a_sim_serves_the_commands_until_a_signal_stops_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let faults = directory.path().join("faults.yaml");
    std::fs::write(&faults, "- {id: slow, match: {op: Logout}, do: [{delay: 1s}]}\n")
        .expect("a file");
    let faults = faults.display().to_string();
    let sim =
        Serving::start(directory.path(), &["--vms", "5", "--zones", "2", "--faults", &faults]);
    let variables = sim.variables.clone();
    for key in [
        "GOVC_URL",
        "GOVC_USERNAME",
        "GOVC_PASSWORD",
        "GOVC_TLS_CA_CERTS",
        "KUBECONFIG",
        "SIM_VC0_THUMBPRINT",
        "SIM_VC0_PROVIDER_PASSWORD",
    ] {
        assert!(variables.contains_key(key), "the file lacks {key}: {variables:?}");
    }
    let authority =
        std::fs::read_to_string(&variables["GOVC_TLS_CA_CERTS"]).expect("a certificate");
    assert!(authority.starts_with("-----BEGIN CERTIFICATE-----"));
    let kubeconfig = std::fs::read_to_string(&variables["KUBECONFIG"]).expect("a kubeconfig");
    assert!(kubeconfig.contains(&variables["SIM_CLUSTER"]), "{kubeconfig}");

    let list = String::from_utf8(sim.ask(&["world", "list"]).stdout).expect("text");
    assert_eq!(list.lines().count(), 6, "{list}");
    let off = said(&sim.ask(&["world", "vm", "power-off", "node-0001", "node-0002"]));
    assert_eq!(off, "exit code 0\nvm.powerOff node-0001\nvm.powerOff node-0002\n");
    let wrong = said(&sim.ask(&["world", "vm", "power-off", "node-9"]));
    assert_eq!(
        wrong,
        "exit code 2\nerror: no machine is called `node-9`\n  remedy: sim world list lists the vCenters and machines\n"
    );
    let half = sim.ask(&["world", "vm", "delete", "node-0003", "vc0/node-9"]);
    assert_eq!(half.status.code(), Some(2), "{}", said(&half));
    let list = String::from_utf8(sim.ask(&["world", "list"]).stdout).expect("text");
    assert!(list.contains("node-0003"), "the command deletes all machines or none: {list}");
    let gone = said(&sim.ask(&["world", "event", r#"{"vm.powerOff": "node-9"}"#]));
    assert_eq!(
        gone,
        "exit code 2\nerror: no machine is called `node-9`\n  remedy: sim world list lists the vCenters and machines\n"
    );
    let event = r#"{"vm.rename": {"machine": "node-0001", "to": "renamed"}}"#;
    assert!(sim.ask(&["world", "event", event]).status.success());
    let world = sim.ask(&["world", "list", "--json"]).stdout;
    let world: Value = serde_json::from_slice(&world).expect("JSON");
    assert_eq!(world["machines"][0]["name"], "renamed");
    assert_eq!(world["machines"][0]["power"], "poweredOff");
    assert_eq!(world["machines"][0]["node"]["name"], "node-0001");

    let rule = r#"{"id": "more", "do": ["reset"], "match": {"op": "nothing"}}"#;
    assert_eq!(
        said(&sim.ask(&["fault", "add", rule])),
        "exit code 0\nadded more\nwarning: rule `more`: match.op `nothing` is not an operation that this vCenter \
         answers; write the name as in the ledger, or a pattern with *\n"
    );
    let rules = said(&sim.ask(&["fault", "list"]));
    assert!(rules.contains("slow") && rules.contains("more"), "{rules}");
    assert_eq!(
        said(&sim.ask(&["fault", "rm", "more", "none"])),
        "exit code 2\nerror: unknown rule `none`\n  remedy: known rules: slow, more\n",
        "all or nothing"
    );
    assert_eq!(said(&sim.ask(&["fault", "rm", "more"])), "exit code 0\nremoved more\n");
    assert_eq!(sim.ask(&["fault", "rm", "more"]).status.code(), Some(2));
    assert!(sim.ask(&["fault", "rm", "--all"]).status.success());
    assert!(sim.ask(&["ledger", "--counts"]).status.success());
    assert_eq!(
        said(&sim.ask(&["ledger", "--op", "@nope"])),
        "exit code 2\nerror: op: `@nope` is not a class of operations\n  \
         remedy: expected one of @read, @write, @login, @longpoll, @task\n"
    );
    assert_eq!(
        said(&sim.ask(&["ledger", "--op", "FindByUid"])),
        "exit code 0\nwarning: --op `FindByUid` is not an operation that this vCenter answers; did you mean \
         `FindByUuid`?\n"
    );
    let ledger = String::from_utf8(sim.ask(&["ledger"]).stdout).expect("text");
    assert!(ledger.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()), "{ledger}");

    // `timeout` and a terminal send a signal to the process and to its group, so that the process
    // gets several signals at the same moment.
    assert_eq!(sim.stop_by(&["TERM", "INT", "TERM"]), (Some(0), String::new()));
    assert!(!Path::new(&variables["KUBECONFIG"]).exists(), "the sim removes its files");
}

#[test]
fn the_health_command_needs_no_admin_token() {
    let directory = tempfile::tempdir().expect("a directory");
    let sim = Serving::start(directory.path(), &["--admin-token", "mine"]);
    assert_eq!(sim.variables["SIM_ADMIN_TOKEN"], "mine");
    assert_eq!(said(&sim.ask(&["health"])), "exit code 0\nok\n");
    assert_eq!(sim.ask(&["ledger", "--counts"]).status.code(), Some(1));
    assert!(sim.ask(&["ledger", "--counts", "--admin-token", "mine"]).status.success());
    let admin = sim.variables["SIM_ADMIN"].clone();
    assert_eq!(sim.stop(), (Some(0), String::new()));
    let gone = said(&run(&["health", "--admin", &admin]));
    assert!(gone.starts_with("exit code 1\nerror: no sim answers at"), "{gone}");
}

#[test]
fn a_sim_without_a_temporary_directory_serves_and_names_no_files() {
    let directory = tempfile::tempdir().expect("a directory");
    let env = directory.path().join("env");
    let mut command = sim(&["serve", "--env"]);
    let nowhere = directory.path().join("nowhere");
    command.arg(&env).args(PICKED).env("TMPDIR", nowhere).stdout(Stdio::null());
    let mut child = command.stderr(Stdio::piped()).spawn().expect("the binary runs");
    let mut said = String::new();
    let mut stderr = BufReader::new(child.stderr.take().expect("a pipe"));
    stderr.read_line(&mut said).expect("text");
    assert!(said.starts_with("warning: no temporary directory"), "{said}");
    let text = loop {
        if let Ok(text) = std::fs::read_to_string(&env) {
            break text;
        }
        std::thread::yield_now();
    };
    let keys: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("export ")?.split_once('=').map(|(key, _)| key))
        .collect();
    assert!(keys.contains(&"SIM_VC0_PASSWORD") && keys.contains(&"SIM_CLUSTER"), "{keys:?}");
    for file in ["SIM_CA", "GOVC_TLS_CA_CERTS", "KUBECONFIG"] {
        assert!(!keys.contains(&file), "{file} names a file that does not exist");
    }
    child.kill().expect("the process runs");
    child.wait().expect("the process ends");
}

#[test]
fn a_rule_file_with_an_unknown_operation_gets_a_warning_at_start() {
    let directory = tempfile::tempdir().expect("a directory");
    let faults = directory.path().join("faults.yaml").display().to_string();
    let rules = "- {id: a, match: {op: NoSuchOp}, do: [reset]}\n\
        - {id: b, match: {op: [Login, pach nodes, 'Find*']}, do: [reset]}\n";
    std::fs::write(&faults, rules).expect("a file");
    let sim = Serving::start(directory.path(), &["--faults", &faults]);
    let rules = said(&sim.ask(&["fault", "list"]));
    assert!(rules.contains("NoSuchOp"), "the sim accepts the rule: {rules}");
    let (code, warned) = sim.stop();
    assert_eq!(code, Some(0));
    let want = "warning: --faults FILE: rule `a`: match.op `NoSuchOp` is not an operation that this vCenter \
        answers; write the name as in the ledger, or a pattern with *\n\
        warning: --faults FILE: rule `b`: match.op `pach nodes` is not an operation of a cluster; did you mean \
        `patch nodes`?\n";
    assert_eq!(warned.replace(&faults, "FILE"), want);
}

#[test]
fn state_outlives_the_process() {
    let directory = tempfile::tempdir().expect("a directory");
    let state = directory.path().join("state").display().to_string();
    let arguments = ["--vms", "3", "--state", &state, "--heartbeats", "off"];
    let first = Serving::start(directory.path(), &arguments);
    assert!(first.ask(&["world", "vm", "delete", "node-0002"]).status.success());
    assert!(first.ask(&["world", "event", r#"{"certificate.swap": {}}"#]).status.success());
    let (before, first_told) = (first.variables.clone(), first.told.clone());
    let second_at_once =
        sim(&["serve", "--state", &state]).args(PICKED).output().expect("the binary runs");
    let told = said(&second_at_once);
    assert!(told.starts_with("exit code 2") && told.contains("another sim uses it"), "{told}");
    assert_eq!(first.stop(), (Some(0), String::new()));

    assert!(first_told.contains("a new world, saved from now on"), "{first_told}");
    let second = Serving::start(directory.path(), &["--vms", "9", "--state", &state]);
    assert!(second.told.contains("continues the world of the last run"), "{}", second.told);
    let after = second.variables.clone();
    let same = |key: &str| assert_eq!(before[key], after[key], "{key}");
    ["GOVC_URL", "GOVC_PASSWORD", "SIM_CLUSTER", "SIM_ADMIN", "SIM_CA", "KUBECONFIG"]
        .iter()
        .for_each(|key| same(key));
    assert_ne!(before["SIM_VC0_THUMBPRINT"], after["SIM_VC0_THUMBPRINT"], "certificate.swap");
    let list = String::from_utf8(second.ask(&["world", "list"]).stdout).expect("text");
    let names: Vec<&str> = list.lines().skip(1).filter_map(|it| it.split(' ').next()).collect();
    assert_eq!(names, ["node-0001", "node-0003"]);
    let once_more = second.variables["SIM_VC0_THUMBPRINT"].clone();
    assert_eq!(second.stop().0, Some(0));
    let third = Serving::start(directory.path(), &arguments);
    assert_eq!(third.variables["SIM_VC0_THUMBPRINT"], once_more, "certificates are kept");
}

#[test]
fn a_killed_process_loses_seconds_at_most() {
    let directory = tempfile::tempdir().expect("a directory");
    let state = directory.path().join("state");
    let path = state.display().to_string();
    let arguments = ["--vms", "3", "--nodes", "0", "--state", &path, "--log", "sim=info"];
    let mut first = Serving::start(directory.path(), &arguments);
    let stderr = BufReader::new(first.child.stderr.take().expect("a pipe"));
    let (tx, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        stderr.lines().map_while(Result::ok).try_for_each(|line| tx.send(line))
    });
    let event = r#"{"vm.rename": {"machine": "node-0002", "to": "renamed"}}"#;
    assert!(first.ask(&["world", "event", event]).status.success());
    let is_kept = || {
        let world = std::fs::read_to_string(state.join("world.json")).expect("a world");
        world.contains("renamed")
    };
    while !is_kept() {
        told.recv_timeout(std::time::Duration::from_secs(60)).expect("the sim saves the world");
    }
    first.child.kill().expect("the process runs");
    first.child.wait().expect("the process ends");
    // Simulates a kill in the middle of a write.
    let unfinished = state.join("world.json.1.tmp");
    std::fs::write(&unfinished, "{").expect("a file");

    let second = Serving::start(directory.path(), &arguments);
    assert!(!unfinished.exists(), "the sim removes unfinished files");
    let list = String::from_utf8(second.ask(&["world", "list"]).stdout).expect("text");
    let names: Vec<&str> = list.lines().skip(1).filter_map(|it| it.split(' ').next()).collect();
    assert_eq!(names, ["node-0001", "renamed", "node-0003"]);
    for key in ["GOVC_URL", "GOVC_PASSWORD", "SIM_CA"] {
        assert_eq!(first.variables[key], second.variables[key], "{key}");
    }
}

#[test]
fn the_rbac_option_makes_roles_decide_over_requests() {
    for (arguments, status) in [
        (&["--vms", "0", "--plain-text"][..], "200 OK"),
        (&["--vms", "0", "--plain-text", "--rbac"], "403 Forbidden"),
    ] {
        let directory = tempfile::tempdir().expect("a directory");
        let sim = Serving::start(directory.path(), arguments);
        let text = std::fs::read_to_string(&sim.variables["KUBECONFIG"]).expect("a file");
        let token = text.split("token: ").nth(1).and_then(|it| it.split_whitespace().next());
        let request = |also: &str| {
            format!(
                "GET /api/v1/nodes HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\
                 Authorization: Bearer {}\r\n{also}\r\n",
                token.expect("a token")
            )
        };
        let cluster = sim.variables["SIM_CLUSTER"].trim_start_matches("http://");
        let somebody = exchange(cluster, &request("Impersonate-User: somebody\r\n"));
        assert!(somebody.starts_with(&format!("HTTP/1.1 {status}")), "{arguments:?}: {somebody}");
        let administrator = exchange(cluster, &request(""));
        assert!(administrator.starts_with("HTTP/1.1 200"), "{arguments:?}: {administrator}");
    }
}

#[test]
fn no_secret_is_logged() {
    let directory = tempfile::tempdir().expect("a directory");
    let ledger = directory.path().join("ledger.jsonl");
    let ledger_text = ledger.display().to_string();
    let sim = Serving::start(
        directory.path(),
        &["--vms", "2", "--log", "debug,sim=trace", "--ledger", &ledger_text, "--plain-text"],
    );
    let variables = sim.variables.clone();
    let url = &variables["SIM_VC0_URL"];
    let (user, password) = (&variables["SIM_VC0_USERNAME"], &variables["SIM_VC0_PASSWORD"]);
    let login = format!("<userName>{user}</userName><password>{password}</password>");
    let envelope = crate::client::envelope("Login", crate::client::SESSIONS, &login);
    let answer = post(url.trim_start_matches("http://"), &envelope);
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let token = answer.split("vmware_soap_session=\"").nth(1).and_then(|it| it.split('"').next());
    let token = token.expect("a session").to_owned();
    let (code, logged) = sim.stop();
    assert_eq!(code, Some(0));
    let kept = std::fs::read_to_string(&ledger).expect("a ledger");
    assert_eq!(kept.lines().count(), 1, "{kept}");
    for secret in [password, &token, &variables["SIM_VC0_PROVIDER_PASSWORD"]] {
        assert!(!logged.contains(secret.as_str()), "the log contains a secret");
        assert!(!kept.contains(secret.as_str()), "the ledger contains a secret");
    }
}

#[test]
fn the_ledger_outlives_a_kill_and_belongs_to_one_sim() {
    let directory = tempfile::tempdir().expect("a directory");
    let ledger = directory.path().join("ledger.jsonl");
    let ledger_text = ledger.display().to_string();
    let arguments = ["--vms", "2", "--ledger", &ledger_text];
    let mut first = Serving::start(directory.path(), &arguments);
    assert!(first.ask(&["world", "vm", "power-off", "node-0001"]).status.success());
    let kept = || std::fs::read_to_string(&ledger).expect("a ledger");
    // The sim writes the record within a tenth of a second while it serves. The test waits for up
    // to 10 s.
    let until = format!("until grep -q node-0001 '{ledger_text}'; do sleep 0.05; done");
    let found = Command::new("timeout").args(["10", "sh", "-c", &until]).status();
    assert!(
        found.expect("sh runs").success(),
        "the running sim does not write the record: {}",
        kept()
    );
    let second =
        sim(&["serve", "--ledger", &ledger_text]).args(PICKED).output().expect("the binary runs");
    let told = said(&second);
    assert!(told.starts_with("exit code 2") && told.contains("another sim writes it"), "{told}");
    first.child.kill().expect("the process runs");
    first.child.wait().expect("the process ends");
    assert!(kept().contains("node-0001"), "{}", kept());
    // The next sim overwrites the ledger with a new one.
    let (code, _) = Serving::start(directory.path(), &arguments).stop();
    assert_eq!((code, kept().contains("node-0001")), (Some(0), false));
}

#[test]
fn a_recording_outlives_a_kill_and_belongs_to_one_sim() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("recording");
    let path_text = path.display().to_string();
    let arguments = ["--vms", "2", "--record", &path_text];
    let mut first = Serving::start(directory.path(), &arguments);
    assert!(first.ask(&["world", "vm", "power-off", "node-0001"]).status.success());
    // The sim writes the event within half a second while it serves; the test waits up to 10 s.
    let until = format!("until grep -q poweredOff '{path_text}'; do sleep 0.05; done");
    let found = Command::new("timeout").args(["10", "sh", "-c", &until]).status();
    assert!(found.expect("sh runs").success(), "the running sim does not write the event");
    let second =
        sim(&["serve", "--record", &path_text]).args(PICKED).output().expect("the binary runs");
    let told = said(&second);
    assert!(told.starts_with("exit code 2") && told.contains("another sim writes it"), "{told}");
    let full =
        sim(&["serve", "--record", "/dev/full"]).args(PICKED).output().expect("the binary runs");
    let told = said(&full);
    assert!(told.starts_with("exit code 1") && told.contains("is not complete"), "{told}");
    first.child.kill().expect("the process runs");
    first.child.wait().expect("the process ends");
    let text = std::fs::read(&path).expect("a recording");
    let read = sim::read_recording(&text[..]).expect("a recording");
    assert!(!read.has_ended && read.log.entries().count() > 10, "{read:?}");
    // The next sim overwrites the recording with a new one.
    let (code, _) = Serving::start(directory.path(), &arguments).stop();
    let text = std::fs::read(&path).expect("a recording");
    let fresh = sim::read_recording(&text[..]).expect("a recording");
    assert_eq!((code, fresh.has_ended), (Some(0), true));
    let epoch = |of: &sim::Recording| of.log.base().expect("a state").epoch();
    assert!(epoch(&fresh) > epoch(&read));
}

#[test]
fn a_watch_that_is_open_at_a_kill_is_in_the_ledger() {
    let directory = tempfile::tempdir().expect("a directory");
    let ledger = directory.path().join("ledger.jsonl");
    let ledger_text = ledger.display().to_string();
    let arguments = ["--vms", "1", "--plain-text", "--ledger", &ledger_text];
    let mut sim = Serving::start(directory.path(), &arguments);
    let kubeconfig = std::fs::read_to_string(&sim.variables["KUBECONFIG"]).expect("a kubeconfig");
    let of = |key: &str| {
        let value = kubeconfig.split_once(key).expect("the kubeconfig has the key").1;
        value.lines().next().expect("a value").trim_matches([' ', '"', '\'']).to_owned()
    };
    let (server, token) = (of("server:"), of("token:"));
    let address = server.trim_start_matches("http://");
    let mut watch = std::net::TcpStream::connect(address).expect("the server listens");
    let request = format!(
        "GET /api/v1/nodes?watch=1 HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\r\n"
    );
    watch.write_all(request.as_bytes()).expect("the server listens");
    let until = format!("until grep -q 'watch nodes' '{ledger_text}'; do sleep 0.05; done");
    let found = Command::new("timeout").args(["10", "sh", "-c", &until]).status();
    sim.child.kill().expect("the process runs");
    sim.child.wait().expect("the process ends");
    let kept = std::fs::read_to_string(&ledger).expect("a ledger");
    assert!(found.expect("sh runs").success(), "the ledger lacks the open watch: {kept}");
    let records: Vec<_> = kept.lines().map(Record::from_line).collect();
    let watches = records.iter().flatten().filter(|record| record.op == "watch nodes");
    let open: Vec<_> = watches.map(|record| record.ended.is_some()).collect();
    assert_eq!(open, [false], "{kept}");
}

#[test]
fn two_sims_share_neither_the_env_file_nor_the_mounts() {
    let directory = tempfile::tempdir().expect("a directory");
    let mounts = directory.path().join("mounts").display().to_string();
    let first =
        Serving::start(directory.path(), &["--vms", "1", "--seed", "1", "--supervisor", &mounts]);
    let env = directory.path().join("env").display().to_string();
    let token = directory.path().join("mounts/etc/cloud/ccm-provider/token");
    let read = || (std::fs::read(&env).expect("a file"), std::fs::read(&token).expect("a file"));
    let before = read();
    for (option, path) in [("--env", &env), ("--supervisor", &mounts)] {
        // Without the error, this sim would serve forever.
        let second = Command::new("timeout")
            .args(["10", env!("CARGO_BIN_EXE_sim"), "serve", "--seed", "2", option, path])
            .args(PICKED)
            .env("TMPDIR", directory.path())
            .output();
        let told = said(&second.expect("the binary runs"));
        let want = format!("{option} {path}: another sim");
        assert!(told.starts_with("exit code 2") && told.contains(&want), "{told}");
        assert_eq!(read(), before, "{option}");
    }
    assert_eq!(first.stop().0, Some(0));
    let left = std::fs::read_dir(directory.path()).expect("a directory");
    let left: Vec<_> = left.map(|it| it.expect("an entry").file_name()).collect();
    assert_eq!(left, ["mounts"], "the sim removes its lock files");
    // After the end of the first sim, another sim can use the directory.
    Serving::start(directory.path(), &["--vms", "1", "--supervisor", &mounts]);
}

#[test]
fn every_face_beyond_loopback_warns_that_its_secrets_come_from_the_seed() {
    let faces = [
        ("--vcenter-listen", "the vCenter listens beyond loopback, and its passwords are"),
        ("--cluster-listen", "the cluster listens beyond loopback, and its tokens are"),
        ("--supervisor-listen", "the Supervisor listens beyond loopback, and its tokens are"),
    ];
    for (open, _) in faces.into_iter().chain([("", "")]) {
        let directory = tempfile::tempdir().expect("a directory");
        let mounts = directory.path().join("mounts").display().to_string();
        let address = |face| if face == open { "0.0.0.0:0" } else { "127.0.0.1:0" };
        let mut listen = vec!["--admin-listen", "127.0.0.1:0"];
        faces.iter().for_each(|(face, _)| listen.extend([*face, address(*face)]));
        let arguments = ["--vms", "1", "--seed", "17", "--supervisor", &mounts];
        let sim = Serving::start_at(directory.path(), &listen, &arguments);
        for (face, warning) in faces {
            let warning = format!("{warning} computed from seed 17");
            assert_eq!(sim.told.contains(&warning), face == open, "{open}, {face}: {}", sim.told);
        }
    }
}

#[test]
fn a_stopped_sim_removes_its_own_env_file_and_keeps_a_foreign_one() {
    let directory = tempfile::tempdir().expect("a directory");
    let env = directory.path().join("env");
    let sim = Serving::start(directory.path(), &["--vms", "1"]);
    assert!(env.exists());
    assert_eq!(sim.stop().0, Some(0));
    assert!(!env.exists());
    // If another process has written the file since, the sim does not remove it.
    let sim = Serving::start(directory.path(), &["--vms", "1"]);
    std::fs::write(&env, "export OTHER=1\n").expect("a file");
    assert_eq!(sim.stop().0, Some(0));
    assert!(env.exists());
}

#[test]
fn a_state_of_another_format_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let state = directory.path().join("state");
    std::fs::create_dir(&state).expect("a directory");
    let kept = "{\"version\":2,\"shards\":[]}";
    std::fs::write(state.join("sim.json"), kept).expect("a file");
    let told = said(&run(&["serve", "--state", &state.display().to_string()]));
    assert!(told.starts_with("exit code 2"), "{told}");
    assert!(told.contains("sim.json: version: 2: this sim reads version 1"), "{told}");
    assert_eq!(std::fs::read_to_string(state.join("sim.json")).expect("a file"), kept);
}

#[cfg(target_os = "linux")]
#[test]
fn the_ledger_is_whole_where_the_state_cannot_be_kept() {
    let directory = tempfile::tempdir().expect("a directory");
    let (ledger, state) = (directory.path().join("ledger.jsonl"), directory.path().join("state"));
    let (ledger_text, state_text) = (ledger.display().to_string(), state.display().to_string());
    let sim = Serving::start(
        directory.path(),
        &["--vms", "2", "--ledger", &ledger_text, "--state", &state_text],
    );
    assert!(sim.ask(&["world", "vm", "power-off", "node-0001"]).status.success());
    std::fs::remove_dir_all(&state).expect("the file exists");
    let (code, told) = sim.stop();
    assert_eq!(code, Some(2), "{told}");
    assert!(told.contains("--state"), "{told}");
    let kept = std::fs::read_to_string(&ledger).expect("a ledger");
    assert!(kept.contains("node-0001"), "{kept}");
}

/// Posts a SOAP body over a plain socket, without the client code of other tests. Returns the
/// answer.
fn post(address: &str, body: &str) -> String {
    let head = format!(
        "POST /sdk HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: text/xml\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    exchange(address, &head)
}

fn exchange(address: &str, request: &str) -> String {
    use std::io::Write as _;
    let mut stream = std::net::TcpStream::connect(address).expect("the server listens");
    stream.write_all(request.as_bytes()).expect("the server reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("the server answers");
    answer
}

#[test]
fn a_named_fault_can_be_added_and_a_rotated_token_rewrites_its_file() {
    let directory = tempfile::tempdir().expect("a directory");
    let mounts = directory.path().join("super");
    let below = mounts.display().to_string();
    let sim = Serving::start(
        directory.path(),
        &["--vms", "1", "--supervisor", &below, "--supervisor-listen", "127.0.0.1:0"],
    );
    let token = mounts.join("etc/cloud/ccm-provider/token");
    let first = std::fs::read_to_string(&token).expect("the file exists");
    assert_eq!(
        std::fs::read_link(&token).expect("a link"),
        Path::new("..data/token"),
        "the sim publishes files with symbolic links, as a kubelet does"
    );
    let known = said(&sim.ask(&["fault", "known"]));
    assert!(known.contains("\nconversion-webhook-down "), "{known}");
    assert_eq!(
        said(&sim.ask(&["fault", "add", "conversion-webhook-down"])),
        "exit code 0\nadded conversion-webhook-down\n"
    );
    let rotated = sim.ask(&["world", "event", r#"{"supervisor.token.rotate": {"grace": "1m"}}"#]);
    assert!(rotated.status.success(), "{}", said(&rotated));
    assert_ne!(std::fs::read_to_string(&token).expect("the file exists"), first);
    assert_eq!(sim.stop().0, Some(0));
}
