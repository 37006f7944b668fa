//! 404 and 405 answers: paths that are not served, and methods that a path does not allow.
//!
//! After `apiserver: pkg/server/handler.go`: the server answers a path below a web service (the
//! core API, a built-in group) with a `Status`, and every other path with a text page. Custom
//! resources have no web service. Their handler refuses unknown subresources and methods, and
//! leaves unknown resources and versions to the text page
//! (`apiextensions-apiserver: pkg/apiserver/customresource_handler.go`).

use http::Method;
use kube_sim_store::{GroupResource, ResourceDef, Status};

use crate::answer::{self, Reply, failure};
use crate::auth::access::{Attributes, Object};
use crate::discovery::served;
use crate::request::Request;
use crate::request::route::{Review, Target, Verb};
use crate::server::KubeApi;

impl KubeApi {
    /// Answers a request for a path that is not served.
    pub(crate) fn absent(&self, request: &Request) -> Reply {
        if let Some(id) = self.unserved_resource(request) {
            // The fault in the ledger distinguishes a missing feature of the sim from a missing
            // object.
            return answer::failure(&failure::not_served(&id)).with_fault("NotImplemented");
        }
        match self.custom(request) {
            Some((def, object)) if !object.subresource.is_empty() => {
                answer::failure(&Status::not_found(&def.id, &object.name))
            }
            _ if self.has_service(&request.path) => answer::failure(&failure::no_such_resource()),
            _ => answer::page_not_found(),
        }
    }

    /// The resource in a path, if the real server serves it, together with the subresource in the
    /// path, and this server does not serve the resource; else `None`.
    pub(crate) fn unserved_resource(&self, request: &Request) -> Option<GroupResource> {
        let object = object(request)?;
        let Object { group, resource, subresource, .. } = &object;
        let version = version(&request.path);
        let is_there = match subresource.as_str() {
            "" => served::has_resource(group, version, resource),
            part => served::has_part(group, version, resource, part),
        };
        let is_lacked = is_there && !self.serves_resource(request);
        is_lacked.then(|| id(&object))
    }

    /// Answers a request for an object whose path has an empty namespace: 400 if the server serves
    /// the resource and it is namespaced, else as [`absent`](Self::absent) does.
    pub(crate) fn unplaced(&self, request: &Request) -> Reply {
        let is_namespaced = object(request).is_some_and(|object| {
            let def = self.cluster.read(|store| store.resource(&id(&object)).cloned());
            def.is_some_and(|def| def.namespaced && def.serves(version(&request.path)))
        });
        if is_namespaced {
            answer::failure(&Status::bad_request("Namespace parameter required."))
        } else {
            self.absent(request)
        }
    }

    /// Answers a request for a resource that is not served at this path: 405 for a creation in, or
    /// a deletion of, a built-in collection of all namespaces, else as [`absent`](Self::absent)
    /// does.
    pub(crate) fn misplaced(&self, request: &Request, target: &Target) -> Reply {
        let def = self.cluster.read(|store| store.resource(&target.resource).cloned());
        // The path of a collection in all namespaces only allows reads.
        let is_collection = target.namespace.is_empty()
            && matches!(target.verb, Verb::Create | Verb::DeleteCollection);
        match def {
            Some(def)
                if def.custom.is_none()
                    && def.namespaced
                    && def.serves(&target.version)
                    && is_collection =>
            {
                answer::failure(&failure::not_allowed())
            }
            _ => self.absent(request),
        }
    }

    /// Answers a request with a method that its path does not allow.
    pub(crate) fn not_allowed(&self, request: &Request) -> Reply {
        if let Some((def, object)) = self.custom(request) {
            let verb = Attributes::of(&request.method, &request.path, &request.query).verb;
            let is_write = matches!(request.method, Method::PUT | Method::PATCH);
            let version = version(&request.path);
            let is_there = match object.subresource.as_str() {
                "status" => def.has_status(version),
                "scale" => def.scale(version).is_some(),
                part => part.is_empty(),
            };
            return answer::failure(&match object.name.as_str() {
                "" if is_write => Status::bad_request("name must be provided"),
                name if !is_there => Status::not_found(&def.id, name),
                _ => failure::not_supported(&def.id, &verb),
            });
        }
        match self.serves_resource(request).then(|| self.path_fit(request)) {
            None => self.absent(request),
            Some(PathFit::Exists) => answer::failure(&failure::not_allowed()),
            Some(PathFit::Missing) => answer::failure(&failure::no_such_resource()),
            Some(PathFit::MissingCustom) => answer::page_not_found(),
        }
    }

