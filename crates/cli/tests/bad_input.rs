//! Bad input to commands, one case of each kind: one clear message, the right exit code, nothing touched.

use std::path::Path;
use std::process::Command;

use crate::common::{self, run, run_job, run_line, scratch};

fn untouched(dir: &Path) {
    let names: Vec<_> = std::fs::read_dir(dir)
        .expect("readable")
        .map(|e| e.expect("entry").file_name())
        .filter(|n| n != "job.toml")
        .collect();
    assert!(names.is_empty(), "{names:?}");
}

/// Arguments after `run`, exit code, and parts of the message: one of each kind. What else plans
/// can have wrong is in the tests of `core::job`.
const FLAGS: &[(&str, i32, &[&str])] = &[
    ("", 2, &["no job file and no driver given", "hint: taillight run JOB.toml"]),
    ("--driver nul", 2, &["no driver `nul`", "did you mean `null`?"]),
    ("absent.toml", 2, &["cannot read the job file", "absent.toml", "hint: "]),
    ("/", 2, &["cannot read the job file"]),
    ("--dept 3", 2, &["--dept", "--depth"]),
    ("--driver null --depth x", 2, &["--depth"]),
    ("--driver null --rw readwrites", 2, &["--rw", "randrw"]),
    ("--driver null --bs 4x", 2, &["(at: --bs)", "4KiB"]),
    ("--driver null --bs 4kb", 2, &["did you mean 4KiB or 4kB?", "(at: --bs)"]),
    ("--driver null --size 10KiB", 2, &["does not divide", "8KiB or 12KiB", "(at: --size)"]),
    ("--driver null --runtime -2s", 2, &["`-2s`", "(at: --runtime)"]),
    ("--driver null --warmup -1s", 2, &["`-1s`", "(at: --warmup)"]),
    ("--driver null --size -1GiB", 2, &["`-1GiB`", "(at: --size)"]),
    ("--driver null --rate -5/s", 2, &["`-5/s`", "(at: --rate)"]),
    ("--driver null --depth -1", 2, &["'-1' for '--depth <N>'", "hint: nothing here is below 0"]),
    ("--driver null --runtime --output out", 2, &["'--runtime <TIME>'", "a value is required"]),
    ("--driver null --runtime -- fio", 2, &["'--runtime <TIME>'", "a value is required"]),
    ("--driver null --runtime 5sec", 2, &["did you mean 5s?", "(at: --runtime)"]),
    ("--driver null --rate 1000", 2, &["--rate 1000B/s", "--rate 1000/s"]),
    ("--driver null --depth 9999", 2, &["deeper than driver `null` goes (4096)"]),
    ("--driver null --arrival constant", 2, &["needs a rate", "--rate 1000/s"]),
    ("--driver null --sync fsync:0", 2, &["fdatasync:N", "(at: --sync)"]),
    ("--driver null --direct", 2, &["no options", "--direct"]),
    ("--driver null --set workload.0.dept=3", 2, &["did you mean `queue_depth`?"]),
    ("--driver null --destroy /dev/x", 2, &["destroy = true"]),
    ("--driver null --output job.toml", 2, &["not a directory", "--output"]),
    ("--driver null --set capture.budget=900TiB", 4, &["capture.budget", "free"]),
    ("--driver null --workers 4000 --depth 4000 --bs 1MiB", 4, &["buffers", "fewer workers"]),
    ("--driver null --set capture.dir=no", 4, &["capture.dir cannot be used", "hint: "]),
    ("--driver null --set verify.mode=inline", 2, &["does not keep"]),
    ("--driver file --size 1MiB", 2, &["needs a path"]),
    (
        "--driver file --path d/ --size 1MiB --set target.options.engin=1",
        2,
        &["no option `engin`", "did you mean `engine`"],
    ),
    (
        "--driver file --path d/ --size 1MiB --depth 4 --set target.options.engine=sync",
        2,
        &["has no queue", "(at: --depth)", "target.options.engine=auto"],
    ),
    (
        "--driver file --path d/ --size 1MiB --rw read --sync fsync:1",
        2,
        &["workload.0.sync: there is no write", "(at: --sync)", "hint: "],
    ),
    (
        "--driver file --path d/ --size 1MiB --bs 256B --rw write",
        2,
        &["must be a multiple of 512 bytes", "hint: use 512B", "--direct=false"],
    ),
    (
        "--driver file --path d/ --size 900TiB --rw write",
        4,
        &["not enough space", "needed: 902 TiB", "available: ", "hint: free "],
    ),
    (
        "--driver file --path d/ --size 4096TiB --rw write --set verify.mode=after",
        4,
        &["1099511627776 blocks needs 8388608 MiB"],
    ),
    (
        "--driver file --path /dev/null --size 1MiB",
        2,
        &["not a file, a directory or a block device", "hint: "],
    ),
    ("--driver file --path f --size 1MiB --set run.before=[\"squash\"]", 2, &["squash"]),
    (
        "--driver file --path f --size 1MiB --set run.before=[\"flush\",\"compact\"]",
        2,
        &["driver `file` cannot compact", "leave this step out of run.before"],
    ),
    (
        "--driver memory --set workload.0.mix=get --set workload.0.batch=9",
        2,
        &["no get of several"],
    ),
    (
        "--driver rocksdb --path db --set workload.0.mix=update --sync fdatasync:1 \
         --set target.options.wal=false",
        2,
        &["target.options.wal = true"],
    ),
];

