//! The kernel's own log of a disk's I/Os, from a tracefs instance of the lab's: independent evidence of
//! which I/Os Taillight's trace programs should have matched.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::cleanup::{NAME, Undo, set, tool};

/// Where tracefs is, the newer place first.
const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// Room for events, KiB for each CPU.
const ROOM_KIB: u32 = 32 << 10;

/// What happened to a block I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BlockEventKind {
    /// Queued to the block layer (`block_bio_queue`).
    Queue,
    /// Given to the driver (`block_rq_issue`).
    Issue,
    /// The device was done (`block_rq_complete`).
    Complete,
}

/// One event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockEvent {
    pub what: BlockEventKind,
    /// When, CLOCK_MONOTONIC, rounded down to microseconds.
    pub at_ns: i64,
    /// Thread that was running: of a completion whichever was interrupted, 0 on an idle CPU.
    pub tid: u32,
    pub cpu: u32,
    /// First 512-byte sector.
    pub sector: u64,
    /// Length in such sectors.
    pub sectors: u64,
}

/// Where tracefs is. Machines that nobody has traced yet may not have mounted it: then it is mounted
/// at its usual place, and stays. Errors: it cannot be mounted.
pub fn root() -> Result<&'static Path> {
    let found = || {
        let mut places = PLACES.map(Path::new).into_iter();
        places.find(|p| p.join("instances").is_dir())
    };
    if found().is_none() {
        let words = ["-t", "tracefs", "tracefs", PLACES[0]].map(str::to_owned);
        tool("mount", &words).context("no tracefs here")?;
    }
    found().context("no tracefs here")
}

/// A log under way.
pub struct BlockLog {
    place: PathBuf,
}

impl BlockLog {
    /// Begins to log the I/Os of a device, in the lab's own instance, which `undo` removes. Errors: the instance cannot
    /// be made, or an event is not there.
    pub fn begin(undo: &mut Undo, device: &Path) -> Result<BlockLog> {
        let root = root()?;
        let place = root.join("instances").join(NAME);
        let _ = std::fs::remove_dir(&place);
        std::fs::create_dir(&place).context("no instance of tracefs")?;
        let gone = place.clone();
        undo.add(move || {
            let _ = set(&gone.join("events/block/enable"), 0);
            drop(std::fs::remove_dir(gone));
        });
        let number = rustix::fs::stat(device)?.st_rdev;
        let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
        let dev = u64::from(major) << 20 | u64::from(minor);
        set(&place.join("trace_clock"), "mono")?;
        set(&place.join("buffer_size_kb"), ROOM_KIB)?;
        for name in ["block_bio_queue", "block_rq_issue", "block_rq_complete"] {
            let event = place.join("events/block").join(name);
            set(&event.join("filter"), format!("dev == {dev}"))?;
            set(&event.join("enable"), 1)?;
        }
        Ok(BlockLog { place })
    }

    /// Ends the log and returns all events by time; other lines, and those that cannot be read, are left out. Errors:
    /// the kernel overwrote events, for want of room; the log cannot be read.
    pub fn end(self) -> Result<Vec<BlockEvent>> {
        set(&self.place.join("tracing_on"), 0)?;
        for cpu in std::fs::read_dir(self.place.join("per_cpu"))? {
            let stats = std::fs::read_to_string(cpu?.path().join("stats"))?;
            let lost = stats.lines().find_map(|l| l.strip_prefix("overrun:"));
            if lost.is_some_and(|n| n.trim() != "0") {
                bail!("the kernel's log was too small:\n{stats}");
            }
        }
        let text = std::fs::read_to_string(self.place.join("trace"))?;
        let mut events: Vec<BlockEvent> = text.lines().filter_map(parse).collect();
        events.sort_by_key(|e| e.at_ns);
        Ok(events)
    }
}

/// Reads a line of the log; none of a heading, another event, or what is no such line:
/// `worker-0-123 [001] d..1. 45.678901: block_rq_issue: 7,0 RM 4096 () 8 + 8 none,0,0 [worker-0]`
fn parse(line: &str) -> Option<BlockEvent> {
    let (head, rest) = line.split_once(" [")?;
    let tid = head.trim_end().rsplit_once('-')?.1.parse().ok()?;
    let (cpu, rest) = rest.split_once(']')?;
    let (time, rest) = rest.split_once(": ")?;
    let (seconds, micros) = time.rsplit_once(' ')?.1.split_once('.')?;
    let at_ns = seconds.parse::<i64>().ok()? * 1_000_000_000 + micros.parse::<i64>().ok()? * 1000;
    let (name, rest) = rest.split_once(": ")?;
    let what = match name {
        "block_bio_queue" => BlockEventKind::Queue,
        "block_rq_issue" => BlockEventKind::Issue,
        "block_rq_complete" => BlockEventKind::Complete,
        _ => return None,
    };
    let (before, after) = rest.split_once(" + ")?;
    Some(BlockEvent {
        what,
        at_ns,
        tid,
        cpu: cpu.parse().ok()?,
        sector: before.rsplit_once(' ')?.1.parse().ok()?,
        sectors: after.split_once(' ').map_or(after, |(n, _)| n).parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_kernel_are_read() {
        let event = |what, at_us: i64, tid, cpu, sector| BlockEvent {
            what,
            at_ns: at_us * 1000,
            tid,
            cpu,
            sector,
            sectors: 8,
        };
        let cases = [
            (
                "        worker-0-4711    [000] ..... 52.000017: block_bio_queue: 7,0 R 8192 + 8 [worker-0]",
                event(BlockEventKind::Queue, 52_000_017, 4711, 0, 8192),
            ),
            (
                "  kworker/u8:1-77      [001] ...1. 52.100000: block_rq_issue: 7,0 R 4096 () 16 + 8 none,0,0 [kworker/u8:1]",
                event(BlockEventKind::Issue, 52_100_000, 77, 1, 16),
            ),
            (
                "    <idle>-0       [001] d.h2. 52.100009: block_rq_complete: 7,0 R () 16 + 8 none,0,0 [0]",
                event(BlockEventKind::Complete, 52_100_009, 0, 1, 16),
            ),
        ];
        for (line, expected) in cases {
            assert_eq!(parse(line), Some(expected), "{line}");
        }
        assert_eq!(parse("# tracer: nop"), None);
        assert_eq!(parse("x-1 [000] ..... 1.000000: sched_switch: a"), None);
    }
}
