//! Go structures, parsed from `schemas/types.json` and files of the same form.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

const TYPES: &str = include_str!("../../schemas/types.json");

/// Go structures of kinds, and of the types that these refer to.
#[derive(Debug, Default)]
pub(crate) struct Types {
    /// Position in `structs` by group and kind, for the version that sorts last.
    kinds: BTreeMap<(&'static str, &'static str), usize>,
    /// Position in `structs` by apiVersion and kind.
    versions: BTreeMap<(&'static str, &'static str), usize>,
    /// All structures, sorted by their name in OpenAPI.
    structs: Vec<Struct>,
}

/// A Go structure.
#[derive(Debug)]
pub(crate) struct Struct {
    /// Name, such as `NodeSpec`.
    pub(crate) name: &'static str,
    /// Go type in messages, such as `v1.NodeSpec`.
    pub(crate) go: String,
    /// Name in OpenAPI, such as `io.k8s.api.core.v1.NodeSpec`.
    pub(crate) full: &'static str,
    /// Fields in the order in which Go writes them.
    pub(crate) fields: Vec<Field>,
    /// Positions in `fields` by name.
    by_name: Vec<(&'static str, usize)>,
}

/// A field of a structure.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) of: Type,
    /// True if Go does not write the field when it is empty.
    pub(crate) omitted: bool,
    /// For a list: true if a strategic merge patch merges the list; otherwise the patch replaces it
    /// as a whole. Maps and structures merge in any case.
    pub(crate) merges: bool,
    /// The field that identifies elements, if the field is a list of structures that merges.
    pub(crate) merge_key: Option<&'static str>,
}

