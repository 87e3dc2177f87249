//! Suites of phases over pretended hosts: one data set for all, a wear-out to one number, reads of what another host wrote.

mod common;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use common::{Failed, has_namespaces, hosts, json, said};
use taillight_rundir::ios::{ColumnSet, read_ios};

const HOSTS: [(&str, Option<i64>); 2] = [("h0", None), ("h1", Some(3_600))];

/// Of the suite, those with something to compare: all of it takes a minute.
const PHASES: [&str; 6] = [
    "mdtest-easy-write",
    "ior-hard-write",
    "mdtest-hard-write",
    "ior-hard-read",
    "mdtest-hard-stat",
    "mdtest-hard-delete",
];

fn some_phases() -> Result<String, Failed> {
    let whole = std::fs::read_to_string("../suites/io500.toml")?;
    let mut parts = whole.split("\n[[phase]]\n");
    let head = parts.next().ok_or("an empty suite")?;
    let wanted =
        |part: &&str| PHASES.iter().any(|name| part.starts_with(&format!("name = \"{name}\"\n")));
    let some: Vec<String> =
        parts.filter(wanted).map(|part| format!("\n[[phase]]\n{part}")).collect();
    if some.len() != PHASES.len() {
        return Err("the suite has other phases".into());
    }
    Ok(format!("{head}\n{}", some.concat()))
}

/// Which rank had which key or offset, of the operations of a run that succeeded; some twice where two had it.
fn done(run: &Path, keyed: bool) -> Result<BTreeMap<u64, Vec<u32>>, Failed> {
    let mut all: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
    for rank in 0..2 {
        let path = run.join(format!("rank-{rank:04}/ios.parquet"));
        read_ios(&path, ColumnSet::ALL, &mut |batch| {
            let rows = (0..batch.rows).map(|i| batch.row(i)).filter(|row| row.status.is_ok());
            let place = |row: &taillight_rundir::ios::Row| if keyed { row.key } else { row.offset };
            rows.filter_map(|row| place(&row)).for_each(|at| all.entry(at).or_default().push(rank));
            Ok(())
        })?;
    }
    Ok(all)
}

#[test]
fn io500_over_two_hosts_is_one_data_set() -> Result<(), Failed> {
    if !has_namespaces("io500_over_two_hosts_is_one_data_set") {
        return Ok(());
    }
    let tmp = tempfile::tempdir()?;
    let run = |name: &str| tmp.path().join("RUN").join(name);
    std::fs::write(tmp.path().join("some.toml"), some_phases()?)?;
    let words = ["suite", "some.toml", "--path", "IO", "--scale", "quick", "--runtime", "300ms"];
    let words = [&words[..], &["--output", "RUN"]].concat();
    // It is ended half-way, while files are made, which are taken back when it goes on.
    let log = std::fs::File::create(tmp.path().join("log"))?;
    let mut first =
        hosts(tmp.path(), &HOSTS, &words).stdout(log.try_clone()?).stderr(log).spawn()?;
    let begin = Instant::now();
    while !run("mdtest-hard-write").is_dir() && begin.elapsed().as_secs() < 50 {
        std::thread::sleep(Duration::from_millis(20));
    }
    // Between the making of the directory and the end of the phase, in which there are files.
    std::thread::sleep(Duration::from_millis(700));
    Command::new("kill").args(["-INT", &first.id().to_string()]).status()?;
    first.wait()?;
    let text = std::fs::read_to_string(tmp.path().join("log"))?;
    assert!(run("mdtest-hard-write").is_dir() && tmp.path().join("IO").is_dir(), "{text}");
    assert!(!run("mdtest-hard-delete").exists(), "it was to be ended before its end: {text}");
    let resume = || -> Result<(Option<i32>, String), Failed> {
        Ok(said(&hosts(tmp.path(), &HOSTS, &["suite", "--resume", "RUN"]).output()?))
    };
    let (mut code, mut text) = resume()?;
    // mpirun has ended, and may have done so before the ranks.
    for _ in 0..10 {
        if !text.contains("another process works on this series") {
            break;
        }
        std::thread::sleep(Duration::from_secs(1));
        (code, text) = resume()?;
    }
    assert_eq!(code, Some(0), "{text}");
    // Directories that were there when it went on stay, and are empty.
    for dir in std::fs::read_dir(tmp.path().join("IO"))? {
        let left: Vec<_> = std::fs::read_dir(dir?.path())?.collect();
        assert!(left.is_empty(), "{left:?}: {text}");
    }
    let lines = std::fs::read_to_string(run("phases.txt"))?;
    assert_eq!(lines.matches("[RESULT]").count(), PHASES.len(), "{lines}");
    for kind in ["mdtest-easy", "mdtest-hard"] {
        // Each file is made once, by one of both, and goes once.
        let mut made = done(&run(&format!("{kind}-write")), true)?;
        let more = run(&format!("{kind}-write-wear-out"));
        if more.is_dir() {
            made.extend(done(&more, true)?);
        }
        assert!(made.values().all(|ranks| ranks.len() == 1), "{kind}");
        if kind == "mdtest-easy" {
            continue;
        }
        let gone = done(&run(&format!("{kind}-delete")), true)?;
        assert!(gone.values().all(|ranks| ranks.len() == 1), "{kind}");
        assert!(gone.keys().all(|number| made.contains_key(number)), "{kind}");
        let read = done(&run(&format!("{kind}-stat")), true)?;
        assert_eq!(read.len(), gone.len(), "{kind}");
        let own = read.iter().filter(|(number, by)| made.get(number) == Some(by)).count();
        assert_eq!(own, 0, "{kind}: files that the host made itself");
    }
    // Every block of the shared file once, and read by the other host.
    let (made, read) = (done(&run("ior-hard-write"), false)?, done(&run("ior-hard-read"), false)?);
    assert_eq!(made.len(), 4 * ((32 << 20) / 47_008), "blocks of 2 ranks with 2 workers");
    assert!(made.values().all(|ranks| ranks.iter().filter(|r| **r == ranks[0]).count() <= 2));
    let other = |(at, by): (&u64, &Vec<u32>)| made.get(at).is_some_and(|wrote| wrote[0] != by[0]);
    assert!(read.len() == made.len() && read.iter().all(other), "{} blocks read", read.len());
    let summary = json(&run("mdtest-hard-write/summary.json"))?;
    assert_eq!(summary["totals"]["errors"], 0);
    Ok(())
}
