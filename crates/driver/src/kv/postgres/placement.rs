//! Which CPUs the workers and the PostgreSQL server's processes for their connections run on, where both are on this
//! machine: an answer from the same CPU takes a fifth of the time of one from an idle CPU that has to wake up.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use taillight_machine::Sys;
use taillight_machine::process::ProcessStat;

use super::admin::AdminLine;
use crate::net::{began, process_named};

/// Most connections that are looked at.
const CONNECTIONS_MAX: usize = 64;
/// The field of a `stat` with the CPU, by its number in proc(5).
const PROCESSOR: usize = 39;

/// How far the server and the kernel may differ in when a process began, seconds.
const SAME_START: f64 = 2.0;

/// The two ends of the connections, and on which CPUs they were seen.
#[derive(Debug, Default)]
pub struct CpuPlacement(Mutex<SeenPlacement>);

#[derive(Debug, Default)]
struct SeenPlacement {
    /// Of each connection: the worker's thread, the server's process.
    ends: Vec<(u32, u32)>,
    /// Looks at a connection, and those that saw both ends on one CPU.
    looks: u64,
    together: u64,
    workers: BTreeSet<u32>,
    backends: BTreeSet<u32>,
}

/// The server's main process, where it is one of this machine: the parent of the process of this connection, if that
/// has the name `postgres` and the start that the server gives: not so in a container or behind a tunnel.
pub fn server_process(admin: &mut AdminLine) -> Option<u32> {
    if !admin.server.address.server.is_here() {
        return None;
    }
    let asked = "SELECT pid, extract(epoch FROM backend_start) FROM pg_stat_activity WHERE pid = \
                 pg_backend_pid()";
    let row = admin.ask(asked).ok()?.into_iter().next()?;
    let mut row = row.into_iter().map(|cell| cell?.parse::<f64>().ok());
    let (pid, start) = (row.next()??, row.next()??);
    let stat = process_named(pid as u64, &["postgres"])?;
    stat.parent().filter(|_| began(&stat).is_some_and(|began| (began - start).abs() < SAME_START))
}

/// The CPU that a thread or process ran on last.
fn cpu(which: &str) -> Option<u32> {
    ProcessStat::of(&Sys::default(), which)?.number(PROCESSOR)?.try_into().ok()
}

impl CpuPlacement {
    fn lock(&self) -> MutexGuard<'_, SeenPlacement> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that the server's process `backend` serves a connection of the calling thread.
    pub fn connected(&self, backend: u32) {
        let worker = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
        let mut seen = self.lock();
        if seen.ends.len() < CONNECTIONS_MAX {
            seen.ends.push((worker, backend));
        }
    }

    /// Looks where the ends ran last; gives the number of connections with both ends on one CPU.
    pub fn sample(&self, out: &mut dyn FnMut(&str, f64)) {
        let mut seen = self.lock();
        let SeenPlacement { ends, looks, together, workers, backends } = &mut *seen;
        let (mut same, mut all) = (0, 0);
        for (worker, backend) in ends.iter() {
            let here = cpu(&format!("self/task/{worker}"));
            let there = cpu(&backend.to_string());
            let Some((here, there)) = here.zip(there) else { continue };
            all += 1;
            same += u64::from(here == there);
            workers.insert(here);
            backends.insert(there);
        }
        *looks += all;
        *together += same;
        if all > 0 {
            out("connections_on_one_cpu", same as f64);
        }
    }

    /// Facts: the CPUs seen, and the share of looks that saw both ends on one; none without a look.
    pub fn facts(&self) -> Vec<(String, String)> {
        let seen = self.lock();
        let list =
            |cpus: &BTreeSet<u32>| cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(" ");
        if seen.looks == 0 {
            return Vec::new();
        }
        let percent = 100.0 * seen.together as f64 / seen.looks as f64;
        vec![
            ("target.worker_cpus".to_owned(), list(&seen.workers)),
            ("target.backend_cpus".to_owned(), list(&seen.backends)),
            ("target.on_one_cpu".to_owned(), format!("{percent:.0} % of {} looks", seen.looks)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_of_a_connection_are_looked_at() {
        let placement = CpuPlacement::default();
        assert!(placement.facts().is_empty());
        // A thread stands for both ends: it is on one CPU with itself.
        placement.connected(rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs());
        let mut sampled = Vec::new();
        placement.sample(&mut |name, value| sampled.push((name.to_owned(), value)));
        assert_eq!(sampled.len(), 1);
        let facts = placement.facts();
        assert!(facts[2].1.ends_with("of 1 looks"), "{facts:?}");
    }
}