/// The type of a value.
#[derive(Debug)]
pub(crate) enum Type {
    /// A string type, with its name in Go, such as `v1.TaintEffect`.
    String(&'static str),
    Bool,
    /// An integer type, with its name in Go: `int32`, `int64` or `int`.
    Int(&'static str),
    Float,
    /// Bytes, which JSON contains as base64.
    Bytes,
    /// An instant in seconds.
    Time,
    /// An instant in microseconds.
    MicroTime,
    /// A duration, such as `1m30s`.
    Duration,
    /// A number with a suffix, such as `100Mi`.
    Quantity,
    IntOrString,
    /// Any JSON value, which decoding leaves as it is.
    Raw,
    /// A structure, by its position in `Types::structs`.
    Struct(usize),
    /// A list, with its type in Go's notation and the type of its elements.
    List(String, Box<Self>),
    /// A map, with its type in Go's notation and the type of its values.
    Map(String, Box<Self>),
    Pointer(Box<Self>),
}

impl Type {
    /// True if Go's zero value of the type is written as `null`.
    pub(super) fn is_nullable(&self) -> bool {
        matches!(
            self,
            Self::Bytes
                | Self::Time
                | Self::MicroTime
                | Self::Raw
                | Self::List(..)
                | Self::Map(..)
                | Self::Pointer(_)
        )
    }
}

#[derive(Deserialize)]
struct File {
    #[serde(borrow)]
    kinds: BTreeMap<&'static str, &'static str>,
    #[serde(borrow)]
    structs: BTreeMap<&'static str, Vec<Row>>,
}

/// A field as the file describes it: name, type, flags and, if it has one, merge key.
type Row = Vec<&'static str>;

impl Types {
    /// Returns the structures of the built-in kinds.
    pub(crate) fn builtin() -> &'static Self {
        static BUILTIN: LazyLock<Types> = LazyLock::new(|| Types::read(TYPES));
        &BUILTIN
    }

    /// The structure of a kind, in the version that sorts last; `None` for an unknown kind.
    pub(crate) fn kind(&self, group: &str, kind: &str) -> Option<&Struct> {
        self.structs.get(*self.kinds.get(&(group, kind))?)
    }

    /// The structure of a kind in one of its versions, such as `example.com/v1`; `None` for an
    /// unknown kind or version.
    pub(crate) fn version(&self, group_version: &str, kind: &str) -> Option<&Struct> {
        self.structs.get(*self.versions.get(&(group_version, kind))?)
    }

    pub(crate) fn at(&self, index: usize) -> Option<&Struct> {
        self.structs.get(index)
    }

    /// Returns the structure with the name `full` in OpenAPI; `None` for an unknown name.
    pub(crate) fn named(&self, full: &str) -> Option<&Struct> {
        let at = self.structs.binary_search_by(|one| one.full.cmp(full)).ok()?;
        self.structs.get(at)
    }

    /// Returns the field at a dotted path below `root`. Keys of maps count as steps, elements of
    /// lists do not. A path that ends with a key of a map gives the field that has the map. Returns
    /// `None` if no field has the path.
    pub(crate) fn field<'a>(&'a self, root: &'a Struct, path: &str) -> Option<&'a Field> {
        let mut steps = path.split('.');
        let first = steps.next()?;
        let mut field = root.field(first)?;
        let mut of = &field.of;
        for step in steps {
            loop {
                match of {
                    Type::Pointer(inner) | Type::List(_, inner) => of = inner,
                    Type::Struct(at) => {
                        field = self.at(*at)?.field(step)?;
                        of = &field.of;
                        break;
                    }
                    Type::Map(_, inner) => {
                        of = inner;
                        break;
                    }
                    _ => return None,
                }
            }
        }
        Some(field)
    }

    /// Parses one of the type files in `schemas/`.
    ///
    /// # Panics
    /// If the text is not a valid type file. The files are part of the program, and tests parse all
    /// of them.
    pub(super) fn read(text: &'static str) -> Self {
        let File { kinds, structs } =
            serde_json::from_str(text).expect("the types in schemas/ are readable");
        let names: Vec<&'static str> = structs.keys().copied().collect();
        let index = |name: &str| names.binary_search(&name).ok();
        let versions: BTreeMap<_, _> = kinds
            .into_iter()
            .filter_map(|(gvk, name)| Some((gvk.rsplit_once('/')?, index(name)?)))
            .collect();
        let kinds = versions
            .iter()
            .filter_map(|((version, kind), at)| Some(((version.split_once('/')?.0, *kind), *at)));
        let kinds = kinds.collect();
        let structs = structs
            .into_iter()
            .map(|(full, rows)| {
                let fields: Vec<Field> = rows.iter().filter_map(|row| field(row, &names)).collect();
                let mut by_name: Vec<_> =
                    fields.iter().enumerate().map(|(at, field)| (field.name, at)).collect();
                by_name.sort_unstable();
                let name = full.rsplit('.').next().unwrap_or(full);
                Struct { name, go: short(full), full, fields, by_name }
            })
            .collect();
        Self { kinds, versions, structs }
    }
}

impl Struct {
    /// Returns the field with this name in JSON; `None` if the structure does not have it.
    pub(crate) fn field(&self, name: &str) -> Option<&Field> {
        self.fields.get(self.position(name)?)
    }

