//! JUnit XML: a test case a figure, for the pages of CI systems.

use std::fmt::Write;

use taillight_rundir::compare::{CompareFile, CompareVerdict, GateStatus};

use crate::text::sentence;

/// The whole file. The gate's figure fails with the gate; without one, figures that are worse do. What is
/// undecided is skipped.
pub fn junit(found: &CompareFile) -> String {
    let mut cases = String::new();
    let (mut failures, mut skipped) = (0, 0);
    for figure in &found.figures {
        let name = escape(&format!("{} {}", figure.op.name(), figure.figure));
        let text = escape(&sentence(figure));
        let gate = found.gate.as_ref();
        let status = match gate {
            Some(gate) => {
                let mut of = gate.figures.iter();
                let of = of.find(|g| g.op == figure.op && g.figure == figure.figure);
                of.map_or(GateStatus::Pass, |g| g.status)
            }
            None => match figure.verdict {
                CompareVerdict::Worse => GateStatus::Fail,
                CompareVerdict::Undecided => GateStatus::Undecided,
                CompareVerdict::Better | CompareVerdict::Equal => GateStatus::Pass,
            },
        };
        let inside = match status {
            GateStatus::Pass => format!("<system-out>{text}</system-out>"),
            GateStatus::Fail => {
                failures += 1;
                format!("<failure message=\"{text}\"/>")
            }
            GateStatus::Undecided => {
                skipped += 1;
                format!("<skipped message=\"{text}\"/>")
            }
        };
        let _ = writeln!(
            cases,
            "  <testcase classname=\"taillight.compare\" name=\"{name}\">{inside}</testcase>"
        );
    }
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"taillight compare\" \
         tests=\"{}\" failures=\"{failures}\" skipped=\"{skipped}\">\n{cases}</testsuite>\n",
        found.figures.len()
    )
}

fn escape(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('"', "&quot;")
}
