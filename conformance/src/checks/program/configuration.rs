//! CCM-027, and the parts of CCM-011 and CCM-029 about `vsphere.conf`: the configuration of vCenter
//! mode, as YAML and as INI.

use std::time::Duration;

use sim::world::vcenter::Password;
use sim::world::{Command, PROVIDER_USER};

use super::command_line::{ended_early, logs};
use crate::checks::Case;
use crate::checks::build::{T_INIT, s, set_address, world};
use crate::checks::queries::{name, names};
use crate::judge::verdict::Verdict;
use crate::lab::Run;
use crate::scenario::Scenario;

/// Duration of each case.
const SHORT: Duration = s(20);

/// A password with characters that have a meaning in YAML or INI.
const PASSWORD: &str = "p;a#s\"s \\w=o'r:d";

fn with_text(text: &str) -> Scenario {
    world(1, SHORT).with_provider(|it| it.config = Some(text.to_owned()))
}

/// Names and texts of configurations that agree in the vCenter, its credentials, and the tag
/// categories of zone and region.
const SAME: &[(&str, &str)] = &[
    (
        "YAML",
        "global:\n  port: $(port)\n  $(trust.yaml)\nvcenter:\n  $(server):\n    server: $(server)\n    user: $(user)\n    \
         password: 'p;a#s\"s \\w=o''r:d'\n    datacenters: [DC0]\nlabels: {region: k8s-region, zone: k8s-zone}\n",
    ),
    (
        "YAML, with everything in the section global",
        "global:\n  server: $(server)\n  port: $(port)\n  user: $(user)\n  password: \"p;a#s\\\"s \\\\w=o'r:d\"\n  $(trust.yaml)\n  \
         datacenters: [DC0]\nvcenter:\nlabels:\n  region: k8s-region\n  zone: k8s-zone\n",
    ),
    (
        "YAML that begins with a byte order mark",
        "\u{feff}# written on another system\nvcenter:\n  $(server):\n    server: $(server)\n    port: $(port)\n    user: $(user)\n    \
         password: 'p;a#s\"s \\w=o''r:d'\n    $(trust.yaml)\nlabels: {region: k8s-region, zone: k8s-zone}\n",
    ),
    (
        "INI",
        "# a comment\n[Global]\nport = $(port)\n$(trust.ini)\n\n[VirtualCenter \"$(server)\"]\nuser = $(user)\n\
         password = \"p;a#s\\\"s \\\\w=o'r:d\"\ndatacenters = DC0\n\n[Labels]\nregion = k8s-region\nzone = k8s-zone\n",
    ),
    (
        "INI with names in any case, comments and blanks",
        "; a comment\n[GLOBAL]   ; another one\nPORT=\"$(port)\"\n  $(trust.ini)  # and one\n[virtualcenter \"$(server)\"]\n\
         User = \"$(user)\" ; here\nPassword=\"p;a#s\\\"s \\\\w=o'r:d\" # there\nDatacenters = DC0 ; DC1\n\
         [labels]\nregion=k8s-region#1\nzone   =   k8s-zone   ; last\n",
    ),
    (
        "INI with lines that go on",
        "[Global]\nuser = \\\n$(user)\npassword = \"p;a#s\\\"s \\\\w=o'r:d\"\nserver = $(server)\nport = $(port)\n$(trust.ini)\n\
         datacenters = DC\\\n0\n[Labels]\nregion = k8s-\\\nregion\nzone = k8s-zone\n",
    ),
    (
        "INI with one section twice",
        "[VirtualCenter \"$(server)\"]\nuser = nobody\nport = $(port)\n[Labels]\nregion = k8s-region\nzone = k8s-zone\n\
         [VirtualCenter \"$(server)\"]\nuser = $(user)\npassword = \"p;a#s\\\"s \\\\w=o'r:d\"\n$(trust.ini)\n",
    ),
];

/// Passwords that YAML reads as numbers. gopkg.in/yaml.v2, which upstream uses, decodes such a
/// number into a string with the digits of the file.
const NUMBERS: [&str; 3] = ["12345678", "-12345678", "12345678901234567890"];

