//! Tracing of one run: started before the load, finished into `layers.parquet` after it. `cli` traces runs through
//! this module alone, which chooses the backend: trace points, else the kernel's log of context switches. The
//! manifest says which backend was taken, and why not a better one. (Programs that run already: `bpf::watch`.)

mod backend;
mod counts;
mod end_signal;
pub(crate) mod quota;
#[cfg(test)]
mod stamp_pipe;
pub(crate) mod standstill;
pub(crate) mod threshold;

use std::path::{Path, PathBuf};

use taillight_core::plan::{Plan, TraceMode, TracingBackendChoice};
use taillight_core::{Error, Result};
use taillight_machine::Sys;
use taillight_rundir::RunDir;
use taillight_rundir::layers::LayerRow;
use taillight_rundir::trace_info::{ProgramInfo, RefusedBackend, TraceInfo, TracingBackend};

use backend::{ActiveBackend, BACKENDS, allowed};

pub(crate) use backend::Backend;
pub use backend::WithProbes;
pub(crate) use counts::TraceCounts;
pub(crate) use end_signal::EndSignal;

/// Tracing under way.
pub struct Tracer {
    active: ActiveBackend,
    info: TraceInfo,
}

/// Who is told once a second what was seen since: events, and the I/Os that are kept (a part of those that were not
/// slow), each after its earlier rounds; and how many slow ones more there are, when it is too much to tell.
pub type TraceWatch = Box<dyn FnMut(Vec<LayerRow>, u64) + Send>;

/// What a run asks of tracing.
pub struct TracingRequest<'a> {
    pub plan: &'a Plan,
    /// What is measured, once it is there.
    pub path: Option<&'a Path>,
    /// The same, and other directories that hold its data.
    pub places: &'a [PathBuf],
    /// I/Os bypass the page cache.
    pub direct: bool,
    /// Offsets of operations are offsets in the one file there is.
    pub single_file: bool,
    /// Process of this machine that serves the target, itself or by its children: their threads are looked at as well.
    pub server: Option<u32>,
    /// Directory for a file of what a long trace should not hold in memory.
    pub spill: Option<&'a Path>,
    /// Where the run is looked at while it goes on. Only the trace points tell.
    pub watch: Option<TraceWatch>,
}

/// What can be had with one backend.
#[derive(Debug)]
pub struct BackendAttempt {
    pub backend: TracingBackend,
    /// Programs, logs or counters, there or not; or why nothing.
    pub found: Result<Vec<ProgramInfo>>,
}

/// What the manifest says of tracing where it could not begin.
pub fn untraced(plan: &Plan, why: &Error) -> TraceInfo {
    TraceInfo { why: Some(why.to_string()), ..info(plan, TracingBackend::None) }
}

/// Tries every backend for a moment, the best first.
pub fn try_backends(sys: &Sys) -> Vec<BackendAttempt> {
    let attempt =
        |backend| BackendAttempt { backend, found: ActiveBackend::try_here(backend, sys) };
    BACKENDS.iter().copied().map(attempt).collect()
}

fn info(plan: &Plan, backend: TracingBackend) -> TraceInfo {
    TraceInfo::new(plan.trace.mode, backend, plan.outlier_ns())
}

/// The first backend that starts, with what was started, and the better ones that did not.
type Started<T> = (TracingBackend, T, Vec<RefusedBackend>);

/// Starts the first backend that works.
fn first_working<T>(
    backends: &[TracingBackend],
    mut start: impl FnMut(TracingBackend) -> Result<T>,
) -> Result<Started<T>> {
    let mut errors: Vec<(TracingBackend, Error)> = Vec::new();
    for backend in backends {
        match start(*backend) {
            Ok(started) => {
                let refused = errors.iter().map(|(backend, e)| RefusedBackend {
                    backend: *backend,
                    why: e.to_string(),
                    hint: e.hint_text().map(str::to_owned),
                });
                return Ok((*backend, started, refused.collect()));
            }
            Err(e) => errors.push((*backend, e)),
        }
    }
    Err(all_refused(errors))
}

/// Whether the backend that a plan insists on works, before anything is read or written for it.
/// Errors: `Unavailable` when it does not, with the reason.
pub fn require_backend(plan: &Plan, sys: &Sys) -> Result<()> {
    if plan.trace.mode == TraceMode::Off || plan.trace.backend.is_auto() {
        return Ok(());
    }
    let works = |backend| ActiveBackend::check(backend, plan, sys);
    first_working(&allowed(plan.trace.backend), works).map(drop)
}

