//! Who may log in to a vCenter, who is logged in, and when sessions end.
//!
//! SOAP and vAPI keep sessions apart, as two processes behind one proxy do. Rules and defaults are
//! those of production servers: 30 minutes of idleness, 2,000 sessions in all (SOAP, anonymous ones
//! included), 550 per user (vAPI), five bad passwords within three minutes lock an
//! account for five minutes.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::refs::MoRef;
use crate::Time;

/// A password. Its `Debug` shows nothing.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Password(String);

impl Password {
    /// Wraps a password.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Whether `attempt` is this password.
    pub fn matches(&self, attempt: &str) -> bool {
        self.0 == attempt
    }

    /// The text, for those who hand out credentials.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(…)")
    }
}

/// Which process keeps a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// vpxd: `/sdk`.
    Soap,
    /// The vAPI endpoint: `/rest` and `/api`.
    Vapi,
}

/// An account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// Its password.
    pub password: Password,
    /// Objects below which it sees nothing, as after a revoked permission.
    pub denied: Vec<MoRef>,
    /// Bad attempts in a row within the window.
    pub failures: u32,
    /// When the first of them was.
    pub first_failure: Option<Time>,
    /// Until when the account is locked.
    pub locked_until: Option<Time>,
}

/// A session; anonymous until a login succeeds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// Which process keeps it.
    pub family: Family,
    /// The key shown in `UserSession`; not the cookie.
    pub key: String,
    /// The account, once logged in.
    pub user: Option<String>,
    /// When it was opened or logged in.
    pub login_time: Time,
    /// When its last call began or ended.
    pub last_active: Time,
    /// Calls being served. A session that waits for updates is not idle.
    pub in_flight: u32,
    /// Calls so far.
    pub calls: u64,
    /// The `User-Agent` of the first call.
    pub user_agent: String,
}

/// The rules of one vCenter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct LoginRules {
    /// Idle time after which a session ends.
    #[serde(with = "crate::duration")]
    pub idle_timeout: Duration,
    /// SOAP sessions at most, anonymous ones included.
    pub soap_cap: u32,
    /// vAPI sessions per user at most.
    pub vapi_cap_per_user: u32,
    /// Bad passwords in a row within the window that lock an account.
    pub lockout_after: u32,
    /// After this time a bad password is forgotten.
    #[serde(with = "crate::duration")]
    pub lockout_window: Duration,
    /// How long a locked account stays locked.
    #[serde(with = "crate::duration")]
    pub lockout_for: Duration,
}

impl Default for LoginRules {
    fn default() -> Self {
        Self {
            idle_timeout: Duration::from_secs(30 * 60),
            soap_cap: 2000,
            vapi_cap_per_user: 550,
            lockout_after: 5,
            lockout_window: Duration::from_secs(180),
            lockout_for: Duration::from_secs(5 * 60),
        }
    }
}

/// Why a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum EndReason {
    /// The client logged out.
    Logout,
    /// Idle for too long.
    Expired,
    /// An administrator ended it.
    Terminated,
    /// The vCenter stopped.
    Stopped,
}

/// A change of accounts or sessions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LoginEvent {
    /// An account was added or changed.
    UserSet {
        /// Its name.
        name: String,
        /// What it is now.
        user: Box<User>,
    },
    /// Somebody opened a session.
    Opened {
        /// The cookie or session id.
        token: String,
        /// The session.
        session: Box<Session>,
    },
    /// A session's owner logged in.
    LoggedIn {
        /// The session's token.
        token: String,
        /// The account.
        user: String,
        /// When.
        at: Time,
    },
    /// A call began.
    CallBegan {
        /// The session's token.
        token: String,
        /// When.
        at: Time,
    },
    /// A call ended.
    CallEnded {
        /// The session's token.
        token: String,
        /// When.
        at: Time,
    },
    /// A session is gone.
    Ended {
        /// Its token.
        token: String,
        /// Why.
        reason: EndReason,
    },
    /// The rules changed.
    Rules(LoginRules),
}

/// Accounts and sessions of one vCenter.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Logins {
    /// Accounts by name.
    pub users: BTreeMap<String, User>,
    /// Sessions by token.
    pub sessions: BTreeMap<String, Session>,
    /// The rules.
    pub rules: LoginRules,
    /// Sessions ever opened; the next token's serial number.
    pub opened: u64,
}

/// Why a login was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoginRefusal {
    /// Wrong user or password, or a locked account: a real server does not say which.
    InvalidLogin,
    /// The session table is full.
    TooManySessions,
}

