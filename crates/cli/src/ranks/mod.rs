//! This process as a rank of an MPI job. Rank 0 runs the command line as any `taillight` does, and gives orders; the
//! others, whose command line must be the same, follow them and print nothing. A rank in a run is `run::ranked`'s.

mod hello;
mod joining;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use taillight_core::capability::AdminAction;
use taillight_core::exit::Exit;
use taillight_core::plan::Plan;
use taillight_core::{Error, Result, StopFlag};
use taillight_scale::{Group, LostRank, Patience, Ranks, WaitWatch};
use taillight_suite::exit::from_code;

use crate::output::{self, OutputMode};
use crate::{obey, problem, run, understood};

pub use hello::{Hello, RankPeer, of_hosts};

/// What starts ranks and connects them.
pub struct Launcher {
    /// Joins the group of ranks; called by the thread that does the work.
    pub join: Box<dyn FnOnce() -> Result<Box<dyn Group>> + Send>,
    /// Leaves the group at the end.
    pub leave: Box<dyn FnOnce() + Send>,
    /// Ends the job for all ranks, with an exit code.
    pub abort: Arc<dyn Fn(u8) + Send + Sync>,
}

/// The ranks, and what each said when it joined.
pub struct Company {
    pub ranks: Ranks,
    /// By rank; at rank 0 of all, elsewhere empty.
    pub hellos: Vec<Hello>,
}

static COMPANY: OnceLock<Mutex<Company>> = OnceLock::new();

/// How long ranks wait for each other while they join.
const COMING: Duration = Duration::from_secs(60);
/// Rank 0 says for which rank it waits after so long; then each time so much later.
const SAID_AFTER: Duration = Duration::from_secs(10);
const SAID_EACH: Duration = Duration::from_secs(60);
/// How long a run that was asked to stop waits for its ranks.
const STOPPING: Duration = Duration::from_secs(30);
/// How long a rank waits for its next order: rank 0 may make reports, or wait for an answer of a person.
const ORDERS: Duration = Duration::from_secs(7 * 24 * 3600);

/// What rank 0 wants of the others.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum RankOrder {
    /// To run a plan together.
    Run(Box<RunOrder>),
    /// To open a target, and keep it open from run to run.
    Open(Box<RunOrder>),
    /// To do this with the target that is open.
    Admin(AdminAction),
    /// To close it.
    Close,
    /// To end with this code.
    End { exit: u8 },
}

/// A run for all ranks.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunOrder {
    /// The whole plan: as a job file, or where it is none by itself as JSON.
    pub plan: String,
    /// The directory of the whole run.
    pub directory: PathBuf,
    /// Its id.
    pub run_id: String,
    /// Confirmations as the command line has them.
    pub destroy: Vec<String>,
    /// Ranks by which reads are shifted.
    pub shift: u32,
    /// Host and process of each rank, in order.
    pub peers: Vec<RankPeer>,
    /// Ranks whose clocks are measured.
    pub leaders: Vec<u32>,
    /// Of each rank the one whose clock is its own; none where that is rank 0's.
    pub leader_of: Vec<Option<u32>>,
    /// On the target that is open: the number of the first workload among those that it was opened with.
    pub kept: Option<u16>,
}

impl RunOrder {
    /// The whole plan. Errors: `Usage` where it is none on this host; `Internal` for JSON that cannot be read.
    pub fn whole(&self) -> Result<Plan> {
        match self.plan.starts_with('{') {
            true => serde_json::from_str(&self.plan)
                .map_err(|e| Error::internal("the plan of an order cannot be read").source(e)),
            false => run::plan_of_text(&self.plan),
        }
    }
}

/// Does `what` with the ranks, under a lock: `with` inside it would wait for ever. None where this process is no rank.
pub fn with<T>(what: impl FnOnce(&mut Company) -> T) -> Option<T> {
    let company = COMPANY.get()?;
    Some(what(&mut company.lock().unwrap_or_else(PoisonError::into_inner)))
}

/// Whether this process is a rank, of several or alone.
pub fn several() -> bool {
    COMPANY.get().is_some()
}

/// Environment variables by which launchers of MPI tell each process how many they started.
const STARTED: [&str; 3] = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"];

/// What `mpirun` is told further where Open MPI started this process for root, whom it refuses else.
pub fn as_root() -> &'static str {
    let open_mpi = std::env::var_os(STARTED[0]).is_some();
    if open_mpi && rustix::process::geteuid().is_root() { " --allow-run-as-root" } else { "" }
}

/// Refuses a process that knows of no other rank (`ranks` is 1 under MPI, 0 without) although a launcher says that it
/// started several: they would measure each other. Errors: `Usage`.
pub fn check_started(ranks: u32) -> Result<()> {
    let said = |name: &&str| std::env::var(name).ok()?.trim().parse::<u32>().ok();
    let Some((name, n)) = STARTED.iter().find_map(|name| Some((name, said(name)?))) else {
        return Ok(());
    };
    match ranks {
        _ if n < 2 => Ok(()),
        0 => Err(Error::usage("a launcher started several processes here: copies of this program would know nothing of each other")
            .with(name, n)
            .hint(format!("start taillight-mpi so, whose processes are ranks of one run (docs/hosts.md); for a single process: env -u {name} taillight ..."))),
        1 => Err(Error::usage("several processes were started, and MPI knows of this one only")
            .with(name, n)
            .hint("build taillight-mpi with the MPI that this mpirun belongs to: MPICC=... cargo build --release -p taillight-mpi")),
        _ => Ok(()),
    }
}

