//! Bridges to foreign stores: the cost that a run prints beside what the same run measures, on stores that do nothing;
//! and a store through the JVM beside the same store without it.
//!
//! Measured is an I/O on the store that does nothing less one on `null`, which passes no bridge.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::{bare_figures, null, own_arm, stores};
use crate::pairs::{self, BenchArm, Bound, BoundCheck, Comparison, Figures};
use crate::taillight::{self, BenchRun};
use crate::{BenchSetup, child, files};

/// Operations handed over together.
const DEEP: u32 = 32;
/// Printed over measured: at least and at most.
const WITHIN: [Bound; 2] = [Bound::AtLeast(0.8), Bound::AtMost(1.2)];
/// Records of a store, and bytes of a value.
const RECORDS: u64 = 100_000;
const BYTES: u64 = 100;
/// Java's side of the comparisons.
const JAVA: &str = "benches/java";
const BINDINGS: &str = "crates/driver/src/jvm/testing";

/// A library in C.
pub fn c(setup: &BenchSetup) -> Result<Comparison> {
    let library = files::bench_path("null-c.so")?;
    cc(&["-shared", "-fPIC"], &library, &["sdk/examples/c/null.c"])?;
    let mut report =
        Comparison::titled("A library in C that does nothing, through driver `plugin`");
    libraries(&mut report, setup, &library)?;
    for (arm, metric) in [("plug-in d1", "printed_ns"), ("plug-in d32", "printed_ns")] {
        let values = report.column(arm, metric)?;
        check(&mut report, format!("{arm}: printed cost"), "ns", values, Bound::AtMost(15.0));
    }
    Ok(report)
}

/// A library in Go.
pub fn go(setup: &BenchSetup) -> Result<Comparison> {
    let library = files::bench_path("null-go.so")?;
    let made = fs::canonicalize(files::bench_path("")?)?.join("null-go.so");
    let mut go = Command::new("go");
    go.args(["build", "-buildvcs=false", "-buildmode=c-shared", "-o"]).arg(&made).arg(".");
    child::run(go.current_dir("sdk/examples/go")).context("go")?;
    let mut report =
        Comparison::titled("A library in Go that does nothing, through driver `plugin`");
    libraries(&mut report, setup, &library)?;
    Ok(report)
}

/// Programs in C and Python.
pub fn process(setup: &BenchSetup) -> Result<Comparison> {
    let setup = &null::short(setup);
    let served = files::bench_path("null-served")?;
    cc(&["-pthread"], &served, &["sdk/examples/c/serve.c", "sdk/examples/c/null.c"])?;
    let python = files::bench_path("null-python")?;
    fs::write(&python, "#!/bin/sh\nexec python3 sdk/examples/null.py\n")?;
    fs::set_permissions(&python, fs::Permissions::from_mode(0o755))?;
    let mut report = Comparison::titled("Programs that do nothing, through driver `process`");
    let command =
        |file: &Path| format!("--driver process --set target.options.command={}", file.display());
    let bare = null::arguments(setup, "randread", 1, 1);
    let keyed = format!(
        "{} --runtime {}s --set workload.0.mix=get --set workload.0.keys.count=1000 \
         --set workload.0.block_size={BYTES}B",
        command(&python),
        setup.seconds
    );
    let arms = vec![
        own_arm("null", bare.clone()),
        told("C", bare.replace("--driver null", &command(&served))),
        told("Python", keyed),
    ];
    report.arms = pairs::run(setup.pairs, arms)?;
    stated(&mut report, "C", "null")?;
    stated(&mut report, "Python", "null")?;
    let values = report.column("C", "printed_ns")?;
    check(&mut report, "C: printed cost".into(), "ns", values, Bound::AtMost(250.0));
    report.notes.push(
        "Each side spins on a CPU of its own; where another program has one of the two, both sleep, and a round says so by \
         its foreign cores. The store in Python has records, `null` blocks: what it costs to write a key is in its figure."
            .into(),
    );
    Ok(report)
}

