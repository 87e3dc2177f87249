//! The driver `jvm` through the binary: a binding of ours (`Records`), its faults, and databases behind JDBC. Without a
//! JDK, or without a jar that a test needs, it is skipped.

use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use crate::common::traced::explain;
use crate::common::{self, scratch, signal, start_measuring, taillight, text};
use crate::databases::postgres_server::PostgresServer;

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../driver/src/jvm")
}

fn javac(out: &Path, words: &[&str], files: &[PathBuf]) -> Option<()> {
    let mut javac = Command::new("javac");
    javac.args(["--release", "8", "-Xlint:-options", "-g:none", "-d"]).arg(out);
    let made = match javac.args(words).args(files).output() {
        Ok(made) => made,
        Err(e) => {
            eprintln!("skipped: jvm: no Java compiler: {e}");
            return None;
        }
    };
    assert!(made.status.success(), "{}", text(&made.stderr));
    Some(())
}

/// The binding `Records` with what it sees of YCSB, in `dir/classes`.
fn binding(dir: &Path) -> Option<()> {
    let path = sources().join("testing");
    let files = [path.join("Records.java")];
    javac(&dir.join("classes"), &["-sourcepath", &path.display().to_string()], &files)
}

/// A jar of the local Maven repository.
fn jar(group: &str, name: &str, version: &str) -> Option<String> {
    let home = PathBuf::from(std::env::var_os("HOME")?).join(".m2/repository");
    let file = format!("{group}/{name}/{version}/{name}-{version}.jar");
    let file = home.join(file);
    if !file.exists() {
        eprintln!("skipped: jvm: {name}-{version}.jar is not in the local Maven repository");
        return None;
    }
    Some(file.display().to_string())
}

/// Runs the driver with options, each `name=value`, and further words: the exit code and all that was said, on one
/// line.
fn run(dir: &Path, options: &[&str], words: &str) -> (i32, String) {
    let _ = std::fs::remove_dir_all(dir.join("out"));
    let mut command = taillight(dir);
    command.args(["run", "--driver", "jvm", "--output", "out"]);
    for option in options {
        command.args(["--set", &format!("target.options.{option}")]);
    }
    let done = command.args(words.split_whitespace()).output().expect("a run");
    let said = text(&done.stdout) + &text(&done.stderr);
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    (done.status.code().unwrap_or(-1), said)
}

fn manifest(dir: &Path) -> String {
    std::fs::read_to_string(dir.join("out/manifest.json")).expect("a manifest")
}

const RECORDS: [&str; 2] = ["class=Records", "classpath=classes"];
const SMALL: &str = "--ops 400 --set workload.0.keys.count=50 --set workload.0.block_size=100B";

/// As [`run`], with a property that makes the binding misbehave.
fn faulty(dir: &Path, fault: &str, mix: &str) -> (i32, String) {
    let property = format!("properties.fault={fault}");
    let words = format!("{SMALL} --set workload.0.mix={mix} --set run.drain_timeout=1s");
    run(dir, &[RECORDS[0], RECORDS[1], &property], &words)
}

#[test]
fn our_classes_are_those_of_their_sources() {
    let dir = scratch();
    let version = Command::new("javac").arg("-version").output();
    let version = version.map(|v| text(&v.stdout) + &text(&v.stderr)).unwrap_or_default();
    if !version.contains(" 17.") {
        eprintln!(
            "skipped: our_classes_are_those_of_their_sources: they are javac 17's, here is {version:?}"
        );
        return;
    }
    let own = sources().join("taillight");
    let names = ["Shim", "Field", "Ycsb", "Jdbc"];
    let files: Vec<_> = names.iter().map(|n| own.join(format!("{n}.java"))).collect();
    let path = sources().join("testing").display().to_string();
    javac(dir.path(), &["-sourcepath", &path], &files).expect("a compiler");
    for name in names {
        let made = std::fs::read(dir.path().join(format!("taillight/{name}.class"))).expect("made");
        let kept = std::fs::read(own.join(format!("{name}.class"))).expect("kept");
        assert!(
            made == kept,
            "{name}.class is not what javac --release 8 -g:none makes of its source"
        );
    }
}

