//! Tests that every flag of upstream has an effect, or leads to a note or an error. Sources of the
//! flags: `k8s.io/cloud-provider`, `k8s.io/apiserver`, `k8s.io/controller-manager` and
//! `k8s.io/component-base` of 1.37, and upstream's vSphere provider.

use super::*;

/// Result of parsing a command line that sets a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// The flag changes the arguments, and no note names it.
    Effect,
    /// The arguments are the same, and a note names the flag.
    Note,
    /// The arguments are the same and no note names the flag: the value describes the actual
    /// behavior.
    SoAnyway,
    /// Parsing fails, and the error names the flag.
    Error,
}

use Outcome::{Effect, Error, Note, SoAnyway};

/// Flags of upstream, each with a value, and the expected result.
const TABLE: &[(&str, Outcome)] = &[
    // Framework.
    ("cloud-provider=vsphere-paravirtual", Effect),
    ("cloud-config=another", Effect),
    ("external-cloud-volume-plugin=x", Note),
    ("use-service-account-credentials=true", Error),
    ("use-service-account-credentials=false", SoAnyway),
    ("allow-untagged-cloud", Note),
    ("route-reconciliation-period=1s", Note),
    ("node-monitor-period=1s", Effect),
    ("cluster-name=x", Note),
    ("cluster-cidr=10.0.0.0/8", Note),
    ("allocate-node-cidrs", Note),
    ("cidr-allocator-type=x", Note),
    ("configure-cloud-routes=false", Note),
    ("node-sync-period=1s", Note),
    ("concurrent-node-syncs=2", Effect),
    ("concurrent-node-status-updates=2", Note),
    ("concurrent-node-lifecycle-syncs=2", Note),
    ("concurrent-service-syncs=2", Note),
    ("node-status-update-frequency=1s", Effect),
    ("controllers=cloud-node", Effect),
    ("controllers=nonsense", Error),
    ("min-resync-period=1h", Note),
    ("controller-start-interval=1s", Note),
    ("kube-api-content-type=application/json", Note),
    ("kube-api-qps=1", Effect),
    ("kube-api-burst=1", Effect),
    ("kubeconfig=k", Effect),
    ("master=https://h", Effect),
    ("feature-gates=A=true", Note),
    ("enable-leader-migration", Note),
    ("leader-migration-config=x", Note),
    // Leader election.
    ("leader-elect=false", Effect),
    ("leader-elect-lease-duration=1m", Effect),
    ("leader-elect-renew-deadline=9s", Effect),
    ("leader-elect-retry-period=1s", Effect),
    ("leader-elect-resource-lock=endpoints", Error),
    ("leader-elect-resource-name=x", Effect),
    ("leader-elect-resource-namespace=x", Effect),
    // The HTTPS endpoint.
    ("bind-address=127.0.0.1", Effect),
    ("secure-port=1", Effect),
    ("permit-port-sharing", Note),
    ("permit-address-sharing", Note),
    ("cert-dir=/c", Error),
    ("tls-cert-file=c --tls-private-key-file=k", Effect),
    ("tls-private-key-file=k --tls-cert-file=c", Effect),
    ("tls-cipher-suites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", Effect),
    ("tls-min-version=VersionTLS13", Effect),
    ("tls-min-version=VersionTLS11", Note),
    ("tls-curve-preferences=23", Effect),
    ("tls-sni-cert-key=c,k", Error),
    ("http2-max-streams-per-connection=1", Note),
    ("disable-http2-serving", SoAnyway),
    ("disable-http2-serving=false", Note),
    ("profiling=false", SoAnyway),
    ("profiling=true", Note),
    ("contention-profiling=true", Note),
    // Access to the endpoint.
    ("authentication-kubeconfig=k", Effect),
    ("authentication-skip-lookup", SoAnyway),
    ("authentication-skip-lookup=false", Error),
    ("authentication-tolerate-lookup-failure", Note),
    ("authentication-token-webhook-cache-ttl=1s", Effect),
    ("authorization-kubeconfig=k", Effect),
    ("authorization-webhook-cache-authorized-ttl=1s", Effect),
    ("authorization-webhook-cache-unauthorized-ttl=1s", Effect),
    ("authorization-always-allow-paths=/metrics", Effect),
    ("client-ca-file=c", Error),
    ("client-ca-file=", SoAnyway),
    ("requestheader-client-ca-file=c", Error),
    ("requestheader-allowed-names=x", Error),
    ("requestheader-username-headers=x", Error),
    ("requestheader-uid-headers=x", Error),
    ("requestheader-group-headers=x", Error),
    ("requestheader-extra-headers-prefix=x", Error),
    // Webhooks.
    ("webhooks=x", Note),
    ("webhook-bind-address=127.0.0.1", Note),
    ("webhook-secure-port=1", Note),
    ("webhook-cert-dir=/c", Error),
    ("webhook-tls-cert-file=c", Error),
    ("webhook-tls-private-key-file=k", Error),
    ("webhook-tls-cipher-suites=x", Error),
    ("webhook-tls-min-version=VersionTLS13", Error),
    ("webhook-tls-curve-preferences=23", Error),
    ("webhook-tls-sni-cert-key=c,k", Error),
    ("webhook-disable-http2-serving", SoAnyway),
    // The log.
    ("v=4", Effect),
    ("vmodule=a=1", Note),
    ("logging-format=json", Effect),
    ("log-flush-frequency=1s", Note),
    ("log-json-info-buffer-size=1", Note),
    ("log-json-split-stream", Note),
    ("log-text-info-buffer-size=1", Note),
    ("log-text-split-stream", Note),
    ("logtostderr", Note),
    ("alsologtostderr", Note),
    ("stderrthreshold=1", Note),
    // The vSphere provider.
    ("node-labels=a=b", Effect),
    ("is-legacy-paravirtual", Note),
    ("enable-vpc-mode", Note),
    ("pod-ip-pool-type=Public", Note),
    ("enable-service-annotation-propagation", Note),
    ("vm-operator-api-version=v1alpha5", Note),
    ("cluster-ip-family=ipv6", Note),
    ("cloud-provider=vsphere-paravirtual --vm-operator-api-version=v1alpha5", Effect),
    (
        "cloud-provider=vsphere-paravirtual --cluster-ip-family=ipv4ipv6 --vm-operator-api-version=v1alpha6",
        Effect,
    ),
];

