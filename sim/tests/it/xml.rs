//! A minimal tree of XML elements for reading answers.

use quick_xml::events::Event;
use quick_xml::reader::Reader;

/// An XML element. The namespace prefix is part of its name.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) attributes: Vec<(String, String)>,
    pub(crate) text: String,
    pub(crate) children: Vec<Node>,
}

impl Node {
    /// Parses a document, and returns its root element. Fails if the document is not well-formed.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut reader = Reader::from_str(text);
        let mut stack = vec![Node::default()];
        loop {
            match reader.read_event().map_err(|error| error.to_string())? {
                Event::Start(start) => {
                    let mut node =
                        Node { name: start.name().as_ref().to_owned(), ..Node::default() };
                    for attribute in start.attributes() {
                        let attribute = attribute.map_err(|error| error.to_string())?;
                        let key = attribute.key.as_ref().to_owned();
                        node.attributes.push((key, attribute.value.into_owned()));
                    }
                    stack.push(node);
                }
                Event::End(_) => {
                    let node = stack.pop().ok_or("too many ends")?;
                    stack.last_mut().ok_or("too many ends")?.children.push(node);
                }
                Event::Empty(start) => {
                    let mut node =
                        Node { name: start.name().as_ref().to_owned(), ..Node::default() };
                    for attribute in start.attributes() {
                        let attribute = attribute.map_err(|error| error.to_string())?;
                        let key = attribute.key.as_ref().to_owned();
                        node.attributes.push((key, attribute.value.into_owned()));
                    }
                    stack.last_mut().ok_or("no parent")?.children.push(node);
                }
                Event::Text(text) => stack.last_mut().ok_or("no parent")?.text.push_str(&text),
                Event::GeneralRef(name) => {
                    let text = match &*name {
                        "amp" => "&",
                        "lt" => "<",
                        "gt" => ">",
                        "quot" => "\"",
                        "apos" => "'",
                        other => return Err(format!("entity {other}")),
                    };
                    stack.last_mut().ok_or("no parent")?.text.push_str(text);
                }
                Event::Eof => break,
                _ => {}
            }
        }
        let root = stack.pop().ok_or("too many ends")?;
        match (stack.is_empty(), root.children.into_iter().next()) {
            (true, Some(root)) => Ok(root),
            _ => Err("the document is empty or ends early".to_owned()),
        }
    }

    /// The first child of this name.
    pub(crate) fn child(&self, name: &str) -> Option<&Node> {
        self.children.iter().find(|child| child.name == name)
    }

    /// The children of this name.
    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Node> {
        self.children.iter().filter(move |child| child.name == name)
    }

    /// The text of the first child of this name; empty without such a child.
    pub(crate) fn text_of(&self, name: &str) -> &str {
        self.child(name).map_or("", |child| &child.text)
    }

    pub(crate) fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}
