//! Contents of answers: the entry points of a server, properties of objects, and their changes.

use std::collections::BTreeMap;

use super::{Fault, MoRef};
use crate::xml::Element;

/// Identity and version that a server reports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// Instance UUID in lower case, unique per vCenter installation; empty if the server reports
    /// none.
    pub instance_uuid: String,
    /// Product version, for the log.
    pub version: String,
}

/// Entry points of a server, from `RetrieveServiceContent`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceContent {
    /// Root folder of the inventory.
    pub root_folder: MoRef,
    /// The default property collector of the session.
    pub property_collector: MoRef,
    /// Manager that creates container and list views.
    pub view_manager: MoRef,
    /// Manager of login and logout.
    pub session_manager: MoRef,
    /// Index that searches by UUID, DNS name and address.
    pub search_index: MoRef,
    /// Identity and version of the server.
    pub about: About,
}

impl ServiceContent {
    /// Decodes the answer of `RetrieveServiceContent`; `None` if an entry point is missing.
    pub(crate) fn read(value: &Element) -> Option<Self> {
        let reference = |name: &str| value.child(name).and_then(MoRef::read);
        let about = value.child("about");
        let text = |name: &str| about.and_then(|a| a.text_of(name)).unwrap_or_default().to_owned();
        Some(Self {
            root_folder: reference("rootFolder")?,
            property_collector: reference("propertyCollector")?,
            view_manager: reference("viewManager")?,
            session_manager: reference("sessionManager")?,
            search_index: reference("searchIndex")?,
            about: About {
                instance_uuid: text("instanceUuid").to_ascii_lowercase(),
                version: text("version"),
            },
        })
    }
}

/// Properties of one object, as read from the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectContent {
    /// The object.
    pub object: MoRef,
    /// Values by property path.
    pub properties: BTreeMap<String, Element>,
    /// Paths that the server could not read, each with the fault.
    pub missing: Vec<(String, Fault)>,
}

impl ObjectContent {
    pub(crate) fn read(element: &Element) -> Option<Self> {
        let object = MoRef::read(element.child("obj")?)?;
        let properties = element
            .all("propSet")
            .filter_map(|p| Some((p.text_of("name")?.to_owned(), p.child("val")?.clone())))
            .collect();
        Some(Self { object, properties, missing: read_missing(element) })
    }

    /// Returns the trimmed text of a property; `None` if the property is missing or its text empty.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.properties.get(path).map(|v| v.text.trim()).filter(|t| !t.is_empty())
    }

    /// Returns the reference in a property; `None` if the property is missing or not a reference.
    pub fn reference(&self, path: &str) -> Option<MoRef> {
        self.properties.get(path).and_then(MoRef::read)
    }
}

/// Reads the `missingSet` elements: paths that the server could not read, each with the fault.
fn read_missing(element: &Element) -> Vec<(String, Fault)> {
    element
        .all("missingSet")
        .filter_map(|m| {
            let fault = m.child("fault")?;
            let kind = fault.child("fault").unwrap_or(fault);
            let message = fault.text_of("localizedMessage").unwrap_or_default();
            Some((m.text_of("path").unwrap_or_default().to_owned(), Fault::read(kind, message)))
        })
        .collect()
}

/// One page of a property read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// Objects of this page.
    pub objects: Vec<ObjectContent>,
    /// Token of the next page; `None` on the last page.
    pub token: Option<String>,
}

impl Page {
    pub(crate) fn read(response: &Element) -> Self {
        let Some(value) = response.child("returnval") else { return Self::default() };
        Self {
            objects: value.all("objects").filter_map(ObjectContent::read).collect(),
            token: value.text_of("token").map(str::to_owned),
        }
    }
}

/// Kind of change of an object with respect to a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateKind {
    /// The object matches the filter now.
    Enter,
    /// Some of the requested properties changed.
    Modify,
    /// The object no longer matches the filter: it was deleted, removed from the view, or is no
    /// longer visible.
    Leave,
}

/// One changed property.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PropertyChange {
    /// Property path; it may name a part of a requested property.
    pub name: String,
    /// New value; `None` if the property became unset.
    pub value: Option<Element>,
}

impl PropertyChange {
    /// Converts values from a read into changes, for callers that accept both.
    pub fn from_values(values: BTreeMap<String, Element>) -> Vec<Self> {
        values.into_iter().map(|(name, value)| Self { name, value: Some(value) }).collect()
    }
}

/// Change of one object in an update set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectUpdate {
    /// Kind of the change.
    pub kind: UpdateKind,
    /// The changed object.
    pub object: MoRef,
    /// The changed properties; for [`UpdateKind::Enter`], all requested properties that are set.
    pub changes: Vec<PropertyChange>,
    /// Paths that the server could not read, each with the fault.
    pub missing: Vec<(String, Fault)>,
}

/// The answer of `WaitForUpdatesEx`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpdateSet {
    /// Version to pass to the next wait.
    pub version: String,
    /// True if more updates are pending. The version is then valid only for the next wait, which
    /// must follow at once.
    pub truncated: bool,
    /// Changes of objects in delivery order.
    pub updates: Vec<ObjectUpdate>,
}

impl UpdateSet {
    /// Decodes a `returnval` of `WaitForUpdatesEx`. The error says what is malformed.
    pub(crate) fn read(value: &Element) -> Result<Self, &'static str> {
        let version = value.text_of("version").ok_or("an update set without a version")?.to_owned();
        let mut updates = Vec::new();
        for update in value.all("filterSet").flat_map(|f| f.all("objectSet")) {
            let kind = match update.text_of("kind") {
                Some("enter") => UpdateKind::Enter,
                Some("modify") => UpdateKind::Modify,
                Some("leave") => UpdateKind::Leave,
                _ => return Err("an object update of unknown kind"),
            };
            let object =
                update.child("obj").and_then(MoRef::read).ok_or("an object update without obj")?;
            let changes = update
                .all("changeSet")
                .filter_map(|c| {
                    let name = c.text_of("name")?.to_owned();
                    let removed = matches!(c.text_of("op"), Some("remove" | "indirectRemove"));
                    Some(PropertyChange {
                        name,
                        value: c.child("val").filter(|_| !removed).cloned(),
                    })
                })
                .collect();
            updates.push(ObjectUpdate { kind, object, changes, missing: read_missing(update) });
        }
        Ok(Self { version, truncated: value.text_of("truncated") == Some("true"), updates })
    }
}