/// Returns the cases of CCM-027. With each configuration the provider must start, find the machine
/// and initialize the machine's node. The node must get its zone and region or, in the cases about
/// a subnet, the address in this subnet.
pub(super) fn read() -> Vec<Case> {
    let same = SAME.iter().map(|(what, text)| means_the_same(what, PASSWORD, text));
    let mut cases: Vec<Case> = same.collect();
    cases.extend(NUMBERS.iter().map(|number| {
        let text = format!(
            "global:\n  port: $(port)\n  $(trust.yaml)\nvcenter:\n  $(server):\n    server: $(server)\n    user: $(user)\n    \
             password: {number}\nlabels: {{region: k8s-region, zone: k8s-zone}}\n"
        );
        means_the_same(&format!("YAML with the password {number}"), number, &text)
    }));
    cases.push(filters(
        "YAML",
        "nodes: {internalNetworkSubnetCidr: '10.9.0.0/16, 10.77.0.0/16'}\n",
        true,
    ));
    cases.push(filters("INI", "[Nodes]\ninternal-network-subnet-cidr = 10.77.0.0/16\n", false));
    cases
}

fn means_the_same(what: &str, password: &str, text: &str) -> Case {
    let user = PROVIDER_USER.to_owned();
    let password =
        Command::RotatePassword { vcenter: None, user, password: Password::new(password) };
    Case::new(with_text(text).at(s(0), password), |run| {
        run.initializes(&names(1), s(0), T_INIT).and(|| has_zone(run))
    })
    .named(what)
}

fn has_zone(run: &Run) -> Verdict {
    let labels = ["topology.kubernetes.io/zone", "topology.kubernetes.io/region"];
    let node = run.node_object(&name(1));
    let missing = labels
        .into_iter()
        .find(|label| node.is_none_or(|node| node["metadata"]["labels"][label].is_null()));
    Verdict::pass_if(missing.is_none(), || {
        format!(
            "the configuration names the tag categories, but the node lacks the label {}",
            missing.unwrap_or_default()
        )
    })
}

/// Addresses of the first machine. Only the second address is in the subnet of the configurations.
const ADDRESSES: [&str; 2] = ["192.0.2.9", "10.77.0.5"];

/// Creates a case in which the section about nodes selects a subnet, and the internal address must
/// be the one in this subnet.
fn filters(dialect: &str, nodes: &str, is_yaml: bool) -> Case {
    let text = if is_yaml {
        "global: {port: $(port), $(trust.yaml)}\nvcenter: {$(server): {server: $(server), user: $(user), password: '$(password)'}}\n"
    } else {
        "[VirtualCenter \"$(server)\"]\nuser = $(user)\npassword = \"$(password)\"\nport = $(port)\n$(trust.ini)\n"
    };
    let scenario = with_text(&format!("{text}{nodes}"))
        .with_provider(|it| it.zones = false)
        .at(s(0), set_address(1, &ADDRESSES));
    Case::new(scenario, |run| {
        let shown = run.node(&name(1)).map(|node| node.addresses).unwrap_or_default();
        let internal: Vec<&str> = shown
            .iter()
            .filter(|(kind, _)| kind == "InternalIP")
            .map(|(_, text)| text.as_str())
            .collect();
        run.initializes(&names(1), s(0), T_INIT).and(|| {
            Verdict::pass_if(internal == [ADDRESSES[1]], || {
                format!("the internal addresses of the node are {internal:?}; only {} is in the configured subnet", ADDRESSES[1])
            })
        })
    })
    .named(format!("{dialect} with a subnet of internal addresses"))
}

/// Keys that have no effect in a provider, each with a configuration that contains it.
const IDLE: &[(&str, &str)] = &[
    (
        "soapRoundtripCount",
        "global: {port: $(port), soapRoundtripCount: 3, $(trust.yaml)}\nvcenter: {$(server): {server: $(server), user: $(user), password: '$(password)'}}\n",
    ),
    (
        "insecureFlg",
        "global: {port: $(port), insecureFlg: true, $(trust.yaml)}\nvcenter: {$(server): {server: $(server), user: $(user), password: '$(password)'}}\n",
    ),
    (
        "soap-roundtrip-count",
        "[VirtualCenter \"$(server)\"]\nuser = $(user)\npassword = \"$(password)\"\nport = $(port)\n$(trust.ini)\nsoap-roundtrip-count = 3\n",
    ),
    (
        "insecure-flg",
        "[VirtualCenter \"$(server)\"]\nuser = $(user)\npassword = \"$(password)\"\nport = $(port)\n$(trust.ini)\ninsecure-flg = 1\n",
    ),
];

