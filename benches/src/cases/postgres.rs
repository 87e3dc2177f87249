//! PostgreSQL: TPC-B against its own `pgbench`, on a server of our own over a unix socket. Both have one thread for all
//! connections, prepared statements, each statement a round trip, tables of the same scale in the same database.

use std::process::Command;

use anyhow::{Context, Result, anyhow, ensure};

use crate::pairs::{self, BenchArm, Bound, Comparison, Figures};
use crate::{BenchSetup, child, taillight};

#[path = "../../../crates/driver/src/kv/postgres/testing.rs"]
mod testing;

use testing::PostgresServer;

/// pgbench's scale: a branch for each, so that not all wait for one row.
const SCALE: u64 = 10;
/// Connections, transactions of a run for each second asked, names of the arms.
const ROWS: [(u64, u64, [&str; 2]); 2] =
    [(1, 800, ["taillight 1", "pgbench 1"]), (8, 2400, ["taillight 8", "pgbench 8"])];
/// Commits beside those of the load: a run's own statements, samples, `psql`.
const OTHERS: u64 = 400;

/// TPC-B over one connection and over eight.
pub fn tpcb(setup: &BenchSetup) -> Result<Comparison> {
    // The disk's own rate is not what is compared.
    let server = PostgresServer::start(&["fsync=off", "autovacuum=off"]).map_err(|e| anyhow!(e))?;
    let mut report = Comparison::titled(&format!(
        "PostgreSQL with fsync off, TPC-B of scale {SCALE}, against pgbench"
    ));
    let place = (server.data().display().to_string(), server.port.to_string());
    let client = format!("-h {} -p {} -U postgres", place.0, place.1);
    child::run(Command::new("pgbench").args(client.split(' ')).args([
        "-i",
        "-q",
        "-s",
        &SCALE.to_string(),
        "postgres",
    ]))
    .context("pgbench cannot fill its tables (cargo xtask setup installs it)")?;
    let words = |path: &str, connections: u64, ops: u64| {
        format!(
            "--driver postgres --path {path} --depth {connections} --ops {ops} \
             --set target.options.user=postgres --set target.options.connections={connections} \
             --set target.options.keep=true --set target.options.check=false \
             --set workload.0.mix=tpcb --set workload.0.keys={{count={}}}",
            SCALE * 100_000
        )
    };
    let theirs = |connections: u64, ops: u64| {
        format!("-M prepared -n -c {connections} -j 1 -t {} postgres", ops / connections)
    };
    // What both sides find; does not count.
    taillight::run(&words(&server.address(), 1, 100))?;
    for (connections, rate, names) in ROWS {
        let ops = rate * setup.seconds / connections * connections;
        let (ours, peers) = (words(&server.address(), connections, ops), theirs(connections, ops));
        let server = &server;
        let line = format!("{client} {peers}");
        let arms = vec![
            BenchArm {
                name: names[0],
                command: taillight::command_line(&words("unix:/run/postgresql", connections, ops)),
                run: Box::new(move || counted(server, ops, || taillight::run_whole(&ours))),
            },
            BenchArm {
                name: names[1],
                command: format!("pgbench {peers}"),
                run: Box::new(move || counted(server, ops, || peer(&line, ops))),
            },
        ];
        report.arms.extend(pairs::run(setup.pairs, arms)?);
    }
    for (_, _, [ours, theirs]) in ROWS {
        report.ratio("iops", ours, theirs, Bound::AtLeast(1.0))?;
        report.ratio("cpu_ns", ours, theirs, Bound::AtMost(1.1))?;
        report.ratio("all_cpu_ns", ours, theirs, Bound::None)?;
        report.ratio("mean_ns", ours, theirs, Bound::None)?;
    }
    report.notes.push(NOTE.into());
    Ok(report)
}

/// What a reader must know.
const NOTE: &str = "The number in a name is the connections, all of one thread. An operation is a transaction; its \
     statements are in no figure. cpu_ns is that of the measured time for Taillight and of the whole process for pgbench, \
     which has little beside it; all_cpu_ns is that of the whole process on both sides, from the command to the page. The \
     server has fsync and autovacuum off, so that the disk's own rate is not what is compared. Each run's transactions are \
     compared with the commits that the server counted (pg_stat_database), which are as many, beside a few of the \
     run's own statements.";

/// A run, after which the server has counted as many commits as it did transactions.
fn counted(
    server: &PostgresServer,
    ops: u64,
    run: impl FnOnce() -> Result<Figures>,
) -> Result<Figures> {
    let commits = || -> Result<u64> {
        let sql = "SELECT xact_commit FROM pg_stat_database WHERE datname = 'postgres'";
        server.psql(sql).parse().context("no count of commits")
    };
    let before = commits()?;
    let figures = run()?;
    // A server counts what a process of it did when that ends.
    std::thread::sleep(std::time::Duration::from_millis(1200));
    let rose = commits()? - before;
    ensure!((ops..=ops + OTHERS).contains(&rose), "{ops} transactions, {rose} commits");
    Ok(figures)
}

/// A run of pgbench, and the CPU of its whole process.
fn peer(words: &str, ops: u64) -> Result<Figures> {
    let done = child::run(Command::new("pgbench").args(words.split(' ')))?;
    let mut sample = figures(&done.stdout)
        .with_context(|| format!("pgbench said something else:\n{}", done.stdout))?;
    let cpu = done.cpu_s * 1e9 / ops as f64;
    sample.extend([("cpu_ns", cpu), ("all_cpu_ns", cpu), ("foreign", done.foreign)]);
    Ok(sample)
}

/// `latency average = 1.234 ms`, `tps = 810.1 (without initial connection time)`.
fn figures(text: &str) -> Option<Figures> {
    let value = |name: &str| -> Option<f64> {
        let line = text.lines().find(|line| line.starts_with(name))?;
        line[name.len()..].split_whitespace().next()?.parse().ok()
    };
    let rate = value("tps = ")?;
    Some(Figures::from([
        ("iops", rate),
        ("ns_per_io", 1e9 / rate),
        ("mean_ns", value("latency average = ")? * 1e6),
    ]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_from_pgbench() {
        let text = "number of transactions actually processed: 100/100\nlatency average = 1.250 ms\n\
                    initial connection time = 3.1 ms\ntps = 800.000000 (without initial connection time)\n";
        let found = figures(text).unwrap();
        assert_eq!((found["iops"], found["mean_ns"]), (800.0, 1_250_000.0));
        assert!(figures("connection refused").is_none());
    }
}
