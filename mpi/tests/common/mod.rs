//! Runs `taillight-mpi` under `mpirun` on this machine; hosts are UTS and time namespaces.
#![allow(dead_code)] // each test binary uses a part

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use taillight_rundir::ios::{ColumnSet, read_ios};

/// An error of a test, whatever it is.
pub type Failed = Box<dyn std::error::Error>;

/// The binary under test.
pub const MPI: &str = env!("CARGO_BIN_EXE_taillight-mpi");

/// Whether `mpirun` is there; says so where it is not.
pub fn has_mpirun(test: &str) -> bool {
    let there = Command::new("mpirun").arg("--version").output().is_ok_and(|o| o.status.success());
    if !there {
        eprintln!("skipped: {test}: no mpirun (apt-get install openmpi-bin)");
    }
    there
}

/// `mpirun` as root, with more ranks than CPUs.
pub fn mpirun(dir: &Path) -> Command {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", "60", "mpirun", "--oversubscribe", "--bind-to", "none"]);
    command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    command.current_dir(dir);
    command
}

/// So many ranks on this host.
pub fn ranks(dir: &Path, n: u32, words: &[&str]) -> Result<Output, Failed> {
    Ok(mpirun(dir).args(["-n", &n.to_string(), MPI]).args(words).output()?)
}

/// What went to both outputs, and the exit code.
pub fn said(output: &Output) -> (Option<i32>, String) {
    let text = [&output.stdout, &output.stderr].map(|b| String::from_utf8_lossy(b).into_owned());
    (output.status.code(), text.concat())
}

pub fn json(path: &Path) -> Result<Value, Failed> {
    Ok(serde_json::from_slice(&std::fs::read(path)?)?)
}

/// Service times of the measured successes of a run directory, ns.
pub fn service(run: &Path) -> Result<Vec<u64>, Failed> {
    let mut all = Vec::new();
    read_ios(&run.join("ios.parquet"), ColumnSet::ALL, &mut |batch| {
        let rows = (0..batch.rows).filter(|i| batch.phase_name(*i) != "warmup");
        let rows = rows.map(|i| batch.row(i)).filter(|row| row.status.is_ok());
        all.extend(rows.map(|row| row.service_ns()));
        Ok(())
    })?;
    Ok(all)
}

/// One rank on each pretended host: a name of its own (UTS namespace), and a monotonic clock that is so many seconds
/// ahead where given (time namespace).
pub fn hosts(dir: &Path, hosts: &[(&str, Option<i64>)], words: &[&str]) -> Command {
    let every: Vec<&[&str]> = vec![&[]; hosts.len()];
    hosts_by(dir, hosts, &every, words)
}

/// As `hosts`, each started by a command of its own, as `taskset -c 0`.
pub fn hosts_by(
    dir: &Path,
    hosts: &[(&str, Option<i64>)],
    by: &[&[&str]],
    words: &[&str],
) -> Command {
    let mut command = mpirun(dir);
    for (n, ((host, ahead), by)) in hosts.iter().zip(by).enumerate() {
        if n > 0 {
            command.arg(":");
        }
        command.args(["-n", "1"]).args(*by).args(["unshare", "--uts"]);
        if let Some(seconds) = ahead {
            command.args(["--time", "--fork", "--monotonic", &seconds.to_string()]);
        }
        command.args(["sh", "-c", "hostname \"$0\"; exec \"$@\"", host, MPI]).args(words);
    }
    command
}

/// Whether namespaces can be made here; says so where they cannot.
pub fn has_namespaces(test: &str) -> bool {
    let try_one = ["--uts", "--time", "--fork", "--monotonic", "1", "hostname", "x"];
    let there = Command::new("unshare").args(try_one).output().is_ok_and(|o| o.status.success());
    if !there {
        eprintln!("skipped: {test}: no namespaces (needs root)");
    }
    there && has_mpirun(test)
}

/// The identity of a file as `--destroy HOST:ID` names it: read from what the run prints.
pub fn printed_ids(text: &str) -> Vec<String> {
    let lines = text.lines().filter(|l| l.starts_with("rank ") && l.contains(" on "));
    lines.filter_map(|l| l.split("  ").nth(1).map(str::to_owned)).collect()
}
