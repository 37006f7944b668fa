mod upstream;

use std::time::Duration;

use super::*;

fn parse_line(line: &str) -> Result<Arguments, ArgumentsError> {
    let words = std::iter::once("provider").chain(line.split_whitespace());
    parse(words.map(str::to_owned))
}

#[test]
fn the_command_line_of_upstream_is_understood() {
    let arguments = parse_line(
        "--cloud-provider=vsphere --cloud-config=vsphere.conf --kubeconfig=k \
         --authentication-skip-lookup --configure-cloud-routes=false --leader-elect=false --bind-address=127.0.0.1 --v=2",
    )
    .unwrap();
    assert!(arguments.options.leader_election.is_none());
    assert_eq!(arguments.secure_port, 10258);
    assert_eq!(arguments.verbosity, 2);
    assert_eq!(
        arguments.notes,
        ["--configure-cloud-routes has no effect in this provider; remove it"]
    );
}

#[test]
fn defaults_are_those_of_upstream() {
    let arguments = parse_line("--cloud_config c").unwrap();
    let options = arguments.options;
    assert_eq!(options.leader_election, Some(LeaderElection::default()));
    assert_eq!(options.node_status_period, Duration::from_secs(300));
    assert_eq!(options.node_monitor_period, Duration::from_secs(5));
    assert!(options.cloud_node && options.cloud_node_lifecycle);
    assert!(arguments.notes.is_empty(), "{:?}", arguments.notes);
}

#[test]
fn without_a_port_each_endpoint_flag_yields_a_note_that_it_has_no_effect() {
    let flags = [
        "--tls-cert-file=c",
        "--tls-private-key-file=k",
        "--tls-cipher-suites=TLS_AES_128_GCM_SHA256",
        "--tls-min-version=VersionTLS13",
        "--tls-curve-preferences=23",
        "--authentication-kubeconfig=k",
        "--authentication-token-webhook-cache-ttl=1s",
        "--authorization-kubeconfig=k",
        "--authorization-always-allow-paths=/metrics",
        "--authorization-webhook-cache-authorized-ttl=1s",
        "--authorization-webhook-cache-unauthorized-ttl=1s",
        "--bind-address=127.0.0.1",
    ];
    let line = format!("--cloud-config=c {}", flags.join(" "));
    assert_eq!(parse_line(&line).unwrap().notes, [""; 0]);
    let mut notes = parse_line(&format!("{line} --secure-port=0")).unwrap().notes;
    notes.sort_unstable();
    let mut want: Vec<String> = flags
        .iter()
        .filter_map(|flag| flag.split('=').next())
        .map(|flag| {
            format!(
                "{flag} has no effect with --secure-port=0, which switches the HTTPS endpoint off"
            )
        })
        .collect();
    want.sort_unstable();
    assert_eq!(notes, want);
    assert_eq!(parse_line("--cloud-config=c --secure-port=0").unwrap().notes, [""; 0]);
}

#[test]
fn controllers_named_one_by_one_add_up_as_with_go() {
    for (line, want) in [
        ("", (true, true)),
        ("--controllers=cloud-node", (true, false)),
        ("--controllers=cloud-node --controllers=cloud-node-lifecycle", (true, true)),
        ("--controllers=cloud-node --controllers cloud-node-lifecycle", (true, true)),
        ("--controllers=* --controllers=-cloud-node", (false, true)),
        ("--controllers=-cloud-node,* --controllers=cloud-node", (false, true)),
        ("--controllers=cloud-node --controllers=-cloud-node", (true, false)),
        ("--controllers=", (false, false)),
    ] {
        let options = parse_line(&format!("--cloud-config=c {line}")).unwrap().options;
        assert_eq!((options.cloud_node, options.cloud_node_lifecycle), want, "{line}");
    }
    let err = parse_line("--cloud-config=c --controllers=service --controllers=cloud-node");
    let err = err.unwrap_err().to_string();
    assert!(err.starts_with("--controllers: service-lb-controller"), "{err}");
}

