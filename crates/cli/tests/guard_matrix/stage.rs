//! A place for one case: images, loop devices, mounts, processes, all taken back however the case
//! ends; what must not change; and the attempts on it. Only what a stage made is ever detached,
//! unmounted or ended.

use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use taillight_lab::cleanup::Undo;
use taillight_s3test::{ID, SECRET};

use crate::common;
use crate::common::traced::{NOBODY, open_place, tool};

pub const MIB: u64 = 1 << 20;

/// Why a case could not be set up.
pub type Setup<T> = Result<T, String>;

/// What victims were at one time.
pub struct VictimSums {
    victims: Vec<String>,
    /// First pages of swap areas.
    heads: Vec<Vec<u8>>,
    swapped: bool,
}

impl VictimSums {
    pub fn same(&self, later: &VictimSums) -> bool {
        let swapped = self.swapped || later.swapped;
        self.heads == later.heads && (swapped || self.victims == later.victims)
    }
}

/// Whether the kernel has put anything into a swap area (proc(5), `/proc/swaps`), or into one whose name leads nowhere
/// here: it was switched on in another mount namespace.
fn is_swapped_to(path: &str) -> bool {
    let swaps = std::fs::read_to_string("/proc/swaps").unwrap_or_default();
    swaps.lines().skip(1).any(|line| {
        let mut fields = line.split_whitespace();
        let name = fields.next().unwrap_or_default();
        (name == path || !Path::new(name).exists()) && fields.nth(2) != Some("0")
    })
}

/// What Taillight must do with an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Must {
    /// Refuse it, with exit code 3.
    Refuse,
    /// Refuse it, or do what was asked without a loss to anybody.
    Spare,
    /// Not do it, with an exit code from 2 to 6.
    Fail,
}

/// What Taillight did with one attempt.
pub struct Attempt {
    /// What stood there, how it was called, what was asked.
    pub what: String,
    pub code: Option<i32>,
    /// Standard error.
    pub said: String,
    /// All that had to stay is as it was.
    pub intact: bool,
    pub must: Must,
}

impl Attempt {
    pub fn refused(&self) -> bool {
        let failed = self.must == Must::Fail && matches!(self.code, Some(2..=6));
        (failed || self.code == Some(3)) && self.intact
    }

    /// It ran, and nobody lost anything.
    pub fn spared(&self) -> bool {
        self.must == Must::Spare && self.code == Some(0) && self.intact
    }

    /// Refused because something cannot be seen from there, which is then named.
    pub fn unknowable(&self) -> bool {
        let words = ["cannot be known", "cannot be told", "cannot tell", "cannot be seen"];
        self.refused() && words.iter().any(|w| self.said.contains(w))
    }
}

/// The binary, where everybody may start it.
pub struct SharedBinary {
    pub path: PathBuf,
    _dir: tempfile::TempDir,
}

impl SharedBinary {
    pub fn copied() -> SharedBinary {
        let dir = open_place();
        let path = dir.path().join("taillight");
        // By another process: a child that some thread starts meanwhile would hold it open for writing, and
        // whoever then starts it is told that it is busy.
        let from = common::binary();
        tool(&["install", "-m", "755", &path_text(&from), &path_text(&path)]).expect("copied");
        SharedBinary { path, _dir: dir }
    }
}

/// A place for one case.
pub struct AttackStage<'a> {
    program: &'a SharedBinary,
    pub attempts: Vec<Attempt>,
    victims: Vec<Box<dyn Fn() -> String>>,
    /// Flushed before anything is compared: what is written to them goes on to an image.
    loops: Vec<PathBuf>,
    /// Swap areas under the names by which they were switched on.
    pub swaps: Vec<String>,
    made: usize,
    // Everything goes before its place.
    pub undo: Undo,
    dir: tempfile::TempDir,
}

