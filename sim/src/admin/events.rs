//! Applies events to the world and the Supervisor.

use axum::Json;
use axum::extract::State;
use bytes::Bytes;
use http::StatusCode;
use serde_json::{Value, json};
use sim_world::vcenter::VcFault;
use sim_world::{Applied, Command, Fault, Outcome, World};

use super::supervisor::{Happening, no_supervisor};
use super::{AdminError, Ruled};
use crate::control::Control;
use crate::{Supervisor, document};

/// `POST /world/events`: the body is a command, or a list of them, carried out in order. All commands of a list happen at one
/// moment, or none.
///
/// A list may contain events of the Supervisor as a server. Such an event can still fail when the sim carries it out, because it
/// cannot write its files. The error answer then lists what happened before. The world events between two Supervisor events
/// happen at one moment, or none.
pub(super) async fn happen(
    State(ruled): State<Ruled>,
    body: Bytes,
) -> Result<Json<Value>, AdminError> {
    let Ruled { control, supervisor, endpoints: _ } = ruled;
    let value = document::json(&body)?;
    let Value::Array(list) = value else {
        let mut answers = carry_out(&control, supervisor.as_ref(), vec![read(value)?])
            .map_err(|Stopped { error, .. }| error)?;
        return Ok(Json(answers.remove(0)));
    };
    let n = list.len();
    let place = |i: usize| format!("event {} of {n}: ", i + 1);
    let mut asked = Vec::new();
    for (i, command) in list.into_iter().enumerate() {
        asked.push(read(command).map_err(|error| error.at(&place(i)))?);
    }
    rehearse(&control, supervisor.as_ref(), &asked, &place)?;
    let answers = carry_out(&control, supervisor.as_ref(), asked);
    let answers = answers.map_err(|Stopped { error, at, done }| match done.as_slice() {
        [] if n > 1 => error.at(&place(at)).none_happened(),
        done => error.at(&place(at)).after(done),
    })?;
    Ok(Json(Value::Array(answers)))
}

/// Error of an event in a list of events, with its index and the answers to the events before it.
struct Stopped {
    error: AdminError,
    /// Index of the event that failed.
    at: usize,
    /// Answers for the events that happened before the failed one.
    done: Vec<Value>,
}

/// Carries events out in order. World events that follow each other happen at one moment, or none of them.
fn carry_out(
    control: &Control,
    supervisor: Option<&Supervisor>,
    asked: Vec<Asked>,
) -> Result<Vec<Value>, Stopped> {
    let mut done: Vec<Value> = Vec::new();
    let mut asked = asked.into_iter().peekable();
    while let Some(first) = asked.next() {
        let answers = match first {
            Asked::Supervisor(happening) => match happening.happen(supervisor) {
                Ok(()) => vec![json!({"events": 0})],
                Err(error) => return Err(Stopped { error, at: done.len(), done }),
            },
            Asked::World(command) => {
                let mut commands = vec![*command];
                while let Some(Asked::World(command)) =
                    asked.next_if(|asked| matches!(asked, Asked::World(_)))
                {
                    commands.push(*command);
                }
                match happened(control, commands) {
                    Ok(applied) => applied.into_iter().map(answer).collect(),
                    Err((i, fault)) => {
                        return Err(Stopped { error: refused(fault), at: done.len() + i, done });
                    }
                }
            }
        };
        let at = json!(control.world.now());
        done.extend(answers.into_iter().map(|mut answer| {
            answer["at"] = at.clone();
            answer
        }));
    }
    Ok(done)
}

/// Applies world events. A single event needs no copy of the world.
fn happened(control: &Control, mut commands: Vec<Command>) -> Result<Vec<Applied>, (usize, Fault)> {
    if commands.len() == 1 {
        let applied = control.apply(commands.remove(0)).map_err(|fault| (0, fault))?;
        return Ok(vec![applied]);
    }
    control.apply_all(commands)
}

/// Checks on a copy of the world that all events of a list with Supervisor events can happen. Lists of world events alone are
/// checked when they are carried out.
fn rehearse(
    control: &Control,
    supervisor: Option<&Supervisor>,
    asked: &[Asked],
    place: &dyn Fn(usize) -> String,
) -> Result<(), AdminError> {
    if asked.len() < 2 || asked.iter().all(|it| matches!(it, Asked::World(_))) {
        return Ok(());
    }
    let now = control.world.now();
    let mut copy = control.world.read(World::clone);
    for (i, command) in asked.iter().enumerate() {
        let tried = match command {
            Asked::World(command) => {
                copy.apply(now, (**command).clone()).map(drop).map_err(refused)
            }
            Asked::Supervisor(_) if supervisor.is_none() => Err(no_supervisor()),
            Asked::Supervisor(_) => Ok(()),
        };
        tried.map_err(|error| error.at(&place(i)).none_happened())?;
    }
    Ok(())
}

fn answer(applied: Applied) -> Value {
    let mut answer = json!({"events": applied.events.len()});
    match applied.outcome {
        Outcome::Reference(id) => answer["reference"] = json!(id.to_string()),
        Outcome::Id(id) => answer["id"] = json!(id),
        // The answer omits session tokens, which are secrets, and objects, which clients read from the cluster.
        _ => {}
    }
    answer
}

/// An event that a request asks for.
enum Asked {
    World(Box<Command>),
    Supervisor(Happening),
}

fn read(value: Value) -> Result<Asked, AdminError> {
    let name = value.as_object().and_then(|it| it.keys().next());
    if name.is_some_and(|name| Happening::is_called(name)) {
        let happening = document::typed::<Happening>(value);
        return happening.map(Asked::Supervisor).map_err(AdminError::from);
    }
    command(value).map(|command| Asked::World(Box::new(command)))
}

fn command(value: Value) -> Result<Command, AdminError> {
    let example = r#"a command is an object with one key, such as {"vm.powerOff": "node-0001"}"#;
    let command = document::typed::<Command>(value)
        .map_err(|wrong| AdminError::from(wrong.or_remedy(example)))?;
    match command {
        Command::Supervisor(_) => Err(AdminError::bad("`supervisor` is no event of the world")
            .remedy("talk to the Supervisor itself, with kubectl for one")),
        Command::Cluster(_) => Err(AdminError::bad("`cluster` is no event of the world")
            .remedy("talk to the cluster itself, with kubectl for one")),
        Command::Request { .. } => {
            Err(AdminError::bad("`vcenter.request` is no event of the world")
                .remedy("talk to the vCenter itself, with govc for one"))
        }
        command => Ok(command),
    }
}

fn refused(fault: Fault) -> AdminError {
    let status = match &fault {
        Fault::VCenter(
            VcFault::NoSuchName { .. }
            | VcFault::NoSuchVCenter(_)
            | VcFault::ManagedObjectNotFound(_)
            | VcFault::TagNotFound(_),
        ) => StatusCode::NOT_FOUND,
        _ => StatusCode::CONFLICT,
    };
    let remedy = match status {
        StatusCode::NOT_FOUND => "GET /world lists what there is",
        _ => "GET /world shows the state it is in; nothing has changed",
    };
    AdminError::new(status, fault.to_string()).remedy(remedy)
}
