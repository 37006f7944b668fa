//! Selects the active mutant among those woven into this crate: the environment variable MUTANT has
//! its number.
#![allow(missing_docs, clippy::all, unreachable_pub)]

use std::io::Write as _;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

static ACTIVE: OnceLock<u32> = OnceLock::new();
/// File to which the process writes the numbers of the mutants that it executes, if MUTANTS_REACHED
/// names one.
static FILE: OnceLock<Option<std::fs::File>> = OnceLock::new();
static REACHED: [AtomicBool; 16384] = [const { AtomicBool::new(false) }; 16384];

pub(crate) fn active(number: u32) -> bool {
    if !REACHED[number as usize].swap(true, Ordering::Relaxed) {
        let file = FILE.get_or_init(|| {
            let path = std::env::var_os("MUTANTS_REACHED")?;
            Some(std::fs::File::options().append(true).create(true).open(path).expect("a writable file"))
        });
        if let Some(mut file) = file.as_ref() {
            file.write_all(format!("{number}\n").as_bytes()).expect("a writable file");
        }
    }
    *ACTIVE.get_or_init(|| std::env::var("MUTANT").map_or(0, |it| it.parse().expect("a number"))) == number
}
