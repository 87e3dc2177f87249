//! What goes wrong between hosts: job files that differ, a rank without room, several ranks of one host, a file system of the
//! same name that is another. Each is named, and nothing is measured under a false assumption.

mod common;

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use common::{Failed, MPI, has_mpirun, has_namespaces, json, mpirun, ranks, said};

const JOB: &str = "[run]\noperations = 4000\nseed = 3\n[target]\ndriver = \"null\"\n[[workload]]\nmix = \"read\"\n\
                   block_size = \"4KiB\"\n";

/// The job by one rank on each pretended host, after a command of the shell that only it runs, in a mount namespace of
/// its own: exit code, and what was said.
fn prepared(dir: &Path, shells: [&str; 2]) -> Result<(Option<i32>, String), Failed> {
    prepared_into(dir, shells, "RUN")
}

fn prepared_into(
    dir: &Path,
    shells: [&str; 2],
    output: &str,
) -> Result<(Option<i32>, String), Failed> {
    let mut command = mpirun(dir);
    for (n, shell) in shells.iter().enumerate() {
        if n > 0 {
            command.arg(":");
        }
        command.args(["-n", "1", "unshare", "--uts", "--mount", "--propagation", "private"]);
        let script = format!("hostname h{n}; {shell}; exec \"$0\" \"$@\"");
        command.args(["sh", "-ec", &script, MPI, "run", "job.toml", "--output", output]);
    }
    Ok(said(&command.output()?))
}

/// Percentiles of all are exact all the same, and its slowest I/Os are known.
#[test]
fn results_that_stay_on_their_host_are_merged_and_called_so() -> Result<(), Failed> {
    if !has_namespaces("results_that_stay_on_their_host_are_merged_and_called_so") {
        return Ok(());
    }
    let tmp = tempfile::tempdir()?;
    std::fs::create_dir(tmp.path().join("out"))?;
    std::fs::write(tmp.path().join("job.toml"), JOB)?;
    let (code, text) = prepared_into(tmp.path(), ["true", "mount -t tmpfs none out"], "out/RUN")?;
    assert_eq!(code, Some(0), "{text}");
    let run = tmp.path().join("out/RUN");
    let (scale, summary) = (json(&run.join("scale.json"))?, json(&run.join("summary.json"))?);
    assert_eq!(scale["ranks"][1]["elsewhere"], true, "{scale}");
    assert!(run.join("rank-0001/summary.json").is_file(), "{text}");
    assert!(!run.join("rank-0001/ios.parquet").exists(), "{text}");
    let merged = scale["merged"].as_array().into_iter().flatten();
    let merged = merged.filter(|it| it["kind"] == "service").collect::<Vec<_>>();
    let [merged] = merged[..] else { return Err(format!("not merged: {scale}").into()) };
    assert_eq!(merged["count"], 4_000, "{scale}");
    let all = summary.pointer("/ops/read/service/percentiles").and_then(|all| all.as_array());
    for entry in all.ok_or("no percentiles")? {
        let p = entry["p"].as_str().unwrap_or_default();
        assert_eq!(entry["observed_ns"], merged["percentiles"][p], "{p}: {summary}");
    }
    let reasons = summary["verdict"]["reasons"].to_string();
    assert!(reasons.contains("from histograms"), "{reasons}");
    // Its slowest I/Os came along, so that nobody has to be left out of a stall.
    let slowest = &scale["ranks"][1]["slowest"][0];
    let numbers = slowest["ios"].as_str().map(|ios| ios.split(' ').count());
    assert_eq!(numbers, Some(3 * 2_000), "{slowest}");
    assert!(scale["ranks"][0]["slowest"].is_null());
    for stall in summary["hosts"]["stalls"].as_array().into_iter().flatten() {
        assert!(stall["unknown"].is_null(), "{stall}");
    }
    Ok(())
}

