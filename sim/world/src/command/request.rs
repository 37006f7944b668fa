//! What clients ask of a vCenter through a face.

use serde::{Deserialize, Serialize};

use crate::vcenter::{Cardinality, Category, EndReason, Family, GuestRequest, MoRef, Tag, Work};

/// What a client asks of a vCenter through a face.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum VcRequest {
    /// An anonymous SOAP session, as the first contact of a client opens one.
    OpenSession {
        /// The client's `User-Agent`.
        user_agent: String,
    },
    /// A login. Without a token a session is opened for it.
    Login {
        /// Which process.
        family: Family,
        /// The anonymous session to log in.
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
        /// Why.
        reason: EndReason,
    },
    /// A call on a session began.
    CallBegan {
        /// The session's token.
        token: String,
    },
    /// A call on a session ended.
    CallEnded {
        /// The session's token.
        token: String,
    },
    /// Accepts a task.
    StartTask {
        /// Who asks.
        user: String,
        /// What to work on: a machine, or the folder to create in.
        entity: MoRef,
        /// What to do.
        work: Work,
    },
    /// Asks a guest, through VMware Tools, to shut down, restart or sleep. It takes its time.
    Guest {
        /// The machine.
        machine: MoRef,
        /// What it is asked for.
        request: GuestRequest,
    },
    /// Creates a tag category.
    CreateCategory(Category),
    /// Changes a tag category.
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
    /// Changes a tag.
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
    /// Attaches a tag. Doing it twice is fine.
    Attach {
        /// The tag's id.
        tag: String,
        /// The object.
        object: MoRef,
    },
    /// Detaches a tag.
    Detach {
        /// The tag's id.
        tag: String,
        /// The object.
        object: MoRef,
    },
}
