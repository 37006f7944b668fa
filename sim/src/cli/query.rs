//! Commands that query and change a running sim through its admin port.

use std::fmt::Write as _;
use std::io::Read as _;
use std::path::Path;

use http::Method;
use serde_json::{Value, json};

use super::args::{Admin, Fault, Health, Ledger, World};
use super::client::call;
use super::columns::{Align, columns};
use super::{CliError, Terminal};
use crate::faults::{self, Ops, catalogue};

/// Runs `sim world …`: lists the machines, or sends events to the admin port.
pub(super) fn world(command: &World) -> Result<(), CliError> {
    match command {
        World::List { json: true, admin } => {
            let answer = call(admin, Method::GET, "/world", Vec::new())?;
            Terminal.say(&pretty(&answer));
        }
        World::List { json: false, admin } => {
            let answer = call(admin, Method::GET, "/world", Vec::new())?;
            Terminal.say(&table(&parsed(&answer)));
        }
        World::Event { event, admin } => {
            let body = if event == "-" { standard_input()? } else { event.clone().into_bytes() };
            let answer = call(admin, Method::POST, "/world/events", body)?;
            Terminal.say(&format!("{answer}\n"));
        }
        World::Vm { verb, names, admin } => {
            // Checks all names first, so that an unknown name changes no machine.
            let answer = call(admin, Method::GET, "/world", Vec::new())?;
            all_known(names, &parsed(&answer))?;
            for name in names {
                let body = json!({ verb.command(): name }).to_string();
                call(admin, Method::POST, "/world/events", body.into_bytes())?;
                Terminal.say(&format!("{} {name}\n", verb.command()));
            }
        }
    }
    Ok(())
}

/// Runs `sim fault …`: lists, adds or removes fault rules through the admin port.
pub(super) fn fault(command: &Fault) -> Result<(), CliError> {
    match command {
        Fault::Add { rules, admin } => add_rules(rules, admin),
        Fault::Known => {
            print_known_failures();
            Ok(())
        }
        Fault::List { admin } => list_rules(admin),
        Fault::Rm { ids, all, admin } => remove_rules(ids, *all, admin),
    }
}

fn add_rules(rules: &str, admin: &Admin) -> Result<(), CliError> {
    let body = match rules {
        "-" => standard_input()?,
        name if faults::known(name).is_some() => json!([name]).to_string().into_bytes(),
        text if text.trim_start().starts_with(['{', '[']) => text.as_bytes().to_vec(),
        path => std::fs::read(path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => CliError::input(
                format!("fault add {path}: neither a file nor the name of a known failure"),
                "check the path, or choose a name that `sim fault known` lists",
            ),
            _ => CliError::file("fault add", Path::new(path), &error),
        })?,
    };
    let answer = parsed(&call(admin, Method::POST, "/faults", body)?);
    for warning in answer["warnings"].as_array().into_iter().flatten() {
        Terminal.warn(warning.as_str().unwrap_or_default());
    }
    for id in answer["added"].as_array().into_iter().flatten() {
        Terminal.say(&format!("added {}\n", id.as_str().unwrap_or_default()));
    }
    Ok(())
}

fn print_known_failures() {
    let mut rows = vec![["NAME", "WHAT HAPPENS"].map(str::to_owned)];
    let known = catalogue().iter();
    rows.extend(known.map(|known| [known.name().to_owned(), known.about.clone()]));
    Terminal.say(&columns([Align::Left; 2], &rows));
}

fn list_rules(admin: &Admin) -> Result<(), CliError> {
    let answer = call(admin, Method::GET, "/faults", Vec::new())?;
    let mut rows = vec![["ID", "MATCHED", "FIRED", "RULE"].map(str::to_owned)];
    for armed in parsed(&answer).as_array().into_iter().flatten() {
        let id = armed["rule"]["id"].as_str().unwrap_or_default().to_owned();
        let mut rule = armed["rule"].clone();
        if let Value::Object(fields) = &mut rule {
            fields.shift_remove("id");
        }
        let count = |key: &str| armed[key].to_string();
        rows.push([id, count("matched"), count("fired"), rule.to_string()]);
    }
    let out = columns([Align::Left, Align::Right, Align::Right, Align::Left], &rows);
    Terminal.say(&out);
    Ok(())
}

fn remove_rules(ids: &[String], all: bool, admin: &Admin) -> Result<(), CliError> {
    if all {
        call(admin, Method::DELETE, "/faults", Vec::new())?;
        Terminal.say("removed all rules\n");
    }
    let rules = parsed(&call(admin, Method::GET, "/faults", Vec::new())?);
    let known: Vec<&str> = rules
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|armed| armed["rule"]["id"].as_str())
        .collect();
    // Checks all ids first, so that an unknown id removes no rule.
    if let Some(id) = ids.iter().find(|id| !known.contains(&id.as_str())) {
        let remedy = match known.as_slice() {
            [] => "no rule is in force".to_owned(),
            known => format!("known rules: {}", known.join(", ")),
        };
        return Err(CliError::input(format!("unknown rule `{id}`"), remedy));
    }
    for id in ids {
        let path = format!("/faults/{}", escaped(id));
        call(admin, Method::DELETE, &path, Vec::new())?;
        Terminal.say(&format!("removed {id}\n"));
    }
    Ok(())
}

