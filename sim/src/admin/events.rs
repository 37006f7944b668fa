//! Makes things happen in the world.

use axum::Json;
use axum::extract::State;
use bytes::Bytes;
use http::StatusCode;
use serde_json::{Value, json};
use sim_world::vcenter::VcFault;
use sim_world::{Command, Fault, Outcome};

use super::supervisor::Happening;
use super::{AdminError, Ruled};
use crate::document;

/// `POST /world/events`: the body is a command, or a list of them, carried out in order.
///
/// What happens to the Supervisor as a server stands among them.
pub(super) async fn happen(
    State(ruled): State<Ruled>,
    body: Bytes,
) -> Result<Json<Value>, AdminError> {
    let Ruled { control, supervisor, endpoints: _ } = ruled;
    let value = document::json(&body)?;
    let commands = match value {
        Value::Array(list) => list,
        one => vec![one],
    };
    let commands = commands.into_iter().map(read).collect::<Result<Vec<_>, _>>()?;
    let mut answers = Vec::new();
    for command in commands {
        let command = match command {
            Asked::World(command) => *command,
            Asked::Supervisor(happening) => {
                happening.happen(supervisor.as_ref())?;
                answers.push(json!({"at": control.world.now(), "events": 0}));
                continue;
            }
        };
        let applied = control.apply(command).map_err(refused)?;
        let mut answer = json!({"at": control.world.now(), "events": applied.events.len()});
        match applied.outcome {
            Outcome::Reference(id) => answer["reference"] = json!(id.to_string()),
            Outcome::Id(id) => answer["id"] = json!(id),
            // A session's token is a secret, objects are read from the cluster.
            _ => {}
        }
        answers.push(answer);
    }
    Ok(Json(match answers.len() {
        1 => answers.remove(0),
        _ => Value::Array(answers),
    }))
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
