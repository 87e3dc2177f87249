//! Servers that ranks share: keys split or the same for all, one mark that all compare, and nothing left behind; and series
//! whose target every rank keeps open.

mod common;
mod redis;

use std::collections::BTreeSet;
use std::path::Path;

use common::{Failed, has_mpirun, has_namespaces, json, mpirun, ranks, said};
use redis::Redis;
use taillight_rundir::ios::{ColumnSet, read_ios};

fn job(dir: &Path, port: u16, share: &str, mix: &str) -> Result<(), Failed> {
    let text = format!(
        "[run]\nshare = \"{share}\"\nseed = 5\noperations = 1200\n[target]\ndriver = \"redis\"\n\
         path = \"redis://127.0.0.1:{port}/0\"\n[[workload]]\nmix = {mix}\nblock_size = \"64B\"\nworkers = 2\n\
         keys = {{ count = 301 }}\n"
    );
    Ok(std::fs::write(dir.join("job.toml"), text)?)
}

/// Key numbers of each rank, of operations that succeeded.
fn keys(run: &Path, n: u32, inserts: bool) -> Result<Vec<BTreeSet<u64>>, Failed> {
    let mut all = Vec::new();
    for rank in 0..n {
        let mut own = BTreeSet::new();
        let path = run.join(format!("rank-{rank:04}/ios.parquet"));
        read_ios(&path, ColumnSet::ALL, &mut |batch| {
            let rows = (0..batch.rows).map(|i| batch.row(i)).filter(|row| row.status.is_ok());
            let rows = rows.filter(|row| !inserts || row.op.writes());
            own.extend(rows.filter_map(|row| row.key));
            Ok(())
        })?;
        all.push(own);
    }
    Ok(all)
}

#[test]
fn ranks_share_the_keys_of_a_server() -> Result<(), Failed> {
    let test = "ranks_share_the_keys_of_a_server";
    let tmp = tempfile::tempdir()?;
    let Some(redis) = Redis::start(test, tmp.path())?.filter(|_| has_mpirun(test)) else {
        return Ok(());
    };
    let run = |share: &str, mix: &str, name: &str| -> Result<(Option<i32>, String), Failed> {
        job(tmp.path(), redis.port, share, mix)?;
        Ok(said(&ranks(tmp.path(), 3, &["run", "job.toml", "--output", name])?))
    };
    let (code, text) = run("segments", "{ get = 50, update = 50 }", "SEGMENTS")?;
    assert_eq!(code, Some(0), "{text}");
    let parts = keys(&tmp.path().join("SEGMENTS"), 3, false)?;
    for (rank, (own, part)) in parts.iter().zip([0..100, 100..200, 200..301]).enumerate() {
        assert!(!own.is_empty() && own.iter().all(|key| part.contains(key)), "rank {rank}");
    }
    let (code, text) = run("same", "{ get = 50, update = 50 }", "SAME")?;
    assert_eq!(code, Some(0), "{text}");
    for own in keys(&tmp.path().join("SAME"), 3, false)? {
        assert!(own.len() > 200, "each rank has all of them: {}", own.len());
    }
    // New keys go to ranks in turns: no rank inserts what another does.
    let (code, text) = run("strided", "{ insert = 70, get = 30 }", "STRIDED")?;
    assert_eq!(code, Some(0), "{text}");
    let made = keys(&tmp.path().join("STRIDED"), 3, true)?;
    let all: BTreeSet<&u64> = made.iter().flatten().collect();
    assert_eq!(all.len(), made.iter().map(BTreeSet::len).sum::<usize>());
    assert!(all.iter().all(|key| **key >= 301), "none of those that were there");
    assert_eq!(redis.server.cli(&["DBSIZE"]), "0", "rank 0 has deleted what all wrote");
    for (share, mix, words) in [
        ("same", "{ insert = 100 }", "add or delete the same keys"),
        ("strided", "{ delete = 50, get = 50 }", "which keys another one deletes"),
    ] {
        let (code, text) = run(share, mix, "REFUSED")?;
        let plain = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(code == Some(2) && plain.contains(words), "{text}");
    }
    // What somebody else has there stays.
    redis.server.cli(&["SET", "taillight:theirs", "1"]);
    let (code, text) = run("same", "{ get = 50, update = 50 }", "REFUSED")?;
    assert_eq!(code, Some(3), "{text}");
    assert_eq!(redis.server.cli(&["KEYS", "*"]), "taillight:theirs");
    Ok(())
}

