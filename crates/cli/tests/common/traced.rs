//! What the tests of traced runs share: a run under way and what `explain` says of it, disks in memory and loop
//! devices, the user nobody, the lock of the lab.

use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use serde_json::Value;
use taillight_lab::cleanup::{LabLock, Undo};
use taillight_lab::stage::{LabCgroup, LoopDevice};

use super::{binary, ended, scratch, scratch_on_disk, skipped, start_as, text, unwrapped};

/// The arguments that make a user of nobody.
pub const NOBODY: [&str; 3] = ["--reuid=65534", "--regid=65534", "--clear-groups"];

/// A directory that everybody may use, on the machine's disk.
pub fn open_place() -> tempfile::TempDir {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::Builder::new().tempdir_in("/var/tmp").expect("a directory");
    let all = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(dir.path(), all).expect("opened");
    dir
}

/// Why root's part of a test cannot be played, if so.
pub fn not_root() -> Option<String> {
    use std::os::unix::fs::MetadataExt;
    let root = std::fs::metadata("/proc/self").is_ok_and(|m| m.uid() == 0);
    (!root).then(|| "needs root".to_owned())
}

/// Why a trace cannot be compared with the kernel's own log of block I/O here, if so.
pub fn no_block_log() -> Option<String> {
    let no_log = || taillight_lab::blocklog::root().err();
    taillight_lab::trial::cannot().or_else(|| no_log().map(|e| format!("{e:#}")))
}

