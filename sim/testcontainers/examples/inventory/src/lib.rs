//! Lists the virtual machines of a vCenter, even if the vCenter is busy for a moment.
//!
//! Makes a call up to three times, with pauses, if the connection breaks or the status is neither
//! 200 nor 500, for example 503. Logs in again, once, if the vCenter has ended the session. Every
//! other fault is an error.

mod soap;

use std::time::Duration;

use soap::{Call, Soap, element, elements, escaped};

/// Maximum number of tries of a call.
const TRIES: u32 = 3;
/// Pause after the first failure of a call; doubles after each further failure.
const PAUSE: Duration = Duration::from_millis(50);

/// A virtual machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Name in the inventory.
    pub name: String,
    /// Power state: `poweredOn`, `poweredOff` or `suspended`.
    pub power: String,
}

/// Reason for which [`list`] failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The certificate authority is invalid.
    #[error("invalid certificate authority: expected certificates as PEM")]
    Authority(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The vCenter refuses the user name or the password.
    #[error("the vCenter refused the login of {user}: check user name and password")]
    Login {
        /// Name of the user.
        user: String,
    },
    /// Every try of a call failed.
    #[error("{operation} failed {TRIES} times")]
    Unavailable {
        /// Name of the operation.
        operation: &'static str,
        /// The last failure.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The vCenter answers with a fault.
    #[error("the vCenter refused {operation} with the fault {fault}")]
    Fault {
        /// Name of the operation.
        operation: &'static str,
        /// Class of the fault.
        fault: String,
    },
    /// The answer lacks a required element.
    #[error("the answer to {operation} has no element {missing}")]
    Answer {
        /// Name of the operation.
        operation: &'static str,
        /// Name of the missing element.
        missing: &'static str,
    },
}

/// Returns every virtual machine, sorted by name. Logs out at the end if it succeeds.
///
/// # Errors
/// [`Error::Authority`] for invalid certificates, [`Error::Login`] if the vCenter refuses the
/// login, [`Error::Unavailable`] after three failed tries of a call, [`Error::Fault`] for any other
/// fault, and [`Error::Answer`] if an answer lacks an element. The first fault `NotAuthenticated`
/// leads to a new login instead.
pub async fn list(
    url: &str,
    user: &str,
    password: &str,
    ca_pem: &[u8],
) -> Result<Vec<Machine>, Error> {
    let mut vcenter = VCenter { soap: Soap::new(url, ca_pem)?, user, password };
    let content =
        vcenter.ask("RetrieveServiceContent", ("ServiceInstance", "ServiceInstance"), "").await?;
    let part = |name| {
        element(&content, name)
            .ok_or(Error::Answer { operation: "RetrieveServiceContent", missing: name })
    };
    let (root, views, collector) =
        (part("rootFolder")?, part("viewManager")?, part("propertyCollector")?);
    vcenter.log_in().await?;
    // A view ends with its session, so after a lost session the list starts over with a new view.
    let mut listed = vcenter.machines(root, views, collector).await;
    if matches!(&listed, Err(Error::Fault { fault, .. }) if fault == "NotAuthenticated") {
        vcenter.log_in().await?;
        listed = vcenter.machines(root, views, collector).await;
    }
    let mut machines = listed?;
    vcenter.ask("Logout", SESSIONS, "").await?;
    machines.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(machines)
}

const SESSIONS: (&str, &str) = ("SessionManager", "SessionManager");

struct VCenter<'a> {
    soap: Soap,
    user: &'a str,
    password: &'a str,
}

impl VCenter<'_> {
    async fn log_in(&mut self) -> Result<(), Error> {
        let arguments = format!(
            "<userName>{}</userName><password>{}</password>",
            escaped(self.user),
            escaped(self.password)
        );
        // A vCenter refuses a login in a session that is already logged in.
        self.soap.forget();
        match self.ask("Login", SESSIONS, &arguments).await {
            Ok(_) => Ok(()),
            Err(Error::Fault { fault, .. }) if fault == "InvalidLogin" => {
                Err(Error::Login { user: self.user.to_owned() })
            }
            Err(error) => Err(error),
        }
    }

    async fn machines(
        &mut self,
        root: &str,
        views: &str,
        collector: &str,
    ) -> Result<Vec<Machine>, Error> {
        let what = format!(
            r#"<container type="Folder">{root}</container><type>VirtualMachine</type><recursive>true</recursive>"#
        );
        let view = self.ask("CreateContainerView", ("ViewManager", views), &what).await?;
        let view = element(&view, "returnval")
            .ok_or(Error::Answer { operation: "CreateContainerView", missing: "returnval" })?;
        let what = format!(
            r#"<specSet><propSet><type>VirtualMachine</type><pathSet>name</pathSet><pathSet>runtime.powerState</pathSet></propSet>
<objectSet><obj type="ContainerView">{view}</obj><skip>true</skip><selectSet xsi:type="TraversalSpec"><type>ContainerView</type>
<path>view</path><skip>false</skip></selectSet></objectSet></specSet><options><maxObjects>100</maxObjects></options>"#
        );
        let collector = ("PropertyCollector", collector);
        let mut page = self.ask("RetrievePropertiesEx", collector, &what).await?;
        let mut machines = Vec::new();
        loop {
            machines.extend(elements(&page, "objects").map(machine));
            let Some(token) = element(&page, "token") else { return Ok(machines) };
            let what = format!("<token>{}</token>", escaped(token));
            page = self.ask("ContinueRetrievePropertiesEx", collector, &what).await?;
        }
    }

    /// Makes one call, and repeats it after a broken connection or a status other than 200 and 500,
    /// at most [`TRIES`] tries in all. Returns the body of the answer with status 200. Status 500
    /// is an [`Error::Fault`].
    async fn ask(
        &mut self,
        operation: &'static str,
        this: (&'static str, &str),
        arguments: &str,
    ) -> Result<String, Error> {
        let mut pause = PAUSE;
        for n_try in 1.. {
            let source = match self.soap.send(Call { operation, this, arguments }).await {
                Ok((200, body)) => return Ok(body),
                Ok((500, body)) => {
                    return Err(Error::Fault { operation, fault: soap::fault(&body) });
                }
                Ok((status, _)) => format!("HTTP status {status}").into(),
                Err(error) => error,
            };
            if n_try == TRIES {
                return Err(Error::Unavailable { operation, source });
            }
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
        unreachable!("the loop returns at the latest after {TRIES} tries")
    }
}

/// Builds a machine from its properties, each with a `name` and a `val`. A missing property becomes
/// an empty text.
fn machine(object: &str) -> Machine {
    let property = |wanted: &str| {
        let mut all = elements(object, "propSet");
        let found = all.find(|it| element(it, "name") == Some(wanted));
        found.and_then(|it| element(it, "val")).unwrap_or_default().to_owned()
    };
    Machine { name: property("name"), power: property("runtime.powerState") }
}
