//! Tests of the command line of `provider autoscaler`.

use super::*;

#[test]
fn an_option_of_another_backend_is_refused_with_flag_value_and_remedy() {
    let all = |words: &[&str]| {
        let words = words.iter().map(|word| (*word).to_owned());
        parse_autoscaler(words).map_err(|err| err.to_string())
    };
    let capi = ["--backend", "cluster-api"];
    for flag in ["--management-kubeconfig", "--cluster-name", "--namespace"] {
        assert!(all(&[&capi[..], &[flag, "x"]].concat()).is_ok(), "{flag}");
    }
    assert!(all(&[&capi[..], &["--reserved", "cpu=100m"]].concat()).is_ok());
    for (flag, value) in [
        ("groups", "g.yaml"),
        ("supervisor-kubeconfig", "k"),
        ("workload-kubeconfig", "k"),
        ("vm-operator-api-version", "v1alpha5"),
    ] {
        let refused = all(&[&capi[..], &[&format!("--{flag}"), value]].concat()).unwrap_err();
        let want = format!(
            "--{flag}: \"{value}\" has no effect with --backend cluster-api; remove it, or choose another \
             --backend"
        );
        assert_eq!(refused, want);
    }
    for flag in ["--management-kubeconfig", "--cluster-name"] {
        let refused = parsed(&[flag, "x"]).unwrap_err();
        let want = format!("{flag}: \"x\" has no effect with --backend supervisor; remove it");
        assert!(refused.starts_with(&want), "{refused}");
    }
    let missing = all(&["--groups", "g"]).unwrap_err();
    let want = "--supervisor-kubeconfig: is required with --backend supervisor; add \
                --supervisor-kubeconfig FILE, or choose another --backend";
    assert_eq!(missing, want);
    let unknown = all(&["--backend", "nova"]).unwrap_err();
    assert!(
        unknown.contains("unknown backend \"nova\": expected supervisor, vcenter or cluster-api")
    );
}

#[test]
fn a_namespace_or_cluster_that_no_object_can_have_is_refused() {
    let result = |flag: &str, value: &str| {
        let words = ["--backend", "cluster-api", flag, value].map(str::to_owned);
        parse_autoscaler(words).map(drop).map_err(|err| err.to_string())
    };
    for flag in ["--namespace", "--cluster-name"] {
        assert_eq!(result(flag, "blue-1"), Ok(()), "{flag}");
        for value in ["", "Blue", "a-", "a,b", "a=b", &"a".repeat(64)] {
            let refused = result(flag, value).unwrap_err();
            assert!(refused.contains("write at most 63 lower-case letters"), "{refused}");
        }
    }
    assert_eq!(result("--cluster-name", "blue.example"), Ok(()));
    assert!(result("--namespace", "a.b").is_err());
    assert!(result("--cluster-name", "blue..example").is_err());
}

fn parsed(more: &[&str]) -> Result<AutoscalerArguments, String> {
    let words = ["--groups", "g.yaml", "--supervisor-kubeconfig", "k"];
    let words = words.iter().chain(more).map(|word| (*word).to_owned());
    parse_autoscaler(words).map_err(|err| err.to_string())
}

#[test]
fn plain_text_beyond_this_host_needs_a_flag_that_says_so() {
    assert!(parsed(&[]).is_ok());
    assert!(parsed(&["--listen", "[::1]:1"]).is_ok());
    let refused = parsed(&["--listen", "0.0.0.0:8086"]).unwrap_err();
    assert_eq!(
        refused,
        "--listen: \"0.0.0.0:8086\" is an address that other hosts can reach, and whoever connects \
         without TLS can create and delete machines; set --tls-cert-file, --tls-private-key-file \
         and --client-ca-file, or --insecure-plain-text"
    );
    assert!(parsed(&["--listen", "0.0.0.0:8086", "--insecure-plain-text"]).is_ok());
    let tls = ["--tls-cert-file", "c", "--tls-private-key-file", "k", "--client-ca-file", "a"];
    assert!(parsed(&[&["--listen", "0.0.0.0:8086"][..], &tls[..]].concat()).is_ok());
}

#[test]
fn the_https_endpoint_exists_only_with_a_port() {
    assert!(parsed(&[]).unwrap().serving().is_none());
    let words = ["--secure-port", "10260", "--authorization-always-allow-paths", "/metrics"];
    let (address, serving) = parsed(&words).unwrap().serving().unwrap();
    assert_eq!(address.to_string(), "0.0.0.0:10260");
    assert_eq!(serving.always_allowed, "/metrics".parse().unwrap());
    let words = ["--secure-port", "1", "--bind-address", "::1"];
    let (address, serving) = parsed(&words).unwrap().serving().unwrap();
    assert_eq!((&*address.to_string(), serving.certificate), ("[::1]:1", None));
    assert_eq!(serving.always_allowed, AllowedPaths::default());
}