/// A binding in Java.
pub fn jvm(setup: &BenchSetup) -> Result<Comparison> {
    let setup = &null::short(setup);
    let classes = javac("null-java", &["-sourcepath", BINDINGS], &format!("{BINDINGS}/Null.java"))?;
    let mut report =
        Comparison::titled("A YCSB binding that does nothing, through driver `jvm`, 10 x 100 B");
    let words = |more: &str| {
        format!(
            "--driver jvm --warmup 1s --runtime {}s --set target.options.class=Null \
             --set target.options.classpath={} --set target.options.stores_data=false \
             --set workload.0.block_size=100B --set workload.0.value={{fields=10}} {more}",
            setup.seconds,
            classes.display()
        )
    };
    let insert = "--set workload.0.mix=insert --set workload.0.keys.count=0";
    let get = "--set workload.0.mix=get --set workload.0.keys.count=1000";
    let many = format!("{get} --depth {DEEP} --set target.options.per_call={DEEP}");
    let arms = vec![
        own_arm("null", null::arguments(setup, "randread", 1, 1)),
        told("insert", words(insert)),
        told("read", words(get)),
        told("read by 32", words(&many)),
    ];
    report.arms = pairs::run(setup.pairs, arms)?;
    for (arm, share, most) in
        [("insert", 1.0, 300.0), ("read", 1.0, 450.0), ("read by 32", f64::from(DEEP), 280.0)]
    {
        let values = report.column(arm, "p50_ns")?.iter().map(|ns| ns / share).collect();
        let what = format!("{arm}: an operation, p50");
        check(&mut report, what, "ns", values, Bound::AtMost(most));
    }
    let null = report.column("null", "mean_ns")?;
    for arm in ["insert", "read"] {
        let measured = without_inside(&report, arm)?;
        let measured: Vec<f64> = measured.iter().zip(&null).map(|(m, null)| m - null).collect();
        let printed = report.column(arm, "printed_ns")?;
        let shares: Vec<f64> = printed.iter().zip(&measured).map(|(p, m)| p / m).collect();
        check(
            &mut report,
            format!("{arm}: mean less the binding's own and that of null"),
            "ns",
            measured,
            Bound::None,
        );
        for bound in WITHIN {
            let what = format!("{arm}: printed cost / measured");
            check(&mut report, what, "x", shares.clone(), bound);
        }
    }
    report.notes.push(
        "Means are those after a warm-up of 1 s, the binding's own time is over all. The operation that does nothing \
         carries the plan's key and its value, or gives back as much."
            .into(),
    );
    Ok(report)
}

/// RocksDB by its C API and through a binding of ours over YCSB's core, the same library.
pub fn rocksdb(setup: &BenchSetup) -> Result<Comparison> {
    let core = jar("site/ycsb", "core", "0.17.0")?;
    let rocks = jar("org/rocksdb", "rocksdbjni", "7.8.3")?;
    let path = format!("{core}:{rocks}");
    let classes = javac("rocks-java", &["-cp", &path], &format!("{JAVA}/Rocks.java"))?;
    let home = files::bench_path("")?;
    child::run(
        Command::new("jar").args(["xf", &rocks, "librocksdbjni-linux64.so"]).current_dir(&home),
    )?;
    let library = home.join("librocksdbjni-linux64.so");
    let (java, own) = (stores::fresh("rocks-java-db")?, stores::fresh("rocks-native-db")?);
    let load = |mix: &str, count: u64| {
        format!(
            "--runtime {}s --set workload.0.mix={mix} --set workload.0.keys.count={count} \
             --set workload.0.block_size={BYTES}B --set target.options.keep=true",
            setup.seconds
        )
    };
    let through = format!(
        "--driver jvm --set target.options.class=Rocks --set target.options.classpath={}:{path} \
         --set target.options.properties.dir={}",
        classes.display(),
        java.display()
    );
    let mut report = Comparison::titled(
        "RocksDB 7.8.3 by its C API, and through a YCSB binding of ours in the JVM: the same library",
    );
    // Loads it, and leaves the options in force.
    taillight::run(&format!("{through} {}", load("get", RECORDS)))?;
    let options = stores::newest_options(&java)?;
    let native = format!(
        "--driver rocksdb --path {} --set target.options.library={} \
         --set target.options.options_file={} --set target.options.block_cache=8MiB",
        own.display(),
        library.display(),
        options.display()
    );
    taillight::run(&format!("{native} {}", load("get", RECORDS)))?;
    let reading = load("get", RECORDS);
    report.arms = pairs::run(
        setup.pairs,
        vec![
            own_arm("native read", format!("{native} {reading}")),
            told("JVM read", format!("{through} {reading}")),
        ],
    )?;
    beside(&mut report, ["native read", "JVM read"])?;
    // Each write into a database of its own, empty at first.
    let fill = load("insert", 0);
    report.arms.extend(pairs::run(
        setup.pairs,
        vec![
            stores::settled(own_arm("native write", format!("{native} {fill}")), Some(own.clone())),
            stores::settled(told("JVM write", format!("{through} {fill}")), Some(java.clone())),
        ],
    )?);
    beside(&mut report, ["native write", "JVM write"])?;
    report.notes.push(
        "Stated is the printed cost of the bridge, and the client's: the time of the binding's calls by its own stamps, less \
         that of the native driver's."
            .into(),
    );
    stores::cleared(&[java, own])?;
    Ok(report)
}

