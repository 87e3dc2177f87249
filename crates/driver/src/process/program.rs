//! The program: started once, spoken with by lines of JSON over its standard input, which is a Unix socket, and
//! ended when it is lost.
//!
//! Every answer has a time limit. What a program has done when it is lost is found once and told to all that ask. What it
//! started itself and left in its group of processes ends with it.

use std::io::{self, IoSlice, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process_group, pidfd_open, waitid,
};
use serde_json::{Value, json};
use taillight_core::{Error, Result};
use taillight_machine::Sys;
use taillight_machine::process::ProcessStat;

use super::ring::{RingParts, RingQueue};
use crate::plugin::sys::{ABI, PluginShape};

/// Bytes of the longest answer.
const ANSWER_MAX: usize = 1 << 20;
/// How long a program that closed its socket, or was killed, may take to end.
const END: Duration = Duration::from_secs(1);
/// How long a program may take for its own end, as this one ends: it may write what it keeps.
const OWN_END: Duration = Duration::from_secs(10);
/// How long operations that the run gave up on may take to end before the target is closed.
const GIVEN_UP: Duration = Duration::from_secs(5);

/// A started program.
pub struct DriverProgram {
    command: String,
    socket: UnixStream,
    /// What was read behind the last answer.
    rest: Mutex<Vec<u8>>,
    child: Mutex<Child>,
    /// Readable once the program has ended.
    pidfd: OwnedFd,
    /// ns.
    patience: AtomicU64,
    is_lost: AtomicBool,
    why: OnceLock<String>,
    /// The program has statistics.
    samples: AtomicBool,
    /// The last number of a target or session.
    numbers: AtomicU32,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl DriverProgram {
    /// Starts it and asks what it is: the program and its words. Errors: `Usage` when there is no such program, or it
    /// is none that serves operations.
    pub fn start(command: &str, patience: Duration) -> Result<(Arc<DriverProgram>, String)> {
        let bad = |what: &str| Error::usage(what).with("command", command).of_field("command");
        let mut words = command.split_whitespace();
        let Some(name) = words.next() else {
            return Err(Error::usage("the driver `process` needs a command")
                .of_field("command")
                .hint("name it: --set target.options.command=\"python3 store.py\"; docs/stores.md shows how one is made"));
        };
        let failed = |e: io::Error| {
            bad("the program of the driver `process` cannot be started").source(e).hint(
                "install it, or name it with its directory; what a shell would read in a command stands in a script",
            )
        };
        let (socket, theirs) = UnixStream::pair().map_err(failed)?;
        // Its standard output goes to our standard error: programs read our standard output.
        let output = io::stderr().as_fd().try_clone_to_owned().map_err(failed)?;
        let child = Command::new(name)
            .args(words)
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::from(output))
            // Ctrl-C is for the run, which ends the program in order.
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| Error::internal("a process without a number"))?;
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).map_err(|e| failed(e.into()))?;
        let program = DriverProgram {
            command: command.to_owned(),
            socket,
            rest: Mutex::default(),
            child: Mutex::new(child),
            pidfd,
            patience: AtomicU64::new(patience.as_nanos() as u64),
            is_lost: AtomicBool::new(false),
            why: OnceLock::new(),
            samples: AtomicBool::new(false),
            numbers: AtomicU32::new(0),
        };
        let answer = program.ask("say what it is", json!({"do": "describe", "abi": ABI}), None);
        let answer = answer.map_err(|e| {
            bad("the program is no driver: it does not say what it is")
                .with("it did", program.why.get().cloned().unwrap_or_else(|| e.to_string()))
                .hint("a driver answers on its standard input, which is a socket: sdk/taillight.py and sdk/taillight_process.h do; its own words stand above")
        })?;
        if answer["abi"] != ABI {
            program.lose("it speaks another ABI".to_owned());
            return Err(bad("the program speaks another ABI than this host")
                .with("its ABI", &answer["abi"])
                .with("host ABI", ABI)
                .hint("use the sdk/ of this version of Taillight"));
        }
        program.samples.store(answer["samples"] == true, Ordering::Relaxed);
        Ok((Arc::new(program), answer["describe"].to_string()))
    }

    pub fn command(&self) -> &str {
        &self.command
    }

    pub fn set_patience(&self, patience: Duration) {
        self.patience.store(patience.as_nanos() as u64, Ordering::Relaxed);
    }

    fn patience(&self) -> Duration {
        Duration::from_nanos(self.patience.load(Ordering::Relaxed))
    }

    pub fn is_alive(&self) -> bool {
        self.check_alive(0);
        !self.is_lost.load(Ordering::Relaxed)
    }

    /// Gives the program up where it has ended, or where `quiet`, the ns for which nothing came while something was
    /// due, reaches its patience; `is_lost` says so afterwards.
    fn check_alive(&self, quiet: u64) {
        if self.is_lost.load(Ordering::Relaxed) {
            return;
        }
        if self.ended_within(Duration::ZERO) {
            self.lose(String::new());
        } else if quiet >= self.patience.load(Ordering::Relaxed) {
            self.lose(format!("it hung: no operation ended for {:?}", self.patience()));
        }
    }

    fn ended_within(&self, most: Duration) -> bool {
        let ended = &mut [PollFd::new(&self.pidfd, PollFlags::IN)];
        poll(ended, Some(&timespec(most))).is_ok_and(|n| n > 0)
    }

    /// Closes the connection, at which a program ends. One that does not is killed after a while.
    pub fn end(&self) {
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
        self.ended_within(OWN_END);
        self.lose("it did not end when its connection was closed".to_owned());
    }

    /// Gives it up and ends it: `how` says what it did, where it did not end by itself.
    fn lose(&self, how: String) {
        let mut child = locked(&self.child);
        if self.why.get().is_some() {
            return;
        }
        let ended = self.ended_within(Duration::ZERO);
        // Also ends what a program that has ended left behind: nobody else has its number before it is waited for.
        // Where SIGCHLD is ignored, the system has waited for it.
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let waits = |pid| matches!(waitid(WaitId::Pid(pid), look), Ok(Some(_)));
        let own = pid.filter(|pid| !ended || waits(*pid));
        let _ = own.map(|pid| kill_process_group(pid, Signal::KILL));
        if !ended {
            let _ = child.kill();
            self.ended_within(END);
        }
        let status = child.try_wait().ok().flatten();
        let _ = self.why.set(match status {
            Some(status) if ended => words_of(status),
            _ if how.is_empty() => "it ended".to_owned(),
            _ => how,
        });
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
        self.is_lost.store(true, Ordering::Relaxed);
    }

    /// Why it is lost.
    fn lost(&self) -> Error {
        let why = self.why.get().map_or("it does not answer", String::as_str);
        Error::target(format!("the plug-in's process is lost: {why}"))
            .with("command", &self.command)
            .hint("taillight drivers --check PLUGIN says what else is wrong with it")
    }

    /// Asks, with a descriptor where there is one: its answer. Errors: `Unavailable` with its words when it refuses
    /// to do `what`, `Target` when it is lost.
    fn ask(&self, what: &str, question: Value, with: Option<BorrowedFd<'_>>) -> Result<Value> {
        self.ask_within(self.patience(), what, question, with)
    }

    fn ask_within(
        &self,
        most: Duration,
        what: &str,
        question: Value,
        with: Option<BorrowedFd<'_>>,
    ) -> Result<Value> {
        let mut rest = locked(&self.rest);
        if self.is_lost.load(Ordering::Relaxed) {
            return Err(self.lost());
        }
        let end = Instant::now() + most;
        let said = self.send(&format!("{question}\n"), with);
        let line = said.and_then(|()| self.line(&mut rest, end));
        let line = line.map_err(|e| {
            let timed_out = [io::ErrorKind::TimedOut, io::ErrorKind::WouldBlock];
            if timed_out.contains(&e.kind()) {
                self.lose(format!("it hung: asked to {what}, it did not answer in {most:?}"));
            } else {
                // A program that ends closes its socket a moment before.
                self.ended_within(END);
                self.lose(format!("it closed the connection when asked to {what} ({e})"));
            }
            self.lost()
        })?;
        let answer: Value = serde_json::from_slice(&line).map_err(|e| {
            self.lose(format!("asked to {what}, it answered what is no JSON ({e})"));
            self.lost()
        })?;
        match answer["error"].as_str() {
            None => Ok(answer),
            Some(words) => Err(Error::unavailable(format!("the plug-in failed to {what}"))
                .with_some("it says", (!words.is_empty()).then_some(words))),
        }
    }

    fn send(&self, line: &str, with: Option<BorrowedFd<'_>>) -> io::Result<()> {
        self.socket.set_write_timeout(Some(self.patience()))?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut left = line.as_bytes();
        let fds = with.map(|fd| [fd]);
        let mut fds = fds.as_ref();
        while !left.is_empty() {
            let mut control = SendAncillaryBuffer::new(&mut space);
            if let Some(fds) = fds.take() {
                control.push(SendAncillaryMessage::ScmRights(fds));
            }
            let sent =
                sendmsg(&self.socket, &[IoSlice::new(left)], &mut control, SendFlags::NOSIGNAL)?;
            left = &left[sent..];
        }
        Ok(())
    }

    /// The next line that it writes, before `end`.
    fn line(&self, rest: &mut Vec<u8>, end: Instant) -> io::Result<Vec<u8>> {
        let mut part = [0; 4096];
        loop {
            if let Some(at) = rest.iter().position(|byte| *byte == b'\n') {
                let behind = rest.split_off(at + 1);
                return Ok(std::mem::replace(rest, behind));
            }
            if rest.len() > ANSWER_MAX {
                return Err(io::Error::other("an answer of more than 1 MiB"));
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            if !self.answers_within(left)? {
                continue;
            }
            match (&self.socket).read(&mut part) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(n) => rest.extend_from_slice(&part[..n]),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// Whether something can be read. Errors: the program has ended without a further word, also where something that it
    /// started keeps the connection open; the system's.
    fn answers_within(&self, most: Duration) -> io::Result<bool> {
        let (socket, pidfd) = (&self.socket, &self.pidfd);
        let mut both = [PollFd::new(socket, PollFlags::IN), PollFd::new(pidfd, PollFlags::IN)];
        match poll(&mut both, Some(&timespec(most))) {
            Err(rustix::io::Errno::INTR) | Ok(0) => Ok(false),
            Err(e) => Err(e.into()),
            Ok(_) if !both[0].revents().is_empty() => Ok(true),
            // The last word may have come behind the look at the socket.
            Ok(_) => {
                let last = &mut [PollFd::new(socket, PollFlags::IN)];
                match poll(last, Some(&timespec(Duration::ZERO)))? {
                    0 => Err(io::ErrorKind::UnexpectedEof.into()),
                    _ => Ok(true),
                }
            }
        }
    }

    fn cpu_ns(&self) -> Option<u64> {
        // The number of one that was waited for may be another's.
        if self.is_lost.load(Ordering::Relaxed) {
            return None;
        }
        let pid = locked(&self.child).id();
        let stat = ProcessStat::of(&Sys::default(), &pid.to_string())?;
        // User and system time of all threads (proc(5)).
        let ticks = stat.number(14)?.saturating_add(stat.number(15)?);
        Some(ticks.saturating_mul(1_000_000_000 / rustix::param::clock_ticks_per_second().max(1)))
    }

    fn number(&self) -> u32 {
        self.numbers.fetch_add(1, Ordering::Relaxed) + 1
    }
}

fn timespec(time: Duration) -> Timespec {
    Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() }
}

fn words_of(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("it ended with exit code {code}"),
        (None, Some(signal)) => format!("it ended by signal {signal}"),
        _ => "it ended".to_owned(),
    }
}

