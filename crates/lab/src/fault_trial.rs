//! What a fault has at hand in a trial: disks, the victim and its options, pulses, and the truth to write down.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::cleanup::{StopSignal, Undo};
use crate::fuse::{self, DelayInjector};
use crate::setting::Setting;
use crate::stage::{LoopDevice, image};
use crate::truth::{Truth, now_ns};
use crate::victim::{Victim, VictimOptions};

/// How long [`FaultTrial::start`] waits before it returns, so that `explain` knows a usual time: what is set up before
/// the start is in force from then on.
const CALM: Duration = Duration::from_millis(600);

/// A trial under way.
pub struct FaultTrial<'a> {
    /// Fields are dropped in order: the victim ends before what it uses is taken away.
    pub victim: Option<Victim>,
    /// What is to be undone.
    pub undo: Undo,
    pub stop: &'a StopSignal,
    pub taillight: &'a Path,
    /// How strong the fault is.
    pub amplitude: Duration,
    /// `sync`, `uring` or `mmap`; of another driver than that of files its name.
    pub engine: &'static str,
    /// How long the victim runs.
    pub runtime: Duration,
    /// What else goes on.
    pub setting: Setting,
    pub truth: Truth,
    /// Operations of the victim in flight at once.
    pub in_flight: u64,
    began: Instant,
}

