//! JUnit XML: a test case a figure, for the pages of CI systems.

use std::fmt::Write;

use taillight_rundir::compare::{CompareFile, CompareVerdict, GateStatus};

use crate::text::sentence;

/// The attribute that tells a JUnit file written here from one of another program.
pub const JUNIT: &str = "name=\"taillight compare\"";

/// The whole file. With a gate its figures have its answers and all others pass; without one, figures that are worse
/// fail. What is undecided is skipped.
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
    // Figures of the gate that the runs do not have.
    let compared = |op, name: &str| found.figures.iter().any(|f| f.op == op && f.figure == name);
    let gate = found.gate.iter().flat_map(|gate| &gate.figures);
    for answer in gate.filter(|g| !compared(g.op, &g.figure)) {
        skipped += 1;
        let name = escape(&format!("{} {}", answer.op.name(), answer.figure));
        let text = escape(&answer.text);
        let _ = writeln!(
            cases,
            "  <testcase classname=\"taillight.compare\" name=\"{name}\"><skipped message=\"{text}\"/></testcase>"
        );
    }
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite {JUNIT} \
         tests=\"{}\" failures=\"{failures}\" skipped=\"{skipped}\">\n{cases}</testsuite>\n",
        cases.lines().count()
    )
}

fn escape(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('"', "&quot;")
}
