//! Request that applies events to the world and to the Supervisor.

use axum::Json;
use axum::extract::State;
use bytes::Bytes;
use http::StatusCode;
use serde_json::{Value, json};
use sim_world::vcenter::VcFault;
use sim_world::{Applied, Command, Fault, Outcome, World};

use super::supervisor::{SupervisorEvent, no_supervisor};
use super::{AdminError, AdminState};
use crate::shared_world::Control;
use crate::{Supervisor, document};

/// `POST /world/events`: carries out the event in the body, or a list of events in order. If a list
/// has only world events, all of them happen at one moment, or none happens.
///
/// A list may also contain events of the Supervisor ([`SupervisorEvent`]). Then only consecutive
/// world events happen at one moment or not at all. The sim first tries all world events on a copy
/// of the world. An event may still fail afterwards, for example because the sim cannot write the
/// provider's files. The error answer then has the answers to the events that were carried out.
pub(super) async fn happen(
    State(ruled): State<AdminState>,
    body: Bytes,
) -> Result<Json<Value>, AdminError> {
    let AdminState { control, supervisor, endpoints: _ } = ruled;
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

/// Failure of one event of a list.
struct Stopped {
    error: AdminError,
    /// Index of the event that failed.
    at: usize,
    /// Answers to the events that were carried out before the failed one.
    done: Vec<Value>,
}

/// Carries out events in order. Consecutive world events happen at one moment, or none of them.
/// Stops at the first event that fails; the error has its index and the answers to the events
/// before it.
fn carry_out(
    control: &Control,
    supervisor: Option<&Supervisor>,
    asked: Vec<Event>,
) -> Result<Vec<Value>, Stopped> {
    let mut done: Vec<Value> = Vec::new();
    let mut asked = asked.into_iter().peekable();
    while let Some(first) = asked.next() {
        let answers = match first {
            Event::Supervisor(happening) => match happening.happen(supervisor) {
                Ok(()) => vec![json!({"events": 0})],
                Err(error) => return Err(Stopped { error, at: done.len(), done }),
            },
            Event::World(command) => {
                let mut commands = vec![*command];
                while let Some(Event::World(command)) =
                    asked.next_if(|asked| matches!(asked, Event::World(_)))
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

/// Applies world events at one moment and in order, or none of them. Applies a single event without
/// a copy of the world.
///
/// # Errors
/// The index of the first event that the world refuses, and the fault.
fn happened(control: &Control, mut commands: Vec<Command>) -> Result<Vec<Applied>, (usize, Fault)> {
    if commands.len() == 1 {
        let applied = control.apply(commands.remove(0)).map_err(|fault| (0, fault))?;
        return Ok(vec![applied]);
    }
    control.apply_all(commands)
}

/// Checks a list of two or more events if it contains Supervisor events: tries the world events on
/// a copy of the world, and checks that the world has a Supervisor. A list of world events alone
/// needs no check, because the world carries out all of them or none.
///
/// # Errors
/// An error answer about the first event that would fail.
fn rehearse(
    control: &Control,
    supervisor: Option<&Supervisor>,
    asked: &[Event],
    place: &dyn Fn(usize) -> String,
) -> Result<(), AdminError> {
    if asked.len() < 2 || asked.iter().all(|it| matches!(it, Event::World(_))) {
        return Ok(());
    }
    let now = control.world.now();
    let mut copy = control.world.read(World::clone);
    for (i, command) in asked.iter().enumerate() {
        let tried = match command {
            Event::World(command) => {
                copy.apply(now, (**command).clone()).map(drop).map_err(refused)
            }
            Event::Supervisor(_) if supervisor.is_none() => Err(no_supervisor()),
            Event::Supervisor(_) => Ok(()),
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
        // The answer omits session tokens, because they are secrets, and Kubernetes objects,
        // because clients can read them from the cluster.
        _ => {}
    }
    answer
}

/// An event in the body of a request: a command of the world, or a Supervisor event.
enum Event {
    World(Box<Command>),
    Supervisor(SupervisorEvent),
}

fn read(value: Value) -> Result<Event, AdminError> {
    let name = value.as_object().and_then(|it| it.keys().next());
    if name.is_some_and(|name| SupervisorEvent::is_called(name)) {
        let happening = document::typed::<SupervisorEvent>(value);
        return happening.map(Event::Supervisor).map_err(AdminError::from);
    }
    command(value).map(|command| Event::World(Box::new(command)))
}

fn command(value: Value) -> Result<Command, AdminError> {
    let example = r#"a command is an object with one key, such as {"vm.powerOff": "node-0001"}"#;
    let command = document::typed::<Command>(value)
        .map_err(|wrong| AdminError::from(wrong.or_remedy(example)))?;
    match command {
        Command::Supervisor(_) => Err(AdminError::bad("`supervisor` is not an event of the world")
            .remedy("send the request to the Supervisor itself, for example with kubectl")),
        Command::Cluster(_) => Err(AdminError::bad("`cluster` is not an event of the world")
            .remedy("send the request to the cluster itself, for example with kubectl")),
        Command::Request { .. } => {
            Err(AdminError::bad("`vcenter.request` is not an event of the world")
                .remedy("send the request to the vCenter itself, for example with govc"))
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
        StatusCode::NOT_FOUND => "GET /world lists the vCenters and machines",
        _ => "GET /world shows the current state; the event changed nothing",
    };
    AdminError::new(status, fault.to_string()).remedy(remedy)
}
