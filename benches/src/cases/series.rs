//! What a series costs beside its load: the time between two points, and the report over all.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::pairs::{Bound, BoundCheck, Comparison, median};
use crate::taillight::{self, BenchRun};
use crate::{BenchSetup, child};

/// The grid of DIRTH, and three long runs that keep every I/O.
const SUITE: &str = include_str!("series.toml");

/// 49 points and 3 histograms of 30 million I/Os on `null`, and the report on them.
pub fn run(_: &BenchSetup) -> Result<Comparison> {
    let dir = BenchRun::new("series")?;
    let suite = dir.path().with_extension("toml");
    fs::write(&suite, SUITE)?;
    let mut series = Command::new(taillight::binary());
    series.arg("suite").arg(&suite).arg("--output").arg(dir.path());
    child::run(&mut series)?;
    let gaps = gaps(&dir)?;
    let mut again = Command::new(taillight::binary());
    let again = child::run(again.arg("report").arg(dir.path()))?;
    let page = dir.path().join("report.html");
    let bytes = fs::metadata(&page)?.len();

    let mut report = Comparison::titled("49 points and 3 histograms of 30 million I/Os on `null`");
    let mut add = |what: &str, unit, values: Vec<f64>, bound| {
        report.checks.push(BoundCheck { what: what.into(), unit, values, bound });
    };
    let longest = gaps.iter().copied().fold(0.0, f64::max);
    add("between two points, median", "ms", vec![median(&gaps)], Bound::AtMost(300.0));
    add("between two points, longest", "ms", vec![longest], Bound::None);
    add("`taillight report`", "s", vec![again.wall_s], Bound::AtMost(60.0));
    let mib = |bytes: u64| vec![bytes as f64 / f64::from(1 << 20)];
    add("`taillight report`, memory", "MiB", mib(again.max_rss), Bound::AtMost(2048.0));
    add("the page", "MiB", mib(bytes), Bound::AtMost(25.0));
    match opened(&page) {
        Ok(seconds) => add("Chromium opens it", "s", vec![seconds], Bound::AtMost(5.0)),
        Err(e) => report.notes.push(format!("Not opened in a browser: {e}.")),
    }
    report.notes.push(
        "Between two points: from the end of one measure phase to the begin of the next, over the 49 \
         points, which keep histograms only. It includes the report of the point and opening the \
         target. Chromium: headless, from its start until the page and its scripts are loaded, less \
         the same for an empty page; the median of five."
            .into(),
    );
    Ok(report)
}

/// From the end of each point's measure phase to the begin of the next one's, ms.
fn gaps(dir: &BenchRun) -> Result<Vec<f64>> {
    let series = dir.json("series.json")?;
    let points = series["points"].as_array().context("no points")?;
    let mut phases = Vec::new();
    for point in points.iter().filter(|p| p["role"] == "sweep") {
        let run = point["run"].as_str().context("no run")?;
        let manifest = dir.json(&format!("{run}/manifest.json"))?;
        let all = manifest["phases"].as_array().context("no phases")?;
        let one = all.iter().find(|p| p["name"] == "measure").context("nothing measured")?;
        let stamp = |name: &str| one[name].as_i64().context("no stamp");
        phases.push((stamp("start_ns")?, stamp("end_ns")?));
    }
    Ok(phases.windows(2).map(|w| (w[1].0 - w[0].1) as f64 / 1e6).collect())
}

/// Seconds until Chromium has a page and has run its scripts.
fn opened(page: &Path) -> Result<f64> {
    let page = format!("file://{}", fs::canonicalize(page)?.display());
    let mut times = Vec::new();
    for _ in 0..5 {
        times.push(load(&page)? - load("about:blank")?);
    }
    Ok(median(&times))
}

fn load(url: &str) -> Result<f64> {
    let mut chromium = Command::new("chromium");
    chromium.args(["--headless=new", "--no-sandbox", "--disable-gpu", "--dump-dom", url]);
    Ok(child::run(&mut chromium)?.wall_s)
}