impl<'a> FaultTrial<'a> {
    /// A trial without disk and victim.
    pub fn new(
        stop: &'a StopSignal,
        taillight: &'a Path,
        amplitude: Duration,
        engine: &'static str,
        runtime: Duration,
        setting: Setting,
    ) -> FaultTrial<'a> {
        FaultTrial {
            victim: None,
            undo: Undo::default(),
            stop,
            taillight,
            amplitude,
            engine,
            runtime,
            setting,
            truth: Truth::default(),
            in_flight: 0,
            began: Instant::now(),
        }
    }

    /// A disk in memory.
    pub fn disk(&mut self, mib: u64) -> Result<LoopDevice> {
        let file = image(&mut self.undo, "image", mib << 20)?;
        LoopDevice::over(&mut self.undo, &file, false)
    }

    /// A disk that is slow when told to: over a file whose server sleeps.
    pub fn slow_disk(&mut self, mib: usize) -> Result<(LoopDevice, Arc<DelayInjector>)> {
        let (file, slow) = fuse::serve(&mut self.undo, mib << 20)?;
        Ok((LoopDevice::over(&mut self.undo, &file, true)?, slow))
    }

    /// The victim's process.
    pub fn pid(&self) -> Result<u32> {
        Ok(self.victim.as_ref().context("a victim")?.pid)
    }

    /// Operations in flight of one worker.
    pub fn depth(&self) -> u32 {
        if self.engine == "uring" { 8 } else { 1 }
    }

    pub fn workers(&self) -> u32 {
        if self.engine == "uring" { 1 } else { 2 }
    }

    /// What the victim does if nothing else is said: direct I/O of 4 KiB with short pauses.
    pub fn options(&self, path: PathBuf, rw: &'static str) -> VictimOptions {
        let engine = format!("target.options.engine={}", self.engine);
        self.options_of(path, &["file", "--rw", rw, "--bs", "4KiB", "--set", &engine])
    }

    /// The same where a device of the lab is overwritten.
    pub fn overwriting(&self, device: &Path) -> VictimOptions {
        let mut options = self.options(device.to_owned(), "randwrite");
        options.set.push("target.destroy=true".into());
        options.more = vec!["--destroy".into(), device.to_string_lossy().into_owned()];
        options
    }

    /// The same with another driver, and what it is asked for.
    pub fn options_of(&self, path: PathBuf, driver: &[&str]) -> VictimOptions {
        VictimOptions {
            taillight: self.taillight.to_owned(),
            path,
            load: ["--driver"].iter().chain(driver).map(|s| (*s).to_owned()).collect(),
            depth: self.depth(),
            workers: self.workers(),
            runtime: self.runtime,
            threshold: self.amplitude / 2,
            trace: self.setting.trace_mode(),
            set: vec![format!("workload.0.think={{time=\"200us\",every={}}}", self.depth())],
            more: Vec::new(),
            env: Vec::new(),
            within: Vec::new(),
        }
    }

    /// Starts the victim, then the setting, and leaves the victim alone for a while.
    pub fn start(&mut self, options: &VictimOptions) -> Result<u32> {
        self.start_then(options, |_| Ok(()))
    }

    /// As [`FaultTrial::start`], with something to be done as soon as its workers are there.
    pub fn start_then(
        &mut self,
        options: &VictimOptions,
        first: impl FnOnce(u32) -> Result<()>,
    ) -> Result<u32> {
        let victim = Victim::start(&mut self.undo, self.stop, options)?;
        let pid = victim.pid;
        self.victim = Some(victim);
        self.in_flight = u64::from(options.workers * options.depth);
        first(pid)?;
        self.setting.begin(&mut self.undo, pid)?;
        self.stop.sleep(CALM)?;
        self.began = Instant::now();
        Ok(pid)
    }

    /// Whether there is time for another pulse, and the victim still works.
    pub fn more(&self) -> bool {
        let left = self.runtime.saturating_sub(CALM + self.began.elapsed());
        left > self.amplitude * 3 + Duration::from_millis(200)
            && self.victim.as_ref().is_some_and(Victim::works)
    }

    /// Again and again: the fault, which is in force while `fault` runs and for `after` behind it,
    /// then a pause of `gap`.
    pub fn pulses(
        &mut self,
        gap: Duration,
        after: Duration,
        mut fault: impl FnMut(&StopSignal) -> Result<()>,
    ) -> Result<()> {
        while self.more() {
            self.pulse(gap, after, &mut fault)?;
        }
        Ok(())
    }

    /// As [`FaultTrial::pulses`], once.
    pub fn pulse(
        &mut self,
        gap: Duration,
        after: Duration,
        fault: impl FnOnce(&StopSignal) -> Result<()>,
    ) -> Result<()> {
        let from = now_ns();
        fault(self.stop)?;
        self.truth.add(from, now_ns() + after.as_nanos() as i64);
        self.stop.sleep(gap + after)
    }

    /// While there is [`more`](FaultTrial::more) time, every 199th request of `slow` that may sleep takes the amplitude
    /// longer; these delays are added to the truth.
    pub fn slowed(&mut self, slow: &DelayInjector) -> Result<()> {
        slow.set(199, self.amplitude);
        while self.more() {
            self.stop.sleep(Duration::from_millis(50))?;
        }
        slow.set(0, Duration::ZERO);
        self.stop.sleep(self.amplitude * 2)?;
        self.delays(slow);
        Ok(())
    }

    /// Adds the delays of `slow` to the truth.
    pub fn delays(&mut self, slow: &DelayInjector) {
        for (from, to) in slow.delays() {
            self.truth.add(from, to);
        }
    }

    /// Makes the delays of `slow` the whole truth.
    pub fn only_delays(&mut self, slow: &DelayInjector) {
        self.truth = Default::default();
        self.delays(slow);
    }

    /// While there is time, again and again: syncs on the disk of `slow` take the amplitude longer, for four
    /// amplitudes. These delays alone are the truth.
    pub fn slow_syncs(&mut self, slow: &DelayInjector) -> Result<()> {
        let (on, delay) = (self.amplitude * 4, self.amplitude);
        self.pulses(Duration::from_millis(200), Duration::ZERO, |stop| {
            slow.set_syncs(delay);
            let slept = stop.sleep(on);
            slow.set_syncs(Duration::ZERO);
            slept
        })?;
        self.only_delays(slow);
        Ok(())
    }

    /// Waits for the victim's end and returns its run directory.
    pub fn end(&mut self) -> Result<PathBuf> {
        match self.victim.take() {
            Some(victim) => victim.end(self.stop),
            None => anyhow::bail!("no victim was started"),
        }
    }
}
