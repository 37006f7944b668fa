//! Calls on objects bound to a session: views, filters, the wait for updates, and paged reads of
//! the inventory.
//!
//! A call that takes a [`Session`] does not log in again, because the objects in its arguments end
//! with the session and only the caller can create new ones.

use std::time::Duration;

use crate::{
    CallError, FilterSpec, MoRef, ObjectContent, Session, UpdateSet, Vcenter,
    xml::{Element, XmlWriter},
};

use super::Scope;

/// Time that the answer of `WaitForUpdatesEx` may take beyond the time for which the server may
/// block.
const POLL_MARGIN: Duration = Duration::from_secs(15);
/// Maximum number of object updates per delivery. The server's default of 100 would cost ten calls
/// per thousand nodes.
const MAX_UPDATES: &str = "1000";

/// Objects that a read of the inventory returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InventoryExtent {
    /// The virtual machines.
    Machines,
    /// The datacenters and the folders above them, and then the virtual machines.
    DatacentersAndMachines,
}

/// State of a paged read of the same properties of all virtual machines, or of those in one
/// container.
#[derive(Debug)]
pub struct InventoryRead {
    session: Session,
    view: MoRef,
    spec: FilterSpec,
    token: Option<String>,
    started: bool,
}

impl Vcenter {
    /// `CreateListView`: creates a view of these objects, and returns it.
    ///
    /// # Errors
    ///
    /// As every call; see [`CallError::retry`]. `ManagedObjectNotFound` if one of the objects is
    /// gone. The caller can then create an empty view and add the objects to it.
    pub async fn create_list_view(
        &self,
        session: &Session,
        objects: &[MoRef],
    ) -> Result<MoRef, CallError> {
        let answer = self
            .call_in_session("CreateListView", session, |out| {
                out.reference("_this", &session.content.view_manager);
                for object in objects {
                    out.reference("obj", object);
                }
            })
            .await?;
        self.returned_reference("CreateListView", &answer)
    }

    /// `ModifyListView`: adds objects to a view and removes others. Returns the references that the
    /// server could not resolve.
    ///
    /// # Errors
    ///
    /// As every call; see [`CallError::retry`]. `ManagedObjectNotFound` if the view is gone.
    pub async fn modify_list_view(
        &self,
        session: &Session,
        view: &MoRef,
        add: &[MoRef],
        remove: &[MoRef],
    ) -> Result<Vec<MoRef>, CallError> {
        let answer = self
            .call_in_session("ModifyListView", session, |out| {
                out.reference("_this", view);
                for object in add {
                    out.reference("add", object);
                }
                for object in remove {
                    out.reference("remove", object);
                }
            })
            .await?;
        Ok(answer.all("returnval").filter_map(MoRef::read).collect())
    }

    /// `DestroyView`: destroys a view.
    ///
    /// # Errors
    ///
    /// As every call; see [`CallError::retry`].
    pub async fn destroy_view(&self, session: &Session, view: &MoRef) -> Result<(), CallError> {
        self.call_in_session("DestroyView", session, |out| {
            out.reference("_this", view);
        })
        .await?;
        Ok(())
    }

    /// `CreateFilter`: creates a filter in the session's property collector, and returns it.
    ///
    /// # Errors
    ///
    /// As every call; see [`CallError::retry`]. `InvalidProperty` names a path that this server
    /// does not know.
    pub async fn create_filter(
        &self,
        session: &Session,
        spec: &FilterSpec,
    ) -> Result<MoRef, CallError> {
        let answer = self
            .call_in_session("CreateFilter", session, |out| {
                out.reference("_this", &session.content.property_collector);
                spec.write("spec", out);
                out.text("partialUpdates", "false");
            })
            .await?;
        self.returned_reference("CreateFilter", &answer)
    }

    /// `DestroyPropertyFilter`: destroys a filter.
    ///
    /// # Errors
    ///
    /// As every call; see [`CallError::retry`].
    pub async fn destroy_filter(&self, session: &Session, filter: &MoRef) -> Result<(), CallError> {
        self.call_in_session("DestroyPropertyFilter", session, |out| {
            out.reference("_this", filter);
        })
        .await?;
        Ok(())
    }

