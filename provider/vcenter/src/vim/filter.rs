//! Filter specifications (`PropertyFilterSpec`): the properties to read, the starting objects, and
//! the traversals from there.

use super::MoRef;
use crate::xml::XmlWriter;

/// One step of a property traversal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traversal {
    /// Name by which other steps refer to this one.
    pub name: String,
    /// Managed object type to which this step applies; its subtypes included.
    pub kind: String,
    /// Property that holds the references to follow.
    pub path: String,
    /// Names of the steps that continue from the objects that this step reaches.
    pub then: Vec<String>,
}

/// Properties to read, and the objects to read them from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilterSpec {
    /// Property paths per managed object type.
    pub properties: Vec<(String, Vec<String>)>,
    /// Starting objects.
    pub objects: Vec<MoRef>,
    /// True if the answer leaves out the starting objects themselves.
    pub skip_start: bool,
    /// Traversals applied to every starting object.
    pub traversals: Vec<Traversal>,
    /// True if the answer leaves out a starting object that is gone; otherwise such an object fails
    /// the whole call.
    pub tolerates_missing: bool,
    /// Root folder. If set, the answer also includes the root folder, the folders below it and the
    /// datacenters, each with the [`FilterSpec::properties`] of its type.
    pub tree: Option<MoRef>,
}

impl FilterSpec {
    /// Returns a specification that reads `paths` of these objects, all of type `kind`.
    pub fn of_objects(kind: &str, paths: &[&str], objects: Vec<MoRef>) -> Self {
        Self {
            properties: vec![(kind.to_owned(), paths.iter().map(|p| (*p).to_owned()).collect())],
            objects,
            ..Self::default()
        }
    }

    /// Returns the specification with [`FilterSpec::tolerates_missing`] set.
    #[must_use]
    pub fn tolerating_missing(self) -> Self {
        Self { tolerates_missing: true, ..self }
    }

    /// Returns a specification that reads the root folder, the folders below it down to the
    /// datacenters, and the datacenters, each with name and parent.
    pub fn datacenters(root: MoRef) -> Self {
        Self::default().with_datacenters(root)
    }

    /// Returns the specification, which also reads the folders and datacenters that
    /// [`FilterSpec::datacenters`] reads.
    #[must_use]
    pub fn with_datacenters(mut self, root: MoRef) -> Self {
        for kind in ["Folder", "Datacenter"] {
            self.properties.push((kind.to_owned(), vec!["name".to_owned(), "parent".to_owned()]));
        }
        self.tree = Some(root);
        self
    }

    /// Returns a specification that reads the names of the folders and datacenters that are
    /// directly in a folder.
    pub fn children(folder: MoRef) -> Self {
        let name = || vec!["name".to_owned()];
        Self {
            properties: vec![("Folder".to_owned(), name()), ("Datacenter".to_owned(), name())],
            objects: vec![folder],
            skip_start: true,
            traversals: vec![Traversal {
                name: "children".to_owned(),
                kind: "Folder".to_owned(),
                path: "childEntity".to_owned(),
                then: Vec::new(),
            }],
            ..Self::default()
        }
    }

    /// Returns a specification that reads `paths` of all objects of type `kind` in a view.
    pub fn of_view(view: &MoRef, kind: &str, paths: &[&str]) -> Self {
        Self {
            properties: vec![(kind.to_owned(), paths.iter().map(|p| (*p).to_owned()).collect())],
            objects: vec![view.clone()],
            skip_start: true,
            traversals: vec![Traversal {
                name: "view".to_owned(),
                kind: view.kind().to_owned(),
                path: "view".to_owned(),
                then: Vec::new(),
            }],
            ..Self::default()
        }
    }

