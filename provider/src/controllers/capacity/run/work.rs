//! Makes the writes that the plans want, one after the other.

use std::time::Duration;

use provider_vcenter::Chain;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{
    super::{
        kind::{Kind, ObjectName},
        objects::Target,
        plan::{
            Plan, Referent, StatusForm, Subject, is_selected, plan_group, plan_status,
            template_name, text,
        },
    },
    Shared,
};
use crate::cluster::{ClusterError, PatchKind, encode, served_version, without_managed_fields};

/// Version of the templates whose status has no `nodeInfo`.
const WITHOUT_NODE_INFO: &str = "v1beta1";
/// Query with the name under which `metadata.managedFields` lists the writes. Without it, the API
/// server derives the name from the client library.
const FIELD_MANAGER: &str = "?fieldManager=vsphere-capacity";

/// Reason why an object is not yet as it must be.
struct Unfinished {
    problem: String,
    /// Pause that the API server requests.
    pause: Duration,
}

/// Decides and writes until the stop.
pub(super) async fn work(shared: &Shared, stop: &CancellationToken) {
    let settled = async {
        while !shared.known().is_settled() {
            shared.progressed.notified().await;
        }
    };
    if stop.run_until_cancelled(settled).await.is_none() {
        return;
    }
    while let Some(target) = stop.run_until_cancelled(shared.backlog.next()).await {
        match reconcile(shared, &target).await {
            Ok(()) => shared.backlog.succeeded(&target),
            Err(Unfinished { problem, pause }) => {
                let (kind, name) = (target.kind, target.name.clone());
                let delay = shared.backlog.failed(target, &problem, pause);
                let pause = delay.time;
                if delay.is_news {
                    tracing::warn!(%kind, object = %name, problem, pause = ?pause, "the published capacity is incomplete; retrying");
                } else {
                    tracing::debug!(%kind, object = %name, problem, pause = ?pause, "the published capacity is still incomplete; retrying");
                }
            }
        }
    }
}

async fn reconcile(shared: &Shared, target: &Target) -> Result<(), Unfinished> {
    let Some(object) = shared.known().get(target) else { return Ok(()) };
    let plan = match target.kind {
        Kind::SupervisorTemplate => plan_template(shared, target, &object).await,
        _ => {
            let template = template_name(&object).unwrap_or_default();
            let template = ObjectName::new(&target.name.namespace, template);
            let template = shared.known().referent(Kind::GovmomiTemplate, &template);
            plan_group(&object, &template, &shared.settings)
        }
    };
    if let Some(patch) = &plan.patch {
        write(shared, target, patch).await?;
    }
    match plan.problem {
        None => Ok(()),
        Some(problem) => Err(Unfinished { problem, pause: Duration::ZERO }),
    }
}

async fn plan_template(shared: &Shared, target: &Target, template: &Value) -> Plan {
    if !is_selected(template, shared.settings.watch_filter.as_deref()) {
        return Plan::default();
    }
    let spec = &template["spec"]["template"]["spec"];
    let namespace = &target.name.namespace;
    let (form, class) = {
        let known = shared.known();
        let version = known.of(target.kind).map(|it| it.version.as_str());
        let form = match version {
            Some(WITHOUT_NODE_INFO) => StatusForm::Capacity,
            _ => StatusForm::CapacityAndNodeInfo,
        };
        let class = ObjectName::new(namespace, text(&spec["className"]));
        (form, known.referent(Kind::Class, &class))
    };
    let image = image(shared, namespace, text(&spec["imageName"])).await;
    let subject = Subject { template, form, class: &class, image: &image };
    plan_status(&subject, &shared.settings)
}

/// Returns the image of a template.
async fn image(shared: &Shared, namespace: &str, name: &str) -> Referent {
    if name.is_empty() {
        return Referent::Missing;
    }
    if !shared.settings.watch_images {
        return read_image(shared, name)
            .await
            .unwrap_or_else(|err| Referent::Unread(Chain(&err).to_string()));
    }
    let known = shared.known();
    let of_namespace = known.referent(Kind::Image, &ObjectName::new(namespace, name));
    let of_cluster = known.referent(Kind::ClusterImage, &ObjectName::new("", name));
    match (of_namespace, of_cluster) {
        (found @ Referent::Object(_), _) | (_, found @ Referent::Object(_)) => found,
        (unread @ Referent::Unread(_), _) => unread,
        (Referent::Missing, of_cluster) => of_cluster,
    }
}

/// Reads an image of the cluster.
async fn read_image(shared: &Shared, name: &str) -> Result<Referent, ClusterError> {
    let kind = Kind::ClusterImage;
    let served = served_version(&shared.cluster, kind.group(), kind.resource()).await?;
    let Some(version) = served else { return Ok(Referent::Missing) };
    let path = format!("{}/{}", kind.collection(&version, None), encode(name));
    match shared.cluster.get(&path).await {
        Ok(image) => Ok(Referent::Object(image.into())),
        Err(err) if err.is_not_found() => Ok(Referent::Missing),
        Err(err) => Err(err),
    }
}

/// Writes a patch, and notes the state of the object after it.
async fn write(shared: &Shared, target: &Target, patch: &Value) -> Result<(), Unfinished> {
    let Target { kind, name } = target;
    let version = shared.known().of_mut(*kind).version.clone();
    let mut path = kind.path(&version, name);
    if *kind == Kind::SupervisorTemplate {
        path.push_str("/status");
    }
    path.push_str(FIELD_MANAGER);
    match shared.cluster.patch(&path, PatchKind::Merge, patch).await {
        Ok(written) => {
            tracing::info!(%kind, object = %name, %patch, "published a capacity");
            shared.known().of_mut(*kind).apply(without_managed_fields(&written));
            Ok(())
        }
        // The watch will report the deletion.
        Err(err) if err.says_gone(&name.name) => Ok(()),
        Err(err) => {
            let pause = err.retry_after().unwrap_or_default();
            Err(Unfinished { problem: Chain(&err).to_string(), pause })
        }
    }
}
