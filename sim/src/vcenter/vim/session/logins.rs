//! SessionManager: logins, clone tickets, and operations on other sessions.

use std::collections::BTreeMap;

use sim_world::VcRequest;
use sim_world::vcenter::{EndReason, Password, SessionService, VcFault};

use crate::shared_world::Locked;
use crate::vcenter::vim::data::{Node, Value, VimFault};
use crate::vcenter::vim::operations::{Answer, Caller, Failure, Vim};
use crate::vcenter::vim::properties;

/// Unused clone tickets, each with the token of the session that acquired it.
#[derive(Debug, Default)]
pub(in crate::vcenter::vim) struct Tickets {
    /// Number of tickets issued, also used ones; part of each ticket, so that no two are equal.
    issued: u64,
    open: BTreeMap<String, String>,
}

impl Vim {
    pub(in crate::vcenter::vim) fn login(
        &self,
        world: &mut Locked<'_>,
        caller: &Caller<'_>,
        arguments: &Node,
    ) -> Result<Answer, Failure> {
        let request = VcRequest::Login {
            family: SessionService::Soap,
            token: Some(caller.token.to_owned()),
            user: arguments.required("userName")?.to_owned(),
            password: Password::new(arguments.verbatim("password")?),
            user_agent: caller.user_agent.to_owned(),
        };
        self.request(world, request)?;
        Ok(Answer { result: self.current_session(world, caller), logged_in: true })
    }

    pub(in crate::vcenter::vim) fn logout(
        &self,
        world: &mut Locked<'_>,
        caller: &Caller<'_>,
    ) -> Result<Answer, Failure> {
        self.end(world, caller.token, EndReason::Logout)?;
        Ok(Answer::default())
    }

    pub(in crate::vcenter::vim) fn clone_ticket(
        &self,
        world: &Locked<'_>,
        caller: &Caller<'_>,
    ) -> Value {
        let mut tickets = self.tickets.lock().expect("the lock of the tickets is not poisoned");
        tickets.issued += 1;
        let serial = tickets.issued;
        let path = format!("{}/{}/{serial}", self.vcenter, caller.token);
        let ticket = world.ids().token("clone-ticket", &path);
        let ticket = format!("cst-VCT-{ticket}--tp-{serial}");
        tickets.open.insert(ticket.clone(), caller.token.to_owned());
        Value::text(ticket)
    }

    /// Logs the caller's session in as the user who acquired the ticket. A ticket works once, and
    /// only while the session that acquired it is logged in. Fails with `InvalidLogin` for any
    /// other ticket, and with `InvalidArgument` without a ticket.
    pub(in crate::vcenter::vim) fn clone_session(
        &self,
        world: &mut Locked<'_>,
        caller: &Caller<'_>,
        arguments: &Node,
    ) -> Result<Answer, Failure> {
        let ticket = arguments.required("cloneTicket")?;
        let owner = self
            .tickets
            .lock()
            .expect("the lock of the tickets is not poisoned")
            .open
            .remove(ticket)
            .ok_or(VcFault::InvalidLogin)?;
        let owner = self.vc(world).logins.session(SessionService::Soap, &owner);
        let user = owner.and_then(|session| session.user.clone()).ok_or(VcFault::InvalidLogin)?;
        self.request(world, VcRequest::CloneSession { token: caller.token.to_owned(), user })?;
        Ok(Answer { result: self.current_session(world, caller), logged_in: true })
    }

    pub(in crate::vcenter::vim) fn session_is_active(
        &self,
        world: &Locked<'_>,
        arguments: &Node,
    ) -> Result<Answer, Failure> {
        let key = arguments.required("sessionID")?;
        arguments.required("userName")?;
        let mut sessions = self.vc(world).logins.sessions.values();
        let active = sessions
            .any(|it| it.family == SessionService::Soap && it.key == key && it.user.is_some());
        Ok(Some(Value::from(active)).into())
    }

    pub(in crate::vcenter::vim) fn terminate(
        &self,
        world: &mut Locked<'_>,
        caller: &Caller<'_>,
        arguments: &Node,
    ) -> Result<Answer, Failure> {
        for id in arguments.all("sessionId") {
            let mut sessions = self.vc(world).logins.sessions.iter();
            let token = sessions
                .find(|(_, it)| it.family == SessionService::Soap && it.key == id.text)
                .map(|(token, _)| token.clone());
            match token {
                None => {
                    return Err(VimFault::new("NotFound", "The session was not found.").into());
                }
                Some(token) if token == caller.token => {
                    return Err(VimFault::invalid_argument("sessionId").into());
                }
                Some(token) => self.end(world, &token, EndReason::Terminated)?,
            }
        }
        Ok(Answer::default())
    }

    fn current_session(&self, world: &Locked<'_>, caller: &Caller<'_>) -> Option<Value> {
        let reader = self.reader(world, caller);
        let (_, session) = reader.session?;
        properties::user_session(&reader, session).map(Value::from)
    }
}