/// Flags that only this provider has.
const OURS: &[&str] = &[
    "autoscaler",
    "instances-mode",
    "log-format",
    "strict-config",
    "supervisor-credentials-dir",
    "supervisor-empty-hostname",
    "supervisor-late-zone-labels",
    "supervisor-owner-ref",
    "supervisor-replace-unwanted-addresses",
    "supervisor-server",
    "vm-cache-sync-timeout",
];

fn outcome(words: &str) -> Outcome {
    let flag = words.split(['=', ' ']).next().unwrap();
    let named = format!("--{flag}");
    let without = parse_line("--cloud-config=c").unwrap();
    let mut with = match parse_line(&format!("--cloud-config=c --{words}")) {
        Ok(arguments) => arguments,
        Err(err) => {
            assert!(err.to_string().starts_with(&named), "{words}: {err}");
            return Error;
        }
    };
    let notes = std::mem::take(&mut with.notes);
    let is_same = format!("{without:?}") == format!("{with:?}");
    match (is_same, notes.iter().any(|note| note.starts_with(&named))) {
        (true, true) => Note,
        (true, false) => SoAnyway,
        (false, false) => Effect,
        (false, true) => panic!("{words}: has an effect, but a note names it: {notes:?}"),
    }
}

#[test]
fn every_upstream_flag_has_an_effect_a_note_or_an_error() {
    let mut wrong = Vec::new();
    for (words, want) in TABLE {
        let got = outcome(words);
        if got != *want {
            wrong.push(format!("--{words}: {got:?}, not {want:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn the_table_has_exactly_the_flags_of_the_command_line() {
    let names = |words: &'static str| words.split(" --").filter_map(|word| word.split('=').next());
    let mut held: Vec<&str> = TABLE.iter().flat_map(|(words, _)| names(words)).collect();
    held.extend(OURS);
    held.sort_unstable();
    held.dedup();
    let mut known: Vec<&str> = FLAGS.iter().map(|flag| flag.name).collect();
    known.sort_unstable();
    assert_eq!(held, known);
}

#[test]
fn version_and_help_flags_are_read_as_upstream_reads_them() {
    use clap::error::ErrorKind::{DisplayHelp, DisplayVersion};
    for (words, want) in [
        ("--version", DisplayVersion),
        ("--version=raw", DisplayVersion),
        ("--version=true", DisplayVersion),
        ("--version=true --cloud-config=c", DisplayVersion),
        ("--help", DisplayHelp),
        ("-h", DisplayHelp),
        ("--cloud-config=c --help", DisplayHelp),
    ] {
        match parse_line(words) {
            Err(ArgumentsError::Clap(err)) => assert_eq!(err.kind(), want, "{words}: {err}"),
            other => panic!("{words}: {other:?}"),
        }
    }
    parse_line("--cloud-config=c --version=false").expect("it prints no version");
    let err = parse_line("--cloud-config=c --version=v9").unwrap_err().to_string();
    assert!(err.contains("--version"), "{err}");
}