/// How often a server was asked for what gets and updates ask.
fn calls(redis: &Redis) -> u64 {
    let said = redis.server.cli(&["INFO", "commandstats"]);
    let of = |line: &str| {
        let (name, all) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
        let ours = ["get", "mget", "set", "mset"].contains(&name);
        all.split(',').next().filter(|_| ours)?.parse::<u64>().ok()
    };
    said.lines().filter_map(of).sum()
}

/// Of two runs that differ in their operations alone, the server counts as many more as all ranks together do: what else it is
/// asked (marks, records that are loaded) is the same in both.
#[test]
fn what_ranks_count_together_the_server_counts() -> Result<(), Failed> {
    let test = "what_ranks_count_together_the_server_counts";
    let tmp = tempfile::tempdir()?;
    let Some(redis) = Redis::start(test, tmp.path())?.filter(|_| has_mpirun(test)) else {
        return Ok(());
    };
    job(tmp.path(), redis.port, "same", "{ get = 50, update = 50 }")?;
    let mut counted = Vec::new();
    for operations in [600u64, 1_801] {
        redis.server.cli(&["CONFIG", "RESETSTAT"]);
        let (name, set) = (format!("OF-{operations}"), format!("run.operations={operations}"));
        let words = ["run", "job.toml", "--output", &name, "--set", &set];
        let (code, text) = said(&ranks(tmp.path(), 3, &words)?);
        assert_eq!(code, Some(0), "{text}");
        let summary = json(&tmp.path().join(&name).join("summary.json"))?;
        let ops = summary["ops"].as_object().into_iter().flat_map(|ops| ops.values());
        let ours: u64 = ops.filter_map(|op| op["count"].as_u64()).sum();
        assert_eq!(ours, operations, "{text}");
        counted.push(calls(&redis));
    }
    assert_eq!(counted[1] - counted[0], 1_201, "{counted:?}");
    Ok(())
}

/// The address means another server on each host: found by the mark, before the load.
#[test]
fn a_server_that_is_another_on_each_host_is_refused() -> Result<(), Failed> {
    let test = "a_server_that_is_another_on_each_host_is_refused";
    let tmp = tempfile::tempdir()?;
    let Some(one) = Redis::start(test, tmp.path())?.filter(|_| has_namespaces(test)) else {
        return Ok(());
    };
    let Some(other) = Redis::start(test, tmp.path())? else { return Ok(()) };
    // A mount namespace of its own, in which the name is the socket of its server.
    let name = tmp.path().join("server.sock");
    std::fs::write(&name, "")?;
    job(tmp.path(), 0, "same", "{ get = 50, update = 50 }")?;
    let text = std::fs::read_to_string(tmp.path().join("job.toml"))?;
    let text = text.replace("redis://127.0.0.1:0/0", &format!("unix:{}", name.display()));
    std::fs::write(tmp.path().join("job.toml"), text)?;
    let mut command = mpirun(tmp.path());
    for (n, redis) in [&one, &other].into_iter().enumerate() {
        if n > 0 {
            command.arg(":");
        }
        let script =
            format!("hostname h{n}; mount --bind {}/s server.sock; exec \"$0\" \"$@\"", redis.port);
        command.args(["-n", "1", "unshare", "--uts", "--mount", "--propagation", "private"]);
        command.args(["sh", "-ec", &script, common::MPI, "run", "job.toml", "--output", "RUN"]);
    }
    let (code, text) = said(&command.output()?);
    assert_eq!(code, Some(3), "{text}");
    assert!(text.contains("this host has another one of the same name"), "{text}");
    let left = [one, other].map(|redis| redis.server.cli(&["DBSIZE"]));
    assert_eq!(left, ["0", "0"]);
    Ok(())
}

/// Every rank keeps the target open between the runs of a series: load, then transactions on what was loaded.
#[test]
fn a_series_keeps_its_target_open_at_every_rank() -> Result<(), Failed> {
    let test = "a_series_keeps_its_target_open_at_every_rank";
    let tmp = tempfile::tempdir()?;
    let Some(redis) = Redis::start(test, tmp.path())?.filter(|_| has_mpirun(test)) else {
        return Ok(());
    };
    let path = format!("redis://127.0.0.1:{}/0", redis.port);
    let words = ["suite", "ycsb", "--driver", "redis", "--path", &path, "--threads", "2"];
    let more = ["--records", "300", "--operations", "600", "--output", "RUN"];
    let words = [&words[..], &more].concat();
    let (code, text) = said(&ranks(tmp.path(), 2, &words)?);
    assert_eq!(code, Some(0), "{text}");
    let left = redis.server.cli(&["INFO", "keyspace"]);
    assert_eq!(left, "# Keyspace", "each has deleted its own");
    Ok(())
}
