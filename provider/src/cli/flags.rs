//! Every flag of upstream with its default, as data. Source: `ccm-framework` 5.2 and `cpi-vsphere` 1.2, `cpi-supervisor` 1.2.

/// Type of a flag's value.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Bool,
    Value(&'static str),
    List(&'static str),
}

/// Treatment of a flag that the command line contains.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fate {
    /// The flag has an effect.
    Read,
    /// The flag has no effect, and a note says so, unless its value is one of these, which describe the actual behavior.
    Noted(&'static [&'static str]),
    /// The flag concerns security and has no effect: an error with this remedy, unless its value is one of these.
    Refused(&'static [&'static str], &'static str),
}

/// One flag.
pub(super) struct Flag {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) default: &'static str,
    pub(super) fate: Fate,
    pub(super) help: &'static str,
}

const fn flag(name: &'static str, default: &'static str, help: &'static str) -> Flag {
    Flag { name, kind: Kind::Bool, default, fate: Fate::Read, help }
}

const fn value(
    name: &'static str,
    what: &'static str,
    default: &'static str,
    help: &'static str,
) -> Flag {
    Flag { name, kind: Kind::Value(what), default, fate: Fate::Read, help }
}

/// A list; repeated flags add up, as in Go.
const fn list(
    name: &'static str,
    what: &'static str,
    default: &'static str,
    help: &'static str,
) -> Flag {
    Flag { name, kind: Kind::List(what), default, fate: Fate::Read, help }
}

const fn idle_flag(name: &'static str) -> Flag {
    Flag { kind: Kind::Bool, ..idle(name) }
}

const fn idle(name: &'static str) -> Flag {
    let kind = Kind::Value("VALUE");
    Flag { name, kind, default: "", fate: Fate::Noted(&[]), help: "No effect" }
}

/// A flag without effect that needs no note with these values, because they describe the actual behavior.
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

/// Booleans as Go writes them.
pub(super) const TRUE: &[&str] = &["true", "1", "t", "T", "TRUE", "True"];
pub(super) const FALSE: &[&str] = &["false", "0", "f", "F", "FALSE", "False"];

const NO_CERTIFICATES: &str = "clients are known by their tokens alone; leave it out";
const NO_LOOKUP: &str =
    "client certificates and front proxies are not looked up in the cluster; leave it out";
const ONE_PAIR: &str = "give one pair: --tls-cert-file and --tls-private-key-file";
const NO_WEBHOOKS: &str = "there are no webhooks; leave it out";
const ONE_ACCOUNT: &str = "all controllers use the account of the provider; leave it out";

pub(super) const FLAGS: &[Flag] = &[
    value("cloud-provider", "NAME", "vsphere", "Mode: vsphere or vsphere-paravirtual"),
    value("cloud-config", "FILE", "", "Path of vsphere.conf, YAML or INI"),
    value("instances-mode", "MODE", "auto", "How machines are looked up: auto, watch, poll or v1"),
    value(
        "vm-operator-api-version",
        "VERSION",
        "v1alpha2",
        "Version of VirtualMachines: v1alpha2, v1alpha5 or v1alpha6 (Supervisor)",
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
        "Owner reference of objects created in the Supervisor",
    ),
    value(
        "supervisor-server",
        "URL",
        "",
        "Address of the Supervisor; without it supervisor.default.svc and SUPERVISOR_APISERVER_PORT",
    ),
    flag(
        "supervisor-empty-hostname",
        "true",
        "End the addresses of nodes with an empty Hostname, as upstream; without it the node's own stays",
    ),
    flag(
        "supervisor-replace-unwanted-addresses",
        "false",
        "Replace a node's addresses when its machine has none of a wanted family, as upstream",
    ),
    flag(
        "supervisor-late-zone-labels",
        "false",
        "Add zone labels to a node whose machine gets its zone after the initialization",
    ),
    value(
        "vm-cache-sync-timeout",
        "DURATION",
        "60s",
        "Timeout of the first list of VirtualMachines (Supervisor)",
    ),
    flag("strict-config", "false", "Refuse unknown keys of vsphere.conf instead of warning"),
    value("kubeconfig", "FILE", "", "Path of a kubeconfig; in-cluster configuration without it"),
    value("master", "URL", "", "Address of the API server, overrides the kubeconfig"),
    list("controllers", "LIST", "*", "Controllers to run: *, names, -names"),
    value("node-status-update-frequency", "DURATION", "5m0s", "Period of address updates"),
    value("node-monitor-period", "DURATION", "5s", "Period of checks of nodes that are not ready"),
    value("concurrent-node-syncs", "N", "1", "Number of workers that initialize nodes"),
    value("kube-api-qps", "N", "20", "Requests per second to the API server, per controller"),
    value("kube-api-burst", "N", "30", "Burst of requests to the API server, per controller"),
    value("node-labels", "KEY=VALUE,…", "", "Labels added to every node at initialization"),
    flag("leader-elect", "true", "Acquire a Lease before any controller starts"),
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
        "Pause between two attempts to acquire or renew the Lease",
    ),
    value("leader-elect-resource-lock", "KIND", "leases", "Kind of the lock; only leases exist"),
    value("leader-elect-resource-name", "NAME", "cloud-controller-manager", "Name of the Lease"),
    value("leader-elect-resource-namespace", "NAME", "kube-system", "Namespace of the Lease"),
    value("bind-address", "ADDRESS", "0.0.0.0", "Address of the HTTPS endpoint"),
    value("secure-port", "PORT", "10258", "Port of the HTTPS endpoint; 0 serves nothing"),
    value("v", "N", "0", "Verbosity of the log: 0 least, 2 usual, 4 or more for debugging"),
    value("logging-format", "FORMAT", "text", "Format of the log: text or json"),
    value("log-format", "FORMAT", "", "Older name of --logging-format; excludes it"),
    value(
        "tls-cert-file",
        "FILE",
        "",
        "Certificate of the HTTPS endpoint (PEM), reloaded when it changes",
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
    value("tls-min-version", "VERSION", "", "VersionTLS12 or VersionTLS13"),
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
        "Kubeconfig of the cluster that authenticates callers of the endpoint; without it the in-cluster configuration",
    ),
    value(
        "authorization-kubeconfig",
        "FILE",
        "",
        "Kubeconfig of the cluster that authorizes callers of the endpoint; without it the in-cluster configuration",
    ),
    value(
        "authentication-token-webhook-cache-ttl",
        "DURATION",
        "10s",
        "Time for which an authentication is cached",
    ),
    value(
        "authorization-webhook-cache-authorized-ttl",
        "DURATION",
        "10s",
        "Time for which a permission is cached",
    ),
    value(
        "authorization-webhook-cache-unauthorized-ttl",
        "DURATION",
        "10s",
        "Time for which a refusal is cached",
    ),
    list(
        "authorization-always-allow-paths",
        "PATH,…",
        "/healthz,/readyz,/livez",
        "Paths that need no authorization; a trailing * matches any suffix",
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
