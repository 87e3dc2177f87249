//! Workers with descriptors of their own (docs/design.md, "Descriptors of workers"): which have them, and what the manifest
//! says. `launch` decides before the workers start; each worker's thread takes its own.

use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Mutex, PoisonError};

use taillight_core::probe::Probes;
use taillight_driver::{OwnDescriptors, Target};

/// Name of the fact in the manifest.
const FACT: &str = "worker.descriptors";
/// Descriptors in the tables of all workers at most: each is copied before the load.
const MOST_COPIES: usize = 1 << 18;

/// Whose descriptors the workers of a load use.
pub struct WorkerDescriptors {
    /// Descriptors of the process that each worker's own table keeps; `None` where workers share the process's table.
    kept: Option<Vec<RawFd>>,
    workers: usize,
    /// Why a worker has no table of its own although the target allows it: a text for each such worker.
    shared_as: Mutex<Vec<String>>,
}

impl WorkerDescriptors {
    /// Asks the target; on the thread that closes it.
    pub fn of(target: &dyn Target, probes: &impl Probes, workers: usize) -> WorkerDescriptors {
        let (kept, probes) = (target.descriptors(workers), probes.descriptors());
        let kept = kept.map(|kept| {
            let of_target = kept.iter().map(AsRawFd::as_raw_fd);
            of_target.chain(probes.iter().flatten().copied()).collect::<Vec<_>>()
        });
        let why = match &kept {
            Some(_) if probes.is_none() => Some("the run is traced".to_owned()),
            Some(kept) if kept.len().saturating_mul(workers) > MOST_COPIES => {
                let of_probes = probes.as_ref().map_or(0, Vec::len);
                Some(format!("the target has {} files", kept.len() - of_probes))
            }
            _ => None,
        };
        let kept = kept.filter(|_| why.is_none());
        let shared_as = Mutex::new(why.map_or_else(Vec::new, |why| vec![why; workers]));
        WorkerDescriptors { kept, workers, shared_as }
    }

    /// The table of the calling worker, where it has its own: to be dropped after all that the worker opens.
    pub fn take(&self) -> Option<OwnDescriptors> {
        let own = OwnDescriptors::keep(self.kept.as_ref()?);
        let note = |e: &std::io::Error| {
            let mut all = self.shared_as.lock().unwrap_or_else(PoisonError::into_inner);
            all.push(e.to_string());
        };
        own.inspect_err(note).ok()
    }

    /// Whether workers may have their own.
    pub fn are_own(&self) -> bool {
        self.kept.is_some()
    }

    /// The fact for the manifest, once all workers have begun; `None` where the target has workers share descriptors.
    pub fn fact(&self) -> Option<(String, String)> {
        let shared = self.shared_as.lock().unwrap_or_else(PoisonError::into_inner);
        let said = match shared.first() {
            Some(why) => format!("shared by {} of {} workers: {why}", shared.len(), self.workers),
            None if self.are_own() => "own".to_owned(),
            None => return None,
        };
        Some((FACT.to_owned(), said))
    }
}
