//! Identifiers that depend only on the seed, a kind and a path, so that two runs with one seed have
//! the same identifiers.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The source of every identifier of a world.
///
/// An identifier is a name-based UUID (version 5) of the seed, the kind of thing and its path. A
/// path may contain a serial number. No identifier is drawn at random: the same seed, kind and path
/// always give the same identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ids {
    seed: u64,
}

impl Ids {
    /// Creates the source of identifiers for the world with this seed.
    pub fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// Returns the source of identifiers for the part `name` of the world. The same kind and path
    /// give another identifier in each part.
    #[must_use]
    pub fn part(self, name: &str) -> Self {
        let (seed, _) = self.uuid("part", name).as_u64_pair();
        Self { seed }
    }

    /// The seed of the world, or the derived seed of a part.
    pub fn seed(self) -> u64 {
        self.seed
    }

    /// The UUID of the thing of `kind` that `path` names.
    pub fn uuid(self, kind: &str, path: &str) -> Uuid {
        let name = format!("{}/{kind}/{path}", self.seed);
        Uuid::new_v5(&Uuid::NAMESPACE_OID, name.as_bytes())
    }

    /// 32 lower-case hexadecimal digits for `kind` and `path`.
    pub fn token(self, kind: &str, path: &str) -> String {
        self.uuid(kind, path).simple().to_string()
    }
}
