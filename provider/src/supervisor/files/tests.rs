use std::collections::BTreeMap;

use super::*;

const OWNER: &[u8] =
    br#"{"apiVersion":"cluster.x-k8s.io/v1beta1","kind":"Cluster","name":"tkc1","uid":"u1"}"#;

/// Content of all mounted files of a valid mount, by default path.
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
) -> Result<MountedFiles, InputError> {
    read_with(&MountPaths::default(), files, port)
}

fn read_with(
    paths: &MountPaths,
    files: &BTreeMap<PathBuf, Vec<u8>>,
    port: Option<&str>,
) -> Result<MountedFiles, InputError> {
    let read = |path: &Path| {
        files.get(path).cloned().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    };
    read_mounted(paths, port, &read)
}

#[test]
fn the_default_mount_paths_are_those_of_upstream() {
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
fn flags_override_the_mount_paths_and_the_server() {
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
fn blanks_around_the_namespace_are_trimmed_with_a_warning() {
    let mut files = mount();
    let [_, path, _] = MountPaths::default().constant();
    files.insert(path, b" dev\n".to_vec());
    let mounted = read_from(&files, Some("6443")).unwrap();
    assert_eq!(mounted.namespace, "dev");
    assert_eq!(
        mounted.warnings,
        ["/etc/cloud/ccm-provider/namespace: ignoring the blanks around \"dev\""]
    );
}

#[test]
fn an_empty_owner_reference_yields_a_warning() {
    let mut files = mount();
    let [_, _, path] = MountPaths::default().constant();
    files.insert(path, b"{}".to_vec());
    let mounted = read_from(&files, Some("6443")).unwrap();
    assert_eq!(mounted.warnings.len(), 1);
    assert!(mounted.warnings[0].contains("no apiVersion, kind, name, uid"));
}

/// Reads a mount in which the file at `path` has this content (`None`: is missing). Returns the
/// error without the path.
fn complaint(path: &Path, content: Option<&str>) -> String {
    let mut files = mount();
    match content {
        Some(text) => files.insert(path.to_owned(), text.as_bytes().to_vec()),
        None => files.remove(path),
    };
    let said = read_from(&files, Some("6443")).unwrap_err().to_string();
    let path = format!("{}: ", path.display());
    let rest = said.strip_prefix(&path).unwrap_or_else(|| panic!("{said}"));
    assert!(rest.contains("; "), "no remedy: {said}");
    rest.to_owned()
}

fn owner() -> PathBuf {
    let [_, _, owner] = MountPaths::default().constant();
    owner
}

fn namespace_file() -> PathBuf {
    let [_, namespace, _] = MountPaths::default().constant();
    namespace
}

fn ca() -> PathBuf {
    let [ca, _, _] = MountPaths::default().constant();
    ca
}

#[test]
fn a_missing_owner_reference_is_named() {
    assert!(complaint(&owner(), None).starts_with("cannot be read: "));
}

#[test]
fn a_malformed_owner_reference_is_named() {
    for text in ["tkc1", "", "[]", "{\"name\": 7}"] {
        let said = complaint(&owner(), Some(text));
        assert!(said.starts_with("is not the JSON of one owner reference: "), "{text}: {said}");
    }
}

#[test]
fn a_missing_token_is_named() {
    assert!(complaint(&MountPaths::default().token(), None).starts_with("cannot be read: "));
}

#[test]
fn a_malformed_token_is_named_and_not_shown() {
    for (text, want) in [
        (" \n", "the token for the Supervisor is empty; "),
        ("hunter2\nhunter2", "the token for the Supervisor contains a blank, a control character "),
        ("hunter2 hunter2", "the token for the Supervisor contains a blank, a control character "),
    ] {
        let said = complaint(&MountPaths::default().token(), Some(text));
        assert!(said.starts_with(want) && !said.contains("hunter2"), "{said}");
    }
}

#[test]
fn a_missing_ca_certificate_is_named() {
    assert!(complaint(&ca(), None).starts_with("cannot be read: "));
}

#[test]
fn a_malformed_ca_certificate_is_named() {
    assert!(complaint(&ca(), Some("hello")).starts_with("holds no certificate; "));
}

#[test]
fn a_missing_namespace_file_is_named() {
    assert!(complaint(&namespace_file(), None).starts_with("cannot be read: "));
}

#[test]
fn a_malformed_namespace_is_named() {
    assert!(complaint(&namespace_file(), Some("\n")).starts_with("is empty; "));
    for text in ["Dev", "a/../b", "-a", "a b", "dev?x=y", &"a".repeat(64)] {
        let said = complaint(&namespace_file(), Some(text));
        assert!(said.contains("is not the name of a namespace; "), "{text}: {said}");
    }
}

#[test]
fn a_missing_or_malformed_port_is_named() {
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
