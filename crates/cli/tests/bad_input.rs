//! Every bad input: one clear message, the right exit code, nothing touched.

mod common;

use std::path::Path;

use common::run;

fn scratch() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}

fn untouched(dir: &Path) {
    let names: Vec<_> = std::fs::read_dir(dir)
        .expect("readable")
        .map(|e| e.expect("entry").file_name())
        .filter(|n| n != "job.toml")
        .collect();
    assert!(names.is_empty(), "{names:?}");
}

/// Arguments after `run`, exit code, and parts of the message.
type Case = (&'static [&'static str], i32, &'static [&'static str]);

const FLAGS: &[Case] = &[
    (&[], 2, &["no job file and no driver given", "hint: taillight run JOB.toml"]),
    (&["--driver", "nul"], 2, &["no driver `nul`", "did you mean `null`?"]),
    (&["absent.toml"], 2, &["cannot read the job file", "absent.toml", "hint: "]),
    (&["/"], 2, &["cannot read the job file"]),
    (&["--dept", "3"], 2, &["--dept", "--depth"]),
    (&["--driver", "null", "--depth", "x"], 2, &["--depth"]),
    (&["--driver", "null", "--rw", "readwrite"], 2, &["--rw", "randrw"]),
    (&["--driver", "null", "--bs", "4096"], 2, &["(at: --bs)", "no unit", "4KiB"]),
    (&["--driver", "null", "--bs", "4K"], 2, &["`4K` is not a size", "4KiB"]),
    (&["--driver", "null", "--size", "16"], 2, &["target.size", "(at: --size)"]),
    (&["--driver", "null", "--size", "10KiB"], 2, &["does not divide", "8KiB or 12KiB"]),
    (&["--driver", "null", "--runtime", "30"], 2, &["run.duration", "30s"]),
    (&["--driver", "null", "--depth", "0"], 2, &["a depth of zero", "(at: --depth)"]),
    (&["--driver", "null", "--depth", "9999"], 2, &["deeper than driver `null` goes (4096)"]),
    (&["--driver", "null", "--workers", "0"], 2, &["no workers"]),
    (&["--driver", "null", "--rate", "0/s"], 2, &["a rate of zero"]),
    (&["--driver", "null", "--rate", "1/h"], 2, &["rounds to zero operations"]),
    (&["--driver", "null", "--rate", "10"], 2, &["not a rate", "1000/s"]),
    (&["--driver", "null", "--arrival", "constant"], 2, &["needs a rate", "--rate 1000/s"]),
    (&["--driver", "null", "--arrival", "poisson"], 2, &["needs a rate", "poisson"]),
    (&["--driver", "null", "--sync", "fsync:0"], 2, &["fdatasync:N", "(at: --sync)"]),
    (&["--driver", "null", "--direct"], 2, &["no options", "--direct"]),
    (&["--driver", "null", "--set", "workload.0.dept=3"], 2, &["did you mean `queue_depth`?"]),
    (&["--driver", "null", "--set", "workloads.0.workers=3"], 2, &["did you mean `workload`?"]),
    (&["--driver", "null", "--set", "workload.7.workers=3"], 2, &["workload.0"]),
    (&["--driver", "null", "--set", "run.interval"], 2, &["has no `=`", "PATH=VALUE"]),
    (&["--driver", "null", "--set", "run.interval=0s"], 2, &["run.interval: it is zero"]),
    (&["--driver", "null", "--set", "run.seed=-1"], 2, &["a whole number"]),
    (
        &["--driver", "null", "--workers", "128", "--depth", "64", "--set", "trace.mode=all"],
        2,
        &["8192 operations at a time", "4096"],
    ),
    (&["--driver", "null", "--destroy", "/dev/x"], 2, &["destroy = true"]),
    (&["--driver", "null", "--output", "job.toml"], 2, &["not a directory", "--output"]),
    (&["--driver", "null", "--set", "capture.budget=900TiB"], 4, &["capture.budget", "free"]),
    (
        &["--driver", "null", "--workers", "4000", "--depth", "4000", "--bs", "1MiB"],
        4,
        &["buffers", "fewer workers"],
    ),
    (&["--driver", "file", "--size", "1MiB"], 2, &["needs a path"]),
    (
        &["--driver", "file", "--path", "d/", "--size", "1MiB", "--set", "target.options.engin=1"],
        2,
        &["no option `engin`", "did you mean `engine`"],
    ),
    (
        &[
            "--driver",
            "file",
            "--path",
            "d/",
            "--size",
            "1MiB",
            "--depth",
            "4",
            "--set",
            "target.options.engine=sync",
        ],
        2,
        &["has no queue", "(at: --depth)", "target.options.engine=auto"],
    ),
    (&["--driver", "null", "--bs", "4k"], 2, &["did you mean 4KiB or 4kB?", "(at: --bs)"]),
    (
        &["--driver", "null", "--runtime", "5m"],
        2,
        &["did you mean 5min or 5ms?", "(at: --runtime)"],
    ),
    (
        &[
            "--driver", "file", "--path", "d/", "--size", "1MiB", "--rw", "read", "--sync",
            "fsync:1",
        ],
        2,
        &["workload.0.sync: there is no write", "(at: --sync)", "hint: "],
    ),
    (
        &["--driver", "file", "--path", "d/", "--size", "1MiB", "--bs", "256B", "--rw", "write"],
        2,
        &["must be a multiple of 512 bytes", "hint: use 512B", "--direct=false"],
    ),
    (
        &["--driver", "file", "--path", "d/", "--size", "900TiB", "--rw", "write"],
        4,
        &["not enough space", "needed: 902 TiB", "available: ", "hint: free "],
    ),
    (
        &["--driver", "file", "--path", "/dev/null", "--size", "1MiB"],
        2,
        &["not a file, a directory or a block device", "hint: "],
    ),
];

