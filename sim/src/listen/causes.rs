//! Texts of errors with their causes, for people.

use std::error::Error;

/// Returns the text of an error and of each of its sources, joined by colons. Only for errors whose
/// own text does not contain their source.
pub(crate) fn with_causes(error: &(dyn Error + 'static)) -> String {
    let texts = std::iter::successors(Some(error), |&error| error.source());
    texts.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
