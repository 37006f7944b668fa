//! A vSphere cloud provider for Kubernetes: runs the cloud-node and cloud-node-lifecycle
//! controllers against vCenter or a Supervisor.
//!
//! Replaces `kubernetes/cloud-provider-vsphere` ("upstream"). In vCenter mode our provider takes
//! upstream's flags, `vsphere.conf` and Secrets, and writes upstream's labels, addresses and
//! provider IDs. `docs/differences-from-upstream.md` lists the intended differences.
//!
//! # Map
//!
//! - [`app`](run): [`run`] builds and starts everything, and no other code does; `main` supplies
//!   files, signals and sockets.
//! - `config`: parses `vsphere.conf`, in YAML or INI, into one validated [`Config`].
//! - `model`: vocabulary. `instances`: lookups of machines (the trait `Instances` and its two
//!   backends).
//! - `supervisor`: files, token and flags of Supervisor mode.
//! - `controllers`: pure decisions in `plan`s, side effects in `run`s. `cluster`: access to the API
//!   server.
//!
//! # Guarantees
//!
//! - *Unknown never deletes.* The provider deletes a Node only after a proof that its machine is
//!   gone.
//! - *The caller supplies every input.* Below `main` the code reads tokio's clock and
//!   [`Deps::clock`] only, and uses no environment, file, global or unseeded randomness. Two runs
//!   with the same [`Deps::seed`] against servers that answer alike make the same calls.
//! - *One session per vCenter and kind of API.* All callers share it, and [`run`] ends it before it
//!   returns.
//!
//! # In process
//!
//! [`run`] needs no sockets, no files and no threads besides the runtime's, so it runs under
//! tokio's paused clock. Pass it a [`kube::Client`] over any tower service, and a [`Connector`]
//! that returns a [`Transport`] for each vCenter:
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use provider::{Clock, Config, Deps, Options, UnknownKeys};
//! # async fn example(
//! #     cluster: kube::Client,
//! #     vcenter: provider::Transport,
//! # ) -> Result<(), Box<dyn std::error::Error>> {
//! let text = "global: {server: vc.example, user: ccm, password: secret}";
//! let (config, _warnings) = Config::parse("vsphere.conf", text, UnknownKeys::Warn)?;
//! let deps = Deps {
//!     connect: Arc::new(move |_vcenter| Ok(vcenter.clone())),
//!     seed: 7,
//!     identity: "replica-0".to_owned(),
//!     clock: Clock::starting_at("2026-01-01T00:00:00Z".parse()?),
//!     ..Deps::new(cluster)
//! };
//! let stop = deps.stop.clone();
//! let running = tokio::spawn(provider::run(config, Options::default(), deps));
//! // … watch what the provider does, then:
//! stop.cancel();
//! running.await??;
//! # Ok(())
//! # }
//! ```

mod app;
mod cluster;
mod config;
mod controllers;
mod input;
mod instances;
mod model;
mod mutant;
mod supervisor;
mod tasks;
mod telemetry;

// The public API: what a program needs to run the controllers in process.
pub use app::{Connector, Deps, LeaderElection, Leadership, Options, RunError, SideServer, run};
pub use config::{
    Config, CredentialRef, SecretData, SecretFiles, UnknownKeys, VcenterConfig, Warning,
};
pub use controllers::autoscaler::{
    AutoscalerBackend, AutoscalerDeps, AutoscalerJournal, AutoscalerPanicked, AutoscalerServer,
    BootstrapReader, BootstrapTokens, ClusterApiSettings, ConfigMapJournal, GroupsFile,
    GroupsSource, JournalError, JournalStore, KubeletReservation, NodeGroupSettings, SecretRandom,
    TlsFiles, VcenterLink, check_autoscaler_files,
};
pub use input::InputError;
pub use instances::{
    AddressPolicy, Datacenters, HostnameEntry, LateZone, NoneWanted, Selection, SupervisorTuning,
    Tuning, ZoneCategories,
};
pub use model::{Clock, Family, SteppedTime, TimeSource};
pub use provider_vcenter::{
    Body, BoxError, Chain, Credential, CredentialError, Endpoint, ProxyError, ProxyRules, TlsError,
    TlsTrust, Transport, VcenterName, from_service, https, https_through,
};
pub use supervisor::{ClusterFamily, InstancesMode, SupervisorLink, VmOperatorVersion};
pub use tasks::Listener;
pub use telemetry::Telemetry;

/// Attribute of implementations of [`JournalStore`].
pub use tonic::async_trait;

// Hidden: for the program `provider` and its tests. These items are not part of the public API and
// change in any release.
#[doc(hidden)]
pub mod cli;
#[doc(hidden)]
pub use app::{
    AccessSettings, AllowedPaths, CertificateSource, HealthEndpoint, Serving, ServingTls,
    configuration_changed,
};
#[doc(hidden)]
pub use controllers::autoscaler::NODE_GROUP_DEFINITION;
#[doc(hidden)]
pub use supervisor::{
    MountPaths, MountedFiles, OwnerReference, ParseOwnerError, PodIpPool, SupervisorFlags,
    SupervisorSettings, TokenError, TokenReader, TokenSource, authenticated, read_mounted,
};

// Hidden: the controller of `provider capacity`, and the reader of groups for a server.
#[doc(hidden)]
pub use controllers::capacity::{
    CapacityDeps, CapacityFiles, CapacityPanicked, CapacitySettings, GpuMapping, NamedText,
    preview, scale_from_zero,
};

// Hidden: the vocabulary of the controllers and the two backends, which no other crate uses.
#[doc(hidden)]
pub use config::parse_secret;
#[doc(hidden)]
pub use instances::{
    AddressError, Ancestors, Guest, Instances, Nic, PathUp, Placement, SupervisorInstances,
    SupervisorV1, TagNames, Trouble, TroubleKind, VcenterInstances, VcenterV1, ZoneError,
    ZoneWanted, path_up, resolve, select,
};
#[doc(hidden)]
pub use model::{
    Address, AddressKind, AddressOrder, Lookup, MACHINE_ANNOTATION, MACHINE_GONE_ANNOTATION,
    MachineId, MachineReference, Metadata, Node, NodeIdentity, NodeName, NodeUid,
    ParseProviderIdError, ParseReferenceError, ProviderId, Taint, Unknown, ViewState, Zone,
    swap_byte_order,
};
#[doc(hidden)]
pub use provider_vcenter::{CredentialSource, MoRef};

// Hidden: for the fuzz targets and for the conformance suite, which plays deliberate bugs.
#[cfg(any(fuzzing, test))]
#[doc(hidden)]
pub use config::fuzzing;
#[cfg(feature = "mutants")]
#[doc(hidden)]
pub use {mutant::Mutant, tasks::Suspension};

/// The examples of the README, which are tested with those of this documentation.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
