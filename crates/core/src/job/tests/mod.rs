//! Tests of jobs with fake drivers: defaults, forms, `--set` and flags, and the words and places of error messages.

mod refused;
mod round_trip;

use super::*;
use crate::capability::{AdminAction, DriverFacts, TargetKind};
use crate::op::OpKind;
use crate::plan::{AccessKind, Arrival, BlockSize, Demand, Sync, TracingBackendChoice};
use crate::units::{Rate, Span};

const GIB: u64 = 1 << 30;

/// Drivers of blocks (with a queue, unless `queue = false`) and `store`, which keeps records.
struct FakeDrivers;

impl DriverView for FakeDrivers {
    fn names(&self) -> Vec<&'static str> {
        vec!["null", "file", "store"]
    }
    fn bind(&self, target: &TargetPlan) -> Result<BoundTarget> {
        if let Some(name) = target.options.keys().find(|k| *k != "queue") {
            return Err(Error::usage(format!("unknown option `{name}`")).of_field(name.as_str()));
        }
        let mut options = target.options.clone();
        let queue =
            options.entry("queue").or_insert(toml::Value::Boolean(true)).as_bool() == Some(true);
        Ok(BoundTarget { capabilities: capabilities(&target.driver, queue), options })
    }
}

fn capabilities(driver: &str, queue: bool) -> Capabilities {
    if driver == "store" {
        return Capabilities {
            ops: vec![OpKind::Get, OpKind::Insert, OpKind::Update],
            more_ops: vec![(OpKind::Scan, "target.options.queue = false")],
            max_depth: 1,
            batches: vec![OpKind::Get, OpKind::Insert],
            stores_data: true,
            sync_with: Some("target.options.queue = false"),
            facts: DriverFacts { kind: TargetKind::Keyed, ..DriverFacts::default() },
            ..Capabilities::default()
        };
    }
    Capabilities {
        ops: vec![OpKind::Read, OpKind::Write],
        max_depth: if queue { 4096 } else { 1 },
        sync: queue,
        stores_data: driver == "file",
        admin: vec![AdminAction::Flush],
        ..Capabilities::default()
    }
}

fn machine() -> MachineMemory {
    MachineMemory { capture_budget: ByteSize(GIB), free_memory: ByteSize(4 * GIB) }
}

fn no_file(path: &str) -> std::io::Result<String> {
    panic!("{path} is read")
}

fn resolve(text: &str) -> Result<Plan> {
    resolve_on(text, GIB)
}

/// Resolves `text` on a machine with a capture budget of `capture` bytes.
fn resolve_on(text: &str, capture: u64) -> Result<Plan> {
    let machine = MachineMemory { capture_budget: ByteSize(capture), ..machine() };
    Job::from_toml(text, "job.toml")?.resolve(&FakeDrivers, machine, &no_file)
}

/// The whole message with its hint.
fn refused(text: &str) -> String {
    said(&resolve(text).expect_err(text))
}

fn said(e: &Error) -> String {
    format!("{e}; {}", e.hint_text().unwrap_or("no hint"))
}

/// A job for the fake driver with these lines below `[[workload]]`.
fn workload(lines: &str) -> String {
    format!("[target]\ndriver = \"null\"\nsize = \"1GiB\"\n[[workload]]\n{lines}\n")
}

#[test]
fn whole_huge_pages_of_the_buffers_count_before_the_run() {
    let job = |driver: &str, more: &str| {
        format!("[target]\ndriver = \"{driver}\"\n{more}\n[[workload]]\nworkers = 1600\n")
    };
    // 3,200 MiB of 4 GiB are theirs; a driver that stores nothing has none.
    assert_eq!(resolve(&job("file", "")).unwrap().capture.budget, ByteSize(448 << 20));
    assert_eq!(resolve(&job("null", "")).unwrap().capture.budget, ByteSize(GIB));
    let written = "[capture]\nbudget = \"1GiB\"";
    let said = refused(&job("file", written));
    let parts = ["capture.budget: 1024 MiB, but free are 4096 MiB", "buffers can take 3200 MiB"];
    assert!(parts.iter().all(|part| said.contains(part)), "{said}");
    assert!(resolve(&job("null", written)).is_ok());
}