/// The lock of the lab, once no other test of this machine holds it; waits 15 minutes at most.
pub fn lab() -> LabLock {
    let until = Instant::now() + Duration::from_secs(900);
    loop {
        match LabLock::enter() {
            Ok(lab) => return lab,
            Err(e) => assert!(Instant::now() < until, "{e:#}"),
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// A command's output, or why there is none.
pub fn tool(words: &[&str]) -> Result<String, String> {
    taillight_lab::cleanup::tool(words[0], &words[1..]).map_err(|e| format!("{e:#}"))
}

/// A control group `name` that may read so often a second from the disk whose number this command prints; none, and a
/// printed reason, where that cannot be.
pub fn limited_reads(
    test: &str,
    undo: &mut Undo,
    name: &str,
    number: &[&str],
    a_second: u32,
) -> Option<LabCgroup> {
    let made = tool(number).and_then(|number| {
        let group = LabCgroup::named(undo, "blkio", name).map_err(|e| format!("{e:#}"))?;
        let limit = format!("{} {a_second}", number.trim());
        let set = group.set("blkio.throttle.read_iops_device", limit);
        set.map(|_| group).map_err(|e| format!("{e:#}"))
    });
    made.map_err(|why| skipped(test, Some(why))).ok()
}

/// The extents of a file: place in the file, place on the disk, length, all in sectors of 512 bytes.
pub fn map(path: &Path) -> Vec<(u64, u64, u64)> {
    let path = path.to_str().expect("a plain path");
    let text = tool(&["filefrag", "-v", path]).expect("a map");
    // `File size of ... is 16777216 (4096 blocks of 4096 bytes)`
    let unit = text.split_once(" blocks of ").and_then(|(_, rest)| rest.split_once(' '));
    let unit: u64 = unit.and_then(|(n, _)| n.parse().ok()).expect("a unit");
    let piece = |line: &str| {
        let mut fields = line.split(':').map(str::trim);
        let _number: u64 = fields.next()?.parse().ok()?;
        let first = |field: &str| field.split_once("..")?.0.trim().parse::<u64>().ok();
        let (file, disk) = (first(fields.next()?)?, first(fields.next()?)?);
        let len: u64 = fields.next()?.parse().ok()?;
        Some((file * unit / 512, disk * unit / 512, len * unit / 512))
    };
    text.lines().filter_map(piece).collect()
}

/// Numbers of the threads of a process whose names begin with `name`; each name ends with a line break.
pub fn threads(pid: u32, name: &str) -> Vec<String> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task"));
    let named = tasks.into_iter().flatten().flatten().filter(|t| {
        let comm = std::fs::read_to_string(t.path().join("comm"));
        comm.is_ok_and(|c| c.starts_with(name))
    });
    named.map(|t| t.file_name().to_string_lossy().into_owned()).collect()
}

/// A run under way.
pub struct Run {
    child: Child,
    dir: PathBuf,
}

impl Run {
    /// Starts `before... taillight run --output out words...` in `dir` and waits for its workers, or its end.
    pub fn start(dir: &Path, before: &[&str], words: &str) -> Run {
        let child = start_as(dir, before, &format!("run --output out {words}"));
        let mut run = Run { child, dir: dir.to_owned() };
        let begin = Instant::now();
        while run.workers().is_empty() && run.child.try_wait().expect("a child").is_none() {
            assert!(begin.elapsed() < Duration::from_secs(60), "no worker");
            std::thread::sleep(Duration::from_millis(5));
        }
        run
    }

    pub fn pid(&self) -> String {
        self.child.id().to_string()
    }

    /// Threads that make load.
    pub fn workers(&self) -> Vec<String> {
        threads(self.child.id(), "worker-")
    }

    /// Waits for its end; exit code, standard output and standard error.
    pub fn end(self) -> (Option<i32>, String, String) {
        let ended = self.child.wait_with_output().expect("it ends");
        let (out, err) = (text(&ended.stdout), text(&ended.stderr));
        assert!(!err.contains("panicked"), "{err}");
        (ended.status.code(), out, err)
    }

    /// As `end`; the run must have ended with 0, 7 or 8. What `explain` says of it as JSON and as text, and the run's
    /// standard error.
    pub fn explained(self) -> (Value, String, String) {
        let dir = self.dir.clone();
        let (code, out, err) = self.end();
        assert!(matches!(code, Some(0 | 7 | 8)), "{code:?}\n{out}\n{err}");
        let (value, text) = explain(&dir);
        (value, text, err)
    }
}

/// What `taillight explain out` says in `dir`: as JSON, and as text without line breaks.
pub fn explain(dir: &Path) -> (Value, String) {
    explained_with(dir, 0)
}

/// The same, with this exit code.
pub fn explained_with(dir: &Path, code: i32) -> (Value, String) {
    let say = |args: &[&str]| {
        let out = Command::new(binary()).args(args).current_dir(dir).output().expect("it starts");
        ended(&out, code).0
    };
    let value = serde_json::from_str(&say(&["explain", "out", "--json"])).expect("JSON");
    (value, unwrapped(&say(&["explain", "out"])))
}

/// The outliers within a window of CLOCK_MONOTONIC, ns.
pub fn within(value: &Value, from: i64, to: i64) -> Vec<&Value> {
    let ios = value["ios"].as_array().expect("a list");
    let stamp = |io: &Value, name: &str| io[name].as_i64().expect("a stamp");
    ios.iter().filter(|io| stamp(io, "complete_ns") > from && stamp(io, "submit_ns") < to).collect()
}

/// CLOCK_MONOTONIC, ns.
pub fn now() -> i64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    t.tv_sec * 1_000_000_000 + t.tv_nsec
}

/// A small disk in memory, mounted; undone on drop.
pub struct SmallDisk {
    /// Where it is mounted.
    pub path: String,
    // It is unmounted before its directory goes.
    _undo: Undo,
    _dir: tempfile::TempDir,
}

impl SmallDisk {
    /// Of this size, in the words of tmpfs; none, and a printed reason, where it cannot be mounted.
    pub fn new(name: &str, size: &str) -> Option<SmallDisk> {
        let dir = scratch();
        let path = dir.path().to_str().expect("text").to_owned();
        let size = format!("size={size}");
        let mounted = tool(&["mount", "-t", "tmpfs", "-o", &size, "tmpfs", &path]);
        if skipped(name, mounted.err()) {
            return None;
        }
        let mut undo = Undo::default();
        let mount = path.clone();
        undo.add(move || drop(tool(&["umount", "-l", &mount])));
        Some(SmallDisk { path, _undo: undo, _dir: dir })
    }

    /// Makes it 200 MiB large.
    pub fn enlarge(&self) {
        tool(&["mount", "-o", "remount,size=200m", &self.path]).expect("more room");
    }
}

/// A loop device over a file on the machine's disk; undone on drop.
pub struct TestDisk {
    pub device: String,
    /// The file behind it.
    pub backing: PathBuf,
    // The device goes before its file.
    _undo: Undo,
    _dir: tempfile::TempDir,
}

impl TestDisk {
    /// Over a new file of `mib` MiB; none, and a printed reason, where that cannot be. `direct`: past the page cache.
    pub fn new(name: &str, mib: usize, direct: bool) -> Option<TestDisk> {
        let dir = scratch_on_disk();
        let backing = dir.path().join("backing");
        std::fs::write(&backing, vec![7u8; mib << 20]).expect("written");
        let synced = std::fs::File::open(&backing).and_then(|file| file.sync_all());
        synced.expect("on the disk");
        let mut undo = Undo::default();
        let made = match not_root() {
            Some(why) => Err(why),
            None => LoopDevice::over(&mut undo, &backing, direct).map_err(|e| format!("{e:#}")),
        };
        let device = made.map_err(|why| eprintln!("skipped: {name}: {why}")).ok()?;
        let device = device.device.to_string_lossy().into_owned();
        Some(TestDisk { device, backing, _undo: undo, _dir: dir })
    }
}