#[test]
fn flags_that_cannot_work() {
    let dir = scratch();
    std::fs::write(dir.path().join("job.toml"), "").expect("written");
    for (args, code, parts) in FLAGS {
        let all: Vec<&str> = std::iter::once("run").chain(args.iter().copied()).collect();
        let (out, err) = run(dir.path(), &all, *code);
        for part in *parts {
            assert!(err.contains(part), "{args:?}: no `{part}` in:\n{err}");
        }
        assert_eq!(out, "", "{args:?}");
        assert_eq!(err.matches("error:").count(), 1, "{args:?}: one message\n{err}");
        untouched(dir.path());
    }
}

/// Job files and what is said about them.
const JOBS: &[(&str, &[&str])] = &[
    ("[run\n", &["not valid TOML", "job.toml:1"]),
    ("[target]\ndriver = null\n", &["job.toml:2", "write it with quotes: driver = \"null\""]),
    ("[target]\ndriver = \"null\"\nsize = 1GiB\n", &["job.toml:3", "size = \"1GiB\""]),
    ("[run]\nduratoin = \"1s\"\n", &["job.toml:2", "`duratoin` in `run`", "`duration`"]),
    ("[run]\nduration = 5\n", &["job.toml:2", "run.duration", "no unit"]),
    ("[sweep]\n", &["[sweep] is not available yet", "job.toml:1"]),
    ("[steady]\n", &["[steady] is not available yet"]),
    ("[search]\n", &["search: missing field `at`", "job.toml:1"]),
    ("[target]\ndriver = \"null\"\n[[workload]]\nmix = \"scan\"\n", &["cannot scan", "it can: "]),
    (
        "[target]\ndriver = \"redis\"\npath = \"unix:/no\"\n[[workload]]\nmix = \"scan\"\n",
        &["cannot scan", "it can scan with target.options.index = true"],
    ),
    ("[target]\ndriver = \"null\"\n[[workload]]\nmix = { read = 0 }\n", &["weight above 0"]),
    (
        "[target]\ndriver = \"null\"\n[[workload]]\nmix = { read = 0, write = 0 }\n",
        &["job.toml:4", "weight above 0", "hint: "],
    ),
    ("[target]\ndriver = \"null\"\n[[workload]]\nmix = {}\n", &["weight above 0"]),
    (
        "[target]\ndriver = \"null\"\n[[workload]]\nmix = { read = -1 }\n",
        &["job.toml:4", "workload.0.mix.read", "a whole number"],
    ),
    (
        "[target]\ndriver = \"memory\"\n[[workload]]\nmix = \"get\"\nkeys = { count = 0 }\n",
        &["job.toml:5", "workload.0.keys.count", "key space is empty", "hint: "],
    ),
    (
        "[target]\ndriver = \"memory\"\n[[workload]]\nmix = \"get\"\nkeys = { count = -5 }\n",
        &["workload.0.keys.count", "a whole number"],
    ),
    (
        "[target]\ndriver = \"memory\"\n[[workload]]\nmix = \"get\"\n\
         keys = { start = 9223372036854775807, count = 10 }\n",
        &["beyond 2^63"],
    ),
    (
        "[target]\ndriver = \"null\"\n[[workload]]\naccess = { kind = \"zipf\", theta = nan }\n",
        &["job.toml:4", "workload.0.access.theta", "NaN is no exponent", "hint: "],
    ),
    (
        "[target]\ndriver = \"null\"\n[[workload]]\naccess = { kind = \"zipf\", theta = inf }\n",
        &["inf is no exponent"],
    ),
    (
        "[target]\ndriver = \"null\"\n[[workload]]\naccess = { kind = \"zipf\", theta = -0.5 }\n",
        &["-0.5 is no exponent"],
    ),
    (
        "[target]\ndriver = \"null\"\n[[workload]]\naccess = { kind = \"zipfian\", theta = 1.0 }\n",
        &["only zipf access has it"],
    ),
    (
        "[target]\ndriver = \"file\"\npath = \"f\"\nsize = \"1MiB\"\n[[workload]]\n\
         block_size = \"2MiB\"\n",
        &["job.toml:6", "larger than the extent of 1MiB", "hint: "],
    ),
    (
        "[target]\ndriver = \"file\"\npath = \"f\"\nsize = \"1GiB\"\n[[workload]]\n\
         access = { kind = \"random\", offset = \"1GiB\" }\n",
        &["the extent (0B from 1GiB)"],
    ),
    (
        "[target]\ndriver = \"file\"\npath = \"f\"\nsize = \"1GiB\"\n[[workload]]\n\
         access = { kind = \"random\", length = \"2GiB\" }\n",
        &["leaves the data set of 1GiB"],
    ),
    ("[target]\ndriver = \"file\"\npath = \"f\"\nsize = \"0B\"\n", &["target.size", "empty"]),
    ("[run]\noperations = -1\n", &["run.operations", "a whole number"]),
    ("[run]\noperations = 0\n[target]\ndriver = \"null\"\n", &["run.operations", "it is zero"]),
];

