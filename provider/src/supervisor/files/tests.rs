use std::collections::BTreeMap;

use super::*;

const OWNER: &[u8] =
    br#"{"apiVersion":"cluster.x-k8s.io/v1beta1","kind":"Cluster","name":"tkc1","uid":"u1"}"#;

/// A directory with everything in it.
fn mount() -> BTreeMap<PathBuf, Vec<u8>> {
    let paths = MountPaths::default();
    let key = rcgen::generate_simple_self_signed(vec![HOST.to_owned()]).unwrap();
    let [ca, namespace, owner] = paths.constant();
    BTreeMap::from([
        (paths.token(), b"abc.def\n".to_vec()),
        (ca, key.cert.pem().into_bytes()),
        (namespace, b"dev".to_vec()),
        (owner, OWNER.to_vec()),
    ])
}

fn read_from(
    files: &BTreeMap<PathBuf, Vec<u8>>,
    port: Option<&str>,
) -> Result<Mounted, MountError> {
    read_with(&MountPaths::default(), files, port)
}

fn read_with(
    paths: &MountPaths,
    files: &BTreeMap<PathBuf, Vec<u8>>,
    port: Option<&str>,
) -> Result<Mounted, MountError> {
    let read = |path: &Path| {
        files.get(path).cloned().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    };
    read_mounted(paths, port, &read)
}

#[test]
fn everything_is_where_upstream_looks_for_it() {
    let mounted = read_from(&mount(), Some("6443")).unwrap();
    assert_eq!(mounted.server.to_string(), "https://supervisor.default.svc:6443/");
    assert_eq!(mounted.namespace, "dev");
    assert_eq!(mounted.owner.name, "tkc1");
    assert_eq!(mounted.roots.len(), 1);
    assert!(mounted.warnings.is_empty(), "{:?}", mounted.warnings);
    let paths: Vec<String> = mount().keys().map(|path| path.display().to_string()).collect();
    assert_eq!(
        paths,
        [
            "/etc/cloud/ccm-provider/ca.crt",
            "/etc/cloud/ccm-provider/namespace",
            "/etc/cloud/ccm-provider/token",
            "/etc/kubernetes/guestclusters/cluster/ownerref.json",
        ]
    );
}

#[test]
fn flags_name_other_places() {
    let mut files = BTreeMap::new();
    for (path, bytes) in mount() {
        files.insert(Path::new("/tmp/s").join(path.file_name().unwrap()), bytes);
    }
    let paths = MountPaths {
        credentials: "/tmp/s".into(),
        owner: "/tmp/s/ownerref.json".into(),
        server: Some("https://127.0.0.1:6443".to_owned()),
    };
    let mounted = read_with(&paths, &files, None).unwrap();
    assert_eq!(mounted.server.to_string(), "https://127.0.0.1:6443/");
    for server in ["", "127.0.0.1:6443", "http://127.0.0.1:6443", "https://", "https://h/x?y"] {
        let paths = MountPaths { server: Some(server.to_owned()), ..paths.clone() };
        let err = read_with(&paths, &files, Some("1")).unwrap_err().to_string();
        assert!(err.starts_with("--supervisor-server: "), "{err}");
    }
}

#[test]
fn a_newline_after_the_namespace_is_left_out_and_told() {
    let mut files = mount();
    let [_, path, _] = MountPaths::default().constant();
    files.insert(path, b" dev\n".to_vec());
    let mounted = read_from(&files, Some("6443")).unwrap();
    assert_eq!(mounted.namespace, "dev");
    assert_eq!(
        mounted.warnings,
        ["/etc/cloud/ccm-provider/namespace: blanks around \"dev\" were left out"]
    );
}

#[test]
fn an_empty_owner_reference_is_told() {
    let mut files = mount();
    let [_, _, path] = MountPaths::default().constant();
    files.insert(path, b"{}".to_vec());
    let mounted = read_from(&files, Some("6443")).unwrap();
    assert_eq!(mounted.warnings.len(), 1);
    assert!(mounted.warnings[0].contains("no apiVersion, kind, name, uid"));
}

#[test]
fn what_is_wrong_is_said_with_file_problem_and_remedy() {
    let paths = MountPaths::default();
    let [ca, namespace, owner] = paths.constant();
    let token = paths.token();
    let long = "a".repeat(64);
    for (name, path, bytes, want) in [
        ("no owner", &owner, None, "ownerref.json: cannot be read: "),
        ("owner", &owner, Some("tkc1"), "ownerref.json: is not the JSON of one owner reference"),
        ("no token", &token, None, "token: cannot be read: "),
        ("empty token", &token, Some(" \n"), "token: the token is empty"),
        ("two tokens", &token, Some("a\nb"), "token: the token holds a character"),
        ("no CA", &ca, None, "ca.crt: cannot be read: "),
        ("CA", &ca, Some("hello"), "ca.crt: holds no certificate"),
        ("no namespace", &namespace, None, "namespace: cannot be read: "),
        ("empty namespace", &namespace, Some("\n"), "namespace: is empty"),
        ("namespace", &namespace, Some("Dev"), "namespace: \"Dev\" is not the name of a"),
        ("path", &namespace, Some("a/../b"), "namespace: \"a/../b\" is not the name of a"),
        ("dash", &namespace, Some("-a"), "namespace: \"-a\" is not the name of a"),
        ("long", &namespace, Some(long.as_str()), "is not the name of a namespace"),
    ] {
        let mut files = mount();
        match bytes {
            Some(bytes) => files.insert(path.clone(), bytes.as_bytes().to_vec()),
            None => files.remove(path),
        };
        let err = read_from(&files, Some("6443")).unwrap_err().to_string();
        assert!(err.contains(want), "{name}: {err}");
        assert!(err.starts_with(&path.display().to_string()), "{name}: {err}");
        assert!(err.contains("; "), "{name} has a remedy: {err}");
    }
    for (port, want) in [
        (None, "is empty or not set"),
        (Some(""), "is empty or not set"),
        (Some("http"), "\"http\" is not a port"),
        (Some("0"), "\"0\" is not a port"),
        (Some("65536"), "\"65536\" is not a port"),
    ] {
        let err = read_from(&mount(), port).unwrap_err().to_string();
        assert!(err.starts_with("SUPERVISOR_APISERVER_PORT: "), "{err}");
        assert!(err.contains(want), "{err}");
    }
}
