//! Changes of tags: requests to the tagging service of vAPI, and the commands `tag.…`, which name
//! their objects.

use crate::act::Execution;
use crate::command::{TagName, VcRequest};
use crate::event::Outcome;
use crate::vcenter::{Cardinality, Category, MoRef, Tag, TagEvent, VcEvent, VcFault};

impl Execution<'_> {
    /// Carries out a request to the tagging service. Refuses an unknown id, a name that is taken,
    /// an empty name of a new category or tag, and an object to which the tag cannot be attached.
    pub(in crate::act) fn tagging(
        &mut self,
        vcenter: &str,
        request: VcRequest,
    ) -> Result<Outcome, VcFault> {
        match request {
            VcRequest::CreateCategory(category) => {
                self.create_category(vcenter, category).map(Outcome::Id)
            }
            VcRequest::UpdateCategory { id, name, description, cardinality } => {
                let mut category = self.category(vcenter, &id)?.clone();
                if let Some(name) = name.filter(|name| *name != category.name) {
                    self.category_name_is_free(vcenter, &name)?;
                    category.name = name;
                }
                category.description = description.unwrap_or(category.description);
                category.cardinality = cardinality.unwrap_or(category.cardinality);
                self.emit_tag(vcenter, TagEvent::CategorySet { id, category })
            }
            VcRequest::DeleteCategory(id) => {
                self.category(vcenter, &id)?;
                self.emit_tag(vcenter, TagEvent::CategoryDeleted(id))
            }
            VcRequest::CreateTag(tag) => self.create_tag(vcenter, tag).map(Outcome::Id),
            VcRequest::UpdateTag { id, name, description } => {
                let mut tag = self.tag(vcenter, &id)?.clone();
                if let Some(name) = name.filter(|name| *name != tag.name) {
                    self.tag_name_is_free(vcenter, &tag.category, &name)?;
                    tag.name = name;
                }
                tag.description = description.unwrap_or(tag.description);
                self.emit_tag(vcenter, TagEvent::TagSet { id, tag })
            }
            VcRequest::DeleteTag(id) => {
                self.tag(vcenter, &id)?;
                self.emit_tag(vcenter, TagEvent::TagDeleted(id))
            }
            VcRequest::Attach { tag, object } => self.attach(vcenter, tag, object),
            VcRequest::Detach { tag, object } => {
                self.tag(vcenter, &tag)?;
                self.emit_tag(vcenter, TagEvent::Detached { tag, object })
            }
            VcRequest::OpenSession { .. }
            | VcRequest::Login { .. }
            | VcRequest::CloneSession { .. }
            | VcRequest::EndSession { .. }
            | VcRequest::CallBegan { .. }
            | VcRequest::CallEnded { .. }
            | VcRequest::StartTask { .. }
            | VcRequest::Deploy { .. }
            | VcRequest::Guest { .. } => Err(VcFault::NotSupported),
        }
    }

    fn attach(&mut self, vcenter: &str, tag: String, object: MoRef) -> Result<Outcome, VcFault> {
        let category = self.tag(vcenter, &tag)?.category.clone();
        self.check_attachable(vcenter, &category, Some(&tag), object)?;
        if self.vcenter(vcenter)?.tags.attached(object).any(|id| *id == tag) {
            return Ok(Outcome::Done);
        }
        self.emit_tag(vcenter, TagEvent::Attached { tag, object })
    }

    /// Refuses an object that cannot carry `tag` of this category besides its present tags. `None`
    /// stands for a tag that does not exist yet.
    fn check_attachable(
        &self,
        vcenter: &str,
        category: &str,
        tag: Option<&String>,
        object: MoRef,
    ) -> Result<(), VcFault> {
        let vc = self.vcenter(vcenter)?;
        let Category { cardinality, associable_types, name, .. } =
            self.category(vcenter, category)?;
        if vc.inventory.get(object).is_none() {
            return Err(VcFault::ManagedObjectNotFound(object));
        }
        let kind = object.kind.type_name();
        let fits = |one: &String| one == kind || one.strip_prefix("urn:vim25:") == Some(kind);
        if !associable_types.is_empty() && !associable_types.iter().any(fits) {
            return Err(VcFault::TagNotAttachable(format!(
                "tags of category '{name}' cannot be attached to a {kind}"
            )));
        }
        let of_category =
            |id: &&String| vc.tags.tags.get(*id).is_some_and(|t| t.category == category);
        let other = vc.tags.attached(object).filter(of_category).any(|id| Some(id) != tag);
        if *cardinality == Cardinality::Single && other {
            return Err(VcFault::TagNotAttachable(format!(
                "the object already carries a tag of category '{name}', which allows one"
            )));
        }
        Ok(())
    }

    /// Attaches a tag that the command names. Creates its category and the tag if they do not
    /// exist. A refused command creates nothing.
    pub(in crate::act) fn attach_by_name(&mut self, name: &TagName) -> Result<(), VcFault> {
        let vcenter = self.vcenter_name(name.vcenter.clone())?;
        let object = self.object(&vcenter, &name.object)?;
        if name.category.is_empty() || name.tag.is_empty() {
            return Err(VcFault::InvalidArgument("name".into()));
        }
        let tags = &self.vcenter(&vcenter)?.tags;
        let category = tags.category_named(&name.category).map(|(id, _)| id.clone());
        let tag = category.as_ref().and_then(|category| tags.tag_named(category, &name.tag));
        let tag = tag.map(|(id, _)| id.clone());
        if let Some(category) = &category {
            self.check_attachable(&vcenter, category, tag.as_ref(), object)?;
        }
        let category = match category {
            Some(id) => id,
            None => self.create_category(
                &vcenter,
                Category {
                    name: name.category.clone(),
                    description: String::new(),
                    cardinality: Cardinality::Multiple,
                    associable_types: Vec::new(),
                },
            )?,
        };
        let tag = match tag {
            Some(id) => id,
            None => self.create_tag(
                &vcenter,
                Tag { category, name: name.tag.clone(), description: String::new() },
            )?,
        };
        self.attach(&vcenter, tag, object).map(|_| ())
    }

    pub(in crate::act) fn detach_by_name(&mut self, name: &TagName) -> Result<(), VcFault> {
        let vcenter = self.vcenter_name(name.vcenter.clone())?;
        let object = self.object(&vcenter, &name.object)?;
        let tags = &self.vcenter(&vcenter)?.tags;
        let tag = tags
            .category_named(&name.category)
            .and_then(|(category, _)| tags.tag_named(category, &name.tag))
            .map(|(id, _)| id.clone())
            .ok_or_else(|| VcFault::NoSuchName { kind: "tag".into(), name: name.tag.clone() })?;
        self.emit_tag(&vcenter, TagEvent::Detached { tag, object }).map(|_| ())
    }

    /// Detaches every tag from an object; callers then remove the object or change its id.
    pub(in crate::act) fn untag(&mut self, vcenter: &str, object: MoRef) {
        let Ok(vc) = self.vcenter(vcenter) else { return };
        let attached: Vec<String> = vc.tags.attached(object).cloned().collect();
        for tag in attached {
            self.emit_vc(vcenter, VcEvent::Tag(TagEvent::Detached { tag, object }));
        }
    }

    fn create_category(&mut self, vcenter: &str, category: Category) -> Result<String, VcFault> {
        if category.name.is_empty() {
            return Err(VcFault::InvalidArgument("name".into()));
        }
        self.category_name_is_free(vcenter, &category.name)?;
        let id = self.next_urn(vcenter, "Category")?;
        self.emit_tag(vcenter, TagEvent::CategorySet { id: id.clone(), category })?;
        Ok(id)
    }

    fn create_tag(&mut self, vcenter: &str, tag: Tag) -> Result<String, VcFault> {
        if tag.name.is_empty() {
            return Err(VcFault::InvalidArgument("name".into()));
        }
        self.category(vcenter, &tag.category)?;
        self.tag_name_is_free(vcenter, &tag.category, &tag.name)?;
        let id = self.next_urn(vcenter, "Tag")?;
        self.emit_tag(vcenter, TagEvent::TagSet { id: id.clone(), tag })?;
        Ok(id)
    }

    fn next_urn(&self, vcenter: &str, kind: &str) -> Result<String, VcFault> {
        let path = format!("{vcenter}/{}", self.vcenter(vcenter)?.tags.created + 1);
        let uuid = self.state.ids.uuid("tag", &path);
        Ok(format!("urn:vmomi:InventoryService{kind}:{uuid}:GLOBAL"))
    }

    fn category(&self, vcenter: &str, id: &str) -> Result<&Category, VcFault> {
        let categories = &self.vcenter(vcenter)?.tags.categories;
        categories.get(id).ok_or_else(|| VcFault::TagNotFound(id.to_owned()))
    }

    fn tag(&self, vcenter: &str, id: &str) -> Result<&Tag, VcFault> {
        let tags = &self.vcenter(vcenter)?.tags.tags;
        tags.get(id).ok_or_else(|| VcFault::TagNotFound(id.to_owned()))
    }

    fn category_name_is_free(&self, vcenter: &str, name: &str) -> Result<(), VcFault> {
        match self.vcenter(vcenter)?.tags.category_named(name) {
            Some(_) => Err(VcFault::TagExists(name.to_owned())),
            None => Ok(()),
        }
    }

    fn tag_name_is_free(&self, vcenter: &str, category: &str, name: &str) -> Result<(), VcFault> {
        match self.vcenter(vcenter)?.tags.tag_named(category, name) {
            Some(_) => Err(VcFault::TagExists(name.to_owned())),
            None => Ok(()),
        }
    }

    fn emit_tag(&mut self, vcenter: &str, event: TagEvent) -> Result<Outcome, VcFault> {
        self.emit_vc(vcenter, VcEvent::Tag(event));
        Ok(Outcome::Done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Command, Time, Topology};

    /// Returns the command that attaches a tag to the first machine.
    fn attach(category: &str, tag: &str) -> Command {
        Command::AttachTag(TagName {
            vcenter: None,
            category: category.to_owned(),
            tag: tag.to_owned(),
            object: "node-0001".to_owned(),
        })
    }

    #[test]
    fn a_refused_attachment_creates_neither_category_nor_tag() {
        let epoch = "2026-03-01T08:00:00Z".parse().unwrap();
        let mut world = Topology::default().machines(1).build(epoch, 0);
        let single = Category {
            name: "single".to_owned(),
            description: String::new(),
            cardinality: Cardinality::Single,
            associable_types: Vec::new(),
        };
        let request = VcRequest::CreateCategory(single);
        world.apply(Time::ZERO, Command::Request { vcenter: "vc0".into(), request }).unwrap();
        world.apply(Time::ZERO, attach("single", "first")).unwrap();
        let before = world.vcenter("vc0").unwrap().tags.clone();
        for (name, refused) in [
            ("a second tag of a category that allows one", attach("single", "second")),
            ("a new category and an empty tag name", attach("new", "")),
            ("an empty category name", attach("", "tag")),
        ] {
            assert!(world.apply(Time::ZERO, refused).is_err(), "{name}");
            assert_eq!(world.vcenter("vc0").unwrap().tags, before, "{name}");
        }
    }
}