impl Logins {
    /// A live session.
    pub fn session(&self, family: Family, token: &str) -> Option<&Session> {
        self.sessions.get(token).filter(|session| session.family == family)
    }

    /// Judges a user name and password; on failure tells what becomes of the account.
    pub(crate) fn check(
        &self,
        now: Time,
        name: &str,
        password: &str,
    ) -> Result<Option<LoginEvent>, (LoginRefusal, Option<LoginEvent>)> {
        let Some(user) = self.users.get(name) else {
            return Err((LoginRefusal::InvalidLogin, None));
        };
        if user.locked_until.is_some_and(|until| now < until) {
            return Err((LoginRefusal::InvalidLogin, None));
        }
        let set = |user: User| LoginEvent::UserSet { name: name.to_owned(), user: Box::new(user) };
        if user.password.matches(password) {
            let clean = user.failures == 0 && user.locked_until.is_none();
            let forgiven =
                User { failures: 0, first_failure: None, locked_until: None, ..user.clone() };
            return Ok((!clean).then(|| set(forgiven)));
        }
        let recent =
            user.first_failure.filter(|first| now.since(*first) < self.rules.lockout_window);
        let failures = if recent.is_some() { user.failures + 1 } else { 1 };
        let locked = failures >= self.rules.lockout_after;
        let user = User {
            failures: if locked { 0 } else { failures },
            first_failure: (!locked).then(|| recent.unwrap_or(now)),
            locked_until: locked.then(|| now + self.rules.lockout_for),
            ..user.clone()
        };
        Err((LoginRefusal::InvalidLogin, Some(set(user))))
    }

    /// Whether one more session of this family and user fits.
    pub(crate) fn has_room(&self, family: Family, user: Option<&str>) -> bool {
        let same = self.sessions.values().filter(|session| session.family == family);
        match family {
            Family::Soap => same.count() < self.rules.soap_cap as usize,
            Family::Vapi => {
                let own = same.filter(|session| session.user.as_deref() == user).count();
                own < self.rules.vapi_cap_per_user as usize
            }
        }
    }

    /// When the first idle session ends, if nothing happens until then.
    pub(crate) fn next_expiry(&self) -> Option<Time> {
        self.sessions
            .values()
            .filter(|session| session.in_flight == 0)
            .map(|session| session.last_active + self.rules.idle_timeout)
            .min()
    }

    /// Whether a call is being served.
    pub(crate) fn is_serving(&self) -> bool {
        self.sessions.values().any(|session| session.in_flight > 0)
    }

    /// Sessions that have been idle for too long.
    pub(crate) fn expired(&self, now: Time) -> Vec<LoginEvent> {
        self.sessions
            .iter()
            .filter(|(_, session)| {
                session.in_flight == 0 && session.last_active + self.rules.idle_timeout <= now
            })
            .map(|(token, _)| LoginEvent::Ended {
                token: token.clone(),
                reason: EndReason::Expired,
            })
            .collect()
    }

    /// Ends every call that is being served, as the end of the process does. No event tells of it.
    pub(crate) fn hang_up(&mut self) {
        self.sessions.values_mut().for_each(|session| session.in_flight = 0);
    }

    /// Carries out a change.
    pub(super) fn fold(&mut self, event: &LoginEvent) {
        match event {
            LoginEvent::UserSet { name, user } => {
                self.users.insert(name.clone(), (**user).clone());
            }
            LoginEvent::Opened { token, session } => {
                self.opened += 1;
                self.sessions.insert(token.clone(), (**session).clone());
            }
            LoginEvent::LoggedIn { token, user, at } => {
                if let Some(session) = self.sessions.get_mut(token) {
                    session.user = Some(user.clone());
                    (session.login_time, session.last_active) = (*at, *at);
                }
            }
            LoginEvent::CallBegan { token, at } => {
                if let Some(session) = self.sessions.get_mut(token) {
                    session.last_active = *at;
                    session.in_flight += 1;
                    session.calls += 1;
                }
            }
            LoginEvent::CallEnded { token, at } => {
                if let Some(session) = self.sessions.get_mut(token) {
                    session.last_active = *at;
                    session.in_flight = session.in_flight.saturating_sub(1);
                }
            }
            LoginEvent::Ended { token, .. } => {
                self.sessions.remove(token);
            }
            LoginEvent::Rules(rules) => self.rules = rules.clone(),
        }
    }
}
