//! fio's iolog. Version 3: `usec filename action [offset length]`. Version 2 has no times but lines
//! `filename wait N`: fio waits until N **milliseconds** since its start, whatever its
//! documentation says of microseconds (`iolog.c`, fio issue 247), and so what follows is due then. It does
//! not wait for a moment that has passed, and keeps the order. A log without waits has no times.

use taillight_core::OpKind;
use taillight_core::plan::TraceOp;

use super::{NO_TIME, NOT_BEGUN, SECOND, TraceFormat, TraceRow, TraceSource, number};

pub(super) const VERSION_2: TraceFormat = TraceFormat {
    word: "iolog2",
    name: "fio iolog version 2",
    tick_ns: 1_000_000,
    ordered: true,
    pair: None,
    source: TraceSource::Lines(row_2),
};
pub(super) const VERSION_3: TraceFormat = TraceFormat {
    word: "iolog3",
    name: "fio iolog version 3",
    tick_ns: 1000,
    ordered: true,
    pair: None,
    source: TraceSource::Lines(row_3),
};

fn row_2<'a>(line: &'a str, now: &mut i64) -> Result<Option<TraceRow<'a>>, String> {
    if heading(line, "fio version 2 iolog", NO_TIME, now)? {
        return Ok(None);
    }
    let mut words = line.split_whitespace();
    let what = "a row is `filename action`, with offset and length";
    let (file, action) = words.next().zip(words.next()).ok_or(what)?;
    if action == "wait" {
        let until: u64 = number(words.next(), "time to wait for")?;
        *now = (*now).max(i64::try_from(until).unwrap_or(i64::MAX));
        return Ok(None);
    }
    operation(file, action, words, (*now).max(0))
}

fn row_3<'a>(line: &'a str, now: &mut i64) -> Result<Option<TraceRow<'a>>, String> {
    if heading(line, "fio version 3 iolog", 0, now)? {
        return Ok(None);
    }
    let mut words = line.split_whitespace();
    let stamp = super::stamp(words.next())?;
    let what = "a row is `usec filename action`, with offset and length";
    let (file, action) = words.next().zip(words.next()).ok_or(what)?;
    operation(file, action, words, stamp)
}

/// Whether the line is the heading, which comes first: at `begin`. Errors: it does not, or another log begins.
fn heading(line: &str, heading: &str, begin: i64, now: &mut i64) -> Result<bool, String> {
    if *now == NOT_BEGUN && line != heading {
        return Err(format!("it does not begin with `{heading}`"));
    }
    if *now != NOT_BEGUN && line == heading {
        return Err(SECOND.to_owned());
    }
    *now = (*now).max(begin);
    Ok(line == heading)
}

fn operation<'a>(
    stream: &'a str,
    action: &str,
    mut words: impl Iterator<Item = &'a str>,
    stamp: i64,
) -> Result<Option<TraceRow<'a>>, String> {
    let kind = match action {
        "add" | "open" | "close" => return Ok(None),
        "read" => OpKind::Read,
        "write" => OpKind::Write,
        "trim" => OpKind::Trim,
        "sync" | "datasync" => {
            let op = TraceOp::new(OpKind::Fsync, 0, 0);
            return Ok(Some(TraceRow::plain(stamp, stream, op)));
        }
        other => return Err(format!("`{other}` is no action of an iolog")),
    };
    let offset = number(words.next(), "offset")?;
    let size = number(words.next(), "length")?;
    Ok(Some(TraceRow::plain(stamp, stream, TraceOp::new(kind, offset, size))))
}
