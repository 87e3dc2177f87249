//! Disturbances: what is done to a stage, a victim or a server, again and again. Those that several kinds of fault
//! share are named here; the others are functions of the topic files ([`Disturb::Own`], [`Disturb::OwnSlow`]).

use anyhow::Result;

use crate::cleanup::tool;
use crate::fault_trial::FaultTrial;
use crate::faults::stages::BuiltStage;
use crate::faults::{cpu, disk, filesystem, server, stopped};

/// What it happens to: the program that is measured, or its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Party {
    Program,
    Server,
}

/// What is done.
#[derive(Debug, Clone, Copy)]
pub enum Disturb {
    /// Every 199th request of the disk, or of the served file, takes the amplitude longer.
    Slow,
    /// Syncs of the disk take the amplitude longer for a while.
    SlowSyncs,
    /// A limit of `read`s or `write`s per second for the program's control group.
    Limit(&'static str),
    /// The same of bytes per second, where an I/O has so many.
    LimitBytes(&'static str, u64),
    /// The file system is frozen.
    Freeze,
    /// The party is stopped by a signal.
    Stop(Party),
    /// The party is frozen by its control group.
    Frozen(Party),
    /// The party's control group may run only 1 ms in each period of the amplitude and 1 ms.
    Quota(Party),
    /// A real-time thread takes the CPU that the program is kept on.
    Hog,
    /// The same, and the server has the other CPU.
    HogClient,
    /// A real-time thread takes the CPU that the server is kept on, and the program has the other one.
    HogServer,
    /// A real-time thread takes the first CPU, on which only a part of the program is.
    TakeFirstCpu,
    /// A real-time thread takes the CPU of the kernel's workers, and the program has the other one.
    HogKernelWorkers,
    /// All TCP packets in the server's network are lost for a while.
    LosePackets,
    /// The network to the server is slow for a while.
    Narrow,
    /// A function, on a disk as fast as ever.
    Own(fn(&mut FaultTrial<'_>, &BuiltStage) -> Result<()>),
    /// A function, on a disk that is slow when told to.
    OwnSlow(fn(&mut FaultTrial<'_>, &BuiltStage) -> Result<()>),
}

use Disturb::{
    Freeze, Frozen, Hog, HogClient, HogKernelWorkers, HogServer, Limit, LimitBytes, LosePackets,
    Narrow, Own, OwnSlow, Quota, Slow, SlowSyncs, Stop, TakeFirstCpu,
};

impl Disturb {
    /// Whether the stage's disk has to be one that can be slowed down.
    pub fn slows(self) -> bool {
        matches!(self, Slow | SlowSyncs | OwnSlow(_))
    }

    /// What comes before the victim starts.
    pub fn before(self, trial: &mut FaultTrial<'_>) -> Result<()> {
        match self {
            HogKernelWorkers => cpu::workqueues(trial, 1),
            _ => Ok(()),
        }
    }

    /// Disturbs a victim that runs.
    pub fn run(self, trial: &mut FaultTrial<'_>, built: &BuiltStage) -> Result<()> {
        let program = trial.pid()?;
        let pid = |who| if who == Party::Program { Ok(program) } else { built.server() };
        let keep_server_on = |cpu: &str| {
            let server = built.server()?.to_string();
            tool("taskset", &["-a", "-c", "-p", cpu, &server]).map(drop)
        };
        match self {
            Slow => trial.slowed(built.slow()?),
            SlowSyncs => trial.slow_syncs(built.slow()?),
            Limit(kind) => disk::limit(trial, program, built.disk()?, kind),
            LimitBytes(kind, each) => {
                disk::limit_bytes(trial, program, built.disk()?, (kind, each))
            }
            Freeze => filesystem::frozen(trial, &built.lower),
            Stop(who) => stopped::stopped(trial, pid(who)?),
            Frozen(who) => stopped::frozen(trial, pid(who)?),
            Quota(who) => server::limited(trial, pid(who)?),
            Hog => cpu::hogged(trial),
            HogClient => {
                keep_server_on("1")?;
                cpu::hogged(trial)
            }
            HogServer => {
                keep_server_on("0")?;
                cpu::taken_beside(trial)
            }
            TakeFirstCpu => cpu::taken(trial),
            HogKernelWorkers => cpu::taken_beside(trial),
            LosePackets => server::lossy(trial, built.server()?),
            Narrow => {
                let rate = server::shaped(built.server()?)?;
                server::narrowed(trial, rate)
            }
            Own(disturb) | OwnSlow(disturb) => disturb(trial, built),
        }
    }
}
