//! A tree of XML elements, limited to what SOAP needs, its parser for untrusted input, and a writer
//! of request bodies.
//!
//! serde cannot read `xsi:type`, so the client parses answers into a small tree that the decoders
//! walk. The parser resolves namespaces. It refuses document type declarations (without entity
//! definitions no entity can explode), limits the nesting, and reports a document that ends before
//! its root element does.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;

use quick_xml::{
    events::{BytesStart, Event},
    name::ResolveResult,
    reader::NsReader,
};

const XSI: &str = "http://www.w3.org/2001/XMLSchema-instance";
/// Maximum depth of nesting: deeper than any answer of vCenter (about 15), and shallow enough for a
/// small stack.
const MAX_DEPTH: usize = 128;

/// One element: local name, the attributes `xsi:type` and `type`, text and children.
///
/// Elements of a document share equal names and types, because an answer about a thousand machines
/// repeats a few dozen of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Element {
    /// Local name, without prefix.
    pub name: Arc<str>,
    /// Local part of the value of `xsi:type`; `None` without this attribute.
    pub xsi_type: Option<Arc<str>>,
    /// Value of the plain `type` attribute, as on managed object references; `None` without it.
    pub type_attr: Option<Arc<str>>,
    /// Character data directly inside this element. White space alone between children does not
    /// count.
    pub text: String,
    /// Child elements in document order.
    pub children: Vec<Element>,
}

impl Element {
    /// Returns the first child of this name, if any.
    pub fn child(&self, name: &str) -> Option<&Element> {
        self.children.iter().find(|c| *c.name == *name)
    }

    /// Returns all children of this name, in document order.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Element> {
        self.children.iter().filter(move |c| *c.name == *name)
    }

    /// Returns the trimmed text of the first child of this name; `None` if the child is missing or
    /// its text empty.
    pub fn text_of(&self, name: &str) -> Option<&str> {
        self.child(name).map(|c| c.text.trim()).filter(|t| !t.is_empty())
    }
}

/// Reason why the parser refuses a document.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum XmlError {
    /// The document is not well-formed.
    #[error("the answer is not well-formed XML: {0}")]
    Syntax(String),
    /// The document has a document type declaration, which SOAP forbids.
    #[error(
        "the answer has a document type declaration, so it is not SOAP; check that address and proxy lead to vCenter"
    )]
    DocType,
    /// The document ended inside an element, as a cut connection leaves it.
    #[error("the answer ends before its XML root element does")]
    Truncated,
    /// The document has more than 128 levels of nesting, deeper than any real answer.
    #[error("the XML of the answer is nested deeper than {MAX_DEPTH} elements")]
    TooDeep,
    /// The document has no root element.
    #[error("the answer has no XML root element")]
    Empty,
}

fn syntax(err: impl std::fmt::Display) -> XmlError {
    XmlError::Syntax(err.to_string())
}

/// Parses a whole document into its root element.
///
/// # Errors
///
/// See [`XmlError`]; never panics, for any input.
pub fn parse(text: &str) -> Result<Element, XmlError> {
    let mut reader = NsReader::from_str(text);
    let mut names = Names::default();
    let mut stack: Vec<Element> = Vec::new();
    let mut root = None;
    loop {
        let event = reader.read_event().map_err(syntax)?;
        match event {
            Event::Start(start) => {
                if stack.len() >= MAX_DEPTH {
                    return Err(XmlError::TooDeep);
                }
                if root.is_some() {
                    return Err(syntax("a second root element"));
                }
                let element = open(&reader, &start, &mut names)?;
                stack.push(element);
            }
            Event::Empty(start) => {
                let element = open(&reader, &start, &mut names)?;
                close(element, &mut stack, &mut root)?;
            }
            Event::End(_) => {
                let element = stack.pop().ok_or_else(|| syntax("an end tag without a start"))?;
                close(element, &mut stack, &mut root)?;
            }
            Event::Text(text) => push_text(&mut stack, &text.xml10_content()),
            Event::CData(data) => push_text(&mut stack, &data.xml10_content()),
            Event::GeneralRef(reference) => {
                let resolved = match reference.resolve_char_ref().map_err(syntax)? {
                    Some(c) => c.to_string(),
                    None => match reference.xml10_content().as_ref() {
                        "amp" => "&".to_owned(),
                        "lt" => "<".to_owned(),
                        "gt" => ">".to_owned(),
                        "quot" => "\"".to_owned(),
                        "apos" => "'".to_owned(),
                        other => return Err(syntax(format!("unknown entity {other:?}"))),
                    },
                };
                push_text(&mut stack, &resolved);
            }
            Event::DocType(_) => return Err(XmlError::DocType),
            Event::Decl(_) | Event::Comment(_) | Event::PI(_) => {}
            Event::Eof => break,
        }
    }
    if !stack.is_empty() {
        return Err(XmlError::Truncated);
    }
    root.ok_or(XmlError::Empty)
}

/// The names and types of the parsed part of a document, each stored once.
#[derive(Default)]
struct Names(BTreeSet<Arc<str>>);

impl Names {
    /// Returns the stored copy of a name; stores it first if it is new.
    fn share(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.0.get(name) {
            return known.clone();
        }
        let new: Arc<str> = name.into();
        self.0.insert(new.clone());
        new
    }
}