#[test]
fn a_binding_runs_every_operation_and_is_verified() {
    let dir = scratch();
    let Some(()) = binding(dir.path()) else { return };
    let mix = "--set workload.0.mix={get=4,update=3,insert=1,scan=1,rmw=1}";
    let fields = "--set workload.0.value={fields=4,write_all=false,integrity=true}";
    for value in ["--set verify.mode=inline", fields] {
        let words = format!("{SMALL} --set workload.0.workers=2 {mix} {value}");
        let (code, said) = run(dir.path(), &RECORDS, &words);
        assert_eq!(code, 0, "{said}");
        assert!(said.contains("the bridge to the plug-in costs "), "{said}");
        let manifest = manifest(dir.path());
        for fact in ["bridge.cost", "jvm.version", "ycsb.core", "store.client"] {
            assert!(manifest.contains(&format!("\"{fact}\": \"")), "{fact}: {manifest}");
        }
    }
}

#[test]
fn the_real_core_of_ycsb_is_driven() {
    let dir = scratch();
    let Some(core) = jar("site/ycsb", "core", "0.17.0") else { return };
    let file = [sources().join("testing/Records.java")];
    let Some(()) = javac(&dir.path().join("own"), &["-cp", &core], &file) else { return };
    let path = format!("classpath=own:{core}");
    let (code, said) = run(dir.path(), &["class=Records", &path], SMALL);
    assert_eq!(code, 0, "{said}");
    assert!(manifest(dir.path()).contains("core-0.17.0.jar"), "{said}");
}

#[test]
fn what_cannot_be_is_named_before_anything_is_touched() {
    let dir = scratch();
    let Some(()) = binding(dir.path()) else { return };
    std::fs::create_dir(dir.path().join("empty")).expect("made");
    newer(dir.path());
    for (options, code, says) in [
        (&["classpath=classes"][..], 2, "needs a YCSB binding or a database"),
        (&["class=Nobody", "classpath=classes"], 2, "no class of this name on the class path"),
        (&["class=java.lang.String", "classpath=classes"], 2, "the class is no site.ycsb.DB"),
        (&["class=Records", "classpath=empty"], 2, "YCSB's core cannot be used"),
        (&["class=Records", "classpath=empty/*"], 2, "holds no jar"),
        (&["class=Records", "classpath=gone.jar"], 2, "is not there"),
        (&["class=Records", "classpath=classes", "jvm=nowhere"], 4, "no Java virtual machine"),
        (&["class=Records", "classpath=classes", "jvm_args=[\"-Xnonsense\"]"], 4, "does not start"),
        // The VM ends the process by itself where arguments do not go together.
        (
            &["class=Records", "classpath=classes", "jvm_args=[\"-Xms900m\",\"-Xmx90m\"]"],
            4,
            "does not start",
        ),
        (&["class=Records", "classpath=newer:classes"], 2, "UnsupportedClassVersionError"),
        (&["class=Records", "classpath=classes", "per_call=0"], 2, "1 to 1024"),
        (&["class=Records", "classpath=classes", "table=\"a\\u0000b\""], 2, "a zero byte"),
        (&["class=Records", "classpath=classes", "tabel=x"], 2, "did you mean `table`"),
    ] {
        let (exit, said) = run(dir.path(), options, "--ops 10");
        assert!(exit == code && said.contains(says), "{options:?}: {exit} {said}");
        // Where the VM has ended the process, nobody takes the new directory away.
        let ended = options.iter().any(|option| option.contains("Xmx90m"));
        assert!(ended || !dir.path().join("out").exists(), "{options:?}");
        let _ = std::fs::remove_dir_all(dir.path().join("out"));
    }
    let (exit, said) = faulty(dir.path(), "scanless", "{get=1,scan=1}");
    assert!(exit == 4 && said.contains("does not implement `scan`"), "{exit} {said}");
    let (exit, said) = faulty(dir.path(), "forgets", "get");
    assert!(exit == 4 && said.contains("does not give back what it was given"), "{exit} {said}");
    let (exit, said) = faulty(dir.path(), "needs", "get");
    assert!(exit == 4 && said.contains("Required property \"hosts\" missing"), "{exit} {said}");
    let (exit, said) = faulty(dir.path(), "exits-early", "get");
    assert!(exit == 5 && said.contains("System.exit(1)"), "{exit} {said}");
}

