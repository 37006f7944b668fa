//! Parser of SOAP requests: operation, target object and arguments.

use quick_xml::events::{BytesStart, Event};
use quick_xml::name::ResolveResult;
use quick_xml::reader::NsReader;

use crate::call::operations::soap::NamedOperation;
use crate::vcenter::vim::Node;

const ENVELOPE: &str = "http://schemas.xmlsoap.org/soap/envelope/";
const INSTANCE: &str = "http://www.w3.org/2001/XMLSchema-instance";

/// Maximum nesting depth of elements, to protect the stack. Real requests need less.
const MAX_DEPTH: usize = 64;
/// Maximum number of elements. A real request has fewer, even a ListView of 100,000 machines.
const MAX_ELEMENTS: usize = 400_000;

/// Reason why an envelope cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum MalformedEnvelope {
    #[error("the request is not UTF-8")]
    NotUtf8,
    #[error("the request is not well-formed XML: {0}")]
    Xml(String),
    #[error("document type declarations are not accepted")]
    DocType,
    #[error("the document ends inside an element")]
    Truncated,
    #[error("the document is nested too deeply or has too many elements")]
    TooLarge,
    #[error("the document is not a SOAP 1.1 envelope whose body has an operation")]
    NoEnvelope,
    #[error("the operation has no element _this")]
    NoThis,
}

/// A SOAP request: operation, target object and arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) operation: NamedOperation,
    /// Type and id of the target object, as the client states them in `_this`.
    pub(crate) this: (String, String),
    /// The operation element; `_this` is among its children.
    pub(crate) arguments: Node,
    /// Text of `operationID` in the SOAP header; `None` if the header has none.
    pub(crate) operation_id: Option<String>,
}

/// Parses the envelope of a request: operation, `_this`, arguments and `operationID`.
///
/// # Errors
/// [`MalformedEnvelope`] for a body that is not XML in UTF-8 or not a SOAP 1.1 envelope, that has a
/// document type declaration, that has no operation or no `_this`, or that exceeds the limits of
/// number or depth of elements.
pub(crate) fn read(body: &[u8]) -> Result<Request, MalformedEnvelope> {
    let text = std::str::from_utf8(body).map_err(|_| MalformedEnvelope::NotUtf8)?;
    // The parser accepts control characters, but XML 1.0 does not.
    if text.contains(|c: char| c < ' ' && !matches!(c, '\t' | '\n' | '\r')) {
        return Err(MalformedEnvelope::Xml("a control character".to_owned()));
    }
    let envelope = tree(text)?;
    if envelope.name != "Envelope" {
        return Err(MalformedEnvelope::NoEnvelope);
    }
    let header = envelope.child("Header");
    let operation_id = header.and_then(|header| header.text_of("operationID")).map(str::to_owned);
    let body = envelope.children.into_iter().find(|child| child.name == "Body");
    let mut operations = body.ok_or(MalformedEnvelope::NoEnvelope)?.children.into_iter();
    let arguments = operations.next().ok_or(MalformedEnvelope::NoEnvelope)?;
    let this = arguments.child("_this").ok_or(MalformedEnvelope::NoThis)?.reference();
    Ok(Request {
        operation: NamedOperation::parse(&arguments.name),
        this: (this.kind.into_owned(), this.id.to_owned()),
        operation_id,
        arguments,
    })
}

/// Parses an answer, for tests.
#[cfg(test)]
pub(crate) fn parse(text: &str) -> Node {
    tree(text).expect("the answer is well-formed")
}

