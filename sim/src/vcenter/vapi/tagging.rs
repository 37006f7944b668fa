//! The tagging service: tags, categories, and the objects that have tags.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};
use sim_world::vcenter::{Cardinality, Category, MoRef, Tag, VCenter, VcFault};
use sim_world::{Outcome, VcRequest};

use super::context::{Context, parse};
use super::dialect::Error;
use super::library;
use super::route::Route;
use crate::call::operations::vapi::{Detail, Operation};
use crate::{Reply, Target};

/// `DynamicID`: a type and an id.
#[derive(Clone, Debug, Deserialize)]
struct ObjectId {
    #[serde(rename = "type")]
    kind: String,
    id: String,
}

#[derive(Deserialize)]
struct OneObject {
    object_id: ObjectId,
}

#[derive(Deserialize)]
struct ManyObjects {
    object_ids: Vec<ObjectId>,
}

#[derive(Deserialize)]
struct ManyTags {
    tag_ids: Vec<String>,
}

#[derive(Deserialize)]
struct ObjectAndTags {
    object_id: ObjectId,
    tag_ids: Vec<String>,
}

#[derive(Deserialize)]
struct OfCategory {
    category_id: String,
}

#[derive(Deserialize)]
struct CategorySpec {
    name: String,
    #[serde(default)]
    description: String,
    cardinality: Cardinality,
    #[serde(default)]
    associable_types: Vec<String>,
}

#[derive(Deserialize)]
struct TagSpec {
    name: String,
    #[serde(default)]
    description: String,
    category_id: String,
}

#[derive(Deserialize)]
struct UpdateSpec {
    name: Option<String>,
    description: Option<String>,
    cardinality: Option<Cardinality>,
}

