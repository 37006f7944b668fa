//! Accounts and sessions of a vCenter, and the rules for logins and session expiry.
//!
//! SOAP and vAPI keep separate sessions, because they are two processes behind one proxy. Rules and
//! defaults are those of production servers. Sessions end after 30 minutes of idleness. SOAP allows
//! 2,000 sessions in all, including anonymous ones, and vAPI 550 sessions per user. Five wrong
//! passwords within three minutes lock an account for five minutes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::refs::MoRef;
use crate::Time;

/// A password. Its `Debug` output hides the text.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Password(String);

impl Password {
    /// Wraps a password.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// True if `attempt` is this password.
    pub fn matches(&self, attempt: &str) -> bool {
        self.0 == attempt
    }

    /// The text, for code that issues credentials.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(…)")
    }
}

/// Process of a vCenter that keeps a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SessionService {
    /// vpxd, which serves `/sdk`.
    Soap,
    /// The vAPI endpoint, which serves `/rest` and `/api`.
    Vapi,
}

/// Account of a vCenter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct User {
    /// Current password of the account.
    pub password: Password,
    /// Objects that the account cannot see, with everything below them, as after a revoked
    /// permission.
    pub denied: Vec<MoRef>,
    /// Ids of the content libraries that the account cannot see, with their items.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub denied_libraries: BTreeSet<String>,
    /// Number of consecutive wrong passwords within [`LoginRules::lockout_window`].
    pub failures: u32,
    /// Time of the first of these wrong passwords; `None` if `failures` is 0.
    pub first_failure: Option<Time>,
    /// Time until which the account is locked; may be past. `None` before the first lock, and after
    /// the next accepted login or counted wrong password.
    pub locked_until: Option<Time>,
}

/// Session of a client; anonymous until a login succeeds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Session {
    /// Process that keeps the session.
    pub family: SessionService,
    /// Key of the session in `UserSession`, which differs from the cookie.
    pub key: String,
    /// Account that is logged in; `None` while the session is anonymous.
    pub user: Option<String>,
    /// Time of the login; before the login, time at which the session was opened.
    pub login_time: Time,
    /// Time of the latest of these: the opening or login of the session, the beginning or end of a
    /// call.
    pub last_active: Time,
    /// Number of calls in flight. A session with a call in flight, such as a wait for updates, is
    /// not idle.
    pub in_flight: u32,
    /// Number of calls that have begun on the session.
    pub calls: u64,
    /// `User-Agent` of the call that opened the session.
    pub user_agent: String,
}

/// The login and session rules of one vCenter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct LoginRules {
    /// Idle time after which a session ends; 30 min by default.
    #[serde(with = "crate::duration")]
    pub idle_timeout: Duration,
    /// Maximum number of SOAP sessions, anonymous ones included; 2,000 by default.
    pub soap_cap: u32,
    /// Maximum number of vAPI sessions per user; 550 by default.
    pub vapi_cap_per_user: u32,
    /// Number of consecutive wrong passwords within `lockout_window` that locks an account; 5 by
    /// default.
    pub lockout_after: u32,
    /// Time from the first wrong password, after which the next wrong password counts as the first
    /// again; 3 min by default.
    #[serde(with = "crate::duration")]
    pub lockout_window: Duration,
    /// Duration of the lock of an account; 5 min by default.
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

/// The reason why a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum EndReason {
    /// The client logged out.
    Logout,
    /// The session was idle for [`LoginRules::idle_timeout`].
    Expired,
    /// An administrator or the command `session.expireAll` ended it.
    Terminated,
    /// The vCenter stopped or got another instance UUID.
    Stopped,
}

/// A change of accounts or sessions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LoginEvent {
    /// An account was added or changed.
    UserSet {
        /// Name of the account.
        name: String,
        /// New state of the account.
        user: Box<User>,
    },
    /// A client opened a session.
    Opened {
        /// Token of the session: the SOAP cookie or the vAPI session id.
        token: String,
        /// Initial state of the session.
        session: Box<Session>,
    },
    /// A client logged in to its open session.
    LoggedIn {
        /// Token of the session.
        token: String,
        /// Account that logged in.
        user: String,
        /// Time of the login.
        at: Time,
    },
    /// A call on a session began.
    CallBegan {
        /// Token of the session.
        token: String,
        /// Time at which the call began.
        at: Time,
    },
    /// A call on a session ended.
    CallEnded {
        /// Token of the session.
        token: String,
        /// Time at which the call ended.
        at: Time,
    },
    /// A session ended.
    Ended {
        /// Token of the session.
        token: String,
        /// Reason why the session ended.
        reason: EndReason,
    },
    /// The rules for logins and sessions were replaced.
    Rules(LoginRules),
}

/// Accounts and sessions of one vCenter.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Logins {
    /// Accounts by name.
    pub users: BTreeMap<String, User>,
    /// Sessions by token.
    pub sessions: BTreeMap<String, Session>,
    /// Rules for logins and for the expiry of sessions.
    pub rules: LoginRules,
    /// Number of sessions ever opened; the token of the next session depends on it.
    pub opened: u64,
}

/// The reason why a login was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoginRefusal {
    /// The user or password is wrong, or the account is locked. A real server does not say which.
    InvalidLogin,
    /// The session table is full.
    TooManySessions,
}

impl Logins {
    /// Returns the open session of this family with this token; `None` if the session does not
    /// exist, has ended, or is of the other family.
    pub fn session(&self, family: SessionService, token: &str) -> Option<&Session> {
        self.sessions.get(token).filter(|session| session.family == family)
    }

    /// Checks a user name and password at `now`. Refuses an unknown user, a wrong password, and
    /// every password while the account is locked. On success and on failure, returns the change of
    /// the account (count of wrong passwords, lock), if any.
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

    /// True if the rules allow one more session of this family; for vAPI, one more session of this
    /// user.
    pub(crate) fn has_room(&self, family: SessionService, user: Option<&str>) -> bool {
        let same = self.sessions.values().filter(|session| session.family == family);
        match family {
            SessionService::Soap => same.count() < self.rules.soap_cap as usize,
            SessionService::Vapi => {
                let own = same.filter(|session| session.user.as_deref() == user).count();
                own < self.rules.vapi_cap_per_user as usize
            }
        }
    }

    /// The time at which the next idle session expires, if it serves no call before. `None` if no
    /// session is idle.
    pub(crate) fn next_expiry(&self) -> Option<Time> {
        self.sessions
            .values()
            .filter(|session| session.in_flight == 0)
            .map(|session| session.last_active + self.rules.idle_timeout)
            .min()
    }

    /// True if a call is in flight.
    pub(crate) fn is_serving(&self) -> bool {
        self.sessions.values().any(|session| session.in_flight > 0)
    }

    /// The events that end the sessions that have reached [`LoginRules::idle_timeout`] at `now`.
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

    /// Sets the number of calls in flight to 0 in every session, without an event, because the
    /// process that served them has ended.
    pub(crate) fn drop_calls(&mut self) {
        self.sessions.values_mut().for_each(|session| session.in_flight = 0);
    }

    /// Applies a change of accounts, sessions or rules.
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
