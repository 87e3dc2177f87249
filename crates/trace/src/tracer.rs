//! Tracing of one run: started before the load, finished into `layers.parquet` after it.
//!
//! What it is: the one face of tracing that `cli` uses, and the choice of the rung: trace points,
//! else the kernel's log of context switches, else counters of procfs. What it is not: the load.
//! The run goes on whatever is out of reach; the manifest says which rung was taken, and why not a
//! better one.

use std::path::Path;
use std::sync::Arc;

use taillight_core::plan::{Plan, TraceMode, TraceRung};
use taillight_core::{Error, Result};
use taillight_rundir::RunDir;
use taillight_rundir::trace_info::{ProgramInfo, Refused, Rung, TraceInfo};

use crate::Sys;
use crate::bpf::{self, BpfProbes};
use crate::perf::{self, PerfProbes};
use crate::procfs::{self, ProcfsProbes};

/// Tracing under way.
pub struct Tracer {
    on: On,
    info: TraceInfo,
}

/// What traces.
enum On {
    Bpf(bpf::Tracing),
    Perf(perf::Tracing),
    Procfs(procfs::Tracing),
}

/// Probes for the workers, of the rung that was taken.
pub enum AnyProbes {
    Bpf(Arc<BpfProbes>),
    Perf(Arc<PerfProbes>),
    Procfs(Arc<ProcfsProbes>),
}

/// What a run asks of tracing.
#[derive(Debug)]
pub struct Wish<'a> {
    pub plan: &'a Plan,
    /// What is measured, once it is there.
    pub path: Option<&'a Path>,
    /// I/Os bypass the page cache.
    pub direct: bool,
}

/// What can be had on one rung.
#[derive(Debug)]
pub struct Tried {
    pub rung: Rung,
    /// Programs, logs or counters, there or not; or why nothing.
    pub found: Result<Vec<ProgramInfo>>,
}

/// What would be said of a run that traces nothing.
pub fn untraced(plan: &Plan, why: &Error) -> TraceInfo {
    TraceInfo {
        why: Some(why.to_string()),
        ..info(plan, Rung::None)
    }
}

/// Tries every rung for a moment, the best first.
pub fn try_rungs(sys: &Sys) -> Vec<Tried> {
    let log = |()| {
        vec![ProgramInfo {
            trace_point: "context switches".to_owned(),
            sees: "when each worker was on a CPU".to_owned(),
            missing: None,
        }]
    };
    let found = [
        (Rung::TracePoints, bpf::try_programs(sys)),
        (Rung::Perf, perf::allowed(1).map(log)),
        (Rung::Procfs, procfs::counters(sys)),
    ];
    found
        .into_iter()
        .map(|(rung, found)| Tried { rung, found })
        .collect()
}

fn info(plan: &Plan, rung: Rung) -> TraceInfo {
    TraceInfo {
        mode: plan.trace.mode,
        rung,
        why: None,
        refused: Vec::new(),
        stopped: None,
        programs: Vec::new(),
        symbols: false,
        threshold_ns: plan.outlier_ns(),
        operations: 0,
        kept: 0,
        ios_lost: 0,
        events_lost: 0,
        neighbours: 0,
        off_cpu_ns: 0,
        program_ns_per_op: None,
        probe_ns_per_op: None,
    }
}

/// The rungs that a plan allows, the best first.
fn allowed(rung: TraceRung) -> &'static [Rung] {
    match rung {
        TraceRung::Auto => &[Rung::TracePoints, Rung::Perf, Rung::Procfs],
        TraceRung::Bpf => &[Rung::TracePoints],
        TraceRung::Perf => &[Rung::Perf],
        TraceRung::Procfs => &[Rung::Procfs],
    }
}

/// The rung, what was started on it, and those above it; or why each one failed.
type Climbed<T> = std::result::Result<(Rung, T, Vec<Refused>), Vec<(Rung, Error)>>;

/// Takes the first rung that works; also those above it, with the reasons.
fn climb<T>(rungs: &[Rung], mut start: impl FnMut(Rung) -> Result<T>) -> Climbed<T> {
    let mut errors: Vec<(Rung, Error)> = Vec::new();
    for rung in rungs {
        match start(*rung) {
            Ok(it) => {
                let refused = errors.iter().map(|(rung, e)| Refused {
                    rung: *rung,
                    why: e.to_string(),
                    hint: e.hint_text().map(str::to_owned),
                });
                return Ok((*rung, it, refused.collect()));
            }
            Err(e) => errors.push((*rung, e)),
        }
    }
    Err(errors)
}

/// Whether the rung that a plan insists on can be had, before anything is read or written for it.
///
/// # Errors
/// `Unavailable` when it cannot, with the reason.
pub fn insist(plan: &Plan, sys: &Sys) -> Result<()> {
    if plan.trace.mode == TraceMode::Off {
        return Ok(());
    }
    let (rung, found) = match plan.trace.rung {
        TraceRung::Auto => return Ok(()),
        TraceRung::Bpf => {
            let places = bpf::places(plan.workers());
            let programs = || bpf::try_programs(sys).map(drop);
            (Rung::TracePoints, places.and_then(|()| programs()))
        }
        TraceRung::Perf => (Rung::Perf, perf::room(plan, sys).map(drop)),
        TraceRung::Procfs => (Rung::Procfs, procfs::counters(sys).map(drop)),
    };
    found.map_err(|e| together(vec![(rung, e)]))
}

