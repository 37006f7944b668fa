//! Logins to a vCenter: one at a time per API, kept until the server or a logout ends them, with
//! pauses after failures.
//!
//! A [`Slot`] holds the current login of one API. If it is empty, the first caller takes the gate
//! (a lock) and logs in. The other callers wait at the gate and then find the new login. A login
//! that fails, or that the server ends within 30 s, closes the gate for a growing pause. The
//! [`Lockout`] holds back a rejected credential, because a few wrong attempts lock the account for
//! all its users.

use std::{sync::Mutex, time::Duration};

use secrecy::SecretString;
use tokio::time::Instant;

use crate::{Backoff, CallErrorKind, Credential, Jitter, ServiceContent};

/// Pause before the client tries a rejected credential a second time. The pause before the third
/// attempt is twice as long.
pub const LOCKOUT_SPACING: Duration = Duration::from_secs(15);
/// Pause after the third and each further rejection of the same credential in a row. A stock
/// vCenter locks an account for 300 s after five failures within 180 s.
pub const LOCKOUT_PAUSE: Duration = Duration::from_secs(300);

/// Lifetime below which the end of a login counts as a failure, which leads to a pause.
const DIED_YOUNG: Duration = Duration::from_secs(30);

/// One SOAP session. Its views, filters and collector versions end with it.
#[derive(Clone, Debug)]
pub struct Session {
    /// Number of this login; failed logins count too, and the first number is 1. In a session with
    /// another number, all objects bound to this session are gone.
    pub epoch: u64,
    /// Entry points of the server, read at every login.
    pub content: ServiceContent,
    /// Value of the session cookie, if the server sent one.
    pub(crate) cookie: Option<SecretString>,
}

/// One vAPI session.
#[derive(Clone, Debug)]
pub(crate) struct RestSession {
    pub(crate) epoch: u64,
    pub(crate) id: SecretString,
}

/// A login that a [`Slot`] can hold.
pub(crate) trait Login: Clone {
    /// Returns the number of the login.
    fn epoch(&self) -> u64;
}

impl Login for Session {
    fn epoch(&self) -> u64 {
        self.epoch
    }
}

impl Login for RestSession {
    fn epoch(&self) -> u64 {
        self.epoch
    }
}

/// Holder of the current login, if any. It lets one caller at a time log in.
#[derive(Debug)]
pub(crate) struct Slot<T> {
    current: Mutex<Option<T>>,
    gate: tokio::sync::Mutex<Gate>,
}

/// State of the logins of one API, under the lock that a caller holds while it logs in.
#[derive(Debug)]
struct Gate {
    backoff: Backoff,
    /// Earliest time of the next login, after a login that failed or that lasted less than
    /// [`DIED_YOUNG`].
    not_before: Option<Instant>,
    /// Time of the last successful login, until the next caller needs a new one.
    logged_in_at: Option<Instant>,
    /// Number of logins tried, which is also the number of the last one.
    logins: u64,
}

impl<T: Login> Slot<T> {
    pub(crate) fn new(jitter: Jitter) -> Self {
        let backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60), jitter);
        Self {
            current: Mutex::new(None),
            gate: tokio::sync::Mutex::new(Gate {
                backoff,
                not_before: None,
                logged_in_at: None,
                logins: 0,
            }),
        }
    }

    /// Returns the current login, if any, without a call.
    pub(crate) fn current(&self) -> Option<T> {
        self.current.lock().expect("nothing panics under this lock").clone()
    }

    /// Drops the current login if it has this epoch. A newer login stays.
    pub(crate) fn invalidate(&self, epoch: u64) {
        let mut current = self.current.lock().expect("nothing panics under this lock");
        if current.as_ref().is_some_and(|login| login.epoch() == epoch) {
            *current = None;
        }
    }

    /// Removes and returns the current login, if any.
    pub(crate) fn take(&self) -> Option<T> {
        self.current.lock().expect("nothing panics under this lock").take()
    }

    /// Removes and returns the current login, if any, for a caller that logs out. The next login
    /// need not wait, however young this one is.
    pub(crate) async fn finish(&self) -> Option<T> {
        let mut gate = self.gate.lock().await;
        gate.logged_in_at = None;
        self.take()
    }

    /// Returns the current login, or a new one from `login`, which gets the number of the new
    /// epoch. `not_yet` builds the error for a login that must wait, from the time to wait.
    /// `counts` is false for failures that lead to no pause.
    pub(crate) async fn get<F, E>(
        &self,
        login: F,
        not_yet: impl Fn(Duration) -> E,
        counts: impl Fn(&E) -> bool,
    ) -> Result<T, E>
    where
        F: AsyncFnOnce(u64) -> Result<T, E>,
    {
        if let Some(current) = self.current() {
            return Ok(current);
        }
        let mut gate = self.gate.lock().await;
        if let Some(current) = self.current() {
            return Ok(current);
        }
        let now = Instant::now();
        if let Some(since) = gate.logged_in_at.take() {
            if now.duration_since(since) < DIED_YOUNG {
                let pause = gate.backoff.next_pause();
                gate.not_before = Some(since + pause);
            } else {
                gate.backoff.reset();
            }
        }
        if let Some(wait) = gate.not_before.and_then(|t| t.checked_duration_since(now))
            && !wait.is_zero()
        {
            return Err(not_yet(wait));
        }
        gate.logins += 1;
        let epoch = gate.logins;
        match login(epoch).await {
            Ok(new) => {
                gate.not_before = None;
                gate.logged_in_at = Some(Instant::now());
                *self.current.lock().expect("nothing panics under this lock") = Some(new.clone());
                Ok(new)
            }
            Err(err) => {
                if counts(&err) {
                    let pause = gate.backoff.next_pause();
                    gate.not_before = Some(Instant::now() + pause);
                }
                Err(err)
            }
        }
    }
}