/// How many ranks there are; 0 where this process is none.
pub fn size() -> u32 {
    with(|all| all.ranks.size()).unwrap_or(0)
}

/// Joins the ranks, runs the command line at rank 0 and its orders at the others, and leaves. Returns the exit code of
/// this rank; where a rank is lost, the job is aborted.
pub fn command(launcher: Launcher) -> Exit {
    let joining = joining::watch(launcher.abort.clone());
    let joined = (launcher.join)();
    drop(joining);
    let group = match joined {
        Ok(group) => group,
        Err(e) => return problem::show(&e),
    };
    let first = group.rank() == 0;
    if !first {
        output::set_mode(OutputMode { quiet: true, silent: true, ..OutputMode::default() });
    }
    let mut ranks = Ranks::new(group);
    ranks.watch(watch(Vec::new(), StopFlag::default()));
    let parsed = understood();
    let hello = match &parsed {
        Ok((cli, _)) => Hello::of(&ranks, cli),
        // What is wrong is on standard error by now, and all ranks have the same command line.
        Err(_) => Err(Error::usage("the command line is wrong")),
    };
    let failed = parsed.as_ref().err().copied();
    let mut together = true;
    let exit = match enter(&mut ranks, hello) {
        Err(e) => {
            // Where all were told to stop, all leave; a rank that did not join may never do.
            together = ranks.stopped() && ranks.lost().is_empty();
            failed.unwrap_or_else(|| problem::show(&e))
        }
        Ok(hellos) => {
            let _ = COMPANY.set(Mutex::new(Company { ranks, hellos }));
            match parsed {
                Err(exit) => exit,
                Ok((cli, notes)) if first => {
                    let exit = obey(cli, &notes);
                    tell(&RankOrder::End { exit: exit.code() });
                    exit
                }
                Ok(_) => follow().unwrap_or_else(|e| problem::show(&e)),
            }
        }
    };
    // A rank that is lost never leaves, and MPI would wait for it.
    match with(|all| all.ranks.lost().is_empty()).unwrap_or(together) {
        true => (launcher.leave)(),
        false => {
            output::note("a rank is lost: the job is aborted, what was measured is kept");
            (launcher.abort)(exit.code());
        }
    }
    exit
}

/// What is called while a rank is waited for: says which rank that is after [`SAID_AFTER`] and then each minute, and
/// ends the wait [`STOPPING`] after `stop` was seen. `hosts` are the names of the ranks' hosts, where they are known.
pub fn watch(hosts: Vec<String>, stop: StopFlag) -> WaitWatch {
    let mut told: Option<(u32, Duration)> = None;
    let mut stopped: Option<Instant> = None;
    Box::new(move |waiting| {
        let (rank, waited) = (waiting.rank, waiting.waited);
        let before = told.filter(|(of, at)| *of == rank && *at <= waited);
        let due = before.map_or(SAID_AFTER, |(_, at)| at + SAID_EACH);
        if waited >= due {
            told = Some((rank, waited));
            let on = hosts.get(rank as usize).map_or(String::new(), |host| format!(" on {host}"));
            output::note(&format!(
                "waiting for rank {rank}{on} for {} s (in: {})",
                waited.as_secs(),
                waiting.step
            ));
        }
        if stop.stopped() {
            return stopped.get_or_insert_with(Instant::now).elapsed() < STOPPING;
        }
        true
    })
}

/// Waits until all ranks have said what they are and fit together; what each said, by rank, at rank 0. Errors: those of
/// [`hello::fits`], at all ranks, and of messages.
fn enter(ranks: &mut Ranks, hello: Result<Hello>) -> Result<Vec<Hello>> {
    let hello = check_started(ranks.group().size()).and(hello);
    let patience = Patience::of(COMING);
    let said = ranks.agree("coming", hello, patience)?;
    let hellos: Vec<Hello> = said.into_iter().map(|(_, hello)| hello).collect();
    let fits = match ranks.is_first() {
        true => hello::fits(&hellos),
        false => Ok(()),
    };
    ranks.agree("fitting together", fits, patience)?;
    ranks.meet(patience)?;
    if ranks.is_first() {
        hello::remarks(&hellos).iter().for_each(|note| output::note(note));
    }
    Ok(hellos)
}

/// Sends an order to all other ranks; one that cannot be sent is shown.
pub fn tell(order: &RankOrder) {
    let sent = with(|all| {
        let patience = Patience::of(Duration::from_secs(30));
        all.ranks.tell("an order", Some(order), patience).map(|_| ())
    });
    if let Some(Err(e)) = sent {
        problem::show(&e);
    }
}

/// What a rank other than 0 does: what it is told, until the end.
fn follow() -> Result<Exit> {
    let signals = run::Signals::install(false)?;
    let mut kept = run::KeptTarget::default();
    loop {
        let order = with(|all| {
            all.ranks.tell::<RankOrder>("waiting for orders", None, Patience::of(ORDERS))
        });
        match order.transpose()?.flatten() {
            Some(RankOrder::Run(order)) => run::follow(&order, &signals, &kept),
            Some(RankOrder::Open(order)) => kept.open(&order, &signals),
            Some(RankOrder::Admin(action)) => kept.admin(action),
            Some(RankOrder::Close) => kept.close(),
            Some(RankOrder::End { exit }) => return Ok(from_code(exit).unwrap_or(Exit::Internal)),
            None => return Err(Error::internal("an order without words")),
        }
    }
}

/// Ranks that did not answer, so far.
pub fn lost() -> Vec<LostRank> {
    with(|all| all.ranks.lost().to_vec()).unwrap_or_default()
}
