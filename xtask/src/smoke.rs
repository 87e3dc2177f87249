//! Runs the release binary end to end, as a user would: files of the run directory, counts that add
//! up, a report that opens offline. Also builds it and checks its size.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::steps::StepOutcome;
use crate::tool;

/// The binary must stay a single small file that people can copy around.
const MOST_BYTES: u64 = 42 << 20;

/// What a finished run leaves (docs/run-directory.md).
const RUN_FILES: &[&str] = &[
    "manifest.json",
    "job.toml",
    "summary.json",
    "intervals.parquet",
    "histograms.hlog",
    "ios.parquet",
    "report.html",
];

/// The CI step: release build and its size.
pub fn release_step() -> Result<StepOutcome> {
    tool::build("release")?;
    let bytes = std::fs::metadata(tool::taillight())?.len();
    let mib = bytes as f64 / f64::from(1 << 20);
    ensure!(bytes <= MOST_BYTES, "binary is {mib:.1} MiB, at most 42 MiB");
    StepOutcome::note(format!("binary {mib:.1} MiB"))
}

/// The CI step: the binary at work. What its commands do in detail, the tests of the binary say.
pub fn step() -> Result<StepOutcome> {
    let dir = tool::target_dir().join("smoke");
    if dir.exists() {
        std::fs::remove_dir_all(&dir)?;
    }
    std::fs::create_dir_all(&dir)?;
    let run = |line: &str| taillight(&dir, line);
    run(
        "run --driver null --rw randread --bs 4KiB --depth 4 --workers 2 --ops 100000 --output null",
    )?;
    complete(&dir.join("null"), Some(100_000))?;
    run("run --driver file --path data/ --size 16MiB --rw randrw --bs 4KiB --sync fdatasync:8 \
         --runtime 1s --output file")?;
    complete(&dir.join("file"), None)?;
    run("report null file --output overlay.html")?;
    opens_offline(&std::fs::read_to_string(dir.join("overlay.html"))?)?;
    let plan = run("run --driver null --ops 1000 --print-plan")?;
    std::fs::write(dir.join("plan.toml"), &plan)?;
    let again = run("run plan.toml --print-plan")?;
    ensure!(again == plan, "the plan of a plan differs:\n{plan}\n{again}");
    std::fs::remove_dir_all(&dir)?;
    StepOutcome::ok()
}

/// Runs the binary in `dir`; what it printed.
fn taillight(dir: &Path, line: &str) -> Result<String> {
    let mut command = Command::new(tool::taillight());
    tool::output(command.args(line.split_whitespace()).current_dir(dir))
}

/// Every file is there and no total disagrees with the work asked.
fn complete(run: &Path, ops: Option<u64>) -> Result<()> {
    for file in RUN_FILES {
        ensure!(run.join(file).is_file(), "{} has no {file}", run.display());
    }
    let text = std::fs::read_to_string(run.join("summary.json"))?;
    let summary: Value = serde_json::from_str(&text)?;
    ensure!(summary["status"] == "complete", "status {}", summary["status"]);
    let count = summary["totals"]["count"].as_u64().context("no totals.count")?;
    ensure!(count > 0, "no operation was counted");
    ensure!(ops.is_none_or(|ops| count == ops), "{count} operations counted, {ops:?} asked");
    ensure!(summary["totals"]["errors"] == 0, "errors {}", summary["totals"]["errors"]);
    opens_offline(&std::fs::read_to_string(run.join("report.html"))?)
}

/// A whole page of which no `src` and no `<link>` loads anything from elsewhere. Other attributes, and text of scripts
/// and styles, are not looked at.
fn opens_offline(html: &str) -> Result<()> {
    ensure!(html.trim_end().ends_with("</html>"), "the page is cut off");
    let mut rest = html;
    while let Some(at) = rest.find('<') {
        let tag = &rest[at..];
        let end = tag.find('>').context("a tag is cut off")?;
        let text = &tag[..end];
        let loads = ["src=\"http", "src='http", "src=//", "src=\"//"];
        let links = text.starts_with("<link") && text.contains("//");
        if links || loads.iter().any(|load| text.contains(load)) {
            bail!("the page loads something from elsewhere: {text}>");
        }
        let close = ["script", "style"].into_iter().find(|name| {
            let name_ends = text.as_bytes().get(1 + name.len());
            text[1..].starts_with(name) && name_ends.is_none_or(|c| c.is_ascii_whitespace())
        });
        rest = match close {
            None => &tag[end..],
            Some(name) => {
                let body = &tag[end..];
                &body[body.find(&format!("</{name}")).context("a script is cut off")?..]
            }
        };
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_must_not_load_from_elsewhere() {
        assert!(opens_offline("<html><a href=\"https://x\">x</a></html>\n").is_ok());
        assert!(opens_offline("<html><script src=\"https://x\"></script></html>").is_err());
        assert!(opens_offline("<html><script>a='<img src=\"http'</script></html>").is_ok());
        assert!(opens_offline("<html><link rel=x href=\"https://x\"></html>").is_err());
        assert!(opens_offline("<html>").is_err());
    }
}
