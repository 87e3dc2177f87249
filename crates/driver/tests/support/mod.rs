//! Shared by the integration tests: plans and sessions of driver `file`, commands, and loop devices, mounts and writers
//! that are undone at the end of a test.
#![allow(dead_code, clippy::unwrap_used)]

pub mod sys;

/// The value of a `Some`; `None` ends the test, which cannot run here: the call that gave it has said why.
#[macro_export]
macro_rules! or_skip {
    ($value:expr) => {
        match $value {
            Some(value) => value,
            None => return,
        }
    };
}

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use taillight_core::plan::Plan;
use taillight_core::units::ByteSize;
use taillight_core::{ALL_FIELDS, ErrorKind, Op, OpKind, Result};
use taillight_driver::{Session, Target, conformance};

pub const BLOCK: u64 = 4096;
pub const MIB: u64 = 1 << 20;

/// A target of driver `file` and how to open it.
pub struct Ask<'a> {
    pub path: &'a Path,
    pub size: Option<u64>,
    pub options: &'a str,
    pub ops: &'a [OpKind],
    pub depth: u32,
    pub destroy: Option<&'a Path>,
    pub run_id: &'a str,
}

impl<'a> Ask<'a> {
    pub fn new(path: &'a Path, ops: &'a [OpKind]) -> Ask<'a> {
        Ask { path, size: None, options: "", ops, depth: 1, destroy: None, run_id: "test" }
    }
    pub fn plan(&self) -> Plan {
        let mut target = conformance::target("file", self.path.to_str().unwrap(), self.options);
        (target.size, target.destroy) = (self.size.map(ByteSize), self.destroy.is_some());
        conformance::plan(target, self.ops, BLOCK, self.depth)
    }
    pub fn open(&self) -> Result<Box<dyn Target>> {
        open(&self.plan(), self.destroy, self.run_id)
    }
}

pub fn open(plan: &Plan, destroy: Option<&Path>, run_id: &str) -> Result<Box<dyn Target>> {
    conformance::open(plan, destroy.map(|p| p.to_str().unwrap()), run_id)
}

pub fn session(target: &dyn Target, depth: u32) -> Box<dyn Session> {
    conformance::session(target, BLOCK, depth)
}

pub fn op(kind: OpKind, offset: u64) -> Op {
    let size = if kind == OpKind::Fsync { 0 } else { BLOCK };
    Op { kind, target: 0, offset, size, key: 0, count: 1, field: ALL_FIELDS, sync: None }
}

pub fn fact(target: &dyn Target, name: &str) -> String {
    let facts = target.facts();
    let found = facts.iter().find(|(n, _)| n == name);
    found.unwrap_or_else(|| panic!("no fact {name}")).1.clone()
}

/// Runs a command; `None` and a printed reason when it is missing or fails.
pub fn run(command: &[&str]) -> Option<String> {
    match Command::new(command[0]).args(&command[1..]).output() {
        Ok(out) if out.status.success() => {
            Some(String::from_utf8_lossy(&out.stdout).trim().to_owned())
        }
        Ok(out) => {
            let why = String::from_utf8_lossy(&out.stderr).trim().to_owned();
            eprintln!("skipped: {} failed: {why}", command.join(" "));
            None
        }
        Err(e) => {
            eprintln!("skipped: {}: {e}", command[0]);
            None
        }
    }
}

pub fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// A loop device over a file of its own; detached and deleted on drop.
pub struct TestLoopDevice {
    pub device: PathBuf,
    pub backing: PathBuf,
    _dir: tempfile::TempDir,
}

impl TestLoopDevice {
    pub fn new(mib: u64) -> Option<TestLoopDevice> {
        TestLoopDevice::prepared(mib, |_| {})
    }
    /// `prepare` may write to the backing file before the kernel reads partitions from it.
    pub fn prepared(mib: u64, prepare: impl FnOnce(&Path)) -> Option<TestLoopDevice> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: needs root for loop devices");
            return None;
        }
        let dir = scratch();
        let backing = dir.path().join("backing");
        std::fs::File::create(&backing).unwrap().set_len(mib * MIB).unwrap();
        prepare(&backing);
        let device = run(&["losetup", "-f", "-P", "--show", backing.to_str().unwrap()])?;
        Some(TestLoopDevice { device: device.into(), backing, _dir: dir })
    }
    pub fn name(&self) -> &str {
        self.device.to_str().unwrap()
    }
    /// Makes a file system of this type on the device and mounts it.
    pub fn mounted(&self, fs: &str) -> Option<Mounted> {
        let force = if ["xfs", "btrfs"].contains(&fs) { "-f" } else { "-F" };
        run(&[&format!("mkfs.{fs}"), "-q", force, self.name()])?;
        Mounted::new(&self.device)
    }
}

impl Drop for TestLoopDevice {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("-d").arg(&self.device).status();
    }
}

/// A mount in a directory of its own; unmounted on drop, lazily if it stays busy for 2 s.
pub struct Mounted {
    dir: tempfile::TempDir,
}

impl Mounted {
    pub fn new(device: &Path) -> Option<Mounted> {
        let dir = scratch();
        run(&["mount", device.to_str().unwrap(), dir.path().to_str().unwrap()])?;
        Some(Mounted { dir })
    }
    pub fn path(&self) -> &Path {
        self.dir.path()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        for _ in 0..100 {
            if Command::new("umount")
                .arg(self.dir.path())
                .output()
                .is_ok_and(|o| o.status.success())
            {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        eprintln!("still busy, unmounted lazily: {}", self.dir.path().display());
        let _ = Command::new("umount").arg("-l").arg(self.dir.path()).status();
    }
}

/// Runs a command on drop.
pub struct UndoOnDrop(pub Vec<String>);

impl Drop for UndoOnDrop {
    fn drop(&mut self) {
        let _ = Command::new(&self.0[0]).args(&self.0[1..]).status();
    }
}

/// Makes a loop device over `backing` with options of losetup; gives it, and what detaches it.
pub fn loop_over(backing: &Path, options: &[&str]) -> Option<(PathBuf, UndoOnDrop)> {
    let all = ["losetup", "-f", "--show"].iter().chain(options).copied();
    let device = run(&all.chain([backing.to_str().unwrap()]).collect::<Vec<_>>())?;
    Some((PathBuf::from(&device), UndoOnDrop(vec!["losetup".into(), "-d".into(), device])))
}

/// Asserts that a confirmed plan that writes `target` is refused for `why`, and that the file `victim` stays as it is.
pub fn refused_for(target: &Path, victim: &Path, why: &str) {
    let before = std::fs::read(victim).unwrap();
    let e = Ask { destroy: Some(target), ..Ask::new(target, &[OpKind::Write]) }.open().err();
    let e = e.unwrap_or_else(|| panic!("{} was opened", target.display()));
    assert_eq!(e.kind(), ErrorKind::Refused, "{e}");
    assert!(e.to_string().contains(why), "{e}");
    assert!(std::fs::read(victim).unwrap() == before, "{} was changed", victim.display());
}

/// A shell that has a file open for writing until its input ends.
pub struct Writer(std::process::Child);

impl Writer {
    pub fn of(path: &Path) -> Writer {
        let mut shell = Command::new("sh")
            .args(["-c", "exec 9<>\"$0\"; echo; read _"])
            .arg(path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // The shell prints a line when it has the file open.
        shell.stdout.take().unwrap().read_exact(&mut [0]).unwrap();
        Writer(shell)
    }
    pub fn end(mut self) {
        drop(self.0.stdin.take());
        self.0.wait().unwrap();
    }
}
