//! The bearer token for the Supervisor. The file with the token changes while the provider runs.
//!
//! The provider reads the token again after 50 s, about the age that client-go allows, and when the
//! Supervisor refuses it (at most once per second), so that no request waits after a rotation that
//! revokes the old token. While the file has no valid token, the old one stays in use.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use http::HeaderValue;
use tokio::time::Instant;

use crate::mutant::{Active, mutant};

/// Age at which the provider reads a token again (client-go: 60 s less 10 s of leeway).
const MAX_AGE: Duration = Duration::from_secs(50);
/// Minimum time between two reads of the file, even if the Supervisor refuses many requests.
const SPACING: Duration = Duration::from_secs(1);

/// Function that reads the token file and returns its content.
pub type TokenReader = Arc<dyn Fn() -> Result<Vec<u8>, String> + Send + Sync>;

/// Reason why no token is available.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// The file cannot be read.
    #[error("cannot read the token for the Supervisor: {0}")]
    Unreadable(String),
    /// The file is empty or blank.
    #[error("the token for the Supervisor is empty")]
    Empty,
    /// The content, without the blanks at its ends, contains a blank, a control character or a
    /// character outside ASCII.
    #[error(
        "the token for the Supervisor contains a blank, a control character or a non-ASCII \
         character"
    )]
    Malformed,
}

/// Returns the value of the `Authorization` header for a file's content.
pub(super) fn parse_token(bytes: &[u8]) -> Result<HeaderValue, TokenError> {
    let bytes = bytes.trim_ascii();
    if bytes.is_empty() {
        return Err(TokenError::Empty);
    }
    if !bytes.iter().all(u8::is_ascii_graphic) {
        return Err(TokenError::Malformed);
    }
    let value = [&b"Bearer "[..], bytes].concat();
    let mut value = HeaderValue::from_bytes(&value).map_err(|_| TokenError::Malformed)?;
    value.set_sensitive(true);
    Ok(value)
}

/// Source of the current token, shared by all requests.
pub struct TokenSource {
    read: TokenReader,
    state: Mutex<State>,
    active: Active,
}

#[derive(Default)]
struct State {
    token: Option<HeaderValue>,
    /// Instant at which the source read `token`; `None` before the first successful read.
    token_at: Option<Instant>,
    /// Instant of the last read of the file, successful or not; `None` before the first one.
    looked_at: Option<Instant>,
}

impl std::fmt::Debug for TokenSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TokenSource")
    }
}

impl TokenSource {
    /// A source that reads the file with `read`, for the first time when a token is needed.
    pub fn new(read: TokenReader) -> Self {
        Self { read, state: Mutex::default(), active: Active::default() }
    }

    /// Returns the source with this deliberate defect; `None` for no defect.
    #[cfg(feature = "mutants")]
    #[must_use]
    pub fn with_mutant(self, mutant: Option<crate::Mutant>) -> Self {
        Self { active: Active { mutant }, ..self }
    }

    /// Returns the `Authorization` header with the current token.
    ///
    /// # Errors
    ///
    /// Only if the source has never read a valid token.
    pub fn header(&self) -> Result<HeaderValue, TokenError> {
        let now = Instant::now();
        let mut state = self.lock();
        let is_young = state.token_at.is_some_and(|at| now - at < MAX_AGE)
            || mutant!(self.active, TokenNeverReread);
        if let (Some(token), true) = (&state.token, is_young) {
            return Ok(token.clone());
        }
        let looked = self.reread(&mut state, now);
        match (&state.token, looked) {
            (Some(token), _) => Ok(token.clone()),
            (None, Err(err)) => Err(err),
            // The last read was a moment ago and failed.
            (None, Ok(())) => Err(TokenError::Unreadable(
                "an earlier read failed a moment ago; the provider reads the file again soon"
                    .to_owned(),
            )),
        }
    }

    /// Returns another header after the Supervisor refused `used` with 401. Returns `None` if the
    /// file cannot be read or contains no other valid token, or if a read less than 1 s ago found
    /// none.
    ///
    /// The Supervisor may refuse many requests at once: the call for the first one reads the file,
    /// and the calls for the others return the token from this read.
    pub fn after_refusal(&self, used: &HeaderValue) -> Option<HeaderValue> {
        if mutant!(self.active, TokenNeverReread) {
            return None;
        }
        let now = Instant::now();
        let mut state = self.lock();
        let is_old = |state: &State| state.token.as_ref().is_none_or(|token| token == used);
        if is_old(&state) && self.reread(&mut state, now).is_err() {
            return None;
        }
        if is_old(&state) { None } else { state.token.clone() }
    }

