//! Cleaning up: undoes what a trial made or changed, last first, and sweeps up after a lab that was killed.

use std::fs::{File, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::io::Errno;
use taillight_machine::Sys;
use taillight_machine::block::loop_backings;
use taillight_machine::mounts::mounts;

/// Begins the names of the lab's directory, control groups and most files.
pub const NAME: &str = "taillight-lab";
/// Locked by the only lab of this machine; where only root may make files.
const LOCK: &str = "/run/taillight-lab.lock";
/// Where control group hierarchies are mounted.
pub const CGROUPS: &str = "/sys/fs/cgroup";
/// The limits of reads per second of the root of all control groups (version 1), below [`CGROUPS`].
pub const ROOT_LIMITS: &str = "blkio/blkio.throttle.read_iops_device";

/// Where images and mount points are: memory, so that the machine's disk plays no part.
pub fn lab_dir() -> PathBuf {
    Path::new("/dev/shm").join(NAME)
}

/// The file of nothing but holes that a setting reads to fill memory. It is not in [`lab_dir`], where reading holes takes
/// no memory.
pub fn holes() -> PathBuf {
    std::env::temp_dir().join(format!("{NAME}-holes"))
}

/// What is to be undone. Dropping it does so, also when a thread panics.
#[derive(Default)]
pub struct Undo(Vec<Box<dyn FnOnce() + Send>>);

impl Undo {
    /// Undone before everything that was added earlier.
    pub fn add(&mut self, undo: impl FnOnce() + Send + 'static) {
        self.0.push(Box::new(undo));
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        while let Some(undo) = self.0.pop() {
            undo();
        }
    }
}

/// Set by SIGINT and SIGTERM: every [`StopSignal::sleep`] ends early, and all is undone on the way out.
#[derive(Clone, Default)]
pub struct StopSignal(Arc<AtomicBool>);

impl StopSignal {
    /// Installs the handlers.
    pub fn install() -> Result<StopSignal> {
        let stop = StopSignal::default();
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            signal_hook::flag::register(signal, stop.0.clone())?;
        }
        Ok(stop)
    }

    /// Fails once a signal came.
    pub fn check(&self) -> Result<()> {
        if self.0.load(Relaxed) {
            bail!("interrupted");
        }
        Ok(())
    }

    /// Sleeps for so long. Errors: a signal came.
    pub fn sleep(&self, time: Duration) -> Result<()> {
        let end = Instant::now() + time;
        loop {
            self.check()?;
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(Duration::from_millis(50)));
        }
    }
}

/// Runs a system program; its standard output, trimmed. Errors: it fails, with what it wrote to standard error.
pub fn tool<S: AsRef<std::ffi::OsStr>>(name: &str, args: &[S]) -> Result<String> {
    let out =
        Command::new(name).args(args).output().with_context(|| format!("cannot start {name}"))?;
    if !out.status.success() {
        let said = String::from_utf8_lossy(&out.stderr);
        bail!("{name}: {}: {}", out.status, said.trim());
    }
    Ok(String::from_utf8_lossy(&out.stdout).trim().to_owned())
}

/// Writes a control file.
pub fn set(path: &Path, value: impl std::fmt::Display) -> Result<()> {
    let value = value.to_string();
    std::fs::write(path, &value).with_context(|| format!("{value} into {}", path.display()))
}

/// The only lab of this machine, while it lives. What an earlier one left that was killed is taken
/// back when it begins; what its own trials left, when it is dropped.
pub struct LabLock(
    // Held for its lock, which ends with the process even when that is killed.
    #[allow(dead_code)] File,
);

impl LabLock {
    /// Becomes the only lab, sweeps up and makes [`lab_dir`].
    pub fn enter() -> Result<LabLock> {
        let lock = take_lock(Path::new(LOCK))?;
        if let Ok(meta) = std::fs::symlink_metadata(lab_dir()) {
            check(&lab_dir(), &meta)?;
        }
        sweep();
        make_lab_dir()?;
        Ok(LabLock(lock))
    }
}

impl Drop for LabLock {
    fn drop(&mut self) {
        sweep();
    }
}

