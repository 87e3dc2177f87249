//! Lines that a bpftrace script prints: `key=value` pairs, one completed I/O a line.
//!
//! Keys: `dev` (as the kernel's number or `major:minor`), `sector`, `bytes`, `op` (letters like R,
//! W, FF), `issue` and `done` (bpftrace's `nsecs`: CLOCK_MONOTONIC), and if wanted `queue`, `pid`,
//! `comm` (last, may hold spaces). docs/explain.md has such a script.

use std::collections::BTreeMap;

use taillight_core::{Error, Result};

use super::{BlockIo, Trace, TraceClock, letters};

/// Whether a text has such lines.
pub fn looks_like(text: &str) -> bool {
    text.lines().take(50).any(|l| row(l).is_some())
}

/// Parses the text. Lines without `=` (bpftrace's own) are passed over.
///
/// # Errors
/// `Corrupt` when no line is an I/O.
pub fn parse(text: &str) -> Result<Trace> {
    let (mut ios, mut bad, mut lost) = (Vec::new(), 0, Vec::new());
    for line in text.lines() {
        match row(line).filter(BlockIo::possible) {
            Some(io) => ios.push(io),
            None if line.starts_with("Lost ") => lost.push(format!("bpftrace says: {line}")),
            None => bad += usize::from(line.contains("sector=")),
        }
    }
    if ios.is_empty() {
        return Err(Error::corrupt("no line of the trace is an I/O").hint(
            "lines look like `dev=8:0 sector=2048 bytes=4096 op=R issue=1 done=2 pid=7 comm=x`",
        ));
    }
    if bad > 0 {
        lost.push(format!("{bad} lines could not be read and are left out"));
    }
    Ok(Trace {
        tool: "bpftrace",
        ios,
        clock: TraceClock::Monotonic(None),
        notes: lost,
    })
}

fn row(line: &str) -> Option<BlockIo> {
    let (pairs, comm) = match line.split_once("comm=") {
        Some((pairs, comm)) => (pairs, comm.trim()),
        None => (line, ""),
    };
    let words = pairs.split_whitespace().filter_map(|w| w.split_once('='));
    let map: BTreeMap<&str, &str> = words.collect();
    let stamp = |key: &str| map.get(key)?.parse::<i64>().ok().filter(|v| *v > 0);
    let number = |key: &str| map.get(key)?.parse::<u64>().ok();
    let dev = match map.get("dev")?.parse::<u32>() {
        Ok(n) => format!("{}:{}", n >> 20, n & 0xf_ffff),
        Err(_) => (*map.get("dev")?).to_owned(),
    };
    Some(BlockIo {
        dev: dev.into(),
        sector: number("sector")?,
        bytes: number("bytes")?,
        op: letters(map.get("op")?)?,
        queued: stamp("queue"),
        alloc: None,
        insert: None,
        issued: stamp("issue"),
        done: stamp("done")?,
        pid: number("pid").unwrap_or(0),
        comm: comm.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use taillight_core::OpKind;

    #[test]
    fn lines_of_the_script() {
        let text = "Attaching 2 probes...\n\
            dev=266338304 sector=2048 bytes=4096 op=RA issue=100 done=900 pid=7 comm=tail light\n\
            dev=8:0 sector=1 bytes=0 op=FF issue=0 done=5\n\
            dev=8:0 sector=1 bytes=x op=R done=5\nLost 3 events\n";
        let trace = parse(text).unwrap();
        assert_eq!(trace.ios.len(), 2);
        let one = &trace.ios[0];
        assert_eq!(
            (&*one.dev, one.op, &*one.comm),
            ("254:0", OpKind::Read, "tail light")
        );
        assert_eq!((one.issued, one.done), (Some(100), 900));
        assert_eq!(
            (trace.ios[1].op, trace.ios[1].issued),
            (OpKind::Fsync, None)
        );
        assert_eq!(trace.notes.len(), 2);
        assert!(looks_like(text) && !looks_like("x=1\n"));
        assert!(parse("Attaching\n").unwrap_err().hint_text().is_some());
    }

    #[test]
    fn lines_that_cannot_be_are_counted() {
        let line = |sector: u64, done: i64| {
            format!("dev=8:0 sector={sector} bytes=512 op=R issue=1 done={done}\n")
        };
        let text = line(8, 9) + &line(u64::MAX, 9) + &line(8, i64::MAX);
        let trace = parse(&text).unwrap();
        assert_eq!(trace.ios.len(), 1);
        assert!(trace.notes[0].starts_with("2 lines"), "{:?}", trace.notes);
    }
}
