//! The content library service: libraries and their items.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};
use sim_world::Time;
use sim_world::vcenter::{Library, LibraryItem, VCenter, is_same};

use super::context::Context;
use super::dialect::Error;
use super::route::Route;
use crate::Reply;
use crate::call::operations::vapi::Operation;

/// Type of the libraries whose items vCenter itself stores.
const LOCAL: &str = "LOCAL";

/// Criteria of a search for libraries.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FindLibrary {
    name: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
}

/// Criteria of a search for items.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FindItem {
    library_id: Option<String>,
    name: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
}

impl Context<'_> {
    /// Answers a request to the service of libraries or of items.
    pub(super) fn content(&self, route: &Route, body: &Bytes) -> Result<Reply, Error> {
        let id = || route.id.as_deref().ok_or_else(|| Error::invalid_argument("no id in the path"));
        match route.operation {
            Operation::LibraryList => Ok(self.value(self.libraries(|_| true))),
            Operation::LibraryFind => {
                let FindLibrary { name, kind } = self.spec(body, "spec")?;
                if name.is_none() && kind.is_none() {
                    return Err(Error::invalid_argument("spec: name or type is required"));
                }
                let is_local = kind.is_none_or(|kind| kind == LOCAL);
                let fits = |it: &Library| is_local && matches_name(name.as_ref(), &it.name);
                Ok(self.value(self.libraries(fits)))
            }
            Operation::LibraryGet => self.library(id()?),
            Operation::ItemList => {
                let library = route.library.as_deref();
                let library = library
                    .ok_or_else(|| Error::invalid_argument("the query has no library_id"))?;
                self.items(Some(library), |_| true).map(|items| self.value(items))
            }
            Operation::ItemFind => {
                let FindItem { library_id, name, kind } = self.spec(body, "spec")?;
                if library_id.is_none() && name.is_none() && kind.is_none() {
                    return Err(Error::invalid_argument("spec: a criterion is required"));
                }
                let fits = |it: &LibraryItem| {
                    matches_name(name.as_ref(), &it.name)
                        && kind.as_ref().is_none_or(|kind| *kind == it.kind)
                };
                self.items(library_id.as_deref(), fits).map(|items| self.value(items))
            }
            Operation::ItemGet => {
                let id = id()?;
                self.item(id).map(|item| self.value(self.item_json(id, &item)))
            }
            _ => Err(Error::operation_not_found(route.operation.name())),
        }
    }

    /// Returns the item of this id.
    ///
    /// # Errors
    /// Not found, or unauthorized if the user may not see the library.
    pub(super) fn item(&self, id: &str) -> Result<LibraryItem, Error> {
        let item = self.read(|vc| vc.libraries.items.get(id).cloned());
        let item = item.filter(|_| !self.effects.hides(id)).ok_or_else(|| Error::no_library(id))?;
        self.visible(&item.library)?;
        Ok(item)
    }

    /// Ids of the libraries that the user sees and `fits` accepts.
    fn libraries(&self, fits: impl Fn(&Library) -> bool) -> Value {
        if self.effects.empty_result {
            return json!([]);
        }
        self.read(|vc| {
            let seen = vc.libraries.libraries.iter().filter(|(id, library)| {
                vc.may_see_library(self.user, id) && !self.effects.hides(id) && fits(library)
            });
            seen.map(|(id, _)| id.clone()).collect()
        })
    }

    /// Ids of the items, of one library or of all that the user sees.
    fn items(
        &self,
        library: Option<&str>,
        fits: impl Fn(&LibraryItem) -> bool,
    ) -> Result<Value, Error> {
        if let Some(library) = library {
            self.visible(library)?;
        }
        if self.effects.empty_result {
            return Ok(json!([]));
        }
        Ok(self.read(|vc| {
            let seen = vc.libraries.items.iter().filter(|(id, item)| {
                library.is_none_or(|library| item.library == library)
                    && vc.may_see_library(self.user, &item.library)
                    && !self.effects.hides(id)
                    && fits(item)
            });
            seen.map(|(id, _)| id.clone()).collect()
        }))
    }

    fn library(&self, id: &str) -> Result<Reply, Error> {
        self.visible(id)?;
        let shown = self.world.read(|world| {
            let vc = world.vcenter(self.vcenter)?;
            let library = vc.libraries.libraries.get(id)?;
            let created = library.created.timestamp(world.epoch());
            let backings = library.datastore.map(
                |datastore| json!({ "type": "DATASTORE", "datastore_id": datastore.to_string() }),
            );
            Some(json!({
                "id": id,
                "name": library.name,
                "description": "",
                "type": LOCAL,
                "version": "1",
                "creation_time": format!("{created:.3}"),
                "last_modified_time": format!("{created:.3}"),
                "server_guid": vc.instance_uuid,
                "storage_backings": backings.into_iter().collect::<Vec<_>>(),
            }))
        });
        shown.map(|library| self.value(library)).ok_or_else(|| Error::no_library(id))
    }

    fn item_json(&self, id: &str, item: &LibraryItem) -> Value {
        let epoch = self.world.read(|world| world.epoch());
        let at = |time: Time| format!("{:.3}", time.timestamp(epoch));
        json!({
            "id": id,
            "library_id": item.library,
            "name": item.name,
            "description": "",
            "type": item.kind,
            "version": item.version.to_string(),
            "content_version": item.version.to_string(),
            "metadata_version": "1",
            "creation_time": at(item.created),
            "last_modified_time": at(item.modified),
            "cached": true,
            "size": 0,
        })
    }

    /// Refuses a library that does not exist or that the user may not see.
    fn visible(&self, id: &str) -> Result<(), Error> {
        let (exists, is_seen) = self.read(|vc| {
            (vc.libraries.libraries.contains_key(id), vc.may_see_library(self.user, id))
        });
        match (exists && !self.effects.hides(id), is_seen) {
            (false, _) => Err(Error::no_library(id)),
            (true, false) => Err(Error::unauthorized()),
            (true, true) => Ok(()),
        }
    }
}

/// Returns the name of the library or item with this id.
pub(super) fn name<'a>(vc: &'a VCenter, id: &str) -> Option<&'a String> {
    let library = vc.libraries.libraries.get(id).map(|library| &library.name);
    library.or_else(|| vc.libraries.items.get(id).map(|item| &item.name))
}

/// True if a search for a name finds this one. As vCenter, compares without case.
fn matches_name(wanted: Option<&String>, name: &str) -> bool {
    wanted.is_none_or(|wanted| is_same(wanted, name))
}
