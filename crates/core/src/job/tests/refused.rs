//! Tables of jobs that are refused: the lines that are written, and how the message begins. Each message has a hint.

use super::*;
use crate::ErrorKind;

/// Lines below `[[workload]]`.
const WORKLOAD: &[(&str, &str)] = &[
    ("workers = 0", "workload.0.workers: there are no workers"),
    ("queue_depth = 0", "workload.0.queue_depth: a depth of zero"),
    ("queue_depth = 5000", "workload.0.queue_depth: 5000 is deeper"),
    ("mix = { read = 0 }", "workload.0.mix: the mix has no operation"),
    ("mix = { read = 0, write = 0 }", "workload.0.mix: the mix has no operation"),
    ("mix = {}", "workload.0.mix: the mix has no operation"),
    ("mix = \"trim\"", "workload.0.mix: driver `null` cannot trim"),
    ("block_size = \"0B\"", "workload.0.block_size: a block of zero"),
    ("block_size = []", "workload.0.block_size: a block of zero"),
    ("block_size = \"2GiB\"", "workload.0.block_size: a block of 2GiB is larger"),
    (
        "block_size = { min = \"4KiB\", max = \"10KiB\", step = \"4KiB\" }",
        "workload.0.block_size: 4KiB to 10KiB does not divide",
    ),
    (
        "mix = { read = 1, write = 1 }\nblock_size = { read = \"4KiB\" }",
        "workload.0.block_size: write is in the mix and has no size",
    ),
    (
        "mix = { read = 1, write = 1 }\nblock_size = { read = \"4KiB\", write = { write = \"4KiB\" } }",
        "workload.0.block_size.write: sizes by operation within",
    ),
    ("block_size = \"3KiB\"", "target.size: 1GiB does not divide into blocks of 3KiB"),
    ("access = { align = \"0B\" }", "workload.0.access.align: it is zero"),
    ("access = { offset = \"1B\" }", "workload.0.access.offset: 1B is not a multiple"),
    ("access = { offset = \"1GiB\" }", "workload.0.access: the extent"),
    ("access = { length = \"2GiB\" }", "workload.0.access: the extent"),
    (
        "access = { kind = \"hotspot\", hot = { space = 0.2, share = 0.0 } }",
        "workload.0.access.hot: share is 0: it must be above 0",
    ),
    (
        "access = { kind = \"exponential\", reach = { percentile = 100.0, space = 0.5 } }",
        "workload.0.access.reach: percentile is 100: it must be above 0 and below 100",
    ),
    (
        "access = { kind = \"zipf\", theta = nan }",
        "workload.0.access.theta: NaN is no exponent (at: job.toml:5)",
    ),
    ("access = { kind = \"zipf\", theta = inf }", "workload.0.access.theta: inf is no exponent"),
    ("access = { kind = \"zipf\", theta = -0.5 }", "workload.0.access.theta: -0.5 is no exponent"),
    (
        "access = { kind = \"zipfian\", theta = 1.0 }",
        "workload.0.access.theta: only zipf access has it",
    ),
    (
        "access = { kind = \"zipfian\", scatter = true }",
        "workload.0.access.scatter: only zipf, pareto and hotspot access can scatter",
    ),
    (
        "access = { kind = \"exponential\", scatter = true }",
        "workload.0.access.scatter: only zipf, pareto and hotspot access can scatter",
    ),
    (
        "access = { kind = \"normal\", deviation = 1.5 }",
        "workload.0.access.deviation: normal access needs a deviation above 0 and at most 1",
    ),
    (
        "access = { kind = \"normal\", deviation = 1e-13 }",
        "workload.0.access.deviation: normal access needs a deviation above 0 and at most 1",
    ),
    ("duration = \"0s\"", "workload.0.duration: it is zero"),
    ("operations = 0", "workload.0.operations: it is zero"),
    ("bytes = \"0B\"", "workload.0.bytes: it is zero"),
    ("start_delay = \"30s\"", "workload.0.start_delay: the run is over before, after 30s"),
    (
        "start_delay = \"1s\"\naccess = \"follow\"",
        "workload.0.start_delay: writers and readers of a stream begin together",
    ),
    ("target = \"b\"", "workload.0.target: there is no [targets.b]"),
    ("access = \"latest\"", "workload.0.access: latest access follows new keys"),
    (
        "workers = 60000\nqueue_depth = 4000\nblock_size = \"2GiB\"",
        "workload.0.workers: 60000 workers in all",
    ),
    ("access = \"strided\"", "workload.0.access.stride: strided access needs"),
    ("access = { stride = \"8KiB\" }", "workload.0.access.stride: only strided"),
    (
        "access = { kind = \"sequential\", stride = \"8KiB\", run_length = 4 }",
        "workload.0.access.stride: a sequence with a stride has runs",
    ),
    (
        "access = { kind = \"sequential\", run_length = 4 }",
        "workload.0.access.run_length: access in order",
    ),
    ("access = { kind = \"sequential\", cover = true }", "workload.0.access.cover: only random"),
    (
        "access = { cover = true }\nblock_size = [{ size = \"4KiB\", weight = 1 }]",
        "workload.0.access.cover: covering each block once",
    ),
    (
        "access = \"sequential\"\nworkers = 4\nblock_size = \"512MiB\"",
        "workload.0.workers: 4 workers share 2 blocks",
    ),
    ("arrival = { rate = \"1B/s\" }", "workload.0.arrival.rate: 1B/s rounds to zero operations"),
    ("arrival = { rate = \"9000/us\" }", "workload.0.arrival.rate: 9000/us is more"),
    ("arrival = \"constant\"", "workload.0.arrival: a constant arrival needs a rate"),
    ("arrival = \"poisson\"", "workload.0.arrival: a poisson arrival needs a rate"),
    ("sync = \"fsync:1\"", "workload.0.sync: there is no write"),
    (
        "arrival = { kind = \"burst\", rate = \"1/s\" }",
        "workload.0.arrival: burst runs at full speed",
    ),
    ("name = \"a/b\"", "workload.0.name: `a/b` cannot be a name"),
    ("[[workload]]\nname = \"w0\"", "workload.1.name: there are two workloads"),
    ("workers = 5000", "workload.0.workers: 5000 workers in all"),
    (
        "workers = 100\nqueue_depth = 100\n[trace]\nmode = \"all\"",
        "trace.mode: 10000 operations at a time",
    ),
    (
        "workers = 1\n[trace]\nthreshold = \"5ms\"",
        "trace.threshold: nothing is traced without trace.mode",
    ),
    ("workers = 1\n[trace]\nmode = \"all\"\nrung = \"procfs\"", "trace.rung: `procfs` was removed"),
    (
        "workers = 1\n[trace]\nmode = \"off\"\nbuffer = \"5KiB\"",
        "trace.buffer: 5120 bytes cannot be a ring",
    ),
    (
        "workers = 1\n[trace]\nmode = \"all\"\nbuffer = \"2KiB\"",
        "trace.buffer: 2048 bytes cannot be a ring",
    ),
    (
        "workers = 64\nqueue_depth = 4096\nblock_size = \"1MiB\"",
        "workload.0.queue_depth: the buffers",
    ),
];