#[test]
fn the_smallest_job_gets_the_defaults() {
    let plan = resolve("[target]\ndriver = \"null\"\n").unwrap();
    assert_eq!(plan.run.name, "job");
    assert_eq!(plan.run.duration.unwrap().to_string(), "30s");
    assert_eq!(plan.run.warmup.0, 0);
    assert_eq!(plan.capture.budget, ByteSize(GIB));
    let w = &plan.workloads[0];
    assert_eq!((w.name.as_str(), w.workers, w.queue_depth), ("w0", 1, 1));
    assert_eq!(w.access.kind, AccessKind::Random);
    assert_eq!(w.access.align, ByteSize(4096));
    assert_eq!(w.arrival, Arrival::Burst);
    assert_eq!(plan.qos.percentiles.len(), 16);
    assert_eq!(plan.qos.percentiles.last().unwrap().to_string(), "99.9999999");
}

#[test]
fn short_and_full_forms_are_read() {
    let plan = resolve(&workload(
        "mix = { write = 30, read = 70 }\nblock_size = [{ size = \"4KiB\", weight = 3 }, \
         { size = \"6KiB\", weight = 1 }]\naccess = \"reverse\"\n\
         arrival = { rate = \"1000/s\" }\nsync = \"fdatasync:8\"",
    ))
    .unwrap();
    let w = &plan.workloads[0];
    assert_eq!(w.mix[0].op, OpKind::Read);
    assert_eq!(w.access.align, ByteSize(2048));
    assert_eq!(w.access.kind, AccessKind::Reverse);
    assert_eq!(w.sync, Sync::Fdatasync(8));
    assert!(matches!(w.arrival, Arrival::Constant { .. }));
}

#[test]
fn block_sizes_by_operation() {
    let text = "mix = { read = 3, write = 1 }\nblock_size = { read = \"4KiB\", write = { min = \"8KiB\", \
                max = \"24KiB\", step = \"8KiB\" } }";
    let plan = resolve(&workload(text)).unwrap();
    let w = &plan.workloads[0];
    assert_eq!((w.block_size.min(), w.block_size.max(), w.access.align.0), (4096, 24576, 4096));
    assert_eq!(w.mean_bytes(), (3.0 * 4096.0 + 16384.0) / 4.0);
    let beside = resolve(&workload("block_size = { file = \"x\", spread = \"log\" }")).unwrap_err();
    assert!(beside.to_string().contains("no min, max, step or spread"), "{beside}");
    // As a plan is kept.
    let kept = serde_json::to_string(&w.block_size).unwrap();
    assert_eq!(serde_json::from_str::<BlockSize>(&kept).unwrap(), w.block_size);
    // Of one operation they are its own, and those of others are left out.
    let one = resolve(&workload(&text.replace("read = 3, ", ""))).unwrap();
    assert!(matches!(one.workloads[0].block_size, BlockSize::Range(_)));
}

#[test]
fn a_block_size_file_is_read_by_the_caller() {
    let job = workload("block_size = { file = \"sizes.csv\" }");
    let job = Job::from_toml(&job, "job.toml").unwrap();
    let read = |text: std::io::Result<&'static str>| {
        let text = std::cell::Cell::new(Some(text.map(str::to_owned)));
        job.resolve(&FakeDrivers, machine(), &|path| {
            assert_eq!(path, "sizes.csv");
            text.take().expect("read once")
        })
    };
    let plan = read(Ok("4KiB,3\n8KiB,1\n")).unwrap();
    assert_eq!(
        (plan.workloads[0].block_size.min(), plan.workloads[0].access.align.0),
        (4096, 4096)
    );
    let missing = said(&read(Err(std::io::ErrorKind::NotFound.into())).unwrap_err());
    assert!(missing.starts_with("workload.0.block_size: sizes.csv: "), "{missing}");
    assert!(missing.contains("(at: job.toml:5)"), "{missing}");
    let empty = said(&read(Ok("4KiB,0\n")).unwrap_err());
    assert!(empty.contains("no size has a count above 0"), "{empty}");
}

