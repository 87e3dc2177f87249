//! The driver `plugin` and `drivers --check` through the binary: examples of the SDK, the guard, and plug-ins with one
//! fault each.

use std::path::{Path, PathBuf};

use crate::common::{self, scratch, signal, start, start_measuring, summary, taillight, text};

/// Names of the faults of `plugin/faulty.c`, by number.
const FAULTS: [&str; 24] = [
    "NONE",
    "NOT_JSON",
    "NO_TABLE",
    "OTHER_ABI",
    "TOO_SHORT",
    "NO_SUBMIT",
    "TWICE",
    "NEVER",
    "CRASH",
    "KEEPS_NOTHING",
    "SHORT",
    "LONG",
    "NOOP",
    "EXITS",
    "ABORTS",
    "BYTES",
    "OTHER_TAG",
    "NO_POLL",
    "FULL",
    "EXITS_IN_OPEN",
    "HANGS_IN_OPEN",
    "SIGNALS",
    "BOTH",
    "ELSEWHERE",
];
/// How `sdk/examples/c/records.c` begins a file.
const MAGIC: &[u8] = b"taillight-example-records-1\n";

/// Compiles a C file of the repository into `dir`.
fn compile(dir: &Path, source: &str, name: &str, fault: Option<usize>) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut cc = std::process::Command::new("cc");
    cc.args([
        "-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-pthread", "-I",
    ]);
    cc.arg(root.join("sdk")).arg("-o").arg(dir.join(format!("{name}.so"))).arg(root.join(source));
    cc.args(fault.map(|n| format!("-DFAULT={n}")));
    let made = cc.output().expect("a C compiler");
    assert!(made.status.success(), "{}", text(&made.stderr));
    format!("./{name}.so")
}

fn example(dir: &Path, name: &str) -> String {
    compile(dir, &format!("sdk/examples/c/{name}.c"), name, None)
}

fn faulty(dir: &Path, fault: &str) -> String {
    let number = FAULTS.iter().position(|f| *f == fault).expect("a fault");
    compile(dir, "crates/cli/tests/plugin/faulty.c", fault, Some(number))
}

/// Runs a plug-in with further words: the exit code and all that was said.
fn run(dir: &Path, library: &str, words: &str) -> (i32, String) {
    let mut command = taillight(dir);
    command.args(["run", "--driver", "plugin", "--output", "out"]);
    command
        .args(["--set", &format!("target.options.library={library}")])
        .args(words.split_whitespace());
    let done = command.output().expect("a run");
    (done.status.code().unwrap_or(-1), text(&done.stdout) + &text(&done.stderr))
}

fn check(dir: &Path, library: &str) -> (i32, String) {
    let done = taillight(dir).args(["drivers", "--check", library]).output().expect("a check");
    (done.status.code().unwrap_or(-1), text(&done.stdout) + &text(&done.stderr))
}

#[test]
fn the_examples_run_and_keep_the_contract() {
    let dir = scratch();
    let null = example(dir.path(), "null");
    for depth in ["1", "16"] {
        let (code, said) = run(dir.path(), &null, &format!("--ops 1000 --depth {depth}"));
        assert_eq!(code, 0, "{said}");
        assert!(said.contains("the bridge to the plug-in costs "), "{said}");
        let out = dir.path().join("out");
        let summary = std::fs::read_to_string(out.join("summary.json")).expect("a summary");
        assert!(summary.contains("\"count\": 1000"), "{summary}");
        let manifest = std::fs::read_to_string(out.join("manifest.json")).expect("a manifest");
        assert!(
            manifest.contains("\"bridge.cost\": \"") && manifest.contains("null-c"),
            "{manifest}"
        );
        std::fs::remove_dir_all(out).expect("gone");
    }
    let records = example(dir.path(), "records");
    for library in [null, records] {
        let (code, said) = check(dir.path(), &library);
        assert_eq!(code, 0, "{said}");
        assert!(said.contains("keeps the contract") && said.contains("... kept"), "{said}");
    }
}

