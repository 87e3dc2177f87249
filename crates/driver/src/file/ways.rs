//! Workloads that issue their I/O in a way of their own on the files of their target: another engine, direct or not,
//! another ring. fio's job files have such sections side by side on one file.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags, fcntl_getfl, ioctl_blksszget, open};
use taillight_core::plan::{Plan, WorkloadPlan};
use taillight_core::{Error, Result};

use super::existing::FileOpenSpec;
use super::facts::Facts;
use super::needs::{self, AccessNeeds};
use super::options::{FileOptions, IoEngine};
use super::target::{self, IoMethod};
use super::uring::RingConfig;
use super::uring::setup::{RingSetup, probe_discard};

/// How one workload issues its I/O.
pub struct WorkloadWay {
    pub method: IoMethod,
    /// The target's files, or the same once more where it is direct and they are not, or the other way round.
    pub files: Arc<Vec<OwnedFd>>,
}

/// The ways of the workloads of a target that have one of their own.
pub struct Ways {
    each: Vec<Option<WorkloadWay>>,
    told: Facts,
    /// What offsets and sizes of those with direct I/O are multiples of.
    pub align: u64,
}

/// The plan with those workloads alone that issue I/O as the target's options say.
pub fn shared(plan: &Plan, options: &FileOptions) -> Plan {
    let mut part = plan.clone();
    part.workloads.retain(|w| !options.workloads.contains_key(&w.name));
    part
}

/// Options and part of the plan of a workload with a way of its own.
fn own(plan: &Plan, options: &FileOptions, workload: &WorkloadPlan) -> Option<(FileOptions, Plan)> {
    options.workloads.contains_key(&workload.name).then(|| {
        let part = Plan { workloads: vec![workload.clone()], ..plan.clone() };
        (options.of_workload(&workload.name), part)
    })
}

/// Whether every way names a workload of the plan, and its engine can do what that workload asks. Errors: `Usage`.
pub fn check(plan: &Plan, options: &FileOptions) -> Result<()> {
    let known = |name: &&String| plan.workloads.iter().any(|w| w.name == **name);
    if let Some(name) = options.workloads.keys().find(|name| !known(name)) {
        return Err(Error::usage(format!(
            "`workloads` names `{name}`, which does not drive this target"
        ))
        .of_field("workloads")
        .hint("use the name of a [[workload]]"));
    }
    for (own, part) in plan.workloads.iter().filter_map(|w| own(plan, options, w)) {
        super::choose(&own, &AccessNeeds::of(&part))?;
    }
    Ok(())
}

/// Whether each workload with a way of its own can use that on what is there, asked before any of it is given up,
/// as [`super::check_io`] asks for the others. Returns the largest alignment. Errors: as [`Ways::open`].
pub fn fits(
    request: &FileOpenSpec<'_>,
    files: &[BorrowedFd<'_>],
    file_size: u64,
    device: bool,
) -> Result<u64> {
    let (plan, options) = (request.spec.plan, request.options);
    let Some(first) = files.first() else { return Ok(1) };
    let mut most = 1;
    for (own, part) in plan.workloads.iter().filter_map(|w| own(plan, options, w)) {
        let files = Arc::new(vec![again(*first, own.direct).map_err(cannot_open)?]);
        let fd = files[0].as_fd();
        let align = if own.direct { aligned(&part, fd, device)? } else { 1 };
        needs::whole_blocks(file_size, align)?;
        most = most.max(align);
        let needs = AccessNeeds::of(&part);
        let ring = match method(&own, super::choose(&own, &needs)?, &files, device)? {
            IoMethod::Uring(ring) => Some(ring.setup),
            _ => None,
        };
        if ring.is_some() && device && needs.trims {
            probe_discard(fd)?;
        }
        target::try_workers(&part, &[fd], ring.as_ref(), device)?;
    }
    Ok(most)
}

/// The alignment of direct I/O, which the blocks of this part of the plan keep. Errors: `Usage`.
fn aligned(part: &Plan, fd: BorrowedFd<'_>, device: bool) -> Result<u64> {
    let logical = ioctl_blksszget(fd).ok().filter(|_| device);
    let align = logical.map_or_else(|| super::direct_align(fd), |n| Ok(n.into()))?;
    needs::aligned(part, align, "direct I/O goes by the device's blocks")?;
    Ok(align)
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
        for w in &plan.workloads {
            let Some((own, part)) = own(plan, options, w) else {
                ways.each.push(None);
                continue;
            };
            let files = match (own.direct == options.direct, &other) {
                (true, _) => Arc::clone(files),
                (false, Some(files)) => Arc::clone(files),
                (false, None) => {
                    let again = files.iter().map(|fd| again(fd.as_fd(), own.direct));
                    let again = again.collect::<rustix::io::Result<_>>().map_err(cannot_open)?;
                    Arc::clone(other.insert(Arc::new(again)))
                }
            };
            if own.direct
                && let Some(fd) = files.first()
            {
                ways.align = ways.align.max(aligned(&part, fd.as_fd(), device)?);
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

    /// What workloads with a way of their own use.
    pub fn files(&self) -> impl Iterator<Item = &OwnedFd> {
        self.each.iter().flatten().flat_map(|way| way.files.iter())
    }

    /// The way of a workload, by its number on this target; none where it has none of its own.
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

/// The same file by a descriptor of its own, which has another state of direct I/O.
fn again(fd: BorrowedFd<'_>, direct: bool) -> rustix::io::Result<OwnedFd> {
    let mut flags = fcntl_getfl(fd)? & OFlags::ACCMODE;
    flags |= OFlags::CLOEXEC;
    flags.set(OFlags::DIRECT, direct);
    open(format!("/proc/self/fd/{}", fd.as_raw_fd()), flags, Mode::empty())
}

fn cannot_open(e: rustix::io::Errno) -> Error {
    Error::unavailable("cannot open the files once more for a workload with other direct I/O")
        .source(e)
        .hint("give all workloads of the target the same `direct`")
}
