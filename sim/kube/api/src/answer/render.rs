//! Renders objects for answers: whole, as a table, or as metadata only.

use std::sync::Arc;

use http::StatusCode;
use jiff::Timestamp;
use kube_sim_store::{Page, ResourceDef, Status};
use serde_json::{Map, Value, json};

use crate::answer::{self, Reply};
use crate::backend::Cluster;
use crate::request::Request;
use crate::request::accept::Form;
use crate::table::{Include, Layout, partial};

/// The rendering that one request asks for: the form of the objects in its answer.
#[derive(Clone, Debug)]
pub(crate) struct Rendering {
    pub(crate) form: Form,
    /// Layout of a table; `None` for other forms.
    layout: Option<Layout>,
}

impl Rendering {
    /// Chooses the rendering that this request asks for.
    ///
    /// # Errors
    /// 406 for unavailable representations, 400 for invalid parameters.
    pub(crate) fn of(
        cluster: &Cluster,
        def: &ResourceDef,
        request: &Request,
    ) -> Result<Self, Status> {
        let form = request.wanted_of(def)?.form;
        let layout = match form {
            Form::Table(meta) => {
                let include = Include::read(&request.query)?;
                Some(if request.is_of_scale() {
                    Layout::of_scales(meta, include)
                } else {
                    cluster.read(|store| Layout::of(def, store, meta, include))
                })
            }
            _ => None,
        };
        Ok(Self { form, layout })
    }

    /// An answer with one object.
    ///
    /// # Errors
    /// 406 if the request asks for the metadata of a list.
    pub(crate) fn one(
        &self,
        def: &ResourceDef,
        code: StatusCode,
        object: &Arc<Value>,
        now: Timestamp,
    ) -> Result<Reply, Status> {
        let reply = match self.form {
            Form::PartialList(_) => return Err(self.unfit(def, "")),
            Form::Whole => answer::json(code, object.as_ref()),
            _ => answer::json(code, &self.value(object, true, now)),
        };
        Ok(reply.with_objects(vec![object.clone()]))
    }

    /// An answer with a list.
    ///
    /// # Errors
    /// 406 if the request asks for the metadata of one object.
    pub(crate) fn list(
        &self,
        def: &ResourceDef,
        page: &Page,
        now: Timestamp,
    ) -> Result<Reply, Status> {
        let metadata = answer::list_metadata(page);
        let objects = page.items.iter().map(AsRef::as_ref);
        let reply = match (self.form, &self.layout) {
            (Form::Partial(_), _) => return Err(self.unfit(def, "List")),
            (Form::Table(_), Some(layout)) => answer::json(
                StatusCode::OK,
                &layout.table(metadata, layout.columns(), objects, now),
            ),
            (Form::PartialList(meta), _) => {
                let list = json!({
                    "kind": "PartialObjectMetadataList",
                    "apiVersion": meta.api_version(),
                    "metadata": metadata,
                    "items": objects.map(|it| partial(it, meta)).collect::<Vec<_>>(),
                });
                answer::json(StatusCode::OK, &list)
            }
            _ => answer::list(def, page, metadata),
        };
        Ok(reply.with_objects(page.items.clone()))
    }

    /// Renders one object of a watch or of an answer. A table has its columns if `with_columns` is
    /// true; in a watch only the first table has them.
    pub(crate) fn value(&self, object: &Value, with_columns: bool, now: Timestamp) -> Value {
        match (self.form, &self.layout) {
            (Form::Table(_), Some(layout)) => {
                let version = object["metadata"]["resourceVersion"].clone();
                let mut metadata = Map::new();
                if !version.is_null() {
                    metadata.insert("resourceVersion".into(), version);
                }
                let columns = if with_columns { layout.columns() } else { Value::Null };
                layout.table(metadata, columns, std::iter::once(object), now)
            }
            (Form::Partial(meta), _) => partial(object, meta),
            _ => object.clone(),
        }
    }

    /// Part of the object that a row of the table includes; `None` for forms other than tables.
    pub(crate) fn include(&self) -> Option<Include> {
        self.layout.as_ref().map(Layout::include)
    }

    /// Failure 406 for a request whose wanted metadata does not fit the answer. `list` is empty if
    /// the request asks for the metadata of a list and the answer is one object. `list` is `List`
    /// if the request asks for the metadata of one object and the answer is a list.
    pub(crate) fn unfit(&self, def: &ResourceDef, list: &str) -> Status {
        let (wanted, is) = match list {
            "" => ("PartialObjectMetadataList", "not a list"),
            _ => ("PartialObjectMetadata", "a list"),
        };
        let message = format!(
            "you requested {wanted}, but the requested object is {is} (*{}.{}{list})",
            go_package(def),
            def.kind
        );
        Status::new(406, "NotAcceptable", message)
    }
}

/// The Go package that holds the kinds of a group in the real server.
fn go_package(def: &ResourceDef) -> &str {
    match def.id.group.as_ref() {
        "" => "core",
        group => group.split('.').next().unwrap_or(group),
    }
}
