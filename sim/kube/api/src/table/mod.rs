//! Tables for `kubectl get`. The server makes them, as the real server does.
//!
//! Columns of built-in kinds come from `columns.json`, recorded from the real server; functions in
//! [`cells`] make their cells. Custom resources have the columns of their definition. Built-in
//! kinds that the file does not list have a name and a time of creation.

mod age;
mod cells;
mod jsonpath;
mod pods;
#[cfg(test)]
mod tests;
mod volumes;
mod workloads;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use jiff::Timestamp;
use kube_sim_store::{FieldErrors, Key, ResourceDef, Status, Store};
use serde_json::{Map, Value, json};

use self::jsonpath::Path;
use crate::query::Query;
use crate::request::accept::Meta;

/// Resource of the definitions of custom resources.
const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// Columns by resource. The key `*` has the columns of built-in kinds that the file does not list.
static COLUMNS: LazyLock<BTreeMap<String, Value>> = LazyLock::new(|| {
    serde_json::from_str(include_str!("columns.json")).expect("columns.json is readable")
});

/// Part of an object that the table row of the object includes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Include {
    Nothing,
    Metadata,
    Object,
}

impl Include {
    /// Reads the parameter `includeObject`, by default `Metadata`.
    ///
    /// # Errors
    /// 400 for an unknown value.
    pub(crate) fn read(query: &Query) -> Result<Self, Status> {
        match query.get("includeObject") {
            "None" => Ok(Self::Nothing),
            "" | "Metadata" => Ok(Self::Metadata),
            "Object" => Ok(Self::Object),
            other => {
                let mut errors = FieldErrors::default();
                errors.invalid(
                    "includeObject",
                    &other.into(),
                    "must be 'Metadata', 'Object', 'None', or empty",
                );
                let message = format!("Unable to convert to Table as requested: {errors}");
                Err(Status::bad_request(message))
            }
        }
    }
}

/// Layout of the rows of one resource.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    resource: String,
    custom: Option<Vec<Column>>,
    meta: Meta,
    include: Include,
}

/// A column of a custom resource, other than the first column, which is the name.
#[derive(Clone, Debug)]
struct Column {
    definition: Value,
    kind: String,
    path: Option<Path>,
}

impl Layout {
    /// Part of an object that the table row of the object includes.
    pub(crate) fn include(&self) -> Include {
        self.include
    }

    /// The layout of a resource by its current definition.
    pub(crate) fn of(def: &ResourceDef, store: &Store, meta: Meta, include: Include) -> Self {
        let resource = def.id.to_string();
        let definition = store.get(&Key::new(DEFINITIONS, "", resource.as_str()));
        let custom = definition.map(|it| columns_of(it, &def.version));
        Self { resource, custom, meta, include }
    }

    /// The layout of scales of any resource.
    pub(crate) fn of_scales(meta: Meta, include: Include) -> Self {
        Self { resource: "scales.autoscaling".into(), custom: None, meta, include }
    }

    /// The definitions of the columns.
    pub(crate) fn columns(&self) -> Value {
        match &self.custom {
            None => COLUMNS.get(&self.resource).unwrap_or(&COLUMNS["*"]).clone(),
            Some(columns) => {
                let name = COLUMNS["*"][0].clone();
                let others = columns.iter().map(|column| column.definition.clone());
                std::iter::once(name).chain(others).collect()
            }
        }
    }

