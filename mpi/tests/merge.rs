//! What several ranks measured is what one process would have: percentiles of the whole run are those of the sorted
//! concatenation of the ranks' I/Os, to the nanosecond, at the end and in a report made later.

mod common;

use std::path::Path;
use std::process::Command;

use common::{Failed, has_mpirun, json, ranks, said, service};

const NULL: &str = "[run]\nseed = 7\noperations = 30001\n[target]\ndriver = \"null\"\n\
                    [[workload]]\nmix = \"read\"\nblock_size = \"4KiB\"\nWORKLOAD";

fn job(dir: &Path, workload: &str) -> Result<(), Failed> {
    Ok(std::fs::write(dir.join("job.toml"), NULL.replace("WORKLOAD", workload))?)
}

/// The value of a percentile in hundredths, of values in any order.
fn nearest(values: &mut [u64], hundredths: u64) -> u64 {
    values.sort_unstable();
    let rank = (values.len() as u64 * hundredths).div_ceil(10_000);
    values[rank.max(1) as usize - 1]
}

fn percentile(summary: &serde_json::Value, p: &str) -> Option<u64> {
    let all = summary.pointer("/ops/read/service/percentiles")?.as_array()?;
    all.iter().find(|it| it["p"] == p)?["observed_ns"].as_u64()
}

#[test]
fn two_ranks_on_null_are_the_concatenation() -> Result<(), Failed> {
    if !has_mpirun("two_ranks_on_null_are_the_concatenation") {
        return Ok(());
    }
    let tmp = tempfile::tempdir()?;
    let at = |name: &str| tmp.path().join(name);
    job(tmp.path(), "")?;
    let output = ranks(tmp.path(), 2, &["run", "job.toml", "--output", "RUN"])?;
    let (code, text) = said(&output);
    assert_eq!(code, Some(0), "{text}");
    // Open MPI refuses root without a word for it.
    let repeat = json(&at("RUN/manifest.json"))?["repeat"].to_string();
    let as_root = if rustix::process::geteuid().is_root() { "--allow-run-as-root " } else { "" };
    assert!(repeat.starts_with(&format!("\"mpirun {as_root}-n 2 taillight-mpi run ")), "{repeat}");
    // Where a line is broken depends on the figures in it.
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(line.matches("99 % of I/Os").count(), 1, "rank 0 speaks alone: {text}");
    let mut all = service(&at("RUN/rank-0000"))?;
    let first = all.len();
    all.extend(service(&at("RUN/rank-0001"))?);
    assert_eq!((first, all.len()), (15_001, 30_001), "operations are those of all ranks together");
    let scale = json(&at("RUN/scale.json"))?;
    let merged = &scale["merged"][0];
    assert_eq!(merged["count"], all.len());
    assert!(merged["moved_bytes"].as_u64().is_some_and(|n| n < 1 << 20), "{merged}");
    let summary = json(&at("RUN/summary.json"))?;
    for (p, hundredths) in [("50", 5_000), ("99", 9_900), ("99.9", 9_990), ("99.99", 9_999)] {
        let truth = nearest(&mut all, hundredths);
        assert_eq!(merged["percentiles"][p], truth, "{p} of scale.json");
        assert_eq!(percentile(&summary, p), Some(truth), "{p} of summary.json");
    }
    // A report made later has the same figures.
    std::fs::remove_file(at("RUN/summary.json"))?;
    let taillight = Path::new(common::MPI).with_file_name("taillight");
    let again = match taillight.is_file() {
        true => Command::new(taillight).args(["report", "RUN"]).current_dir(tmp.path()).output()?,
        false => ranks(tmp.path(), 1, &["report", "RUN"])?,
    };
    assert_eq!(said(&again).0, Some(0), "{}", said(&again).1);
    let later = json(&at("RUN/summary.json"))?;
    assert_eq!(later["ops"], summary["ops"]);
    assert_eq!(later["hosts"], summary["hosts"]);
    Ok(())
}

