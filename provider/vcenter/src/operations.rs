//! Reads that need no object of the session: searches, time, properties.

use crate::{
    CallError, FilterSpec, MoRef, ObjectContent, Page, ServiceContent, Vcenter,
    soap::Scope,
    xml::{Element, XmlWriter},
};

impl Vcenter {
    /// `CurrentTime`: the cheapest call that keeps a session alive (`govmomi: session/keepalive`).
    ///
    /// Sends nothing without a session, and does not replace a session that has ended: the next call that needs
    /// one logs in.
    ///
    /// # Errors
    ///
    /// As every call; `NotAuthenticated` means that the session had ended already.
    pub async fn keep_alive(&self) -> Result<(), CallError> {
        let Some(session) = self.inner.soap.current() else { return Ok(()) };
        let deadline = self.inner.settings.call_deadline;
        self.soap("CurrentTime", Scope::Of(&session), deadline, |_, out| {
            out.reference("_this", &MoRef::new("ServiceInstance", "ServiceInstance"));
        })
        .await?;
        Ok(())
    }

    /// `FindAllByUuid` over virtual machines by BIOS UUID. An empty result proves only that the login sees no
    /// such machine.
    ///
    /// # Errors
    ///
    /// As every call; see [`CallError::retry`].
    pub async fn find_all_by_uuid(&self, uuid: &str) -> Result<Vec<MoRef>, CallError> {
        self.find("FindAllByUuid", None, ("uuid", uuid)).await
    }

    /// `FindAllByDnsName` over virtual machines, as their guests report it.
    ///
    /// # Errors
    ///
    /// As every call; see [`CallError::retry`].
    pub async fn find_all_by_dns_name(&self, name: &str) -> Result<Vec<MoRef>, CallError> {
        self.find("FindAllByDnsName", None, ("dnsName", name)).await
    }

    /// Searches the whole inventory, or one datacenter.
    pub(crate) async fn find(
        &self,
        operation: &'static str,
        datacenter: Option<&MoRef>,
        (argument, value): (&str, &str),
    ) -> Result<Vec<MoRef>, CallError> {
        let deadline = self.inner.settings.call_deadline;
        let answer = self
            .soap(operation, Scope::Any, deadline, |content, out| {
                out.reference("_this", &content.search_index);
                if let Some(datacenter) = datacenter {
                    out.reference("datacenter", datacenter);
                }
                out.text(argument, value);
                out.text("vmSearch", "true");
            })
            .await?;
        answer
            .all("returnval")
            .map(|value| {
                MoRef::read(value).ok_or_else(|| self.malformed(operation, "not a reference"))
            })
            .collect()
    }

    /// `RetrievePropertiesEx`, all pages.
    ///
    /// # Errors
    ///
    /// As every call. `ManagedObjectNotFound` names a starting object that is gone.
    pub async fn retrieve(&self, spec: &FilterSpec) -> Result<Vec<ObjectContent>, CallError> {
        let deadline = self.inner.settings.call_deadline;
        let page_size = self.inner.settings.page_size;
        let answer = self
            .soap("RetrievePropertiesEx", Scope::Any, deadline, |content, out| {
                write_retrieve(content, spec, page_size, out);
            })
            .await?;
        let Page { mut objects, mut token } = Page::read(&answer);
        while let Some(next) = token {
            // Paging tokens belong to the session; a session that was lost meanwhile fails the read as a whole.
            let session = self.session().await?;
            let page = self.continue_retrieve(&session, &next).await?;
            objects.extend(page.objects);
            token = page.token;
        }
        Ok(objects)
    }

    pub(crate) async fn retrieve_first(
        &self,
        session: &crate::Session,
        spec: &FilterSpec,
    ) -> Result<Page, CallError> {
        let deadline = self.inner.settings.call_deadline;
        let page_size = self.inner.settings.page_size;
        let answer: Element = self
            .soap("RetrievePropertiesEx", Scope::Of(session), deadline, |content, out| {
                write_retrieve(content, spec, page_size, out);
            })
            .await?;
        Ok(Page::read(&answer))
    }

    pub(crate) async fn continue_retrieve(
        &self,
        session: &crate::Session,
        token: &str,
    ) -> Result<Page, CallError> {
        let deadline = self.inner.settings.call_deadline;
        let answer = self
            .soap("ContinueRetrievePropertiesEx", Scope::Of(session), deadline, |content, out| {
                out.reference("_this", &content.property_collector);
                out.text("token", token);
            })
            .await?;
        Ok(Page::read(&answer))
    }
}

/// Extra objects per page for the folders and datacenters, so that they do not cost the machines another page.
const TREE_ROOM: u32 = 64;

fn write_retrieve(
    content: &ServiceContent,
    spec: &FilterSpec,
    page_size: u32,
    out: &mut XmlWriter,
) {
    out.reference("_this", &content.property_collector);
    spec.write("specSet", out);
    let page_size = page_size + if spec.tree.is_some() { TREE_ROOM } else { 0 };
    out.nest("options", "", |out| {
        out.text("maxObjects", &page_size.to_string());
    });
}