#[test]
fn an_invalid_command_line_is_refused_with_a_reason() {
    let mut seen = String::new();
    for line in [
        "",
        "--cloud-config=c --cloud-provider=aws",
        "--cloud-config=c --cloud-provider=Vsphere-Paravirtual",
        "--cloud-config=c --instances-mode=v2",
        "--cloud-config=c --cloud-provider=vsphere-paravirtual --instances-mode=v2",
        "--cloud-config=c --cloud-provider=vsphere-paravirtual --vm-operator-api-version=v1alpha7",
        "--cloud-config=c --cloud-provider=vsphere-paravirtual --vm-operator-api-version=",
        "--cloud-config=c --cloud-provider=vsphere-paravirtual --cluster-ip-family=",
        "--cloud-config=c --cloud-provider=vsphere-paravirtual --cluster-ip-family=ipv6",
        "--cloud-config=c --cloud-provider=vsphere-paravirtual --enable-vpc-mode",
        "--cloud-config=c --cloud-provider=vsphere-paravirtual --pod-ip-pool-type=Public",
        "--cloud-config=c --cloud-provider=vsphere-paravirtual --enable-vpc-mode=maybe",
        "--cloud-config=c --cloud-provider=vsphere-paravirtual --is-legacy-paravirtual=maybe",
        "--cloud-config=c --cloud-provider=vsphere-paravirtual --supervisor-credentials-dir=",
        "--cloud-config=c --cloud-provider=vsphere-paravirtual --vm-cache-sync-timeout=5",
        "--cloud-config=c --controllers=nope",
        "--cloud-config=c --controllers=service",
        "--cloud-config=c --node-monitor-period=5",
        "--cloud-config=c --node-monitor-period=0s",
        "--cloud-config=c --concurrent-node-syncs=0",
        "--cloud-config=c --leader-elect=maybe",
        "--cloud-config=c --profiling=maybe",
        "--cloud-config=c --leader-elect-lease-duration=5s",
        "--cloud-config=c --node-labels=a",
        "--cloud-config=c --node-labels=-a=b",
        "--cloud-config=c --secure-port=70000",
    ] {
        seen.push_str(&parse_line(line).unwrap_err().to_string());
        seen.push('\n');
    }
    insta::assert_snapshot!(seen);
    assert!(matches!(parse_line("--cloud-config=c --nonsense"), Err(ArgumentsError::Clap(_))));
    assert!(matches!(parse_line("--cloud-config=c stray"), Err(ArgumentsError::Clap(_))));
}

#[test]
fn instances_modes_are_the_same_for_vcenter_and_supervisor() {
    use InstancesMode::{Auto, Poll, V1, Watch};
    for (word, mode) in [("auto", Auto), ("watch", Watch), ("poll", Poll), ("v1", V1)] {
        let line = format!("--cloud-config=c --instances-mode={word}");
        assert_eq!(parse_line(&line).unwrap().options.tuning.mode, mode);
        let line = format!("{line} --cloud-provider=vsphere-paravirtual");
        assert_eq!(parse_line(&line).unwrap().options.supervisor.unwrap().mode, mode);
    }
    assert_eq!(parse_line("--cloud-config=c").unwrap().options.tuning.mode, Auto);
}

#[test]
fn concurrent_syncs_without_effect_in_v1_mode_yield_a_note() {
    for (mode, workers, is_told) in
        [("v1", 2, true), ("v1", 1, false), ("poll", 2, false), ("auto", 2, false)]
    {
        let line =
            format!("--cloud-config=c --instances-mode={mode} --concurrent-node-syncs={workers}");
        let notes = parse_line(&line).unwrap().notes;
        let told = notes
            .iter()
            .any(|it| it.contains("--concurrent-node-syncs has no effect on the look-ups"));
        assert_eq!(told, is_told, "{line}: {notes:?}");
    }
}

#[test]
fn supervisor_flags_have_an_effect_in_paravirtual_mode_alone() {
    let paravirtual = "--cloud-config=c --cloud-provider=vsphere-paravirtual";
    let arguments = parse_line(paravirtual).unwrap();
    let supervisor = arguments.supervisor.unwrap();
    assert_eq!(supervisor.paths, crate::MountPaths::default());
    let tuning = arguments.options.supervisor.unwrap();
    assert_eq!(tuning.mode, InstancesMode::Auto);
    assert_eq!(tuning.version.as_str(), "v1alpha2");
    assert_eq!(tuning.addresses, crate::AddressPolicy::default());
    assert_eq!(tuning.sync_timeout, Duration::from_secs(60));
    assert!(arguments.notes.is_empty(), "{:?}", arguments.notes);

    let line = format!(
        "{paravirtual} --instances_mode=poll --vm-operator-api-version=v1alpha6 \
         --cluster_ip_family=IPv6IPv4 --enable-vpc-mode --pod-ip-pool-type=Private \
         --supervisor-credentials-dir=/c --supervisor-owner-ref=/o --supervisor-server=https://h:1 \
         --supervisor-empty-hostname=false --supervisor-replace-unwanted-addresses \
         --supervisor-late-zone-labels --vm-cache-sync-timeout=5s --is-legacy-paravirtual=false --node-labels=a=b"
    );
    let arguments = parse_line(&line).unwrap();
    let supervisor = arguments.supervisor.unwrap();
    assert_eq!(supervisor.paths.credentials.to_str(), Some("/c"));
    assert_eq!(supervisor.paths.owner.to_str(), Some("/o"));
    assert_eq!(supervisor.paths.server.as_deref(), Some("https://h:1"));
    assert_eq!(supervisor.settings.pod_ip_pool, Some(crate::PodIpPool::Private));
    let tuning = arguments.options.supervisor.unwrap();
    assert_eq!(tuning.mode, InstancesMode::Poll);
    assert_eq!(tuning.addresses.family, crate::ClusterFamily::V6V4);
    assert_eq!(tuning.addresses.hostname, crate::HostnameEntry::Omitted);
    assert_eq!(tuning.addresses.none_wanted, crate::NoneWanted::HostnameEntry);
    assert_eq!(tuning.late_zone, crate::LateZone::Added);
    assert_eq!(tuning.sync_timeout, Duration::from_secs(5));
    assert!(arguments.options.node_labels.is_empty());
    assert_eq!(
        arguments.notes,
        [
            "--is-legacy-paravirtual has no effect in this provider; remove it",
            "--enable-vpc-mode has no effect in this provider; remove it",
            "--pod-ip-pool-type has no effect in this provider; remove it",
            "--node-labels has an effect only with --cloud-provider=vsphere",
        ]
    );

    let arguments = parse_line("--cloud-config=c --cluster-ip-family=nonsense").unwrap();
    assert!(arguments.supervisor.is_none() && arguments.options.supervisor.is_none());
    assert_eq!(
        arguments.notes,
        ["--cluster-ip-family has an effect only with --cloud-provider=vsphere-paravirtual"]
    );
}