/// The binding in `dir/newer` as a compiler of a Java to come makes it: bytes 6 and 7 are the version.
fn newer(dir: &Path) {
    std::fs::create_dir(dir.join("newer")).expect("made");
    let mut class = std::fs::read(dir.join("classes/Records.class")).expect("compiled");
    class[6..8].copy_from_slice(&[0, 255]);
    std::fs::write(dir.join("newer/Records.class"), class).expect("written");
}

#[test]
fn what_a_binding_prints_and_starts_is_not_in_the_way() {
    let dir = scratch();
    let Some(()) = binding(dir.path()) else { return };
    // Its property, and a thread that is no daemon.
    let line = format!(
        "run --driver jvm --output out --set target.options.class=Records --set target.options.classpath=classes \
         --set target.options.properties.fault=threads {SMALL}"
    );
    let (out, err) = common::run_line(dir.path(), &line, 0);
    assert!(!out.contains("Records begins") && err.contains("Records begins"), "{out}\n{err}");
}

#[test]
fn java_ends_in_order_with_the_run() {
    let dir = scratch();
    let Some(()) = binding(dir.path()) else { return };
    let (code, said) = faulty(dir.path(), "leaves", "get");
    assert_eq!(code, 0, "{said}");
    assert!(dir.path().join("ended").exists(), "the hook was not run: {said}");
    assert!(!dir.path().join("left").exists(), "{said}");
}

#[test]
fn one_call_takes_many_operations() {
    let dir = scratch();
    let Some(()) = binding(dir.path()) else { return };
    let mix =
        "--set workload.0.mix={get=4,update=3,insert=1,scan=1,rmw=1} --set verify.mode=inline";
    let words = format!("{SMALL} {mix} --depth 32");
    let (code, said) = run(dir.path(), &RECORDS, &words);
    assert!(code == 2, "one at a time without per_call: {code} {said}");
    let many = [RECORDS[0], RECORDS[1], "per_call=32"];
    let (code, said) = run(dir.path(), &many, &words);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("an operation at depth 32"), "{said}");
    let (code, said) = run(dir.path(), &many, &format!("{words} --print-plan"));
    assert!(code == 0 && said.contains("end together"), "{said}");
}

#[test]
fn what_a_binding_keeps_or_changes_is_no_other_operations() {
    let dir = scratch();
    let Some(()) = binding(dir.path()) else { return };
    let mix = "--set workload.0.mix={get=2,update=1,insert=1}";
    let words = format!("{SMALL} {mix} --set workload.0.value={{fields=4,integrity=true}}");
    let collects = ["properties.fault=collects-inserts", "batched=true"];
    for fault in [&collects[..], &["properties.fault=changes"]] {
        let (code, said) = run(dir.path(), &[&RECORDS[..], fault].concat(), &words);
        assert_eq!(code, 0, "{fault:?}: {said}");
    }
}

#[test]
fn failures_are_records_and_their_words_are_kept() {
    let dir = scratch();
    let Some(()) = binding(dir.path()) else { return };
    let (exit, said) = faulty(dir.path(), "throws", "update");
    assert_eq!(exit, 6, "{said}");
    let words = "x java.lang.IllegalStateException: no leader for this key";
    assert!(manifest(dir.path()).contains(words), "{}", manifest(dir.path()));
    let (exit, said) = faulty(dir.path(), "batches", "update");
    assert_eq!(exit, 6, "{said}");
    assert!(manifest(dir.path()).contains("BATCHED_OK: "), "{said}");
    let (exit, said) = faulty(dir.path(), "exits", "update");
    assert!(exit == 5 && said.contains("System.exit(3)"), "{exit} {said}");
    let kept = taillight(dir.path()).args(["report", "out"]).output().expect("a report");
    assert!(dir.path().join("out/ios.parquet").exists(), "{}", text(&kept.stderr));
    let (exit, said) = faulty(dir.path(), "crashes", "update");
    assert!(exit == 5 && said.contains("the JVM crashed"), "{exit} {said}");
    common::run(dir.path(), &["report", "out"], 5);
    let count = common::summary(dir.path(), "out")["totals"]["count"].as_u64();
    assert!(count >= Some(100), "{count:?}");
}