/// Returns the cases of CCM-029 about `vsphere.conf`. The log must name a key without effect, and
/// the provider must initialize the node.
pub(super) fn named() -> Vec<Case> {
    let case = |(key, text): &(&'static str, &str)| {
        let key = *key;
        let scenario = with_text(text).with_provider(|it| it.zones = false);
        Case::new(scenario, move |run| logs(run, key)).named(key)
    };
    IDLE.iter().map(case).collect()
}

/// Descriptions and texts of configurations that a provider must reject.
const INVALID: &[(&str, &str)] = &[
    ("an empty file", ""),
    ("a file with a comment alone", "# nothing\n"),
    ("YAML that does not end", "global: [1"),
    ("YAML that is a list", "- a\n"),
    ("YAML that is a text", "hello\n"),
    ("YAML without a vCenter", "global: {user: $(user), password: $(password)}\n"),
    ("YAML without a server", "vcenter: {a: {user: $(user), password: $(password)}}\n"),
    ("YAML without a user", "vcenter: {a: {server: $(server), password: $(password)}}\n"),
    ("YAML without a password", "vcenter: {a: {server: $(server), user: $(user)}}\n"),
    (
        "YAML with a list of servers",
        "vcenter: {a: {server: [$(server), other], user: $(user), password: $(password), $(trust.yaml)}}\n",
    ),
    (
        "YAML with a port that is a word",
        "vcenter: {a: {server: $(server), port: abc, user: $(user), password: $(password), $(trust.yaml)}}\n",
    ),
    (
        "YAML with a port that is too large",
        "vcenter: {a: {server: $(server), port: 99999, user: $(user), password: $(password), $(trust.yaml)}}\n",
    ),
    (
        "YAML with an unknown IP family",
        "vcenter: {a: {server: $(server), port: $(port), user: $(user), password: $(password), ipFamily: [ipv5], $(trust.yaml)}}\n",
    ),
    (
        "YAML with a list of network names",
        "vcenter: {a: {server: $(server), port: $(port), user: $(user), password: $(password), $(trust.yaml)}}\n\
         nodes: {internalVmNetworkName: [a, b]}\n",
    ),
    ("INI with a section that does not end", "[Global\nuser = x\n"),
    ("INI with a section and a key in one line", "[Global] user = x\n"),
    ("INI with a key outside of a section", "user = x\n[Global]\nuser = x\n"),
    ("INI with a value on a line of its own", "[Global]\nuser\n= x\n"),
    (
        "INI with a quote that does not end",
        "[VirtualCenter \"$(server)\"]\nuser = $(user)\npassword = \"$(password)\nport = $(port)\n$(trust.ini)\n",
    ),
    (
        "INI with an unknown escape",
        "[VirtualCenter \"$(server)\"]\nuser = $(user)\npassword = \"a\\x\"\nport = $(port)\n$(trust.ini)\n",
    ),
    (
        "INI without a password",
        "[VirtualCenter \"$(server)\"]\nuser = $(user)\nport = $(port)\n$(trust.ini)\n",
    ),
    (
        "INI with a boolean that is none",
        "[VirtualCenter \"$(server)\"]\nuser = $(user)\npassword = \"$(password)\"\ninsecure-flag = maybe\n",
    ),
    (
        "INI with an unnamed vCenter",
        "[VirtualCenter]\nuser = $(user)\npassword = \"$(password)\"\n$(trust.ini)\n",
    ),
];

/// Returns the cases of CCM-011 about `vsphere.conf`. With each configuration of [`INVALID`] the
/// provider must exit with an error at its start.
pub(super) fn refused() -> Vec<Case> {
    let case = |(what, text): &(&str, &str)| {
        Case::new(with_text(text).with_provider(|it| it.once = true), ended_early).named(*what)
    };
    INVALID.iter().map(case).collect()
}