#[test]
fn another_job_file_on_a_host_ends_the_run() -> Result<(), Failed> {
    if !has_namespaces("another_job_file_on_a_host_ends_the_run") {
        return Ok(());
    }
    let tmp = tempfile::tempdir()?;
    std::fs::write(tmp.path().join("job.toml"), JOB)?;
    std::fs::write(tmp.path().join("other.toml"), JOB.replace("seed = 3", "seed = 4"))?;
    let shells = ["true", "mount --bind other.toml job.toml"];
    let (code, text) = prepared(tmp.path(), shells)?;
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("the job file is not the same on all hosts"), "{text}");
    assert!(text.contains("1 on h1") && !tmp.path().join("RUN").exists(), "{text}");
    Ok(())
}

/// The name is shared, the file system is not: found by the marker, before the load.
#[test]
fn a_target_that_is_local_where_shared_was_meant_is_refused() -> Result<(), Failed> {
    if !has_namespaces("a_target_that_is_local_where_shared_was_meant_is_refused") {
        return Ok(());
    }
    let tmp = tempfile::tempdir()?;
    std::fs::create_dir(tmp.path().join("data"))?;
    let target =
        "driver = \"file\"\npath = \"data/f\"\nsize = \"1MiB\"\noptions = { direct = false }";
    let job = JOB.replace("driver = \"null\"", target).replace("seed", "share = \"same\"\nseed");
    std::fs::write(tmp.path().join("job.toml"), job.replace("\"read\"", "\"write\""))?;
    let shells = ["true", "mount -t tmpfs none data"];
    let (code, text) = prepared(tmp.path(), shells)?;
    assert_eq!(code, Some(3), "{text}");
    assert!(text.contains("this host has another one of the same name"), "{text}");
    assert!(!tmp.path().join("RUN").exists(), "{text}");
    assert_eq!(std::fs::read_dir(tmp.path().join("data"))?.count(), 0, "nothing is left: {text}");
    Ok(())
}

/// A rank whose disk is full fails its writes or cannot begin, and says so; nothing is passed over.
#[test]
fn a_rank_without_room_is_named() -> Result<(), Failed> {
    if !has_namespaces("a_rank_without_room_is_named") {
        return Ok(());
    }
    let tmp = tempfile::tempdir()?;
    std::fs::create_dir(tmp.path().join("data"))?;
    let target =
        "driver = \"file\"\npath = \"data/f\"\nsize = \"8MiB\"\noptions = { direct = false }";
    let job = JOB.replace("driver = \"null\"", target);
    std::fs::write(tmp.path().join("job.toml"), job)?;
    let shells = ["true", "mount -t tmpfs -o size=1m none data"];
    let (code, text) = prepared(tmp.path(), shells)?;
    assert_eq!(code, Some(4), "{text}");
    assert!(text.contains("rank 1 on h1"), "{text}");
    assert!(!tmp.path().join("RUN").exists(), "{text}");
    assert_eq!(std::fs::read_dir(tmp.path().join("data"))?.count(), 0, "rank 0 left its file");
    Ok(())
}

/// A disk that fills during the load fails its rank's operations, which are counted; the other rank's stand.
#[test]
fn a_disk_that_fills_during_the_load_is_of_that_host() -> Result<(), Failed> {
    if !has_namespaces("a_disk_that_fills_during_the_load_is_of_that_host") {
        return Ok(());
    }
    let tmp = tempfile::tempdir()?;
    std::fs::create_dir(tmp.path().join("data"))?;
    let job = "[run]\noperations = 1200\n[target]\ndriver = \"metadata\"\npath = \"data/\"\n[[workload]]\n\
               mix = \"create\"\nblock_size = \"3901B\"\nkeys = { count = 0 }\n";
    std::fs::write(tmp.path().join("job.toml"), job)?;
    let shells = ["true", "mount -t tmpfs -o size=1m none data"];
    let (code, text) = prepared(tmp.path(), shells)?;
    assert_eq!(code, Some(6), "{text}");
    let summary = json(&tmp.path().join("RUN/summary.json"))?;
    let errors = |rank: usize| summary["hosts"]["ranks"][rank]["errors"].as_u64();
    assert_eq!(errors(0), Some(0), "{summary}");
    assert!(errors(1).is_some_and(|failed| failed > 300 && failed < 600), "{text}");
    // That it is another file system there is said.
    let differences = json(&tmp.path().join("RUN/scale.json"))?["differences"].clone();
    let differs = |d: &&serde_json::Value| d["what"] == "mount options";
    let options = differences.as_array().into_iter().flatten().find(differs);
    let values = options.and_then(|d| d["values"].as_object()).into_iter().flatten();
    let of_h1 = values.filter(|(options, _)| options.contains("size=1024k"));
    let hosts: Vec<_> = of_h1.map(|(_, hosts)| hosts.clone()).collect();
    assert_eq!(hosts, [serde_json::json!(["h1"])], "{differences}");
    Ok(())
}

