//! Every flag of upstream with its default, as data. Source: `ccm-framework` 5.2 and `cpi-vsphere` 1.2, `cpi-supervisor` 1.2.

/// What a flag takes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Bool,
    Value(&'static str),
}

/// One flag.
pub(super) struct Flag {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) default: &'static str,
    pub(super) has_effect: bool,
    pub(super) help: &'static str,
}

const fn flag(name: &'static str, default: &'static str, help: &'static str) -> Flag {
    Flag { name, kind: Kind::Bool, default, has_effect: true, help }
}

const fn value(
    name: &'static str,
    what: &'static str,
    default: &'static str,
    help: &'static str,
) -> Flag {
    Flag { name, kind: Kind::Value(what), default, has_effect: true, help }
}

const fn idle_flag(name: &'static str) -> Flag {
    Flag { name, kind: Kind::Bool, default: "", has_effect: false, help: "No effect" }
}

const fn idle(name: &'static str) -> Flag {
    Flag { name, kind: Kind::Value("VALUE"), default: "", has_effect: false, help: "No effect" }
}

pub(super) const FLAGS: &[Flag] = &[
    value("cloud-provider", "NAME", "vsphere", "Mode: vsphere or vsphere-paravirtual"),
    value("cloud-config", "FILE", "", "Path of vsphere.conf, YAML or INI"),
    value("instances-mode", "MODE", "auto", "How machines are asked about: auto, watch, poll, v1"),
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
        "Holds token, ca.crt and namespace of the Supervisor",
    ),
    value(
        "supervisor-owner-ref",
        "FILE",
        "/etc/kubernetes/guestclusters/cluster/ownerref.json",
        "Owner of what is created in the Supervisor",
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
        "Label nodes whose machines get their zone after the node was initialized",
    ),
    value(
        "vm-cache-sync-timeout",
        "DURATION",
        "60s",
        "How long the first list of VirtualMachines is waited for (Supervisor)",
    ),
    flag(
        "strict-config",
        "false",
        "Refuse keys of vsphere.conf that nobody reads, instead of warning",
    ),
    value("kubeconfig", "FILE", "", "Path of a kubeconfig; in-cluster configuration without it"),
    value("master", "URL", "", "Address of the API server, overrides the kubeconfig"),
    value("controllers", "LIST", "*", "Controllers to run: *, names, -names"),
    value(
        "node-status-update-frequency",
        "DURATION",
        "5m0s",
        "Pause between passes over addresses",
    ),
    value(
        "node-monitor-period",
        "DURATION",
        "5s",
        "Pause between looks at nodes that are not ready",
    ),
    value("concurrent-node-syncs", "N", "1", "Workers that initialize nodes"),
    value("kube-api-qps", "N", "20", "Requests per second to the API server, per controller"),
    value("kube-api-burst", "N", "30", "Burst of requests to the API server, per controller"),
    value("node-labels", "KEY=VALUE,…", "", "Labels added to every node at initialization"),
    flag("leader-elect", "true", "Lead through a Lease before doing anything"),
    value("leader-elect-lease-duration", "DURATION", "15s", "Candidates wait this long"),
    value("leader-elect-renew-deadline", "DURATION", "10s", "The leader gives up after this long"),
    value("leader-elect-retry-period", "DURATION", "2s", "Pause between two attempts"),
    value("leader-elect-resource-lock", "KIND", "leases", "Kind of the lock; only leases exist"),
    value("leader-elect-resource-name", "NAME", "cloud-controller-manager", "Name of the Lease"),
    value("leader-elect-resource-namespace", "NAME", "kube-system", "Namespace of the Lease"),
    value("bind-address", "ADDRESS", "0.0.0.0", "Address of the HTTPS endpoint"),
    value("secure-port", "PORT", "10258", "Port of the HTTPS endpoint; 0 serves nothing"),
    value("v", "N", "0", "Verbosity of the log: 0 little, 2 usual, 4 and more much"),
    value("logging-format", "FORMAT", "text", "Format of the log: text or json"),
    value("log-format", "FORMAT", "", "The same by an older name; not both"),
    idle("concurrent-node-status-updates"),
    idle("concurrent-service-syncs"),
    idle("route-reconciliation-period"),
    idle_flag("configure-cloud-routes"),
    idle_flag("allocate-node-cidrs"),
    idle("cidr-allocator-type"),
    idle("cluster-cidr"),
    idle("cluster-name"),
    idle_flag("use-service-account-credentials"),
    idle_flag("allow-untagged-cloud"),
    idle("node-sync-period"),
    idle("external-cloud-volume-plugin"),
    idle("min-resync-period"),
    idle("controller-start-interval"),
    idle("kube-api-content-type"),
    idle_flag("enable-leader-migration"),
    idle("leader-migration-config"),
    idle("cert-dir"),
    idle("tls-cert-file"),
    idle("tls-private-key-file"),
    idle("tls-cipher-suites"),
    idle("tls-min-version"),
    idle("tls-curve-preferences"),
    idle("tls-sni-cert-key"),
    idle("http2-max-streams-per-connection"),
    idle_flag("disable-http2-serving"),
    idle_flag("permit-port-sharing"),
    idle_flag("permit-address-sharing"),
    idle("authentication-kubeconfig"),
    idle("authorization-kubeconfig"),
    idle_flag("authentication-skip-lookup"),
    idle_flag("authentication-tolerate-lookup-failure"),
    idle("authentication-token-webhook-cache-ttl"),
    idle("authorization-webhook-cache-authorized-ttl"),
    idle("authorization-webhook-cache-unauthorized-ttl"),
    idle("authorization-always-allow-paths"),
    idle("client-ca-file"),
    idle("requestheader-allowed-names"),
    idle("requestheader-client-ca-file"),
    idle("requestheader-extra-headers-prefix"),
    idle("requestheader-group-headers"),
    idle("requestheader-username-headers"),
    idle("requestheader-uid-headers"),
    idle("webhooks"),
    idle("webhook-bind-address"),
    idle("webhook-secure-port"),
    idle_flag("profiling"),
    idle_flag("contention-profiling"),
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