/// A store with one record that Taillight did not make.
fn foreign(dir: &Path) -> PathBuf {
    let path = dir.join("theirs");
    let mut bytes = MAGIC.to_vec();
    for n in [0u32, 6, 5] {
        bytes.extend_from_slice(&n.to_ne_bytes());
    }
    bytes.extend_from_slice(b"thesisprose");
    std::fs::write(&path, bytes).expect("written");
    path
}

#[test]
fn a_foreign_store_is_left_alone_and_nothing_of_it_is_deleted() {
    let dir = scratch();
    let records = example(dir.path(), "records");
    let path = foreign(dir.path());
    let before = std::fs::read(&path).expect("read");
    let words =
        "--path theirs --ops 100 --set workload.0.keys.count=50 --set workload.0.block_size=100B";
    let (code, said) = run(dir.path(), &records, words);
    assert_eq!(code, 3, "{said}");
    assert!(said.contains("did not make") && said.contains("--destroy theirs"), "{said}");
    assert_eq!(std::fs::read(&path).expect("read"), before);
    let words = format!("{words} --set target.destroy=true --destroy theirs");
    let (code, said) = run(dir.path(), &records, &words);
    assert_eq!(code, 0, "{said}");
    let after = std::fs::read(&path).expect("still there");
    assert!(after.starts_with(&before), "their record was touched");
    assert_eq!(
        check_again(dir.path(), &records),
        3,
        "nothing of ours is left that would let a run in"
    );
}

/// The exit code of a further run without confirmation.
fn check_again(dir: &Path, library: &str) -> i32 {
    std::fs::remove_dir_all(dir.join("out")).expect("gone");
    run(
        dir,
        library,
        "--path theirs --ops 100 --set workload.0.keys.count=50 --set workload.0.block_size=100B",
    )
    .0
}

#[test]
fn kept_records_are_read_again_and_verified() {
    let dir = scratch();
    let records = example(dir.path(), "records");
    let words = "--path kept --ops 200 --set workload.0.keys.count=50 --set workload.0.block_size=512B \
                 --set target.options.keep=true --set verify.mode=inline";
    for turn in 0..2 {
        let (code, said) = run(dir.path(), &records, words);
        assert_eq!(code, 0, "{said}");
        assert_eq!(said.contains("loading 50 records"), turn == 0, "{said}");
        std::fs::remove_dir_all(dir.path().join("out")).expect("gone");
    }
    assert!(dir.path().join("kept").exists());
}

#[test]
fn the_longest_keys_are_stored_and_deleted() {
    let dir = scratch();
    let records = example(dir.path(), "records");
    let words = "--path long --ops 200 --set workload.0.block_size=512B --set workload.0.keys.count=50 \
                 --set workload.0.keys.naming=binary --set workload.0.keys.size=256B";
    let (code, said) = run(dir.path(), &records, words);
    assert_eq!(code, 0, "{said}");
    let manifest = common::manifest(dir.path(), "out").to_string();
    assert!(manifest.contains("with a key of 256 B"), "{manifest}");
}

