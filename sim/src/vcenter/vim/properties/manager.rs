//! Properties of managers, tasks and views.

use sim_world::vcenter::{Data, MoRef, Progress, Session, SessionService, Task, Work};

use super::{Prop, Reader, Subject, leaf};
use crate::vcenter::vim::content;
use crate::vcenter::vim::data::{Object, Reference, Value, VimFault};

pub(super) const SERVICE_INSTANCE: &[Prop] = &[
    leaf("serverClock", |reader, _| Some(reader.state.epoch().into())),
    leaf("content", |reader, _| Some(content::service_content(reader.vc).into())),
];

pub(super) const SESSION_MANAGER: &[Prop] = &[
    leaf("sessionList", |reader, _| {
        let sessions = reader.vc.logins.sessions.values();
        let logged_in =
            sessions.filter(|it| it.family == SessionService::Soap && it.user.is_some());
        let list = logged_in.filter_map(|it| user_session(reader, it)).map(Value::from);
        Some(Value::List("UserSession", list.collect()))
    }),
    leaf("currentSession", |reader, _| user_session(reader, reader.session?.1).map(Value::from)),
    leaf("messageLocaleList", |_, _| Some(Value::texts(["en"]))),
    leaf("supportedLocaleList", |_, _| Some(Value::texts(["en"]))),
    leaf("defaultLocale", |_, _| Some("en".into())),
];

pub(super) const TASK: &[Prop] = &[leaf("info", |reader, it| match it {
    Subject::Task(id, task) => Some(task_info(reader, id.to_string(), task).into()),
    _ => None,
})];

pub(super) const TASK_MANAGER: &[Prop] = &[
    leaf("recentTask", |reader, _| Some(Value::refs(reader.vc.tasks.keys().copied()))),
    leaf("maxCollector", |_, _| Some(32.into())),
];

pub(super) const MANAGED_OBJECT_VIEW: &[Prop] = &[leaf("view", |reader, it| match it {
    Subject::View(view) => Some(Value::refs(view.objects(reader))),
    _ => None,
})];

pub(super) const CONTAINER_VIEW: &[Prop] = &[
    leaf("container", |_, it| match it {
        Subject::View(view) => view.container().map(Value::from),
        _ => None,
    }),
    leaf("type", |_, it| match it {
        Subject::View(view) => view.types().map(|types| Value::texts(types.iter().cloned())),
        _ => None,
    }),
    leaf("recursive", |_, it| match it {
        Subject::View(view) => view.recursive().map(Value::from),
        _ => None,
    }),
];

/// Returns a session as a `UserSession`; `None` for an anonymous session.
pub(crate) fn user_session(reader: &Reader<'_>, session: &Session) -> Option<Object> {
    let user = session.user.as_deref()?;
    let shown = match user.split_once('@') {
        Some((name, domain)) => format!("{}\\{name}", domain.to_uppercase()),
        None => user.to_owned(),
    };
    let at = |time: sim_world::Time| time.timestamp(reader.state.epoch());
    Some(
        Object::new("UserSession")
            .with("key", session.key.as_str())
            .with("userName", shown)
            .with("fullName", user.split('@').next().unwrap_or_default())
            .with("loginTime", at(session.login_time))
            .with("lastActiveTime", at(session.last_active))
            .with("locale", "en")
            .with("messageLocale", "en")
            .with("extensionSession", false)
            .with("ipAddress", "127.0.0.1")
            .with("userAgent", session.user_agent.as_str())
            .with("callCount", i32::try_from(session.calls).unwrap_or(i32::MAX)),
    )
}

fn task_info(reader: &Reader<'_>, id: String, task: &Task) -> Object {
    let at = |time: sim_world::Time| time.timestamp(reader.state.epoch());
    let operation = task.work.operation();
    let (state, error, result) = match &task.progress {
        Progress::Running => ("running", None, None),
        Progress::Success(made) => ("success", None, result(reader, task, *made)),
        Progress::Error(fault) => ("error", Some(VimFault::from(fault.clone()).localized()), None),
    };
    let mut info = Object::new("TaskInfo")
        .with("key", id.as_str())
        .with("task", Reference::new("Task", id.as_str()))
        .with("name", operation)
        .with("descriptionId", task.work.description_id())
        .with("entity", task.entity)
        .with("entityName", task.entity_name.as_str())
        .with("state", Value::Enum("TaskInfoState", state))
        .with("cancelled", false)
        .with("cancelable", false)
        .maybe("error", error);
    if let Some(result) = result {
        info = info.with_typed("result", result);
    }
    let reason = Object::new("TaskReasonUser").with("userName", task.user.as_str());
    info.with_typed("reason", reason)
        .with("queueTime", at(task.queued))
        .with("startTime", at(task.queued))
        .maybe("completeTime", task.completed.map(at))
        .with("eventChainId", i32::try_from(task.queued.since_start().as_secs()).unwrap_or(0))
}

/// Returns the result of a successful task: the files of a search, or a reference to the object
/// that the task created; `None` if it has neither.
fn result(reader: &Reader<'_>, task: &Task, made: Option<MoRef>) -> Option<Value> {
    match &task.work {
        Work::SearchDatastore(directory) => Some(found(reader, task, directory).into()),
        _ => made.map(Value::from),
    }
}

/// Returns the files of a directory of a datastore. The root (an empty path) has one directory per
/// machine; any other directory has a configuration file and a disk file with its name, even if no
/// machine has that name. Ignores `searchSpec`, because the files have only paths.
fn found(reader: &Reader<'_>, task: &Task, directory: &str) -> Object {
    let file = |kind: &'static str, path: String| Object::new(kind).with("path", path).into();
    let files: Vec<Value> = match reader.vc.inventory.get(task.entity).map(|it| &it.data) {
        Some(Data::Datastore { machines, .. }) if directory.is_empty() => machines
            .iter()
            .filter_map(|id| reader.vc.inventory.get(*id))
            .map(|machine| file("FolderFileInfo", machine.name.clone()))
            .collect(),
        _ => vec![
            file("VmConfigFileInfo", format!("{directory}.vmx")),
            file("VmDiskFileInfo", format!("{directory}.vmdk")),
        ],
    };
    Object::new("HostDatastoreBrowserSearchResults")
        .with("datastore", task.entity)
        .with("folderPath", format!("[{}] {directory}", task.entity_name))
        .with("file", Value::List("FileInfo", files))
}
