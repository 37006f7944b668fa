//! Raises the size of a group.

use std::time::Duration;

use provider_vcenter::Chain;
use serde_json::{Value, json};

use super::super::{
    super::{super::capacity::text, group::Group, instance::one_line, plan::Cause},
    ClusterApiMachines, Shared,
    objects::group::replicas,
    view::GroupState,
};
use super::{
    error::{ChangeError, PAUSE, is_lost},
    record::SizeChange,
};
use crate::cluster::{ClusterError, PatchKind};

/// Content of the subresource `scale`.
struct Scale {
    replicas: u32,
    version: String,
    uid: String,
}

impl ClusterApiMachines {
    /// Raises the size by one machine for each cause.
    ///
    /// # Errors
    ///
    /// The size is then as before, except after [`ChangeError::Late`] and [`ChangeError::Unknown`]:
    /// the API server may still carry out a request that it has not answered.
    pub(crate) async fn raise(
        &self,
        group: &Group,
        causes: &[Cause],
        budget: Duration,
    ) -> Result<(), ChangeError> {
        let Some(cause) = causes.first() else { return Ok(()) };
        let snapshot = self.0.snapshot();
        let state = snapshot.states.get(&group.id).ok_or(ChangeError::Gone)?;
        let more = u32::try_from(causes.len()).unwrap_or(u32::MAX);
        let raised = self.0.raise(group, state, more, budget);
        let result = match tokio::time::timeout(budget, raised).await {
            Ok(result) => result,
            Err(_) => Err(ChangeError::Late { budget }),
        };
        let change = match &result {
            Ok(to) => SizeChange::Raised { by: causes.len(), to: *to },
            Err(err) => SizeChange::NotRaised(one_line(&Chain(err).to_string())),
        };
        self.0.record_size(group.id.as_str(), state, &change, cause);
        result.map(drop)
    }
}

impl Shared {
    /// Raises the size, and returns the new one. Repeats a request only after it has read that the
    /// former one cannot take effect any more: each has the version of the object as its condition.
    async fn raise(
        &self,
        group: &Group,
        state: &GroupState,
        more: u32,
        budget: Duration,
    ) -> Result<u32, ChangeError> {
        let path = format!("{}/scale", self.group_path(state));
        // The scale that a request without answer was based on.
        let mut lost: Option<Scale> = None;
        loop {
            let scale = self.answered(self.changes.get(&path), &path, budget).await;
            let scale = match scale.and_then(|it| read(&it, &path)) {
                Ok(scale) => scale,
                Err(err) if lost.is_some() => {
                    tracing::warn!(group = %group.id, error = %Chain(&err), "reading the size after a lost answer failed; retrying");
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
                Err(err) => return Err(err.into()),
            };
            state.require_uid(&scale.uid)?;
            // A request that is based on an earlier version takes no effect any more.
            if let Some(before) = lost.take_if(|it| it.version != scale.version)
                && before.replicas != scale.replicas
            {
                if scale.replicas != before.replicas + more {
                    return Err(ChangeError::Unknown { replicas: scale.replicas });
                }
                self.scaled(state, &scale);
                return Ok(scale.replicas);
            }
            let wanted = scale.replicas.saturating_add(more);
            if wanted > group.max {
                let (replicas, max) = (scale.replicas, group.max);
                return Err(ChangeError::AboveMax { replicas, more, max });
            }
            let patch = json!({
                "metadata": {"resourceVersion": scale.version},
                "spec": {"replicas": wanted},
            });
            let sent = self.changes.patch(&path, PatchKind::Merge, &patch);
            let answer = self.answered(sent, &path, budget).await;
            match answer.and_then(|it| read(&it, &path)) {
                Ok(scale) => {
                    self.scaled(state, &scale);
                    return Ok(scale.replicas);
                }
                Err(err) if err.is_conflict() => {}
                Err(err) if is_lost(&err) => {
                    tracing::warn!(group = %group.id, error = %Chain(&err), "the answer to a change of the size was lost; reading the size");
                    lost = Some(scale);
                    tokio::time::sleep(PAUSE).await;
                }
                Err(err) => return Err(err.into()),
            }
        }
    }

    /// Waits for an answer, but leaves time to read what became of the request.
    pub(crate) async fn answered(
        &self,
        request: impl Future<Output = Result<Value, ClusterError>>,
        path: &str,
        budget: Duration,
    ) -> Result<Value, ClusterError> {
        let deadline = budget / 3;
        let timed_out = || ClusterError::TimedOut {
            method: http::Method::PATCH,
            path: path.to_owned(),
            deadline,
        };
        tokio::time::timeout(deadline, request).await.unwrap_or_else(|_| Err(timed_out()))
    }

    /// Takes the new size into the view.
    fn scaled(&self, group: &GroupState, scale: &Scale) {
        let kind = group.kind.resource();
        let mut view = self.view();
        if let Some(known) = view.object(&kind, &group.namespace, &group.name) {
            let mut object = known.as_ref().clone();
            let values = [
                ("spec", "replicas", scale.replicas.into()),
                ("metadata", "resourceVersion", scale.version.as_str().into()),
            ];
            for (part, key, value) in values {
                if let Some(part) = object.get_mut(part).and_then(Value::as_object_mut) {
                    part.insert(key.to_owned(), value);
                }
            }
            view.apply(&kind, object);
        }
        drop(view);
        self.changed.notify_one();
    }
}

fn read(scale: &Value, path: &str) -> Result<Scale, ClusterError> {
    let [version, uid] =
        ["resourceVersion", "uid"].map(|key| text(&scale["metadata"][key]).to_owned());
    if version.is_empty() || uid.is_empty() {
        let what = "the answer is not a Scale".to_owned();
        return Err(ClusterError::Malformed { path: path.to_owned(), what });
    }
    Ok(Scale { replicas: replicas(scale), version, uid })
}