#[test]
fn flags_that_cannot_work() {
    let dir = scratch();
    std::fs::write(dir.path().join("job.toml"), "").expect("written");
    for (args, code, parts) in FLAGS {
        let (out, err) = run_line(dir.path(), &format!("run {args}"), *code);
        for part in *parts {
            assert!(err.contains(part), "{args}: no `{part}` in:\n{err}");
        }
        assert_eq!(out, "", "{args}");
        assert_eq!(err.matches("error:").count(), 1, "{args}: one message\n{err}");
        untouched(dir.path());
    }
}

/// Job files and what is said about them, one of each kind.
const JOBS: &[(&str, &[&str])] = &[
    ("[run\n", &["not valid TOML", "job.toml:1"]),
    ("[target]\ndriver = null\n", &["job.toml:2", "write it with quotes: driver = \"null\""]),
    ("[run]\nduratoin = \"1s\"\n", &["job.toml:2", "`duratoin` in `run`", "`duration`"]),
    ("[sweep]\n", &["the sweep has no field", "hint: write workload.0.queue_depth"]),
    ("[search]\n", &["search: missing field `at`", "job.toml:1"]),
    (
        "[target]\ndriver = \"sim\"\nsize = \"1GiB\"\n[search]\n\
         queue_depth = { from = 1, to = 5000 }\nat = \"99\"\nceiling = \"5ms\"\n",
        &["its largest probe cannot run", "hint: "],
    ),
    (
        "[target]\ndriver = \"redis\"\npath = \"unix:/no\"\n[[workload]]\nmix = \"scan\"\n",
        &["cannot scan", "it can scan with target.options.index = true"],
    ),
    (
        "[target]\ndriver = \"null\"\n[[workload]]\nmix = { read = -1 }\n",
        &["job.toml:4", "workload.0.mix.read", "a whole number"],
    ),
    (
        "[target]\ndriver = \"file\"\npath = \"f\"\nsize = \"1MiB\"\n[[workload]]\n\
         block_size = \"2MiB\"\n",
        &["job.toml:6", "larger than the extent of 1MiB", "hint: "],
    ),
    ("[run]\noperations = -1\n", &["run.operations", "a whole number"]),
];

