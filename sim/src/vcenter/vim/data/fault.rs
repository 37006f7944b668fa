//! vim25 faults as data: class, fields and message.

use jiff::Timestamp;
use sim_world::vcenter::{Power, VcFault};

use super::value::{Field, Object, Reference, Value};
use crate::call::operations::fault_class;
use crate::call::vim25::{self, Declared};

/// A vim25 fault: an object of a fault class, and a message.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct VimFault {
    /// Class and fields of the fault.
    pub(crate) object: Object,
    /// Message of the fault; empty only if a rule sets an empty one.
    pub(crate) message: String,
}

impl VimFault {
    pub(crate) fn new(class: &'static str, message: impl Into<String>) -> Self {
        Self { object: Object::new(class), message: message.into() }
    }

    #[must_use]
    pub(crate) fn with(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.object.fields.push(Field { name, value: value.into(), typed: false });
        self
    }

    /// Class of the fault.
    pub(crate) fn class(&self) -> &'static str {
        self.object.kind
    }

    pub(crate) fn not_authenticated() -> Self {
        Self::new("NotAuthenticated", "The session is not authenticated.")
            .with("object", Reference::new("Folder", "group-d1"))
            .with("privilegeId", "System.View")
    }

    pub(crate) fn no_permission(object: Reference, privilege: &str) -> Self {
        Self::new("NoPermission", "Permission to perform this operation was denied.")
            .with("object", object)
            .with("privilegeId", privilege)
    }

    pub(crate) fn not_found(kind: &str, id: &str) -> Self {
        let message = format!(
            "The object 'vim.{kind}:{id}' has already been deleted or has not been completely created"
        );
        Self::new("ManagedObjectNotFound", message)
            .with("obj", Reference::new(vim25::reference_type(kind), id))
    }

    pub(crate) fn invalid_argument(property: &str) -> Self {
        Self::new("InvalidArgument", format!("A specified parameter was not correct: {property}"))
            .with("invalidProperty", property)
    }

    pub(crate) fn invalid_property(path: &str) -> Self {
        Self::new("InvalidProperty", format!("The property '{path}' does not exist."))
            .with("name", path)
    }

    pub(crate) fn invalid_collector_version() -> Self {
        Self::new(
            "InvalidCollectorVersion",
            "The version specified by the client is not known to the property collector.",
        )
    }

    pub(crate) fn invalid_request(message: impl Into<String>) -> Self {
        Self::new("InvalidRequest", message)
    }

    pub(crate) fn request_canceled() -> Self {
        Self::new("RequestCanceled", "The task was canceled by a user.")
    }

    /// Returns the fault for an operation that objects of this type do not offer.
    pub(crate) fn method_not_found(receiver: Reference, operation: &str) -> Self {
        let kind = receiver.kind;
        let message = format!("Objects of type {kind} have no method {operation}.");
        Self::new("MethodNotFound", message).with("receiver", receiver).with("method", operation)
    }

    /// Returns the fault for an operation that the simulated vCenter does not support.
    pub(crate) fn not_supported(kind: &str, operation: &str) -> Self {
        Self::new(
            "NotSupported",
            format!("The operation {operation} is not supported on objects of type {kind}."),
        )
    }

    /// Returns a fault of the class that a rule names, with `message`, else with the usual message
    /// of the class or a general one. An unknown class becomes `SystemError`.
    pub(crate) fn named(class: &str, message: Option<&str>) -> Self {
        let typical = match class {
            "NotAuthenticated" => Some(Self::not_authenticated()),
            "NoPermission" => {
                Some(Self::no_permission(Reference::new("Folder", "group-d1"), "System.Read"))
            }
            "RequestCanceled" => Some(Self::request_canceled()),
            "InvalidCollectorVersion" => Some(Self::invalid_collector_version()),
            "InvalidLogin" => Some(VcFault::InvalidLogin.into()),
            "HostNotConnected" => Some(VcFault::HostNotConnected.into()),
            "InvalidState" => Some(VcFault::InvalidState.into()),
            "ToolsUnavailable" => Some(VcFault::ToolsUnavailable.into()),
            "NotSupported" => Some(VcFault::NotSupported.into()),
            "ManagedObjectNotFound" => Some(Self::not_found("VirtualMachine", "vm-0")),
            "InvalidProperty" => Some(Self::invalid_property("config")),
            "InvalidArgument" => Some(Self::invalid_argument("spec")),
            _ => None,
        };
        let mut fault = typical.unwrap_or_else(|| {
            let class = fault_class(class).unwrap_or("SystemError");
            let mut fault = Self::new(class, "A general system error occurred: injected");
            fault.object.fields = mandatory(class);
            fault
        });
        if let Some(message) = message {
            message.clone_into(&mut fault.message);
        }
        fault
    }

    /// Converts the fault to a `LocalizedMethodFault`, the form of faults within data objects.
    pub(crate) fn localized(self) -> Object {
        Object::new("LocalizedMethodFault")
            .with_typed("fault", self.object)
            .with("localizedMessage", self.message)
    }
}