    /// Returns a specification that reads name and parent of the objects and of all their ancestors
    /// up to the root folder, and of machines also `parentVApp`.
    ///
    /// The traversal is that of the reference provider (`govmomi: object/ancestors.go`). Several
    /// starting objects share one call.
    pub fn ancestors(objects: Vec<MoRef>) -> Self {
        let up = |name: &str, kind: &str, path: &str| Traversal {
            name: name.to_owned(),
            kind: kind.to_owned(),
            path: path.to_owned(),
            then: vec!["traverseParent".to_owned(), "traverseVApp".to_owned()],
        };
        Self {
            properties: vec![
                ("ManagedEntity".to_owned(), vec!["name".to_owned(), "parent".to_owned()]),
                ("VirtualMachine".to_owned(), vec!["parentVApp".to_owned()]),
            ],
            objects,
            traversals: vec![
                up("traverseParent", "ManagedEntity", "parent"),
                up("traverseVApp", "VirtualMachine", "parentVApp"),
            ],
            ..Self::default()
        }
    }

    /// Writes the specification as an element of this name.
    pub(crate) fn write(&self, name: &str, out: &mut XmlWriter) {
        out.nest(name, "", |out| {
            for (kind, paths) in &self.properties {
                out.nest("propSet", "", |out| {
                    out.text("type", kind);
                    for path in paths {
                        out.text("pathSet", path);
                    }
                });
            }
            if let Some(root) = &self.tree {
                write_start(root, false, &[Traversal::down_folders()], out);
            }
            for object in &self.objects {
                write_start(object, self.skip_start, &self.traversals, out);
            }
            if self.tolerates_missing {
                out.text("reportMissingObjectsInResults", "true");
            }
        });
    }
}

impl Traversal {
    /// Returns the step from a folder to its children, and on from those that are folders. It does
    /// not enter datacenters.
    fn down_folders() -> Self {
        Self {
            name: "folders".to_owned(),
            kind: "Folder".to_owned(),
            path: "childEntity".to_owned(),
            then: vec!["folders".to_owned()],
        }
    }
}

/// Writes a starting object with its traversals. If `skip` is true, the answer leaves out the
/// object itself.
fn write_start(object: &MoRef, skip: bool, traversals: &[Traversal], out: &mut XmlWriter) {
    out.nest("objectSet", "", |out| {
        out.reference("obj", object);
        out.text("skip", if skip { "true" } else { "false" });
        for step in traversals {
            out.nest("selectSet", " xsi:type=\"TraversalSpec\"", |out| {
                out.text("name", &step.name);
                out.text("type", &step.kind);
                out.text("path", &step.path);
                out.text("skip", "false");
                for next in &step.then {
                    out.nest("selectSet", " xsi:type=\"SelectionSpec\"", |out| {
                        out.text("name", next);
                    });
                }
            });
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_and_datacenters_come_before_the_requested_objects() {
        let machine = MoRef::new("VirtualMachine", "vm-1");
        let spec = FilterSpec::of_objects("VirtualMachine", &["config.uuid"], vec![machine]);
        let spec = spec.with_datacenters(MoRef::new("Folder", "group-d1")).tolerating_missing();
        let mut out = XmlWriter::default();
        spec.write("specSet", &mut out);
        let text = out
            .finish()
            .replace("<objectSet>", "\n<objectSet>")
            .replace("<propSet>", "\n<propSet>");
        insta::assert_snapshot!(text, @r#"
        <specSet>
        <propSet><type>VirtualMachine</type><pathSet>config.uuid</pathSet></propSet>
        <propSet><type>Folder</type><pathSet>name</pathSet><pathSet>parent</pathSet></propSet>
        <propSet><type>Datacenter</type><pathSet>name</pathSet><pathSet>parent</pathSet></propSet>
        <objectSet><obj type="Folder">group-d1</obj><skip>false</skip><selectSet xsi:type="TraversalSpec"><name>folders</name><type>Folder</type><path>childEntity</path><skip>false</skip><selectSet xsi:type="SelectionSpec"><name>folders</name></selectSet></selectSet></objectSet>
        <objectSet><obj type="VirtualMachine">vm-1</obj><skip>false</skip></objectSet><reportMissingObjectsInResults>true</reportMissingObjectsInResults></specSet>
        "#);
    }
}
