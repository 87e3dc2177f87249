//! Watches the time in which MPI waits, without a word, until all processes of a job have joined: rank 0 says after 10
//! s which ones are missing, and after a minute the job is aborted. Under Open MPI the processes of a host see each
//! other by abstract sockets, which end with their processes.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use taillight_core::Error;
use taillight_machine::Sys;

use super::{COMING, SAID_AFTER};
use crate::{output, problem};

/// A rank other than 0 aborts so much later: where rank 0 is there, it has done so by then.
const LATER: Duration = Duration::from_secs(5);

/// What a launcher tells each process it starts about its place in the job.
struct JobPlace {
    /// Name of the job; empty where the launcher does not tell it.
    job: String,
    /// Number of this process and how many there are; then the same among those on this host.
    rank: u32,
    size: u32,
    local: u32,
    on_host: u32,
}

impl JobPlace {
    /// From environment variables (`said`): Open MPI sets all of it, other launchers rank and size. None without these.
    fn of_launcher(said: &dyn Fn(&str) -> Option<String>) -> Option<JobPlace> {
        JobPlace::of_open_mpi(said).or_else(|| JobPlace::of_others(said))
    }

    fn of_open_mpi(said: &dyn Fn(&str) -> Option<String>) -> Option<JobPlace> {
        let number = |name: &str| said(&format!("OMPI_COMM_WORLD_{name}"))?.parse().ok();
        Some(JobPlace {
            job: said("PMIX_NAMESPACE")?,
            rank: number("RANK")?,
            size: number("SIZE")?,
            local: number("LOCAL_RANK")?,
            on_host: number("LOCAL_SIZE")?,
        })
    }

    /// From what Slurm and MPICH set: processes of a host cannot see each other then.
    fn of_others(said: &dyn Fn(&str) -> Option<String>) -> Option<JobPlace> {
        let number = |name: &str| said(name)?.trim().parse().ok();
        let pairs = [("PMI_RANK", "PMI_SIZE"), ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS")];
        let place = |(rank, size)| Some((number(rank)?, number(size)?));
        let (rank, size) = pairs.into_iter().find_map(place)?;
        Some(JobPlace { job: String::new(), rank, size, local: 0, on_host: 0 })
    }

    fn name_of(&self, local: u32) -> String {
        format!("taillight-rank-{}-{local}", self.job)
    }

    /// Processes of this host that are not there, by their numbers on it; None where sockets cannot be seen here.
    fn missing(&self) -> Option<Vec<u32>> {
        let known = Sys::default().text("/proc/net/unix").unwrap_or_default();
        let there = |local: u32| {
            let name = format!("@{}", self.name_of(local));
            known.lines().any(|line| line.ends_with(&name))
        };
        let missing = (0..self.on_host).filter(|local| !there(*local));
        there(self.local).then(|| missing.collect())
    }

    /// Who is missing, in words.
    fn describe_missing(&self) -> String {
        let Some(missing) = self.missing() else {
            return "who has come cannot be seen here".to_owned();
        };
        let list = missing.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
        let host = rustix::system::uname();
        let host = host.nodename().to_string_lossy();
        match (missing.is_empty(), self.on_host == self.size) {
            (true, true) => format!("all {} are here, and MPI does not connect them", self.size),
            (true, false) => format!(
                "the {} on {host} are here; of those on other hosts nothing is known",
                self.on_host
            ),
            (false, true) => format!("rank {list} on {host} has not come"),
            (false, false) => {
                format!("of the {} on {host}, number {list} (from 0) has not come", self.on_host)
            }
        }
    }
}

/// Ends the watch when it is dropped, as all have joined.
pub struct JoinWatch {
    _done: Sender<()>,
    _seen: Option<UnixListener>,
}

/// Begins the watch, which does nothing for a single process or without a known launcher; `abort` ends this process
/// with a code, and with it the job.
pub fn watch(abort: Arc<dyn Fn(u8) + Send + Sync>) -> JoinWatch {
    let place = JobPlace::of_launcher(&|name| std::env::var(name).ok());
    let seen = place.as_ref().filter(|place| !place.job.is_empty()).and_then(|place| {
        let address = SocketAddr::from_abstract_name(place.name_of(place.local)).ok()?;
        UnixListener::bind_addr(&address).ok()
    });
    let (done, ended) = channel::<()>();
    if let Some(place) = place.filter(|place| place.size > 1) {
        std::thread::spawn(move || {
            let over = |time| ended.recv_timeout(time) != Err(RecvTimeoutError::Timeout);
            let later = if place.rank == 0 { Duration::ZERO } else { LATER };
            if over(SAID_AFTER) {
                return;
            }
            if place.rank == 0 {
                output::note(&format!(
                    "waiting for all {} ranks: {}",
                    place.size,
                    place.describe_missing()
                ));
            }
            if over(COMING - SAID_AFTER + later) {
                return;
            }
            let e = Error::unavailable("not all ranks have come within a minute")
                .with("ranks", place.size)
                .with("of them", place.describe_missing())
                .hint("see whether their hosts and processes are alive, and start taillight-mpi on all; nothing was measured");
            abort(problem::show(&e).code());
        });
    }
    JoinWatch { _done: done, _seen: seen }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job_place(all: &[(&str, &str)]) -> Option<JobPlace> {
        let find = |name: &str| all.iter().find(|(known, _)| *known == name);
        JobPlace::of_launcher(&|name| find(name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn the_place_of_a_rank_is_what_its_launcher_says() {
        assert!(job_place(&[]).is_none());
        assert!(job_place(&[("SLURM_PROCID", "1")]).is_none(), "how many is not said");
        let slurm = job_place(&[("SLURM_PROCID", "1"), ("SLURM_STEP_NUM_TASKS", "4")]).unwrap();
        assert_eq!((slurm.rank, slurm.size), (1, 4));
        assert_eq!(slurm.describe_missing(), "who has come cannot be seen here");
        let mpich = job_place(&[("PMI_RANK", "0"), ("PMI_SIZE", "2")]).unwrap();
        assert_eq!((mpich.rank, mpich.size), (0, 2));
        let words = ["RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE"];
        let words = words.map(|name| format!("OMPI_COMM_WORLD_{name}"));
        let mut all: Vec<(&str, &str)> = words.iter().map(|name| (name.as_str(), "2")).collect();
        all.extend([
            ("PMIX_NAMESPACE", "job"),
            ("SLURM_PROCID", "1"),
            ("SLURM_STEP_NUM_TASKS", "4"),
        ]);
        let open_mpi = job_place(&all).unwrap();
        assert_eq!((open_mpi.job.as_str(), open_mpi.rank, open_mpi.size), ("job", 2, 2));
    }
}