    /// Returns whether the scope, name and subresource in a path fit the resource in it, so that
    /// the path exists for some method. Always [`PathFit::MissingCustom`] for a custom resource,
    /// because [`not_allowed`](Self::not_allowed) handles its existing paths before.
    fn path_fit(&self, request: &Request) -> PathFit {
        let Some(object) = object(request) else { return PathFit::Exists };
        let def = self.cluster.read(|store| store.resource(&id(&object)).cloned());
        let is_right = match &def {
            Some(def) if def.custom.is_some() => return PathFit::MissingCustom,
            Some(def) => {
                let is_one = !object.name.is_empty();
                // For authorization a Namespace is in the namespace of its own name.
                let is_here = match def.namespaced {
                    true => !object.namespace.is_empty() || !is_one,
                    false => object.namespace.is_empty() || object.resource == "namespaces",
                };
                is_here && (object.subresource != "scale")
            }
            None => object.name.is_empty(),
        };
        if is_right { PathFit::Exists } else { PathFit::Missing }
    }

    /// True if this server serves the resource in the path, whatever the method. For a path without
    /// a resource, true if a web service of the real server handles the path.
    pub(crate) fn serves_resource(&self, request: &Request) -> bool {
        let Some(object) = object(request) else { return self.has_service(&request.path) };
        let is_review =
            |it: &Review| it.group() == object.group && it.resource() == object.resource;
        let id = id(&object);
        Review::ALL.iter().any(is_review)
            || self.cluster.read(|store| {
                let def = store.resource(&id);
                def.is_some_and(|def| def.serves(version(&request.path)))
            })
    }

    /// The custom resource in a path, if the server serves it in this version and scope: a
    /// namespaced resource in a path with a namespace, a cluster-wide one in a path without. `None`
    /// for a collection in all namespaces.
    pub(crate) fn custom(&self, request: &Request) -> Option<(ResourceDef, Object)> {
        let object = object(request)?;
        let id = id(&object);
        let def = self.cluster.read(|store| store.resource(&id).cloned())?;
        let is_served = def.custom.is_some()
            && def.serves(version(&request.path))
            && def.namespaced != object.namespace.is_empty();
        is_served.then_some((def, object))
    }

    /// True if a web service of the real server handles this path.
    pub(crate) fn has_service(&self, path: &str) -> bool {
        let mut steps = path.strip_prefix('/').unwrap_or(path).split('/');
        match (steps.next(), steps.next()) {
            (Some("api" | "version"), _) => true,
            (Some("apis"), Some(group)) if !group.is_empty() => {
                let is_about_objects = steps.nth(1).is_some_and(|resource| !resource.is_empty());
                (is_about_objects && served::has_group(group))
                    || Review::ALL.iter().any(|it| it.group() == group)
                    || self.cluster.read(|store| {
                        let mut all = store.resources();
                        all.any(|def| def.custom.is_none() && def.id.group == group)
                    })
            }
            _ => false,
        }
    }
}

/// Result of [`KubeApi::path_fit`].
enum PathFit {
    /// The path exists.
    Exists,
    /// The path does not exist; its resource is built in.
    Missing,
    /// The path does not exist; its resource is a custom one.
    MissingCustom,
}

fn object(request: &Request) -> Option<Object> {
    Attributes::of(&request.method, &request.path, &request.query).object
}

fn id(object: &Object) -> GroupResource {
    GroupResource { group: object.group.clone().into(), resource: object.resource.clone().into() }
}

/// The version in the path of an object: `/api/<version>` or `/apis/<group>/<version>`.
fn version(path: &str) -> &str {
    let mut steps = path.trim_matches('/').split('/');
    match steps.next() {
        Some("api") => steps.next().unwrap_or_default(),
        _ => steps.nth(1).unwrap_or_default(),
    }
}
