//! A fault of io_uring: more I/Os want a worker thread than a ring may have.

use std::fmt::Write;

use anyhow::Result;

use crate::bench::Bench;
use crate::fuse;
use crate::guard::{NAME, home};
use crate::stage::Loop;
use crate::victim::Victim;

/// Writes that come together, and single ones between.
const CROWD: u32 = 8;

/// Writes with a sync, of which each is handed to a worker thread; the ring may have one. Syncs take
/// a quarter of the amplitude, always. Single writes find the worker free; of a crowd that comes at
/// once all but the first wait for it.
pub fn few(b: &mut Bench<'_>) -> Result<()> {
    let (file, slow) = fuse::serve(&mut b.undo, 64 << 20)?;
    let disk = Loop::over(&mut b.undo, &file, true)?;
    let sync = b.amplitude / 4;
    let times = home().join(format!("{NAME}-times"));
    let gone = times.clone();
    b.undo.add(move || drop(std::fs::remove_file(gone)));
    let mut text = String::new();
    let mut at = sync * 4;
    while at + sync * CROWD * 2 < b.runtime {
        for n in 0..CROWD {
            writeln!(text, "{}us", (at + sync * n * 2).as_micros())?;
        }
        at += sync * CROWD * 2;
        for _ in 0..CROWD {
            writeln!(text, "{}us", at.as_micros())?;
        }
        at += sync * (CROWD + 4);
    }
    std::fs::write(&times, text)?;
    let mut order = b.order(disk.device.clone(), "randwrite");
    order.depth = CROWD;
    order.workers = 1;
    let replay = format!("{{kind=\"replay\",file=\"{}\"}}", times.display());
    order.set = vec![
        "target.options.io_workers=1".into(),
        format!("workload.0.arrival={replay}"),
        "target.destroy=true".into(),
    ];
    order.more = ["--sync", "fdatasync", "--destroy"]
        .map(String::from)
        .to_vec();
    order.more.push(disk.device.to_string_lossy().into_owned());
    slow.set_syncs(sync);
    b.start(&order)?;
    while b.victim.as_ref().is_some_and(Victim::works) {
        b.stop.sleep(b.amplitude)?;
    }
    b.naps(&slow);
    Ok(())
}