    /// A table of these objects. `metadata` is the metadata of the table: of the list, or of the
    /// one object. `columns` are the definitions of the columns, or null in later tables of a
    /// watch.
    pub(crate) fn table<'a>(
        &self,
        metadata: Map<String, Value>,
        columns: Value,
        objects: impl Iterator<Item = &'a Value>,
        now: Timestamp,
    ) -> Value {
        let rows: Vec<Value> = objects.map(|object| self.row(object, now)).collect();
        // The real server's conversion for kinds without columns writes null for an empty list.
        let is_generic = self.custom.is_none() && !COLUMNS.contains_key(&self.resource);
        let rows = if rows.is_empty() && is_generic { Value::Null } else { rows.into() };
        json!({
            "kind": "Table",
            "apiVersion": self.meta.api_version(),
            "metadata": metadata,
            "columnDefinitions": columns,
            "rows": rows,
        })
    }

    fn row(&self, object: &Value, now: Timestamp) -> Value {
        let cells = match &self.custom {
            None => cells::of(&self.resource, object, now),
            Some(columns) => {
                let name = Value::from(cells::text(object, "/metadata/name"));
                let others = columns.iter().map(|column| column.cell(object, now));
                std::iter::once(name).chain(others).collect()
            }
        };
        let mut row = Map::new();
        row.insert("cells".into(), cells.into());
        if let Some(conditions) = self.conditions(object) {
            row.insert("conditions".into(), conditions);
        }
        let shown = match self.include {
            Include::Nothing => Value::Null,
            Include::Metadata => partial(object, self.meta),
            Include::Object => object.clone(),
        };
        row.insert("object".into(), shown);
        row.into()
    }

    fn conditions(&self, object: &Value) -> Option<Value> {
        if self.resource == "pods" { pods::conditions(object) } else { None }
    }
}

/// An object's metadata without the rest, as a `PartialObjectMetadata`.
pub(crate) fn partial(object: &Value, meta: Meta) -> Value {
    let metadata = object.get("metadata").cloned().unwrap_or_else(|| json!({}));
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": meta.api_version(),
        "metadata": metadata,
    })
}

/// The columns that a definition gives one version of its resource, without the column of the name.
/// If the definition gives none, the only other column is the age.
///
/// After `apiextensions-apiserver: pkg/registry/customresource/tableconvertor`.
fn columns_of(definition: &Value, version: &str) -> Vec<Column> {
    let versions = cells::list(definition, "/spec/versions").iter();
    let version = versions.into_iter().find(|it| it["name"] == version);
    let given = version.map(|it| cells::list(it, "/additionalPrinterColumns")).unwrap_or_default();
    if given.is_empty() {
        let mut age = COLUMNS["*"][1].clone();
        age["name"] = "Age".into();
        let path = Path::parse(".metadata.creationTimestamp");
        return vec![Column { definition: age, kind: "date".into(), path }];
    }
    given
        .iter()
        .map(|column| {
            let path = cells::text(column, "/jsonPath");
            let description = match cells::text(column, "/description") {
                "" => format!("Custom resource definition column (in JSONPath format): {path}"),
                description => description.to_owned(),
            };
            let kind = cells::text(column, "/type").to_owned();
            let definition = json!({
                "name": cells::text(column, "/name"),
                "type": kind,
                "format": cells::text(column, "/format"),
                "description": description,
                "priority": column["priority"].as_i64().unwrap_or_default(),
            });
            Column { definition, kind, path: Path::parse(path) }
        })
        .collect()
}

impl Column {
    /// The value in the column; null if the object has none, or if the type of the value does not
    /// fit the type of the column. A column of strings shows a value of another type as JSON. A
    /// column of dates shows the age of the instant, or `<invalid>` for a text that is not an
    /// instant.
    fn cell(&self, object: &Value, now: Timestamp) -> Value {
        let Some(found) = self.path.as_ref().and_then(|path| path.first(object)) else {
            return Value::Null;
        };
        match (self.kind.as_str(), found) {
            (_, Value::Null) => Value::Null,
            ("string", Value::String(_)) => found.clone(),
            ("string", other) => sorted(other).to_string().into(),
            ("integer", Value::Number(number)) => {
                // Go cuts off the fraction.
                #[expect(clippy::cast_possible_truncation, reason = "Go truncates, too")]
                let whole = || number.as_f64().map(|it| it as i64);
                number.as_i64().or_else(whole).into()
            }
            ("number", Value::Number(_)) | ("boolean", Value::Bool(_)) => found.clone(),
            ("date", Value::String(text)) => match text.parse::<Timestamp>() {
                Ok(_) => age::since(found, now).into(),
                Err(_) => "<invalid>".into(),
            },
            _ => Value::Null,
        }
    }
}

/// The value with the keys of its objects sorted, as Go prints maps.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let entries: BTreeMap<&String, Value> =
                map.iter().map(|(name, value)| (name, sorted(value))).collect();
            entries.into_iter().map(|(name, value)| (name.clone(), value)).collect()
        }
        Value::Array(items) => items.iter().map(sorted).collect(),
        other => other.clone(),
    }
}
