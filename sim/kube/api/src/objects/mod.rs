//! Answers requests for objects: reads, lists, watches, writes and deletions.

mod effects;
pub(crate) mod encodings;
mod watch;

pub use effects::{Effects, WatchEffects};

use std::borrow::Cow;
use std::sync::Arc;

use http::StatusCode;
use kube_sim_store::{
    Action, Command, DeleteOptions, Effect, FieldErrors, FieldSelector, GroupResource, Key,
    LabelSelector, Page, Paging, ResourceDef, Selection, Status, Store, Subresource,
};
use serde_json::Value;

use crate::answer::render::Rendering;
use crate::answer::{self, Reply, failure, warnings};
use crate::backend::Cluster;
use crate::request::Request;
use crate::request::options::{self, WriteOptions};
use crate::request::route::{Target, Verb};
use encodings::EncodingCache;

/// Handler of the requests for objects.
#[derive(Clone, Debug)]
pub(crate) struct Objects {
    cluster: Cluster,
    encodings: EncodingCache,
}

impl Objects {
    pub(crate) fn new(cluster: Cluster) -> Self {
        Self { cluster, encodings: EncodingCache::default() }
    }

    /// Serialized objects that watches share.
    #[cfg(test)]
    pub(crate) fn encodings(&self) -> &EncodingCache {
        &self.encodings
    }

    /// Answers a request for objects; `None` if the server does not serve the resource in the
    /// version and scope of the path.
    pub(crate) fn answer(
        &self,
        request: &Request,
        target: &Target,
        effects: &Effects,
    ) -> Option<Reply> {
        // True if the path has an empty namespace.
        let is_of_namespace = request.path.contains("/namespaces//");
        let fits =
            |def: &ResourceDef| is_served(def, target) && (def.namespaced || !is_of_namespace);
        let def = self.cluster.read(|store| store.resource(&target.resource).cloned());
        let def = def.filter(fits)?.in_version(&target.version);
        Some(self.answer_with(&def, request, target, effects))
    }

