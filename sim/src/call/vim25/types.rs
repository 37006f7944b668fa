//! Types of vim25 and their members.

use super::Version;
use super::text::{field, find};

/// Types that are neither data objects nor enumerations.
const SIMPLE: [&str; 12] = [
    "string",
    "boolean",
    "byte",
    "short",
    "int",
    "long",
    "float",
    "double",
    "dateTime",
    "base64Binary",
    "anyURI",
    "anyType",
];

/// Kind of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A managed object type.
    Managed,
    /// A data object type that is not a fault.
    Data,
    /// A data object type that is a fault.
    Fault,
    /// An enumeration.
    Enum,
}

/// A type of vim25.
#[derive(Debug)]
pub(crate) struct Type {
    pub(crate) kind: Kind,
    /// Name on the wire.
    pub(crate) name: &'static str,
    /// Base type; `None` for an enumeration and for the roots.
    pub(crate) base: Option<&'static str>,
    pub(super) since: &'static str,
    /// Lines of the members.
    pub(super) members: &'static str,
}

/// Declared type of a property or parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Declared {
    /// Name of the type, or of the type of the elements of a list.
    pub(crate) name: &'static str,
    /// True if the value is a reference to a managed object, or a list of references.
    pub(crate) is_reference: bool,
    pub(crate) is_list: bool,
    pub(crate) is_optional: bool,
}

/// A property of an object, or a parameter of a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) declared: Declared,
    /// First release with the field.
    pub(crate) since: Version,
    /// True for a password or a key.
    pub(crate) secret: bool,
}

/// A method of a managed object type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Method {
    /// Name on the wire.
    pub(crate) name: &'static str,
    /// The line of the method.
    line: &'static str,
    /// First release with the type; the method may be newer.
    since: &'static str,
    /// The line of each parameter, and that of the faults.
    lines: &'static str,
}

impl Type {
    /// Returns the type and its base types, the type itself first.
    pub(crate) fn chain(&'static self) -> impl Iterator<Item = &'static Type> {
        std::iter::successors(Some(self), |it| it.base.and_then(find))
    }

    /// Returns the fields that the type adds to those of its base type, in the order of the schema.
    pub(crate) fn own_fields(&self) -> impl Iterator<Item = Field> + use<> {
        let is_object = self.kind != Kind::Enum;
        let (members, since) = (self.members, self.since);
        members.lines().filter(move |_| is_object).filter_map(move |line| field(line, " ", since))
    }

    /// Returns all fields, those of the base types first, in the order of the schema.
    pub(crate) fn fields(&'static self) -> impl Iterator<Item = Field> {
        let mut chain: Vec<_> = self.chain().collect();
        chain.reverse();
        chain.into_iter().flat_map(Type::own_fields)
    }

    /// Returns the field of this name, of the type or of a base type.
    pub(crate) fn field(&'static self, name: &str) -> Option<Field> {
        self.chain().find_map(|it| it.own_field(name))
    }

    /// Returns the field of this name that the type adds to those of its base type.
    pub(crate) fn own_field(&self, name: &str) -> Option<Field> {
        if self.kind == Kind::Enum {
            return None;
        }
        let line = self.line(|rest| rest.strip_prefix(name)?.strip_prefix(' '))?.0;
        field(line, " ", self.since)
    }

    /// Returns the methods that the type adds to those of its base type.
    #[cfg(test)]
    pub(crate) fn own_methods(&self) -> impl Iterator<Item = Method> {
        let names = self.members.lines().filter_map(|line| {
            let (name, _) = line.strip_prefix(' ')?.split_once("() ")?;
            Some(name)
        });
        names.filter_map(|name| self.own_method(name))
    }

    /// Returns the method of this name on the wire that the type adds to those of its base type.
    pub(crate) fn own_method(&self, name: &str) -> Option<Method> {
        let (line, at) = self.line(|rest| rest.strip_prefix(name)?.strip_prefix("() "))?;
        let name = line.split(' ').nth(1)?.strip_suffix("()")?;
        Some(Method { name, line, since: self.since, lines: self.members.get(at..)? })
    }

    /// Returns the method of this name on the wire, of the type or of a base type.
    pub(crate) fn method(&'static self, name: &str) -> Option<Method> {
        self.chain().find_map(|it| it.own_method(name))
    }

    /// Returns the values of an enumeration; nothing for any other type.
    pub(crate) fn values(&self) -> impl Iterator<Item = &'static str> {
        let is_enum = self.kind == Kind::Enum;
        self.members.lines().filter(move |_| is_enum).filter_map(|line| line.strip_prefix(' '))
    }

    /// Returns the first line of a field or method whose text after the blank satisfies `test`, and
    /// the position after the line.
    fn line(
        &self,
        test: impl Fn(&'static str) -> Option<&'static str>,
    ) -> Option<(&'static str, usize)> {
        let members: &'static str = self.members;
        let mut at = 0;
        while at < members.len() {
            let end = members[at..].find('\n').map_or(members.len(), |line| at + line);
            let line = &members[at..end];
            if line.strip_prefix(' ').and_then(&test).is_some() {
                return Some((line, end + 1));
            }
            at = end + 1;
        }
        None
    }
}

impl Method {
    /// First release with the method.
    pub(crate) fn since(&self) -> Version {
        Version::parse(self.release())
    }

    /// Type of the result in the form of the text, such as `Task<&VirtualMachine>`.
    #[cfg(test)]
    pub(crate) fn result(&self) -> &'static str {
        self.line.split(' ').nth(2).unwrap_or_default()
    }

    fn release(&self) -> &'static str {
        self.line.split(' ').nth(3).unwrap_or(self.since)
    }

    /// Returns the parameters in the order of the schema.
    pub(crate) fn parameters(&self) -> impl Iterator<Item = Field> + use<> {
        let since = self.release();
        self.own_lines().filter_map(move |line| field(line, "  ", since))
    }

    /// Returns the faults that the method declares. It may also end with any `RuntimeFault`.
    pub(crate) fn faults(&self) -> impl Iterator<Item = &'static str> + use<> {
        let throws = self.own_lines().find_map(|line| line.strip_prefix("  throws "));
        throws.into_iter().flat_map(|names| names.split(' '))
    }

    fn own_lines(&self) -> impl Iterator<Item = &'static str> + use<> {
        let lines: &'static str = self.lines;
        lines.lines().take_while(|line| line.starts_with("  "))
    }
}

impl Declared {
    /// True for texts, numbers, booleans, times, bytes and values of any type.
    pub(crate) fn is_simple(&self) -> bool {
        SIMPLE.contains(&self.name)
    }
}
