//! Logins to a vCenter: one at a time per API, kept until the server ends them, with pauses after failures.
//!
//! A [`Slot`] holds the current login. The first caller that finds it empty takes the gate; the others wait there and
//! find the new login when they pass. A login that fails, or that ends soon after it began, closes the gate for a
//! growing pause. The [`Lockout`] holds back a rejected credential, because a few wrong attempts lock the account for
//! all its users.

use std::{sync::Mutex, time::Duration};

use secrecy::SecretString;
use tokio::time::Instant;

use crate::{Backoff, CallErrorKind, Credential, Jitter, ServiceContent};

/// Pause before a rejected credential is tried a second time; the third attempt waits twice as long.
pub const LOCKOUT_SPACING: Duration = Duration::from_secs(15);
/// After three rejections the same credential waits this long (stock vCenter: five failures in 180 s lock for 300 s).
pub const LOCKOUT_PAUSE: Duration = Duration::from_secs(300);

/// A login that ends sooner than this after it began counts as trouble on the server.
const DIED_YOUNG: Duration = Duration::from_secs(30);

/// One SOAP login. Views, filters and versions belong to it and die with it.
#[derive(Clone, Debug)]
pub struct Session {
    /// Number of this login, counted from 1. Another number means that all session-bound objects are gone.
    pub epoch: u64,
    /// Entry points, read anew at every login.
    pub content: ServiceContent,
    /// Value of the session cookie.
    pub(crate) cookie: Option<SecretString>,
}

/// A login that a [`Slot`] can hold.
pub(crate) trait Login: Clone {
    fn epoch(&self) -> u64;
}

impl Login for Session {
    fn epoch(&self) -> u64 {
        self.epoch
    }
}

/// Holds the current login, if any, and lets one caller at a time make a new one.
#[derive(Debug)]
pub(crate) struct Slot<T> {
    current: Mutex<Option<T>>,
    gate: tokio::sync::Mutex<Gate>,
}

#[derive(Debug)]
struct Gate {
    backoff: Backoff,
    not_before: Option<Instant>,
    logged_in_at: Option<Instant>,
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

    pub(crate) fn current(&self) -> Option<T> {
        self.current.lock().expect("nothing panics under this lock").clone()
    }

    /// Forgets the login with this epoch. A newer login stays.
    pub(crate) fn invalidate(&self, epoch: u64) {
        let mut current = self.current.lock().expect("nothing panics under this lock");
        if current.as_ref().is_some_and(|login| login.epoch() == epoch) {
            *current = None;
        }
    }

    pub(crate) fn take(&self) -> Option<T> {
        self.current.lock().expect("nothing panics under this lock").take()
    }

    /// Takes the login in order to end it on purpose. The next login need not wait, however young this one is.
    pub(crate) async fn finish(&self) -> Option<T> {
        let mut gate = self.gate.lock().await;
        gate.logged_in_at = None;
        self.take()
    }

    /// Returns the current login, or a new one from `login`, which receives the number of the new epoch.
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
                let pause = gate.backoff.fail();
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
                    let pause = gate.backoff.fail();
                    gate.not_before = Some(Instant::now() + pause);
                }
                Err(err)
            }
        }
    }
}

/// Remembers a rejected credential, so that it is not sent again too soon.
#[derive(Debug, Default)]
pub(crate) struct Lockout(Mutex<Option<Rejected>>);

#[derive(Debug)]
struct Rejected {
    credential: Credential,
    attempts: u32,
    not_before: Instant,
}

impl Lockout {
    /// Refuses a rejected credential until its pause is over.
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

    pub(crate) fn rejected(&self, credential: &Credential) {
        let mut slot = self.0.lock().expect("nothing panics under this lock");
        let attempts = match slot.as_ref() {
            Some(r) if r.credential.same_as(credential) => r.attempts + 1,
            _ => 1,
        };
        let pause = if attempts < 3 { LOCKOUT_SPACING * attempts } else { LOCKOUT_PAUSE };
        *slot = Some(Rejected {
            credential: credential.clone(),
            attempts,
            not_before: Instant::now() + pause,
        });
    }

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
        assert_eq!(wait.as_secs(), 15, "another credential begins anew");
    }

    #[derive(Clone, Debug)]
    struct Number(u64);
    impl Login for Number {
        fn epoch(&self) -> u64 {
            self.0
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_login_serves_all_who_wait() {
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
        // The login ends at once: the next one has to wait, and then succeeds.
        slot.invalidate(1);
        let wait = slot.get(login, |w| w, |_| true).await.unwrap_err();
        tokio::time::advance(wait).await;
        assert_eq!(slot.get(login, |w| w, |_| true).await.unwrap().0, 2);
        // A login that is ended on purpose does not delay the next one.
        assert_eq!(slot.finish().await.unwrap().0, 2);
        assert_eq!(slot.get(login, |w| w, |_| true).await.unwrap().0, 3);
    }
}
