//! The pauses that a server requests with `Retry-After`, one per path, shared by all requests of
//! the clients that hold the same [`Pauses`].
//!
//! client-go delays only the request that the server refused, and lets other requests for the same
//! path pass. A server that sheds load wants fewer requests of all kinds, so here every request for
//! that path waits.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use tokio::time::Instant;

/// The pauses of a server: the end of the pause, by path without query.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pauses {
    until: Arc<Mutex<BTreeMap<String, Instant>>>,
}

/// The path without its query.
fn resource(path: &str) -> &str {
    path.split_once('?').map_or(path, |(resource, _)| resource)
}

impl Pauses {
    /// Notes that no request for `path` may be sent before `until`. The longer of two pauses
    /// counts.
    pub(super) fn note(&self, path: &str, until: Instant) {
        let now = Instant::now();
        let mut all = self.until.lock().expect("nothing panics under this lock");
        all.retain(|_, until| *until > now);
        let noted = all.entry(resource(path).to_owned()).or_insert(until);
        *noted = until.max(*noted);
    }

    /// Waits until a request for `path` may be sent.
    ///
    /// Cancel safe.
    pub(super) async fn wait(&self, path: &str) {
        while let Some(until) = self.until(path).filter(|until| *until > Instant::now()) {
            tokio::time::sleep_until(until).await;
        }
    }

    fn until(&self, path: &str) -> Option<Instant> {
        let all = self.until.lock().expect("nothing panics under this lock");
        all.get(resource(path)).copied()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_pause_delays_requests_for_its_path_with_any_query_and_no_other_path() {
        let pauses = Pauses::default();
        let start = Instant::now();
        pauses.note("/vms?limit=5", start + Duration::from_secs(3));
        pauses.note("/vms", start + Duration::from_secs(2));
        pauses.wait("/vms/a").await;
        assert_eq!(start.elapsed(), Duration::ZERO);
        pauses.wait("/vms").await;
        assert_eq!(start.elapsed(), Duration::from_secs(3), "the longer of two pauses counts");
    }

    #[tokio::test(start_paused = true)]
    async fn a_waiting_request_waits_for_the_new_end_of_an_extended_pause() {
        let pauses = Pauses::default();
        let start = Instant::now();
        pauses.note("/vms", start + Duration::from_secs(2));
        let waiting = pauses.wait("/vms");
        let growing = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            pauses.note("/vms", start + Duration::from_secs(5));
        };
        tokio::join!(waiting, growing);
        assert_eq!(start.elapsed(), Duration::from_secs(5));
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_that_are_over_are_forgotten() {
        let pauses = Pauses::default();
        for n in 0..10 {
            pauses.note(&format!("/vms/{n}"), Instant::now() + Duration::from_secs(1));
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
        assert_eq!(pauses.until.lock().unwrap().len(), 1);
    }
}