#[test]
fn a_rate_over_three_ranks_is_that_rate() -> Result<(), Failed> {
    if !has_mpirun("a_rate_over_three_ranks_is_that_rate") {
        return Ok(());
    }
    let tmp = tempfile::tempdir()?;
    job(tmp.path(), "arrival = { kind = \"constant\", rate = \"1000/s\" }\n")?;
    let words = ["run", "job.toml", "--output", "RUN", "--set", "run.operations=2000"];
    let (code, text) = said(&ranks(tmp.path(), 3, &words)?);
    assert_eq!(code, Some(0), "{text}");
    // Every instant of the schedule once, whichever rank had it.
    let mut due = Vec::new();
    for rank in 0..3 {
        let path = tmp.path().join(format!("RUN/rank-000{rank}/ios.parquet"));
        let columns = taillight_rundir::ios::ColumnSet::ALL;
        taillight_rundir::ios::read_ios(&path, columns, &mut |batch| {
            due.extend((0..batch.rows).filter_map(|i| batch.row(i).intended.map(|at| at.0)));
            Ok(())
        })?;
    }
    due.sort_unstable();
    assert_eq!(due.len(), 2_000);
    let gaps: Vec<i64> = due.windows(2).map(|w| w[1] - w[0]).collect();
    assert!(
        gaps.iter().all(|gap| *gap == 1_000_000),
        "{:?}",
        gaps.iter().find(|g| **g != 1_000_000)
    );
    Ok(())
}

/// Two jobs in turns, each by all ranks: the slower one is found, as in one process.
#[test]
fn jobs_are_compared_in_turns_over_ranks() -> Result<(), Failed> {
    if !has_mpirun("jobs_are_compared_in_turns_over_ranks") {
        return Ok(());
    }
    let tmp = tempfile::tempdir()?;
    let job = "[run]\noperations = 4000\nseed = 11\n[target]\ndriver = \"sim\"\nsize = \"1GiB\"\n\
               options = { channels = 4, service = { kind = \"exponential\", mean = \"1ms\" } }\n\
               [[workload]]\nqueue_depth = 4\n";
    std::fs::write(tmp.path().join("a.toml"), job)?;
    std::fs::write(tmp.path().join("b.toml"), job.replace("\"1ms\"", "\"1.2ms\""))?;
    let words = ["ab", "a.toml", "b.toml", "--gate", "read:p50", "--output", "AB"];
    let (code, text) = said(&ranks(tmp.path(), 2, &words)?);
    assert_eq!(code, Some(7), "{text}");
    let found = json(&tmp.path().join("AB/compare.json"))?;
    assert_eq!(found["gate"]["status"], "fail", "{text}");
    assert!(tmp.path().join("AB/pair-1-b/rank-0001/ios.parquet").is_file(), "{text}");
    Ok(())
}

/// A simulated disk on virtual time: both ranks' truth is known, and so is that of the whole.
#[test]
fn ranks_on_virtual_time_are_merged_too() -> Result<(), Failed> {
    if !has_mpirun("ranks_on_virtual_time_are_merged_too") {
        return Ok(());
    }
    let tmp = tempfile::tempdir()?;
    let text = NULL.replace("WORKLOAD", "").replace("\"null\"", "\"sim\"\nsize = \"64MiB\"\n[target.options]\nservice = { kind = \"exponential\", mean = \"100us\" }");
    std::fs::write(tmp.path().join("job.toml"), text)?;
    let (code, text) = said(&ranks(tmp.path(), 2, &["run", "job.toml", "--output", "RUN"])?);
    assert_eq!(code, Some(0), "{text}");
    let mut all = service(&tmp.path().join("RUN/rank-0000"))?;
    let other = service(&tmp.path().join("RUN/rank-0001"))?;
    assert!(all[..100] != other[..100], "each rank draws its own");
    all.extend(other);
    let truth = nearest(&mut all, 9_900);
    assert_eq!(percentile(&json(&tmp.path().join("RUN/summary.json"))?, "99"), Some(truth));
    Ok(())
}