#[test]
fn the_tracing_backend_has_an_older_name() {
    for key in ["rung", "backend"] {
        let job = workload(&format!("[trace]\nmode = \"all\"\n{key} = \"perf\""));
        let plan = resolve(&job).unwrap();
        assert_eq!(plan.trace.backend, TracingBackendChoice::Perf);
    }
    // Plans of old runs name a backend that is no more.
    let mut plan = serde_json::to_value(resolve(&workload("")).unwrap()).unwrap();
    plan["trace"]["rung"] = "procfs".into();
    let plan: Plan = serde_json::from_value(plan).unwrap();
    assert_eq!(plan.trace.backend, TracingBackendChoice::Procfs);
}

#[test]
fn ends_replace_the_default_duration() {
    let job = "[run]\noperations = 5\n[target]\ndriver = \"null\"";
    assert_eq!(resolve(job).unwrap().run.duration, None);
}

#[test]
fn unknown_names_come_with_place_and_suggestion() {
    let cases = [
        (
            workload("blok_size = \"4KiB\""),
            "unknown field `blok_size` in `workload.0` (at: job.toml:5); did you mean `block_size`",
        ),
        (
            workload("access = { kind = \"random\", aling = \"4KiB\" }"),
            "unknown field `aling` in `workload.0.access` (at: job.toml:5); did you mean `align`",
        ),
        (
            workload("access = \"randm\""),
            "unknown word `randm` for `workload.0.access` (at: job.toml:5); did you mean `random`",
        ),
        (
            workload("mix = \"raed\""),
            "unknown word `raed` for `workload.0.mix` (at: job.toml:5); did you mean `read`",
        ),
        ("[traget]\n".into(), "unknown field `traget` (at: job.toml:1); did you mean `target`"),
        (
            "[target]\ndriver = \"nul\"".into(),
            "target.driver: there is no driver `nul` (at: job.toml:2); did you mean `null`",
        ),
        (
            "[target]\ndriver = \"null\"\n[target.options]\n\ndirekt = true".into(),
            "unknown option `direkt` (at: job.toml:5)",
        ),
        (
            "[sweep]\nx = 1".into(),
            "sweep: a sweep needs a list of values, like x = [1, 2, 4] (at: job.toml:1)",
        ),
    ];
    for (text, expected) in cases {
        let got = refused(&text);
        assert!(got.starts_with(expected), "{got}");
    }
}

#[test]
fn units_and_types_are_asked_for() {
    let cases = [
        (
            workload("block_size = 4096"),
            "workload.0.block_size: `4096` has no unit; expected a size with a unit",
        ),
        (
            "[run]\nduration = 30".into(),
            "run.duration: `30` has no unit; expected a time with a unit, like \"500us\" or \
             \"30s\" (at: job.toml:2)",
        ),
        (
            "[run]\nduration = \"30\"".into(),
            "run.duration: `30` is not a time; write a number and a unit",
        ),
        ("[run]\nduration = 30s".into(), "not valid TOML: "),
        ("[run]\nseed = -1".into(), "run.seed: `-1` is not a whole number, 0 or above"),
        (
            workload("mix = -5"),
            "workload.0.mix: `-5` is not the name of an operation like \"read\", or a table",
        ),
        (
            workload("mix = { read = -5 }"),
            "workload.0.mix.read: `-5` is not a whole number, 0 or above",
        ),
        (
            workload("mix = { read = 5000000000 }"),
            "workload.0.mix.read: `5000000000` is not a whole number, at most 4294967295",
        ),
        (
            workload("block_size = { min = \"4KiB\", max = \"8KiB\" }"),
            "workload.0.block_size: missing field `step` (at: job.toml:5)",
        ),
        (
            workload("arrival = { rate = \"0/s\" }"),
            "workload.0.arrival.rate: `0/s` is a rate of zero",
        ),
        (workload("arrival = { rate = \"10\" }"), "workload.0.arrival.rate: `10` is not a rate"),
        (workload("sync = \"fsync:0\""), "workload.0.sync: "),
        (
            workload("keys = { count = -5 }"),
            "workload.0.keys.count: `-5` is not a whole number, 0 or above",
        ),
        (
            "[qos]\npercentiles = [99.9]".into(),
            "qos.percentiles.0: `99.9` is not a percentile as text",
        ),
        ("[qos]\npercentiles = [\"101\"]".into(), "qos.percentiles.0: `101` is not a percentile"),
        (
            "[qos]\nceilings = [{ ceiling = \"1ms\", at = \"x\" }]".into(),
            "qos.ceilings.0.at: `x` is not a percentile",
        ),
        (
            workload("[qos]\nceilings = [{ ceiling = \"1ms\", at = \"0.999\" }]"),
            "qos.ceilings.0.at: `0.999` lets nearly all I/Os be slower (at: job.toml:6); write it in per cent: 99.9",
        ),
        (
            workload("arrival = { kind = \"constant\", rate = 5 }"),
            "workload.0.arrival.rate: `5` has no unit; expected a rate",
        ),
    ];
    for (text, expected) in cases {
        let got = refused(&text);
        assert!(got.starts_with(expected), "{got}");
    }
    assert!(refused("[run]\nduration = 30s").ends_with("quotes: duration = \"30s\""));
}

