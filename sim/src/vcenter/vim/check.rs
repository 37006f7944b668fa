//! Checks of requests by the schema of vim25: the method exists on the object, and the arguments have
//! only known elements and all mandatory ones.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::data::{Node, Reference, VimFault};
use super::operations::{Caller, Vim};
use crate::call::operations::soap::NamedOperation;
use crate::call::vim25::{self, Field, Method, Version};
use crate::shared_world::Locked;

/// Operation of the transport, on every object. The schema does not have it.
const FETCH: &str = "Fetch";

impl Vim {
    /// Checks that the object has the method in the release of the vCenter, and checks the arguments
    /// of a method that the vCenter supports. Does not check the method of an object that does not
    /// exist.
    ///
    /// # Errors
    /// `InvalidRequest` for a method that vim25 does not have, and for an unknown element;
    /// `MethodNotFound` if objects of this type do not have the method; `InvalidArgument` if a
    /// mandatory element is missing.
    pub(super) fn check_method(
        &self,
        world: &Locked<'_>,
        caller: &Caller<'_>,
        operation: &NamedOperation,
        (claimed, id): (&str, &str),
        arguments: &Node,
    ) -> Result<(), VimFault> {
        let name = operation.name();
        let release = self.release(world);
        if name == FETCH {
            return Ok(());
        }
        let actual = self.type_of(world, caller, id);
        let kind = actual.unwrap_or_else(|| vim25::reference_type(claimed));
        let method = vim25::find(kind).and_then(|it| it.method(name));
        match method.filter(|it| it.since() <= release) {
            Some(method) if operation.supported().is_some() => {
                check_arguments(&method, arguments, release)
            }
            Some(_) => Ok(()),
            None if !vim25::is_method(name) => {
                let message = format!("Unable to resolve WSDL method name {name} for urn:vim25");
                Err(VimFault::invalid_request(message))
            }
            None if actual.is_some() => {
                Err(VimFault::method_not_found(Reference::new(kind, id), name))
            }
            None => Ok(()),
        }
    }
}

/// Checks the arguments of a method.
fn check_arguments(method: &Method, arguments: &Node, release: Version) -> Result<(), VimFault> {
    let parameters: Vec<Field> = method.parameters().filter(|it| it.since <= release).collect();
    let mut check = Check { release, fields: BTreeMap::new() };
    check.children(arguments, &parameters, None).map_err(|problem| match problem {
        Problem::Unexpected { tag, within } => {
            let place = match within {
                Some(kind) => format!("parsing serialized DataObject of type {kind}"),
                None => format!("parsing call information for method {}", method.name),
            };
            let message = format!("Unexpected element tag \"{tag}\" seen\n\nwhile {place}");
            VimFault::invalid_request(message)
        }
        Problem::WrongType { stated, declared } => {
            VimFault::invalid_request(format!("The type {stated} is not a {declared}."))
        }
        Problem::Missing(path) => VimFault::invalid_argument(&path),
    })
}

/// Reason why arguments are invalid.
enum Problem {
    /// An element that the data object `within` does not have, or the method if `None`.
    Unexpected { tag: String, within: Option<&'static str> },
    /// The type that the client states is unknown, or not derived from the declared one.
    WrongType { stated: String, declared: &'static str },
    /// Path of a missing mandatory element.
    Missing(String),
}

/// A check of arguments, with the fields of the types that it has met.
struct Check {
    release: Version,
    fields: BTreeMap<&'static str, Rc<[Field]>>,
}

impl Check {
    /// Checks the elements in `node`, which is a data object of type `within` or the call: each is
    /// one of `fields`, no mandatory field is missing, and the data objects in them are valid.
    fn children(
        &mut self,
        node: &Node,
        fields: &[Field],
        within: Option<&'static str>,
    ) -> Result<(), Problem> {
        for child in node.children.iter().filter(|it| it.name != "_this") {
            let Some(field) = fields.iter().find(|it| it.name == child.name) else {
                return Err(Problem::Unexpected { tag: child.name.clone(), within });
            };
            let declared = field.declared;
            let is_plain = declared.is_simple() && declared.name != "anyType";
            if !is_plain && !declared.is_reference {
                self.value(child, declared.name).map_err(|problem| match problem {
                    Problem::Missing(path) => Problem::Missing(format!("{}.{path}", field.name)),
                    other => other,
                })?;
            }
        }
        let is_missing = |it: &&Field| {
            !it.declared.is_optional && !it.declared.is_list && node.child(it.name).is_none()
        };
        match fields.iter().find(is_missing) {
            Some(missing) => Err(Problem::Missing(missing.name.to_owned())),
            None => Ok(()),
        }
    }

    /// Checks a data object or a value of any type. Its type is the one that the client states, or
    /// the declared one.
    fn value(&mut self, node: &Node, declared: &'static str) -> Result<(), Problem> {
        let is_any = declared == "anyType";
        let stated = node.xsi_type.as_deref().unwrap_or(declared);
        let known = vim25::find(stated).filter(|it| is_any || vim25::is_a(it.name, declared));
        match known {
            Some(known) if known.kind == vim25::Kind::Enum => Ok(()),
            Some(known) => {
                let release = self.release;
                let fields = self.fields.entry(known.name);
                let all = || known.fields().filter(|it| it.since <= release).collect();
                let fields = Rc::clone(fields.or_insert_with(all));
                self.children(node, &fields, Some(known.name))
            }
            None if is_any => Ok(()),
            None => Err(Problem::WrongType { stated: stated.to_owned(), declared }),
        }
    }
}
