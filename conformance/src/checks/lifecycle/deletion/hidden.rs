//! Cases with running machines that the provider cannot see, because an administrator revoked a
//! right or another vCenter answers.

use std::time::Duration;

use sim::Face;
use sim::faults::{Action, Rule};
use sim::world::objects::{self, GroupResource, Key};
use sim::world::{Command, Grant, PROVIDER_USER};

use super::{HEALED, PATIENCE, survives};
use crate::checks::Case;
use crate::checks::build::{NAMESPACE, SETTLED, machine, s, world};
use crate::checks::canary::Canary;
use crate::checks::queries::name;
use crate::judge::verdict::Verdict;
use crate::lab::Run;
use crate::scenario::{Act, Backend, Scenario};

/// Revokes the provider's right to see the first machine. A Supervisor grants rights by kind, not
/// by object, so there the provider loses all its rights until [`HEALED`].
fn lose_privilege(scenario: Scenario, backend: Backend, at: Duration) -> Scenario {
    match backend {
        Backend::VCenter => {
            let user = PROVIDER_USER.to_owned();
            scenario
                .at(at, Command::RevokePrivilege(Grant { vcenter: None, user, object: name(1) }))
        }
        Backend::Supervisor => {
            let bindings = GroupResource::of("rbac.authorization.k8s.io", "rolebindings");
            let key = Key::new(bindings, NAMESPACE, "cloud-provider");
            scenario
                .at(at, Command::Supervisor(objects::Command::delete(key)))
                .at(at, backend.disconnect())
                .at(HEALED, Command::Supervisor(bound_again()))
        }
    }
}

/// Returns the command that restores the role binding of the provider's account.
fn bound_again() -> objects::Command {
    const GROUP: &str = "rbac.authorization.k8s.io";
    let binding = serde_json::json!({
        "metadata": {"name": "cloud-provider"},
        "roleRef": {"apiGroup": GROUP, "kind": "Role", "name": "cloud-provider"},
        "subjects": [{"kind": "ServiceAccount", "name": "cloud-provider", "namespace": NAMESPACE}],
    });
    objects::Command::create(GroupResource::of(GROUP, "rolebindings"), NAMESPACE, binding)
}

pub(super) fn privilege_lost(backend: Backend, cold: bool) -> Case {
    // Two of twenty nodes may be gone at once without a hold of deletions.
    let n = 20;
    let revoked = SETTLED;
    let mut scenario = lose_privilege(world(n, s(600)), backend, revoked)
        .at(s(70), Command::StopKubelet(machine(1)));
    if cold {
        scenario = scenario.at(s(80), Act::Crash(0)).at(s(81), Act::Start(0));
    }
    let judge = move |run: &Run| {
        survives(run, n - 1).and(|| {
            let hidden = name(1);
            // In Supervisor mode a text must name the missing right instead of a machine.
            let says = |text: &str| match backend {
                Backend::VCenter => text.contains(&hidden),
                Backend::Supervisor => {
                    let text = text.to_lowercase();
                    ["forbidden", "403", "permission"].iter().any(|it| text.contains(it))
                }
            };
            let logged = run.logged_after(revoked).any(says);
            let mut warnings = run.events().into_iter().filter(|it| it.kind == "Warning");
            let told = warnings.any(|it| says(&it.object) || says(&it.message));
            Verdict::pass_if(logged || told, || {
                "neither an event nor a log line names the machine or the right that the provider lost".to_owned()
            })
        })
    };
    let case = Case::new(scenario, judge).named(if cold { "cold cache" } else { "warm cache" });
    match backend {
        Backend::VCenter => case.canary(Canary::Gone(n), s(200)),
        Backend::Supervisor => case.canary_within(Canary::Gone(n), HEALED, PATIENCE),
    }
}

pub(super) fn another_identity() -> Case {
    let uuid = uuid::Uuid::from_u128(0x0bad_cafe_0000_4000_8000_0000_0000_0001);
    let replaced = SETTLED;
    let mut scenario =
        world(5, s(600)).at(replaced, Command::SetInstanceUuid { vcenter: None, uuid });
    for n in 1..=2 {
        // The other vCenter lacks these machines, but they still run elsewhere.
        scenario = scenario.at(s(65), Command::StopKubelet(machine(n)));
    }
    let hide = Rule::new("other inventory", (1..=5).map(|n| Action::Hide(name(n)))).on(Face::Soap);
    let scenario = scenario
        .at(replaced, hide)
        // Shows the machines again. The restarted provider accepts the new identity.
        .at(HEALED, Act::RemoveRules)
        .at(HEALED, Act::Crash(0))
        .at(HEALED + s(1), Act::Start(0));
    let judge = move |run: &Run| {
        survives(run, 4).and(|| {
            let told =
                |text: &str| text.contains(&uuid.to_string()) || text.contains("another vCenter");
            let logged = run.logged_after(replaced).any(told);
            let event = run.events().iter().any(|event| told(&event.message));
            Verdict::pass_if(logged || event, || {
                "neither an event nor a log line reports that another vCenter answers".to_owned()
            })
        })
    };
    Case::new(scenario, judge).canary(Canary::Gone(5), HEALED + s(30))
}
