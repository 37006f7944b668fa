//! The interface of a backend, which knows the machines of the groups, and creates and deletes them.

use std::{sync::Arc, time::Duration};

use tonic::Status;

use super::{
    group::{Capacity, Group, GroupId},
    plan::{Cause, Deletion, Giving, Members, Membership, NamedNode},
};
use crate::tasks::Tasks;

/// Age from which no backend trusts its view.
const MAX_AGE: Duration = Duration::from_secs(300);

/// Says why a view of this age cannot be used; `what` names its objects.
pub(crate) fn is_current(age: Option<Duration>, what: &str) -> Result<(), String> {
    match age {
        None => Err(format!("the {what} have not been listed yet")),
        Some(age) if age > MAX_AGE => {
            Err(format!("the view of the {what} is {} s old", age.as_secs()))
        }
        Some(_) => Ok(()),
    }
}

/// The machines of all groups, and the requests that change them.
///
/// Reads answer from memory. The caller makes one change of a group at a time, and a change sends
/// no request after its budget.
#[tonic::async_trait]
pub(crate) trait Backend: Send + Sync {
    /// Spawns the tasks that keep the view of the machines.
    fn spawn(&self, tasks: &Tasks);

    /// Tells the backend which groups exist. Called again and again, also if nothing changed.
    async fn use_groups(&self, groups: &[Arc<Group>]);

    /// Says why the view cannot be used; `Ok` if it can.
    fn usable(&self) -> Result<(), String>;

    /// Returns the age of the view; `None` before the first list.
    fn view_age(&self) -> Option<Duration>;

    /// Returns the instances of a group, oldest first, and its wanted size.
    fn members(&self, group: &Group) -> Members;

    /// Says whether a node is an instance of the group.
    fn membership(&self, group: &Group, node: &NamedNode) -> Membership;

    /// Returns the ID of the group of a node; `None` if the node is no machine of a group.
    fn group_of(&self, id: &str, name: &str) -> Option<GroupId>;

    /// Returns the resources of a machine of the group.
    ///
    /// # Errors
    ///
    /// If they are not known. The text says why.
    fn capacity(&self, group: &Group) -> Result<Capacity, String>;

    /// Returns the label `node.kubernetes.io/instance-type` of the Nodes of the group. Called if
    /// [`Backend::capacity`] is known.
    fn instance_type(&self, group: &Group) -> String {
        group.instance_type().to_owned()
    }

    /// Raises the size of the group by one machine for each cause.
    ///
    /// # Errors
    ///
    /// The size is then as before, and no machine of this call stays.
    async fn increase(
        &self,
        group: &Group,
        causes: Vec<Cause>,
        budget: Duration,
    ) -> Result<(), Status>;

    /// Deletes instances, and lowers the size by each that is not replaced.
    ///
    /// # Errors
    ///
    /// Some deletions may have taken effect. A repeated call completes the rest.
    async fn delete(
        &self,
        group: &Group,
        deletion: Deletion,
        budget: Duration,
    ) -> Result<(), Status>;

    /// Lowers the size without deleting a machine that exists.
    ///
    /// # Errors
    ///
    /// As for [`Backend::delete`]; also if one of the instances has a machine by now.
    async fn decrease(&self, group: &Group, giving: Giving, budget: Duration)
    -> Result<(), Status>;

    /// Ends the sessions of the backend, after its tasks have ended.
    async fn close(&self) {}
}
