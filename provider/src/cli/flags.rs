//! Table of all flags with their defaults: those of upstream, and those that only this provider
//! has. Sources: `ccm-framework` 5.2, `cpi-vsphere` 1.2, `cpi-supervisor` 1.2.

/// Type of a flag's value.
#[derive(Clone, Copy, Debug)]
pub(super) enum FlagKind {
    Bool,
    Value(&'static str),
    List(&'static str),
}

/// Treatment of a flag that the command line contains.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fate {
    /// The flag has an effect.
    Read,
    /// The flag has no effect. The provider logs a note about that, unless the value of the flag is
    /// one of these values, which describe the actual behavior.
    Noted(&'static [&'static str]),
    /// The flag concerns security and has no effect. Unless the value of the flag is one of the
    /// first field, the start fails with an error whose remedy is the second field.
    Refused(&'static [&'static str], &'static str),
}

/// One flag of the command line: name, type, default, effect and help text.
pub(super) struct Flag {
    pub(super) name: &'static str,
    pub(super) kind: FlagKind,
    pub(super) default: &'static str,
    pub(super) fate: Fate,
    pub(super) help: &'static str,
}

const fn flag(name: &'static str, default: &'static str, help: &'static str) -> Flag {
    Flag { name, kind: FlagKind::Bool, default, fate: Fate::Read, help }
}

const fn value(
    name: &'static str,
    what: &'static str,
    default: &'static str,
    help: &'static str,
) -> Flag {
    Flag { name, kind: FlagKind::Value(what), default, fate: Fate::Read, help }
}

/// A flag with a list as value; if it is repeated, its lists are joined, as in Go.
const fn list(
    name: &'static str,
    what: &'static str,
    default: &'static str,
    help: &'static str,
) -> Flag {
    Flag { name, kind: FlagKind::List(what), default, fate: Fate::Read, help }
}

const fn idle_flag(name: &'static str) -> Flag {
    Flag { kind: FlagKind::Bool, ..idle(name) }
}

const fn idle(name: &'static str) -> Flag {
    let kind = FlagKind::Value("VALUE");
    Flag { name, kind, default: "", fate: Fate::Noted(&[]), help: "No effect" }
}

/// A boolean flag without effect. It needs no note with these values, because they describe the
/// actual behavior.
const fn so_anyway(name: &'static str, values: &'static [&'static str]) -> Flag {
    Flag { fate: Fate::Noted(values), ..idle_flag(name) }
}

const fn refused(name: &'static str, remedy: &'static str) -> Flag {
    Flag { fate: Fate::Refused(&[""], remedy), help: "Not supported", ..idle(name) }
}

const fn refused_unless(
    name: &'static str,
    values: &'static [&'static str],
    remedy: &'static str,
) -> Flag {
    Flag { fate: Fate::Refused(values, remedy), ..idle_flag(name) }
}

/// Spellings of true that Go accepts.
pub(super) const TRUE: &[&str] = &["true", "1", "t", "T", "TRUE", "True"];
/// Spellings of false that Go accepts.
pub(super) const FALSE: &[&str] = &["false", "0", "f", "F", "FALSE", "False"];

const NO_CERTIFICATES: &str = "the endpoint identifies clients only by tokens; omit the flag";
const NO_LOOKUP: &str =
    "the endpoint never accepts client certificates or front proxies of the cluster; omit the flag";
const ONE_PAIR: &str = "give one pair: --tls-cert-file and --tls-private-key-file";
const NO_WEBHOOKS: &str = "the provider has no webhooks; omit the flag";
const ONE_ACCOUNT: &str = "all controllers use the account of the provider; omit the flag";

