//! Creates both Secrets of a new machine: the token, then the user data with it.

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD};

use super::{Bootstrap, MachineKey, data};
use crate::{
    InputError,
    cluster::{ClusterError, encode},
    controllers::autoscaler::{
        group::{Group, Shape},
        supervisor::machine::NewMachine,
        tokens::{BootstrapError, Side, check},
    },
};

/// Longest time for a look at the user data of a group without `token`.
const LOOK: Duration = Duration::from_millis(500);
const CREATE_DATA: &str = "creating the Secret with the user data of a new machine";
const READ_DATA: &str = "reading the user data of the group";

/// User data of a group, with the placeholder. It may have secrets of its own, so it has no `Debug`.
pub(crate) struct UserData {
    text: String,
    ttl: Duration,
}

impl Bootstrap {
    /// Reads the user data of a group with `token`; `None` for a group without.
    ///
    /// # Errors
    ///
    /// If the data cannot be read, or lacks the placeholder, or has it without `token`.
    pub(crate) async fn user_data(
        &self,
        group: &Group,
    ) -> Result<Option<UserData>, BootstrapError> {
        let Shape::VirtualMachine(shape) = &group.shape else { return Ok(None) };
        let (secret, key) = (&shape.bootstrap.secret_name, &shape.bootstrap.key);
        let text = self.text(secret, key);
        let place = |err: InputError| {
            let err = err.at_key(format!("key {key:?} of Secret {secret}"));
            BootstrapError::Input(err.in_source(format!("group {}", group.name)))
        };
        let Some(token) = &shape.bootstrap.token else {
            // The account needs no permission for such groups, and an increase does not wait for it.
            let known = tokio::time::timeout(LOOK, text).await;
            let known = known.ok().and_then(Result::ok).and_then(Result::ok);
            return known
                .map_or(Ok(None), |text| check(&text, false).map(|()| None).map_err(place));
        };
        let text = text.await?.map_err(place)?;
        check(&text, true).map_err(place)?;
        Ok(Some(UserData { text, ttl: token.ttl }))
    }

    async fn text(
        &self,
        secret: &str,
        key: &str,
    ) -> Result<Result<String, InputError>, BootstrapError> {
        let path = format!("{}/{}", self.data_path(), encode(secret));
        let object = match self.supervisor.get(&path).await {
            Ok(object) => object,
            Err(err) if err.says_gone(secret) => {
                let err = InputError::new("the Secret does not exist");
                return Ok(Err(err.remedy("create it, or correct `secretName`")));
            }
            Err(err) => return Err(BootstrapError::of(READ_DATA, Side::Supervisor, &err)),
        };
        let Some(value) = object["data"][key].as_str() else {
            let err = InputError::new("the Secret does not have the key");
            return Ok(Err(err.remedy("add it, or correct `key`")));
        };
        let text = STANDARD.decode(value).ok().and_then(|it| String::from_utf8(it).ok());
        Ok(text.ok_or_else(|| {
            let err = InputError::new("the user data is not UTF-8 text");
            err.remedy("write it without compression")
        }))
    }

    /// Creates the token of a new machine, and the Secret with its user data. The token takes at most
    /// `within`.
    ///
    /// # Errors
    ///
    /// If one of them was not created. What was created has no machine, and is deleted later.
    pub(crate) async fn prepare(
        &self,
        group: &Group,
        new: &NewMachine,
        user_data: &UserData,
        within: Duration,
    ) -> Result<(), BootstrapError> {
        let key = MachineKey { name: new.name.clone(), bios_uuid: new.bios_uuid };
        let of = (group.name.as_str(), &group.id);
        let token = self.workload.mint(of, &key, user_data.ttl, within).await?;
        let of = (self.namespace.as_str(), group.name.as_str());
        let object = data::manifest(&key, of, &user_data.text, (&token, user_data.ttl));
        let path = self.data_path();
        let first = self.supervisor.post(&path, &object).await;
        let is_lost = first.as_ref().is_err_and(ClusterError::lost_the_answer);
        let answer = if is_lost { self.supervisor.post(&path, &object).await } else { first };
        match answer {
            Ok(object) => self.data.apply(&object),
            // The first request took effect, or the Secret is that of another program.
            Err(err) if err.is_conflict() => {
                let name = data::secret_name(&key.name);
                let path = format!("{path}/{}", encode(&name));
                let existing = self.supervisor.get(&path).await;
                let existing = existing
                    .map_err(|err| BootstrapError::of(CREATE_DATA, Side::Supervisor, &err))?;
                if existing["data"] != object["data"] {
                    return Err(BootstrapError::NameTaken(name));
                }
                self.data.apply(&existing);
            }
            Err(err) => return Err(BootstrapError::of(CREATE_DATA, Side::Supervisor, &err)),
        }
        Ok(())
    }
}