/// A target that the program opened.
pub struct ProgramTarget {
    program: Arc<DriverProgram>,
    number: u32,
    closed: AtomicBool,
    /// A session was given up with operations in flight.
    given_up: AtomicBool,
}

impl ProgramTarget {
    /// Opens by a plan in JSON. Errors: `Unavailable` with the program's words, `Target` when it is lost.
    pub fn open(
        program: &Arc<DriverProgram>,
        plan: &str,
        file_size: u64,
    ) -> Result<(ProgramTarget, PluginShape)> {
        let plan: Value = serde_json::from_str(plan)
            .map_err(|e| Error::internal("the plan is not JSON").source(e))?;
        let number = program.number();
        let question =
            json!({"do": "open", "target": number, "file_size": file_size, "plan": plan});
        let answer = program.ask("open the target", question, None)?;
        let align = answer["align"].as_u64().and_then(|n| u32::try_from(n).ok());
        let file_size = answer["file_size"].as_u64().unwrap_or(file_size);
        let target = ProgramTarget {
            program: Arc::clone(program),
            number,
            closed: AtomicBool::new(false),
            given_up: AtomicBool::new(false),
        };
        Ok((target, PluginShape::new(align.unwrap_or(1), file_size)))
    }

    /// Performs an action; its answer. Errors: `Unavailable` with the program's words, `Target` when it is lost.
    pub fn admin(&self, action: u32) -> Result<i32> {
        let question = json!({"do": "admin", "target": self.number, "action": action});
        let answer = self.program.ask("do what was asked", question, None)?;
        Ok(answer["answer"].as_i64().map_or(0, |n| i32::from(n == 1)))
    }