impl Tracer {
    /// Begins to trace on the best rung that works and that the plan allows.
    ///
    /// # Errors
    /// `Unavailable` when nothing can be traced here, with the reasons.
    pub fn start(wish: &Wish<'_>, sys: &Sys) -> Result<Tracer> {
        let climbed = climb(allowed(wish.plan.trace.rung), |rung| match rung {
            Rung::TracePoints => bpf::Tracing::start(wish, sys).map(On::Bpf),
            Rung::Perf => perf::Tracing::start(wish, sys).map(On::Perf),
            _ => procfs::Tracing::start(wish, sys).map(On::Procfs),
        });
        let (rung, on, refused) = climbed.map_err(together)?;
        let mut info = info(wish.plan, rung);
        if wish.plan.trace.rung != TraceRung::Auto {
            info.why = Some(format!("trace.rung asks for {}", rung.name()));
        } else if !refused.is_empty() {
            let each = refused
                .iter()
                .map(|r| format!("{}: {}", r.rung.name(), r.why));
            info.why = Some(each.collect::<Vec<_>>().join("; "));
        }
        info.refused = refused;
        Ok(Tracer { on, info })
    }

    /// Probes for the workers.
    pub fn probes(&self) -> AnyProbes {
        match &self.on {
            On::Bpf(it) => AnyProbes::Bpf(it.probes()),
            On::Perf(it) => AnyProbes::Perf(it.probes()),
            On::Procfs(it) => AnyProbes::Procfs(it.probes()),
        }
    }

    /// What can be seen and what not, for people, before the load.
    pub fn missing(&self) -> Vec<String> {
        let mut said = Vec::new();
        if self.info.rung != Rung::TracePoints {
            said.push(format!(
                "traced on rung {} ({})",
                self.info.rung.name(),
                self.info.rung.sees()
            ));
        }
        for refused in &self.info.refused {
            let hint = refused.hint.as_ref();
            let hint = hint.map_or(String::new(), |h| format!("; {h}"));
            said.push(format!(
                "not on rung {}: {}{hint}",
                refused.rung.name(),
                refused.why
            ));
        }
        if let On::Bpf(it) = &self.on {
            said.extend(it.programs().iter().filter_map(|p| {
                let why = p.missing.as_ref()?;
                Some(format!(
                    "{} cannot be seen ({}: {why})",
                    p.sees, p.trace_point
                ))
            }));
        }
        said
    }

    /// Ends tracing and writes `layers.parquet`.
    ///
    /// # Errors
    /// `Unavailable` when the file cannot be written.
    pub fn finish(self, dir: &RunDir) -> Result<TraceInfo> {
        let mut info = self.info;
        match self.on {
            On::Bpf(it) => it.finish(dir, &mut info)?,
            On::Perf(it) => it.finish(dir, &mut info)?,
            On::Procfs(it) => it.finish(dir, &mut info)?,
        }
        Ok(info)
    }
}

/// The reasons of all rungs as one error; a single one as it is.
fn together(mut errors: Vec<(Rung, Error)>) -> Error {
    if errors.len() == 1
        && let Some((rung, e)) = errors.pop()
    {
        return e.with("trace.rung", rung.name());
    }
    let each = errors
        .iter()
        .map(|(rung, e)| format!("{}: {e}", rung.name()));
    let text = each.collect::<Vec<_>>().join("; ");
    let mut all = Error::unavailable(format!("nothing can be traced here ({text})"));
    if let Some(hint) = errors.first().and_then(|(_, e)| e.hint_text()) {
        all = all.hint(hint);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn no(why: &str) -> Error {
        Error::unavailable(why).hint("do something")
    }

    #[test]
    fn the_first_rung_that_holds_is_taken_and_the_reasons_kept() {
        let tried = climb(allowed(TraceRung::Auto), |rung| match rung {
            Rung::Procfs => Ok(()),
            other => Err(no(other.name())),
        });
        let (rung, (), refused) = tried.unwrap();
        assert_eq!(rung, Rung::Procfs);
        let whys: Vec<_> = refused.iter().map(|r| (r.rung, r.why.as_str())).collect();
        assert_eq!(whys, [(Rung::TracePoints, "bpf"), (Rung::Perf, "perf")]);
        assert!(refused.iter().all(|r| r.hint.is_some()));
        let (rung, (), refused) = climb(allowed(TraceRung::Auto), |_| Ok(())).unwrap();
        assert!(rung == Rung::TracePoints && refused.is_empty());
    }

    #[test]
    fn a_forced_rung_is_not_left() {
        let mut asked = Vec::new();
        let tried: std::result::Result<(Rung, (), _), _> =
            climb(allowed(TraceRung::Perf), |rung| {
                asked.push(rung);
                Err(no("closed"))
            });
        assert_eq!(asked, [Rung::Perf]);
        let e = together(tried.unwrap_err());
        assert!(e.to_string().contains("closed") && e.to_string().contains("perf"));
        let all = together(vec![
            (Rung::TracePoints, no("a")),
            (Rung::Perf, no("b")),
            (Rung::Procfs, no("c")),
        ]);
        assert!(
            all.to_string().contains("bpf: a; perf: b; procfs: c"),
            "{all}"
        );
        assert_eq!(all.hint_text(), Some("do something"));
    }
}