/// fio job files and what is said about them.
const FIO: &[(&str, &[&str])] = &[
    (
        "[a]\nfilename=f\nsize=1m\nrw=read\niodept=3\n",
        &["unknown option `iodept`", "a.fio:5", "did you mean `iodepth`?"],
    ),
    ("[a]\nfilename=f\nsize=1m\nrw=read\nnonsense=3\n", &["unknown option `nonsense`", "a.fio:5"]),
    ("[a]\nfilename=f\nsize=1m\ninclude other.fio\n", &["include", "a.fio:4"]),
    ("[a]\nfilename=${HOME}/f\nsize=1m\n", &["has a variable", "a.fio:2", "hint: "]),
    ("[a]\nfilename=f\nsize=`echo 1m`\n", &["has a variable", "a.fio:3"]),
];

#[test]
fn fio_files_that_cannot_work() {
    let dir = scratch();
    for (text, parts) in FIO {
        for words in [&["run", "a.fio"][..], &["import", "a.fio"]] {
            std::fs::write(dir.path().join("a.fio"), text).expect("written");
            let (out, err) = run(dir.path(), words, 2);
            for part in *parts {
                assert!(err.contains(part), "{words:?} {text}\nno `{part}` in:\n{err}");
            }
            assert_eq!(out, "");
            assert_eq!(err.matches("error:").count(), 1, "{err}");
            std::fs::remove_file(dir.path().join("a.fio")).expect("removed");
            let mut left = std::fs::read_dir(dir.path()).expect("readable");
            assert!(left.next().is_none(), "nothing was touched");
        }
    }
}

