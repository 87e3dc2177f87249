//! Faults inside the program: its own threads pause, asleep or busy.

use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::bench::Bench;
use crate::guard::{NAME, Undo, home, make_home, tool};
use crate::stage::{Loop, image};
use crate::truth::now_ns;

const MIB: u64 = 1 << 20;
const SOURCE: &str = include_str!("pause.c");

/// A thread of the load pauses in the program's own code, in turns asleep and busy. A library that
/// is loaded beside the program does it.
pub fn pause(b: &mut Bench<'_>) -> Result<()> {
    let library = library(&mut b.undo)?;
    let words = home().join(format!("{NAME}-pause"));
    std::fs::write(&words, [0; 16])?;
    let gone = words.clone();
    b.undo.add(move || drop(std::fs::remove_file(gone)));
    let file = image(&mut b.undo, "image", 64 * MIB)?;
    let disk = Loop::over(&mut b.undo, &file, false)?;
    let mut order = b.order(disk.device.clone(), "randread");
    // A second busy one would take the other CPU from everybody else.
    order.workers = 1;
    order.env = vec![
        ("LD_PRELOAD", library.into()),
        ("TAILLIGHT_LAB_PAUSE", words.clone().into()),
    ];
    let shared = std::fs::File::options().write(true).open(&words)?;
    b.start(&order)?;
    let (on, mut busy) = (b.amplitude, false);
    // Many: half of them and more come between two operations, where no I/O waits.
    b.pulses(Duration::from_millis(40), Duration::ZERO, |stop| {
        shared.write_all_at(&u64::from(busy).to_ne_bytes(), 8)?;
        let until = now_ns() + on.as_nanos() as i64;
        shared.write_all_at(&until.to_ne_bytes(), 0)?;
        busy = !busy;
        stop.sleep(on)
    })
}

/// Builds the library. Where this lab was built there is a C compiler: it also links Rust.
fn library(undo: &mut Undo) -> Result<PathBuf> {
    make_home()?;
    let (source, library) = (home().join("pause.c"), home().join("pause.so"));
    let gone = [source.clone(), library.clone()];
    undo.add(move || gone.iter().for_each(|f| drop(std::fs::remove_file(f))));
    std::fs::write(&source, SOURCE)?;
    let (from, to) = (source.to_string_lossy(), library.to_string_lossy());
    let args = ["-shared", "-fPIC", "-O1", "-o", &to, &from, "-lpthread"];
    tool("cc", &args).context("the library that pauses")?;
    Ok(library)
}