#[test]
fn a_driver_without_a_queue_says_so() {
    let text = "[target]\ndriver = \"file\"\noptions = { queue = false }\n[[workload]]\n";
    let depth = refused(&format!("{text}queue_depth = 2"));
    assert!(depth.contains("2, but driver `file` has no queue"), "{depth}");
    assert!(depth.contains("(at: job.toml:5)"), "{depth}");
    let sync = refused(&format!("{text}sync = \"fsync\"\nmix = \"write\""));
    assert!(sync.contains("cannot sync"), "{sync}");
}

#[test]
fn set_reaches_nested_fields_and_list_items() {
    let mut job = Job::from_toml(&workload("access = \"random\""), "job.toml").unwrap();
    for assignment in [
        "workload.0.block_size=8KiB",
        "workload.0.access.align=512B",
        "workload.0.mix={ write = 1 }",
        "workload.1={ queue_depth = 2 }",
        "workload.1.queue_depth=7",
        "run.duration=5s",
        "target.options.queue=true",
        "qos.percentiles=[\"50\", \"99\"]",
        "workload.0.cpus=[0]",
        "workload.0.cpus.0=3",
    ] {
        job.apply_set(assignment).unwrap();
    }
    let plan = job.resolve(&FakeDrivers, machine(), &no_file).unwrap();
    assert_eq!(plan.workloads[0].block_size, BlockSize::Fixed(ByteSize(8192)));
    assert_eq!(plan.workloads[0].access.align, ByteSize(512));
    assert_eq!(plan.workloads[0].cpus, [3]);
    assert_eq!(plan.workloads[1].queue_depth, 7);
    let list: Vec<String> = plan.qos.percentiles.iter().map(ToString::to_string).collect();
    assert_eq!(list, ["50", "99"]);
}

#[test]
fn a_table_may_be_set_field_by_field() {
    let mut job = Job::empty();
    job.apply_set("search.at=\"99.9\"").unwrap();
    let lacking = said(&job.written().unwrap_err());
    assert!(lacking.starts_with("search: missing field `ceiling` (at: --set"), "{lacking}");
    job.apply_set("search.ceiling=5ms").unwrap();
    assert!(job.written().unwrap().search.is_some());
}

#[test]
fn a_whole_table_does_not_replace_what_a_flag_has_set_in_it() {
    let flagged = || {
        let mut job = Job::empty();
        job.apply("--rate", "workload.0.arrival.rate", FlagValue::Text("3000/s")).unwrap();
        job.apply("--rw", "workload.0.access.kind", FlagValue::Text("random")).unwrap();
        job
    };
    let lost = said(&flagged().apply_set("workload.0={name=\"w\"}").unwrap_err());
    assert!(lost.starts_with("--set workload.0 replaces what --rate sets"), "{lost}");
    flagged().apply_set("workload.0.access=sequential").unwrap();
}