impl Context<'_> {
    /// Answers a request to the tagging service.
    pub(super) fn tagging(&self, route: &Route, body: &Bytes) -> Result<Reply, Error> {
        let id = || {
            route
                .id
                .clone()
                .ok_or_else(|| Error::invalid_argument("the path names no tag or category"))
        };
        match route.operation {
            Operation::TagList => {
                Ok(self.value(self.list(|vc| vc.tags.tags.keys().cloned().collect())))
            }
            Operation::CategoryList => {
                Ok(self.value(self.list(|vc| vc.tags.categories.keys().cloned().collect())))
            }
            Operation::TagGet => self.get_tag(&id()?),
            Operation::CategoryGet => self.get_category(&id()?),
            Operation::TagCreate => {
                let TagSpec { name, description, category_id } = self.spec(body, "create_spec")?;
                let tag = Tag { category: category_id, name, description };
                self.create(VcRequest::CreateTag(tag))
            }
            Operation::CategoryCreate => {
                let CategorySpec { name, description, cardinality, associable_types } =
                    self.spec(body, "create_spec")?;
                let category = Category { name, description, cardinality, associable_types };
                self.create(VcRequest::CreateCategory(category))
            }
            Operation::TagUpdate => {
                let UpdateSpec { name, description, .. } = self.spec(body, "update_spec")?;
                self.request(VcRequest::UpdateTag { id: id()?, name, description })
            }
            Operation::CategoryUpdate => {
                let UpdateSpec { name, description, cardinality } =
                    self.spec(body, "update_spec")?;
                let id = id()?;
                self.request(VcRequest::UpdateCategory { id, name, description, cardinality })
            }
            Operation::TagDelete => self.request(VcRequest::DeleteTag(id()?)),
            Operation::CategoryDelete => self.request(VcRequest::DeleteCategory(id()?)),
            Operation::TagsForCategory => {
                let category = match &route.id {
                    Some(id) => id.clone(),
                    None => parse::<OfCategory>(body)?.category_id,
                };
                self.tags_of_category(&category)
            }
            Operation::Attach | Operation::Detach => {
                let OneObject { object_id } = parse(body)?;
                let (tag, object) = (id()?, self.object(&object_id)?);
                self.request(match route.operation {
                    Operation::Attach => VcRequest::Attach { tag, object },
                    _ => VcRequest::Detach { tag, object },
                })
            }
            _ => self.associations(route, body, id),
        }
    }

    fn associations(
        &self,
        route: &Route,
        body: &Bytes,
        id: impl Fn() -> Result<String, Error>,
    ) -> Result<Reply, Error> {
        match route.operation {
            Operation::AttachedTags => {
                let OneObject { object_id } = parse(body)?;
                let object = self.object(&object_id)?;
                Ok(self.value(self.read(|vc| self.tags_on(vc, object))))
            }
            Operation::AttachedObjects => {
                let tag = id()?;
                self.read(|vc| {
                    let known = vc.tags.tags.contains_key(&tag);
                    known.then(|| self.objects_of(vc, &tag))
                })
                .map(|objects| self.value(objects))
                .ok_or_else(|| VcFault::TagNotFound(tag).into())
            }
            Operation::AttachedTagsOnObjects => {
                let ManyObjects { object_ids } = parse(body)?;
                let list = self.read(|vc| {
                    let known = object_ids.iter().filter_map(|given| {
                        let object = MoRef::parse(&given.id).filter(|id| self.sees(vc, *id))?;
                        let tags = self.tags_on(vc, object);
                        let any = tags.as_array().is_some_and(|tags| !tags.is_empty());
                        any.then(|| {
                            json!({
                                "object_id": { "id": given.id, "type": given.kind },
                                "tag_ids": tags,
                            })
                        })
                    });
                    Value::Array(known.collect())
                });
                Ok(self.value(list))
            }
            Operation::AttachedObjectsOnTags => {
                let ManyTags { tag_ids } = parse(body)?;
                let list = self.read(|vc| {
                    let known = tag_ids.iter().filter(|tag| vc.tags.tags.contains_key(*tag));
                    let entry =
                        |tag: &String| json!({ "tag_id": tag, "object_ids": self.objects_of(vc, tag) });
                    Value::Array(known.map(entry).collect())
                });
                Ok(self.value(list))
            }
            Operation::AttachMany | Operation::DetachMany => {
                let ObjectAndTags { object_id, tag_ids } = parse(body)?;
                let object = self.object(&object_id)?;
                let attach = route.operation == Operation::AttachMany;
                Ok(self.batch(tag_ids.into_iter().map(|tag| match attach {
                    true => VcRequest::Attach { tag, object },
                    false => VcRequest::Detach { tag, object },
                })))
            }
            Operation::AttachToMany => {
                let ManyObjects { object_ids } = parse(body)?;
                let tag = id()?;
                let objects =
                    object_ids.iter().map(|id| self.object(id)).collect::<Result<Vec<_>, _>>()?;
                Ok(self.batch(
                    objects
                        .into_iter()
                        .map(|object| VcRequest::Attach { tag: tag.clone(), object }),
                ))
            }
            _ => Err(Error::operation_not_found(route.operation.name())),
        }
    }

    fn get_tag(&self, id: &str) -> Result<Reply, Error> {
        let tag = self.read(|vc| {
            let Tag { category, name, description } = vc.tags.tags.get(id)?;
            Some(json!({
                "id": id,
                "category_id": category,
                "name": name,
                "description": description,
                "used_by": [],
            }))
        });
        tag.map(|tag| self.value(tag)).ok_or_else(|| VcFault::TagNotFound(id.to_owned()).into())
    }

    fn get_category(&self, id: &str) -> Result<Reply, Error> {
        let category = self.read(|vc| {
            let Category { name, description, cardinality, associable_types } =
                vc.tags.categories.get(id)?;
            Some(json!({
                "id": id,
                "name": name,
                "description": description,
                "cardinality": cardinality,
                "associable_types": associable_types,
                "used_by": [],
            }))
        });
        let category = category.ok_or_else(|| VcFault::TagNotFound(id.to_owned()))?;
        Ok(self.value(category))
    }

    fn tags_of_category(&self, category: &str) -> Result<Reply, Error> {
        let ids = self.read(|vc| {
            vc.tags.categories.contains_key(category).then(|| {
                let tags = vc.tags.tags.iter().filter(|(_, tag)| tag.category == category);
                tags.map(|(id, _)| id.clone()).collect::<Vec<_>>()
            })
        });
        let ids = ids.ok_or_else(|| VcFault::TagNotFound(category.to_owned()))?;
        Ok(self.value(json!(ids)))
    }

    fn tags_on(&self, vc: &VCenter, object: MoRef) -> Value {
        if self.effects.empty_result {
            return json!([]);
        }
        vc.tags.attached(object).cloned().collect()
    }

    fn objects_of(&self, vc: &VCenter, tag: &str) -> Value {
        let objects = vc.tags.on_tag.get(tag).into_iter().flatten();
        objects
            .filter(|id| !self.effects.empty_result && self.sees(vc, **id))
            .map(|id| json!({ "id": id.to_string(), "type": id.kind.type_name() }))
            .collect()
    }

    /// Carries out several changes, each whether or not others fail. The answer lists the failures.
    fn batch(&self, requests: impl Iterator<Item = VcRequest>) -> Reply {
        let messages: Vec<Value> = requests
            .filter_map(|request| self.apply(request).err())
            .map(|fault| {
                json!({
                    "id": "cis.tagging.batch.error",
                    "default_message": fault.to_string(),
                    "args": [],
                })
            })
            .collect();
        self.value(json!({ "success": messages.is_empty(), "error_messages": messages }))
    }

    fn create(&self, request: VcRequest) -> Result<Reply, Error> {
        match self.apply(request)? {
            Outcome::Id(id) => Ok(self.dialect.created_plain(id.into())),
            _ => Ok(self.dialect.nothing()),
        }
    }

    fn request(&self, request: VcRequest) -> Result<Reply, Error> {
        self.apply(request)?;
        Ok(self.dialect.nothing())
    }

    /// Returns the inventory object that the client names.
    ///
    /// # Errors
    /// Not found, if the object does not exist or has another type, if the user may not see it, or
    /// if a rule hides it.
    fn object(&self, given: &ObjectId) -> Result<MoRef, Error> {
        let known = MoRef::parse(&given.id)
            .filter(|id| id.kind.type_name() == given.kind.trim_start_matches("urn:vim25:"));
        let unknown = || Error::not_found(format!("no {} has the id '{}'", given.kind, given.id));
        let id = known.ok_or_else(unknown)?;
        let exists = self.read(|vc| vc.inventory.get(id).is_some() && self.sees(vc, id));
        if exists { Ok(id) } else { Err(unknown()) }
    }

    fn list(&self, ids: impl FnOnce(&VCenter) -> Vec<String>) -> Value {
        if self.effects.empty_result { json!([]) } else { json!(self.read(ids)) }
    }
}

