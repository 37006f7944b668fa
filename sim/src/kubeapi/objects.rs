//! Objects: reading, listing and writing them.

use std::sync::Arc;

use http::StatusCode;
use serde_json::Value;
use sim_world::objects::{
    Action, Command, Effect, FieldErrors, FieldSelector, Key, LabelSelector, Page, Paging,
    Preconditions, ResourceDef, Selection, Status, Subresource,
};
use sim_world::{Fault, Outcome};

use super::render::Rendering;
use super::route::{Target, Verb};
use super::{KubeApi, Request, answer, timestamp, watch};
use crate::faults::Effects;
use crate::{Call, Reply};

impl KubeApi {
    pub(super) fn resource(
        &self,
        call: &Call,
        request: &Request,
        target: &Target,
        effects: &Effects,
    ) -> Reply {
        let def = self.world.read(|world| world.cluster.resource(&target.resource).cloned());
        let Some(def) = def.filter(|def| is_served(def, target)) else {
            return answer::page_not_found();
        };
        let answered = match target.verb {
            Verb::Get => self.get(&def, request, target, effects),
            Verb::List => self.list(&def, request, target, effects),
            Verb::Watch => {
                watch::answer(&self.world, &self.encodings, &def, request, target, effects)
            }
            Verb::Create | Verb::Update | Verb::Patch => self.write(&def, request, target),
            Verb::Delete => self.delete(&def, request, target),
            Verb::DeleteCollection => self.delete_collection(&def, request, target),
        };
        answered.unwrap_or_else(|status| {
            tracing::trace!(operation = %call.operation, code = status.code, "refused");
            answer::failure(&status)
        })
    }

    fn get(
        &self,
        def: &ResourceDef,
        request: &Request,
        target: &Target,
        effects: &Effects,
    ) -> Result<Reply, Status> {
        let missing = || Status::not_found(&target.resource, &target.name);
        let rendering = Rendering::of(&self.world, def, request)?;
        if effects.empty_result || effects.hides(&target.name) {
            return Err(missing());
        }
        let asked = request.query.get("resourceVersion");
        let asked: u64 = match asked {
            "" => 0,
            text => text.parse().map_err(|_| {
                Status::new(500, "", format!("resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax"))
            })?,
        };
        let (object, revision) = self.world.read(|world| {
            (world.cluster.get(&key(def, target)).cloned(), world.cluster.revision())
        });
        if asked > revision {
            return Err(Status::too_large_version(asked, revision));
        }
        let object = object.ok_or_else(missing)?;
        rendering.one(def, StatusCode::OK, &object, timestamp(&self.world))
    }

    fn list(
        &self,
        def: &ResourceDef,
        request: &Request,
        target: &Target,
        effects: &Effects,
    ) -> Result<Reply, Status> {
        let rendering = Rendering::of(&self.world, def, request)?;
        let selection = selection(def, request, target)?;
        if request.query.has("sendInitialEvents") {
            let mut errors = FieldErrors::default();
            errors.forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list");
            return Err(Status::invalid("meta.k8s.io", "ListOptions", "", errors));
        }
        let paging = paging(request)?;
        let mut page: Page =
            self.world.read(|world| world.cluster.list(&def.id, &selection, &paging))?;
        if effects.empty_result {
            page = Page { items: Vec::new(), continue_token: None, remaining: None, ..page };
        }
        page.items.retain(|item| !effects.hides(name_of(item)));
        rendering.list(def, &page, timestamp(&self.world))
    }

    fn write(
        &self,
        def: &ResourceDef,
        request: &Request,
        target: &Target,
    ) -> Result<Reply, Status> {
        let rendering = Rendering::of(&self.world, def, request)?;
        let (action, options) = match target.verb {
            Verb::Create => (
                Action::Create { object: request.object(&answer::api_version(def), &def.kind)? },
                "CreateOptions",
            ),
            Verb::Update => (
                Action::Update { object: request.object(&answer::api_version(def), &def.kind)? },
                "UpdateOptions",
            ),
            _ => {
                let (kind, patch) = request.patch()?;
                (Action::Patch { kind, patch }, "PatchOptions")
            }
        };
        let command = Command {
            key: key(def, target),
            action,
            subresource: target.is_status.then_some(Subresource::Status),
            dry_run: dry_run(request.query.get("dryRun"), options)?,
        };
        let (object, effect) = self.apply(command)?;
        let code = if effect == Effect::Created { StatusCode::CREATED } else { StatusCode::OK };
        rendering.one(def, code, &object, timestamp(&self.world))
    }