#[test]
fn job_files_that_cannot_work() {
    let dir = scratch();
    for (text, parts) in JOBS {
        let (_, err) = run_job(dir.path(), text, 2);
        for part in *parts {
            assert!(err.contains(part), "{text}\nno `{part}` in:\n{err}");
        }
        untouched(dir.path());
    }
    std::fs::write(dir.path().join("job.toml"), [0xff, 0xfe, 0]).expect("written");
    let (_, err) = run(dir.path(), &["run", "job.toml"], 2);
    assert!(err.contains("not text"), "{err}");
    // A file of fio's is told like one of ours, by both commands.
    let fio = "[a]\nfilename=f\nsize=1m\nrw=read\niodept=3\n";
    std::fs::write(dir.path().join("a.fio"), fio).expect("written");
    for command in ["run", "import"] {
        let (out, err) = run(dir.path(), &[command, "a.fio"], 2);
        for part in ["unknown option `iodept`", "a.fio:5", "did you mean `iodepth`?"] {
            assert!(err.contains(part), "{command}: no `{part}` in:\n{err}");
        }
        assert_eq!((out.as_str(), err.matches("error:").count()), ("", 1), "{err}");
    }
    std::fs::remove_file(dir.path().join("a.fio")).expect("removed");
    untouched(dir.path());
}

#[test]
fn what_only_looks_strange_works() {
    let zipf = |theta| {
        format!(
            "[run]\noperations = 1000\n[[workload]]\naccess = {{ kind = \"zipf\", theta = {theta} }}\n"
        )
    };
    let many =
        "[run]\noperations = 5_000_000_000\nduration = \"100ms\"\n[capture]\nmode = \"off\"\n";
    // More operations than 32 bits hold: the time ends it. Then the harmonic series, where
    // 1 / (1 - theta) has no value.
    for text in [many.to_owned(), zipf("1.0"), zipf("1.7")] {
        let dir = scratch();
        let job = format!("{text}[target]\ndriver = \"null\"\nsize = \"1GiB\"\n");
        let (said, _) = run_job(dir.path(), &job, 0);
        assert!(said.contains("p99.9"), "{said}");
        let (plan, _) = run(dir.path(), &["run", "out/job.toml", "--print-plan"], 0);
        assert_eq!(plan.contains("operations = 5000000000"), text == many, "{plan}");
    }
}

/// A FIFO, the run directory, a device that is not there, a file that a program writes, an empty file of somebody else:
/// nothing waits, and nothing is written.
#[test]
fn targets_that_may_not_be_written_are_refused() {
    let dir = scratch();
    let at = |name: &str| dir.path().join(name);
    assert!(Command::new("mkfifo").arg(at("fifo")).status().expect("coreutils").success());
    std::fs::create_dir(at("data")).expect("made");
    std::fs::write(at("written"), [1; 65536]).expect("written");
    let writer = std::fs::File::options().append(true).open(at("written")).expect("open");
    let mut holder = Command::new("cat")
        .stdin(std::process::Stdio::piped())
        .stdout(writer)
        .spawn()
        .expect("coreutils");
    let held = format!("open for writing in cat (process {})", holder.id());
    let mut cases = vec![
        ("--path fifo --rw read", 2, "not a file, a directory or a block device"),
        ("--path data --size 1MiB --rw read --output ./data/", 2, "is the target itself"),
        ("--path new/ --size 1MiB --rw read --output new", 2, "is the target itself"),
        ("--path /dev/taillight-none --size 1MiB --rw write", 4, "no such device"),
        ("--path written --rw write --set target.destroy=true --destroy written", 3, &held),
    ];
    std::fs::write(at("empty"), "").expect("written");
    match std::os::unix::fs::chown(at("empty"), Some(65534), None) {
        Ok(()) => cases.push(("--path empty --size 1MiB --rw write", 3, "--destroy")),
        Err(_) => eprintln!("skipped: a file of another user: this user cannot make one"),
    }
    for (args, code, part) in cases {
        let (_, err) = run_line(dir.path(), &format!("run --driver file {args}"), code);
        assert!(err.contains(part), "{args}: no `{part}` in:\n{err}");
    }
    drop(holder.stdin.take());
    holder.wait().expect("its end");
    assert_eq!(std::fs::read(at("written")).expect("there"), [1; 65536]);
    assert_eq!(std::fs::metadata(at("empty")).expect("there").len(), 0);
    let names = std::fs::read_dir(dir.path()).expect("readable").count();
    assert_eq!((names, std::fs::read_dir(at("data")).expect("readable").count()), (4, 0));
}

