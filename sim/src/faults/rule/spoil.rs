//! Bytes of an answer that a client has to bear.

use serde::{Deserialize, Serialize};

/// How the body of an answer is spoiled. The status and the headers stay.
///
/// XML and JSON are spoiled where they stand, each event of a watch by itself. Other encodings are cut in two by the bytes of
/// [`Spoil::InvalidUtf8`], whatever is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Spoil {
    /// Every element and object that has members gets one that nobody knows, of a class that nobody knows. Maps of labels and
    /// annotations stay as they are.
    UnknownMembers,
    /// Every class that is named, as `xsi:type`, as `kind` or as the type of a watch's event, is one that nobody knows.
    UnknownTypes,
    /// Bytes in the middle that are not UTF-8.
    InvalidUtf8,
    /// A member that is nested 20,000 deep.
    Deep,
    /// An XML document type that declares entities which multiply to gigabytes, and one of them in the text. JSON has no
    /// entities and stays as it is.
    Entities,
    /// So many percent of the bytes, and the end as if that were all: no connection breaks. Each event of a watch loses its end.
    CutShort(u8),
    /// So many MiB of blanks in front of what is said.
    Padded(u32),
}
