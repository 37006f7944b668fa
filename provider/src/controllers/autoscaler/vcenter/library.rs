//! The template of an item of a content library.
//!
//! The server clones this template with `CloneVM_Task`. A deployment through the library cannot set
//! the UUIDs and the mark of a machine, so that a crash after it would leave a machine that no
//! server recognizes.

use provider_vcenter::{
    CallError, CallErrorKind, Chain, FaultKind, LibraryId, LibraryItemId, MoRef, Vcenter,
};

use super::{
    failure::{Shows, Trouble},
    source::Unresolved,
};

/// Type of the items that contain a template.
const TEMPLATE_ITEM: &str = "vm-template";

/// An item of a content library by name.
pub(super) struct Item<'a> {
    pub(super) library: &'a str,
    pub(super) name: &'a str,
}

impl Item<'_> {
    /// Returns the latest template of the item.
    pub(super) async fn template(&self, vcenter: &Vcenter) -> Result<MoRef, Unresolved> {
        let library = self.library(vcenter).await?;
        let item = self.item(vcenter, &library).await?;
        let kind = vcenter.library_item_type(&item).await.map_err(|err| self.failed(err))?;
        if kind != TEMPLATE_ITEM {
            let text = format!("{self} has the type {kind}; name an item of type {TEMPLATE_ITEM}");
            return Err(wrong(&text));
        }
        let template = vcenter.library_template(&item).await.map_err(|err| self.failed(err))?;
        template.ok_or_else(|| wrong(&format!("{self} has no template")))
    }

    async fn library(&self, vcenter: &Vcenter) -> Result<LibraryId, Unresolved> {
        let found = vcenter.find_libraries(self.library).await.map_err(|err| self.failed(err))?;
        self.only(found, || format!("content libraries with the name {:?}", self.library))
    }

    async fn item(
        &self,
        vcenter: &Vcenter,
        library: &LibraryId,
    ) -> Result<LibraryItemId, Unresolved> {
        let found = vcenter.find_library_items(library, self.name).await;
        let found = found.map_err(|err| self.failed(err))?;
        self.only(found, || {
            format!("items with the name {:?} in the content library {:?}", self.name, self.library)
        })
    }

    /// Returns the only object that a search has found.
    fn only<T>(&self, found: Vec<T>, what: impl Fn() -> String) -> Result<T, Unresolved> {
        let n = found.len();
        let mut found = found.into_iter();
        match (found.next(), n) {
            (Some(one), 1) => Ok(one),
            (None, _) => {
                let what = what();
                Err(wrong(&format!("vCenter has no {what}, or the login does not see one")))
            }
            _ => Err(wrong(&format!("vCenter has {n} {}; rename all but one", what()))),
        }
    }

    /// Returns the failure of an item whose template vCenter does not show the login.
    pub(super) fn unseen(&self, template: &MoRef) -> Unresolved {
        let text =
            format!("libraryItem: the login does not see {template}, the template of {self}");
        Unresolved::Wrong(Trouble::other("AUTH", &text, Shows::AtOnce).failure)
    }

    /// Returns the reason of a failed call about the item or its template.
    pub(super) fn failed(&self, err: CallError) -> Unresolved {
        let text = format!("libraryItem: {self}: {}", Chain(&err));
        let failure = match &err.kind {
            CallErrorKind::Rest { status: 403, .. } => {
                Trouble::other("AUTH", &text, Shows::AtOnce).failure
            }
            kind if kind.blames_request() => Trouble::bad_configuration(&text).failure,
            CallErrorKind::Fault(fault) => match fault.kind {
                FaultKind::NoPermission | FaultKind::ManagedObjectNotFound(_) => {
                    Trouble::of_fault(fault, &text).failure
                }
                _ => return err.into(),
            },
            _ => return err.into(),
        };
        Unresolved::Wrong(failure)
    }
}

impl std::fmt::Display for Item<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the item {:?} of the content library {:?}", self.name, self.library)
    }
}

fn wrong(text: &str) -> Unresolved {
    Unresolved::Wrong(Trouble::bad_configuration(&format!("libraryItem: {text}")).failure)
}
