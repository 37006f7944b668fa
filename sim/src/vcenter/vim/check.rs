//! Checks of requests by the schema of vim25: the method exists on the object, and the arguments have
//! only known elements and all mandatory ones.

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
    let place = format!("parsing call information for method {}", method.name);
    check_children(arguments, &parameters, "", &place, release)
}

/// Checks the elements in `node`, which is at `path` in the arguments: each is one of `fields`, no
/// mandatory field is missing, and the data objects in them are valid. `place` names the object
/// around the elements for messages.
fn check_children(
    node: &Node,
    fields: &[Field],
    path: &str,
    place: &str,
    release: Version,
) -> Result<(), VimFault> {
    let below = |name: &str| match path {
        "" => name.to_owned(),
        path => format!("{path}.{name}"),
    };
    for child in node.children.iter().filter(|it| it.name != "_this") {
        let Some(field) = fields.iter().find(|it| it.name == child.name) else {
            let tag = &child.name;
            let message = format!("Unexpected element tag \"{tag}\" seen\n\nwhile {place}");
            return Err(VimFault::invalid_request(message));
        };
        let declared = field.declared;
        let is_plain = declared.is_simple() && declared.name != "anyType";
        if !is_plain && !declared.is_reference {
            check_value(child, field, &below(field.name), release)?;
        }
    }
    let is_missing = |it: &&Field| {
        !it.declared.is_optional && !it.declared.is_list && node.child(it.name).is_none()
    };
    match fields.iter().find(is_missing) {
        Some(missing) => Err(VimFault::invalid_argument(&below(missing.name))),
        None => Ok(()),
    }
}

/// Checks the data object or the value of any type in a field. Its type is the one that the client
/// states, or the declared one.
fn check_value(node: &Node, field: &Field, path: &str, release: Version) -> Result<(), VimFault> {
    let declared = field.declared.name;
    let is_any = declared == "anyType";
    let stated = node.xsi_type.as_deref();
    let kind = stated.unwrap_or(declared);
    let known = vim25::find(kind).filter(|it| is_any || vim25::is_a(it.name, declared));
    match known {
        Some(known) if known.kind == vim25::Kind::Enum => Ok(()),
        Some(known) => {
            let fields: Vec<Field> = known.fields().filter(|it| it.since <= release).collect();
            let place = format!("parsing serialized DataObject of type {kind}");
            check_children(node, &fields, path, &place, release)
        }
        None if is_any => Ok(()),
        None => Err(VimFault::invalid_request(format!("The type {kind} is not a {declared}."))),
    }
}
