//! The clock of another process in a time namespace of its own, whose offset is known to the nanosecond: the estimate lies
//! within its bound of that truth, seed by seed.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use taillight_core::{Clock as _, Error, MonoClock, Result};
use taillight_scale::{Group, Patience, answer_pings, ping};

/// Names the socket to the process that answers.
const SOCKET: &str = "TAILLIGHT_TEST_CLOCK_SOCKET";
const SEEDS: u64 = 100;
/// Offsets are drawn over so many seconds, some below zero: by half of the time since the boot at most, as no clock
/// may be negative.
const FURTHEST: u64 = 100_000;

/// Two ranks over a socket.
struct SocketGroup {
    rank: u32,
    stream: UnixStream,
}

fn failed(e: std::io::Error) -> Error {
    Error::unavailable("the socket of a test").source(e)
}

impl Group for SocketGroup {
    fn rank(&self) -> u32 {
        self.rank
    }
    fn size(&self) -> u32 {
        2
    }
    fn host(&self) -> &str {
        "here"
    }
    fn send(&mut self, _: u32, bytes: &[u8], _: Patience) -> Result<bool> {
        self.stream.write_all(bytes).map_err(failed)?;
        Ok(true)
    }
    fn receive(&mut self, _: u32, _: Patience) -> Result<Option<Vec<u8>>> {
        // Every message about clocks has eight bytes.
        let mut bytes = vec![0; 8];
        Ok(self.stream.read_exact(&mut bytes).ok().map(|()| bytes))
    }
}

#[test]
#[ignore = "the other side of the test below, in a namespace"]
fn answers() {
    let path = std::env::var(SOCKET).expect("the socket");
    let stream = UnixStream::connect(path).expect("connected");
    let mut group = SocketGroup { rank: 1, stream };
    let patience = Patience::of(Duration::from_secs(10));
    assert!(answer_pings(&mut group, &MonoClock, patience).expect("answered"));
}

fn beside(socket: &Path, seconds: i64) -> std::io::Result<Child> {
    let mut unshare = Command::new("unshare");
    unshare.args(["--time", "--fork", "--monotonic", &seconds.to_string()]);
    unshare.arg(std::env::current_exe()?).args(["--ignored", "--exact", "clocks::answers"]);
    unshare.env(SOCKET, socket).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
}

/// The offset that a namespace was given, and what is estimated.
fn estimated(
    dir: &Path,
    seed: u64,
) -> std::io::Result<(i64, taillight_rundir::scale::ClockSample)> {
    let drawn = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20;
    let back = (MonoClock.now().0 / 1_000_000_000 / 2).clamp(0, 1_000);
    let seconds = (drawn % FURTHEST) as i64 - back;
    let path = dir.join(seed.to_string());
    let listener = UnixListener::bind(&path)?;
    let mut child = beside(&path, seconds)?;
    listener.set_nonblocking(true)?;
    let stream = loop {
        match listener.accept() {
            Ok((stream, _)) => break stream,
            // A process that ended without a word never comes.
            Err(e) if e.kind() != ErrorKind::WouldBlock || child.try_wait()?.is_some() => {
                return Err(e);
            }
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    };
    stream.set_nonblocking(false)?;
    let sample = ping(&mut SocketGroup { rank: 0, stream }, 1, &MonoClock);
    let ended = child.wait()?;
    let sample = sample.map_err(|e| std::io::Error::other(e.to_string()))?;
    match sample.filter(|_| ended.success()) {
        Some(sample) => Ok((seconds * 1_000_000_000, sample)),
        None => Err(std::io::Error::other("nobody answers")),
    }
}

#[test]
fn the_estimate_lies_within_its_bound_of_what_a_time_namespace_says() {
    let try_one = ["--time", "--fork", "--monotonic", "1", "true"];
    if !Command::new("unshare").args(try_one).status().is_ok_and(|status| status.success()) {
        eprintln!("skipped: the_estimate_lies_within_its_bound: no time namespaces (needs root)");
        return;
    }
    let tmp = tempfile::tempdir().expect("a directory");
    let mut worst = 0;
    for seed in 0..SEEDS {
        let (truth, sample) = estimated(tmp.path(), seed).expect("a measurement");
        let off = sample.offset_ns.abs_diff(truth);
        assert!(off <= sample.bound_ns, "seed {seed}: {off} ns off {truth}: {sample:?}");
        worst = worst.max(sample.bound_ns);
    }
    assert!(worst > 0);
}
