//! biosnoop's table, of bcc and of its relatives: columns are taken by the heading.
//!
//! `TIME(s) COMM PID DISK T SECTOR BYTES [QUE(ms)] LAT(ms)`: TIME is the completion, counted from
//! the first event; LAT is from issue to completion; QUE is before the issue. Names may hold spaces.

use taillight_core::{Error, Result};

use super::{BlockIo, Trace, TraceClock, letters};

/// Whether a text has its heading.
pub fn looks_like(text: &str) -> bool {
    heading(text).is_some()
}

fn heading(text: &str) -> Option<(usize, Vec<&str>)> {
    let lines = text.lines().enumerate().take(50);
    let mut headings = lines.map(|(n, l)| (n, l.split_whitespace().collect::<Vec<_>>()));
    headings.find(|(_, words)| {
        words.first().is_some_and(|w| w.starts_with("TIME(")) && words.contains(&"COMM")
    })
}

/// Parses the text.
///
/// # Errors
/// `Usage` when columns are missing without which no I/O can be matched; `Corrupt` when no line
/// can be read.
pub fn parse(text: &str) -> Result<Trace> {
    let (at, columns) = heading(text).ok_or_else(|| {
        Error::usage("this is no output of biosnoop: its heading is missing")
            .hint("keep the line that begins with TIME(s)")
    })?;
    let place = |name: &str| {
        // T is a whole heading; others carry their unit.
        let is = |c: &&str| **c == *name || (name.len() > 1 && c.starts_with(name));
        columns.iter().position(is)
    };
    let need = |name: &'static str| {
        place(name).ok_or_else(|| {
            Error::usage("the table lacks a column without which I/Os cannot be matched")
                .with("column", name)
                .hint(
                    "use bcc's biosnoop, or the bpftrace script of docs/explain.md, which prints \
                     sectors",
                )
        })
    };
    let spots = Spots {
        columns: columns.len(),
        time: (need("TIME(")?, scale(columns[need("TIME(")?])),
        comm: need("COMM")?,
        pid: need("PID")?,
        disk: need("DISK")?,
        kind: need("T")?,
        sector: need("SECTOR")?,
        bytes: need("BYTES")?,
        queue: place("QUE").or_else(|| place("QLAT")),
        latency: need("LAT(")?,
    };
    let mut bad = 0;
    let mut ios = Vec::new();
    for line in text.lines().skip(at + 1).filter(|l| !l.trim().is_empty()) {
        match row(line, &spots).filter(BlockIo::possible) {
            Some(io) => ios.push(io),
            None => bad += 1,
        }
    }
    if ios.is_empty() {
        return Err(Error::corrupt("no line of the trace can be read").with("lines", bad));
    }
    let text = format!("{bad} lines could not be read and are left out");
    Ok(Trace {
        tool: "biosnoop",
        ios,
        clock: TraceClock::Unknown,
        notes: (bad > 0).then_some(text).into_iter().collect(),
    })
}

/// Nanoseconds of the unit in a heading.
fn scale(heading: &str) -> f64 {
    match heading {
        h if h.contains("(ms)") => 1e6,
        h if h.contains("(us)") => 1e3,
        _ => 1e9,
    }
}

struct Spots {
    columns: usize,
    time: (usize, f64),
    comm: usize,
    pid: usize,
    disk: usize,
    kind: usize,
    sector: usize,
    bytes: usize,
    queue: Option<usize>,
    latency: usize,
}

fn row(line: &str, spots: &Spots) -> Option<BlockIo> {
    let words: Vec<&str> = line.split_whitespace().collect();
    // A name with spaces makes the line longer; what follows the name counts from the end.
    let extra = words.len().checked_sub(spots.columns)?;
    let at = |i: usize| {
        words
            .get(if i > spots.comm { i + extra } else { i })
            .copied()
    };
    let float = |i: usize| at(i)?.parse::<f64>().ok().filter(|v| v.is_finite());
    let done = (float(spots.time.0)? * spots.time.1).round() as i64;
    let ns = |i: usize| Some((float(i)? * 1e6).round() as i64);
    let issued = done.checked_sub(ns(spots.latency)?)?;
    Some(BlockIo {
        dev: at(spots.disk)?.into(),
        sector: at(spots.sector)?.parse().ok()?,
        bytes: at(spots.bytes)?.parse().ok()?,
        op: letters(at(spots.kind)?)?,
        queued: spots.queue.and_then(ns).map(|q| issued.saturating_sub(q)),
        alloc: None,
        insert: None,
        issued: Some(issued),
        done,
        pid: at(spots.pid)?.parse().ok()?,
        comm: words[spots.comm..=spots.comm + extra].join(" ").into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use taillight_core::OpKind;

    const TEXT: &str = "\
TIME(s)     COMM           PID     DISK      T SECTOR     BYTES   QUE(ms) LAT(ms)
0.000000    taillight      1234    vda       R 2048       4096       0.02    0.31
0.113200    kworker/u4:1 x 77      vda       W 4096       8192       1.00  113.00
lost 12 events
";

    #[test]
    fn columns_by_heading_and_names_with_spaces() {
        let trace = parse(TEXT).unwrap();
        assert_eq!(trace.ios.len(), 2);
        let slow = &trace.ios[1];
        assert_eq!(
            (&*slow.comm, slow.pid, &*slow.dev),
            ("kworker/u4:1 x", 77, "vda")
        );
        assert_eq!(
            (slow.op, slow.sector, slow.bytes),
            (OpKind::Write, 4096, 8192)
        );
        assert_eq!((slow.done, slow.issued), (113_200_000, Some(200_000)));
        assert_eq!(slow.queued, Some(-800_000));
        assert_eq!(trace.clock, TraceClock::Unknown);
        assert!(trace.notes[0].contains("1 lines"));
    }

    #[test]
    fn the_older_order_of_columns_and_flags() {
        let text = "TIME(s) COMM PID DISK T SECTOR BYTES LAT(ms) QLAT(ms)\n\
                    1.5 dd 9 sda WS 8 512 2.000 0.500\n";
        let io = &parse(text).unwrap().ios[0];
        assert_eq!(
            (io.op, io.issued, io.queued),
            (OpKind::Write, Some(1_498_000_000), Some(1_497_500_000))
        );
    }

    #[test]
    fn what_cannot_be_matched_is_refused() {
        let text =
            "TIME(ms)     DISK    COMM             PID    LAT(ms)\n611 nvme0n1 bash 4179 10\n";
        let e = parse(text).unwrap_err();
        assert!(e.to_string().contains("column") && e.hint_text().unwrap().contains("bpftrace"));
        assert!(parse("hello\n").is_err());
        let e = parse(TEXT.lines().next().unwrap()).unwrap_err();
        assert!(e.to_string().contains("no line"));
    }
}
