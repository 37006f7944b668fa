//! Tests the command line: help texts, errors and exit codes.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

fn conformance(arguments: &[&str]) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_conformance"));
    program.args(arguments).output().expect("the program was built with this test")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn the_help_of_the_program_matches_its_snapshot() {
    let output = conformance(&["--help"]);
    assert!(output.status.success());
    insta::assert_snapshot!("help", text(&output.stdout));
}

#[test]
fn the_help_of_the_cost_command_matches_its_snapshot() {
    let output = conformance(&["cost", "--help"]);
    assert!(output.status.success());
    insta::assert_snapshot!("help_cost", text(&output.stdout));
}

/// `conformance cost --ledger` judges the calls of an earlier run, without a provider.
#[test]
fn a_captured_ledger_is_judged() {
    let dir = tempfile::tempdir().unwrap();
    let (run, out) = (dir.path().join("run"), dir.path().join("cost"));
    let output = conformance(&["run", "NODE-004", "--out", run.to_str().unwrap()]);
    assert!(output.status.success(), "{}", text(&output.stdout));
    let ledger = run.join("ledger.jsonl");
    let asked = ["cost", "--ledger", ledger.to_str().unwrap(), "--nodes", "4"];
    let output = conformance(&[&asked[..], &["--out", out.to_str().unwrap()]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let shown = text(&output.stdout);
    assert!(shown.contains("needed    start-up               vCenter     Login"), "{shown}");
    let json = std::fs::read_to_string(out.join("cost.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["nodes"], serde_json::json!([4]));
    assert!(std::fs::read_to_string(out.join("cost.md")).unwrap().contains("## Needed"));
    let marks = std::fs::read_to_string(out.join("marks.jsonl")).unwrap();
    assert!(marks.starts_with(r#"{"seq":"#) && marks.contains(r#""need":"needed""#), "{marks}");
}

#[test]
fn fail_fast_plays_no_case_after_the_first_that_fails() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().to_str().unwrap();
    let asked = ["run", "CCM-010", "--mode=vcenter", "--mutant=Idle", "--out", out];
    let cases = |more: &[&str]| {
        let output = conformance(&[&asked[..], more].concat());
        assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
        let results = std::fs::read(dir.path().join("results.json")).unwrap();
        let results: serde_json::Value = serde_json::from_slice(&results).unwrap();
        let check = &results["checks"][0];
        (check["cases"].as_u64().unwrap(), check["not_run"].as_u64().unwrap_or(0))
    };
    let (all, left_out) = cases(&[]);
    assert_eq!(left_out, 0);
    assert_eq!(cases(&["--fail-fast"]), (1, all - 1));
}

#[test]
fn the_explain_command_prints_the_entry_of_a_check() {
    let output = conformance(&["explain", "NODE-DEL-010"]);
    assert!(output.status.success());
    insta::assert_snapshot!("explain", text(&output.stdout));
}

#[test]
fn wrong_usage_ends_with_2_and_a_remedy() {
    for (arguments, remedy) in [
        (vec!["explain", "NODE-DEL-099"], "did you mean NODE-"),
        (vec!["explain", ""], "conformance list --all"),
        (vec!["run", "???"], "conformance list"),
        (vec!["run", "NODE-INIT-001", "NODE-INIT-0O2"], "did you mean NODE-INIT-00"),
        (vec!["run", "--surface", "nodes"], "did you mean node?"),
        (
            vec!["run", "NODE-INIT-001", "--out", "/proc/nope"],
            "--out /proc/nope: cannot write to this folder; choose a writable one",
        ),
        (vec!["list", "NO-SUCH-CHECK"], "no check is called"),
        (vec!["list", "--surface", "zones"], "did you mean zone?"),
        (vec!["sweep", "--sample", "0"], "--sample"),
        (vec!["sweep", "--compress", "2"], "--provider <FILE|NAME>"),
        (
            vec!["sweep", "--mode", "vcenter", "--compress", "2"],
            "--compress works only with --provider",
        ),
        (
            vec!["sweep", "--mode", "vcenter", "--binary", "x"],
            "--binary works only with --provider",
        ),
        (vec!["sweep", "--mode", "vcenter", "--healthy"], "--healthy works only with --provider"),
        (vec!["run", "--mode", "vcenter", "--binary", "x"], "--binary works only with --provider"),
        (
            vec!["run", "--no-cost", "--no-calibration"],
            "--no-calibration works only with --provider",
        ),
        (vec!["run", "--no-cost", "--longest", "1m"], "--longest works only with --provider"),
        (vec!["cost", "--write", "--compress", "3"], "--compress works only with --provider"),
        (vec!["cost", "--operations", "--seed", "3"], "--seed works only with --provider"),
        (vec!["sweep", "--provider", "x", "--journal", "j"], "cannot be used with"),
        (vec!["sweep", "--provider", "stock-ccm"], "add --binary PATH"),
        (
            vec!["sweep", "--provider", "ours-vcenter", "--kind", "crashes"],
            "--kind crashes: needs virtual time",
        ),
        (
            vec!["sweep", "--provider", "ours-vcenter", "--compress", "0"],
            "--compress 0: write 1 or more",
        ),
        (vec!["run", "--mutant", "Nope"], "expected one of ErrorIsGone"),
        (
            vec!["run", "--mutant", "UuidCaseMatters", "--mode", "vcenter"],
            "--mutant UuidCaseMatters: changes only supervisor mode; choose --mode supervisor",
        ),
        (
            vec!["run", "--mutant", "GuessDuplicates", "--mode", "supervisor"],
            "--mutant GuessDuplicates: changes only vcenter mode; choose --mode vcenter",
        ),
        (vec!["runn"], "run"),
        (vec!["kubernetes", "diff", "--server", "https://x"], "--token"),
        (vec!["kubernetes", "diff", "--token", "t"], "--server"),
        (vec!["kubernetes", "fuzz", "--etcd", "http://x"], "--server"),
        (
            vec!["kubernetes", "diff", "--server", "x", "--token", "t"],
            "'x' for '--server <SERVER>'",
        ),
        (
            vec!["kubernetes", "fuzz", "--server", "https://", "--token", "t"],
            "write one such as https://",
        ),
        (vec!["kubernetes", "diff", "--only", "no-such"], "--only no-such: no sequence"),
        (vec!["kubernetes", "record", "--only", "no-such"], "`conformance kubernetes list`"),
        (vec!["kubernetes", "known", "--show", "--only", "no-such"], "--only no-such: no sequence"),
        (vec!["kubernetes", "known", "--only", "create"], "--show"),
        (vec!["kubernetes", "fuzz", "--runs", "0"], "'0' for '--runs <RUNS>'"),
        (vec!["cost", "--provider", "ours-vcentre"], "name a file, or one of ours-vcenter"),
        (vec!["cost", "--provider", "stock-ccm"], "add --binary PATH"),
        (vec!["cost", "--provider", "x", "--nodes", "10"], "--nodes 10: one size gives no slope"),
        (vec!["cost", "--provider", "x", "--nodes", "10,9999"], "--nodes 9999: write sizes from"),
        (vec!["cost", "--provider", "x", "--compress", "0"], "--compress 0: write 1 or more"),
        (vec!["cost", "--nodes", "10"], "name a provider with --provider or a ledger"),
        (vec!["cost", "--ledger", "no-such.jsonl"], "--ledger no-such.jsonl: cannot be read"),
        (vec!["cost", "--ledger", "Cargo.toml"], "--ledger Cargo.toml: line 1: "),
        (vec!["cost", "--ledger", "x", "--provider", "y"], "cannot be used with"),
        (vec!["run", "--apiserver", "real"], "--provider <FILE|NAME>"),
        (vec!["run", "--provider", "x", "--apiserver", "etcd"], "possible values: builtin, real"),
        (
            vec!["run", "--provider", "x", "--apiserver", "real", "--jobs", "2"],
            "--jobs 2: a real API server serves only one case at a time; leave --jobs out",
        ),
        (vec!["e2e", "run", "--name", "no-such"], "conformance e2e up --name no-such"),
        (
            vec!["e2e", "all", "LIVE-9", "--name", "no-such"],
            "no scenario in vcenter mode has the ID",
        ),
        (vec!["e2e", "all", "LIVE-001", "--mode", "supervisor"], "expected one of LI"),
        (vec!["e2e", "up", "--mode", "vsphere"], "expected vcenter or supervisor"),
        (vec!["e2e", "up", "--name", "Lab"], "write 1 to 40 lower-case letters"),
        (vec!["e2e", "up", "--project", "/proc/nope"], "--project /proc/nope: "),
        (vec!["e2e", "up", "--project", "/proc"], "not inside a checkout of this project"),
        (vec!["e2e", "bench", "--columns", "vcentre"], "expected one of vcenter, vcenter-poll"),
        (vec!["e2e", "bench", "--nodes", "0"], "0 is not in 1..=5000"),
    ] {
        let output = conformance(&arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let error = text(&output.stderr);
        assert!(error.contains(remedy), "{arguments:?}: {error}");
    }
}

#[test]
fn a_real_api_server_that_is_not_installed_is_wrong_usage() {
    let mut program = Command::new(env!("CARGO_BIN_EXE_conformance"));
    let stock = ["--provider", "stock-ccm", "--binary", "/bin/true"];
    program.args(["run", "NODE-004", "--apiserver", "real"]).args(stock);
    let output = program.env("KUBEBUILDER_ASSETS", "/no/such/folder").output().unwrap();
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("KUBEBUILDER_ASSETS has no /no/such/folder/etcd"), "{error}");
    assert!(error.contains("set KUBEBUILDER_ASSETS to a folder with etcd"), "{error}");
}

#[test]
fn a_manifest_that_is_wrong_is_refused_by_key_and_value_before_anything_starts() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("mine.yaml");
    let good = r#"
apiVersion: sim.vsphere/v1alpha1
kind: Provider
metadata: {name: mine}
spec:
  run: {process: {command: [/bin/false, "--conf=$(files.conf)", $(knobs)]}}
  files: {conf: {text: "host $(vcenter.host)"}}
  knobs: {T.status: --status=$(value)}
"#;
    for (from, to, wanted) in [
        ("kind: Provider", "kind: Vendor", "kind: \"Vendor\": is not known here"),
        ("kind: Provider", "kind Provider", "neither YAML nor JSON"),
        ("metadata: {name: mine}", "metadata: {nam: mine}", "metadata.nam: unknown key"),
        ("files: {", "fils: {", "spec.fils: unknown key\nremedy: did you mean `files`?"),
        ("{process: {command", "{process: {cmd", "spec.run.process.cmd: unknown key"),
        (
            "{process: {command: [/bin/false",
            "{process: {command: [], binds: {etc: x}}, grpc: {a: [x",
            "spec.run",
        ),
        (
            "host $(vcenter.host)",
            "$(vcenter.hots)",
            "spec.files.conf: \"$(vcenter.hots)\": unknown placeholder\nremedy: expected one of dir,",
        ),
        ("host $(vcenter.host)", "$(supervisor.port)", "spec.files.conf: \"$(supervisor.port)\""),
        (
            "{text: \"host $(vcenter.host)\"}",
            "no-such.tmpl",
            "spec.files.conf: \"no-such.tmpl\": cannot be read",
        ),
        ("$(knobs)", "--x=$(knobs)", "$(knobs) stands for several arguments"),
        ("--status=$(value)", "--status", "spec.knobs.T.status: \"--status\": has no $(value)"),
        ("--status=$(value)", "$$(value)", "has no $(value)"),
        ("--status=$(value)", "[]", "spec.knobs.T.status: []: has no argument\nremedy: write one"),
        ("--status=$(value)", "[--status, \"5\"]", "[\"--status\",\"5\"]: has no $(value)"),
        ("--status=$(value)", "[--status, [$(value)]]", "spec.knobs.T.status[1]"),
        ("--status=$(value)", "5", "5`, expected an argument, or a list of them"),
        (
            "--status=$(value)",
            "[--status, $(value), $(valu)]",
            "spec.knobs.T.status[2]: \"$(valu)\": unknown placeholder",
        ),
        ("T.status: --status", "ipFamily: --family", "is a knob of Supervisor mode"),
        ("T.status", "T.stats", "T.stats"),
        (
            "host $(vcenter.host)",
            "$(env.NO_SUCH_VARIABLE)",
            "NO_SUCH_VARIABLE is not set in the environment; set it",
        ),
        ("host $(vcenter.host)", "$(binary)", "add --binary PATH"),
        (
            "  run:",
            "  features: {supported: [TagZone]}\n  run:",
            "is not a known feature\nremedy: did you mean TagZones?",
        ),
        (
            "  run:",
            "  skips: [{check: NODE-DEL-099, reason: r, expires: 2999-01-01}]\n  run:",
            "spec.skips[0].check: \"NODE-DEL-099\": no check is called",
        ),
        (
            "  run:",
            "  skips: [{check: NODE-SHUT-001, reason: r, expires: 2999-01-01}]\n  run:",
            "spec.skips[0].check: \"NODE-SHUT-001\": says the same as LIFE-005",
        ),
        (
            "  run:",
            "  ready: {firstCall: {op: \"@logn\"}}\n  run:",
            "spec.ready.firstCall.op: \"@logn\": is not a class of calls\nremedy: expected @any, or one of @read",
        ),
        ("  run:", "  ready: {firstCall: {op: FindByUUid}}\n  run:", "did you mean `FindByUuid`?"),
        ("  run:", "  ready: {firstCall: {op: Find*}}\n  run:", "is not a single operation"),
        (
            "files: {",
            "files: {kubeconfig: {text: x}, ",
            "spec.files.kubeconfig: \"kubeconfig\": is written by",
        ),
        (
            "files: {",
            "files: {../x: {text: x}, ",
            "spec.files.../x: \"../x\": is not the name of a file",
        ),
        (
            "  run:",
            "  skips: [{check: NODE-DEL-001, reason: r, expires: 2020-01-01}]\n  run:",
            "spec.skips[0].expires: \"2020-01-01\": the skip of NODE-DEL-001 has expired\nremedy: remove",
        ),
        (
            "  run:",
            "  skips: [{check: NODE-DEL-001, reason: r, expires: soon}]\n  run:",
            "spec.skips[0].expires",
        ),
        (
            "  run: {process: {command: [/bin/false, \"--conf=$(files.conf)\", $(knobs)]}}",
            "  run: {grpc: {address: x}}",
            "spec.run.grpc: not supported yet: grpc\nremedy: run it as a process, in a container, or in a cluster",
        ),
        (
            "  run: {process: {command: [/bin/false, \"--conf=$(files.conf)\", $(knobs)]}}",
            "  run: {cluster: {kubeconfig: x}}",
            "spec.run.cluster.image: is missing",
        ),
        (
            "  run: {process: {command: [/bin/false, \"--conf=$(files.conf)\", $(knobs)]}}",
            "  run: {cluster: {image: x, addres: 192.0.2.1}}",
            "spec.run.cluster.addres: unknown key\nremedy: did you mean `address`?",
        ),
        (
            "  run: {process: {command: [/bin/false, \"--conf=$(files.conf)\", $(knobs)]}}",
            "  run: {cluster: {image: x, address: 127.0.0.1}}",
            "spec.run.cluster.address: \"127.0.0.1\": means the pod itself, seen from a pod\nremedy: write an address",
        ),
        (
            "  run: {process: {command: [/bin/false, \"--conf=$(files.conf)\", $(knobs)]}}",
            "  run: {cluster: {image: x, address: auto}}",
            "spec.run.cluster.address: \"auto\": is not an IP address",
        ),
        (
            "  run: {process: {command: [/bin/false, \"--conf=$(files.conf)\", $(knobs)]}}",
            "  run: {cluster: {image: x, user: nobody}}",
            "spec.run.cluster.user: \"nobody\": is not a valid user of a pod\nremedy: write a number",
        ),
        (
            "  run: {process: {command: [/bin/false, \"--conf=$(files.conf)\", $(knobs)]}}",
            "  run: {cluster: {image: x, kubeconfig: $(dir)/x}}",
            "spec.run.cluster.kubeconfig: \"$(dir)\": unknown placeholder\nremedy: expected one of manifest.dir, or env.NAME",
        ),
        (
            "  run: {process: {command: [/bin/false, \"--conf=$(files.conf)\", $(knobs)]}}",
            "  run: {cluster: {image: x, context: $(env.NO_SUCH_VARIABLE)}}",
            "NO_SUCH_VARIABLE is not set in the environment; set it",
        ),
        (
            "  run: {process: {command: [/bin/false, \"--conf=$(files.conf)\", $(knobs)]}}",
            "  run: {container: {image: x, namespace: labs}}",
            "spec.run.container.namespace: \"labs\": is a key of cluster\nremedy: remove it",
        ),
        (
            "  run: {process: {command: [/bin/false, \"--conf=$(files.conf)\", $(knobs)]}}",
            "  run: {container: {image: --privileged}}",
            "spec.run.container.image: \"--privileged\": is not the name of an image",
        ),
        (
            "  run: {process: {command: [/bin/false, \"--conf=$(files.conf)\", $(knobs)]}}",
            "  run: {container: {image: x, args: [$(nope)]}}",
            "spec.run.container.args[0]: \"$(nope)\": unknown placeholder",
        ),
        (
            "  run: {process: {command: [/bin/false, \"--conf=$(files.conf)\", $(knobs)]}}",
            "  run: {container: {image: x, binds: {etc: $(dir)}}}",
            "spec.run.container.binds: \"etc\": is not an absolute path",
        ),
        (
            "  run: {process: {command: [/bin/false, \"--conf=$(files.conf)\", $(knobs)]}}",
            "  run: {}",
            "spec.run: []: exactly one of process, container and cluster",
        ),
    ] {
        assert!(good.contains(from), "{from}");
        std::fs::write(&file, good.replacen(from, to, 1)).unwrap();
        let path = file.to_str().unwrap();
        let output = conformance(&["run", "NODE-004", "--provider", path]);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{to}: {error}");
        assert!(error.contains(wanted) && error.contains("mine.yaml"), "{to}: {error}");
    }
    let output = conformance(&["run", "--provider", "no-such-provider"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("ours-vcenter, ours-supervisor"));
    let output = conformance(&["run", "--provider", "upstream-vcenter"]);
    assert!(text(&output.stderr).contains("add --binary PATH"), "{}", text(&output.stderr));
}

/// The command `run` distinguishes a provider that ends at once from one that fails checks, and
/// shows the output of the provider.
#[test]
fn a_run_whose_provider_makes_no_call_ends_with_3_and_shows_its_output() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("mine.yaml");
    let manifest = "apiVersion: sim.vsphere/v1alpha1\nkind: Provider\nmetadata: {name: mine}\nspec:\n  run: {process: {command: [sh, -c, 'echo no such flag >&2; exit 2']}}\n";
    std::fs::write(&file, manifest).unwrap();
    let output = conformance(&["run", "NODE-004", "--provider", file.to_str().unwrap()]);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{error}");
    assert!(error.contains("made no call at all") && error.contains("no such flag"), "{error}");
}

/// The provider writes its process ID to a pipe, so that the test knows when it runs.
#[test]
fn a_run_that_a_signal_ends_leaves_no_process_and_no_file_and_has_the_shells_exit_code() {
    for (name, code, word) in [("-INT", 130, "SIGINT"), ("-TERM", 143, "SIGTERM")] {
        let dir = tempfile::tempdir().unwrap();
        let scratch = tempfile::tempdir().unwrap();
        let (child, process, _) = sleeping(dir.path(), scratch.path(), "");
        assert!(is_alive(&process), "{process}");
        assert!(std::fs::read_dir(scratch.path()).unwrap().next().is_some());
        signal(name, child.id());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{name}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains(word), "{}", text(&output.stderr));
        assert!(!is_alive(&process), "{name}: process {process} is left");
        let left = std::fs::read_dir(scratch.path()).unwrap().next();
        assert!(left.is_none(), "{name}: files are left");
    }
}

#[test]
fn a_run_that_is_killed_leaves_no_process() {
    // Only root can play the case that needs root.
    let root = rustix::process::geteuid().is_root();
    let mounted = root.then_some(", hosts: {somebody.example: 127.0.0.1}");
    for how in [Some(""), mounted].into_iter().flatten() {
        let dir = tempfile::tempdir().unwrap();
        let (mut child, process, mut pipe) = sleeping(dir.path(), dir.path(), how);
        assert!(is_alive(&process), "{how}: {process}");
        signal("-KILL", child.id());
        assert!(!child.wait().unwrap().success());
        // The provider is the last process that holds the other end of the pipe open.
        let (ended, end) = mpsc::channel();
        std::thread::spawn(move || ended.send(pipe.read_line(&mut String::new()).unwrap()));
        let read = end.recv_timeout(Duration::from_secs(20));
        if read.is_err() {
            signal("-KILL", process.parse().unwrap());
        }
        assert_eq!(read, Ok(0), "{how}: process {process} is left");
    }
}

#[test]
fn a_program_that_cannot_start_is_reported_in_every_case_and_not_as_failure() {
    let dir = tempfile::tempdir().unwrap();
    let (file, out) = (dir.path().join("mine.yaml"), dir.path().join("out"));
    std::fs::write(&file, manifest("/no/such/program", "")).unwrap();
    let how = ["--no-calibration", "--compress", "20"];
    let which = ["run", "NODE-ID-003", "--provider", file.to_str().unwrap()];
    let output = conformance(&[&which[..], &how, &["--out", out.to_str().unwrap()]].concat());
    // If this computer was late, the result is a harness error.
    assert!(matches!(output.status.code(), Some(3 | 7)), "{}", text(&output.stderr));
    let shown = text(&output.stdout);
    assert_eq!(shown.matches("cannot start /no/such/program: No such file").count(), 3, "{shown}");
    let results = std::fs::read_to_string(out.join("results.json")).unwrap();
    let results: serde_json::Value = serde_json::from_str(&results).unwrap();
    let cases = results["checks"][0]["not_passed"].as_array().unwrap();
    let names: Vec<&str> = cases.iter().filter_map(|it| it["case"].as_str()).collect();
    assert_eq!(names, ["guests show swapped bytes", "guests show plain bytes"]);
    assert!(cases.iter().all(|it| it["verdict"] != "fail"), "{cases:?}");
}

fn manifest(command: &str, how: &str) -> String {
    format!(
        "apiVersion: sim.vsphere/v1alpha1\nkind: Provider\nmetadata: {{name: mine}}\nspec:\n  run: {{process: {{command: [{command}]{how}}}}}\n"
    )
}

/// Starts a run whose provider only sleeps, with the manifest in `dir`, `scratch` as `TMPDIR`, and
/// `how` as further YAML for the process of the manifest. Returns the run, the ID of the provider's
/// process, and a pipe that the provider holds open.
fn sleeping(dir: &Path, scratch: &Path, how: &str) -> (Child, String, BufReader<File>) {
    let (pipe, file) = (dir.join("pid"), dir.join("mine.yaml"));
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let script = format!("exec 3>{}; echo $$ >&3; exec sleep 1000", pipe.display());
    std::fs::write(&file, manifest(&format!("sh, -c, {script:?}"), how)).unwrap();
    let child = Command::new(env!("CARGO_BIN_EXE_conformance"))
        .args(["run", "NODE-004", "--provider", file.to_str().unwrap()])
        .env("TMPDIR", scratch)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pipe = BufReader::new(File::open(&pipe).unwrap());
    let mut process = String::new();
    pipe.read_line(&mut process).unwrap();
    (child, process.trim().to_owned(), pipe)
}

fn is_alive(process: &str) -> bool {
    Path::new("/proc").join(process).exists()
}

fn signal(which: &str, process: u32) {
    assert!(Command::new("kill").args([which, &process.to_string()]).status().unwrap().success());
}

#[test]
fn the_run_command_runs_the_check_behind_an_alias() {
    let output = conformance(&["run", "NODE-SHUT-001"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let shown = text(&output.stdout);
    assert!(shown.contains("NODE-SHUT-001 is an alias of LIFE-005"), "{shown}");
    assert!(shown.contains("0 failed") && !shown.contains("\n0 passed"), "{shown}");
}

#[test]
fn a_closed_output_pipe_fails_neither_a_list_nor_a_run() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().to_str().unwrap();
    for arguments in [vec!["list", "--all"], vec!["run", "NODE-INIT-001", "--out", out]] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_conformance"))
            .args(&arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", text(&output.stderr));
    }
    assert!(dir.path().join("summary.md").exists());
}

#[test]
fn a_run_writes_its_reports_and_two_processes_write_equal_ledgers() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = |name: &str| {
        let out = dir.path().join(name);
        let output = conformance(&["run", "NODE-0", "--seed", "7", "--out", out.to_str().unwrap()]);
        assert!(output.status.success(), "{}", text(&output.stdout));
        for file in ["results.json", "junit.xml", "summary.md", "index.html"] {
            assert!(out.join(file).exists(), "{file}");
        }
        std::fs::read(out.join("ledger.jsonl")).unwrap()
    };
    let (a, b) = (ledger("a"), ledger("b"));
    assert!(!a.is_empty());
    assert!(a == b, "two processes wrote different ledgers");
}