    /// Returns the position of the field `name` in `fields`; `None` if the structure does not have
    /// it.
    pub(crate) fn position(&self, name: &str) -> Option<usize> {
        let at = self.by_name.binary_search_by(|(one, _)| (*one).cmp(name)).ok()?;
        Some(self.by_name[at].1)
    }
}

fn field(row: &Row, names: &[&'static str]) -> Option<Field> {
    let (name, of, flags) = (*row.first()?, *row.get(1)?, *row.get(2)?);
    let of = read_type(of, names)?;
    // Go's `omitempty` (`o`) never leaves out a structure; `omitzero` (`z`) does.
    let is_struct = matches!(
        of,
        Type::Struct(_)
            | Type::Time
            | Type::MicroTime
            | Type::Duration
            | Type::Quantity
            | Type::IntOrString
    );
    let omitted = flags.contains('z') || flags.contains('o') && !is_struct;
    let merge_key = row.get(3).copied();
    Some(Field { name, of, omitted, merges: flags.contains('m'), merge_key })
}

fn read_type(text: &'static str, names: &[&'static str]) -> Option<Type> {
    read_named(text, None, names)
}

/// Parses the type in `text`; `None` for an unknown type. `go` is the name of the type in Go, if Go
/// declares a name for it.
fn read_named(
    text: &'static str,
    go: Option<&'static str>,
    names: &[&'static str],
) -> Option<Type> {
    let go_name = || go.map_or_else(|| go_type(text), str::to_owned);
    if let Some(inner) = text.strip_prefix('*') {
        return Some(Type::Pointer(Box::new(read_type(inner, names)?)));
    }
    if text == "[]byte" {
        return Some(Type::Bytes);
    }
    if let Some(inner) = text.strip_prefix("[]") {
        return Some(Type::List(go_name(), Box::new(read_type(inner, names)?)));
    }
    if let Some(rest) = text.strip_prefix("map[") {
        let (_, value) = rest.split_once(']')?;
        return Some(Type::Map(go_name(), Box::new(read_type(value, names)?)));
    }
    if let Some((name, base)) = text.split_once('=') {
        return read_named(base, Some(name), names);
    }
    Some(match text {
        "string" => Type::String(go.unwrap_or("string")),
        "bool" => Type::Bool,
        "int32" | "int64" | "int" => Type::Int(text),
        "float64" => Type::Float,
        "Time" => Type::Time,
        "MicroTime" => Type::MicroTime,
        "Duration" => Type::Duration,
        "Quantity" => Type::Quantity,
        "IntOrString" => Type::IntOrString,
        "Raw" => Type::Raw,
        _ => Type::Struct(names.binary_search(&text).ok()?),
    })
}

/// Returns the short form of a name: `v1.Taint` for `io.k8s.api.core.v1.Taint`.
fn short(full: &str) -> String {
    let mut parts = full.rsplit('.');
    let name = parts.next().unwrap_or_default();
    format!("{}.{name}", parts.next().unwrap_or_default())
}

/// Returns a type of the file as Go prints it.
fn go_type(text: &str) -> String {
    for prefix in ["[]", "*"] {
        if let Some(inner) = text.strip_prefix(prefix) {
            return format!("{prefix}{}", go_type(inner));
        }
    }
    if let Some((key, value)) = text.strip_prefix("map[").and_then(|rest| rest.split_once(']')) {
        return format!("map[{key}]{}", go_type(value));
    }
    if let Some((name, _)) = text.split_once('=') {
        return name.to_owned();
    }
    match text {
        "byte" => "uint8".into(),
        "Time" | "MicroTime" | "Duration" => format!("v1.{text}"),
        "Quantity" => "resource.Quantity".into(),
        "IntOrString" => "intstr.IntOrString".into(),
        _ if text.contains('.') => short(text),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{TYPES, Types};

    #[test]
    fn the_type_file_is_read_with_every_field_and_kind() {
        let raw: serde_json::Value = serde_json::from_str(TYPES).unwrap();
        let types = Types::read(TYPES);
        for (full, rows) in raw["structs"].as_object().unwrap() {
            let read = types.named(full).unwrap();
            assert_eq!(read.fields.len(), rows.as_array().unwrap().len(), "{full}");
        }
        assert_eq!(types.versions.len(), raw["kinds"].as_object().unwrap().len());
        assert_eq!(Types::builtin().kinds.len(), Types::builtin().versions.len());
    }

    #[test]
    fn every_built_in_resource_has_types() {
        for def in crate::resources::builtin() {
            assert!(Types::builtin().kind(&def.id.group, &def.kind).is_some(), "{}", def.id);
        }
    }

    #[test]
    fn fields_are_found_by_path() {
        let types = Types::builtin();
        let pod = types.kind("", "Pod").unwrap();
        for (path, key, merges) in [
            ("spec.containers", Some("name"), true),
            ("spec.containers.ports", Some("containerPort"), true),
            ("spec.tolerations", None, false),
            ("metadata.finalizers", None, true),
            ("metadata.ownerReferences", Some("uid"), true),
        ] {
            let field = types.field(pod, path).unwrap();
            assert_eq!((field.merge_key, field.merges), (key, merges), "{path}");
        }
        assert!(types.field(pod, "spec.nothing").is_none());
    }
}
