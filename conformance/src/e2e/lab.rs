//! A laboratory: cluster, vCenter and provider under one name, found again by it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};

use super::cluster::{self, Cluster, Machine, Programs};
use super::shell::call;
use super::vcenter::Vcenter;
use super::{deploy, engine};

/// How one is made.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    /// What it is called.
    pub(super) name: String,
    /// The checkout with `kind/` and `provider/deploy/`.
    pub(super) project: PathBuf,
    /// Where its files are, below a folder of this name.
    pub(super) cache: PathBuf,
    /// The image of its nodes.
    pub(super) image: Option<String>,
    /// Whether dockerd may be started.
    pub(super) start_engine: bool,
}

/// One that is there.
pub(super) struct Lab {
    pub(super) cluster: Cluster,
    pub(super) vcenter: Vcenter,
    pub(super) machines: Vec<Machine>,
    /// The image of the simulator, which pods run too.
    pub(super) sim_image: String,
}

impl Wanted {
    fn directory(&self) -> PathBuf {
        self.cache.join("e2e").join(&self.name)
    }

    /// Makes it, and says each step.
    pub(super) async fn up(&self, out: &mut impl Write) -> anyhow::Result<Lab> {
        let Self { name, project, .. } = self;
        engine::ready(project, self.start_engine).await?;
        if self.directory().exists() {
            bail!("there is a laboratory `{name}`; end it with `conformance e2e down`");
        }
        std::fs::create_dir_all(self.directory())?;
        let mut step = Steps { out, begin: tokio::time::Instant::now() };
        let programs = Programs::find(project).await?;
        step.done("kind and kubectl")?;
        let image = cluster::node_image(project, self.image.as_deref()).await?;
        step.done(&format!("node image {image}"))?;
        let built = call(project.join("kind/images/build.sh")).told().await?;
        let images: Vec<String> = built.lines().map(str::to_owned).collect();
        let [sim, provider] = &images[..] else { bail!("images: {built}") };
        step.done(&format!("images {sim} and {provider}"))?;
        let directory = self.directory();
        let cluster = Cluster::create(name, project, programs, &image, &directory).await?;
        step.done("cluster of three nodes")?;
        cluster.load(&images).await?;
        let vcenter = Vcenter::start(name, sim, &directory).await?;
        let machines = cluster.machines().await?;
        vcenter.found(&machines).await?;
        step.done("vCenter with their machines")?;
        deploy::provider(&cluster, project, provider, &vcenter.access()?).await?;
        step.done("provider")?;
        Ok(Lab { cluster, vcenter, machines, sim_image: sim.clone() })
    }

    /// The one that is there.
    pub(super) async fn open(&self) -> anyhow::Result<Lab> {
        let directory = self.directory();
        if !directory.exists() {
            bail!("there is no laboratory `{}`; make one with `conformance e2e up`", self.name);
        }
        engine::ready(&self.project, self.start_engine).await?;
        let programs = Programs::find(&self.project).await?;
        let cluster = Cluster::open(&self.name, programs, &directory).await?;
        let vcenter = Vcenter::open(&self.name, &directory).await?;
        let machines = cluster.machines().await?;
        let sim_image = format!("vsphere-lab/sim:{}", env!("CARGO_PKG_VERSION"));
        Ok(Lab { cluster, vcenter, machines, sim_image })
    }

    /// Removes whatever is left of it.
    pub(super) async fn down(&self) -> anyhow::Result<usize> {
        engine::ready(&self.project, false).await?;
        let removed = engine::sweep(&self.name).await?;
        let directory = self.directory();
        if directory.exists() {
            std::fs::remove_dir_all(&directory).with_context(|| directory.display().to_string())?;
        }
        Ok(removed)
    }
}

struct Steps<'a, W> {
    out: &'a mut W,
    begin: tokio::time::Instant,
}

impl<W: Write> Steps<'_, W> {
    fn done(&mut self, what: &str) -> std::io::Result<()> {
        let took = std::mem::replace(&mut self.begin, tokio::time::Instant::now()).elapsed();
        writeln!(self.out, "up  {what}: {:.1} s", took.as_secs_f64())?;
        self.out.flush()
    }
}

/// The checkout that this folder is in.
pub(super) fn project(from: &Path) -> anyhow::Result<PathBuf> {
    let found = from.ancestors().find(|it| it.join("kind/cluster.yaml").is_file());
    found.map(Path::to_owned).with_context(|| {
        format!("{}: not inside a checkout of this project; add --project DIR", from.display())
    })
}

/// Asks again and again until it says yes.
pub(super) async fn until<T>(
    within: Duration,
    mut ask: impl AsyncFnMut() -> anyhow::Result<Option<T>>,
) -> anyhow::Result<Option<T>> {
    let end = tokio::time::Instant::now() + within;
    loop {
        if let Some(answer) = ask().await? {
            return Ok(Some(answer));
        }
        if tokio::time::Instant::now() >= end {
            return Ok(None);
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}