/// What `explain` says for people, and of episodes in pauses of the JVM the evidence.
fn explained(dir: &Path) -> (String, Vec<String>) {
    let (value, answer) = explain(dir);
    let episodes = value["episodes"].as_array().expect("episodes").iter();
    let paused = episodes.filter(|e| e["layer"] == "jvm_pause");
    (answer, paused.map(|e| e["evidence"].to_string()).collect())
}

/// A full collection takes longer than what else happens on a busy machine.
const HEAVY: [&str; 2] =
    ["properties.ballast=6000000", "jvm_args=[\"-Xmx600m\",\"-XX:+UseSerialGC\"]"];
/// An interval is short, so that most of the run is still to come when the first one is shown.
const MANY: &str = "--set workload.0.keys.count=50 --set workload.0.block_size=100B --set run.warmup=200ms \
                    --set run.interval=200ms";

/// Starts a run on few records, with further words, and waits until it measures.
fn measuring(dir: &Path, options: &[&str], words: &str) -> Child {
    let options = options.iter().map(|option| format!("--set target.options.{option}"));
    let options = options.collect::<Vec<_>>().join(" ");
    start_measuring(dir, &format!("run --driver jvm --output out {options} {MANY} {words}"))
}

#[test]
fn a_collection_that_a_binding_asks_for_is_blamed_on_the_jvm_without_tracing() {
    let dir = scratch();
    let Some(()) = binding(dir.path()) else { return };
    let options = [RECORDS[0], RECORDS[1], HEAVY[0], HEAVY[1], "properties.fault=collects"];
    let words = "--ops 4000 --set workload.0.mix=update --set workload.0.keys.count=50";
    let (code, said) = run(dir.path(), &options, words);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("waited for a JVM pause to end"), "{said}");
    let (answer, episodes) = explained(dir.path());
    let named = |e: &String| e.contains("JVM pause") && e.contains("Pause Full (System.gc())");
    assert!(episodes.iter().any(named), "{answer}");
    assert!(answer.contains("options.jvm_args"), "{answer}");
    let summary = std::fs::read_to_string(dir.path().join("out/summary.json")).expect("a summary");
    assert!(summary.contains("\"jvm_pause\""), "{summary}");
    let page = std::fs::read_to_string(dir.path().join("out/report.html")).expect("a page");
    assert!(page.contains("JVM pause"), "not on the page");
    let words = ["explain", "out", "--json", "--without", "pause"];
    let (without, _) = common::run(dir.path(), &words, 0);
    let without: serde_json::Value = serde_json::from_str(&without).expect("JSON");
    let without = without["episodes"].as_array().expect("episodes");
    let layers: Vec<_> = without.iter().map(|e| e["layer"].as_str().expect("a layer")).collect();
    assert!(!layers.is_empty() && !layers.contains(&"jvm_pause"), "the rule finds it: {layers:?}");
}

/// At a rate, and of the slowest tenth: whatever is due in a collection, every 5 ms one, waits for its end, and
/// outweighs what else a busy machine slows down. As fast as it goes many of a million a second are outliers of that.
#[test]
fn a_collection_forced_from_outside_is_blamed_on_the_jvm() {
    let dir = scratch();
    let Some(()) = binding(dir.path()) else { return };
    let words = "--rate 200/s --runtime 60s --set qos.percentiles=[\"90\"]";
    let mut child = measuring(dir.path(), &[RECORDS, HEAVY].concat(), words);
    for _ in 0..3 {
        let jcmd = Command::new("jcmd").args([&child.id().to_string(), "GC.run"]).output();
        let asked = jcmd.expect("jcmd is beside javac");
        assert!(asked.status.success(), "{}{}", text(&asked.stdout), text(&asked.stderr));
    }
    signal(&child, "INT");
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
    let (answer, episodes) = explained(dir.path());
    let named = |e: &String| e.contains("JVM pause") && e.contains("(Diagnostic Command)");
    assert!(episodes.iter().any(named), "{answer}");
}

