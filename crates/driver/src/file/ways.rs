//! Workloads that issue their I/O in a way of their own on the files of their target: another engine, direct or not,
//! another ring. fio's job files have such sections side by side on one file.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags, fcntl_getfl, ioctl_blksszget, open};
use taillight_core::plan::Plan;
use taillight_core::{Error, Result};

use super::existing::FileOpenSpec;
use super::facts::Facts;
use super::needs::{self, AccessNeeds};
use super::options::{FileOptions, IoEngine};
use super::target::IoMethod;
use super::uring::RingConfig;
use super::uring::setup::RingSetup;

/// How one workload issues its I/O.
pub struct WorkloadWay {
    pub method: IoMethod,
    /// The target's files, or the same once more where it is direct and they are not, or the other way round.
    pub files: Arc<Vec<OwnedFd>>,
}

/// Of each workload of the target its way, where it has one of its own.
pub struct Ways {
    each: Vec<Option<WorkloadWay>>,
    told: Facts,
    /// What offsets and sizes of those with direct I/O are multiples of.
    pub align: u64,
}

/// The workloads that issue I/O as the target says.
pub fn shared(plan: &Plan, options: &FileOptions) -> Plan {
    let mut part = plan.clone();
    part.workloads.retain(|w| !options.workloads.contains_key(&w.name));
    part
}

fn alone(plan: &Plan, workload: usize) -> Plan {
    let mut part = plan.clone();
    part.workloads = plan.workloads.get(workload).cloned().into_iter().collect();
    part
}

/// Whether every way is one of a workload, and can do what that asks. Errors: `Usage`.
pub fn check(plan: &Plan, options: &FileOptions) -> Result<()> {
    for name in options.workloads.keys() {
        let Some(number) = plan.workloads.iter().position(|w| w.name == *name) else {
            return Err(Error::usage(format!(
                "`workloads` names `{name}`, which does not drive this target"
            ))
            .of_field("workloads")
            .hint("use the name of a [[workload]]"));
        };
        super::choose(&options.of_workload(name), &AccessNeeds::of(&alone(plan, number)))?;
    }
    Ok(())
}

impl Ways {
    /// Opens the files once more where a way needs it. Errors: as for the target itself.
    pub fn open(
        request: &FileOpenSpec<'_>,
        files: &Arc<Vec<OwnedFd>>,
        device: bool,
    ) -> Result<Ways> {
        let (plan, options) = (request.spec.plan, request.options);
        let mut ways = Ways { each: Vec::new(), told: Vec::new(), align: 1 };
        let mut other: Option<Arc<Vec<OwnedFd>>> = None;
        for (number, w) in plan.workloads.iter().enumerate() {
            if !options.workloads.contains_key(&w.name) {
                ways.each.push(None);
                continue;
            }
            let (own, part) = (options.of_workload(&w.name), alone(plan, number));
            let files = match (own.direct == options.direct, &other) {
                (true, _) => Arc::clone(files),
                (false, Some(files)) => Arc::clone(files),
                (false, None) => Arc::clone(other.insert(Arc::new(again(files, own.direct)?))),
            };
            if own.direct
                && let Some(fd) = files.first()
            {
                let logical = ioctl_blksszget(fd).ok().filter(|_| device);
                let align =
                    logical.map_or_else(|| super::direct_align(fd.as_fd()), |n| Ok(n.into()))?;
                needs::aligned(&part, align, "direct I/O goes by the device's blocks")?;
                ways.align = ways.align.max(align);
            }
            let engine = super::choose(&own, &AccessNeeds::of(&part))?;
            let method = method(&own, engine, &files, device)?;
            let how = if own.direct { "direct" } else { "buffered" };
            let engine = match engine {
                IoEngine::Uring => "uring",
                IoEngine::Mmap => "mmap",
                _ => "sync",
            };
            ways.told.push((format!("io.workload.{}", w.name), format!("{engine} {how}")));
            ways.each.push(Some(WorkloadWay { method, files }));
        }
        Ok(ways)
    }

    /// Facts for the manifest.
    pub fn facts(&self) -> Facts {
        self.told.clone()
    }

    /// That of a workload, by its number on this target.
    pub fn of(&self, workload: u16) -> Option<&WorkloadWay> {
        self.each.get(usize::from(workload))?.as_ref()
    }
}

fn method(
    options: &FileOptions,
    engine: IoEngine,
    files: &Arc<Vec<OwnedFd>>,
    device: bool,
) -> Result<IoMethod> {
    match engine {
        IoEngine::Uring => {}
        IoEngine::Mmap => return Ok(IoMethod::Mmap),
        _ => return Ok(IoMethod::Sync),
    }
    if options.iopoll
        && let Some(fd) = files.first()
    {
        super::polled(fd.as_fd())?;
    }
    Ok(IoMethod::Uring(RingConfig {
        files: Arc::clone(files),
        setup: RingSetup::probe(options)?,
        device,
        submit_batch: options.submit_batch.resolve(options.direct),
    }))
}

/// The same files by descriptors of their own, which have another state of direct I/O.
fn again(files: &[OwnedFd], direct: bool) -> Result<Vec<OwnedFd>> {
    let one = |fd: &OwnedFd| -> rustix::io::Result<OwnedFd> {
        let mut flags = fcntl_getfl(fd)? & OFlags::ACCMODE;
        flags |= OFlags::CLOEXEC;
        flags.set(OFlags::DIRECT, direct);
        open(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(fd)), flags, Mode::empty())
    };
    files.iter().map(one).collect::<rustix::io::Result<_>>().map_err(|e| {
        Error::unavailable("cannot open the files once more for a workload with other direct I/O")
            .source(e)
            .hint("give all workloads of the target the same `direct`")
    })
}
