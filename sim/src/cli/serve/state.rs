//! Option `--state`: a directory that keeps certificates, keys, ports, the admin token and the
//! world across restarts.
//!
//! Each save replaces whole files. While the sim serves, [`StateDirectory::keep_until`] saves the
//! changes, so that a killed process loses only those since the last save.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sim_world::State as World;
use tokio::time::Instant;

use crate::cli::{CliError, files};
use crate::document::file;
use crate::listen::causes::with_causes;
use crate::tls::{Authority, Leaf};
use crate::{Changes, Endpoints, ListenOptions, Sim};

/// Minimum delay between a change and the save of the world, and minimum time between saves. Both
/// are longer after a slow save ([`PAUSE_PER_WRITE`]).
const KEPT_EVERY: Duration = Duration::from_secs(2);

/// Pause after a save, as a multiple of its duration, so that saves take at most 5 % of the time.
const PAUSE_PER_WRITE: u32 = 20;

/// Version of the format of `sim.json`.
const VERSION: u32 = 1;

/// The directory of `--state`, locked until this value is dropped.
#[derive(Debug)]
pub(super) struct StateDirectory {
    path: PathBuf,
    _lock: File,
}

/// Contents of `sim.json`: everything except the world.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Kept {
    version: u32,
    #[serde(default)]
    authority: Option<Pair>,
    certificates: BTreeMap<String, BTreeMap<u32, Pair>>,
    ports: BTreeMap<String, u16>,
    #[serde(default)]
    admin_token: Option<String>,
}

/// A certificate and its key.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Pair {
    certificate: String,
    key: String,
}

impl StateDirectory {
    /// Opens and locks the directory, and removes the temporary files in it. Creates the directory
    /// if it does not exist. Fails if another sim uses the directory, or if the system refuses
    /// access to it.
    pub(super) fn open(path: &Path) -> Result<Self, CliError> {
        let failed = |error: &std::io::Error| CliError::file("--state", path, error);
        files::private_directory(path).map_err(|error| failed(&error))?;
        let lock = file::private(&path.join("lock")).map_err(|error| failed(&error))?;
        if lock.try_lock().is_err() {
            return Err(CliError::input(
                format!("--state {}: another sim uses it", path.display()),
                "stop the other sim, or choose another directory",
            ));
        }
        let state = Self { path: path.to_owned(), _lock: lock };
        state.sweep().map_err(|error| failed(&error))?;
        Ok(state)
    }

