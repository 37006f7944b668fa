//! `inventory URL USER CA` prints the virtual machines of a vCenter, one per line. It reads the
//! password from standard input. CA is a file with the certificates to trust.

use std::io::{Read as _, Write as _};
use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let mut said = error.to_string();
            let mut cause = error.source();
            while let Some(it) = cause {
                said = format!("{said}: {it}");
                cause = it.source();
            }
            let _ = writeln!(std::io::stderr(), "error: {said}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Box<dyn std::error::Error>> {
    let [url, user, ca] = <[String; 3]>::try_from(std::env::args().skip(1).collect::<Vec<_>>())
        .map_err(|_| "usage: inventory URL USER CA, with the password on standard input")?;
    let ca_pem = std::fs::read(&ca).map_err(|error| format!("cannot read {ca}: {error}"))?;
    let mut password = String::new();
    std::io::stdin().read_to_string(&mut password)?;
    let machines = inventory::list(&url, &user, password.trim_end(), &ca_pem).await?;
    let mut out = std::io::stdout().lock();
    for machine in machines {
        writeln!(out, "{}\t{}", machine.name, machine.power)?;
    }
    Ok(())
}