/// Returns the element of a start tag, without content.
fn open(
    reader: &NsReader<&[u8]>,
    start: &BytesStart<'_>,
    names: &mut Names,
) -> Result<Element, XmlError> {
    let name = names.share(start.local_name().into_inner());
    let mut element = Element { name, ..Element::default() };
    for attribute in start.attributes() {
        let attribute = attribute.map_err(syntax)?;
        let (namespace, local) = reader.resolver().resolve_attribute(attribute.key);
        if local.into_inner() != "type" {
            continue;
        }
        let value =
            attribute.normalized_value(quick_xml::XmlVersion::Implicit1_0).map_err(syntax)?;
        match namespace {
            ResolveResult::Bound(ns) if ns.as_ref() == XSI => {
                let local = value.rsplit(':').next().unwrap_or_default();
                element.xsi_type = Some(names.share(local));
            }
            ResolveResult::Unbound => element.type_attr = Some(names.share(&value)),
            _ => {}
        }
    }
    Ok(element)
}

/// Adds a finished element to its parent, or makes it the root; fails for a second root. Drops the
/// white space between the children of the element, and frees spare capacity.
fn close(
    mut element: Element,
    stack: &mut [Element],
    root: &mut Option<Element>,
) -> Result<(), XmlError> {
    if !element.children.is_empty() && element.text.trim().is_empty() {
        element.text = String::new();
    }
    element.children.shrink_to_fit();
    element.text.shrink_to_fit();
    match stack.last_mut() {
        Some(parent) => parent.children.push(element),
        None if root.is_none() => *root = Some(element),
        None => return Err(syntax("a second root element")),
    }
    Ok(())
}

/// Adds text to the innermost open element. Drops text outside of the root element.
fn push_text(stack: &mut [Element], text: &str) {
    if let Some(element) = stack.last_mut() {
        element.text.push_str(text);
    }
}

/// Writer of request bodies. It escapes text, and keeps the order in which the caller writes
/// children.
#[derive(Debug, Default)]
pub struct XmlWriter {
    out: String,
}

impl XmlWriter {
    /// Writes an element with text.
    pub fn text(&mut self, name: &str, value: &str) -> &mut Self {
        let _ = write!(self.out, "<{name}>{}</{name}>", quick_xml::escape::escape(value));
        self
    }

    /// Writes an element with text and the attribute `type`.
    pub fn typed(&mut self, name: &str, kind: &str, value: &str) -> &mut Self {
        let _ = write!(
            self.out,
            "<{name} type=\"{}\">{}</{name}>",
            quick_xml::escape::escape(kind),
            quick_xml::escape::escape(value),
        );
        self
    }

    /// Writes an element with text and the attribute `xsi:type`.
    pub fn xsi_text(&mut self, name: &str, kind: &str, value: &str) -> &mut Self {
        let _ = write!(
            self.out,
            "<{name} xsi:type=\"{}\">{}</{name}>",
            quick_xml::escape::escape(kind),
            quick_xml::escape::escape(value),
        );
        self
    }

    /// Writes an element with children and the attribute `xsi:type`.
    pub fn nest_xsi(
        &mut self,
        name: &str,
        kind: &str,
        children: impl FnOnce(&mut XmlWriter),
    ) -> &mut Self {
        let attribute = format!(" xsi:type=\"{}\"", quick_xml::escape::escape(kind));
        self.nest(name, &attribute, children)
    }

    /// Writes an element with children, and `attributes` unescaped after its name.
    pub fn nest(
        &mut self,
        name: &str,
        attributes: &str,
        children: impl FnOnce(&mut XmlWriter),
    ) -> &mut Self {
        let _ = write!(self.out, "<{name}{attributes}>");
        children(self);
        let _ = write!(self.out, "</{name}>");
        self
    }

    /// Returns the written text.
    pub fn finish(self) -> String {
        self.out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn xml_types_are_matched_by_namespace_and_not_by_prefix() {
        let text = r#"<a xmlns:q="http://www.w3.org/2001/XMLSchema-instance" xmlns:z="urn:z">
            <v q:type="xsd:string">x &amp; &#65;<![CDATA[<y>]]>&lt;&gt;&quot;&apos;</v><r type="HostSystem">host-1</r>
            <w z:type="ignored"/></a>"#;
        let root = parse(text).unwrap();
        let v = root.child("v").unwrap();
        assert_eq!(v.xsi_type.as_deref(), Some("string"));
        assert_eq!(v.text, "x & A<y><>\"'");
        assert_eq!(root.child("r").unwrap().type_attr.as_deref(), Some("HostSystem"));
        assert_eq!(root.child("w").unwrap().xsi_type, None);
        assert_eq!(root.text, "", "white space between elements does not count as text");
    }

    #[test]
    fn hostile_documents_are_refused() {
        for (name, text, want) in [
            ("cut in the middle", "<a><b>", XmlError::Truncated),
            ("nothing", "", XmlError::Empty),
            ("entities", "<!DOCTYPE a [<!ENTITY x \"y\">]><a>&x;</a>", XmlError::DocType),
        ] {
            assert_eq!(parse(text).unwrap_err(), want, "{name}");
        }
        assert_eq!(parse(&"<a>".repeat(500)).unwrap_err(), XmlError::TooDeep);
        assert!(matches!(parse("<a>&nope;</a>"), Err(XmlError::Syntax(_))));
        assert!(matches!(parse("<a/><b/>"), Err(XmlError::Syntax(_))));
    }

    proptest::proptest! {
        #[test]
        fn the_parser_never_panics(text in ".{0,200}", tail in "[<>/a-z&;:='\" ]{0,80}") {
            let _ = parse(&text);
            let _ = parse(&tail);
        }
    }
}