/// Takes the lock of the only lab.
fn take_lock(path: &Path) -> Result<File> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = rustix::fs::open(path, flags, Mode::from_raw_mode(0o600))
        .with_context(|| format!("cannot open {}", path.display()))?;
    match flock(&fd, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(fd.into()),
        Err(Errno::WOULDBLOCK) => {
            bail!("another lab is under way: it holds {}; wait until it has ended", path.display())
        }
        Err(e) => Err(e).with_context(|| format!("cannot lock {}", path.display())),
    }
}

/// Makes [`lab_dir`], for root alone.
pub fn make_lab_dir() -> Result<()> {
    let lab_dir = lab_dir();
    match std::fs::DirBuilder::new().mode(0o700).create(&lab_dir) {
        Err(e) if e.kind() == ErrorKind::AlreadyExists => {
            check(&lab_dir, &std::fs::symlink_metadata(&lab_dir)?)
        }
        made => made.with_context(|| format!("cannot make {}", lab_dir.display())),
    }
}

/// Whether what is found in the place of [`lab_dir`] can be the lab's.
fn check(path: &Path, meta: &Metadata) -> Result<()> {
    if !meta.is_dir() || meta.uid() != 0 {
        bail!("{} is not a directory of root: the lab did not make it; remove it", path.display());
    }
    Ok(())
}

/// Whether a mount point or the file behind a loop device is [`lab_dir`] or lies in it.
fn ours(path: &Path) -> bool {
    path.starts_with(lab_dir())
}

/// Takes back what a lab left: thaws, ends swapping, lifts limits, unmounts, detaches, removes. Only what lies in
/// [`lab_dir`] or on disks of it, control groups whose names begin with [`NAME`] (where version 2 is alone, two of them),
/// and [`holes`].
fn sweep() {
    groups();
    let sys = Sys::default();
    for disk in disks(&loop_backings(&sys)) {
        // Fails where it is no swap.
        let _ = tool("swapoff", &[&disk]);
        unlimit(&disk);
    }
    for mount in mounts(&sys).unwrap_or_default().iter().rev() {
        if ours(&mount.point) {
            let at = mount.point.as_os_str();
            let _ = tool("fsfreeze", &["--unfreeze".as_ref(), at]);
            let _ = tool("umount", &["--lazy".as_ref(), at]);
        }
    }
    // Asked again: one that was busy may have gone with its mount, and its number may be somebody else's by now.
    for disk in disks(&loop_backings(&sys)).iter().rev() {
        let _ = tool("losetup", &[Path::new("--detach"), disk]);
    }
    let _ = std::fs::remove_dir_all(lab_dir());
    let _ = std::fs::remove_file(holes());
}

/// Takes away a limit of the root of all control groups: it would be in force for the next disk of that number.
fn unlimit(disk: &Path) {
    let file = Path::new("/sys/block").join(disk.file_name().unwrap_or_default()).join("dev");
    if let Ok(number) = std::fs::read_to_string(file) {
        let _ = set(&Path::new(CGROUPS).join(ROOT_LIMITS), format!("{} 0", number.trim()));
    }
}

/// Of loop devices with the files behind them those over files of the lab, and over each other, the lowest first.
fn disks(all: &[(String, String)]) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    loop {
        let above =
            |file: &str| ours(Path::new(file)) || found.iter().any(|d| d == Path::new(file));
        let more = all.iter().filter(|(_, file)| above(file));
        let more = more.map(|(name, _)| Path::new("/dev").join(name));
        let more: Vec<PathBuf> = more.filter(|disk| !found.contains(disk)).collect();
        if more.is_empty() {
            return found;
        }
        found.extend(more);
    }
}

fn groups() {
    // Version 2 alone: the hierarchy is mounted there itself.
    let root = Path::new(CGROUPS);
    for name in [NAME.to_owned(), format!("{NAME}-setting")] {
        if root.join("cgroup.controllers").exists() && root.join(&name).exists() {
            dissolve(root, &root.join(&name));
        }
    }
    let hierarchies = std::fs::read_dir(root).into_iter().flatten();
    for hierarchy in hierarchies.flatten() {
        let groups = std::fs::read_dir(hierarchy.path()).into_iter().flatten();
        for group in groups.flatten() {
            if group.file_name().to_string_lossy().starts_with(NAME) {
                dissolve(&hierarchy.path(), &group.path());
            }
        }
    }
}