#[test]
fn the_pace_of_requests_is_checked_as_client_go_checks_it() {
    for (words, want) in [
        ("", Some((20.0, 30))),
        ("--kube-api-qps=0", Some((0.0, 30))),
        ("--kube-api-qps=0 --kube-api-burst=0", Some((0.0, 0))),
        ("--kube-api-qps=-1", Some((-1.0, 30))),
        ("--kube-api-qps=-1 --kube-api-burst=-5", Some((-1.0, 0))),
        ("--kube-api-qps -0.5 --kube-api-burst 0", Some((-0.5, 0))),
        ("--kube-api-qps=20 --kube-api-burst=0", None),
        ("--kube-api-qps=0 --kube-api-burst=-1", None),
        ("--kube-api-qps=NaN", None),
        ("--kube-api-qps=inf", None),
        ("--kube-api-qps=", None),
    ] {
        let options = parse_line(&format!("--cloud-config=c {words}")).map(|it| it.options);
        let got = options.ok().map(|it| (it.kube_api_qps, it.kube_api_burst));
        assert_eq!(got, want, "{words}");
    }
}

#[test]
fn the_log_format_is_set_by_either_flag_and_a_conflict_is_refused() {
    for (words, want) in [
        ("", Some(false)),
        ("--logging-format=text", Some(false)),
        ("--logging-format=json", Some(true)),
        ("--log-format=json", Some(true)),
        ("--log-format=json --logging-format=json", Some(true)),
        ("--log-format=json --logging-format=text", None),
        ("--logging-format=", None),
        ("--logging-format=xml", None),
        ("--log-format=xml", None),
    ] {
        let parsed = parse_line(&format!("--cloud-config=c {words}"));
        assert_eq!(parsed.ok().map(|it| it.json_logs), want, "{words}");
    }
}