/// Record of the last rejected credential, so that the client does not send this credential again
/// too soon.
#[derive(Debug, Default)]
pub(crate) struct Lockout(Mutex<Option<Rejection>>);

#[derive(Debug)]
struct Rejection {
    credential: Credential,
    attempts: u32,
    not_before: Instant,
}

impl Lockout {
    /// Returns an error for the rejected credential until its pause is over.
    pub(crate) fn check(&self, credential: &Credential) -> Result<(), CallErrorKind> {
        let rejected = self.0.lock().expect("nothing panics under this lock");
        match rejected.as_ref() {
            Some(r) if r.credential.same_as(credential) => {
                match r.not_before.checked_duration_since(Instant::now()) {
                    Some(wait) if !wait.is_zero() => Err(CallErrorKind::Locked(wait)),
                    _ => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    /// Records that the server has rejected this credential, and begins the pause before the next
    /// attempt with it: 15 s, 30 s after the second rejection, then [`LOCKOUT_PAUSE`].
    pub(crate) fn rejected(&self, credential: &Credential) {
        let mut slot = self.0.lock().expect("nothing panics under this lock");
        let attempts = match slot.as_ref() {
            Some(r) if r.credential.same_as(credential) => r.attempts + 1,
            _ => 1,
        };
        let pause = if attempts < 3 { LOCKOUT_SPACING * attempts } else { LOCKOUT_PAUSE };
        *slot = Some(Rejection {
            credential: credential.clone(),
            attempts,
            not_before: Instant::now() + pause,
        });
    }

    /// Drops the record after a successful login.
    pub(crate) fn accepted(&self) {
        *self.0.lock().expect("nothing panics under this lock") = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_rejected_credential_waits_longer_each_time() {
        let lockout = Lockout::default();
        let wrong = Credential::new("u", "p");
        let mut waits = Vec::new();
        for _ in 0..4 {
            lockout.check(&wrong).unwrap();
            lockout.rejected(&wrong);
            let Err(CallErrorKind::Locked(wait)) = lockout.check(&wrong) else { panic!() };
            waits.push(wait.as_secs());
            tokio::time::advance(wait).await;
        }
        assert_eq!(waits, [15, 30, 300, 300]);
        lockout.rejected(&wrong);
        let new = Credential::new("u", "new");
        lockout.check(&new).unwrap();
        lockout.rejected(&new);
        let Err(CallErrorKind::Locked(wait)) = lockout.check(&new) else { panic!() };
        assert_eq!(wait.as_secs(), 15, "the pauses of another credential begin at 15 s");
    }

    #[derive(Clone, Debug)]
    struct Number(u64);
    impl Login for Number {
        fn epoch(&self) -> u64 {
            self.0
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_login_serves_all_callers_that_wait() {
        let slot = Slot::<Number>::new(Jitter::new(1, "t"));
        let login = async |epoch| {
            tokio::time::sleep(Duration::from_secs(1)).await;
            Ok::<_, Duration>(Number(epoch))
        };
        let (a, b, c) = tokio::join!(
            slot.get(login, |w| w, |_| true),
            slot.get(login, |w| w, |_| true),
            slot.get(login, |w| w, |_| true),
        );
        assert_eq!((a.unwrap().0, b.unwrap().0, c.unwrap().0), (1, 1, 1));
        // The login ends at once, so the next one has to wait before it succeeds.
        slot.invalidate(1);
        let wait = slot.get(login, |w| w, |_| true).await.unwrap_err();
        tokio::time::advance(wait).await;
        assert_eq!(slot.get(login, |w| w, |_| true).await.unwrap().0, 2);
        // A login that is ended on purpose does not delay the next one.
        assert_eq!(slot.finish().await.unwrap().0, 2);
        assert_eq!(slot.get(login, |w| w, |_| true).await.unwrap().0, 3);
    }
}
