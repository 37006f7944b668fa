//! Tests of valid configurations in both dialects, and of the errors about invalid ones.

use super::*;

fn parse(text: &str) -> Result<(Config, Vec<Warning>), InputError> {
    Config::parse("vsphere.conf", text, UnknownKeys::Warn)
}

const YAML: &str = "
global:
  port: 443
  insecureFlag: true
  secretName: creds
  secretNamespace: kube-system
vcenter:
  one:
    server: 10.0.0.1
    user: u
    password: p
    datacenters: [dc1]
  two:
    server: fd00::2
    port: 8443
    ipFamily: [ipv6, ipv4]
labels:
  region: k8s-region
  zone: k8s-zone
nodes:
  internalNetworkSubnetCidr: 10.0.0.0/8, 192.168.0.0/16
";

const INI: &str = "
# the same in the other dialect
[Global]
port = 443
insecure-flag = yes
secret-name = \"creds\"
secret-namespace = kube-system ; a comment
[VirtualCenter \"one\"]
server = 10.0.0.1
user = u
password = p
datacenters = dc1
[virtualcenter \"two\"]
server = fd00::2
port = 8443
ip-family = \"IPv6, ipv4\"
[Labels]
region = k8s-region
zone = k8s-zone
[Nodes]
internal-network-subnet-cidr = 10.0.0.0/8,192.168.0.0/16
";

#[test]
fn yaml_and_ini_give_the_same_configuration() {
    let (mut yaml, warnings) = parse(YAML).unwrap();
    let (mut ini, _) = parse(INI).unwrap();
    let keys =
        [&mut yaml, &mut ini].map(|config| std::mem::take(&mut config.vcenters[0].datacenters.key));
    assert_eq!(
        keys,
        [
            "vsphere.conf: vcenter.one.datacenters",
            "vsphere.conf: [VirtualCenter \"one\"] datacenters"
        ]
    );
    assert_eq!(format!("{yaml:?}"), format!("{ini:?}"));
    assert_eq!(yaml.vcenters[0].datacenters.names, ["dc1"]);
    assert_eq!(warnings, []);
    assert_eq!(yaml.vcenters[1].endpoint.authority(), "[fd00::2]:8443");
    assert_eq!(yaml.vcenters[1].families, [Family::V6, Family::V4]);
    assert!(yaml.vcenters[0].insecure && yaml.zones.is_some());
    assert_eq!(yaml.selection.internal_subnets.len(), 2);
}

#[test]
fn a_global_server_is_a_vcenter() {
    let (config, _) = parse("global: {server: vc.example, user: u, password: p}").unwrap();
    assert_eq!(config.vcenters[0].endpoint.name.as_str(), "vc.example");
    assert_eq!(config.vcenters[0].endpoint.port, 443);
    assert_eq!(config.vcenters[0].credentials, CredentialRef::None);
}

#[test]
fn errors_name_file_key_and_remedy() {
    let mut seen = String::new();
    for text in [
        "",
        "# only a comment\n",
        "global: [1",
        "- a\n",
        "global: {user: u}",
        "vcenter: {a: {user: u, password: p}}",
        "vcenter: {a: {server: s, user: u}}",
        "vcenter: {a: {server: s, user: u, password: p, port: 99999}}",
        "vcenter: {a: {server: s, user: u, password: p, port: 0}}",
        "global: {server: s, user: u, password: hunter2, port: abc}",
        "global: {server: s, user: u, password: hunter2, port: 1.5}",
        "global: {server: s, user: u, password: hunter2, port: -7}",
        "global: {server: s, user: u, password: hunter2, port: {}}",
        "global: {server: [s, t], user: u, password: hunter2}",
        "global: {server: s, user: u, password: [hunter2]}",
        "global: {server: s, user: u, password: [1, hunter2]}",
        "global: hunter2",
        "vcenter: {a: {server: s, user: u, password: p, ipFamily: [ipv5]}}",
        "vcenter: {a: {server: s, user: u, password: 012}}",
        "vcenter: {a: {server: s, user: u, password: p}}\nnodes: {internalNetworkSubnetCidr: nonsense}",
        "vcenter: {a: {server: s, user: u, password: p}}\nloadBalancer: {tier1: x}",
        "[Global]\nuser\n= x",
        "[Global\nuser = x",
        "[VirtualCenter \"a]\nuser = x",
        "[Global] user = x",
        "[VirtualCenter \"a\"]\nuser = u\npassword = \"hunter2\\x\"",
        "user = x",
        "[VirtualCenter]\nuser = u\npassword = p",
        "[VirtualCenter \"a\"]\nuser = u",
        "[VirtualCenter \"a\"]\nuser = u\npassword = \"p",
        "[VirtualCenter \"a\"]\nuser = u\npassword = p\ninsecure-flag = maybe",
        "[VirtualCenter \"a\"]\nuser = u\npassword = p\n[Route]\nrouter-path = x",
    ] {
        seen.push_str(&parse(text).unwrap_err().to_string());
        seen.push('\n');
    }
    assert!(!seen.contains("hunter2"), "{seen}");
    for line in seen.lines() {
        assert!(line.contains("; "), "no remedy: {line}");
    }
    insta::assert_snapshot!(seen);
}

#[test]
fn unknown_keys_are_warned_about_with_a_hint_or_refused() {
    let text =
        "vcenter: {a: {server: s, user: u, password: p, insecureFlg: true}}\nGlobal: {}\nbanana: 1";
    let (_, warnings) = parse(text).unwrap();
    let texts: Vec<String> = warnings.iter().map(Warning::to_string).collect();
    insta::assert_snapshot!(texts.join("\n"), @r"
    vcenter.a.insecureFlg is not a section or key of vsphere.conf and is ignored; did you mean insecureFlag?
    Global is not a section or key of vsphere.conf and is ignored; did you mean global?
    banana is not a section or key of vsphere.conf and is ignored
    ");
    let refused = Config::parse("vsphere.conf", text, UnknownKeys::Refuse).unwrap_err();
    assert!(refused.to_string().contains("--strict-config"), "{refused}");
    let legacy = "[Global]\nserver = s\nuser = u\npassword = p\nservice-account = x\n[Workspace]\nserver = s";
    assert_eq!(parse(legacy).unwrap().1.len(), 2);
}

#[test]
fn a_key_without_effect_yields_a_warning_in_yaml_and_ini() {
    let yaml = "vcenter: {a: {server: s, user: u, password: p, soapRoundtripCount: 3}}";
    let ini = "[VirtualCenter \"s\"]\nuser = u\npassword = p\nsoap-roundtrip-count = 3";
    for text in [yaml, ini] {
        let (_, warnings) = parse(text).unwrap();
        let [Warning(only)] = warnings.as_slice() else { panic!("{warnings:?}") };
        assert!(only.ends_with(" has no effect"), "{only}");
    }
}

#[test]
fn no_password_is_shown() {
    let (config, _) = parse("global: {server: s, user: hunter-user, password: hunter2}").unwrap();
    let shown = format!("{config:?}");
    assert!(!shown.contains("hunter2") && !shown.contains("hunter-user"), "{shown}");
    let err = parse("global: {server: s, user: u, password: [hunter2").unwrap_err().to_string();
    assert!(!err.contains("hunter2"), "{err}");
}

#[test]
fn the_fixtures_are_read() {
    let read = |name: &str| {
        let path = format!("{}/tests/config/{name}", env!("CARGO_MANIFEST_DIR"));
        parse(&std::fs::read_to_string(path).unwrap()).unwrap()
    };
    let (yaml, ini) = (read("two-vcenters.yaml").0, read("two-vcenters.ini").0);
    assert_eq!(format!("{yaml:?}"), format!("{ini:?}"));
    let password = |config: &Config| {
        let inline = config.vcenters[0].inline.as_ref().unwrap();
        secrecy::ExposeSecret::expose_secret(&inline.password).to_owned()
    };
    assert_eq!((password(&yaml), password(&ini)), ("east;secret".into(), "east;secret".into()));
    assert!(matches!(
        read("one-vcenter.yaml").0.vcenters[0].credentials,
        CredentialRef::Secret { .. }
    ));
    assert_eq!(read("legacy-global.ini").1.len(), 2);
}

#[test]
fn a_line_of_ini_goes_on_after_a_backslash() {
    let of = |datacenters: &str| {
        let section = format!("datacenters = {datacenters}\nuser = u\npassword = p");
        format!("{:?}", parse(&format!("[VirtualCenter \"vc\"]\n{section}")).unwrap().0)
    };
    assert!(of("DCna").contains("DCna"), "{}", of("DCna"));
    assert_eq!(of("D\\\nC\\\nna"), of("DCna"), "and no letter becomes an escape");
}

#[test]
fn a_byte_order_mark_at_the_start_of_the_configuration_is_ignored() {
    let plain = parse("global: {server: vc, user: u, password: p}").unwrap().0;
    for text in [
        "\u{feff}[Global]\nserver = vc\nuser = u\npassword = p\n",
        "\u{feff}# a comment\n[Global]\nserver = vc\nuser = u\npassword = p\n",
        "\u{feff}global: {server: vc, user: u, password: p}",
    ] {
        assert_eq!(format!("{:?}", parse(text).unwrap().0), format!("{plain:?}"), "{text:?}");
        Config::check_unused("vsphere.conf", text).unwrap();
    }
    let inside = "[Global]\nserver = vc\n\u{feff}user = u\npassword = p\n";
    assert!(parse(inside).is_err(), "a mark in the middle is not a blank");
}

#[test]
fn an_error_about_an_invalid_server_names_its_key() {
    for (text, wanted) in [
        (
            "global: {server: 'https://vc', user: u, password: p}",
            "vsphere.conf: global.server: \"https://vc\" is a URL",
        ),
        (
            "vcenter: {a: {server: 'vc:1', user: u, password: p}}",
            "vsphere.conf: vcenter.a.server: \"vc:1\" contains a port",
        ),
        (
            "[VirtualCenter \"a\"]\nserver = v c\nuser = u\npassword = p",
            "vsphere.conf: [VirtualCenter \"a\"] server: \"v c\" contains a blank",
        ),
        (
            "[VirtualCenter \"vc:1\"]\nuser = u\npassword = p",
            "vsphere.conf: [VirtualCenter \"vc:1\"]: \"vc:1\" contains a port",
        ),
        (
            "[VirtualCenter \"u:hunter2@vc\"]\nuser = u\npassword = p",
            "vsphere.conf: VirtualCenter: contains a user name",
        ),
    ] {
        let said = parse(text).unwrap_err().to_string();
        assert!(said.starts_with(wanted), "{said}");
        assert!(!said.contains("hunter2"), "{said}");
    }
}

#[test]
fn repeated_ini_sections_and_keys_are_read_as_by_gcfg_with_a_warning() {
    let text = "[VirtualCenter \"a\"]\nserver = s\nuser = u\n[Global]\nport = 1\n\
                [virtualcenter \"a\"]\npassword = p\nServer = t\n";
    let (config, warnings) = parse(text).unwrap();
    assert_eq!(config.vcenters.len(), 1);
    assert_eq!(config.vcenters[0].endpoint.host, "t");
    let texts: Vec<String> = warnings.iter().map(Warning::to_string).collect();
    assert_eq!(
        texts,
        [
            "line 6: [virtualcenter \"a\"] repeats the section of line 1; the provider merges both",
            "line 8: [virtualcenter \"a\"] Server repeats the key of line 2; the last value counts",
        ]
    );
    let refused = Config::parse("vsphere.conf", text, UnknownKeys::Refuse).unwrap_err();
    assert!(refused.to_string().contains("--strict-config"), "{refused}");
    let twice = "vcenter: {a: {server: s, user: u, password: p}, a: {server: t}}";
    assert!(parse(twice).is_err(), "YAML forbids a repeated key");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the test measures real time")]
fn the_parse_time_grows_in_proportion_to_the_number_of_sections() {
    let text = |n: usize| {
        let section = |i| format!("[VirtualCenter \"vc-{i}\"]\nuser = u\npassword = p\n");
        (0..n).map(section).collect::<String>()
    };
    let took = |n: usize| {
        let text = text(n);
        let began = std::time::Instant::now();
        assert_eq!(parse(&text).unwrap().0.vcenters.len(), n);
        began.elapsed()
    };
    let few = (0..3).map(|_| took(2_000)).min().unwrap();
    let many = (0..2).map(|_| took(32_000)).min().unwrap();
    // Sixteen times as many sections; a quadratic parser would take 256 times as long.
    assert!(many < 80 * few, "{few:?} for 2,000 sections, {many:?} for 32,000");
}

proptest::proptest! {
    #[test]
    fn the_parser_never_panics(text in "[\\[\\]\"=#;:{} a-z\\\\\n-]{0,120}") {
        let _ = parse(&text);
        let _ = parse(&format!("[Global]\n{text}"));
    }
}