/// SQLite's JDBC driver: the class path, or none.
fn sqlite() -> Option<String> {
    let driver = jar("org/xerial", "sqlite-jdbc", "3.45.3.0")?;
    let logs = jar("org/slf4j", "slf4j-api", "1.7.36")?;
    Some(format!("classpath={driver}:{logs}"))
}

#[test]
fn a_database_behind_jdbc_is_driven_and_its_other_tables_are_left_alone() {
    let dir = scratch();
    let Some(path) = sqlite() else { return };
    let create =
        "jdbc.create=CREATE TABLE IF NOT EXISTS taillight (id TEXT PRIMARY KEY, value BLOB)";
    let scan = "jdbc.scan=SELECT value FROM taillight WHERE id >= ? ORDER BY id LIMIT ?";
    let database = ["jdbc.url=jdbc:sqlite:db.sqlite", &path, scan, create];
    let words = format!(
        "{SMALL} --set verify.mode=inline --set workload.0.mix={{get=4,update=3,insert=1,scan=1,rmw=1}}"
    );
    let (code, said) = run(dir.path(), &database, &words);
    assert!(
        code == 3 && said.contains("jdbc.create") && said.contains("--destroy taillight"),
        "{said}"
    );
    assert!(!dir.path().join("db.sqlite").exists(), "touched");
    let confirmed = format!("{words} --set target.destroy=true --destroy taillight");
    let (code, said) = run(dir.path(), &database, &confirmed);
    assert_eq!(code, 0, "{said}");
    let manifest = manifest(dir.path());
    assert!(manifest.contains("SQLite 3.45") && manifest.contains("SQLite JDBC"), "{manifest}");
    // The table is there now, and empty: nothing has to be confirmed.
    let (code, said) = run(dir.path(), &database[..3], &words);
    assert_eq!(code, 0, "{said}");
    for (option, code, says) in [
        ("jdbc.read=SELECT value FROM users WHERE id = ?", 3, "names another table"),
        ("jdbc.read=SELECT nothing FROM taillight WHERE id = ?", 4, "SQLITE_ERROR"),
        ("jdbc.url=jdbc:nobody:x", 4, "the database cannot be reached"),
    ] {
        let (exit, said) = run(dir.path(), &[database[0], database[1], option], SMALL);
        assert!(exit == code && said.contains(says), "{option}: {exit} {said}");
    }
}

/// A PostgreSQL server with a table, and the options that drive it by its JDBC driver; `None` where one is missing.
fn postgres(dir: &Path) -> Option<(PostgresServer, [String; 4])> {
    let driver = jar("org/postgresql", "postgresql", "42.7.4")?;
    let start = PostgresServer::start(&["fsync=off"]);
    let server = start.inspect_err(|why| eprintln!("skipped: jvm: {why}")).ok()?;
    server.psql("CREATE ROLE bench LOGIN PASSWORD 'not-for-show'");
    server.psql("CREATE TABLE taillight (id text PRIMARY KEY, value bytea)");
    server.psql("GRANT ALL ON taillight TO bench");
    let secrets = "user=bench\npassword=not-for-show\n";
    std::fs::write(dir.join("secrets"), secrets).expect("written");
    let options = [
        format!("jdbc.url=jdbc:postgresql://127.0.0.1:{}/postgres", server.port),
        format!("classpath={driver}"),
        "properties_file=secrets".to_owned(),
        "jdbc.scan=SELECT value FROM taillight WHERE id >= ? ORDER BY id LIMIT ?".to_owned(),
    ];
    Some((server, options))
}

