//! Decides the next write for the bootstrap token of a clone. Pure.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::super::super::tokens::{TokenSecret, must_move};

/// Longest life of a token that a group may have.
const LONGEST_LIFE: Duration = Duration::from_secs(24 * 3600);

/// The machine of a token, as the journal names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing<'a> {
    /// The machine is wanted or was made.
    Counts {
        is_node: bool,
        /// ID of the token in its user data, if this process knows it.
        own: Option<&'a str>,
    },
    /// The machine is to be destroyed, or is gone.
    Ended,
    /// The journal lacks the machine, which nevertheless may exist.
    Unknown,
}

/// A write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Moves the expiration, so that the token lives for this time.
    Renew(Duration),
    /// Deletes the token.
    Revoke,
}

/// Returns the next write for a token; `None` if nothing has to change.
pub(super) fn next(token: &TokenSecret, of: Standing<'_>, now: Timestamp) -> Option<Step> {
    match of {
        Standing::Ended | Standing::Counts { is_node: true, .. } => Some(Step::Revoke),
        Standing::Counts { own: Some(own), .. } if own != token.id => Some(Step::Revoke),
        Standing::Counts { .. } => {
            let ttl = token.ttl?;
            must_move(token.expires, ttl, now).then_some(Step::Renew(ttl))
        }
        Standing::Unknown => is_abandoned(token, now).then_some(Step::Revoke),
    }
}

/// True if a token expired longer ago than it lived. A server that has a use for it renews it long before
/// that, even if the clocks of two servers differ.
fn is_abandoned(token: &TokenSecret, now: Timestamp) -> bool {
    let ttl = SignedDuration::try_from(token.ttl.unwrap_or(LONGEST_LIFE));
    let ttl = ttl.unwrap_or(SignedDuration::MAX);
    token.expires.is_some_and(|expires| now.duration_since(expires) > ttl)
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::{
        super::super::super::{
            group::GroupId,
            tokens::{Item as _, MachineKey, Origin, Token},
        },
        *,
    };

    const TTL: Duration = Duration::from_secs(3600);

    /// A token that expires after this number of seconds.
    fn token(seconds: i64) -> TokenSecret {
        let key = MachineKey { name: "g-abcde".to_owned(), bios_uuid: Uuid::from_u128(7) };
        let origin = Origin { label: "origin", value: "o".to_owned() };
        let token = Token::parse("abcdef.0123456789abcdef").unwrap();
        let expires = Timestamp::from_second(seconds).unwrap();
        let of = ("g", &GroupId::of_clones("g"));
        let mut object = token.manifest(&key, &origin, of, (expires, TTL));
        object["metadata"]["uid"] = "u".into();
        object["metadata"]["resourceVersion"] = "1".into();
        TokenSecret::read(&object).unwrap()
    }

    #[test]
    fn the_next_write_follows_from_token_node_and_journal() {
        let counts = |is_node, own| Standing::Counts { is_node, own };
        let boots = counts(false, None);
        for (name, seconds, standing, want) in [
            ("a machine that boots", 1801, boots, None),
            ("half of the life is over", 1799, boots, Some(Step::Renew(TTL))),
            ("expired", -9, boots, Some(Step::Renew(TTL))),
            ("the clock went back", 7201, boots, Some(Step::Renew(TTL))),
            ("its own", 1801, counts(false, Some("abcdef")), None),
            ("left over", 1799, counts(false, Some("zzzzzz")), Some(Step::Revoke)),
            ("a Node", 1799, counts(true, None), Some(Step::Revoke)),
            ("to be destroyed", 3600, Standing::Ended, Some(Step::Revoke)),
            ("not in the journal, but perhaps in vCenter", 9, Standing::Unknown, None),
            ("the same, and expired", -3600, Standing::Unknown, None),
            ("the same, long ago", -3601, Standing::Unknown, Some(Step::Revoke)),
        ] {
            assert_eq!(next(&token(seconds), standing, Timestamp::UNIX_EPOCH), want, "{name}");
        }
        let mut without_life = token(9);
        without_life.ttl = None;
        assert_eq!(next(&without_life, boots, Timestamp::UNIX_EPOCH), None);
    }
}