/// Users come independently of each other: only what is asked for is evenly spaced.
#[test]
fn a_search_over_rates_has_poisson_arrivals_unless_told() {
    let kind = |lines: &str| {
        let search = "\n[search]\nrate = { from = \"100/s\", to = \"900/s\" }\nat = \"99\"\nceiling = \"5ms\"\n";
        let plan = resolve(&(workload(lines) + search)).unwrap();
        let rate: Rate = "300/s".parse().unwrap();
        let probe = plan.probe(0, Demand::Rate(rate), Span(1));
        match probe.workloads[0].arrival {
            Arrival::Poisson { rate: of } if of == rate => "poisson",
            Arrival::Constant { rate: of } if of == rate => "constant",
            ref other => panic!("{other:?}"),
        }
    };
    for lines in
        ["", "arrival = \"burst\"", "arrival = { rate = \"5/s\" }", "arrival = \"poisson\""]
    {
        assert_eq!(kind(lines), "poisson", "{lines}");
    }
    assert_eq!(kind("arrival = { kind = \"constant\" }"), "constant", "the search has the rate");
    assert_eq!(kind("arrival = { kind = \"constant\", rate = \"5/s\" }"), "constant");
}

#[test]
fn bad_sets_say_why() {
    let job = Job::from_toml(&workload("block_size = \"4KiB\""), "job.toml").unwrap();
    let cases = [
        (
            "workload.0.depth=3",
            "unknown field `depth` in `workload.0` (at: --set); did you mean `queue_depth`",
        ),
        ("workload.block_size=3", "--set workload.block_size: `workload` is a list; write"),
        ("workload.5.workers=3", "--set workload.5.workers: `workload` has no item 5"),
        ("workload.0.block_size.min=4KiB", "--set workload.0.block_size.min: `block_size` is a"),
        ("run.interval=3", "run.interval: `3` has no unit"),
        ("run.interval", "--set `run.interval` has no `=`"),
        ("run..x=1", "--set: `run..x` is not a path"),
        ("workload.0.mix={read=", "--set workload.0.mix: "),
        ("run.name=12", "run.name: `12` is not text in quotes"),
    ];
    for (assignment, expected) in cases {
        let got = said(&job.clone().apply_set(assignment).expect_err(assignment));
        assert!(got.starts_with(expected), "{got}");
    }
}

#[test]
fn flags_are_named_in_errors() {
    let mut job = Job::empty();
    job.apply("--driver", "target.driver", FlagValue::Text("null")).unwrap();
    job.apply("--path", "target.path", FlagValue::Text("123")).unwrap();
    job.apply("--depth", "workload.0.queue_depth", FlagValue::Toml("0")).unwrap();
    let got = said(&job.resolve(&FakeDrivers, machine(), &no_file).unwrap_err());
    assert!(got.starts_with("workload.0.queue_depth: a depth of zero does nothing (at: --depth)"));
    let bad = job.apply("--bs", "workload.0.block_size", FlagValue::Toml("4")).unwrap_err();
    assert!(said(&bad).contains("has no unit"));
    assert!(said(&bad).contains("(at: --bs)"), "{bad}");
}

#[test]
fn an_opened_target_is_checked_too() {
    let plan = resolve(&workload("block_size = \"1KiB\"")).unwrap();
    assert!(check_extents(&plan, None, GIB, 512).is_ok());
    let unaligned = said(&check_extents(&plan, None, GIB, 4096).unwrap_err());
    assert!(unaligned.contains("step by 1KiB, but this target needs multiples of 4KiB"));
    assert!(check_extents(&plan, None, 512, 512).is_err());
}

#[test]
fn two_runs_draw_two_seeds() {
    let text = "[target]\ndriver = \"null\"";
    assert_ne!(resolve(text).unwrap().run.seed, resolve(text).unwrap().run.seed);
}
