//! Ways to spoil the bytes of an answer.

use serde::{Deserialize, Serialize};

/// Way to spoil the body of an answer. The status and the headers stay.
///
/// XML and JSON are spoiled in place, each event of a watch by itself. Other encodings are cut in two by the bytes of
/// [`Spoil::InvalidUtf8`], except for [`Spoil::Respelled`], [`Spoil::CutShort`] and [`Spoil::Padded`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Spoil {
    /// Adds an unknown member of an unknown class to every element and object that has members. Maps of labels and annotations
    /// stay as they are.
    UnknownMembers,
    /// Replaces every class that is named, as `xsi:type`, as `kind` or as the type of a watch's event, with an unknown one.
    UnknownTypes,
    /// Inserts bytes in the middle that are not UTF-8.
    InvalidUtf8,
    /// Adds a member that is nested 20,000 deep.
    Deep,
    /// Adds an XML document type with entities that expand to gigabytes, and a reference to one of them in the text. JSON has no
    /// entities and stays as it is.
    Entities,
    /// Spells every text otherwise, with the same meaning: apostrophes, quotation marks and the letter `e` in XML as references, the
    /// letter `e` in JSON as an escape. Other encodings stay as they are.
    Respelled,
    /// Sends this percentage of the bytes as if the body were complete; no connection breaks. Each event of a watch loses its
    /// end.
    CutShort(u8),
    /// Puts this many MiB of blanks in front of the body.
    Padded(u32),
}