/// A process that never joins MPI holds up all others within MPI: the rank that is missing is named.
#[test]
fn a_rank_that_never_comes_is_named() -> Result<(), Failed> {
    if !has_mpirun("a_rank_that_never_comes_is_named") {
        return Ok(());
    }
    let tmp = tempfile::tempdir()?;
    std::fs::write(tmp.path().join("job.toml"), JOB)?;
    let mut command = mpirun(tmp.path());
    command.args(["-n", "1", MPI, "run", "job.toml", "--output", "RUN"]);
    let mut child =
        command.args([":", "-n", "1", "sleep", "300"]).stderr(Stdio::piped()).spawn()?;
    let mut said = String::new();
    let mut lines = BufReader::new(child.stderr.take().ok_or("no output")?);
    while !said.contains("waiting for") && lines.read_line(&mut said)? > 0 {}
    // That it gives up after a minute is too long for a test.
    Command::new("kill").arg(child.id().to_string()).status()?;
    child.wait()?;
    assert!(said.contains("waiting for all 2 ranks: rank 1 on "), "{said}");
    assert!(!tmp.path().join("RUN").exists());
    Ok(())
}

/// Several processes that another MPI's `mpirun` started are no ranks of one run.
#[test]
fn processes_that_are_no_ranks_of_each_other_are_refused() -> Result<(), Failed> {
    let tmp = tempfile::tempdir()?;
    std::fs::write(tmp.path().join("job.toml"), JOB)?;
    let mut alone = Command::new(MPI);
    alone.args(["run", "job.toml", "--output", "RUN"]).current_dir(tmp.path());
    let (code, text) = said(&alone.env("OMPI_COMM_WORLD_SIZE", "2").output()?);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("MPI knows of this one only"), "{text}");
    assert!(!tmp.path().join("RUN").exists());
    Ok(())
}

#[test]
fn one_rank_and_too_many_ranks_are_said() -> Result<(), Failed> {
    if !has_mpirun("one_rank_and_too_many_ranks_are_said") {
        return Ok(());
    }
    let tmp = tempfile::tempdir()?;
    std::fs::write(tmp.path().join("job.toml"), JOB)?;
    let (code, text) = said(&ranks(tmp.path(), 1, &["run", "job.toml", "--output", "ONE"])?);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("one rank only"), "{text}");
    // Nobody would tell it anything.
    let words = ["run", "job.toml", "--output", "LIVE", "--live"];
    let (code, text) = said(&ranks(tmp.path(), 1, &words)?);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("a live view shows one process"), "{text}");
    let many = std::thread::available_parallelism()?.get() as u32 + 1;
    let (code, text) = said(&ranks(tmp.path(), many, &["run", "job.toml", "--output", "MANY"])?);
    assert_eq!(code, Some(0), "{text}");
    let words = format!("has {many} ranks on {} CPUs", many - 1);
    let notes = json(&tmp.path().join("MANY/scale.json"))?["notes"].to_string();
    assert!(text.contains(&words) && notes.contains(&words), "{notes}\n{text}");
    Ok(())
}
