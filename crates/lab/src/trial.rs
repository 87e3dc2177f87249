//! One trial from beginning to end: stage, victim, fault, verdict.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::cleanup::StopSignal;
use crate::fault_trial::FaultTrial;
use crate::faults::Fault;
use crate::score::Score;
use crate::setting::Setting;

/// Why a trial cannot be made here, if so.
pub fn cannot() -> Option<String> {
    use std::os::unix::fs::MetadataExt;
    let root = std::fs::metadata("/proc/self").is_ok_and(|m| m.uid() == 0);
    if !root {
        return Some("faults need root".into());
    }
    if !Path::new("/dev/loop-control").exists() {
        return Some("no loop devices here".into());
    }
    if !crate::fuse::there() {
        return Some("no /dev/fuse here".into());
    }
    None
}

/// Error: the fault went further than it should, so the trial says nothing and may be made again.
#[derive(Debug)]
pub struct NotMade(
    /// What happened.
    pub &'static str,
);

impl std::fmt::Display for NotMade {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for NotMade {}

/// Makes one trial. Its run directory stays below [`lab_dir`](crate::cleanup::lab_dir) until the next one or a sweep;
/// `keep` copies it.
pub fn trial(
    stop: &StopSignal,
    taillight: &Path,
    fault: &Fault,
    engine: &'static str,
    ms: u64,
    setting: Setting,
    keep: Option<&Path>,
) -> Result<Score> {
    let amplitude = Duration::from_millis(ms);
    let mut bench = FaultTrial::new(stop, taillight, amplitude, engine, fault.runtime, setting);
    fault.run(&mut bench)?;
    let run = bench.end()?;
    let truth = std::mem::take(&mut bench.truth);
    drop(bench);
    if truth.is_empty() && fault.layer != "none" {
        bail!("the fault never happened");
    }
    truth.write(&run.join("truth.jsonl"), fault.name, fault.layer)?;
    let mut score = Score::of(taillight, &run, &truth)?;
    score.fault = fault.name.to_owned();
    score.engine = engine.to_owned();
    score.setting = setting.name().to_owned();
    score.ms = ms;
    score.truth = fault.layer.to_owned();
    score.seen = score.seen.filter(|_| fault.blocks);
    if let Some(to) = keep {
        std::fs::create_dir_all(to)?;
        crate::cleanup::tool(
            "cp",
            &[Path::new("-rT"), &run, &to.join(format!("{}-{engine}-{ms}", fault.name))],
        )?;
    }
    Ok(score)
}