    /// Reads the file. If the last read was less than [`SPACING`] ago, returns `Ok` without a read.
    /// An error leaves the old token in place.
    fn reread(&self, state: &mut State, now: Instant) -> Result<(), TokenError> {
        if state.looked_at.is_some_and(|at| now - at < SPACING) {
            return Ok(());
        }
        state.looked_at = Some(now);
        let read = (self.read)().map_err(TokenError::Unreadable);
        match read.and_then(|bytes| parse_token(&bytes)) {
            Ok(token) => {
                state.token = Some(token);
                state.token_at = Some(now);
                Ok(())
            }
            Err(err) => {
                if state.token.is_some() {
                    tracing::warn!(error = %err, "reading the token for the Supervisor failed; keeping the last token");
                }
                Err(err)
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics under this lock")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file that a test writes, with a count of reads.
    #[derive(Clone, Default)]
    struct File(Arc<Mutex<(Option<&'static str>, u32)>>);

    impl File {
        fn write(&self, content: Option<&'static str>) {
            self.0.lock().unwrap().0 = content;
        }

        fn n_reads(&self) -> u32 {
            self.0.lock().unwrap().1
        }

        fn source(&self) -> TokenSource {
            let this = self.clone();
            TokenSource::new(Arc::new(move || {
                let (content, n_reads) = &mut *this.0.lock().unwrap();
                *n_reads += 1;
                content.map(|text| text.as_bytes().to_vec()).ok_or_else(|| "gone".to_owned())
            }))
        }
    }

    fn bearer(token: &str) -> HeaderValue {
        HeaderValue::from_str(&format!("Bearer {token}")).unwrap()
    }

    async fn wait(seconds: f64) {
        tokio::time::advance(Duration::from_secs_f64(seconds)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_is_read_again_when_it_is_old() {
        let file = File::default();
        file.write(Some("one\n"));
        let source = file.source();
        assert_eq!(source.header(), Ok(bearer("one")));
        file.write(Some("two"));
        wait(49.0).await;
        assert_eq!(source.header(), Ok(bearer("one")));
        assert_eq!(file.n_reads(), 1);
        wait(1.0).await;
        assert_eq!(source.header(), Ok(bearer("two")));
        assert_eq!(source.header(), Ok(bearer("two")));
        assert_eq!(file.n_reads(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn an_unreadable_token_file_keeps_the_last_token() {
        let file = File::default();
        file.write(Some("one"));
        let source = file.source();
        source.header().unwrap();
        for content in [None, Some(""), Some(" \n"), Some("a b")] {
            file.write(content);
            wait(60.0).await;
            assert_eq!(source.header(), Ok(bearer("one")), "{content:?}");
            // A second request a moment later does not read the file.
            let n_reads = file.n_reads();
            assert_eq!(source.header(), Ok(bearer("one")));
            assert_eq!(file.n_reads(), n_reads);
        }
        file.write(Some("two"));
        wait(1.0).await;
        assert_eq!(source.header(), Ok(bearer("two")));
    }

    #[tokio::test(start_paused = true)]
    async fn a_source_without_any_token_returns_an_error() {
        let file = File::default();
        let source = file.source();
        assert_eq!(source.header(), Err(TokenError::Unreadable("gone".to_owned())));
        assert!(source.header().is_err());
        file.write(Some("\n"));
        wait(1.0).await;
        assert_eq!(source.header(), Err(TokenError::Empty));
        file.write(Some("one"));
        wait(1.0).await;
        assert_eq!(source.header(), Ok(bearer("one")));
    }

    #[tokio::test(start_paused = true)]
    async fn a_refused_token_is_read_again_once_for_all_requests() {
        let file = File::default();
        file.write(Some("one"));
        let source = file.source();
        let one = source.header().unwrap();
        file.write(Some("two"));
        wait(2.0).await;
        for _ in 0..10 {
            assert_eq!(source.after_refusal(&one), Some(bearer("two")));
        }
        assert_eq!(file.n_reads(), 2);
        // The Supervisor refuses the new token too, and the file has no newer one.
        let two = bearer("two");
        for _ in 0..10 {
            assert_eq!(source.after_refusal(&two), None);
        }
        assert_eq!(file.n_reads(), 2, "the last read was a moment ago");
        wait(1.0).await;
        for _ in 0..10 {
            assert_eq!(source.after_refusal(&two), None);
        }
        assert_eq!(file.n_reads(), 3);
        file.write(None);
        wait(1.0).await;
        assert_eq!(source.after_refusal(&two), None);
        assert_eq!(source.header(), Ok(two));
    }

    #[cfg(feature = "mutants")]
    #[tokio::test(start_paused = true)]
    async fn a_mutant_never_reads_its_token_again() {
        let file = File::default();
        file.write(Some("one"));
        let source = file.source().with_mutant(Some(crate::Mutant::TokenNeverReread));
        let one = source.header().unwrap();
        file.write(Some("two"));
        wait(3600.0).await;
        assert_eq!(source.after_refusal(&one), None);
        assert_eq!(source.header(), Ok(one));
    }

    #[test]
    fn tokens_are_trimmed_and_never_shown() {
        let token = parse_token(b" abc.def-ghi_1 \r\n").unwrap();
        assert_eq!(token, bearer("abc.def-ghi_1"));
        assert!(!format!("{token:?}").contains("abc"));
        for (bytes, want) in [
            (&b""[..], TokenError::Empty),
            (b"\n\t ", TokenError::Empty),
            (b"a b", TokenError::Malformed),
            (b"a\nb", TokenError::Malformed),
            (b"a\x00", TokenError::Malformed),
            ("tök".as_bytes(), TokenError::Malformed),
        ] {
            assert_eq!(parse_token(bytes), Err(want), "{bytes:?}");
        }
    }
}