#[test]
fn what_only_looks_strange_works() {
    let dir = scratch();
    for (name, text) in [
        // More operations than 32 bits hold: the time ends it.
        (
            "many",
            "[run]\noperations = 5_000_000_000\nduration = \"100ms\"\n[capture]\nmode = \"off\"\n",
        ),
        // The harmonic series, where 1 / (1 - theta) has no value.
        (
            "one",
            "[run]\noperations = 1000\n[[workload]]\naccess = { kind = \"zipf\", theta = 1.0 }\n",
        ),
        (
            "steep",
            "[run]\noperations = 1000\n[[workload]]\naccess = { kind = \"zipf\", theta = 1.7 }\n",
        ),
    ] {
        let job = format!("{text}[target]\ndriver = \"null\"\nsize = \"1GiB\"\n");
        std::fs::write(dir.path().join("job.toml"), job).expect("written");
        let (plan, _) = run(dir.path(), &["run", "job.toml", "--print-plan"], 0);
        if name == "many" {
            assert!(plan.contains("operations = 5000000000"), "{plan}");
        }
        let (said, _) = run(dir.path(), &["run", "job.toml", "--output", name], 0);
        assert!(said.contains("IOPS"), "{said}");
    }
}

#[test]
fn job_files_that_cannot_work() {
    let dir = scratch();
    for (text, parts) in JOBS {
        std::fs::write(dir.path().join("job.toml"), text).expect("written");
        let (_, err) = run(dir.path(), &["run", "job.toml"], 2);
        for part in *parts {
            assert!(err.contains(part), "{text}\nno `{part}` in:\n{err}");
        }
        untouched(dir.path());
    }
    std::fs::write(dir.path().join("job.toml"), [0xff, 0xfe, 0]).expect("written");
    let (_, err) = run(dir.path(), &["run", "job.toml"], 2);
    assert!(err.contains("not text"), "{err}");
}

#[test]
fn an_output_that_holds_something_is_left_alone() {
    let dir = scratch();
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
    let base = ["run", "--driver", "file", "--size", "1MiB", "--rw", "randwrite", "--ops", "10"];
    let with = |path: &str| {
        let mut args = base.to_vec();
        args.extend(["--path", path]);
        args.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>()
    };
    let run = |args: Vec<String>, code| {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        run(dir.path(), &args, code).1
    };
    let refused = run(with("precious"), 3);
    assert!(refused.contains("hint: "), "{refused}");
    let text = std::fs::read_to_string(dir.path().join("precious")).expect("there");
    assert_eq!(text, "data");
    let absent = run(with("no/such/dir/file"), 4);
    assert!(absent.contains("error: "), "{absent}");
    assert!(!dir.path().join("taillight-runs").exists());
}

#[test]
fn reports_of_what_is_no_run() {
    let dir = scratch();
    let (_, err) = run(dir.path(), &["report", "absent"], 4);
    assert!(err.contains("no run directory"), "{err}");
    let (_, err) = run(dir.path(), &["report", "."], 4);
    assert!(err.contains("no manifest.json"), "{err}");
    std::fs::write(dir.path().join("manifest.json"), "{\"schema\": 1, ").expect("written");
    let (_, err) = run(dir.path(), &["report", "."], 4);
    assert!(err.contains("damaged"), "{err}");
    std::fs::write(dir.path().join("manifest.json"), "{\"schema\": 999}").expect("written");
    let (_, err) = run(dir.path(), &["report", "."], 4);
    assert!(err.contains("unknown version"), "{err}");
    run(dir.path(), &["report"], 2);
}

#[test]
fn other_commands_refuse_too() {
    let dir = scratch();
    let (_, err) = run(dir.path(), &["drivers", "fil"], 2);
    assert!(err.contains("did you mean `file`?"), "{err}");
    run(dir.path(), &["schema", "jobs"], 2);
    run(dir.path(), &["schema", "summary", "--markdown"], 2);
    run(dir.path(), &["rnu"], 2);
    run(dir.path(), &[], 2);
}
