//! Calls that need no object bound to the session: searches, reads of properties, and the
//! keep-alive.

use crate::{
    CallError, FilterSpec, MoRef, ObjectContent, Page, ServiceContent, Vcenter,
    xml::{Element, XmlWriter},
};

use super::Scope;

impl Vcenter {
    /// `CurrentTime`: the cheapest call that keeps a session alive (`govmomi: session/keepalive`).
    ///
    /// Without a session, makes no call and returns `Ok`. Does not replace a session that has
    /// ended. The next call that needs a session logs in.
    ///
    /// # Errors
    ///
    /// As every call. `NotAuthenticated` means that the session had already ended.
    pub async fn keep_alive(&self) -> Result<(), CallError> {
        let Some(session) = self.inner.soap.current() else { return Ok(()) };
        let deadline = self.inner.settings.call_deadline;
        self.soap("CurrentTime", Scope::Of(&session), deadline, |_, out| {
            out.reference("_this", &MoRef::new("ServiceInstance", "ServiceInstance"));
        })
        .await?;
        Ok(())
    }

    /// `FindAllByUuid`: returns all virtual machines with this BIOS UUID that the login sees. An
    /// empty result does not prove that no such machine exists.
    ///
    /// # Errors
    ///
    /// As every call; see [`CallError::retry`].
    pub async fn find_all_by_uuid(&self, uuid: &str) -> Result<Vec<MoRef>, CallError> {
        self.find("FindAllByUuid", None, ("uuid", uuid)).await
    }

    /// `FindAllByDnsName`: returns all virtual machines that the login sees and whose guests report
    /// this DNS name.
    ///
    /// # Errors
    ///
    /// As every call; see [`CallError::retry`].
    pub async fn find_all_by_dns_name(&self, name: &str) -> Result<Vec<MoRef>, CallError> {
        self.find("FindAllByDnsName", None, ("dnsName", name)).await
    }

    /// Searches virtual machines with the method `operation` of the search index, in one
    /// datacenter, or in the whole inventory if `datacenter` is `None`.
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

    /// `RetrievePropertiesEx`: reads the properties of `spec`, all pages.
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
            // A paging token belongs to its session. If the session was lost meanwhile, the whole
            // read fails.
            let session = self.session().await?;
            let page = self.continue_retrieve(&session, &next).await?;
            objects.extend(page.objects);
            token = page.token;
        }
        Ok(objects)
    }

    /// Reads the first page in this session.
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

    /// Reads the page after `token` in this session.
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

/// Additional objects per page if the read includes folders and datacenters, so that the machines
/// need no additional page.
const TREE_ROOM: u32 = 64;

/// Writes the arguments of `RetrievePropertiesEx`.
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