    fn answer_with(
        &self,
        def: &ResourceDef,
        request: &Request,
        target: &Target,
        effects: &Effects,
    ) -> Reply {
        if target.verb == Verb::DeleteCollection && def.id == GroupResource::core("namespaces") {
            return answer::failure(&failure::not_allowed());
        }
        if let (false, Err(status)) =
            (target.verb == Verb::Watch, options::check_timeout(&request.query))
        {
            return answer::failure(&status);
        }
        let is_named = matches!(target.verb, Verb::Get | Verb::Patch | Verb::Delete);
        if let (true, Some(why)) = (is_named, unfit_name(&target.name)) {
            let message = format!("Name parameter invalid: {:?}: {why}", target.name);
            return answer::failure(&Status::bad_request(message));
        }
        if let Some(outage) = &effects.conversion_outage {
            let lost = |store: &Store| store.conversion_outage_error(def, &target.version, outage);
            if let Some(status) = self.cluster.read(lost) {
                return answer::failure(&status);
            }
        }
        let answered = match target.verb {
            Verb::Get => self.get(def, request, target, effects),
            Verb::List => self.list(def, request, target, effects),
            Verb::Watch => {
                watch::answer(&self.cluster, &self.encodings, def, request, target, effects)
            }
            Verb::Create | Verb::Update | Verb::Patch => self.write(def, request, target),
            Verb::Delete => self.delete(def, request, target),
            Verb::DeleteCollection => self.delete_collection(def, request, target),
        };
        let reply = answered.unwrap_or_else(|status| answer::failure(&status));
        match def.warning(&target.version) {
            "" => reply,
            warning => warnings::with_warnings(reply, &[warning.to_owned()]),
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
        let rendering = Rendering::of(&self.cluster, def, request)?;
        if effects.empty_result || effects.hides(&target.name) {
            return Err(missing());
        }
        let asked = request.query.version()?;
        let (object, revision) = self.cluster.read(|store| {
            let object = match stale(store, def, request, effects) {
                Some(paging) => as_of(store, def, target, &paging)?,
                None => store.get(&key(def, target)).cloned(),
            };
            Ok::<_, Status>((object, store.revision()))
        })?;
        if asked > revision {
            return Err(Status::too_large_version(asked, revision));
        }
        let object = object.ok_or_else(missing)?;
        let object = self.cluster.read(|store| {
            let shown = store.to_client(def, &target.version, &object)?;
            if target.part != Some(Subresource::Scale) {
                return Ok(shown);
            }
            store.scale_of(def, &target.version, &shown).map(Arc::new)
        })?;
        rendering.one(def, StatusCode::OK, &object, self.cluster.timestamp())
    }

    fn list(
        &self,
        def: &ResourceDef,
        request: &Request,
        target: &Target,
        effects: &Effects,
    ) -> Result<Reply, Status> {
        let rendering = Rendering::of(&self.cluster, def, request)?;
        let selection = selection(def, request, target)?;
        if request.query.has("sendInitialEvents") {
            let mut errors = FieldErrors::default();
            errors.forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list");
            return Err(Status::invalid("meta.k8s.io", "ListOptions", "", errors));
        }
        let paging = paging(request)?;
        if let (true, Some(status)) = (effects.continue_expired, paging.expired()) {
            return Err(status);
        }
        let mut page: Page = self.cluster.read(|store| {
            let paging = stale(store, def, request, effects).unwrap_or(paging);
            store.list(&def.id, &selection, &paging)
        })?;
        if let Some(n) = effects.max_objects() {
            page.items.truncate(n);
            page = Page { continue_token: None, remaining: None, ..page };
        }
        page.items.retain(|item| !effects.hides(name_of(item)));
        self.convert_page(def, &mut page)?;
        rendering.list(def, &page, self.cluster.timestamp())
    }

    fn write(
        &self,
        def: &ResourceDef,
        request: &Request,
        target: &Target,
    ) -> Result<Reply, Status> {
        let rendering = Rendering::of(&self.cluster, def, request)?;
        if target.verb == Verb::Patch {
            // The valid options depend on the patch type.
            request.patch_kind(def)?;
        }
        let options = WriteOptions::read(&request.query, target.verb)?;
        let (api_version, kind) = match target.part {
            Some(Subresource::Scale) => ("autoscaling/v1".to_owned(), "Scale"),
            Some(Subresource::Eviction) => ("policy/v1".to_owned(), "Eviction"),
            Some(Subresource::Binding) => ("v1".to_owned(), "Binding"),
            _ => (answer::api_version(def), def.kind.as_ref()),
        };
        let action = match target.verb {
            Verb::Create => Action::Create { object: request.object(&api_version, kind)? },
            Verb::Update => Action::Update { object: request.object(&api_version, kind)? },
            _ => {
                let (kind, patch) = request.patch(def, options.validation)?;
                Action::Patch { kind, patch }
            }
        };
        let command = Command {
            key: key(def, target),
            action,
            subresource: target.part,
            dry_run: options.dry_run,
            version: target.version.clone(),
            validation: options.validation,
            duplicates: request.duplicate_fields(),
            manager: request.manager(),
        };
        let (object, effect, warnings) = self.apply(command)?;
        let code = if effect == Effect::Created { StatusCode::CREATED } else { StatusCode::OK };
        if matches!(target.part, Some(Subresource::Eviction | Subresource::Binding)) {
            return Ok(warnings::with_warnings(answer::json(code, object.as_ref()), &warnings));
        }
        let reply = rendering.one(def, code, &object, self.cluster.timestamp())?;
        Ok(warnings::with_warnings(reply, &warnings))
    }

    fn delete(
        &self,
        def: &ResourceDef,
        request: &Request,
        target: &Target,
    ) -> Result<Reply, Status> {
        let rendering = Rendering::of(&self.cluster, def, request)?;
        let options = options::delete_options(request)?;
        let (object, effect, _) = self.apply(deletion(key(def, target), def, &options))?;
        if effect == Effect::Deleted && !def.returns_deleted {
            return Ok(answer::deleted(def, &object).with_objects(vec![object]));
        }
        rendering.one(def, StatusCode::OK, &object, self.cluster.timestamp())
    }

    /// Deletes the selected objects one after the other, as the real server does. The answer lists
    /// the objects in their states before the deletion.
    ///
    /// # Errors
    /// A refusal of the request, or the first refusal of a deletion other than 404. The server does
    /// not undo the deletions before that refusal.
    fn delete_collection(
        &self,
        def: &ResourceDef,
        request: &Request,
        target: &Target,
    ) -> Result<Reply, Status> {
        let rendering = Rendering::of(&self.cluster, def, request)?;
        let selection = selection(def, request, target)?;
        let options = options::delete_options(request)?;
        let paging = paging(request)?;
        let mut page = self.cluster.read(|store| store.list(&def.id, &selection, &paging))?;
        for object in &page.items {
            let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
            let key = Key::new(def.id.clone(), namespace, name_of(object));
            match self.apply(deletion(key, def, &options)) {
                Err(status) if status.code != 404 => return Err(status),
                _ => {}
            }
        }
        self.convert_page(def, &mut page)?;
        rendering.list(def, &page, self.cluster.timestamp())
    }

    /// Replaces the stored objects of a page with their forms in the version of `def`, without the
    /// fields that the server hides. Fails if an object cannot be converted.
    fn convert_page(&self, def: &ResourceDef, page: &mut Page) -> Result<(), Status> {
        if def.is_shown_as_kept() {
            return Ok(());
        }
        self.cluster.read(|store| {
            for item in &mut page.items {
                *item = store.to_client(def, &def.version, item)?;
            }
            Ok(())
        })
    }

    fn apply(&self, command: Command) -> Result<(Arc<Value>, Effect, Vec<String>), Status> {
        let reply = self.cluster.apply(command)?;
        Ok((reply.object, reply.effect, reply.warnings))
    }
}

/// Old state from which a fault rule makes the server answer a read; `None` if no rule applies to
/// the read.
///
/// `read_stale` applies to reads without `resourceVersion` or with `resourceVersion=0`, `stale`
/// only to reads with `resourceVersion=0`. Neither applies to a request that continues a list.
pub(crate) fn stale(
    store: &Store,
    def: &ResourceDef,
    request: &Request,
    effects: &Effects,
) -> Option<Paging> {
    let query = &request.query;
    let version = query.get("resourceVersion");
    let n_changes = match effects.read_stale {
        Some(n_changes) if version.is_empty() || version == "0" => n_changes,
        _ => effects.stale.filter(|_| version == "0")?,
    };
    query.get("continue").is_empty().then(|| Paging {
        resource_version: store.revision_before(&def.id, n_changes).to_string(),
        version_match: "Exact".into(),
        ..Paging::default()
    })
}

/// The target object in the state that `paging` selects; `None` if it does not exist in that state.
/// Fails for a state that the store has forgotten or does not have yet.
fn as_of(
    store: &Store,
    def: &ResourceDef,
    target: &Target,
    paging: &Paging,
) -> Result<Option<Arc<Value>>, Status> {
    let selection = Selection::in_namespace(&target.namespace);
    let page = store.list(&def.id, &selection, paging)?;
    Ok(page.items.into_iter().find(|item| name_of(item) == target.name))
}

/// True if the server serves this resource in the version and scope of the path, and with the
/// subresource in the path.
fn is_served(def: &ResourceDef, target: &Target) -> bool {
    let is_everywhere = target.name.is_empty() && matches!(target.verb, Verb::List | Verb::Watch);
    let is_placed = match (def.namespaced, target.namespace.is_empty()) {
        (true, true) => is_everywhere,
        (true, false) | (false, true) => true,
        (false, false) => false,
    };
    def.serves(&target.version)
        && is_placed
        && match target.part {
            Some(Subresource::Status) => def.has_status(&target.version),
            Some(Subresource::Scale) => def.scale(&target.version).is_some(),
            _ => true,
        }
}

fn key(def: &ResourceDef, target: &Target) -> Key {
    Key::new(def.id.clone(), target.namespace.as_str(), target.name.as_str())
}

/// Reason why a name is not allowed in a path; `None` if it is allowed.
///
/// After `apimachinery: pkg/api/validation/path/name.go`.
fn unfit_name(name: &str) -> Option<&'static str> {
    match name {
        "." => Some("may not be '.'"),
        ".." => Some("may not be '..'"),
        _ if name.contains('%') => Some("may not contain '%'"),
        _ => None,
    }
}

