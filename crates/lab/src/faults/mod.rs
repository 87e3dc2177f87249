//! Faults with known truth: each is a stage, a load and what disturbs them, or a function of its own; and the layers
//! that are right to be blamed.

mod beside;
mod cpu;
mod disk;
mod disturb;
mod filesystem;
mod loads;
mod memory;
mod program;
mod server;
mod stages;
mod stopped;
mod store;
mod table;
mod workers;

pub use stopped::held_by_tracer;
pub use table::FAULTS;

use std::time::Duration;

use anyhow::Result;

use crate::fault_trial::FaultTrial;
use disturb::Disturb;
use loads::Load;
use stages::FaultStage;

/// A fault.
#[derive(Debug)]
pub struct Fault {
    pub name: &'static str,
    /// The layer to be blamed, as explain names it; several where more than one is right.
    pub layer: &'static str,
    /// Engines of the victim.
    pub engines: &'static [&'static str],
    /// How strong, ms: two amplitudes. A fault may use a part of it, or none.
    pub ms: [u64; 2],
    /// How long the victim runs.
    pub runtime: Duration,
    /// Whether each I/O of the victim has block I/O of its own.
    pub blocks: bool,
    making: Making,
}

/// How a fault is made.
#[derive(Debug)]
enum Making {
    Table(FaultStage, Load, Disturb),
    /// Makes stage and victim, and disturbs them until the victim's end.
    Own(fn(&mut FaultTrial<'_>) -> Result<()>),
}

const BOTH: &[&str] = &["sync", "uring"];
const SYNC: &[&str] = &["sync"];
const URING: &[&str] = &["uring"];
const SERVERS: &[&str] = &["redis", "s3"];
const REDIS: &[&str] = &["redis"];
const S3: &[&str] = &["s3"];
/// The file driver on a mapping.
const MMAP: &[&str] = &["mmap"];
const METADATA: &[&str] = &["metadata"];
const SQLITE: &[&str] = &["sqlite"];
const POSTGRES: &[&str] = &["postgres"];
const STORES: &[&str] = &["rocksdb", "leveldb"];
const ROCKSDB: &[&str] = &["rocksdb"];
const LEVELDB: &[&str] = &["leveldb"];
const SHORT: Duration = Duration::from_millis(3500);

/// A fault of the table.
const fn of(
    name: &'static str,
    layer: &'static str,
    stage: FaultStage,
    load: Load,
    disturb: Disturb,
) -> Fault {
    made(name, layer, Making::Table(stage, load, disturb))
}

/// A fault with a function of its own.
const fn own(
    name: &'static str,
    layer: &'static str,
    run: fn(&mut FaultTrial<'_>) -> Result<()>,
) -> Fault {
    made(name, layer, Making::Own(run))
}

const fn made(name: &'static str, layer: &'static str, making: Making) -> Fault {
    Fault { name, layer, engines: BOTH, ms: [20, 100], runtime: SHORT, blocks: false, making }
}

impl Fault {
    /// Each I/O of the victim is direct and has block I/O of its own.
    const fn blocks(mut self) -> Fault {
        self.blocks = true;
        self
    }

    const fn only(mut self, engines: &'static [&'static str]) -> Fault {
        self.engines = engines;
        self
    }

    const fn ms(mut self, ms: [u64; 2]) -> Fault {
        self.ms = ms;
        self
    }

    /// Makes stage and victim, and disturbs them until the victim's end.
    pub fn run(&self, trial: &mut FaultTrial<'_>) -> Result<()> {
        let (stage, load, disturb) = match self.making {
            Making::Table(stage, load, disturb) => (stage, load, disturb),
            Making::Own(run) => return run(trial),
        };
        let built = stage.make(trial, disturb.slows())?;
        disturb.before(trial)?;
        let options = loads::options(load, trial, &built)?;
        trial.start(&options)?;
        disturb.run(trial, &built)
    }
}

pub fn find(name: &str) -> Option<&'static Fault> {
    FAULTS.iter().find(|f| f.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kind's line is added before its first run and never changed: results stay comparable.
    #[test]
    fn names_and_truths_stay() {
        let line = |f: &Fault| {
            let blocks = if f.blocks { "blocks" } else { "-" };
            let (engines, [low, high]) = (f.engines.join(","), f.ms);
            format!("{} {} {engines} {low},{high} {blocks}\n", f.name, f.layer)
        };
        let now: String = FAULTS.iter().map(line).collect();
        assert_eq!(now, include_str!("../../kinds.txt"));
    }
}
