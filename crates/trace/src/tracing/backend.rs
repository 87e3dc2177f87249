//! What a tracing backend is, and the list of those there are. A new source of what happened below single I/Os
//! is one file with a type that implements [`Backend`], and one line in the list at the end of this file.

use std::sync::Arc;

use taillight_core::plan::{Plan, TracingBackendChoice};
use taillight_core::probe::Probes;
use taillight_core::{Error, Result};
use taillight_machine::Sys;
use taillight_rundir::RunDir;
use taillight_rundir::trace_info::{ProgramInfo, TraceInfo, TracingBackend};

use super::TracingRequest;

/// Tracing of one run by one source. The value is the tracing under way: it begins with
/// [`Backend::start`] before the workers do, and [`Backend::finish`] comes after the last of them.
pub(crate) trait Backend: Sized {
    /// Its name in plans and manifests.
    const KIND: TracingBackend;
    /// What makes the probe of each worker.
    type Probes: Probes;

    /// Programs, logs or counters that can be had here, each with why not. Errors: `Unavailable` where the
    /// source is of no use at all, with the reason.
    fn try_here(sys: &Sys) -> Result<Vec<ProgramInfo>>;

    /// Whether this plan can be traced here; nothing is left behind. Errors: `Unavailable`, with the reason.
    fn check(plan: &Plan, sys: &Sys) -> Result<()>;

    /// Begins to trace. Errors: `Unavailable`, with the reason; the request is then as before.
    fn start(request: &mut TracingRequest<'_>, sys: &Sys) -> Result<Self>;

    /// Probes for the workers.
    fn probes(&self) -> Arc<Self::Probes>;

    /// What is watched and what could not be, where that is known from the start.
    fn programs(&self) -> &[ProgramInfo] {
        &[]
    }

    /// Ends tracing, writes `layers.parquet` and completes `info`. Errors: `Unavailable` when the file cannot
    /// be written.
    fn finish(self, dir: &RunDir, info: &mut TraceInfo) -> Result<()>;
}

/// What is done with the probes of the backend that was taken. A worker is compiled for its probe, so that a
/// probe costs no indirect call: hence a trait and no closure.
pub trait WithProbes {
    /// What comes of it.
    type Output;
    /// Called once, with the probes.
    fn run<P: Probes>(self, probes: Arc<P>) -> Self::Output;
}

/// Makes of the list the enum of backends under way, and its calls.
macro_rules! backends {
    ($($(#[$when:meta])* $name:ident: $backend:ty,)*) => {
        /// Tracing under way, with one of the backends.
        pub(crate) enum ActiveBackend {
            $($(#[$when])* $name($backend),)*
        }

        /// The backends, the best first.
        pub(crate) const BACKENDS: &[TracingBackend] =
            &[$($(#[$when])* <$backend as Backend>::KIND,)*];

        impl ActiveBackend {
            pub fn try_here(kind: TracingBackend, sys: &Sys) -> Result<Vec<ProgramInfo>> {
                $($(#[$when])* if kind == <$backend as Backend>::KIND {
                    return <$backend as Backend>::try_here(sys);
                })*
                Err(unknown(kind))
            }

            pub fn check(kind: TracingBackend, plan: &Plan, sys: &Sys) -> Result<()> {
                $($(#[$when])* if kind == <$backend as Backend>::KIND {
                    return <$backend as Backend>::check(plan, sys);
                })*
                Err(unknown(kind))
            }

            pub fn start(
                kind: TracingBackend,
                request: &mut TracingRequest<'_>,
                sys: &Sys,
            ) -> Result<ActiveBackend> {
                $($(#[$when])* if kind == <$backend as Backend>::KIND {
                    return <$backend as Backend>::start(request, sys).map(ActiveBackend::$name);
                })*
                Err(unknown(kind))
            }

            pub fn with_probes<W: WithProbes>(&self, run: W) -> W::Output {
                match self {
                    $($(#[$when])* ActiveBackend::$name(it) => run.run(it.probes()),)*
                }
            }

            pub fn programs(&self) -> &[ProgramInfo] {
                match self {
                    $($(#[$when])* ActiveBackend::$name(it) => it.programs(),)*
                }
            }

            pub fn finish(self, dir: &RunDir, info: &mut TraceInfo) -> Result<()> {
                match self {
                    $($(#[$when])* ActiveBackend::$name(it) => it.finish(dir, info),)*
                }
            }
        }
    };
}

fn unknown(kind: TracingBackend) -> Error {
    Error::unavailable("this version has no such tracing backend").with("backend", kind.name())
}

/// The backends that a plan allows, the best first.
pub(crate) fn allowed(choice: TracingBackendChoice) -> Vec<TracingBackend> {
    let takes = |kind: &TracingBackend| match choice {
        TracingBackendChoice::Auto => *kind != TracingBackend::Procfs,
        TracingBackendChoice::Bpf => *kind == TracingBackend::TracePoints,
        TracingBackendChoice::Perf => *kind == TracingBackend::Perf,
        TracingBackendChoice::Procfs => *kind == TracingBackend::Procfs,
    };
    BACKENDS.iter().copied().filter(takes).collect()
}

backends! {
    Bpf: crate::bpf::BpfTracing,
    Perf: crate::perf::PerfTracing,
    #[cfg(test)]
    StampPipe: super::stamp_pipe::StampPipe,
}