#[test]
fn the_vcenter_backend_needs_a_configuration_and_one_journal() {
    let refusal = |words: &[&str]| {
        let words = ["--groups", "g"].iter().chain(words).map(|word| (*word).to_owned());
        parse_autoscaler(words).map(|_| ()).map_err(|err| err.to_string())
    };
    let vcenter = ["--backend", "vcenter", "--cloud-config", "v.conf"];
    let with = |more: &[&'static str]| refusal(&[&vcenter[..], more].concat());
    assert_eq!(with(&["--journal", "j"]), Ok(()));
    assert_eq!(with(&["--journal-config-map", "ns/j", "--journal-kubeconfig", "k"]), Ok(()));
    for (got, want) in [
        (
            refusal(&["--supervisor-kubeconfig", "k", "--journal", "j"]),
            "--journal: \"j\" has no effect with --backend supervisor; remove it, or choose another --backend",
        ),
        (
            refusal(&["--backend", "vcenter", "--journal", "j"]),
            "--cloud-config: is required with --backend vcenter; add --cloud-config FILE, or choose another --backend",
        ),
        (
            with(&[]),
            "--journal: is required with --backend vcenter; add --journal FILE, or --journal-config-map NAMESPACE/NAME",
        ),
        (
            with(&["--journal", "j", "--journal-config-map", "ns/j"]),
            "--journal: \"j\" is a second journal; give --journal or --journal-config-map",
        ),
        (
            with(&["--journal", "j", "--namespace", "ns"]),
            "--namespace: \"ns\" has no effect with --backend vcenter; remove it, or choose another --backend",
        ),
    ] {
        assert_eq!(got.unwrap_err(), want);
    }
    assert!(with(&["--journal", "j", "--workload-kubeconfig", "k"]).is_ok());
    assert!(with(&["--journal-config-map", "j"]).unwrap_err().contains("NAMESPACE/NAME"));
    assert!(refusal(&["--backend", "other"]).is_err());
}

#[test]
fn the_groups_come_from_a_file_or_from_a_cluster_and_never_from_both() {
    let all = |words: &[&str]| {
        let words = words.iter().map(|word| (*word).to_owned());
        parse_autoscaler(words).map_err(|err| err.to_string())
    };
    let supervisor = ["--supervisor-kubeconfig", "k"];
    let with = |more: &[&'static str]| all(&[&supervisor[..], more].concat());
    let chosen = with(&["--groups-from-cluster", "--groups-namespace", "team"]).unwrap();
    let namespace = Some("team".to_owned());
    let settings = NodeGroupSettings { namespace, ..NodeGroupSettings::default() };
    assert_eq!(chosen.node_groups(), Some(settings));
    assert_eq!(with(&["--groups", "g"]).unwrap().node_groups(), None);
    let vcenter = ["--backend", "vcenter", "--cloud-config", "c", "--journal", "j"];
    let of_clones = |more: &[&'static str]| all(&[&vcenter[..], more].concat());
    let directory = ["--groups-from-cluster", "--bootstrap-directory", "/b"];
    let settings = of_clones(&directory).unwrap().node_groups().unwrap();
    assert_eq!(settings.bootstrap_directory, Some("/b".into()));
    for (got, want) in [
        (
            with(&[]),
            "--groups: is required with --backend supervisor; add --groups FILE, or --groups-from-cluster",
        ),
        (
            with(&["--groups", "g", "--groups-from-cluster"]),
            "--groups: \"g\" is a second source of groups; give --groups or --groups-from-cluster",
        ),
        (
            with(&directory),
            "--bootstrap-directory: \"/b\" has no effect with --backend supervisor; remove it, or choose another --backend",
        ),
        (
            of_clones(&["--groups-from-cluster"]),
            "--bootstrap-directory: is required with --groups-from-cluster; name the directory with the bootstrap \
             data, because a NodeGroup may name no other file",
        ),
        (
            all(&["--backend", "cluster-api", "--groups-from-cluster"]),
            "--groups-from-cluster: \"true\" has no effect with --backend cluster-api; remove it, or choose another --backend",
        ),
    ] {
        assert_eq!(got.unwrap_err(), want);
    }
    for flag in ["--groups-namespace", "--groups-kubeconfig", "--bootstrap-directory"] {
        let refused = of_clones(&["--groups", "g", flag, "x"]).unwrap_err();
        assert!(refused.contains("--groups-from-cluster"), "{flag}: {refused}");
    }
    assert!(all(&["--print-crd"]).unwrap().print_crd, "without any other option");
    assert!(all(&["--print-crd", "--groups", "g"]).is_err());
}

#[test]
fn flags_that_lack_another_flag_or_have_a_wrong_value_are_refused() {
    for words in [
        &["--tls-cert-file", "c"][..],
        &["--tls-cert-file", "c", "--tls-private-key-file", "k"],
        &["--client-ca-file", "a"],
        &["--vm-operator-api-version", "v1alpha2"],
        &["--vm-operator-api-version", "v2"],
        &["--secure-port", "0"],
        &["--bind-address", "127.0.0.1"],
        &["--authentication-kubeconfig", "k"],
        &["--authorization-kubeconfig", "k"],
        &["--authorization-always-allow-paths", "/metrics"],
        &["--secure-port", "1", "--authorization-always-allow-paths", "/*x"],
    ] {
        assert!(parsed(words).is_err(), "{words:?}");
    }
}
