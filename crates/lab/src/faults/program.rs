//! Faults inside the program: its own threads pause, asleep or busy.

use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::cleanup::{NAME, Undo, lab_dir, make_lab_dir, tool};
use crate::fault_trial::FaultTrial;
use crate::truth::now_ns;

const SOURCE: &str = include_str!("pause.c");

/// A thread of the load pauses in the program's own code, in turns asleep and busy. A library that
/// is loaded beside the program does it.
pub fn pause(trial: &mut FaultTrial<'_>) -> Result<()> {
    let library = library(&mut trial.undo)?;
    let words = lab_dir().join(format!("{NAME}-pause"));
    std::fs::write(&words, [0; 16])?;
    let gone = words.clone();
    trial.undo.add(move || drop(std::fs::remove_file(gone)));
    let disk = trial.disk(64)?;
    let mut options = trial.options(disk.device.clone(), "randread");
    // A second busy one would take the other CPU from everybody else.
    options.workers = 1;
    options.env =
        vec![("LD_PRELOAD", library.into()), ("TAILLIGHT_LAB_PAUSE", words.clone().into())];
    let shared = std::fs::File::options().write(true).open(&words)?;
    trial.start(&options)?;
    let (on, mut busy) = (trial.amplitude, false);
    // Many: half of them and more come between two operations, where no I/O waits.
    trial.pulses(Duration::from_millis(40), Duration::ZERO, |stop| {
        shared.write_all_at(&u64::from(busy).to_ne_bytes(), 8)?;
        let until = now_ns() + on.as_nanos() as i64;
        shared.write_all_at(&until.to_ne_bytes(), 0)?;
        busy = !busy;
        stop.sleep(on)
    })
}

/// Builds the library. Where this lab was built there is a C compiler: it also links Rust.
fn library(undo: &mut Undo) -> Result<PathBuf> {
    make_lab_dir()?;
    let (source, library) = (lab_dir().join("pause.c"), lab_dir().join("pause.so"));
    let gone = [source.clone(), library.clone()];
    undo.add(move || gone.iter().for_each(|f| drop(std::fs::remove_file(f))));
    std::fs::write(&source, SOURCE)?;
    let (from, to) = (source.to_string_lossy(), library.to_string_lossy());
    let args = ["-shared", "-fPIC", "-O1", "-o", &to, &from, "-lpthread"];
    tool("cc", &args).context("the library that pauses")?;
    Ok(library)
}