    /// Its statistics now.
    pub fn sample(&self, out: &mut dyn FnMut(&str, f64)) {
        if !self.program.samples.load(Ordering::Relaxed) {
            return;
        }
        let question = json!({"do": "sample", "target": self.number});
        let Ok(answer) = self.program.ask("say its statistics", question, None) else { return };
        for (name, value) in answer["values"].as_object().into_iter().flatten() {
            if let Some(value) = value.as_f64() {
                out(name, value);
            }
        }
    }

    /// A session over memory that both have. Errors: as [`ProgramTarget::admin`].
    pub fn session(
        self: &Arc<Self>,
        worker: u32,
        depth: u32,
        parts: RingParts,
        slot_size: u64,
    ) -> Result<RingQueue> {
        let number = self.program.number();
        let question = json!({
            "do": "session", "target": self.number, "session": number, "worker": worker, "depth": depth,
            "entries": parts.entries, "slots_at": parts.slots_at, "slot_size": slot_size, "len": parts.len,
        });
        self.program.ask("make a session", question, Some(parts.fd.as_fd()))?;
        Ok(RingQueue::new(Arc::clone(self), number, parts))
    }

    /// Tells it that nothing more comes; the program ends the session when all its operations have ended.
    pub fn close_session(&self, number: u32) {
        let question = json!({"do": "close_session", "session": number});
        let _ = self.program.ask("close a session", question, None);
    }

