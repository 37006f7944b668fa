//! Content libraries over vAPI REST: searches by name, and the template of an item.
//!
//! The paths below `/rest` are those of vCenter 6.7 U1 and later. Those below `/api` need 7.0 U2.

use http::Method;
use serde_json::{Value, json};

use super::{NO_VALUE, text};
use crate::{CallError, CallErrorKind, MoRef, Vcenter};

const LIBRARY: &str = "/rest/com/vmware/content/library";
const TEMPLATE: &str = "/rest/vcenter/vm-template/library-items";

/// Id of a content library, as vAPI returns it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LibraryId(pub String);

/// Id of an item of a content library, as vAPI returns it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LibraryItemId(pub String);

impl Vcenter {
    /// Finds the content libraries of this name that the login sees. vCenter compares names without
    /// case.
    ///
    /// # Errors
    ///
    /// As every call; see [`CallError::retry`].
    pub async fn find_libraries(&self, name: &str) -> Result<Vec<LibraryId>, CallError> {
        const OPERATION: &str = "content.library.find";
        let (path, body) = (format!("{LIBRARY}?~action=find"), json!({"spec": {"name": name}}));
        let value = self.rest(OPERATION, Method::POST, &path, Some(&body)).await?;
        Ok(self.ids(OPERATION, &value)?.into_iter().map(LibraryId).collect())
    }

    /// Finds the items of this name in a content library. vCenter compares names without case.
    ///
    /// # Errors
    ///
    /// As every call; see [`CallError::retry`].
    pub async fn find_library_items(
        &self,
        library: &LibraryId,
        name: &str,
    ) -> Result<Vec<LibraryItemId>, CallError> {
        const OPERATION: &str = "content.library.item.find";
        let path = format!("{LIBRARY}/item?~action=find");
        let body = json!({"spec": {"library_id": library.0, "name": name}});
        let value = self.rest(OPERATION, Method::POST, &path, Some(&body)).await?;
        Ok(self.ids(OPERATION, &value)?.into_iter().map(LibraryItemId).collect())
    }

    /// Reads the type of an item, such as `vm-template` or `ovf`.
    ///
    /// # Errors
    ///
    /// As every call; see [`CallError::retry`].
    pub async fn library_item_type(&self, item: &LibraryItemId) -> Result<String, CallError> {
        const OPERATION: &str = "content.library.item.get";
        let path = format!("{LIBRARY}/item/id:{}", item.0);
        let value = self.rest(OPERATION, Method::GET, &path, None).await?;
        let kind = text(&value, "type").map(str::to_owned);
        kind.ok_or_else(|| self.malformed(OPERATION, "not a library item"))
    }

    /// Returns the latest template of an item of the type `vm-template`; `None` if it has none.
    ///
    /// # Errors
    ///
    /// As every call; see [`CallError::retry`].
    pub async fn library_template(&self, item: &LibraryItemId) -> Result<Option<MoRef>, CallError> {
        const OPERATION: &str = "vcenter.vm-template.library-items.get";
        let path = format!("{TEMPLATE}/{}", item.0);
        let value = match self.rest(OPERATION, Method::GET, &path, None).await {
            // vAPI leaves out a result that is unset.
            Err(err) if matches!(&err.kind, CallErrorKind::Malformed(why) if why == NO_VALUE) => {
                Value::Null
            }
            value => value?,
        };
        Ok(text(&value, "vm_template").map(|id| MoRef::new("VirtualMachine", id)))
    }
}