/// JDBC on SQLite beside the same statements in a bare loop in Java.
pub fn jdbc(setup: &BenchSetup) -> Result<Comparison> {
    let driver = jar("org/xerial", "sqlite-jdbc", "3.45.3.0")?;
    let jars = format!("{driver}:{}", jar("org/slf4j", "slf4j-api", "1.7.36")?);
    let classes = javac("jdbc-java", &[], &format!("{JAVA}/BareJdbc.java"))?;
    let (ours, theirs) = (stores::fresh("jdbc-ours")?, stores::fresh("jdbc-bare")?);
    fs::create_dir_all(&ours)?;
    fs::create_dir_all(&theirs)?;
    let url =
        |dir: &Path| format!("jdbc:sqlite:{}/db?journal_mode=WAL&synchronous=OFF", dir.display());
    let java = format!("{}:{jars}", classes.display());
    let bare = |words: &str| {
        let words = format!("-cp {java} BareJdbc {words}");
        words.split(' ').map(str::to_owned).collect::<Vec<_>>()
    };
    let make = bare(&format!("{} create", url(&ours)));
    child::run(Command::new("java").args(&make))?;
    let fill = bare(&format!("{} insert {RECORDS} {BYTES} 0", url(&theirs)));
    child::run(Command::new("java").args(&fill))?;
    let words = |mix: &str| {
        format!(
            "--driver jvm --runtime {}s --set target.options.classpath={jars} \
             --set target.options.jdbc.url={} --set target.options.keep=true \
             --set workload.0.mix={mix} --set workload.0.keys.count={RECORDS} \
             --set workload.0.block_size={BYTES}B",
            setup.seconds,
            url(&ours)
        )
    };
    taillight::run(&words("get"))?;
    let mut report = Comparison::titled(&format!(
        "SQLite behind its JDBC driver, {RECORDS} records of {BYTES} B, beside the same statement in a bare loop in Java"
    ));
    let line = bare(&format!("{} read {RECORDS} {BYTES} {}", url(&theirs), setup.seconds));
    let shown = format!("java {}", line.join(" "));
    let read = move || bare_figures(Command::new("java").args(&line));
    let arms = vec![
        told("taillight read", words("get")),
        BenchArm { name: "bare read", command: shown, run: Box::new(read) },
    ];
    report.arms = pairs::run(setup.pairs, arms)?;
    report.ratio("iops", "taillight read", "bare read", Bound::AtLeast(0.9))?;
    report.notes.push(
        "No warm-up on either side, a log of writes, no syncs. The bare loop takes no time of an operation and keeps \
         nothing; its start is not in its rate."
            .into(),
    );
    stores::cleared(&[ours, theirs])?;
    Ok(report)
}

/// A library at depth 1 and 32 beside `null`.
fn libraries(report: &mut Comparison, setup: &BenchSetup, library: &Path) -> Result<()> {
    let setup = &null::short(setup);
    let driver = format!("--driver plugin --set target.options.library={}", library.display());
    for (depth, names) in [(1, ["null d1", "plug-in d1"]), (DEEP, ["null d32", "plug-in d32"])] {
        let bare = null::arguments(setup, "randread", depth, 1);
        let bridged = bare.replace("--driver null", &driver);
        let arms = vec![own_arm(names[0], bare), told(names[1], bridged)];
        report.arms.extend(pairs::run(setup.pairs, arms)?);
        stated(report, names[1], names[0])?;
    }
    Ok(())
}

/// A run on a bridge: its figures, with the cost that it printed.
fn told<'a>(name: &'static str, words: String) -> BenchArm<'a> {
    let command = taillight::command_line(&words);
    BenchArm { name, command, run: Box::new(move || run(&words)) }
}

fn run(words: &str) -> Result<Figures> {
    let dir = BenchRun::new("run")?;
    let done = child::run(&mut taillight::command(words, &dir))?;
    let mut figures = taillight::figures(&dir, &done)?;
    let manifest = fs::read_to_string(dir.path().join("manifest.json"))?;
    figures.insert("printed_ns", printed(&manifest).context("no cost of the bridge")?);
    let inside = fact(&manifest, "store.inside").and_then(first);
    figures.extend(inside.map(|ns| ("inside_ns", ns)));
    Ok(figures)
}

/// The text of a fact of a manifest.
fn fact<'a>(manifest: &'a str, name: &str) -> Option<&'a str> {
    let (_, after) = manifest.split_once(&format!("\"{name}\": \""))?;
    after.split_once('"').map(|(text, _)| text)
}

fn first(text: &str) -> Option<f64> {
    text.split(' ').next()?.parse().ok()
}

