//! Faults of io_uring: more I/Os want a worker thread than the ring, or its control group, may have.

use std::fmt::Write;

use anyhow::Result;

use crate::cleanup::{NAME, lab_dir};
use crate::fault_trial::FaultTrial;
use crate::fuse::DelayInjector;
use crate::stage::LabCgroup;
use crate::victim::Victim;

/// How many writes come together, and how many come one by one before them.
const CROWD: u32 = 8;

/// Writes with a sync, of which each is handed to a worker thread; the ring may have one. Syncs take
/// a quarter of the amplitude, always. Single writes find the worker free; of a crowd that comes at
/// once all but the first wait for it.
pub fn few(trial: &mut FaultTrial<'_>) -> Result<()> {
    crowds(trial, None)
}

/// The same where the ring may have many, but the control group no more threads.
pub fn pids(trial: &mut FaultTrial<'_>) -> Result<()> {
    let group = LabCgroup::of(&mut trial.undo, "pids")?;
    crowds(trial, Some(&group))
}

fn crowds(trial: &mut FaultTrial<'_>, group: Option<&LabCgroup>) -> Result<()> {
    let (disk, slow) = trial.slow_disk(64)?;
    let sync = trial.amplitude / 4;
    let times = lab_dir().join(format!("{NAME}-times"));
    let gone = times.clone();
    trial.undo.add(move || drop(std::fs::remove_file(gone)));
    let mut text = String::new();
    let mut at = sync * 4;
    while at + sync * CROWD * 2 < trial.runtime {
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
    let mut options = trial.options(disk.device.clone(), "randwrite");
    options.depth = CROWD;
    options.workers = 1;
    let replay = format!("{{kind=\"replay\",file=\"{}\"}}", times.display());
    options.set = vec![format!("workload.0.arrival={replay}"), "target.destroy=true".into()];
    options.more = ["--sync", "fdatasync", "--destroy"].map(String::from).to_vec();
    options.more.push(disk.device.to_string_lossy().into_owned());
    slow.set_syncs(sync);
    let Some(group) = group else {
        options.set.push("target.options.io_workers=1".into());
        trial.start(&options)?;
        return served(trial, &slow);
    };
    trial.start_then(&options, |pid| {
        group.add_process(pid)?;
        let now: u64 = group.get("pids.current")?.trim().parse()?;
        group.set("pids.max", now + 1)
    })?;
    served(trial, &slow)
}

/// Waits for the victim's end; the delays of syncs are the truth.
fn served(trial: &mut FaultTrial<'_>, slow: &DelayInjector) -> Result<()> {
    while trial.victim.as_ref().is_some_and(Victim::works) {
        trial.stop.sleep(trial.amplitude)?;
    }
    trial.delays(slow);
    Ok(())
}