impl Tracer {
    /// Begins to trace with the best backend that works and that the plan allows. Errors:
    /// `Unavailable` when nothing can be traced here, with the reasons.
    pub fn start(mut request: TracingRequest<'_>, sys: &Sys) -> Result<Tracer> {
        let allowed = allowed(request.plan.trace.backend);
        let start = |backend| ActiveBackend::start(backend, &mut request, sys);
        let (backend, active, refused) = first_working(&allowed, start)?;
        let mut info = info(request.plan, backend);
        if request.plan.trace.backend != TracingBackendChoice::Auto {
            info.why = Some(format!("trace.rung asks for {}", backend.name()));
        } else if !refused.is_empty() {
            let each = refused.iter().map(|r| format!("{}: {}", r.backend.name(), r.why));
            info.why = Some(each.collect::<Vec<_>>().join("; "));
        }
        info.refused = refused;
        Ok(Tracer { active, info })
    }

    /// Runs what needs the probes of the workers.
    pub fn with_probes<W: WithProbes>(&self, run: W) -> W::Output {
        self.active.with_probes(run)
    }

    /// Which backend was taken if not the best, and what it cannot see, for people, before the load.
    pub fn missing(&self) -> Vec<String> {
        let mut said = Vec::new();
        if self.info.backend != TracingBackend::TracePoints {
            said.push(format!(
                "traced with backend {} ({})",
                self.info.backend.name(),
                self.info.backend.sees()
            ));
        }
        for refused in &self.info.refused {
            let hint = refused.hint.as_ref();
            let hint = hint.map_or(String::new(), |h| format!("; {h}"));
            said.push(format!(
                "not with backend {}: {}{hint}",
                refused.backend.name(),
                refused.why
            ));
        }
        said.extend(self.active.programs().iter().filter_map(|p| {
            let why = p.missing.as_ref()?;
            Some(format!("{} cannot be seen ({}: {why})", p.sees, p.trace_point))
        }));
        said
    }

    /// Ends tracing and writes `layers.parquet`. Errors: `Unavailable` when the file cannot be
    /// written.
    pub fn finish(self, dir: &RunDir) -> Result<TraceInfo> {
        let mut info = self.info;
        self.active.finish(dir, &mut info)?;
        Ok(info)
    }
}

/// The reasons of all backends as one error; a single one as it is.
fn all_refused(mut errors: Vec<(TracingBackend, Error)>) -> Error {
    if errors.len() == 1
        && let Some((backend, e)) = errors.pop()
    {
        return e.with("backend", backend.name());
    }
    let each = errors.iter().map(|(backend, e)| format!("{}: {e}", backend.name()));
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
    fn the_first_backend_that_works_is_taken_and_the_reasons_kept() {
        let auto = allowed(TracingBackendChoice::Auto);
        let started = first_working(&auto, |backend| match backend {
            TracingBackend::Perf => Ok(()),
            other => Err(no(other.name())),
        });
        let (backend, (), refused) = started.unwrap();
        assert_eq!(backend, TracingBackend::Perf);
        let whys = refused.iter().map(|r| (r.backend, r.why.as_str()));
        let whys: Vec<_> = whys.collect();
        assert_eq!(whys, [(TracingBackend::TracePoints, "bpf")]);
        assert!(refused.iter().all(|r| r.hint.is_some()));
        let (backend, (), refused) = first_working(&auto, |_| Ok(())).unwrap();
        assert!(backend == TracingBackend::TracePoints && refused.is_empty());
    }

    #[test]
    fn a_backend_that_was_asked_for_is_not_left() {
        let mut asked = Vec::new();
        let only = allowed(TracingBackendChoice::Perf);
        let refused = first_working(&only, |backend| -> Result<()> {
            asked.push(backend);
            Err(no("closed"))
        });
        let e = refused.unwrap_err();
        assert_eq!(asked, [TracingBackend::Perf]);
        assert!(e.to_string().contains("closed") && e.to_string().contains("perf"));
        let all = all_refused(vec![
            (TracingBackend::TracePoints, no("a")),
            (TracingBackend::Perf, no("b")),
        ]);
        assert!(all.to_string().contains("bpf: a; perf: b"), "{all}");
        assert_eq!(all.hint_text(), Some("do something"));
    }
}