    /// Removes the temporary files that a killed process has left in the directory.
    fn sweep(&self) -> std::io::Result<()> {
        for entry in fs::read_dir(&self.path)? {
            let path = entry?.path();
            if path.extension().is_some_and(|it| it == "tmp") {
                fs::remove_file(path)?;
            }
        }
        Ok(())
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the saved world; `None` if the directory has no `world.json`. Fails if the file cannot
    /// be read or parsed, for example because another version wrote it.
    pub(super) fn world(&self) -> Result<Option<World>, CliError> {
        self.read("world.json")
    }

    /// Sets authority, certificates, ports and admin token in `options` to the saved ones; changes
    /// nothing if the directory has no `sim.json`. Fails if `sim.json` cannot be read, is of
    /// another version, or has unusable certificates.
    pub(super) fn recall(&self, options: &mut ListenOptions) -> Result<(), CliError> {
        let Some(kept) = self.read::<serde_json::Value>("sim.json")? else { return Ok(()) };
        let version = &kept["version"];
        if version != VERSION {
            let path = self.path.join("sim.json");
            return Err(CliError::input(
                format!(
                    "--state {}: version: {version}: this sim reads version {VERSION}",
                    path.display()
                ),
                "use the version of sim that wrote the file, or remove the file to get new certificates, ports and a new admin token",
            ));
        }
        let Some(kept) = self.read::<Kept>("sim.json")? else { return Ok(()) };
        let Kept { version: _, authority, certificates, ports, admin_token } = kept;
        let unusable = |error: crate::tls::TlsError| {
            let path = self.path.join("sim.json");
            CliError::input(
                format!("--state {}: {}", path.display(), with_causes(&error)),
                "remove the file to get new certificates, ports and a new admin token",
            )
        };
        if let Some(Pair { certificate, key }) = authority {
            let authority = Arc::new(Authority::restore(&certificate, &key).map_err(unusable)?);
            for (server, leaves) in certificates {
                let leaves = leaves
                    .into_iter()
                    .map(|(n, Pair { certificate, key })| {
                        Leaf::new(certificate, key, &authority).map(|leaf| (n, leaf))
                    })
                    .collect::<Result<BTreeMap<u32, Leaf>, _>>();
                options.certificates.insert(server, leaves.map_err(unusable)?);
            }
            options.authority = Some(authority);
        }
        options.ports = ports;
        options.admin_token = admin_token;
        Ok(())
    }

    /// Saves everything except the world: authority, certificates, ports and admin token.
    pub(super) fn keep(&self, endpoints: &Endpoints) -> Result<(), CliError> {
        let pairs = |endpoint: &crate::Endpoint| {
            let leaves = endpoint.certificates().into_iter();
            leaves
                .map(|(n, leaf)| {
                    let key = leaf.key_pem().to_owned();
                    (n, Pair { certificate: leaf.pem, key })
                })
                .collect::<BTreeMap<u32, Pair>>()
        };
        let mut certificates: BTreeMap<String, BTreeMap<u32, Pair>> =
            endpoints.vcenters.iter().map(|(name, it)| (name.clone(), pairs(it))).collect();
        certificates.insert(crate::CLUSTER.to_owned(), pairs(&endpoints.cluster));
        if let Some(supervisor) = &endpoints.supervisor {
            certificates.insert(crate::SUPERVISOR.to_owned(), pairs(supervisor));
        }
        let authority = endpoints
            .authority
            .as_ref()
            .map(|it| Pair { certificate: it.pem().to_owned(), key: it.key_pem() });
        let kept = Kept {
            version: VERSION,
            authority,
            certificates,
            ports: endpoints.ports(),
            admin_token: endpoints.admin_token.clone(),
        };
        self.write("sim.json", &kept)
    }

    /// Saves the world and everything else after changes of the world, until `told` completes.
    /// `changes` must date from before the last save, so that it reports every change since then.
    ///
    /// Logs a failed save and tries again after the next change, so that a full disk does not stop
    /// the sim.
    pub(super) async fn keep_until(
        &self,
        told: impl Future<Output = ()>,
        sim: &Sim,
        endpoints: &Endpoints,
        mut changes: Changes,
    ) {
        tokio::pin!(told);
        let mut pause = KEPT_EVERY;
        loop {
            let changed = async {
                changes.changed().await;
                tokio::time::sleep(pause).await;
            };
            tokio::select! {
                biased;
                () = &mut told => return,
                () = changed => {}
            }
            let began = Instant::now();
            // The next save includes the changes from here on.
            changes.mark_unchanged();
            match self.keep(endpoints).and_then(|()| self.keep_world(sim)) {
                Ok(()) => tracing::info!("saved the world to the directory of --state"),
                Err(error) => {
                    tracing::warn!(%error, "saving the world to the directory of --state failed; retrying after the next change of the world")
                }
            }
            pause = KEPT_EVERY.max(began.elapsed() * PAUSE_PER_WRITE);
        }
    }

    /// Writes the current state of the world to `world.json`.
    pub(super) fn keep_world(&self, sim: &Sim) -> Result<(), CliError> {
        let state = sim.world().read(|world| world.state().clone());
        self.write("world.json", &state)
    }

    fn read<T: for<'de> Deserialize<'de>>(&self, name: &str) -> Result<Option<T>, CliError> {
        let path = self.path.join(name);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(CliError::file("--state", &path, &error)),
        };
        serde_json::from_slice(&text).map(Some).map_err(|error| {
            CliError::input(
                format!("--state {}: {error}", path.display()),
                "another version of sim may have written the file: remove the file or the \
                 directory",
            )
        })
    }

    fn write(&self, name: &str, value: &impl Serialize) -> Result<(), CliError> {
        let path = self.path.join(name);
        let text = serde_json::to_vec(value).map_err(|error| {
            CliError::failed(format!("{}: {error}", path.display()), "report this as a bug of sim")
        })?;
        file::replace(&path, &text).map_err(|error| CliError::file("--state", &path, &error))
    }
}