/// Returns the mandatory fields of a data object type, with values of their types.
fn mandatory(kind: &str) -> Vec<Field> {
    let fields = vim25::find(kind).into_iter().flat_map(vim25::Type::fields);
    let fields = fields.filter(|it| !it.declared.is_optional && !it.declared.is_list);
    let field = |it: vim25::Field| {
        let typed = it.declared.name == "anyType" || vim25::has_derived(it.declared.name);
        Field {
            name: it.name,
            value: placeholder(&it.declared),
            typed: typed && !it.declared.is_reference,
        }
    };
    fields.map(field).collect()
}

/// Returns some value of a type.
fn placeholder(declared: &Declared) -> Value {
    let name = declared.name;
    if declared.is_reference {
        return Reference::new(name, "none").into();
    }
    match (name, vim25::find(name)) {
        ("boolean", _) => false.into(),
        ("byte", _) => 0_i8.into(),
        ("short", _) => 0_i16.into(),
        ("int", _) => 0.into(),
        ("long", _) => 0_i64.into(),
        ("float" | "double", _) => 0_f32.into(),
        ("dateTime", _) => Timestamp::UNIX_EPOCH.into(),
        (_, Some(kind)) if kind.kind == vim25::Kind::Enum => {
            Value::Enum(kind.name, kind.values().next().unwrap_or_default())
        }
        (_, Some(kind)) => Value::Object(Object { kind: kind.name, fields: mandatory(kind.name) }),
        _ => "injected".into(),
    }
}

fn power(state: Power) -> Value {
    Value::Enum("VirtualMachinePowerState", state.as_str())
}

impl From<VcFault> for VimFault {
    fn from(fault: VcFault) -> Self {
        let message = fault.to_string();
        match fault {
            VcFault::ManagedObjectNotFound(id) => {
                Self::not_found(id.kind.type_name(), &id.to_string())
            }
            VcFault::InvalidPowerState { requested, existing } => {
                let fault = Self::new("InvalidPowerState", message);
                let fault = match requested {
                    Some(requested) => fault.with("requestedState", power(requested)),
                    None => fault,
                };
                fault.with("existingState", power(existing))
            }
            VcFault::InvalidState => Self::new("InvalidState", message),
            VcFault::HostNotConnected => Self::new("HostNotConnected", message),
            VcFault::ToolsUnavailable => Self::new("ToolsUnavailable", message),
            VcFault::DuplicateName { name, object } => {
                Self::new("DuplicateName", message).with("name", name).with("object", object)
            }
            VcFault::ConcurrentAccess => Self::new("ConcurrentAccess", message),
            VcFault::InvalidDatastore(id) => {
                Self::new("InvalidDatastore", message).with("datastore", id)
            }
            VcFault::InvalidDevice { index, needs_controller } => {
                let class =
                    if needs_controller { "MissingController" } else { "InvalidDeviceSpec" };
                let index = i32::try_from(index).unwrap_or(i32::MAX);
                Self::new(class, message).with("deviceIndex", index)
            }
            VcFault::FileNotFound(file) => Self::new("FileNotFound", message).with("file", file),
            VcFault::InvalidArgument(argument) => Self::invalid_argument(&argument),
            VcFault::NotSupported => Self::new("NotSupported", message),
            VcFault::InvalidLogin => Self::new("InvalidLogin", message),
            VcFault::NotAuthenticated => Self::not_authenticated(),
            VcFault::NoSuchVCenter(_)
            | VcFault::NoSuchName { .. }
            | VcFault::TooManySessions
            | VcFault::TagNotFound(_)
            | VcFault::TagExists(_)
            | VcFault::TagNotAttachable(_)
            | VcFault::LibraryNotFound(_)
            | VcFault::NoTemplate(_)
            | VcFault::Stopped
            | VcFault::Runs(_) => Self::new("SystemError", message.clone()).with("reason", message),
        }
    }
}