/// Lines below `[[workload]]` of a store.
const STORE: &[(&str, &str)] = &[
    ("mix = \"delete\"", "workload.0.mix: driver `store` cannot delete"),
    ("mix = \"scan\"", "workload.0.mix: driver `store` cannot scan with these options"),
    ("mix = \"get\"\nkeys = { count = 0 }", "workload.0.keys.count: the key space is empty"),
    (
        "mix = \"get\"\nkeys = { start = 9223372036854775807, count = 10 }",
        "workload.0.keys: the key numbers go beyond 2^63",
    ),
    ("mix = \"update\"\nsync = \"fdatasync:1\"", "workload.0.sync: "),
    ("mix = \"update\"\nbatch = 9", "workload.0.batch: driver `store` has no update of several"),
    ("mix = \"insert\"\nbatch = 1001", "workload.0.batch: an operation covers 1000 records at m"),
    (
        "mix = \"get\"\nbatch = 9\nkeys = { count = 3 }",
        "workload.0.batch: there are 3 keys, less than a batch",
    ),
    (
        "mix = \"get\"\nbatch = 9\n[verify]\nmode = \"inline\"",
        "verify.mode: operations of several records are not verified",
    ),
    (
        "mix = \"update\"\npayload = { duplicate = 10 }\n[verify]\nmode = \"after\"",
        "workload.0.payload.duplicate: verified blocks are all different",
    ),
    (
        "mix = \"update\"\nblock_size = \"32B\"\n[verify]\nmode = \"after\"",
        "workload.0.block_size: 32B is too small to be verified",
    ),
];