/// Removes a group and those in it; sends the members of each one level up.
pub fn dissolve(parent: &Path, group: &Path) {
    let state = group.join("freezer.state");
    if state.exists() {
        let _ = std::fs::write(state, "THAWED");
    }
    for inner in std::fs::read_dir(group).into_iter().flatten().flatten() {
        if inner.file_type().is_ok_and(|t| t.is_dir()) {
            dissolve(group, &inner.path());
        }
    }
    for _ in 0..50 {
        let members = std::fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
        for pid in members.split_whitespace() {
            let _ = std::fs::write(parent.join("cgroup.procs"), pid);
        }
        if std::fs::remove_dir(group).is_ok() || !group.exists() {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn only_what_lies_in_its_home_is_the_labs() {
        for path in [
            "/dev/shm/taillight-lab",
            "/dev/shm/taillight-lab/taillight-lab-ext4",
            "/dev/shm/taillight-lab/taillight-lab-image (deleted)\n",
        ] {
            assert!(ours(Path::new(path)), "{path}");
        }
        for path in [
            "/srv/u/taillight-lab/x",
            "/mnt/dev/shm/taillight-lab/x",
            "/dev/shm/taillight-lab-2/x",
            "/dev/shm/taillight-labels",
            "/dev/shm",
            "dev/shm/taillight-lab",
            "",
        ] {
            assert!(!ours(Path::new(path)), "{path}");
        }
    }

    #[test]
    fn disks_over_disks_of_the_lab_are_its_own_and_no_others() {
        let loops = |of: &[(&str, &str)]| -> Vec<(String, String)> {
            of.iter().map(|(name, file)| ((*name).into(), (*file).into())).collect()
        };
        let all = loops(&[
            ("loop3", "/dev/loop1"),
            ("loop1", "/dev/loop0"),
            ("loop0", "/dev/shm/taillight-lab/taillight-lab-fuse/data"),
            ("loop2", "/srv/image"),
            ("loop4", "/dev/loop2"),
        ]);
        let expected = ["/dev/loop0", "/dev/loop1", "/dev/loop3"].map(PathBuf::from);
        assert_eq!(disks(&all), expected);
    }

    #[test]
    fn groups_in_a_group_go_with_it() {
        let place = std::env::temp_dir().join(format!("groups-{}", std::process::id()));
        std::fs::create_dir_all(place.join("outer/inner/innermost")).expect("directories");
        dissolve(&place, &place.join("outer"));
        let left = std::fs::read_dir(&place).expect("it is there").count();
        std::fs::remove_dir_all(&place).expect("removed");
        assert_eq!(left, 0);
    }

    #[test]
    fn a_second_lab_is_told_and_a_strange_home_is_not_entered() {
        let place = std::env::temp_dir().join(format!("guard-{}", std::process::id()));
        std::fs::create_dir(&place).expect("a directory");
        let lock = place.join("lock");
        let first = take_lock(&lock).expect("nobody else's");
        let told = take_lock(&lock).expect_err("it is held").to_string();
        assert!(told.contains("another lab is under way"), "{told}");
        drop(first);
        take_lock(&lock).expect("it is free again");

        let link = place.join("link");
        std::os::unix::fs::symlink(&place, &link).expect("a link");
        take_lock(&link).expect_err("a link is not followed");
        let meta = |path: &Path| std::fs::symlink_metadata(path).expect("it is there");
        assert!(check(&link, &meta(&link)).is_err());
        assert!(check(&lock, &meta(&lock)).is_err());
        let root = meta(&place).uid() == 0;
        assert_eq!(check(&place, &meta(&place)).is_ok(), root);
        std::fs::remove_dir_all(&place).expect("removed");
    }

    #[test]
    fn everything_is_undone_backwards_even_in_a_panic() {
        let options = Arc::new(Mutex::new(Vec::new()));
        let inner = options.clone();
        let ended = std::panic::catch_unwind(move || {
            let mut undo = Undo::default();
            for n in 0..3 {
                let options = inner.clone();
                undo.add(move || options.lock().expect("unpoisoned").push(n));
            }
            panic!("on purpose");
        });
        assert!(ended.is_err());
        assert_eq!(*options.lock().expect("unpoisoned"), [2, 1, 0]);
    }
}
