//! Runs the release binary end to end, as a user would: exit codes, files of the run directory,
//! counts that add up, a report that opens offline. Also builds it and checks its size.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::steps::StepOutcome;
use crate::tool;

/// The binary must stay a single small file that people can copy around.
const MOST_BYTES: u64 = 40 << 20;

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

/// One thing to try in a scratch directory.
type Check = fn(&Path) -> Result<()>;

/// Operations of the null run.
const OPS: u64 = 100_000;

/// `cargo xtask smoke`.
pub fn main() -> Result<bool> {
    build()?;
    if let StepOutcome::Ok(note) = step()? {
        println!("smoke: {note}");
    }
    Ok(true)
}

/// Builds the release binary.
pub fn build() -> Result<()> {
    let mut cargo = tool::cargo(["build", "--release", "--locked", "--package", "taillight-cli"]);
    tool::run(&mut cargo)
}

/// The CI step: release build and its size.
pub fn release_step() -> Result<StepOutcome> {
    build()?;
    let bytes = std::fs::metadata(tool::taillight())?.len();
    let mib = bytes as f64 / f64::from(1 << 20);
    ensure!(bytes <= MOST_BYTES, "binary is {mib:.1} MiB, at most 40 MiB");
    StepOutcome::note(format!("binary {mib:.1} MiB"))
}

/// The CI step: the binary at work.
pub fn step() -> Result<StepOutcome> {
    let dir = tool::target_dir().join("smoke");
    if dir.exists() {
        std::fs::remove_dir_all(&dir)?;
    }
    std::fs::create_dir_all(&dir)?;
    let checks: &[(&str, Check)] = &[
        ("help", help),
        ("null run", null_run),
        ("file run", file_run),
        ("overlaid report", overlay),
        ("plan runs again", plan_again),
        ("bad input", bad_input),
    ];
    for (name, check) in checks {
        check(&dir).with_context(|| format!("smoke: {name}"))?;
        println!("  {name}: ok");
    }
    std::fs::remove_dir_all(&dir)?;
    StepOutcome::note(format!("{} checks", checks.len()))
}

/// Runs the binary; the exit code must be the expected one. Returns what it printed.
fn taillight(args: &[&str], code: i32) -> Result<(String, String)> {
    let mut command = Command::new(tool::taillight());
    command.args(args).stdin(Stdio::null());
    let shown = tool::show(&command);
    let out = command.output().with_context(|| shown.clone())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&out.stdout), text(&out.stderr));
    ensure!(
        out.status.code() == Some(code),
        "{shown}: {}, expected {code}\n{stdout}\n{stderr}",
        out.status
    );
    Ok((stdout, stderr))
}

fn path(dir: &Path, name: &str) -> Result<String> {
    let path: PathBuf = dir.join(name);
    path.into_os_string().into_string().ok().context("path is not UTF-8")
}

fn summary(run: &str) -> Result<Value> {
    let text = std::fs::read_to_string(Path::new(run).join("summary.json"))?;
    Ok(serde_json::from_str(&text)?)
}

/// Every file is there and no total disagrees with the work asked.
fn complete(run: &str, ops: Option<u64>) -> Result<()> {
    for file in RUN_FILES {
        ensure!(Path::new(run).join(file).is_file(), "{run} has no {file}");
    }
    let summary = summary(run)?;
    ensure!(summary["status"] == "complete", "status {}", summary["status"]);
    let count = summary["totals"]["count"].as_u64().context("no totals.count")?;
    ensure!(count > 0, "no operation was counted");
    if let Some(ops) = ops {
        ensure!(count == ops, "{count} operations counted, {ops} asked");
    }
    ensure!(summary["totals"]["errors"] == 0, "errors {}", summary["totals"]["errors"]);
    let html = std::fs::read_to_string(Path::new(run).join("report.html"))?;
    opens_offline(&html)
}

/// A page whose tags load nothing from elsewhere. Text of scripts and styles is not looked at.
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

fn help(_: &Path) -> Result<()> {
    let (text, _) = taillight(&["--help"], 0)?;
    for command in ["run", "report", "drivers", "doctor", "schema"] {
        ensure!(text.contains(command), "--help does not name {command}");
    }
    Ok(())
}

fn null_run(dir: &Path) -> Result<()> {
    let run = path(dir, "null")?;
    let ops = OPS.to_string();
    let args = "run --driver null --rw randread --bs 4KiB --depth 4 --workers 2";
    let mut args: Vec<&str> = args.split(' ').collect();
    args.extend(["--ops", &ops, "--output", &run]);
    taillight(&args, 0)?;
    complete(&run, Some(OPS))
}

fn file_run(dir: &Path) -> Result<()> {
    let (run, data) = (path(dir, "file")?, path(dir, "data/")?);
    let args = "run --driver file --size 16MiB --rw randrw --bs 4KiB --sync fdatasync:8";
    let mut args: Vec<&str> = args.split(' ').collect();
    args.extend(["--path", &data, "--runtime", "1s", "--output", &run]);
    taillight(&args, 0)?;
    complete(&run, None)
}

fn overlay(dir: &Path) -> Result<()> {
    let (null, file) = (path(dir, "null")?, path(dir, "file")?);
    let out = path(dir, "overlay.html")?;
    taillight(&["report", &null, &file, "--output", &out], 0)?;
    opens_offline(&std::fs::read_to_string(out)?)
}

fn plan_again(dir: &Path) -> Result<()> {
    let args = ["run", "--driver", "null", "--ops", "1000", "--print-plan"];
    let (plan, _) = taillight(&args, 0)?;
    let job = path(dir, "plan.toml")?;
    std::fs::write(&job, &plan)?;
    let (again, _) = taillight(&["run", &job, "--print-plan"], 0)?;
    ensure!(again == plan, "the plan of a plan differs:\n{plan}\n{again}");
    let run = path(dir, "again")?;
    taillight(&["run", &job, "--output", &run], 0)?;
    complete(&run, Some(1000))
}

fn bad_input(dir: &Path) -> Result<()> {
    let job = path(dir, "bad.toml")?;
    std::fs::write(&job, "[run]\nname = \"x\"\nduratoin = \"1s\"\n[target]\ndriver = \"null\"\n")?;
    let (_, said) = taillight(&["run", &job], 2)?;
    ensure!(said.contains("duration"), "no suggestion for `duratoin`: {said}");
    taillight(&["run", "--driver", "no-such"], 2)?;
    taillight(&["run", "--driver", "null", "--size", "16"], 2)?;
    let missing = path(dir, "no-such-run")?;
    taillight(&["report", &missing], 4)?;
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
