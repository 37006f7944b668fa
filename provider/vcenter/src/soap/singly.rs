//! Calls that only the `v1` mode makes, as the reference provider does: a check of the session
//! before each search, and searches of one datacenter.

use crate::{CallError, FilterSpec, MoRef, Page, Retry, Vcenter};

impl Vcenter {
    /// Makes sure that a session exists: checks the current one with a call, and logs in if none
    /// exists or the current one has ended. If the answer to the check contains no session, the
    /// client logs out of the current one before it logs in.
    ///
    /// # Errors
    ///
    /// As every login and as every call; see [`CallError::retry`].
    pub async fn connect(&self) -> Result<(), CallError> {
        let Some(session) = self.inner.soap.current() else {
            return self.session().await.map(drop);
        };
        let manager = session.content.session_manager.clone();
        let spec = FilterSpec::of_objects("SessionManager", &["currentSession"], vec![manager]);
        let has_session =
            |page: Page| page.objects.iter().any(|it| it.properties.contains_key("currentSession"));
        let (is_alive, is_answered) = match self.retrieve_first(&session, &spec).await {
            Ok(page) => (has_session(page), true),
            Err(err) if err.retry() == Retry::AfterLogin => (false, false),
            Err(err) => return Err(err),
        };
        if is_alive {
            return Ok(());
        }
        self.inner.soap.invalidate(session.epoch);
        if is_answered {
            // The answer lacks `currentSession`, but the session may still exist on the server.
            self.logout_soap(&session).await;
        }
        self.session().await.map(drop)
    }

    /// `FindByUuid`: returns the virtual machine of a datacenter with this BIOS UUID; the first one
    /// if the server returns several, `None` if the login sees none.
    ///
    /// # Errors
    ///
    /// As every call; see [`CallError::retry`].
    pub async fn find_by_uuid(
        &self,
        datacenter: &MoRef,
        uuid: &str,
    ) -> Result<Option<MoRef>, CallError> {
        let found = self.find("FindByUuid", Some(datacenter), ("uuid", uuid)).await?;
        Ok(found.into_iter().next())
    }

    /// `FindByIp`: returns the first virtual machine of a datacenter whose guest reports this
    /// address; `None` if the login sees none.
    ///
    /// # Errors
    ///
    /// As every call; see [`CallError::retry`].
    pub async fn find_by_ip(
        &self,
        datacenter: &MoRef,
        address: &str,
    ) -> Result<Option<MoRef>, CallError> {
        let found = self.find("FindByIp", Some(datacenter), ("ip", address)).await?;
        Ok(found.into_iter().next())
    }

    /// `FindAllByDnsName`: returns the virtual machines of a datacenter whose guests report this
    /// DNS name.
    ///
    /// # Errors
    ///
    /// As every call; see [`CallError::retry`].
    pub async fn find_all_by_dns_name_in(
        &self,
        datacenter: &MoRef,
        name: &str,
    ) -> Result<Vec<MoRef>, CallError> {
        self.find("FindAllByDnsName", Some(datacenter), ("dnsName", name)).await
    }
}