    fn delete(
        &self,
        def: &ResourceDef,
        request: &Request,
        target: &Target,
    ) -> Result<Reply, Status> {
        let rendering = Rendering::of(&self.world, def, request)?;
        let options = request.delete_options()?;
        let (object, effect) = self.apply(deletion(key(def, target), request, &options)?)?;
        if effect == Effect::Deleted && !def.returns_deleted {
            return Ok(answer::deleted(def, &object).with_objects(1));
        }
        rendering.one(def, StatusCode::OK, &object, timestamp(&self.world))
    }

    /// One deletion after the other, as the real server does it; the answer lists what was there.
    fn delete_collection(
        &self,
        def: &ResourceDef,
        request: &Request,
        target: &Target,
    ) -> Result<Reply, Status> {
        let rendering = Rendering::of(&self.world, def, request)?;
        let selection = selection(def, request, target)?;
        let options = request.delete_options()?;
        let mut page =
            self.world.read(|world| world.cluster.list(&def.id, &selection, &Paging::default()))?;
        for object in &mut page.items {
            let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
            let key = Key::new(def.id.clone(), namespace, name_of(object));
            match self.apply(deletion(key, request, &options)?) {
                Ok((gone, _)) => *object = gone,
                Err(status) if status.code == 404 => {}
                Err(status) => return Err(status),
            }
        }
        rendering.list(def, &page, timestamp(&self.world))
    }

    fn apply(&self, command: Command) -> Result<(Arc<Value>, Effect), Status> {
        let applied = self.world.apply(sim_world::Command::Cluster(command));
        match applied.map(|applied| applied.outcome) {
            Ok(Outcome::Object(reply)) => Ok((reply.object, reply.effect)),
            Err(Fault::Cluster(status)) => Err(status),
            #[allow(
                unreachable_patterns,
                reason = "a world of more than a cluster has more faults"
            )]
            Ok(_) | Err(_) => Err(Status::new(
                500,
                "InternalError",
                "Internal error occurred: unexpected outcome",
            )),
        }
    }
}

/// Whether this resource is served at this path.
fn is_served(def: &ResourceDef, target: &Target) -> bool {
    let is_everywhere = matches!(target.verb, Verb::List | Verb::Watch);
    let is_placed = match (def.namespaced, target.namespace.is_empty()) {
        (true, true) => is_everywhere,
        (true, false) | (false, true) => true,
        (false, false) => false,
    };
    def.version == target.version && is_placed && (def.status || !target.is_status)
}

fn key(def: &ResourceDef, target: &Target) -> Key {
    Key::new(def.id.clone(), target.namespace.as_str(), target.name.as_str())
}

pub(super) fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

pub(super) fn selection(
    def: &ResourceDef,
    request: &Request,
    target: &Target,
) -> Result<Selection, Status> {
    Ok(Selection {
        labels: LabelSelector::parse(request.query.get("labelSelector"))?,
        fields: FieldSelector::parse(request.query.get("fieldSelector"), def)?,
        ..Selection::in_namespace(&target.namespace)
    })
}

fn paging(request: &Request) -> Result<Paging, Status> {
    let query = &request.query;
    let limit: i64 = match query.get("limit") {
        "" => 0,
        text => text.parse().map_err(|_| {
            Status::bad_request(format!("strconv.ParseInt: parsing {text:?}: invalid syntax"))
        })?,
    };
    Ok(Paging {
        limit: usize::try_from(limit).unwrap_or_default(),
        continue_token: query.get("continue").to_owned(),
        resource_version: query.get("resourceVersion").to_owned(),
        version_match: query.get("resourceVersionMatch").to_owned(),
    })
}

fn deletion(key: Key, request: &Request, options: &Value) -> Result<Command, Status> {
    let text = |pointer| options.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let preconditions = Preconditions {
        uid: text("/preconditions/uid"),
        resource_version: text("/preconditions/resourceVersion"),
    };
    let asked = text("/dryRun/0").unwrap_or_else(|| request.query.get("dryRun").to_owned());
    Ok(Command {
        key,
        action: Action::Delete { preconditions },
        subresource: None,
        dry_run: dry_run(&asked, "DeleteOptions")?,
    })
}

fn dry_run(asked: &str, options: &str) -> Result<bool, Status> {
    match asked {
        "" => Ok(false),
        "All" => Ok(true),
        other => {
            let mut errors = FieldErrors::default();
            errors.not_supported("dryRun", other, &["All"]);
            Err(Status::invalid("meta.k8s.io", options, "", errors))
        }
    }
}
