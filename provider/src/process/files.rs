//! Reads files: trusted roots, texts and secrets.

use std::{io, path::Path};

use provider::{InputError, SecretData, TlsTrust, VcenterConfig};

/// Paths at which the usual distributions keep their bundle of trusted roots.
const SYSTEM_ROOTS: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// The trusted roots of this host, read at most once for all vCenters.
pub(super) struct SystemRoots {
    read: fn(&Path) -> io::Result<Vec<u8>>,
    pem: Option<Vec<u8>>,
}

impl Default for SystemRoots {
    fn default() -> Self {
        Self { read: |path| std::fs::read(path), pem: None }
    }
}

impl SystemRoots {
    fn pem(&mut self) -> &[u8] {
        let read = self.read;
        self.pem.get_or_insert_with(|| {
            SYSTEM_ROOTS.iter().find_map(|path| read(Path::new(path)).ok()).unwrap_or_default()
        })
    }
}

/// Makes the TLS trust settings for a vCenter. The trusted roots are the certificates in the files
/// of `ca-file`. If `ca-file` is not set, they are those of `system`, or none if the vCenter is
/// `insecure`.
pub(super) fn trust(
    vcenter: &VcenterConfig,
    system: &mut SystemRoots,
) -> Result<TlsTrust, InputError> {
    let mut trust = TlsTrust {
        thumbprint: vcenter.thumbprint.clone(),
        insecure: vcenter.insecure,
        ..TlsTrust::default()
    };
    if let Some(paths) = &vcenter.ca_file {
        for path in std::env::split_paths(paths) {
            let pem = std::fs::read(&path)
                .map_err(|err| unreadable(&err).at_key(format!("ca-file {}", path.display())))?;
            trust.roots_pem.extend(pem);
            trust.roots_pem.push(b'\n');
        }
    } else if !vcenter.insecure {
        system.pem().clone_into(&mut trust.roots_pem);
    }
    Ok(trust)
}

/// Returns the error about a file that cannot be read.
pub(super) fn unreadable(err: &io::Error) -> InputError {
    InputError::new(format!("cannot be read: {err}")).remedy("check the path")
}

/// Reads a text file; an error names the first line that is not UTF-8. Replacing such bytes could
/// change a password, and logins with a wrong password lock the account.
pub(super) fn read_text(path: &Path) -> Result<String, InputError> {
    let in_file = |err: InputError| err.in_source(path.display().to_string());
    let bytes = std::fs::read(path).map_err(|err| in_file(unreadable(&err)))?;
    String::from_utf8(bytes).map_err(|err| {
        let good = err.utf8_error().valid_up_to();
        let line = err.as_bytes()[..good].iter().filter(|byte| **byte == b'\n').count() + 1;
        let err = InputError::new(format!("line {line} is not UTF-8"));
        in_file(err.remedy("save the file as UTF-8"))
    })
}

/// Reads a directory of credentials; returns the content by file name. Leaves out unreadable files,
/// subdirectories and entries whose names begin with `..`.
pub(super) fn read_secrets(directory: &Path) -> io::Result<SecretData> {
    let mut data = SecretData::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        // Kubernetes mounts Secrets through entries such as `..data`.
        if name.starts_with("..") || !path.is_file() {
            continue;
        }
        match std::fs::read(&path) {
            Ok(content) => {
                data.insert(name.to_owned(), content);
            }
            Err(err) => {
                tracing::warn!(file = %path.display(), error = %err, "reading a file of the secrets directory failed; ignoring this file");
            }
        }
    }
    Ok(data)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use provider::{Config, UnknownKeys};

    use super::*;

    static N_READ: AtomicUsize = AtomicUsize::new(0);

    #[test]
    fn the_system_roots_are_read_once_for_all_vcenters() {
        let count = |path: &Path| {
            N_READ.fetch_add(1, Ordering::Relaxed);
            if path == Path::new(SYSTEM_ROOTS[1]) {
                return Ok(b"roots".to_vec());
            }
            Err(io::Error::from(io::ErrorKind::NotFound))
        };
        let mut system = SystemRoots { read: count, ..SystemRoots::default() };
        let text = "global: {user: u, password: p}\nvcenter: {a: {server: a}, b: {server: b}, c: {server: c}}";
        let (config, _) = Config::parse("vsphere.conf", text, UnknownKeys::Warn).unwrap();
        let trust = |vcenter| trust(vcenter, &mut system).unwrap().roots_pem;
        let roots: Vec<_> = config.vcenters.iter().map(trust).collect();
        assert_eq!(roots, [b"roots", b"roots", b"roots"]);
        assert_eq!(N_READ.load(Ordering::Relaxed), 2, "one missing file, one read");
    }
}
