//! Changes of sessions and accounts: login, logout and calls of sessions, and new passwords and
//! permissions of accounts.

use super::Execution;
use crate::command::Grant;
use crate::event::Outcome;
use crate::vcenter::{
    EndReason, LoginEvent, LoginRefusal, LoginRules, MoRef, Password, Session, SessionService,
    User, VcEvent, VcFault,
};

/// Subject of a permission.
enum Subject {
    Object(MoRef),
    /// Id of a content library.
    Library(String),
}

impl Execution<'_> {
    /// Opens an anonymous SOAP session and returns its token. Refuses it if the session table is
    /// full.
    pub(super) fn open_session(
        &mut self,
        vcenter: &str,
        user_agent: String,
    ) -> Result<Outcome, VcFault> {
        if !self.vcenter(vcenter)?.logins.has_room(SessionService::Soap, None) {
            return Err(VcFault::TooManySessions);
        }
        self.open(vcenter, SessionService::Soap, None, user_agent).map(Outcome::Session)
    }

    /// Logs a user in to the anonymous session `token`, or to a new session if no session of
    /// `family` has this token. Refuses a token whose session is logged in, a wrong user or
    /// password, a locked account, and a new session if the session table is full. A wrong password
    /// counts towards the lock-out.
    pub(super) fn login(
        &mut self,
        vcenter: &str,
        family: SessionService,
        token: Option<String>,
        user: &str,
        password: &Password,
        user_agent: String,
    ) -> Result<Outcome, VcFault> {
        let user = &canonical(user);
        let logins = &self.vcenter(vcenter)?.logins;
        let open = token.as_deref().and_then(|token| logins.session(family, token));
        if open.is_some_and(|session| session.user.is_some()) {
            return Err(VcFault::InvalidLogin);
        }
        let has_room = open.is_some() || logins.has_room(family, Some(user));
        let token = token.filter(|_| open.is_some());
        match logins.check(self.now, user, password.expose()) {
            Err((LoginRefusal::InvalidLogin, event)) => {
                if let Some(event) = event {
                    self.emit_vc(vcenter, VcEvent::Login(event));
                }
                return Err(VcFault::InvalidLogin);
            }
            Err((LoginRefusal::TooManySessions, _)) => return Err(VcFault::TooManySessions),
            Ok(_) if !has_room => return Err(VcFault::TooManySessions),
            Ok(Some(event)) => self.emit_vc(vcenter, VcEvent::Login(event)),
            Ok(None) => {}
        }
        let token = match token {
            Some(token) => {
                let event = LoginEvent::LoggedIn {
                    token: token.clone(),
                    user: user.to_owned(),
                    at: self.now,
                };
                self.emit_vc(vcenter, VcEvent::Login(event));
                token
            }
            None => self.open(vcenter, family, Some(user.to_owned()), user_agent)?,
        };
        Ok(Outcome::Session(token))
    }

    /// Logs a user in to an anonymous session without a password, for a client with a clone ticket.
    /// Refuses a token whose session does not exist or is logged in.
    pub(super) fn clone_session(
        &mut self,
        vcenter: &str,
        token: String,
        user: String,
    ) -> Result<Outcome, VcFault> {
        let session = self.vcenter(vcenter)?.logins.session(SessionService::Soap, &token);
        if session.is_none_or(|session| session.user.is_some()) {
            return Err(VcFault::InvalidLogin);
        }
        let event = LoginEvent::LoggedIn { token: token.clone(), user, at: self.now };
        self.emit_vc(vcenter, VcEvent::Login(event));
        Ok(Outcome::Session(token))
    }

    fn open(
        &mut self,
        vcenter: &str,
        family: SessionService,
        user: Option<String>,
        user_agent: String,
    ) -> Result<String, VcFault> {
        let path = format!("{vcenter}/{}", self.vcenter(vcenter)?.logins.opened + 1);
        let ids = self.state.ids;
        let token = match family {
            SessionService::Soap => {
                let head = ids.token("soap-session", &path);
                format!("{head}{}", &ids.token("soap-session-tail", &path)[..8])
            }
            SessionService::Vapi => ids.token("vapi-session", &path),
        };
        let session = Session {
            family,
            key: ids.uuid("session-key", &path).to_string(),
            user,
            login_time: self.now,
            last_active: self.now,
            in_flight: 0,
            calls: 0,
            user_agent,
        };
        let event = LoginEvent::Opened { token: token.clone(), session: Box::new(session) };
        self.emit_vc(vcenter, VcEvent::Login(event));
        Ok(token)
    }

    pub(super) fn end_session(&mut self, vcenter: &str, token: String, reason: EndReason) {
        let known = self.vcenter(vcenter).is_ok_and(|vc| vc.logins.sessions.contains_key(&token));
        if known {
            self.emit_vc(vcenter, VcEvent::Login(LoginEvent::Ended { token, reason }));
        }
    }

    pub(super) fn call_began(&mut self, vcenter: &str, token: String) -> Result<Outcome, VcFault> {
        if !self.vcenter(vcenter)?.logins.sessions.contains_key(&token) {
            return Err(VcFault::NotAuthenticated);
        }
        let event = LoginEvent::CallBegan { token, at: self.now };
        self.emit_vc(vcenter, VcEvent::Login(event));
        Ok(Outcome::Done)
    }

    pub(super) fn call_ended(&mut self, vcenter: &str, token: String) -> Result<Outcome, VcFault> {
        if self.vcenter(vcenter)?.logins.sessions.contains_key(&token) {
            let event = LoginEvent::CallEnded { token, at: self.now };
            self.emit_vc(vcenter, VcEvent::Login(event));
        }
        Ok(Outcome::Done)
    }

    /// Ends every session that has reached the idle timeout of its vCenter. Returns true if at
    /// least one session ended.
    pub(super) fn end_idle_sessions(&mut self) -> bool {
        let now = self.now;
        let ended: Vec<(String, Vec<LoginEvent>)> = self
            .state
            .vcenters
            .iter()
            .map(|(name, vc)| (name.clone(), vc.logins.expired(now)))
            .filter(|(_, ended)| !ended.is_empty())
            .collect();
        let any = !ended.is_empty();
        for (vcenter, events) in ended {
            for event in events {
                self.emit_vc(&vcenter, VcEvent::Login(event));
            }
        }
        any
    }

    pub(super) fn expire_sessions(
        &mut self,
        vcenter: Option<String>,
        family: Option<SessionService>,
    ) -> Result<(), VcFault> {
        let vcenter = self.vcenter_name(vcenter)?;
        self.end_all(&vcenter, family, EndReason::Terminated);
        Ok(())
    }

    pub(super) fn end_all(
        &mut self,
        vcenter: &str,
        family: Option<SessionService>,
        reason: EndReason,
    ) {
        let Ok(vc) = self.vcenter(vcenter) else { return };
        let tokens: Vec<String> = vc
            .logins
            .sessions
            .iter()
            .filter(|(_, session)| family.is_none_or(|family| session.family == family))
            .map(|(token, _)| token.clone())
            .collect();
        for token in tokens {
            self.end_session(vcenter, token, reason);
        }
    }

    pub(super) fn set_login_rules(
        &mut self,
        vcenter: Option<String>,
        rules: LoginRules,
    ) -> Result<(), VcFault> {
        let vcenter = self.vcenter_name(vcenter)?;
        self.emit_vc(&vcenter, VcEvent::Login(LoginEvent::Rules(rules)));
        Ok(())
    }

    pub(super) fn rotate_password(
        &mut self,
        vcenter: Option<String>,
        user: &str,
        password: Password,
    ) -> Result<(), VcFault> {
        let vcenter = self.vcenter_name(vcenter)?;
        self.change_user(&vcenter, user, |account| account.password = password)
    }

    pub(super) fn revoke(&mut self, grant: &Grant) -> Result<(), VcFault> {
        let vcenter = self.vcenter_name(grant.vcenter.clone())?;
        let subject = self.subject(&vcenter, &grant.object)?;
        self.change_user(&vcenter, &grant.user, |account| match subject {
            Subject::Object(object) if account.denied.contains(&object) => {}
            Subject::Object(object) => account.denied.push(object),
            Subject::Library(id) => drop(account.denied_libraries.insert(id)),
        })
    }

    pub(super) fn grant(&mut self, grant: &Grant) -> Result<(), VcFault> {
        let vcenter = self.vcenter_name(grant.vcenter.clone())?;
        let subject = self.subject(&vcenter, &grant.object)?;
        self.change_user(&vcenter, &grant.user, |account| match subject {
            Subject::Object(object) => account.denied.retain(|denied| *denied != object),
            Subject::Library(id) => drop(account.denied_libraries.remove(&id)),
        })
    }

    /// Finds the subject of a permission: an object of the inventory, else a content library.
    fn subject(&self, vcenter: &str, name: &str) -> Result<Subject, VcFault> {
        self.object(vcenter, name).map(Subject::Object).or_else(|err| {
            let library = self.vcenter(vcenter)?.libraries.named(name).next().cloned();
            library.map(Subject::Library).ok_or(err)
        })
    }

    fn change_user(
        &mut self,
        vcenter: &str,
        name: &str,
        edit: impl FnOnce(&mut User),
    ) -> Result<(), VcFault> {
        let users = &self.vcenter(vcenter)?.logins.users;
        let mut user = users
            .get(name)
            .cloned()
            .ok_or_else(|| VcFault::NoSuchName { kind: "user".into(), name: name.to_owned() })?;
        edit(&mut user);
        let event = LoginEvent::UserSet { name: name.to_owned(), user: Box::new(user) };
        self.emit_vc(vcenter, VcEvent::Login(event));
        Ok(())
    }
}

/// Converts a user name to the form in which accounts are stored, in lower case:
/// `VSPHERE.LOCAL\name` becomes `name@vsphere.local`.
fn canonical(user: &str) -> String {
    match user.split_once('\\') {
        Some((domain, name)) => format!("{name}@{domain}").to_lowercase(),
        None => user.to_lowercase(),
    }
}
