//! Quotas: the maximum number of objects of a kind in a namespace.
//!
//! Follows `apiserver: pkg/admission/plugin/resourcequota/controller.go`, for counts of objects.
//! The real server reads quotas from ResourceQuota objects. Here the world passes them to
//! [`Store::limit_with`].

use std::collections::BTreeMap;
use std::ops::Bound;

use serde::{Deserialize, Serialize};

use crate::{GroupResource, ResourceDef, Status, Store};

/// Prefix of the keys in [`Quota::hard`], as in `count/virtualmachines.vmoperator.vmware.com`.
const COUNT: &str = "count/";

/// Limits on the numbers of objects in one namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quota {
    /// Name of the namespace whose objects the quota counts.
    pub namespace: String,
    /// Name of the quota, which the error for a refused object contains.
    pub name: String,
    /// Maximum number of objects by resource, with keys such as
    /// `count/virtualmachines.vmoperator.vmware.com`.
    pub hard: BTreeMap<String, u64>,
}

impl Quota {
    /// Returns the first key of `hard` that is not a count of objects; `None` if all are.
    pub fn unknown(&self) -> Option<&str> {
        let is_count = |name: &&String| name.strip_prefix(COUNT).is_some_and(|it| !it.is_empty());
        self.hard.keys().find(|name| !is_count(name)).map(String::as_str)
    }
}

impl Store {
    /// Limits the creation of objects by `quotas`, which replace all earlier quotas.
    ///
    /// The quotas belong to this store and its clones; a snapshot does not keep them.
    pub fn limit_with(&mut self, quotas: Vec<Quota>) {
        self.quotas = quotas;
    }

    /// Refuses a new object that would exceed a quota.
    ///
    /// # Errors
    /// 403 with the text of the real server.
    pub(crate) fn within_quotas(
        &self,
        def: &ResourceDef,
        namespace: &str,
        name: &str,
    ) -> Result<(), Status> {
        let what = format!("{COUNT}{}", def.id);
        for quota in self.quotas.iter().filter(|it| def.namespaced && it.namespace == namespace) {
            let Some(limit) = quota.hard.get(&what) else { continue };
            let used = self.n_in_namespace(&def.id, namespace);
            if u64::try_from(used).is_ok_and(|used| used >= *limit) {
                let why = format!(
                    "exceeded quota: {}, requested: {what}=1, used: {what}={used}, limited: {what}={limit}",
                    quota.name
                );
                return Err(Status::forbidden(&def.id, name, &why));
            }
        }
        Ok(())
    }

    fn n_in_namespace(&self, resource: &GroupResource, namespace: &str) -> usize {
        let prefix = format!("{namespace}/");
        let Some(objects) = self.objects.get(resource) else { return 0 };
        let from = objects.range::<str, _>((Bound::Included(prefix.as_str()), Bound::Unbounded));
        from.take_while(|(path, _)| path.starts_with(&prefix)).count()
    }
}