pub(crate) fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

pub(crate) fn selection(
    def: &ResourceDef,
    request: &Request,
    target: &Target,
) -> Result<Selection, Status> {
    let asked = request.query.get("fieldSelector");
    let fields = match target.verb {
        Verb::Watch if !target.name.is_empty() => narrow_to_name(asked, &target.name)?.into(),
        _ => Cow::Borrowed(asked),
    };
    Ok(Selection {
        labels: LabelSelector::parse(request.query.get("labelSelector"))?,
        fields: FieldSelector::parse(&fields, def)?,
        ..Selection::in_namespace(&target.namespace)
    })
}

/// Returns the field selector with the added condition that the object has this name.
///
/// # Errors
/// 400 if the selector names another object.
fn narrow_to_name(selector: &str, name: &str) -> Result<String, Status> {
    let other = selector.split(',').find_map(|term| {
        term.strip_prefix("metadata.name==").or(term.strip_prefix("metadata.name="))
    });
    if other.is_some_and(|other| other != name) {
        let message = "fieldSelector metadata.name doesn't match requested name";
        return Err(Status::bad_request(message));
    }
    let escaped = name.replace('\\', "\\\\").replace(',', "\\,").replace('=', "\\=");
    let own = format!("metadata.name={escaped}");
    Ok(if selector.is_empty() { own } else { format!("{selector},{own}") })
}

fn paging(request: &Request) -> Result<Paging, Status> {
    let query = &request.query;
    let limit = query.integer("limit").map_err(Status::bad_request)?.unwrap_or_default();
    Ok(Paging {
        limit: usize::try_from(limit).unwrap_or_default(),
        continue_token: query.get("continue").to_owned(),
        resource_version: query.get("resourceVersion").to_owned(),
        version_match: query.get("resourceVersionMatch").to_owned(),
    })
}

fn deletion(key: Key, def: &ResourceDef, options: &DeleteOptions) -> Command {
    let DeleteOptions { preconditions, how, dry_run, .. } = options.clone();
    Command {
        action: Action::Delete { preconditions, how },
        dry_run,
        ..Command::delete(key).in_version(&*def.version)
    }
}
