//! `conformance list` and `conformance explain`: print the catalogue and single entries of it.

use std::io::Write;
use std::process::ExitCode;

use crate::scenario::Backend;
use crate::suite::{Filter, Part};
use crate::{catalogue, checks};

pub(super) fn list(out: &mut impl Write, filter: Filter, all: bool) -> anyhow::Result<ExitCode> {
    filter.validate()?;
    let checks = Backend::ALL.map(checks::all);
    let servers = checks::autoscaler::all();
    let reconcilers = checks::capacity::all();
    let (mut run, mut planned) = (0, 0);
    for entry in catalogue::entries().iter().filter(|entry| filter.selects(entry.id)) {
        // Number of cases per mode.
        let cases: Vec<String> = std::iter::zip(Backend::ALL, &checks)
            .filter_map(|(backend, checks)| {
                let check = checks.iter().find(|check| check.id == entry.id)?;
                Some(format!("{backend} {}", check.cases.len()))
            })
            .chain(
                servers
                    .iter()
                    .filter(|check| check.id == entry.id)
                    .map(|check| format!("{} {}", Part::Autoscaler, check.generations.len())),
            )
            .chain(
                reconcilers
                    .iter()
                    .filter(|check| check.id == entry.id)
                    .map(|_| format!("{} 1", Part::Capacity)),
            )
            .collect();
        let state = match (cases.as_slice(), &entry.alias_of) {
            ([], Some(target)) => format!("→ {target}"),
            ([], None) => "planned".to_owned(),
            (cases, _) => cases.join(", "),
        };
        run += usize::from(!cases.is_empty());
        planned += usize::from(cases.is_empty() && entry.alias_of.is_none());
        if !cases.is_empty() || all || filter.ids.iter().any(|id| id == entry.id.as_str()) {
            let requirement = format!("{:?}", entry.requirement).to_uppercase();
            writeln!(out, "{:<14} {requirement:<6} {state:<26} {}", entry.id, entry.title)?;
        }
    }
    writeln!(out, "{run} checks have cases, {planned} are planned")?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn explain(out: &mut impl Write, id: &str) -> anyhow::Result<ExitCode> {
    let Some(entry) = catalogue::entry(id) else {
        return Err(catalogue::unknown_id(id).into());
    };
    writeln!(out, "{}  {}\n", entry.id, entry.title)?;
    if let Some(target) = &entry.alias_of {
        writeln!(out, "Alias of {target}.\n")?;
    }
    writeln!(out, "why          {}", entry.why)?;
    writeln!(out, "judged       {}", entry.oracle)?;
    if let Some(budget) = entry.bound() {
        writeln!(out, "budget       {budget}")?;
    }
    writeln!(out, "remedy       {}", entry.remedy)?;
    writeln!(out, "source       {}", entry.source)?;
    writeln!(
        out,
        "requirement  {:?}, level {}, class {}, surface {}",
        entry.requirement, entry.level, entry.class, entry.surface
    )?;
    let holder = entry.alias_of.unwrap_or(entry.id);
    let mut n_modes = 0;
    for backend in Backend::ALL {
        let checks = checks::all(backend);
        let Some(check) = checks.iter().find(|check| check.id == holder) else { continue };
        n_modes += 1;
        writeln!(out, "cases        {} in {}", check.cases.len(), backend.title())?;
        for case in check.cases.iter().filter(|case| !case.name.is_empty()) {
            writeln!(out, "             - {}", case.name)?;
        }
    }
    for check in checks::autoscaler::all().iter().filter(|check| check.id == holder) {
        n_modes += 1;
        let generations: Vec<&str> = check.generations.iter().map(|it| it.as_str()).collect();
        let (n, shown) = (generations.len(), generations.join(", "));
        writeln!(out, "cases        {n} of {}: {shown}", Part::Autoscaler.title())?;
    }
    if checks::capacity::all().iter().any(|check| check.id == holder) {
        n_modes += 1;
        writeln!(out, "cases        1 of {}", Part::Capacity.title())?;
    }
    match n_modes {
        0 => writeln!(out, "cases        none yet: planned")?,
        _ => writeln!(
            out,
            "run          cargo run --release -p vsphere-conformance -- run {holder}"
        )?,
    }
    Ok(ExitCode::SUCCESS)
}
