//! Ways to corrupt the body of an answer.

use serde::{Deserialize, Serialize};

/// Way to corrupt the body of an answer. The status and the headers stay unchanged, except that the
/// sim removes `Content-Length`.
///
/// The sim corrupts XML and JSON as the variant says, in a watch each sent piece (one or more
/// events) separately. Into a body of another encoding it inserts the bytes of
/// [`Spoil::InvalidUtf8`], whatever the variant, except for [`Spoil::Respelled`],
/// [`Spoil::CutShort`] and [`Spoil::Padded`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Spoil {
    /// Adds an unknown member of an unknown class to every JSON object, and to every XML element
    /// whose content does not end with a text. Leaves `labels`, `annotations`, `matchLabels` and
    /// `managedFields` unchanged.
    UnknownMembers,
    /// Makes every type name unknown by a prefix: in XML each attribute `xsi:type` or `type`, in
    /// JSON each `kind` and the type of a watch event.
    UnknownTypes,
    /// Inserts bytes that are not UTF-8 in the middle of the body, in a watch of each sent piece.
    InvalidUtf8,
    /// Adds a member that is nested 20,000 deep. Leaves JSON that does not begin with a non-empty
    /// object unchanged.
    Deep,
    /// Adds an XML document type with entities that expand to gigabytes, and a reference to one of
    /// them in the text. Leaves JSON unchanged, because it has no entities.
    Entities,
    /// Writes every text in another spelling of the same meaning: in XML apostrophes, quotation
    /// marks and the letter `e` as references, in JSON the letter `e` as an escape. Leaves tags and
    /// attributes of XML unchanged, and other encodings.
    Respelled,
    /// Sends only this percentage of the bytes, from the first on, as if the body were complete:
    /// the connection does not break. In a watch, cuts each sent piece.
    CutShort(u8),
    /// Sends this many MiB of blanks before the body.
    Padded(u32),
}