    /// Nobody waits any longer for what is in flight.
    pub fn give_up(&self) {
        self.given_up.store(true, Ordering::Relaxed);
    }

    /// Closes once. Errors: `Unavailable` with the words of the program, `Target` when it is lost.
    pub fn close(&self) -> Result<()> {
        if self.closed.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        let question = json!({"do": "close", "target": self.number});
        let most = self.program.patience();
        let most = if self.given_up.load(Ordering::Relaxed) { most.min(GIVEN_UP) } else { most };
        self.program.ask_within(most, "close the target", question, None).map(drop)
    }

    pub fn process(&self) -> u32 {
        locked(&self.program.child).id()
    }

    /// CPU time of the program so far, ns; none once it is gone.
    pub fn cpu_ns(&self) -> Option<u64> {
        self.program.cpu_ns()
    }

    /// Looks whether the program still runs, where nothing came from it for `quiet` ns while something was due.
    pub fn check_alive(&self, quiet: u64) {
        self.program.check_alive(quiet);
    }

    #[inline]
    pub fn is_lost(&self) -> bool {
        self.program.is_lost.load(Ordering::Relaxed)
    }

    /// Why it is lost.
    pub fn lost(&self) -> Error {
        self.program.lost()
    }
}

impl Drop for ProgramTarget {
    fn drop(&mut self) {
        let _ = self.close();
    }
}