fn tree(text: &str) -> Result<Node, MalformedEnvelope> {
    let mut reader = NsReader::from_str(text);
    reader.config_mut().expand_empty_elements = true;
    let mut stack: Vec<Node> = Vec::new();
    let mut n_elements = 0_usize;
    loop {
        let malformed = |err: quick_xml::Error| MalformedEnvelope::Xml(err.to_string());
        let event = reader.read_event().map_err(malformed)?;
        match event {
            Event::Start(start) => {
                n_elements += 1;
                if stack.len() >= MAX_DEPTH || n_elements > MAX_ELEMENTS {
                    return Err(MalformedEnvelope::TooLarge);
                }
                let node = element(&reader, &start, stack.is_empty())?;
                stack.push(node);
            }
            Event::End(_) => {
                let mut done = stack.pop().ok_or(MalformedEnvelope::NoEnvelope)?;
                let trimmed = done.text.trim();
                if trimmed.len() != done.text.len() {
                    let trimmed = trimmed.to_owned();
                    let whole = std::mem::replace(&mut done.text, trimmed);
                    // Keeps white space only for an element without children. Between elements it
                    // is only layout.
                    done.with_blanks = done.children.is_empty().then_some(whole);
                }
                match stack.last_mut() {
                    Some(parent) => parent.children.push(done),
                    None => return rest_is_empty(reader, done),
                }
            }
            Event::Text(text) => {
                if let Some(open) = stack.last_mut() {
                    open.text.push_str(&text);
                }
            }
            Event::CData(text) => {
                if let Some(open) = stack.last_mut() {
                    open.text.push_str(&text);
                }
            }
            Event::GeneralRef(reference) => {
                let decoded = entity(&reference).ok_or_else(|| {
                    MalformedEnvelope::Xml(format!("unknown entity &{};", &*reference))
                })?;
                if let Some(open) = stack.last_mut() {
                    open.text.push(decoded);
                }
            }
            Event::DocType(_) => return Err(MalformedEnvelope::DocType),
            Event::Eof if stack.is_empty() => return Err(MalformedEnvelope::NoEnvelope),
            Event::Eof => return Err(MalformedEnvelope::Truncated),
            Event::Empty(_) | Event::Comment(_) | Event::Decl(_) | Event::PI(_) => {}
        }
    }
}

/// Converts a start tag to a node without content. The outermost element must be in the namespace
/// of SOAP 1.1 envelopes.
fn element(
    reader: &NsReader<&[u8]>,
    start: &BytesStart<'_>,
    outermost: bool,
) -> Result<Node, MalformedEnvelope> {
    let malformed = |err: String| MalformedEnvelope::Xml(err);
    let (namespace, local) = reader.resolver().resolve_element(start.name());
    if outermost && !matches!(namespace, ResolveResult::Bound(bound) if bound.0 == ENVELOPE) {
        return Err(MalformedEnvelope::NoEnvelope);
    }
    let mut node = Node { name: local.as_ref().to_owned(), ..Node::default() };
    for attribute in start.attributes() {
        let attribute = attribute.map_err(|err| malformed(err.to_string()))?;
        let (namespace, local) = reader.resolver().resolve_attribute(attribute.key);
        if local.as_ref() != "type" {
            continue;
        }
        let value = attribute
            .normalized_value(quick_xml::XmlVersion::Explicit1_0)
            .map_err(|err| malformed(err.to_string()))?;
        match namespace {
            // The type name may have any namespace prefix, or none.
            ResolveResult::Bound(bound) if bound.0 == INSTANCE => {
                let bare = value.rsplit(':').next().unwrap_or_default();
                node.xsi_type = Some(bare.to_owned());
            }
            ResolveResult::Unbound => node.ref_type = Some(value.into_owned()),
            ResolveResult::Bound(_) | ResolveResult::Unknown(_) => {}
        }
    }
    Ok(node)
}

/// Returns the character of a predefined entity or of a character reference; `None` for any other
/// entity.
fn entity(reference: &quick_xml::events::BytesRef<'_>) -> Option<char> {
    match &**reference {
        "amp" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        _ => reference.resolve_char_ref().ok().flatten(),
    }
}

/// Returns `root`, the outermost element. Fails if anything but white space, comments and
/// processing instructions follows it.
fn rest_is_empty(mut reader: NsReader<&[u8]>, root: Node) -> Result<Node, MalformedEnvelope> {
    loop {
        match reader.read_event().map_err(|err| MalformedEnvelope::Xml(err.to_string()))? {
            Event::Eof => return Ok(root),
            Event::Text(text) if text.trim().is_empty() => {}
            Event::Comment(_) | Event::PI(_) => {}
            _ => return Err(MalformedEnvelope::Xml("content after the envelope".to_owned())),
        }
    }
}
