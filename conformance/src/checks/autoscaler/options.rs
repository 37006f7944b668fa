//! CA-036 to CA-041: settings of groups.

use std::time::Duration;

use super::trial::{ensure, optional};
use super::{Outcome, Trial};
use crate::judge::verdict::Verdict;
use crate::lab::autoscaler::{Generation, NodeGroup, Options, Session, Setting, Times};

/// Returns defaults of the autoscaler that differ in every value for each `n`.
pub(super) fn defaults(generation: Generation, n: u32) -> Options {
    let share = f64::from(n) / 10.0;
    let time = |minutes: u32| Duration::from_secs(u64::from(60 * (minutes + n)));
    let times = Times { unneeded: time(6), unready: time(16), provision: time(26) };
    Options::defaults(generation, (0.4 + share / 10.0, 0.6 + share / 10.0), times)
}

/// Returns the settings of a group for these defaults; `None` if the defaults hold.
async fn settings(
    session: &Session,
    group: &NodeGroup,
    defaults: Options,
) -> Result<Option<Options>, Verdict> {
    Ok(optional(session.options(&group.id, defaults).await)?.flatten())
}

/// Returns the settings that a group overrides: none if the lab knows overrides of other groups
/// only. `None` if the lab knows nothing.
fn overridden(trial: &Trial<'_>, group: &NodeGroup) -> Option<Vec<Setting>> {
    let known = trial.subject.overrides.as_ref()?;
    Some(known.get(&group.id).cloned().unwrap_or_default())
}

/// Reads the groups, and checks that the lab knows overrides of no other ones.
async fn groups(trial: &Trial<'_>, session: &Session) -> Result<Vec<NodeGroup>, Verdict> {
    let groups = session.groups().await?;
    let mut known = trial.subject.overrides.iter().flat_map(|it| it.keys());
    match known.find(|id| groups.iter().all(|it| it.id != **id)) {
        Some(id) => Err(Verdict::harness_error(format!(
            "the overrides name the group {id}, which the server does not list"
        ))),
        None => Ok(groups),
    }
}

fn no_settings() -> Verdict {
    Verdict::not_supported("no group returns settings")
}

/// Judges the settings of each group that returns some.
async fn each(trial: &Trial<'_>, judge: impl Fn(&str, Options) -> Outcome) -> Outcome {
    let session = trial.session().await?;
    let mut n = 0;
    for group in groups(trial, &session).await? {
        if let Some(options) = settings(&session, &group, defaults(trial.generation, 1)).await? {
            n += 1;
            judge(&group.id, options)?;
        }
    }
    if n == 0 { Err(no_settings()) } else { Ok(()) }
}

pub(super) async fn all_fields_are_set(trial: &Trial<'_>) -> Outcome {
    each(trial, |group, options| {
        let (old, new) = (options.old_times(), options.new_times());
        ensure!(
            old.is_some() && new.is_some(),
            "the settings of {group} lack a duration: old fields {old:?}, new fields {new:?}"
        );
        ensure!(old == new, "the durations of {group} differ: old {old:?}, new {new:?}");
        Ok(())
    })
    .await
}

/// A value of the settings as a number, to compare.
fn value(options: &Options, setting: Setting) -> Option<f64> {
    let times = options.new_times().or(options.old_times());
    let time = |of: fn(&Times) -> Duration| times.as_ref().map(|it| of(it).as_secs_f64());
    match setting {
        Setting::Utilization => Some(options.utilization),
        Setting::GpuUtilization => Some(options.gpu_utilization),
        Setting::Unneeded => time(|it| it.unneeded),
        Setting::Unready => time(|it| it.unready),
        Setting::Provision => time(|it| it.provision),
    }
}

const ALL: [Setting; 5] = [
    Setting::Utilization,
    Setting::GpuUtilization,
    Setting::Unneeded,
    Setting::Unready,
    Setting::Provision,
];

pub(super) async fn defaults_of_each_generation_count(trial: &Trial<'_>) -> Outcome {
    if trial.subject.overrides.is_none() {
        return Err(Verdict::skipped("nothing says which settings the groups override"));
    }
    let defaults = defaults(trial.generation, 3);
    let session = trial.session().await?;
    let mut n = 0;
    for group in groups(trial, &session).await? {
        let Some(options) = settings(&session, &group, defaults).await? else { continue };
        n += 1;
        let known = overridden(trial, &group).unwrap_or_default();
        for setting in ALL.into_iter().filter(|it| !known.contains(it)) {
            let (is, sent) = (value(&options, setting), value(&defaults, setting));
            ensure!(
                is == sent,
                "{setting:?} of {} is {is:?}, and the autoscaler sent {sent:?}",
                group.id
            );
        }
    }
    if n == 0 { Err(no_settings()) } else { Ok(()) }
}

/// Requires that each value of the settings for two different defaults is that default, or is
/// overridden. If the lab does not know what is overridden, a value that is the same for both is.
pub(super) async fn changed_defaults_are_followed(trial: &Trial<'_>) -> Outcome {
    let session = trial.session().await?;
    let defaults = [1, 2].map(|n| defaults(trial.generation, n));
    let mut n = 0;
    for group in groups(trial, &session).await? {
        let first = settings(&session, &group, defaults[0]).await?;
        let second = settings(&session, &group, defaults[1]).await?;
        let (Some(first), Some(second)) = (first, second) else { continue };
        n += 1;
        let known = overridden(trial, &group);
        for setting in ALL {
            let is = [value(&first, setting), value(&second, setting)];
            let wanted = defaults.map(|it| value(&it, setting));
            let may_be_overridden = known.as_ref().is_none_or(|it| it.contains(&setting));
            let is_overridden = may_be_overridden && is[0] == is[1];
            ensure!(
                is == wanted || is_overridden,
                "{setting:?} of {} is {is:?} for the defaults {wanted:?}",
                group.id
            );
        }
    }
    if n == 0 { Err(no_settings()) } else { Ok(()) }
}

pub(super) async fn groups_without_overrides_return_none(trial: &Trial<'_>) -> Outcome {
    let session = trial.session().await?;
    let sent = [defaults(trial.generation, 1), defaults(trial.generation, 2)];
    for group in groups(trial, &session).await? {
        let known = overridden(trial, &group);
        let mut echoes = true;
        for defaults in sent {
            let Some(options) = settings(&session, &group, defaults).await? else {
                echoes = false;
                break;
            };
            echoes &= ALL.iter().all(|it| value(&options, *it) == value(&defaults, *it));
        }
        let has_none = known.map_or(echoes, |it| it.is_empty());
        let returns_some = settings(&session, &group, sent[0]).await?.is_some();
        ensure!(
            !(has_none && returns_some),
            "group {} overrides nothing and returns settings, which lose the start-up time of Nodes",
            group.id
        );
    }
    Ok(())
}

pub(super) async fn groups_are_not_all_or_nothing(trial: &Trial<'_>) -> Outcome {
    each(trial, |group, options| {
        ensure!(!options.zero_or_max, "group {group} has either no Node or all");
        Ok(())
    })
    .await
}

pub(super) async fn values_are_sound(trial: &Trial<'_>) -> Outcome {
    each(trial, |group, options| {
        for share in [options.utilization, options.gpu_utilization] {
            ensure!((0.0..=1.0).contains(&share), "a threshold of {group} is {share}");
        }
        let all = [options.old_times(), options.new_times()];
        for times in all.into_iter().flatten() {
            ensure!(times.provision > Duration::ZERO, "a machine of {group} gets no time to start");
        }
        Ok(())
    })
    .await
}
