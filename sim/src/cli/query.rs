//! Commands that ask a running sim.

use std::fmt::Write as _;
use std::io::Read as _;
use std::path::Path;

use http::Method;
use serde_json::{Value, json};

use super::args::{Fault, Ledger, World};
use super::client::call;
use super::{CliError, Terminal};

/// `sim world …`.
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
            for name in names {
                let body = json!({ verb.command(): name }).to_string();
                call(admin, Method::POST, "/world/events", body.into_bytes())?;
                Terminal.say(&format!("{} {name}\n", verb.command()));
            }
        }
    }
    Ok(())
}

/// `sim fault …`.
pub(super) fn fault(command: &Fault) -> Result<(), CliError> {
    match command {
        Fault::Add { rules, admin } => {
            let body = match rules.as_str() {
                "-" => standard_input()?,
                text if text.trim_start().starts_with(['{', '[']) => text.as_bytes().to_vec(),
                path => {
                    let read = std::fs::read(path);
                    read.map_err(|error| CliError::file("fault add", Path::new(path), &error))?
                }
            };
            let answer = call(admin, Method::POST, "/faults", body)?;
            for id in parsed(&answer)["added"].as_array().into_iter().flatten() {
                Terminal.say(&format!("added {}\n", id.as_str().unwrap_or_default()));
            }
        }
        Fault::List { admin } => {
            let answer = call(admin, Method::GET, "/faults", Vec::new())?;
            let mut out = format!("{:<20} {:>8} {:>8}  RULE\n", "ID", "MATCHED", "FIRED");
            for armed in parsed(&answer).as_array().into_iter().flatten() {
                let id = armed["rule"]["id"].as_str().unwrap_or_default();
                let (matched, fired) = (&armed["matched"], &armed["fired"]);
                let mut rule = armed["rule"].clone();
                if let Value::Object(fields) = &mut rule {
                    fields.shift_remove("id");
                }
                let _ = writeln!(out, "{id:<20} {matched:>8} {fired:>8}  {rule}");
            }
            Terminal.say(&out);
        }
        Fault::Rm { ids, all, admin } => {
            if *all {
                call(admin, Method::DELETE, "/faults", Vec::new())?;
                Terminal.say("removed all rules\n");
            }
            for id in ids {
                let path = format!("/faults/{}", escaped(id));
                call(admin, Method::DELETE, &path, Vec::new())?;
                Terminal.say(&format!("removed {id}\n"));
            }
        }
    }
    Ok(())
}

/// `sim ledger`.
pub(super) fn ledger(command: &Ledger) -> Result<(), CliError> {
    let Ledger { counts, op, since, admin } = command;
    let mut path = format!("/ledger?since={since}");
    if let Some(op) = op {
        let _ = write!(path, "&op={}", escaped(op));
    }
    if !counts {
        let answer = call(admin, Method::GET, &path, Vec::new())?;
        Terminal.say(&answer);
        return Ok(());
    }
    let answer = call(admin, Method::GET, &format!("{path}&format=counts"), Vec::new())?;
    let answer = parsed(&answer);
    let mut out = String::new();
    for line in answer["operations"].as_array().into_iter().flatten() {
        let word = |key: &str| line[key].as_str().unwrap_or_default().to_owned();
        let calls = &line["calls"];
        let _ = writeln!(out, "{:<8} {:<34} {calls:>6}", word("server"), word("op"));
    }
    let _ = writeln!(out, "{:<8} {:<34} {:>6}", "total", "", answer["total"]);
    Terminal.say(&out);
    Ok(())
}

fn table(world: &Value) -> String {
    let mut out = format!(
        "{:<16} {:<8} {:<9} {:<11} {:<12} {:<28} NODE\n",
        "NAME", "VCENTER", "ID", "POWER", "CONNECTION", "ADDRESSES"
    );
    for machine in world["machines"].as_array().into_iter().flatten() {
        let word = |key: &str| machine[key].as_str().unwrap_or_default();
        let addresses: Vec<&str> = machine["addresses"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let node = match (machine["node"]["name"].as_str(), machine["node"]["kubelet"].as_str()) {
            (Some(name), Some(kubelet)) => format!("{name} ({kubelet})"),
            _ => String::new(),
        };
        let _ = writeln!(
            out,
            "{:<16} {:<8} {:<9} {:<11} {:<12} {:<28} {node}",
            word("name"),
            word("vcenter"),
            word("moref"),
            word("power"),
            word("connection"),
            addresses.join(","),
        );
    }
    out
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
        Err(error) => Err(CliError::input(format!("standard input: {error}"), "give it in a file")),
    }
}

/// A word as part of a URL.
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