    /// `WaitForUpdatesEx`: returns the changes after `version`, or all objects if `version` is
    /// empty; `None` if nothing changes within `wait`.
    ///
    /// The session counts as active while the call blocks.
    ///
    /// # Errors
    ///
    /// As every call; see [`CallError::retry`]. After `InvalidCollectorVersion`, `RequestCanceled`
    /// and `NotAuthenticated`, the caller must begin again without a version.
    pub async fn wait_for_updates(
        &self,
        session: &Session,
        version: &str,
        wait: Duration,
    ) -> Result<Option<UpdateSet>, CallError> {
        const OPERATION: &str = "WaitForUpdatesEx";
        let deadline = wait + POLL_MARGIN;
        let answer = self
            .soap(OPERATION, Scope::Of(session), deadline, |content, out| {
                out.reference("_this", &content.property_collector);
                out.text("version", version);
                out.nest("options", "", |out| {
                    out.text("maxWaitSeconds", &wait.as_secs().to_string());
                    out.text("maxObjectUpdates", MAX_UPDATES);
                });
            })
            .await?;
        answer
            .child("returnval")
            .map(|value| UpdateSet::read(value).map_err(|what| self.malformed(OPERATION, what)))
            .transpose()
    }

    /// Returns the maximum time that one wait may block, from the settings.
    pub fn poll(&self) -> Duration {
        self.inner.settings.poll
    }

    /// Begins a paged read of `paths` of all virtual machines that the login can see, or of those
    /// in `container`: creates a view of them. `extent` can add the datacenters and folders to the
    /// read. The caller ends the read with [`Vcenter::end_inventory`].
    ///
    /// # Errors
    ///
    /// As every call; see [`CallError::retry`].
    pub async fn read_inventory(
        &self,
        paths: &[&str],
        container: Option<&MoRef>,
        extent: InventoryExtent,
    ) -> Result<InventoryRead, CallError> {
        let mut session = self.session().await?;
        let mut created = self.create_inventory_view(&session, container).await;
        if let Err(err) = &created
            && err.retry() == crate::Retry::AfterLogin
        {
            session = self.session().await?;
            created = self.create_inventory_view(&session, container).await;
        }
        let view = created?;
        let mut spec = FilterSpec::of_view(&view, "VirtualMachine", paths);
        if extent == InventoryExtent::DatacentersAndMachines {
            spec = spec.with_datacenters(session.content.root_folder.clone());
        }
        Ok(InventoryRead { session, view, spec, token: None, started: false })
    }

    /// Creates a view of the virtual machines in `container`, or in the whole inventory.
    async fn create_inventory_view(
        &self,
        session: &Session,
        container: Option<&MoRef>,
    ) -> Result<MoRef, CallError> {
        let container = container.unwrap_or(&session.content.root_folder);
        let answer = self
            .call_in_session("CreateContainerView", session, |out| {
                out.reference("_this", &session.content.view_manager);
                out.reference("container", container);
                out.text("type", "VirtualMachine");
                out.text("recursive", "true");
            })
            .await?;
        self.returned_reference("CreateContainerView", &answer)
    }

    /// Returns the next page of an inventory read; `None` after the last page.
    ///
    /// # Errors
    ///
    /// As every call. The caller must not continue the read after a failed page: the next call may
    /// return `None` although pages are missing.
    pub async fn next_page(
        &self,
        read: &mut InventoryRead,
    ) -> Result<Option<Vec<ObjectContent>>, CallError> {
        let page = match (read.started, read.token.take()) {
            (false, _) => self.retrieve_first(&read.session, &read.spec).await?,
            (true, Some(token)) => self.continue_retrieve(&read.session, &token).await?,
            (true, None) => return Ok(None),
        };
        read.started = true;
        read.token = page.token;
        Ok(Some(page.objects))
    }

    /// Ends an inventory read, complete or not, and destroys its view. Only logs an error.
    pub async fn end_inventory(&self, read: InventoryRead) {
        if let Err(err) = self.destroy_view(&read.session, &read.view).await {
            tracing::debug!(error = %crate::Chain(&err), "destroying the inventory view failed; the view ends with the session");
        }
    }

    /// Makes a call in exactly this session.
    async fn call_in_session(
        &self,
        operation: &'static str,
        session: &Session,
        body: impl Fn(&mut XmlWriter),
    ) -> Result<Element, CallError> {
        let deadline = self.inner.settings.call_deadline;
        self.soap(operation, Scope::Of(session), deadline, |_, out| body(out)).await
    }

    /// Returns the reference in `returnval`.
    fn returned_reference(
        &self,
        operation: &'static str,
        answer: &Element,
    ) -> Result<MoRef, CallError> {
        answer
            .child("returnval")
            .and_then(MoRef::read)
            .ok_or_else(|| self.malformed(operation, "no reference returned"))
    }
}

impl InventoryRead {
    /// True if the read has returned the last page. Not valid after a failed page.
    pub fn is_complete(&self) -> bool {
        self.started && self.token.is_none()
    }
}
