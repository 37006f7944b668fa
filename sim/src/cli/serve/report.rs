//! Output of `sim serve`: text for people, and shell variables for other programs.

use std::fmt::Write as _;
use std::path::Path;

use sim_world::{ADMINISTRATOR, PROVIDER_USER};

use super::mount;
use crate::{Endpoint, Endpoints, Sim};

/// Returns shell lines that export all variables that clients need. Omits the paths of certificate
/// and kubeconfigs if `directory` is `None`, and the flags for a provider if `mounts` is `None`.
pub(super) fn variables(
    sim: &Sim,
    endpoints: &Endpoints,
    directory: Option<&Path>,
    mounts: Option<&Path>,
) -> String {
    let mut out = String::new();
    let mut export = |key: &str, value: &str| {
        let _ = writeln!(out, "export {key}={}", quoted(value));
    };
    let path = |name: &str| directory.map(|it| it.join(name).display().to_string());
    let authority = path("ca.pem").filter(|_| endpoints.authority.is_some());
    export_vcenters(sim, endpoints, authority.as_deref(), &mut export);
    if let Some(authority) = &authority {
        export("SIM_CA", authority);
    }
    export("SIM_CLUSTER", &endpoints.cluster.url);
    if let Some(kubeconfig) = path("kubeconfig") {
        export("KUBECONFIG", &kubeconfig);
    }
    if let (Some(supervisor), Some(endpoint)) = (sim.supervisor(), &endpoints.supervisor) {
        export("SIM_SUPERVISOR", &endpoint.url);
        export("SIM_SUPERVISOR_NAMESPACE", supervisor.namespace());
        if let Some(kubeconfig) = path("supervisor.kubeconfig") {
            export("SIM_SUPERVISOR_KUBECONFIG", &kubeconfig);
        }
        // The upstream provider needs this variable besides the files that it mounts.
        export("SUPERVISOR_APISERVER_PORT", &endpoint.address.port().to_string());
        if let Some(mounts) = mounts {
            export("SIM_SUPERVISOR_FLAGS", &mount::flags(endpoint, mounts));
        }
    }
    if let Some(endpoint) = &endpoints.autoscaler {
        export("SIM_AUTOSCALER", &endpoint.address.to_string());
    }
    export("SIM_ADMIN", &endpoints.admin.url);
    if let Some(token) = &endpoints.admin_token {
        export("SIM_ADMIN_TOKEN", token);
    }
    out
}

/// Calls `export` with name and value of each variable of the vCenters. `authority` is the path of
/// the certificate to trust; `None` omits `GOVC_TLS_CA_CERTS`.
fn export_vcenters(
    sim: &Sim,
    endpoints: &Endpoints,
    authority: Option<&str>,
    export: &mut impl FnMut(&str, &str),
) {
    let password = |vcenter: &str, user: &str| {
        sim.password(vcenter, user).map(|it| it.expose().to_owned()).unwrap_or_default()
    };
    if let Some((name, first)) = endpoints.vcenters.iter().next() {
        export("GOVC_URL", &format!("{}/sdk", first.url));
        export("GOVC_USERNAME", ADMINISTRATOR);
        export("GOVC_PASSWORD", &password(name, ADMINISTRATOR));
        if let Some(authority) = authority {
            export("GOVC_TLS_CA_CERTS", authority);
        }
    }
    let names: Vec<&str> = endpoints.vcenters.keys().map(String::as_str).collect();
    export("SIM_VCENTERS", &names.join(" "));
    for (name, endpoint) in &endpoints.vcenters {
        let name_upper = name.to_uppercase();
        let mut export = |key: &str, value: &str| export(&format!("SIM_{name_upper}_{key}"), value);
        export("URL", &endpoint.url);
        export("USERNAME", ADMINISTRATOR);
        export("PASSWORD", &password(name, ADMINISTRATOR));
        export("PROVIDER_USERNAME", PROVIDER_USER);
        export("PROVIDER_PASSWORD", &password(name, PROVIDER_USER));
        if let Some(thumbprints) = endpoint.thumbprints() {
            export("THUMBPRINT", &thumbprints.sha1);
            export("THUMBPRINT_SHA256", &thumbprints.sha256);
        }
    }
}