/// Lines around `[search]` in a job on blocks.
const SEARCH: &[(&str, &str)] = &[
    (
        "[[workload]]\nname = \"a\"\n[[workload]]\nname = \"b\"\nRATE",
        "search: there are several workloads: which one is to be varied",
    ),
    ("[[workload]]\nRATE\nworkload = \"c\"", "search.workload: there is no workload called `c`"),
    (
        "[target.options]\nqueue = false\n[[workload]]\nDEPTH",
        "search: its largest probe cannot run: workload.0.queue_depth: 64, but driver",
    ),
    (
        "[[workload]]\narrival = { rate = \"5/s\" }\nDEPTH",
        "search.queue_depth: workload `w0` has a rate (5/s); its depth only limits",
    ),
    (
        "[[workload]]\narrival = { kind = \"ramp\", from = \"1/s\", to = \"9/s\", over = \"1s\" }\nRATE",
        "search.rate: workload `w0` has a schedule of its own",
    ),
    (
        "[search]\nqueue_depth = { from = 1, to = 5000 }\nREST",
        "search: its largest probe cannot run: workload.0.queue_depth: 5000 is deeper",
    ),
    ("[run]\noperations = 5\nRATE", "run.operations: the probes of a search end by time"),
    ("[run]\nduration = \"3s\"\nRATE", "run.duration: [search] says that a probe is measured for"),
    ("[run]\nrepeat = 2\nRATE", "run.repeat: a search decides by itself how often"),
];

/// A line below `[run]`.
const RUN: &[(&str, &str)] = &[
    ("duration = \"0s\"", "run.duration: it is zero"),
    ("operations = 0", "run.operations: it is zero"),
    ("interval = \"0s\"", "run.interval: it is zero"),
    ("interval = \"10us\"", "run.interval: a window of 10us is too short"),
    ("before = [\"flush\", \"compact\"]", "run.before: driver `null` cannot compact"),
    ("name = \"..\"", "run.name: `..` cannot be a name"),
];

/// Lines below `[target]`.
const TARGET: &[(&str, &str)] = &[
    ("size = \"0B\"", "target.size: the data set is empty"),
    ("[qos]\nnines = 12", "qos.nines: 12 is not between 1 and 9"),
    ("[qos]\nlooks = 0", "qos.looks: 0 is not between 1 and 100"),
    ("[gate]\nfigures = []", "gate.figures: the list is empty"),
    ("[gate]\nfigures = [\"read:p99\"]\nmargin = 1.0", "gate.margin: it is not between 0 and 1"),
    (
        "[gate]\nfigures = [\"read:iops\", \"read:iops\"]",
        "gate.figures.1: `read:iops` stands there",
    ),
    (
        "[gate]\nfigures = [\"write:p99\"]",
        "gate.figures.0: no measured workload has the operation of `write:p99`",
    ),
    ("[qos]\npercentiles = []", "qos.percentiles: the list is empty"),
    ("[capture]\nbudget = \"1KiB\"", "capture.budget: 1KiB is too small"),
    ("[capture]\nbudget = \"8GiB\"", "capture.budget: 8192 MiB, but free are 4096 MiB"),
    ("[run]\nseed = 18446744073709551615", "run.seed: "),
    ("[verify]\nmode = \"inline\"", "verify.mode: `null` does not keep what is written"),
    ("[verify]\nrun = \"abc\"", "verify.run: nothing is verified"),
];