#[test]
fn what_is_no_plug_in_is_named_before_anything_is_touched() {
    let dir = scratch();
    std::fs::write(dir.path().join("text.so"), "hello").expect("written");
    std::fs::write(dir.path().join("empty.c"), "int nothing;\n").expect("written");
    let empty = dir.path().join("empty.c").display().to_string();
    let mut cases = vec![
        ("./absent.so".to_owned(), 4, "cannot be loaded"),
        ("./text.so".to_owned(), 4, "cannot be loaded"),
        (compile(dir.path(), &empty, "empty", None), 4, "exports no taillight_driver_v1"),
    ];
    for (fault, code, says) in [
        ("NOT_JSON", 4, "is no JSON"),
        ("NO_TABLE", 4, "does not speak this host's ABI"),
        ("OTHER_ABI", 4, "another ABI"),
        ("TOO_SHORT", 4, "another ABI"),
        ("NO_SUBMIT", 4, "lacks a function"),
        ("NOOP", 5, "does nothing (TL_NOOP)"),
    ] {
        cases.push((faulty(dir.path(), fault), code, says));
    }
    for (library, code, says) in cases {
        let (exit, said) = run(dir.path(), &library, "--ops 10");
        let words = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(exit == code && words.contains(says), "{library}: {exit}\n{said}");
        assert!(!dir.path().join("out").exists(), "{library}");
    }
    let (exit, said) =
        run(dir.path(), &faulty(dir.path(), "NONE"), "--ops 10 --set target.options.x=1");
    assert!(exit == 2 && said.contains("has no option `x`"), "{said}");
}

#[test]
fn tables_of_other_lengths_work() {
    let dir = scratch();
    for fault in ["SHORT", "LONG"] {
        let (code, said) = run(dir.path(), &faulty(dir.path(), fault), "--ops 100");
        assert_eq!(code, 0, "{fault}: {said}");
        std::fs::remove_dir_all(dir.path().join("out")).expect("gone");
    }
}

#[test]
fn a_plug_in_that_breaks_the_contract_in_a_run_is_named() {
    let dir = scratch();
    let (code, said) = run(dir.path(), &faulty(dir.path(), "TWICE"), "--ops 1000 --depth 8");
    let words = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        code == 5 && words.contains("ended an operation that is not in flight"),
        "{code}: {said}"
    );
    assert!(dir.path().join("out/ios.parquet").exists(), "what was measured is kept");
    std::fs::remove_dir_all(dir.path().join("out")).expect("gone");
    let never = faulty(dir.path(), "NEVER");
    let (code, said) =
        run(dir.path(), &never, "--ops 100 --depth 8 --runtime 1s --set run.drain_timeout=500ms");
    assert!([5, 6].contains(&code), "{code}: {said}");
}

#[test]
fn a_plug_in_that_lies_in_a_run_is_named_and_what_was_measured_is_kept() {
    let dir = scratch();
    for (fault, depth, says) in [
        ("BYTES", 1, "moved more bytes, or had more records, than it can have"),
        ("BYTES", 8, "moved more bytes, or had more records, than it can have"),
        ("OTHER_TAG", 1, "ended an operation that is not in flight"),
        ("OTHER_TAG", 8, "ended an operation that is not in flight"),
        ("BOTH", 1, "it accepts or ends more operations than it was given"),
        ("BOTH", 8, "it accepts or ends more operations than it was given"),
        ("NO_POLL", 1, "it has no poll, and did not end an operation inside submit"),
        ("NO_POLL", 8, "it has no poll, and did not end an operation inside submit"),
    ] {
        let words = format!("--ops 1000 --depth {depth}");
        let (code, said) = run(dir.path(), &faulty(dir.path(), fault), &words);
        let words = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(code == 5 && words.contains(says), "{fault} {depth}: {code}: {said}");
        let count = summary(dir.path(), "out")["totals"]["count"].as_u64();
        assert!(count >= Some(100) && count < Some(1000), "{fault} {depth}: {count:?}");
        std::fs::remove_dir_all(dir.path().join("out")).expect("gone");
    }
    let (code, said) = run(dir.path(), &faulty(dir.path(), "FULL"), "--ops 10");
    assert!(code == 5 && said.contains("it accepts no operation while none"), "{code}: {said}");
}

