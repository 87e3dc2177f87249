//! What verification found, on the console. The whole list is in `verify.json`.

use taillight_rundir::names;
use taillight_rundir::verify::{Finding, VerifyReport, Wrong};

use crate::output;

/// Findings shown.
const SHOWN: usize = 5;

/// Says it in a line, and the first findings when there are some.
pub fn show(report: &VerifyReport) {
    for line in lines(report) {
        output::line(&line);
    }
}

fn lines(report: &VerifyReport) -> Vec<String> {
    let mut kinds = report.kinds;
    let parts: Vec<String> = Wrong::ALL
        .into_iter()
        .map(|kind| (*kinds.of(kind), kind.text()))
        .filter(|(count, _)| *count > 0)
        .map(|(count, text)| format!("{count} x {text}"))
        .collect();
    let mut first = format!("Verify  {} blocks checked: ", report.checked);
    first += &match parts.as_slice() {
        [] if report.checked == 0 => "nothing was judged".to_owned(),
        [] => "all as written".to_owned(),
        parts => format!("{} WRONG ({})", report.wrong, parts.join(", ")),
    };
    let u = &report.unchecked;
    for (count, why) in [
        (u.unreadable, "could not be read"),
        (u.unwritten, "not written by this run"),
        (u.overlapped, "with overlapping writes"),
        (u.uncertain, "after a failed write or a trim"),
    ] {
        if count > 0 {
            first += &format!("; {count} not judged, {why}");
        }
    }
    if report.pass.is_some_and(|p| !p.complete) {
        first += "; the pass was ended early";
    }
    let mut lines = vec![first];
    lines.extend(report.findings.iter().take(SHOWN).map(finding));
    if report.wrong > SHOWN as u64 {
        let file = names::VERIFY;
        lines.push(format!("        more of them in {file}"));
    }
    lines
}

fn finding(f: &Finding) -> String {
    let mut text = format!(
        "        {} at {} of target {}",
        f.kind.text(),
        f.address,
        f.target
    );
    let generation = |g: Option<u64>| g.map_or("none".to_owned(), |g| g.to_string());
    match f.kind {
        Wrong::Flipped | Wrong::Torn => {
            if let (Some(first), Some(bytes)) = (f.first_byte, f.bytes) {
                text += &format!(", from byte {first} of the block on, {bytes} bytes differ");
            }
        }
        Wrong::Lost | Wrong::Stale => {
            text += &format!(
                ": write {} found, {} expected",
                generation(f.found),
                generation(f.expected)
            );
        }
        Wrong::Misplaced => {
            if let Some(address) = f.found_address {
                text += &format!(": it belongs to {address}");
            }
        }
        Wrong::OtherRun | Wrong::OtherSize => {}
    }
    text
}