/// "25.7 ns an operation at depth 1, with a key of 23 B", ns; what is less than can be told is 1.
fn printed(manifest: &str) -> Option<f64> {
    let (cost, _) = fact(manifest, "bridge.cost")?.split_once(" an operation")?;
    match cost.split_once(' ')? {
        ("less", _) => Some(1.0),
        (number, "ns") => number.parse().ok(),
        (number, "us") => number.parse().ok().map(|us: f64| us * 1e3),
        (number, "ms") => number.parse().ok().map(|ms: f64| ms * 1e6),
        _ => None,
    }
}

fn check(
    report: &mut Comparison,
    what: String,
    unit: &'static str,
    values: Vec<f64>,
    bound: Bound,
) {
    report.checks.push(BoundCheck { what, unit, values, bound });
}

/// Printed cost and measured one, which is what an I/O takes beyond that of the arm `bare`.
fn stated(report: &mut Comparison, bridge: &str, bare: &str) -> Result<()> {
    let (with, without) = (report.column(bridge, "ns_per_io")?, report.column(bare, "ns_per_io")?);
    let measured: Vec<f64> = with.iter().zip(&without).map(|(a, b)| a - b).collect();
    let printed = report.column(bridge, "printed_ns")?;
    let shares: Vec<f64> = printed.iter().zip(&measured).map(|(p, m)| p / m).collect();
    check(report, format!("{bridge}: measured cost of the bridge"), "ns", measured, Bound::None);
    for bound in WITHIN {
        let what = format!("{bridge}: printed cost / measured");
        check(report, what, "x", shares.clone(), bound);
    }
    Ok(())
}

/// Mean latency less the time of the store's own calls.
fn without_inside(report: &Comparison, arm: &str) -> Result<Vec<f64>> {
    let (mean, inside) = (report.column(arm, "mean_ns")?, report.column(arm, "inside_ns")?);
    Ok(mean.iter().zip(&inside).map(|(mean, inside)| mean - inside).collect())
}

/// A store natively and through the JVM: by how much they differ, beside what is stated.
fn beside(report: &mut Comparison, [native, java]: [&'static str; 2]) -> Result<()> {
    let (own, all) = (report.column(native, "mean_ns")?, report.column(java, "mean_ns")?);
    let (inside, printed) = (report.column(java, "inside_ns")?, report.column(java, "printed_ns")?);
    let difference: Vec<f64> = all.iter().zip(&own).map(|(all, own)| all - own).collect();
    let client: Vec<f64> = inside.iter().zip(&own).map(|(inside, own)| inside - own).collect();
    let stated = printed.iter().zip(&client).map(|(bridge, client)| bridge + client);
    let shares: Vec<f64> = difference.iter().zip(stated).map(|(d, stated)| d / stated).collect();
    check(report, format!("{java} - {native}, mean"), "ns", difference, Bound::None);
    check(report, format!("{java}: the client's part"), "ns", client, Bound::None);
    for bound in WITHIN {
        let what = format!("{java} - {native}, beside what is stated");
        check(report, what, "x", shares.clone(), bound);
    }
    Ok(())
}

fn cc(flags: &[&str], out: &Path, sources: &[&str]) -> Result<()> {
    let mut cc = Command::new("cc");
    cc.args(["-std=c11", "-O2", "-I", "sdk"]).args(flags).arg("-o").arg(out).args(sources);
    child::run(&mut cc).map(|_| ())
}

/// Compiles into a directory of this name, which is returned.
fn javac(name: &str, words: &[&str], source: &str) -> Result<PathBuf> {
    let out = files::bench_path(name)?;
    let mut javac = Command::new("javac");
    javac.args(["-Xlint:-options"]).args(words).arg("-d").arg(&out).arg(source);
    child::run(&mut javac).context("javac (cargo xtask setup installs it)")?;
    Ok(out)
}

/// A jar of Maven's local repository.
fn jar(group: &str, name: &str, version: &str) -> Result<String> {
    let home = std::env::var("HOME").context("no HOME")?;
    let file = format!("{home}/.m2/repository/{group}/{name}/{version}/{name}-{version}.jar");
    ensure!(
        Path::new(&file).is_file(),
        "{file} is not there: mvn dependency:get -Dartifact={}:{name}:{version}",
        group.replace('/', ".")
    );
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_read_from_a_manifest() {
        let said = "{\"bridge.cost\": \"12.3 ns an operation at depth 1, with a key \
                    of 23 B and a value of 100 B\", \"store.inside\": \"38 ns an operation\"}";
        assert_eq!(printed(said), Some(12.3));
        assert_eq!(printed(&said.replace("12.3 ns an", "less than 1 ns an")), Some(1.0));
        assert_eq!(fact(said, "store.inside").and_then(first), Some(38.0));
        assert_eq!(printed("{}"), None);
    }
}
