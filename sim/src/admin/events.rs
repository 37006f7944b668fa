//! Makes things happen in the world.

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

/// `POST /world/events`: the body is a command, or a list of them, carried out in order. All of a list happen, or none.
///
/// What happens to the Supervisor as a server stands among them. That it cannot be done, where its files cannot be written, shows only
/// when it is tried: what happened before stands in the answer then.
pub(super) async fn happen(
    State(ruled): State<Ruled>,
    body: Bytes,
) -> Result<Json<Value>, AdminError> {
    let Ruled { control, supervisor, endpoints: _ } = ruled;
    let value = document::json(&body)?;
    let (commands, is_list) = match value {
        Value::Array(list) => (list, true),
        one => (vec![one], false),
    };
    let n = commands.len();
    let place =
        |i: usize| if is_list { format!("event {} of {n}: ", i + 1) } else { String::new() };
    let mut asked = Vec::new();
    for (i, command) in commands.into_iter().enumerate() {
        asked.push(read(command).map_err(|error| error.at(&place(i)))?);
    }
    rehearse(&control, supervisor.as_ref(), &asked, &place)?;
    let mut answers: Vec<Value> = Vec::new();
    for (i, command) in asked.into_iter().enumerate() {
        let done = match command {
            Asked::World(command) => control.apply(*command).map_err(refused).map(answer),
            Asked::Supervisor(happening) => {
                happening.happen(supervisor.as_ref()).map(|()| json!({"events": 0}))
            }
        };
        let mut answer = done.map_err(|error| error.at(&place(i)).after(&answers))?;
        answer["at"] = json!(control.world.now());
        answers.push(answer);
    }
    Ok(Json(if is_list { Value::Array(answers) } else { answers.remove(0) }))
}

/// Whether all of it can happen, tried on a copy of the world.
fn rehearse(
    control: &Control,
    supervisor: Option<&Supervisor>,
    asked: &[Asked],
    place: &dyn Fn(usize) -> String,
) -> Result<(), AdminError> {
    if asked.len() < 2 {
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
        // A session's token is a secret, objects are read from the cluster.
        _ => {}
    }
    answer
}

/// Something that is asked for.
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