#[test]
fn postgresql_behind_its_jdbc_driver_is_verified_and_its_versions_are_said() {
    let dir = scratch();
    let Some((server, options)) = postgres(dir.path()) else { return };
    let options = options.each_ref().map(String::as_str);
    let words = format!(
        "{SMALL} --set verify.mode=inline --set workload.0.workers=2 \
         --set workload.0.mix={{get=4,update=3,insert=1,scan=1,rmw=1}}"
    );
    let (code, said) = run(dir.path(), &options, &words);
    assert_eq!(code, 0, "{said}");
    let manifest = manifest(dir.path());
    for version in ["PostgreSQL 1", "PostgreSQL JDBC Driver 42.7.4", "OpenJDK"] {
        assert!(manifest.contains(version), "{version}: {manifest}");
    }
    assert!(!manifest.contains("not-for-show"), "a secret in the manifest");
    assert_eq!(server.psql("SELECT count(*) FROM taillight"), "0", "a run takes its records along");
    // Somebody else's records are neither read for ours nor lost.
    server.psql("INSERT INTO taillight VALUES ('user1', 'theirs')");
    let (code, said) = run(dir.path(), &options, SMALL);
    assert!(code == 3 && said.contains("--destroy taillight"), "{code} {said}");
    assert_eq!(server.psql("SELECT count(*) FROM taillight"), "1");
}

#[test]
fn a_server_that_is_killed_behind_jdbc_leaves_failed_records_with_its_words() {
    let dir = scratch();
    let Some((mut server, options)) = postgres(dir.path()) else { return };
    let options = options.each_ref().map(String::as_str);
    let child = measuring(dir.path(), &options[..3], "--runtime 2s");
    server.kill();
    let done = child.wait_with_output().expect("it ends");
    let said = text(&done.stderr);
    assert!(matches!(done.status.code(), Some(5 | 6)), "{:?} {said}", done.status);
    assert!(manifest(dir.path()).contains("PSQLException"), "{}", manifest(dir.path()));
}

#[test]
fn a_connection_that_is_lost_behind_jdbc_is_made_anew_and_counted() {
    let dir = scratch();
    let Some((server, options)) = postgres(dir.path()) else { return };
    let options = options.each_ref().map(String::as_str);
    let child = measuring(dir.path(), &options[..3], "--runtime 3s");
    let ended =
        "SELECT count(pg_terminate_backend(pid)) > 0 FROM pg_stat_activity WHERE usename = 'bench'";
    assert_eq!(server.psql(ended), "t");
    let done = child.wait_with_output().expect("it ends");
    assert_eq!(done.status.code(), Some(6), "{}", text(&done.stderr));
    let page = std::fs::read_to_string(dir.path().join("out/report.html")).expect("a page");
    assert!(page.contains("connected anew ") && !page.contains("connected anew 0 times"));
    let errors = common::summary(dir.path(), "out")["totals"]["errors"].as_u64();
    assert!(errors.is_some_and(|n| (1..100).contains(&n)), "the next operations go on: {errors:?}");
    assert_eq!(server.psql("SELECT count(*) FROM taillight"), "0", "a run takes its records along");
}

/// Three attempts are refused: with one of each operation four operations would fail.
#[test]
fn a_call_that_cannot_connect_tries_once_for_all_its_operations() {
    let dir = scratch();
    let file = [sources().join("testing/Away.java")];
    let Some(()) = javac(&dir.path().join("classes"), &[], &file) else { return };
    let options = ["class=Away", "classpath=classes", "jdbc.url=jdbc:away:", "per_call=8"];
    let words = format!("{SMALL} --set workload.0.mix=get --set workload.0.queue_depth=8");
    let (code, said) = run(dir.path(), &options, &words);
    assert_eq!(code, 6, "{said}");
    let errors = common::summary(dir.path(), "out")["totals"]["errors"].as_u64();
    assert!(errors.is_some_and(|n| (16..=25).contains(&n)), "{errors:?}: {said}");
    let manifest = manifest(dir.path());
    assert!(manifest.contains("the server is away"), "{manifest}");
}