#[test]
fn a_pipe_where_a_file_is_named_is_refused_without_a_wait() {
    let dir = scratch();
    let pipe = dir.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("coreutils").success());
    let replay = "--driver null --set workload.0.arrival={kind=\"replay\",file=\"pipe\"}";
    let https = "--path https://127.0.0.1:1/bench --set target.options.ca=pipe";
    for (line, code) in [
        (replay, 2),
        ("--driver sim --ops 9 --set target.options.state=pipe", 2),
        ("--driver null --ops 9 --set workload.0.block_size={file=\"pipe\"}", 2),
        ("--path http://127.0.0.1:1/bench", 4),
        (https, 4),
        ("--driver rocksdb --path db --set target.options.options_file=pipe", 4),
    ] {
        let mut command = common::taillight(dir.path());
        command.args(["run", "--runtime", "1s"]).args(line.split(' '));
        command.env_remove("AWS_ACCESS_KEY_ID").env_remove("AWS_SECRET_ACCESS_KEY");
        if line == https {
            command.env("AWS_ACCESS_KEY_ID", "a").env("AWS_SECRET_ACCESS_KEY", "b");
        } else {
            command.env("AWS_SHARED_CREDENTIALS_FILE", &pipe);
        }
        let (_, err) = common::ended(&command.output().expect("it starts"), code);
        assert!(err.contains("no regular file"), "{line}: {err}");
    }
}

#[test]
fn an_output_that_holds_something_is_left_alone() {
    let dir = scratch();
    let (_, err) = run(dir.path(), &["run", "--driver", "null", "--ops", "1", "--output", ""], 2);
    assert!(err.contains("--output names no directory"), "{err}");
    std::fs::create_dir(dir.path().join("out")).expect("made");
    std::fs::write(dir.path().join("out/mine.txt"), "mine").expect("written");
    let args = ["run", "--driver", "null", "--ops", "10", "--output", "out"];
    let (_, err) = run(dir.path(), &args, 2);
    assert!(err.contains("not empty") && err.contains("--output"), "{err}");
    let names: Vec<_> = std::fs::read_dir(dir.path().join("out")).expect("there").collect();
    assert_eq!(names.len(), 1);
}

#[test]
fn a_target_that_cannot_be_opened_leaves_no_run_directory() {
    let dir = scratch();
    std::fs::write(dir.path().join("precious"), "data").expect("written");
    let ends = |path: &str, code| {
        let words = "run --driver file --size 1MiB --rw randwrite --ops 10 --path";
        run_line(dir.path(), &format!("{words} {path}"), code).1
    };
    let refused = ends("precious", 3);
    assert!(refused.contains("hint: "), "{refused}");
    let text = std::fs::read_to_string(dir.path().join("precious")).expect("there");
    assert_eq!(text, "data");
    let absent = ends("no/such/dir/file", 4);
    assert!(absent.contains("error: "), "{absent}");
    assert!(!dir.path().join("taillight-runs").exists());
}

#[test]
fn other_commands_refuse_too() {
    let dir = scratch();
    let (_, err) = run(dir.path(), &["drivers", "fil"], 2);
    assert!(err.contains("did you mean `file`?"), "{err}");
    run(dir.path(), &["schema", "jobs"], 2);
    run(dir.path(), &["schema", "summary", "--markdown"], 2);
    let (_, err) = run(dir.path(), &["report", "absent"], 4);
    assert!(err.contains("no run directory"), "{err}");
    let (_, err) = run(dir.path(), &["report", "."], 2);
    assert!(err.contains("no manifest.json"), "{err}");
    run(dir.path(), &["report"], 2);
    run(dir.path(), &["rnu"], 2);
    run(dir.path(), &[], 2);
}
