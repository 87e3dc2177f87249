//! Faults inside the program: its own threads pause, asleep or busy; its ring has one worker thread.

use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::bench::Bench;
use crate::fuse;
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
    b.pulses(Duration::from_millis(200), Duration::ZERO, |stop| {
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

/// The ring may have one worker thread. Every read needs one (a FUSE file through the page cache),
/// and takes its usual time; now and then eight come at once and wait for each other.
pub fn io_workers(b: &mut Bench<'_>) -> Result<()> {
    let (file, slow) = fuse::serve(&mut b.undo, 64 << 20)?;
    let one = b.amplitude / 4;
    let times = home().join(format!("{NAME}-times"));
    let gone = times.clone();
    b.undo.add(move || drop(std::fs::remove_file(gone)));
    std::fs::write(&times, rush(one, b.runtime, b.depth()))?;
    let mut order = b.order(file, "randread");
    order.set = vec![
        "target.options.allow_holes=true".into(),
        "target.options.read_in_use=true".into(),
        "target.options.direct=false".into(),
        "target.options.cache=keep".into(),
        "target.options.io_workers=1".into(),
        format!(
            "workload.0.arrival={{kind=\"replay\",file=\"{}\"}}",
            times.display()
        ),
    ];
    slow.cached.store(true, Relaxed);
    slow.set(1, one);
    let from = now_ns();
    b.start(&order)?;
    while b.more() {
        b.stop.sleep(Duration::from_millis(50))?;
    }
    // In force all the time: only what comes in a rush is slow.
    b.truth.add(from, now_ns() + b.runtime.as_nanos() as i64);
    Ok(())
}

/// Times of requests: ten one after another with pauses, then a rush.
fn rush(one: Duration, length: Duration, depth: u32) -> String {
    let (mut at, mut text) = (Duration::ZERO, String::new());
    let mut add = |at: Duration| text.push_str(&format!("{}ns\n", at.as_nanos()));
    while at < length {
        (0..10).for_each(|n| add(at + one * 2 * n));
        at += one * 20;
        (0..depth).for_each(|_| add(at));
        at += one * (depth + 2);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rush_comes_after_ten_single_ones() {
        let text = rush(Duration::from_nanos(5), Duration::from_nanos(100), 3);
        let times: Vec<&str> = text.lines().collect();
        assert_eq!(times.len(), 13);
        assert_eq!((times[0], times[1], times[9]), ("0ns", "10ns", "90ns"));
        assert!(times[10..].iter().all(|t| *t == "100ns"), "{text}");
    }
}
