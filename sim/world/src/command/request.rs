//! Requests of clients to a vCenter through a face.

use serde::{Deserialize, Serialize};

use crate::vcenter::{
    Cardinality, Category, CloneWork, EndReason, GuestRequest, MoRef, SessionService, Tag, Work,
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
        /// Account name, as `name@domain` or `DOMAIN\name`.
        user: String,
        /// Password that the client sends; a wrong one counts towards the lock-out.
        password: crate::vcenter::Password,
        /// The client's `User-Agent`.
        user_agent: String,
    },
    /// Logs an anonymous SOAP session in as the user of a clone ticket.
    CloneSession {
        /// Token of the anonymous session to log in.
        token: String,
        /// Account that acquired the clone ticket.
        user: String,
    },
    /// Ends a session; does nothing if no session has the token.
    EndSession {
        /// Token of the session to end.
        token: String,
        /// Reason that the end of the session records.
        reason: EndReason,
    },
    /// Records that a call on a session began. Fails if no session has the token.
    CallBegan {
        /// Token of the session.
        token: String,
    },
    /// Records that a call on a session ended; does nothing if no session has the token.
    CallEnded {
        /// Token of the session.
        token: String,
    },
    /// Starts a task on an object.
    StartTask {
        /// The account of the client.
        user: String,
        /// The object of the task: the folder to create in, the datastore to search, and for other
        /// tasks the object to change, usually a machine.
        entity: MoRef,
        /// Operation that the task carries out.
        work: Work,
    },
    /// Asks a guest through VMware Tools to shut down, restart or sleep. The guest does so when the
    /// step `guestPower` ends.
    Guest {
        /// Machine in which the guest runs.
        machine: MoRef,
        /// Request to the guest: shut down, restart or sleep.
        request: GuestRequest,
    },
    /// Creates a tag category. Fails if a category of this name exists.
    CreateCategory(Category),
    /// Changes a tag category. A field that is `None` keeps its value.
    UpdateCategory {
        /// Id of the category to change.
        id: String,
        /// New name; `None` keeps the name.
        name: Option<String>,
        /// New description; `None` keeps the description.
        description: Option<String>,
        /// New cardinality; `None` keeps the cardinality.
        cardinality: Option<Cardinality>,
    },
    /// Deletes the category with this id, and its tags.
    DeleteCategory(String),
    /// Creates a tag in an existing category. Fails if the category already has a tag of this name.
    CreateTag(Tag),
    /// Changes a tag. A field that is `None` keeps its value.
    UpdateTag {
        /// Id of the tag to change.
        id: String,
        /// New name; `None` keeps the name.
        name: Option<String>,
        /// New description; `None` keeps the description.
        description: Option<String>,
    },
    /// Deletes the tag with this id, and detaches it from every object.
    DeleteTag(String),
    /// Attaches a tag. A tag that is already attached is not an error.
    Attach {
        /// Id of the tag.
        tag: String,
        /// Object that gets the tag.
        object: MoRef,
    },
    /// Creates a machine from the template of a library item.
    Deploy {
        /// Id of the item.
        item: String,
        /// The copy to make of the template.
        work: Box<CloneWork>,
    },
    /// Detaches a tag. A tag that is not attached is not an error.
    Detach {
        /// Id of the tag.
        tag: String,
        /// Object that loses the tag.
        object: MoRef,
    },
}