/// Origin of the world that `--state` saves: new or continued.
#[derive(Clone, Copy, Debug)]
pub(super) enum World {
    /// A new world, built from the options.
    New,
    /// The saved world of the last run. Options that describe a world have no effect.
    GoesOn,
}

/// Returns the text for people: the endpoints, the directory of `--state` with the origin of its
/// world, warnings, the shell lines in `variables`, and the path of the `--env` file. Omits the
/// directory and the path if they are `None`.
pub(super) fn text(
    sim: &Sim,
    endpoints: &Endpoints,
    variables: &str,
    (env, state): (Option<&Path>, Option<(&Path, World)>),
) -> String {
    let mut out = String::new();
    for (name, endpoint) in &endpoints.vcenters {
        let machines = sim
            .world()
            .read(|world| world.vcenter(name).map_or(0, |vc| vc.inventory.machines().count()));
        let _ = writeln!(out, "{name:<8} {}  {machines} machines", endpoint.url);
        if let Some(thumbprints) = endpoint.thumbprints() {
            let _ = writeln!(out, "         thumbprint {}", thumbprints.sha1);
        }
    }
    let nodes = sim.world().read(|world| world.kubelets.len());
    let _ = writeln!(out, "cluster  {}  {nodes} nodes", endpoints.cluster.url);
    if let (Some(supervisor), Some(endpoint)) = (sim.supervisor(), &endpoints.supervisor) {
        let machines =
            sim_world::objects::GroupResource::of("vmoperator.vmware.com", "virtualmachines");
        let machines = sim.world().read(|world| world.supervisor.objects.count(&machines));
        let namespace = supervisor.namespace();
        let _ = writeln!(
            out,
            "supervisor {}  {machines} virtual machines in {namespace}",
            endpoint.url
        );
    }
    if let Some(endpoint) = &endpoints.autoscaler {
        let _ =
            writeln!(out, "autoscaler {}  forwards calls of Cluster Autoscalers", endpoint.address);
    }
    let _ = writeln!(out, "admin    {}", endpoints.admin.url);
    if let Some((directory, world)) = state {
        let world = match world {
            World::New => "a new world, saved from now on",
            World::GoesOn => "continues the world of the last run",
        };
        let _ = writeln!(out, "state    {}  {world}", directory.display());
    }
    let seed = sim.world().read(|world| world.ids().seed());
    for (face, secrets) in exposed(endpoints) {
        let _ = writeln!(
            out,
            "warning  the {face} listens beyond loopback, and its {secrets} are computed from seed {seed}: anyone who \
             knows the seed knows them. Start with a secret --seed."
        );
    }
    let _ = write!(out, "\n{variables}");
    if let Some(env) = env {
        let _ = write!(
            out,
            "\n# these lines are also in {0}; to set the variables: . {0}\n",
            quoted(&env.display().to_string())
        );
    }
    out
}

/// Returns the faces that listen beyond loopback, each with the kind of its secrets, which follow
/// from the seed.
fn exposed(endpoints: &Endpoints) -> impl Iterator<Item = (&'static str, &'static str)> {
    let is_open = |endpoint: &Endpoint| !endpoint.address.ip().is_loopback();
    let faces = [
        ("vCenter", "passwords", endpoints.vcenters.values().any(is_open)),
        ("cluster", "tokens", is_open(&endpoints.cluster)),
        ("Supervisor", "tokens", endpoints.supervisor.as_ref().is_some_and(is_open)),
    ];
    faces.into_iter().filter(|(_, _, is_open)| *is_open).map(|(face, secrets, _)| (face, secrets))
}

/// Quotes a word for a shell.
fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "@%+=:,./_-".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn values_with_special_characters_are_quoted_for_the_shell() {
        for (name, text, want) in [
            ("a plain word", "https://127.0.0.1:8989/sdk", "https://127.0.0.1:8989/sdk"),
            ("nothing", "", "''"),
            ("a space", "vc0 vc1", "'vc0 vc1'"),
            ("a quote", "it's", r"'it'\''s'"),
            ("a dollar", "$HOME", "'$HOME'"),
        ] {
            assert_eq!(quoted(text), want, "{name}");
        }
    }
}
