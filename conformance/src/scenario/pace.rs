//! Pace of world time in a case.

/// Pace at which a case can be played with a provider on the real clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pace {
    /// World time is compressed (`--compress`) if nothing fails in the scenario and no leader is
    /// elected; otherwise the case runs in real time.
    #[default]
    Usual,
    /// The case runs in real time, because its outcome depends on constants of providers.
    Real,
    /// The case runs only in virtual time, for this reason, so it is not played with a provider on
    /// the real clock.
    Virtual(&'static str),
}