#[test]
fn the_flags_of_the_endpoint_are_read_as_upstream_reads_them() {
    let serving = |line: &str| parse_line(&format!("--cloud-config=c {line}")).unwrap().serving;
    let default = serving("");
    assert_eq!(default.tls, crate::ServingTls::default());
    assert_eq!(default.always_allowed, crate::AllowedPaths::default());
    assert_eq!(default.token_ttl, Duration::from_secs(10));
    let twice =
        serving("--authorization-always-allow-paths=/a,/b --authorization-always-allow-paths=/c*");
    assert_eq!(twice.always_allowed, "/a,/b,/c*".parse().unwrap());
    let tls = serving("--tls-min-version=VersionTLS13 --tls-curve-preferences=29,23").tls;
    assert!(tls.only_13 && tls.suites.is_none());
    assert_eq!(tls.groups.unwrap().len(), 2);
    let suites = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_AES_128_GCM_SHA256";
    let tls = serving(&format!("--tls-cipher-suites={suites}")).tls;
    assert!(!tls.only_13 && tls.suites.unwrap().len() == 1);
    assert!(serving("--tls-cipher-suites=TLS_AES_128_GCM_SHA256").tls.only_13);
    let some = "--tls-cipher-suites=TLS_RSA_WITH_RC4_128_SHA,TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256";
    let arguments = parse_line(&format!("--cloud-config=c {some}")).unwrap();
    assert_eq!(
        arguments.notes,
        ["--tls-cipher-suites: TLS_RSA_WITH_RC4_128_SHA is ignored, because the HTTPS endpoint \
          never serves it"]
    );
    for (words, wanted) in [
        ("--tls-cert-file=c", "--tls-cert-file: needs --tls-private-key-file too"),
        ("--tls-private-key-file=c", "--tls-private-key-file: needs --tls-cert-file too"),
        ("--tls-min-version=1.2", "--tls-min-version: unknown version"),
        ("--tls-cipher-suites=nope", "--tls-cipher-suites: unknown suite \"nope\""),
        (
            "--tls-cipher-suites=TLS_RSA_WITH_AES_128_CBC_SHA",
            "--tls-cipher-suites: the HTTPS endpoint serves none",
        ),
        ("--tls-curve-preferences=25", "--tls-curve-preferences: the HTTPS endpoint serves none"),
        ("--tls-curve-preferences=29,29", "--tls-curve-preferences: 29 occurs twice"),
        ("--tls-curve-preferences=x25519", "--tls-curve-preferences: unknown group"),
        (
            "--authorization-always-allow-paths=/a*b",
            "--authorization-always-allow-paths: \"/a*b\" contains",
        ),
        ("--authentication-token-webhook-cache-ttl=5", "--authentication-token-webhook-cache-ttl:"),
    ] {
        let said = parse_line(&format!("--cloud-config=c {words}")).unwrap_err().to_string();
        assert!(said.starts_with(wanted), "{words}: {said}");
    }
}

#[test]
fn a_server_for_autoscalers_takes_what_it_lacks_from_the_provider() {
    let parsed = |line: &str| {
        let arguments = parse_line(line).unwrap();
        arguments.autoscaler.unwrap()
    };
    assert_eq!(parse_line("--cloud-config=c").unwrap().autoscaler, None);
    let of_vcenter = parsed(
        "--cloud-config=c --kubeconfig=k --autoscaler=--backend=vcenter --autoscaler=--groups=g \
         --autoscaler --journal-config-map=ns/j",
    );
    assert_eq!(of_vcenter.cloud_config, Some("c".into()));
    assert_eq!(of_vcenter.journal_kubeconfig, Some("k".into()));
    assert_eq!(of_vcenter.workload_kubeconfig, Some("k".into()));
    assert!(!of_vcenter.shares_supervisor);
    let supervisor = "--cloud-provider=vsphere-paravirtual --cloud-config=c \
                      --cluster-name=blue --autoscaler=--groups=g";
    assert!(parsed(supervisor).shares_supervisor);
    let other = parsed(&format!("{supervisor} --autoscaler=--supervisor-kubeconfig=s"));
    assert!(!other.shares_supervisor);
    assert_eq!(other.supervisor_kubeconfig, Some("s".into()));
    assert_eq!(other.workload_kubeconfig, None, "the cluster of this pod");
    let of_file = parsed(&format!("{supervisor} --kubeconfig=k"));
    assert_eq!(of_file.workload_kubeconfig, Some("k".into()));
    let own = "--autoscaler=--workload-kubeconfig=w";
    let own = parsed(&format!("{supervisor} --kubeconfig=k {own}"));
    assert_eq!(own.workload_kubeconfig, Some("w".into()));
}

#[test]
fn wrong_flags_of_a_server_for_autoscalers_are_refused_by_name() {
    for (flags, wanted) in [
        (&["--groups=g"][..], "--autoscaler: --supervisor-kubeconfig: is required"),
        (&["--backend=vcenter", "--groups=g"], "--autoscaler: --journal: is required"),
        (&["--secure-port=1"], "--autoscaler: --secure-port: has no effect beside the controllers"),
        (&["--v=4"], "--autoscaler: --v: has no effect beside the controllers"),
        (&["--print-crd"], "--autoscaler: --print-crd: has no effect beside"),
        (&["--speed=3"], "--autoscaler: unexpected argument '--speed' found"),
        (&["groups"], "--autoscaler: unexpected argument 'groups' found"),
        (
            &["--groups=g", "--supervisor-kubeconfig=k", "MASTER"],
            "--master: has no effect on the clients of --autoscaler",
        ),
        (&["--help"], "--autoscaler: only flags with values are possible"),
    ] {
        let flag = |it: &&str| match *it {
            "MASTER" => "--master=http://127.0.0.1:1".to_owned(),
            it => format!("--autoscaler={it}"),
        };
        let flags: Vec<String> = flags.iter().map(flag).collect();
        let err = parse_line(&format!("--cloud-config=c {}", flags.join(" "))).unwrap_err();
        let err = err.to_string();
        assert!(err.starts_with(wanted), "{err}");
    }
}
