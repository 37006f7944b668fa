//! Requests of clients to a vCenter through a face.

use serde::{Deserialize, Serialize};

use crate::vcenter::{
    Cardinality, Category, EndReason, GuestRequest, MoRef, SessionService, Tag, Work,
};

/// A client's request to a vCenter through a face.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum VcRequest {
    /// Opens an anonymous SOAP session, as the first call of a client does.
    OpenSession {
        /// The client's `User-Agent`.
        user_agent: String,
    },
    /// Logs in; opens a session if `token` does not name an open one. Fails if `token` names a
    /// session that is logged in already.
    Login {
        /// The process that keeps the session.
        family: SessionService,
        /// Token of the anonymous session to log in; `None` opens a session.
        token: Option<String>,
        /// Account.
        user: String,
        /// Password.
        password: crate::vcenter::Password,
        /// The client's `User-Agent`.
        user_agent: String,
    },
    /// Logs an anonymous SOAP session in as the user of a clone ticket.
    CloneSession {
        /// The anonymous session.
        token: String,
        /// Account.
        user: String,
    },
    /// Ends a session.
    EndSession {
        /// Its token.
        token: String,
        /// The reason.
        reason: EndReason,
    },
    /// Notes that a call on a session began.
    CallBegan {
        /// The session's token.
        token: String,
    },
    /// Notes that a call on a session ended.
    CallEnded {
        /// The session's token.
        token: String,
    },
    /// Starts a task on an object.
    StartTask {
        /// The account of the client.
        user: String,
        /// The object of the task: the folder to create in, the datastore to search, and for other
        /// tasks the object to change, usually a machine.
        entity: MoRef,
        /// The work of the task.
        work: Work,
    },
    /// Asks a guest through VMware Tools to shut down, restart or sleep. The guest does so when the
    /// step `guestPower` ends.
    Guest {
        /// The machine.
        machine: MoRef,
        /// The guest operation.
        request: GuestRequest,
    },
    /// Creates a tag category.
    CreateCategory(Category),
    /// Changes a tag category. A field that is `None` keeps its value.
    UpdateCategory {
        /// Its id.
        id: String,
        /// New name.
        name: Option<String>,
        /// New description.
        description: Option<String>,
        /// New cardinality.
        cardinality: Option<Cardinality>,
    },
    /// Deletes a category and its tags.
    DeleteCategory(String),
    /// Creates a tag.
    CreateTag(Tag),
    /// Changes a tag. A field that is `None` keeps its value.
    UpdateTag {
        /// Its id.
        id: String,
        /// New name.
        name: Option<String>,
        /// New description.
        description: Option<String>,
    },
    /// Deletes a tag.
    DeleteTag(String),
    /// Attaches a tag. A tag that is already attached is not an error.
    Attach {
        /// The tag's id.
        tag: String,
        /// The object.
        object: MoRef,
    },
    /// Detaches a tag. A tag that is not attached is not an error.
    Detach {
        /// The tag's id.
        tag: String,
        /// The object.
        object: MoRef,
    },
}