impl AttackStage<'_> {
    pub fn new(program: &SharedBinary) -> AttackStage<'_> {
        AttackStage {
            program,
            attempts: Vec::new(),
            victims: Vec::new(),
            loops: Vec::new(),
            swaps: Vec::new(),
            made: 0,
            undo: Undo::default(),
            dir: open_place(),
        }
    }

    pub fn root(&self) -> &Path {
        self.dir.path()
    }

    pub fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A name that nothing has yet.
    pub fn fresh(&mut self, what: &str) -> PathBuf {
        self.made += 1;
        self.at(&format!("{what}{}", self.made))
    }

    pub fn fresh_dir(&mut self, what: &str) -> PathBuf {
        let path = self.fresh(what);
        std::fs::create_dir(&path).expect("a directory");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o777)).expect("opened");
        path
    }

    /// A file of zeros.
    pub fn image(&mut self, mib: u64) -> PathBuf {
        let path = self.fresh("image");
        std::fs::File::create_new(&path).and_then(|f| f.set_len(mib * MIB)).expect("an image");
        path
    }

    /// A file with somebody's data.
    pub fn data(&mut self, name: &str, bytes: usize) -> PathBuf {
        let path = self.at(name);
        write_data(&path, bytes);
        path
    }

    /// A loop device over a file or device; `how` are losetup's options.
    pub fn loop_over(&mut self, file: &Path, how: &[&str]) -> Setup<PathBuf> {
        let file = path_text(file);
        let words = [&["losetup", "--find", "--show"], how, &[file.as_str()]].concat();
        let device = tool(&words)?;
        self.detach_at_end(&device);
        Ok(device.into())
    }

    pub fn detach_at_end(&mut self, device: &str) {
        let detach = device.to_owned();
        self.undo.add(move || again(&["losetup", "--detach", &detach]));
        self.loops.push(device.into());
    }

    /// The first partition of a disk, from 1 MiB to its end. The kernel is told directly: not every
    /// kernel reads partition tables.
    pub fn partition(&mut self, disk: &Path) -> Setup<PathBuf> {
        let mib = size_of(disk)? / MIB;
        self.partition_at(disk, 1, (1, mib - 1))
    }

    /// A partition of so many MiB from such a MiB on.
    pub fn partition_at(&mut self, disk: &Path, n: u32, (from, mib): (u64, u64)) -> Setup<PathBuf> {
        let (disk, n) = (path_text(disk), n.to_string());
        let (from, sectors) = ((from * 2048).to_string(), (mib * 2048).to_string());
        tool(&["addpart", &disk, &n, &from, &sectors])?;
        let (gone, number) = (disk.clone(), n.clone());
        self.undo.add(move || again(&["delpart", &gone, &number]));
        let path = format!("{disk}p{n}");
        self.loops.push(path.clone().into());
        Ok(path.into())
    }

    /// An ext4 file system without a journal or anything else that writes by itself.
    pub fn make_ext4(&self, device: &Path) -> Setup<()> {
        let quiet = "lazy_itable_init=0,nodiscard";
        let words = ["-q", "-F", "-O", "^has_journal", "-E", quiet, &path_text(device)];
        tool(&[&["mkfs.ext4"], &words[..]].concat()).map(drop)
    }

    pub fn mount(&mut self, device: &Path, options: &str) -> Setup<PathBuf> {
        self.mount_words(&["-o", options, &path_text(device)])
    }

    pub fn mount_words(&mut self, words: &[&str]) -> Setup<PathBuf> {
        let point = self.fresh_dir("mount");
        tool(&[&["mount"], words, &[&path_text(&point)]].concat())?;
        self.unmount_at_end(&point);
        Ok(point)
    }

    pub fn unmount_at_end(&mut self, point: &Path) {
        let point = path_text(point);
        self.undo.add(move || again(&["umount", &point]));
    }

    /// Starts a process that lives as long as the stage; it must say `ready` first.
    pub fn holder(&mut self, words: &[&str]) -> Setup<()> {
        let mut child = Command::new(words[0])
            .args(&words[1..])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| format!("{words:?}: {e}"))?;
        let mut said = String::new();
        let out = child.stdout.take().expect("piped");
        std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut said)
            .map_err(|e| e.to_string())?;
        let input = child.stdin.take();
        if said.trim() != "ready" {
            drop(input);
            let ended = child.wait_with_output().map_err(|e| e.to_string())?;
            return Err(format!("{words:?}: {said} {}", common::text(&ended.stderr)));
        }
        self.undo.add(move || {
            drop(input);
            let _ = child.wait();
        });
        Ok(())
    }

    /// From now on this must not change, whatever is tried: a file, or a directory with all in it.
    pub fn keep_safe(&mut self, victim: &Path) {
        let victim = victim.to_owned();
        self.victims.push(Box::new(move || sum(&victim)));
    }

    /// The same for what is no file: what `look` says of it.
    pub fn keep_same(&mut self, look: impl Fn() -> String + 'static) {
        self.victims.push(Box::new(look));
    }

    /// The sums of all victims, as they are on their images. Where the kernel has swapped to one, it is
    /// no longer the same by itself: then what counts is the first page, which tells that it is swap.
    pub fn sums(&self) -> VictimSums {
        for device in self.loops.iter().rev() {
            let _ = std::fs::File::open(device).and_then(|f| f.sync_all());
        }
        let first = |path: &String| {
            let mut page = vec![0; 4096];
            let read = std::fs::File::open(path).and_then(|mut f| f.read_exact(&mut page));
            read.map(|()| page).unwrap_or_default()
        };
        let victims = self.victims.iter().map(|look| look()).collect();
        let swapped = self.swaps.iter().any(|path| is_swapped_to(path));
        VictimSums { victims, heads: self.swaps.iter().map(first).collect(), swapped }
    }

    /// `before... taillight words...` in a directory of its own.
    pub fn run(&mut self, before: &[&str], words: &[&str]) -> Output {
        let dir = self.fresh_dir("run");
        let program = path_text(&self.program.path);
        let all: Vec<&str> = before.iter().copied().chain([&*program]).collect();
        let out = Command::new(all[0])
            .args(&all[1..])
            .args(words)
            .current_dir(dir)
            .env("AWS_ACCESS_KEY_ID", ID)
            .env("AWS_SECRET_ACCESS_KEY", SECRET)
            .stdin(Stdio::null())
            .output()
            .expect("it starts");
        let said = common::text(&out.stderr);
        assert!(!said.contains("panicked"), "{words:?}: {said}");
        out
    }

    /// Tries what must be refused, and looks whether anything was lost.
    pub fn attempt(&mut self, what: &str, before: &[&str], words: &[&str]) {
        self.attempt_that(Must::Refuse, what, before, words);
    }

    pub fn attempt_that(&mut self, must: Must, what: &str, before: &[&str], words: &[&str]) {
        let sums = self.sums();
        let out = self.run(before, words);
        let intact = sums.same(&self.sums());
        let what = format!("{what}: {}", words.join(" "));
        let (code, said) = (out.status.code(), common::text(&out.stderr));
        self.attempts.push(Attempt { what, code, said, intact, must });
    }

    /// Resumes the series in `dir/out`: where it was begun, as names of files count from there.
    pub fn attempt_resumed(&mut self, must: Must, what: &str, dir: &Path) {
        let there = format!("--chdir={}", path_text(dir));
        self.attempt_that(must, what, &["env", &there], &["suite", "--resume", "out"]);
    }

    /// Notes an attempt that was not made by [`AttackStage::attempt`].
    pub fn note(&mut self, must: Must, what: &str, code: Option<i32>, intact: bool) {
        let (what, said) = (what.to_owned(), String::new());
        self.attempts.push(Attempt { what, code, said, intact, must });
    }

    /// Starts a run in `dir` and leaves it to the caller.
    pub fn start(&self, dir: &Path, words: &[&str]) -> Child {
        Command::new(&self.program.path)
            .args(words)
            .current_dir(dir)
            .env("AWS_ACCESS_KEY_ID", ID)
            .env("AWS_SECRET_ACCESS_KEY", SECRET)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts")
    }

    /// Runs `words` with `--output out` in `dir` and kills it (SIGKILL) once `there` says so.
    pub fn killed(&self, dir: &Path, words: &[&str], there: impl Fn() -> bool) -> Setup<()> {
        let mut child = self.start(dir, words);
        let patience = Instant::now() + Duration::from_secs(60);
        while !there() {
            let ended = child.try_wait().map_err(|e| e.to_string())?;
            if ended.is_some() || Instant::now() > patience {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("{words:?} ended before it could be killed: {ended:?}"));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        child.kill().and_then(|()| child.wait()).map(drop).map_err(|e| e.to_string())?;
        remove_capture(&dir.join("out"));
        Ok(())
    }

    /// The words before the binary that run it as nobody.
    pub fn nobody(&self) -> Vec<&'static str> {
        [&["setpriv"], &NOBODY[..]].concat()
    }
}

