//! Arguments of an operation as received: a tree of named, optionally typed elements.

use std::borrow::Cow;

use super::fault::VimFault;

/// An element of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Node {
    /// Local name, without namespace prefix.
    pub(crate) name: String,
    /// Value of `xsi:type`, without prefix; `None` if absent.
    pub(crate) xsi_type: Option<String>,
    /// Value of the plain `type` attribute of a reference; `None` if absent.
    pub(crate) ref_type: Option<String>,
    /// Text of the element, without white space at both ends.
    pub(crate) text: String,
    /// Untrimmed text of an element without children; `None` if it equals `text`.
    pub(crate) with_blanks: Option<String>,
    /// Child elements in document order.
    pub(crate) children: Vec<Node>,
}

/// A reference in a request. The client declares the type; the server does not trust it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GivenRef<'a> {
    pub(crate) kind: Cow<'a, str>,
    pub(crate) id: &'a str,
}

impl Node {
    /// Returns the first child called `name`; `None` if no child has the name.
    pub(crate) fn child(&self, name: &str) -> Option<&Node> {
        self.children.iter().find(|child| child.name == name)
    }

    /// Returns all children called `name`.
    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Node> {
        self.children.iter().filter(move |child| child.name == name)
    }

    /// Returns the text of the first child called `name`; `None` if no child has the name.
    pub(crate) fn text_of(&self, name: &str) -> Option<&str> {
        self.child(name).map(|child| child.text.as_str())
    }

    /// Returns the text of a required child; `InvalidArgument` if it is absent.
    pub(crate) fn required(&self, name: &str) -> Result<&str, VimFault> {
        self.text_of(name).ok_or_else(|| VimFault::invalid_argument(name))
    }

    /// Returns the untrimmed text of a required child, for passwords, which may begin or end with
    /// blanks; `InvalidArgument` if the child is absent.
    pub(crate) fn verbatim(&self, name: &str) -> Result<&str, VimFault> {
        let child = self.child(name).ok_or_else(|| VimFault::invalid_argument(name))?;
        Ok(child.with_blanks.as_deref().unwrap_or(&child.text))
    }

    /// Returns the child called `name` as a boolean; `None` if it is absent, `InvalidArgument` if
    /// its text is not a boolean.
    pub(crate) fn flag(&self, name: &str) -> Result<Option<bool>, VimFault> {
        match self.text_of(name) {
            None => Ok(None),
            Some("true" | "1") => Ok(Some(true)),
            Some("false" | "0") => Ok(Some(false)),
            Some(_) => Err(VimFault::invalid_argument(name)),
        }
    }

    /// Returns the child called `name` as an integer; `None` if it is absent, `InvalidArgument` if
    /// its text is not an integer of 32 bits.
    pub(crate) fn int(&self, name: &str) -> Result<Option<i32>, VimFault> {
        self.text_of(name)
            .map(|text| text.parse().map_err(|_| VimFault::invalid_argument(name)))
            .transpose()
    }

    /// Returns this element as a reference; its type is empty if the client declares none.
    pub(crate) fn reference(&self) -> GivenRef<'_> {
        GivenRef { kind: Cow::Borrowed(self.ref_type.as_deref().unwrap_or("")), id: &self.text }
    }
}