/// Returns the object that a request refers to: the object in its body, else the id in its path.
pub(super) fn target(vc: Option<&VCenter>, route: &Route, body: &Bytes) -> Target {
    let named = route.id.clone().map(|id| {
        let name = vc.and_then(|vc| {
            let tag = vc.tags.tags.get(&id).map(|tag| &tag.name);
            tag.or_else(|| library::name(vc, &id)).cloned()
        });
        Target { name, moref: Some(id), ..Target::default() }
    });
    let object = serde_json::from_slice::<OneObject>(body).ok().map(|it| it.object_id);
    let Some(object) = object else { return named.unwrap_or_default() };
    let name = MoRef::parse(&object.id)
        .and_then(|id| vc?.inventory.get(id).map(|entity| entity.name.clone()));
    Target { kind: Some(object.kind), name, moref: Some(object.id), ..Target::default() }
}

/// Returns the part of a request that the ledger keeps as text; empty if the body lacks it.
pub(super) fn detail(detail: Detail, body: &Bytes) -> String {
    match detail {
        Detail::Nothing => String::new(),
        Detail::Objects => serde_json::from_slice::<ManyObjects>(body)
            .map(|it| format!("{} objects", it.object_ids.len()))
            .unwrap_or_default(),
        Detail::Tags => serde_json::from_slice::<ManyTags>(body)
            .map(|it| format!("{} tags", it.tag_ids.len()))
            .unwrap_or_default(),
    }
}
