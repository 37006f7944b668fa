//! Finds a free loopback port for a server that starts later.
//!
//! The system assigns ports of its ephemeral range to clients that connect and to servers that
//! request any port. If this module returned a port of that range, another program could get it
//! before the server listens on it, and the server would end with "Address already in use". So this
//! module draws ports below that range. One process draws each port of the range once before it
//! repeats a port, and the draws of concurrent processes are far apart.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::bail;

/// Lowest port: smaller ones belong to well-known services and to programs on a developer's
/// computer.
const LOWEST: u16 = 10_000;
/// First port of the ephemeral range by default on Linux.
const USUAL: u16 = 32_768;
/// Distance between two successive draws of a process, in ports: a prime number, so that the draws
/// reach every port.
const STEP: u32 = 7_919;
/// Number of draws between the first ports of two processes with successive IDs. More than a
/// process makes before a concurrent one has started its provider.
const APART: u32 = 1_009;

/// Number of draws in this process.
static DRAWN: AtomicU32 = AtomicU32::new(0);

/// Returns a port that is not in use on the loopback address of this computer. The port is also
/// free in a pod, because a pod has its own ports.
///
/// # Errors
/// Fails if every port from 10000 up to the ephemeral range is in use.
pub(super) fn free() -> anyhow::Result<u16> {
    let highest = system_range().filter(|it| *it > LOWEST).unwrap_or(USUAL);
    let count = u32::from(highest - LOWEST);
    for _ in 0..count {
        let draw = DRAWN.fetch_add(1, Ordering::Relaxed);
        let port = LOWEST + u16::try_from(place(std::process::id(), draw, count))?;
        if is_free(port) {
            return Ok(port);
        }
    }
    bail!("127.0.0.1: no port from {LOWEST} to {highest} is free; end programs that listen there")
}

/// True if a server could listen on this port of the loopback address now.
pub(super) fn is_free(port: u16) -> bool {
    TcpListener::bind(("127.0.0.1", port)).is_ok()
}

/// Returns the place, below `count`, of a process's draw in the range.
fn place(process: u32, draw: u32, count: u32) -> u32 {
    let number = u64::from(process) * u64::from(APART) + u64::from(draw);
    // The remainder is below `count`, so it fits.
    u32::try_from(number * u64::from(STEP) % u64::from(count)).unwrap_or(0)
}

/// Returns the first port of the system's ephemeral range, or `None` if the system does not report
/// it.
fn system_range() -> Option<u16> {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?;
    text.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_with_close_ids_draw_different_ports() {
        let count = u32::from(USUAL - LOWEST);
        let draws = |process| (0..500).map(move |draw| place(process, draw, count));
        for process in [1, 4_000, 4_194_303] {
            let first: std::collections::BTreeSet<u32> = draws(process).collect();
            for other in 1..=20 {
                let both: Vec<u32> =
                    draws(process + other).filter(|it| first.contains(it)).collect();
                assert!(both.is_empty(), "{process} and {other} more: {both:?}");
            }
        }
    }

    #[test]
    fn free_ports_are_distinct_and_below_the_ephemeral_range() {
        let ports: Vec<u16> = (0..20).map(|_| free().expect("a port")).collect();
        let below = system_range().unwrap_or(USUAL);
        assert!(ports.iter().all(|it| (LOWEST..below).contains(it)), "{ports:?} below {below}");
        let different: std::collections::BTreeSet<_> = ports.iter().collect();
        assert_eq!(different.len(), ports.len(), "{ports:?}");
    }
}