/// Runs `sim health`: asks the admin port for its health. Fails if no sim answers.
pub(super) fn health(command: &Health) -> Result<(), CliError> {
    let Health { admin } = command;
    let answer = call(admin, Method::GET, "/admin/v1/healthz", Vec::new())?;
    Terminal.say(&answer);
    Ok(())
}

/// Runs `sim ledger`: prints records or counts to standard output.
pub(super) fn ledger(command: &Ledger) -> Result<(), CliError> {
    let Ledger { counts, op, since, admin } = command;
    let mut path = format!("/ledger?since={since}");
    if let Some(op) = op {
        let _ = write!(path, "&op={}", escaped(op));
    }
    if !counts {
        let answer = call(admin, Method::GET, &path, Vec::new())?;
        warn_of_nothing(op.as_deref(), answer.is_empty());
        Terminal.say(&answer);
        return Ok(());
    }
    let answer = call(admin, Method::GET, &format!("{path}&format=counts"), Vec::new())?;
    let answer = parsed(&answer);
    let mut rows = Vec::new();
    for line in answer["operations"].as_array().into_iter().flatten() {
        let word = |key: &str| line[key].as_str().unwrap_or_default().to_owned();
        rows.push([word("server"), word("op"), line["calls"].to_string()]);
    }
    rows.push(["total".to_owned(), String::new(), answer["total"].to_string()]);
    warn_of_nothing(op.as_deref(), rows.len() == 1);
    Terminal.say(&columns([Align::Left, Align::Left, Align::Right], &rows));
    Ok(())
}

/// Prints a warning for each operation in `op` that no server answers. Does nothing if the result
/// has records (`is_empty` is false), or if `op` is `None`.
fn warn_of_nothing(op: Option<&str>, is_empty: bool) {
    let (Some(op), true) = (op, is_empty) else { return };
    let ops: Ops = op.split(',').collect();
    for warning in faults::operation_warnings(&ops, None) {
        Terminal.warn(&format!("--op {warning}"));
    }
}

/// Checks that every name, with or without its vCenter, is the name of a machine.
fn all_known(names: &[String], world: &Value) -> Result<(), CliError> {
    let machines = world["machines"].as_array().map(Vec::as_slice).unwrap_or_default();
    let is_called = |machine: &Value, name: &str| {
        let own = machine["name"].as_str().unwrap_or_default();
        let vcenter = machine["vcenter"].as_str().unwrap_or_default();
        name == own || name.strip_prefix(vcenter).and_then(|it| it.strip_prefix('/')) == Some(own)
    };
    match names.iter().find(|name| !machines.iter().any(|machine| is_called(machine, name))) {
        None => Ok(()),
        Some(name) => Err(CliError::input(
            format!("no machine is called `{name}`"),
            "sim world list lists the vCenters and machines",
        )),
    }
}

/// Formats the answer of `GET /world` as a table of machines.
fn table(world: &Value) -> String {
    let head = ["NAME", "VCENTER", "ID", "POWER", "CONNECTION", "ADDRESSES", "NODE"];
    let mut rows = vec![head.map(str::to_owned)];
    for machine in world["machines"].as_array().into_iter().flatten() {
        let word = |key: &str| machine[key].as_str().unwrap_or_default().to_owned();
        let addresses = machine["addresses"].as_array().into_iter().flatten();
        let addresses: Vec<&str> = addresses.filter_map(Value::as_str).collect();
        let node = match (machine["node"]["name"].as_str(), machine["node"]["kubelet"].as_str()) {
            (Some(name), Some(kubelet)) => format!("{name} ({kubelet})"),
            _ => String::new(),
        };
        rows.push([
            word("name"),
            word("vcenter"),
            word("moref"),
            word("power"),
            word("connection"),
            addresses.join(","),
            node,
        ]);
    }
    columns([Align::Left; 7], &rows)
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_default()
}

fn pretty(text: &str) -> String {
    format!("{:#}\n", parsed(text))
}

fn standard_input() -> Result<Vec<u8>, CliError> {
    let mut text = Vec::new();
    match std::io::stdin().lock().read_to_end(&mut text) {
        Ok(_) => Ok(text),
        Err(error) => Err(CliError::input(
            format!("standard input: {error}"),
            "write the JSON in place of the -",
        )),
    }
}

/// Percent-encodes a word for a URL.
fn escaped(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                char::from(byte).to_string()
            }
            byte => format!("%{byte:02X}"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_with_long_addresses_does_not_shift_the_next_column() {
        let machine = |name: &str, addresses: Value| {
            json!({
                "name": name, "vcenter": "vc0", "moref": "vm-1", "power": "poweredOn",
                "connection": "connected", "addresses": addresses,
                "node": {"name": name, "kubelet": "running"},
            })
        };
        let long = json!(["10.100.100.100", "fd00:1234:5678:9abc:def0:1234:5678:9abc"]);
        let mut bare = machine("a-name-that-is-longer-than-most", json!([]));
        bare["node"] = Value::Null;
        let world =
            json!({"machines": [machine("a", long), machine("b", json!(["10.0.0.1"])), bare]});
        insta::assert_snapshot!(table(&world), @"
        NAME                             VCENTER  ID    POWER      CONNECTION  ADDRESSES                                               NODE
        a                                vc0      vm-1  poweredOn  connected   10.100.100.100,fd00:1234:5678:9abc:def0:1234:5678:9abc  a (running)
        b                                vc0      vm-1  poweredOn  connected   10.0.0.1                                                b (running)
        a-name-that-is-longer-than-most  vc0      vm-1  poweredOn  connected
        ");
    }
}
