//! Objects: reading, listing and writing them.

use std::sync::Arc;

use http::StatusCode;
use serde_json::Value;
use sim_world::objects::{
    Action, Command, Effect, FieldErrors, FieldSelector, GroupResource, Key, LabelSelector, Page,
    Paging, ResourceDef, Selection, Status, Subresource,
};
use sim_world::{Fault, Outcome};

use super::options::{self, DeleteOptions, WriteOptions};
use super::render::Rendering;
use super::route::{Target, Verb};
use super::{KubeApi, Request, answer, failure, timestamp, watch};
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
        if target.verb == Verb::DeleteCollection && def.id == GroupResource::core("namespaces") {
            return answer::failure(&failure::not_allowed());
        }
        if let (false, Err(status)) =
            (target.verb == Verb::Watch, options::check_timeout(&request.query))
        {
            return answer::failure(&status);
        }
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
        let reply = answered.unwrap_or_else(|status| {
            tracing::trace!(operation = %call.operation, code = status.code, "refused");
            answer::failure(&status)
        });
        match deprecation(&def.id) {
            None => reply,
            Some(warning) => answer::with_warnings(reply, &[warning.to_owned()]),
        }
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
        let options = WriteOptions::read(&request.query, target.verb)?;
        let api_version = answer::api_version(def);
        let mut warnings = Vec::new();
        let action = match target.verb {
            Verb::Create | Verb::Update => {
                let object = request.object(&api_version, &def.kind)?;
                // Only JSON can say a thing twice and still be read.
                if let Some(json) = request.json() {
                    warnings = options.check_duplicates(json, &def.version, &def.kind)?;
                }
                match target.verb {
                    Verb::Create => Action::Create { object },
                    _ => Action::Update { object },
                }
            }
            _ => {
                let (kind, patch) = request.patch()?;
                Action::Patch { kind, patch }
            }
        };
        let command = Command {
            key: key(def, target),
            action,
            subresource: target.is_status.then_some(Subresource::Status),
            dry_run: options.dry_run,
        };
        let (object, effect) = self.apply(command)?;
        let code = if effect == Effect::Created { StatusCode::CREATED } else { StatusCode::OK };
        let reply = rendering.one(def, code, &object, timestamp(&self.world))?;
        Ok(answer::with_warnings(reply, &warnings))
    }

    fn delete(
        &self,
        def: &ResourceDef,
        request: &Request,
        target: &Target,
    ) -> Result<Reply, Status> {
        let rendering = Rendering::of(&self.world, def, request)?;
        let options = DeleteOptions::read(request)?;
        let (object, effect) = self.apply(deletion(key(def, target), &options))?;
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
        let options = DeleteOptions::read(request)?;
        let mut page =
            self.world.read(|world| world.cluster.list(&def.id, &selection, &Paging::default()))?;
        for object in &mut page.items {
            let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
            let key = Key::new(def.id.clone(), namespace, name_of(object));
            match self.apply(deletion(key, &options)) {
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

/// What the real server says of a resource whose days are numbered.
fn deprecation(resource: &GroupResource) -> Option<&'static str> {
    (*resource == GroupResource::core("endpoints"))
        .then_some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")
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

fn deletion(key: Key, options: &DeleteOptions) -> Command {
    Command {
        key,
        action: Action::Delete { preconditions: options.preconditions.clone() },
        subresource: None,
        dry_run: options.dry_run,
    }
}