pub(super) const FLAGS: &[Flag] = &[
    value(
        "cloud-provider",
        "NAME",
        "vsphere",
        "Mode: vsphere (vCenter) or vsphere-paravirtual (Supervisor)",
    ),
    value("cloud-config", "FILE", "", "Path of vsphere.conf, in YAML or INI; required"),
    value(
        "instances-mode",
        "MODE",
        "auto",
        "Way to look up machines: auto (watches; polls if the watch of a Supervisor is forbidden or keeps failing), watch, poll, or v1 (the same calls as upstream)",
    ),
    value(
        "vm-operator-api-version",
        "VERSION",
        "v1alpha2",
        "API version of VirtualMachines: v1alpha2, v1alpha5 or v1alpha6 (Supervisor)",
    ),
    value(
        "cluster-ip-family",
        "FAMILY",
        "ipv4",
        "IP families of nodes: ipv4, ipv6, ipv4ipv6 or ipv6ipv4 (Supervisor)",
    ),
    value(
        "supervisor-credentials-dir",
        "DIR",
        "/etc/cloud/ccm-provider",
        "Directory with token, ca.crt and namespace of the Supervisor",
    ),
    value(
        "supervisor-owner-ref",
        "FILE",
        "/etc/kubernetes/guestclusters/cluster/ownerref.json",
        "File with the owner reference for objects on the Supervisor; read and checked at start, but this version creates no objects there",
    ),
    value(
        "supervisor-server",
        "URL",
        "",
        "Address of the Supervisor; if empty, supervisor.default.svc with the port of SUPERVISOR_APISERVER_PORT",
    ),
    flag(
        "supervisor-empty-hostname",
        "true",
        "Appends an empty Hostname to the addresses of nodes, as upstream; if false, the node's own Hostname stays",
    ),
    flag(
        "supervisor-replace-unwanted-addresses",
        "false",
        "Replaces the addresses of a node even if its machine has none of the wanted IP family, as upstream",
    ),
    flag(
        "supervisor-late-zone-labels",
        "false",
        "Adds zone labels to a node whose machine gets its zone after the node's initialization",
    ),
    value(
        "vm-cache-sync-timeout",
        "DURATION",
        "60s",
        "Timeout of the first list of VirtualMachines (Supervisor)",
    ),
    flag(
        "strict-config",
        "false",
        "Refuses a vsphere.conf with an unknown key or another cause of a warning",
    ),
    value("kubeconfig", "FILE", "", "Path of a kubeconfig; if empty, in-cluster configuration"),
    value("master", "URL", "", "Address of the API server; overrides that of the kubeconfig"),
    list(
        "autoscaler",
        "FLAG",
        "",
        "Also serves Cluster Autoscalers while this replica leads, with this flag of `provider autoscaler`; repeat it for each flag, such as --autoscaler=--groups=FILE",
    ),
    list("controllers", "LIST", "*", "Controllers to run: *, NAME, or -NAME to leave one out"),
    value(
        "node-status-update-frequency",
        "DURATION",
        "5m0s",
        "Period between two updates of the addresses of all nodes",
    ),
    value(
        "node-monitor-period",
        "DURATION",
        "5s",
        "Period between two checks of the nodes that are not ready",
    ),
    value("concurrent-node-syncs", "N", "1", "Number of workers that initialize nodes"),
    value(
        "kube-api-qps",
        "N",
        "20",
        "Requests per second to the API server, per controller; 0 means 5, a negative number means no limit",
    ),
    value(
        "kube-api-burst",
        "N",
        "30",
        "Burst of requests to the API server, per controller; 0 means 10, but is invalid with a positive --kube-api-qps",
    ),
    value(
        "node-labels",
        "KEY=VALUE,…",
        "",
        "Labels that the provider adds to every node at initialization (vCenter)",
    ),
    flag("leader-elect", "true", "Acquires a Lease before any controller starts"),
    value(
        "leader-elect-lease-duration",
        "DURATION",
        "15s",
        "Time without renewal after which a candidate takes the Lease",
    ),
    value(
        "leader-elect-renew-deadline",
        "DURATION",
        "10s",
        "Time without renewal after which the leader stops",
    ),
    value(
        "leader-elect-retry-period",
        "DURATION",
        "2s",
        "Pause between two renewals of the Lease; 1 to 2.2 times as long between two attempts to acquire it",
    ),
    value(
        "leader-elect-resource-lock",
        "KIND",
        "leases",
        "Kind of the lock; only leases is supported",
    ),
    value("leader-elect-resource-name", "NAME", "cloud-controller-manager", "Name of the Lease"),
    value("leader-elect-resource-namespace", "NAME", "kube-system", "Namespace of the Lease"),
    value("bind-address", "ADDRESS", "0.0.0.0", "Address of the HTTPS endpoint"),
    value("secure-port", "PORT", "10258", "Port of the HTTPS endpoint; 0 for no endpoint"),
    value(
        "v",
        "N",
        "0",
        "Verbosity of the log: 0 to 3 logs info and above, 4 and 5 also debug, 6 or more also trace",
    ),
    value("logging-format", "FORMAT", "text", "Format of the log: text or json"),
    value("log-format", "FORMAT", "", "Older name of --logging-format; must not contradict it"),
    value(
        "tls-cert-file",
        "FILE",
        "",
        "Certificate of the HTTPS endpoint (PEM), reloaded when it changes; self-signed if empty",
    ),
    value(
        "tls-private-key-file",
        "FILE",
        "",
        "Private key of the certificate (PEM), reloaded when it changes",
    ),
    list(
        "tls-cipher-suites",
        "NAME,…",
        "",
        "Cipher suites of TLS 1.2, by their Go names; all if empty",
    ),
    value(
        "tls-min-version",
        "VERSION",
        "",
        "Lowest TLS version of the HTTPS endpoint: VersionTLS12 (if empty) or VersionTLS13",
    ),
    list(
        "tls-curve-preferences",
        "N,…",
        "",
        "Key exchange groups, by their Go numbers; all if empty",
    ),
    value(
        "authentication-kubeconfig",
        "FILE",
        "",
        "Kubeconfig of the cluster that authenticates callers of the endpoint; if empty, in-cluster configuration",
    ),
    value(
        "authorization-kubeconfig",
        "FILE",
        "",
        "Kubeconfig of the cluster that authorizes callers of the endpoint; if empty, in-cluster configuration",
    ),
    value(
        "authentication-token-webhook-cache-ttl",
        "DURATION",
        "10s",
        "Time for which the endpoint caches the review of a token",
    ),
    value(
        "authorization-webhook-cache-authorized-ttl",
        "DURATION",
        "10s",
        "Time for which the endpoint caches that a request is allowed",
    ),
    value(
        "authorization-webhook-cache-unauthorized-ttl",
        "DURATION",
        "10s",
        "Time for which the endpoint caches that a request is refused",
    ),
    list(
        "authorization-always-allow-paths",
        "PATH,…",
        "/healthz,/readyz,/livez",
        "Paths of the endpoint that need no authorization; a trailing * matches any suffix",
    ),
    refused("cert-dir", ONE_PAIR),
    refused("tls-sni-cert-key", ONE_PAIR),
    refused("client-ca-file", NO_CERTIFICATES),
    refused("requestheader-allowed-names", NO_CERTIFICATES),
    refused("requestheader-client-ca-file", NO_CERTIFICATES),
    refused("requestheader-extra-headers-prefix", NO_CERTIFICATES),
    refused("requestheader-group-headers", NO_CERTIFICATES),
    refused("requestheader-username-headers", NO_CERTIFICATES),
    refused("requestheader-uid-headers", NO_CERTIFICATES),
    refused_unless("authentication-skip-lookup", TRUE, NO_LOOKUP),
    refused_unless("use-service-account-credentials", FALSE, ONE_ACCOUNT),
    refused("webhook-cert-dir", NO_WEBHOOKS),
    refused("webhook-tls-cert-file", NO_WEBHOOKS),
    refused("webhook-tls-private-key-file", NO_WEBHOOKS),
    refused("webhook-tls-cipher-suites", NO_WEBHOOKS),
    refused("webhook-tls-min-version", NO_WEBHOOKS),
    refused("webhook-tls-curve-preferences", NO_WEBHOOKS),
    refused("webhook-tls-sni-cert-key", NO_WEBHOOKS),
    so_anyway("disable-http2-serving", TRUE),
    so_anyway("webhook-disable-http2-serving", TRUE),
    so_anyway("profiling", FALSE),
    so_anyway("contention-profiling", FALSE),
    idle("concurrent-node-status-updates"),
    idle("concurrent-node-lifecycle-syncs"),
    idle("log-json-info-buffer-size"),
    idle_flag("log-json-split-stream"),
    idle("log-text-info-buffer-size"),
    idle_flag("log-text-split-stream"),
    idle("concurrent-service-syncs"),
    idle("route-reconciliation-period"),
    idle_flag("configure-cloud-routes"),
    idle_flag("allocate-node-cidrs"),
    idle("cidr-allocator-type"),
    idle("cluster-cidr"),
    idle("cluster-name"),
    idle_flag("allow-untagged-cloud"),
    idle("node-sync-period"),
    idle("external-cloud-volume-plugin"),
    idle("min-resync-period"),
    idle("controller-start-interval"),
    idle("kube-api-content-type"),
    idle_flag("enable-leader-migration"),
    idle("leader-migration-config"),
    idle("http2-max-streams-per-connection"),
    idle_flag("permit-port-sharing"),
    idle_flag("permit-address-sharing"),
    idle_flag("authentication-tolerate-lookup-failure"),
    idle("webhooks"),
    idle("webhook-bind-address"),
    idle("webhook-secure-port"),
    idle("feature-gates"),
    idle("vmodule"),
    idle("log-flush-frequency"),
    idle_flag("logtostderr"),
    idle_flag("alsologtostderr"),
    idle("stderrthreshold"),
    idle_flag("is-legacy-paravirtual"),
    idle_flag("enable-vpc-mode"),
    idle("pod-ip-pool-type"),
    idle_flag("enable-service-annotation-propagation"),
];