fn all_refused(cases: &[(&str, &str)], job: impl Fn(&str) -> String) {
    for (lines, expected) in cases {
        let got = refused(&job(lines));
        assert!(got.starts_with(expected), "{lines}\n{got}");
        assert!(!got.ends_with("no hint"), "{lines}\n{got}");
    }
}

/// Lines of a second target, `|`, lines of the workload that drives it, and tables after it.
const TARGETS: &[(&str, &str)] = &[
    ("driver = \"nul\"|", "targets.b.driver: there is no driver `nul`"),
    ("driver = \"file\"|", "targets.b.driver: `file` beside `null`"),
    (
        "driver = \"null\"\noptions = { queue = false }|queue_depth = 2",
        "workload.1.queue_depth: 2, but driver `null` has no queue",
    ),
    ("driver = \"null\"|block_size = \"2MiB\"", "workload.1.block_size: a block of 2MiB is larger"),
    ("driver = \"null\"|block_size = \"3KiB\"", "targets.b.size: 1MiB does not divide"),
    ("driver = \"null\"\n[targets.c]\ndriver = \"null\"|", "targets.c: no workload drives it"),
    ("driver = \"null\"|[run]\nrepeat = 2", "run.repeat: a series has one target"),
    ("driver = \"null\"|access = \"follow\"", "workload.1.access: a stream has one target"),
];

#[test]
fn plans_that_cannot_work_are_refused() {
    all_refused(WORKLOAD, workload);
    all_refused(RUN, |line| format!("[run]\n{line}\n[target]\ndriver = \"null\""));
    all_refused(TARGET, |line| format!("[target]\ndriver = \"null\"\n{line}"));
    all_refused(STORE, |lines| format!("[target]\ndriver = \"store\"\n[[workload]]\n{lines}"));
    all_refused(SEARCH, |lines| {
        let rest = "at = \"99\"\nceiling = \"5ms\"";
        let search = |range: &str| format!("[search]\n{range}\n{rest}");
        let lines = lines
            .replace("RATE", &search("rate = { from = \"100/s\", to = \"5000/s\" }"))
            .replace("DEPTH", &search("queue_depth = { from = 1, to = 64 }"))
            .replace("REST", rest);
        format!("[target]\ndriver = \"null\"\nsize = \"1GiB\"\n{lines}")
    });
    all_refused(TARGETS, |lines| {
        let b = lines.split_once('|').map_or(("", lines), |(b, rest)| (b, rest));
        format!(
            "[target]\ndriver = \"null\"\nsize = \"1GiB\"\n[targets.b]\nsize = \"1MiB\"\n{}\n\
             [[workload]]\n[[workload]]\ntarget = \"b\"\n{}",
            b.0, b.1
        )
    });
    let none = [("name = \"x\"", "no driver given; write driver")];
    all_refused(&none, |line| format!("[run]\n{line}"));
}

#[test]
fn a_budget_that_cannot_hold_the_workers_is_refused_and_a_small_machine_is_not() {
    let job = |capture: &str, machine: u64| {
        let text = format!(
            "[target]\ndriver = \"null\"\n[[workload]]\nworkers = 100\n[capture]\n{capture}"
        );
        resolve_on(&text, machine).map_err(|e| (e.kind(), said(&e)))
    };
    let (kind, what) = job("budget = \"3MiB\"", 1 << 30).expect_err("too small");
    assert_eq!(kind, ErrorKind::Usage);
    assert!(what.contains("give it 4MiB"), "{what}");
    for machine in [0, 1 << 20, 1 << 30] {
        assert!(job("", machine).is_ok(), "{machine}");
    }
    assert!(job("budget = \"4MiB\"", 1 << 30).is_ok());
    assert!(job("mode = \"off\"", 0).is_ok());
}
