//! What verification found: a line among the facts, and a table of the places.

use taillight_rundir::names;
use taillight_rundir::summary::Summary;
use taillight_rundir::verify::{Finding, Wrong};

use crate::format;
use crate::table::{Cell, Table, Tone};
use crate::verdict::wrong_data::{address_text, kinds};

/// Places in the table.
const SHOWN: usize = 10;

/// Which table it is, for programs.
pub const WRONG_BLOCKS: &str = "verify";

/// The line among the facts.
pub fn fact(summary: &Summary) -> Option<(String, Tone)> {
    let report = summary.verify.as_ref()?;
    let mut text = format!("{} blocks checked: ", format::count(report.checked));
    text += &match (report.checked, report.wrong) {
        (0, 0) => "nothing was judged".to_owned(),
        (_, 0) => "all as written".to_owned(),
        (_, wrong) => format!("{} WRONG ({})", format::count(wrong), kinds(report)),
    };
    let u = &report.unchecked;
    for (count, why) in [
        (u.unreadable, "could not be read"),
        (u.unwritten, "not written by the run"),
        (u.overlapped, "with overlapping writes"),
        (u.uncertain, "after a failed write, a trim or a delete"),
        (u.cut, "longer than their reader's buffer"),
    ] {
        if count > 0 {
            text += &format!("; {} not judged, {why}", format::count(count));
        }
    }
    if report.pass.is_some_and(|p| !p.complete) {
        text += "; NOT COMPLETE: the pass after the run was ended early or left out";
    }
    let tone = match (report.failed(), report.checked) {
        (true, _) => Tone::Bad,
        (false, 0) => Tone::Warn,
        (false, _) => Tone::Good,
    };
    Some((text, tone))
}

/// Where the first wrong blocks are, what should be there and what is.
pub fn table(summary: &Summary) -> Option<Table> {
    let report = summary.verify.as_ref().filter(|r| r.wrong > 0)?;
    let keyed = report.block == 0;
    let places = places(&report.findings);
    let shown = places.iter().take(SHOWN);
    let more = places.len().saturating_sub(SHOWN);
    let all = report.wrong == report.findings.len() as u64;
    let note = match (more, all) {
        (0, true) => None,
        (0, false) => Some(String::new()),
        (more, _) => Some(format!("{} more places; ", format::count(more as u64))),
    };
    let note = note.map(|more| {
        format!(
            "{more}the first {} wrong blocks are in {}",
            format::count(taillight_rundir::verify::FINDINGS_MAX as u64),
            names::VERIFY
        )
    });
    let rows = shown.map(|(f, times)| row(f, *times, keyed)).collect();
    let columns = ["", "where", "expected", "found", "by"];
    Some(Table { note, rows, ..Table::of_words(WRONG_BLOCKS, "Wrong blocks", &columns) })
}

/// What is wrong in the same way at the same place, once, with how often it was read.
fn places(findings: &[Finding]) -> Vec<(&Finding, u64)> {
    let same = |a: &Finding, b: &Finding| {
        let key = |f: &Finding| (f.kind, f.target, f.address, f.expected, f.found);
        key(a) == key(b) && a.of == b.of
    };
    let mut places: Vec<(&Finding, u64)> = Vec::new();
    for finding in findings {
        match places.iter_mut().find(|(known, _)| same(known, finding)) {
            Some((_, times)) => *times += 1,
            None => places.push((finding, 1)),
        }
    }
    places
}

fn row(f: &Finding, times: u64, keyed: bool) -> Vec<Cell> {
    let write = |generation: u64| format!("write {generation}");
    let by = f.worker.map_or("the pass".to_owned(), |w| format!("worker {w}"));
    let by = match times {
        1 => by,
        _ => format!("{by}, and {} times again", format::count(times - 1)),
    };
    vec![
        Cell::toned(f.kind.text(), Tone::Bad),
        Cell::new(address_text(f, keyed)),
        Cell::new(f.expected.map_or("-".to_owned(), write)),
        Cell::new(found(f)),
        Cell::new(by),
    ]
}

fn found(f: &Finding) -> String {
    let write = f.found.map_or("none of the run's".to_owned(), |g| format!("write {g}"));
    match f.kind {
        Wrong::Flipped | Wrong::Torn => match (f.first_byte, f.bytes) {
            (Some(first), Some(1)) => format!("{write}, byte {first} differs"),
            (Some(first), Some(bytes)) => {
                format!("{write}, {bytes} bytes differ from byte {first} on")
            }
            _ => write,
        },
        Wrong::Lost | Wrong::Stale | Wrong::Unknown => write,
        Wrong::Misplaced => match f.found_address {
            Some(address) => format!("it belongs to {address}"),
            None => "another address".to_owned(),
        },
        Wrong::OtherRun => match &f.found_run {
            Some(run) => format!("run {run}"),
            None => "another run".to_owned(),
        },
        Wrong::OtherSize => format!("{} bytes", format::count(f.length)),
        Wrong::Zeroed => "zeros".to_owned(),
        Wrong::Missing => "nothing: its write was lost, or it was deleted".to_owned(),
    }
}