#[test]
fn a_plug_in_that_ends_the_process_is_named_and_what_was_measured_is_saved() {
    let dir = scratch();
    for (fault, says) in [
        ("CRASH", "the process crashed, with the plug-in ./CRASH.so"),
        ("ABORTS", "the process crashed, with the plug-in ./ABORTS.so"),
        ("EXITS", "the plug-in ./EXITS.so ended the process by exit()"),
    ] {
        let (code, said) = run(dir.path(), &faulty(dir.path(), fault), "--ops 1000");
        assert!(code == 5 && said.contains(says), "{fault}: {code}: {said}");
        common::run(dir.path(), &["report", "out"], 5);
        let count = summary(dir.path(), "out")["totals"]["count"].as_u64();
        assert!(count >= Some(100), "{fault}: {count:?}");
        std::fs::remove_dir_all(dir.path().join("out")).expect("gone");
    }
    let (code, said) = run(dir.path(), &faulty(dir.path(), "EXITS_IN_OPEN"), "--ops 10");
    assert!(code == 5 && said.contains("ended the process by exit()"), "{code}: {said}");
}

#[test]
fn a_run_is_ended_by_signals_whatever_its_plug_in_does_with_them() {
    let dir = scratch();
    let line = |fault: &str, words: &str| {
        let library = faulty(dir.path(), fault);
        format!("run --driver plugin --set target.options.library={library} {words}")
    };
    let words =
        line("SIGNALS", "--output out --runtime 60s --rate 1000/s --set run.interval=100ms");
    let mut child = start_measuring(dir.path(), &words);
    signal(&child, "INT");
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
    // A run whose plug-in does not come back is ended by a second signal.
    let words = line("HANGS_IN_OPEN", "--output hung --ops 10");
    let mut child = common::Ended(start(dir.path(), &words));
    let wait = |ms| std::thread::sleep(std::time::Duration::from_millis(ms));
    (0..3000).take_while(|_| !dir.path().join("hangs").exists()).for_each(|_| wait(20));
    let code = (0..50).find_map(|_| {
        signal(&child.0, "INT");
        wait(1200);
        child.0.try_wait().expect("a child").map(|status| status.code())
    });
    assert_eq!(code, Some(Some(130)));
}

#[test]
fn the_check_names_faults() {
    let dir = scratch();
    for (fault, code, says) in [
        ("CRASH", 5, "The plug-in crashed: signal 11 (SIGSEGV)"),
        ("EXITS", 5, "must not call exit"),
        ("TWICE", 7, "BROKEN: the plug-in breaks the contract"),
        ("KEEPS_NOTHING", 7, "reads return what was written ... BROKEN"),
        // Blocks that are not at its path, and of which it does not say that there are none: a write aborts.
        ("ELSEWHERE", 3, "NOT CHECKED: the store is left alone"),
    ] {
        let (exit, said) = check(dir.path(), &faulty(dir.path(), fault));
        assert!(exit == code && said.contains(says), "{fault}: {exit}\n{said}");
    }
}

#[test]
fn a_check_leaves_alone_what_runs_have_kept_and_what_is_named() {
    let dir = scratch();
    let records = example(dir.path(), "records");
    let words = "--path kept --ops 100 --set workload.0.keys.count=50 --set workload.0.block_size=100B \
                 --set target.options.keep=true";
    let (code, said) = run(dir.path(), &records, words);
    assert_eq!(code, 0, "{said}");
    let theirs = foreign(dir.path());
    let blocks = faulty(dir.path(), "KEEPS_NOTHING");
    for (library, path, says) in [
        (&records, "kept", "records that a run has kept"),
        (&records, "theirs", "did not make"),
        (&blocks, "device", "writes over all blocks"),
    ] {
        let before = std::fs::read(dir.path().join(path)).ok();
        let done = taillight(dir.path())
            .args(["drivers", "--check", library, "--path", path])
            .output()
            .expect("a check");
        let said = text(&done.stdout) + &text(&done.stderr);
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(!done.status.success() && said.contains(says), "{path}: {said}");
        assert_eq!(std::fs::read(dir.path().join(path)).ok(), before, "{path}");
    }
    assert!(theirs.exists());
}