/// Whether a run has begun to measure: its manifest is there, and so is its capture.
pub fn measures(out: &Path) -> bool {
    capture(out).is_some_and(|dir| dir.is_dir())
}

fn capture(out: &Path) -> Option<PathBuf> {
    let text = std::fs::read_to_string(out.join("manifest.json")).ok()?;
    let manifest: serde_json::Value = serde_json::from_str(&text).ok()?;
    Some(format!("/dev/shm/taillight-{}", manifest["run_id"].as_str()?).into())
}

/// What a killed run leaves in memory, of a run directory or of the runs of a series.
fn remove_capture(out: &Path) {
    let below = std::fs::read_dir(out).into_iter().flatten().flatten().map(|e| e.path());
    for dir in below.chain([out.to_owned()]) {
        if let Some(capture) = capture(&dir) {
            let _ = std::fs::remove_dir_all(capture);
        }
    }
}

/// Somebody's data: not all alike, and the same each time.
pub fn write_data(path: &Path, bytes: usize) {
    let data: Vec<u8> = (0..bytes).map(|i| (i % 251) as u8 ^ (i / 4096) as u8).collect();
    std::fs::write(path, data).expect("written");
}

pub fn path_text(path: &Path) -> String {
    path.to_str().expect("a plain path").to_owned()
}

/// Bytes of a file or device.
pub fn size_of(path: &Path) -> Setup<u64> {
    let end = std::fs::File::open(path).and_then(|mut f| f.seek(SeekFrom::End(0)));
    end.map_err(|e| format!("{}: {e}", path.display()))
}

/// The SHA-256 of a file; of a directory, those of all files in it but our mark, with their names.
pub fn sum(path: &Path) -> String {
    let script = "if [ -d \"$0\" ]; then cd \"$0\" && find . -type f ! -name .taillight-owner.json -print0 | sort -z \
                  | xargs -0 -r sha256sum; else sha256sum < \"$0\"; fi";
    tool(&["sh", "-c", script, &path_text(path)]).unwrap_or_else(|e| format!("gone: {e}"))
}

/// A command of cleaning up, which may have to wait for whoever is about to let go.
fn again(words: &[&str]) {
    for _ in 0..100 {
        match tool(words) {
            Ok(_) => return,
            Err(_) => std::thread::sleep(Duration::from_millis(30)),
        }
    }
    eprintln!("could not be taken back: {}", words.join(" "));
}
