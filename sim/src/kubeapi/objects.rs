//! Objects: reading, listing and writing them.

use std::sync::Arc;

use http::StatusCode;
use serde_json::Value;
use sim_world::objects::{
    Action, Command, Deletion, Effect, FieldErrors, FieldSelector, FieldValidation, Key,
    LabelSelector, Page, Paging, Preconditions, Propagation, ResourceDef, Selection, Status,
    Subresource,
};
use sim_world::{Fault, Outcome};

use super::route::{Target, Verb};
use super::{KubeApi, Request, answer, warnings, watch};
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
        let def = def.in_version(&target.version);
        if let Err(status) = request.accepts_json() {
            return answer::failure(&status);
        }
        let answered = match target.verb {
            Verb::Get => self.get(&def, request, target, effects),
            Verb::List => self.list(&def, request, target, effects),
            Verb::Watch => watch::answer(&self.world, &def, request, target, effects),
            Verb::Create | Verb::Update | Verb::Patch => self.write(&def, request, target),
            Verb::Delete => self.delete(&def, request, target),
            Verb::DeleteCollection => self.delete_collection(&def, request, target),
        };
        let reply = answered.unwrap_or_else(|status| {
            tracing::trace!(operation = %call.operation, code = status.code, "refused");
            answer::failure(&status)
        });
        match def.warning(&target.version) {
            "" => reply,
            warning => warnings::told(reply, &[warning.to_owned()]),
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
        let object = self.world.read(|world| {
            let shown = world.cluster.shown(def, &target.version, &object)?;
            if !target.is_scale {
                return Ok(shown);
            }
            world.cluster.scale_of(def, &target.version, &shown).map(Arc::new)
        })?;
        Ok(answer::json(StatusCode::OK, object.as_ref()).with_objects(1))
    }

    fn list(
        &self,
        def: &ResourceDef,
        request: &Request,
        target: &Target,
        effects: &Effects,
    ) -> Result<Reply, Status> {
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
        if def.custom.is_some() {
            for item in &mut page.items {
                *item = self.world.read(|world| world.cluster.shown(def, &target.version, item))?;
            }
        }
        Ok(answer::list(def, &page))
    }

    fn write(
        &self,
        def: &ResourceDef,
        request: &Request,
        target: &Target,
    ) -> Result<Reply, Status> {
        let (action, options) = match target.verb {
            Verb::Create => {
                (Action::Create { object: request.object(&def.kind)? }, "CreateOptions")
            }
            Verb::Update => {
                (Action::Update { object: request.object(&def.kind)? }, "UpdateOptions")
            }
            _ => {
                let (kind, patch) = request.patch()?;
                (Action::Patch { kind, patch }, "PatchOptions")
            }
        };
        let command = Command {
            key: key(def, target),
            action,
            subresource: door(target),
            dry_run: dry_run(request.query.get("dryRun"), options)?,
            version: target.version.clone(),
            validation: validation(request.query.get("fieldValidation"), options)?,
            duplicates: request.duplicate_fields(),
        };
        let (object, effect, warnings) = self.apply(command)?;
        let code = if effect == Effect::Created { StatusCode::CREATED } else { StatusCode::OK };
        Ok(warnings::told(answer::json(code, object.as_ref()).with_objects(1), &warnings))
    }

    fn delete(
        &self,
        def: &ResourceDef,
        request: &Request,
        target: &Target,
    ) -> Result<Reply, Status> {
        let options = request.delete_options()?;
        let command = deletion(key(def, target), request, &options)?.in_version(&*target.version);
        let (object, effect, _) = self.apply(command)?;
        if effect == Effect::Deleted && !def.returns_deleted {
            return Ok(answer::deleted(def, &object).with_objects(1));
        }
        Ok(answer::json(StatusCode::OK, object.as_ref()).with_objects(1))
    }

    /// One deletion after the other, as the real server does it; the answer lists what was there.
    fn delete_collection(
        &self,
        def: &ResourceDef,
        request: &Request,
        target: &Target,
    ) -> Result<Reply, Status> {
        let selection = selection(def, request, target)?;
        let options = request.delete_options()?;
        let page =
            self.world.read(|world| world.cluster.list(&def.id, &selection, &Paging::default()))?;
        // What is answered is what was there.
        for object in &page.items {
            let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
            let key = Key::new(def.id.clone(), namespace, name_of(object));
            match self.apply(deletion(key, request, &options)?) {
                Ok(_) => {}
                Err(status) if status.code == 404 => {}
                Err(status) => return Err(status),
            }
        }
        Ok(answer::list(def, &page))
    }

    fn apply(&self, command: Command) -> Result<(Arc<Value>, Effect, Vec<String>), Status> {
        let applied = self.world.apply(sim_world::Command::Cluster(command));
        match applied.map(|applied| applied.outcome) {
            Ok(Outcome::Object(reply)) => Ok((reply.object, reply.effect, reply.warnings)),
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
    def.serves(&target.version)
        && is_placed
        && (def.has_status(&target.version) || !target.is_status)
        && (def.scale(&target.version).is_some() || !target.is_scale)
}

fn door(target: &Target) -> Option<Subresource> {
    match target {
        Target { is_status: true, .. } => Some(Subresource::Status),
        Target { is_scale: true, .. } => Some(Subresource::Scale),
        _ => None,
    }
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
    let how = manner(request, options)?;
    let asked = text("/dryRun/0").unwrap_or_else(|| request.query.get("dryRun").to_owned());
    Ok(Command {
        dry_run: dry_run(&asked, "DeleteOptions")?,
        action: Action::Delete { preconditions, how },
        ..Command::delete(key)
    })
}

/// How to delete: from the body, or else from the query.
fn manner(request: &Request, options: &Value) -> Result<Deletion, Status> {
    let query = &request.query;
    let asked = options["propagationPolicy"].as_str().unwrap_or(query.get("propagationPolicy"));
    let orphans = options["orphanDependents"]
        .as_bool()
        .or_else(|| query.has("orphanDependents").then(|| query.flag("orphanDependents")));
    let mut errors = FieldErrors::default();
    if orphans.is_some() && !asked.is_empty() {
        let why = "orphanDependents and deletionPropagation cannot be both set";
        errors.invalid("propagationPolicy", &asked.into(), why);
    }
    let propagation = match (asked, orphans) {
        ("", None) => None,
        ("Orphan", _) | ("", Some(true)) => Some(Propagation::Orphan),
        ("Foreground", _) => Some(Propagation::Foreground),
        ("Background", _) | ("", Some(false)) => Some(Propagation::Background),
        (other, _) => {
            let known = ["Foreground", "Background", "Orphan", "nil"];
            errors.not_supported("propagationPolicy", other, &known);
            None
        }
    };
    if !errors.is_empty() {
        return Err(Status::invalid("meta.k8s.io", "DeleteOptions", "", errors));
    }
    let given = options["gracePeriodSeconds"].as_i64();
    let grace_seconds = given.or_else(|| query.get("gracePeriodSeconds").parse().ok());
    Ok(Deletion { propagation, grace_seconds })
}

fn validation(asked: &str, options: &str) -> Result<FieldValidation, Status> {
    match asked {
        "" | "Warn" => Ok(FieldValidation::Warn),
        "Ignore" => Ok(FieldValidation::Ignore),
        "Strict" => Ok(FieldValidation::Strict),
        other => {
            let mut errors = FieldErrors::default();
            let known = ["", "Ignore", "Strict", "Warn"];
            errors.not_supported("fieldValidation", other, &known);
            Err(Status::invalid("meta.k8s.io", options, "", errors))
        }
    }
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
