//! Object stores: gets and puts against a bare hyper client, each run on a MinIO of its own on
//! loopback, whose data is in memory: it keeps what was deleted for a while, and the puts of a
//! few runs would fill that. Same objects, same connections in flight, every request signed, bodies not.

use std::process::Command;

use anyhow::{Context, Result};
use taillight_s3test::{ID, MinioServer, SECRET, ServerSettings, minio_program};

use crate::pairs::{self, BenchArm, Bound, Comparison, Figures};
use crate::{BenchSetup, child, taillight};

/// Objects that are there to get.
const OBJECTS: u64 = 100;
/// Objects of 4 KiB.
pub fn small(setup: &BenchSetup) -> Result<Comparison> {
    run(setup, 4 << 10, "4 KiB")
}

/// Objects of 64 KiB.
pub fn middle(setup: &BenchSetup) -> Result<Comparison> {
    run(setup, 64 << 10, "64 KiB")
}

/// Objects of 1 MiB.
pub fn large(setup: &BenchSetup) -> Result<Comparison> {
    run(setup, 1 << 20, "1 MiB")
}

/// The same bare client as both arms: the spread that no difference of clients explains.
pub fn equal(setup: &BenchSetup) -> Result<Comparison> {
    let bytes = 64 << 10;
    let mut report =
        Comparison::titled("S3, objects of 64 KiB, the bare hyper client against itself");
    let pairs = [
        ("get", 4, ["first get 4", "second get 4"]),
        ("get", 32, ["first get 32", "second get 32"]),
        ("put", 4, ["first put 4", "second put 4"]),
        ("put", 32, ["first put 32", "second put 32"]),
    ];
    for (what, depth, names) in pairs {
        let words = format!("get/ {what} {bytes} {depth} {} {OBJECTS}", setup.seconds);
        let arm = |name| hyper_arm(name, bytes, words.clone());
        report.arms.extend(pairs::run(setup.pairs, names.map(arm).into())?);
        for metric in ["iops", "cpu_ns"] {
            report.ratio(metric, names[0], names[1], Bound::None)?;
        }
    }
    report.notes.push(
        "Both arms of a pair are the same program with the same words: what differs from 1 is the \
         server and the machine."
            .into(),
    );
    Ok(report)
}

/// A MinIO of our own with its data in memory and the objects that gets read, and the address of its bucket.
fn loaded(bytes: u64) -> Result<(MinioServer, String)> {
    let program = minio_program().context("no MinIO: cargo xtask setup builds it")?;
    let minio = MinioServer::start(&program, ServerSettings::default());
    let url = format!("http://127.0.0.1:{}/bench/", minio.port());
    own(&url, "get", bytes, 1, 1)?;
    Ok((minio, url))
}

/// What is asked, requests in flight, names of the arms.
const PAIRS: [(&str, u32, [&str; 2]); 6] = [
    ("get", 1, ["taillight get 1", "hyper get 1"]),
    ("get", 4, ["taillight get 4", "hyper get 4"]),
    ("get", 32, ["taillight get 32", "hyper get 32"]),
    ("put", 1, ["taillight put 1", "hyper put 1"]),
    ("put", 4, ["taillight put 4", "hyper put 4"]),
    ("put", 32, ["taillight put 32", "hyper put 32"]),
];

/// The address that tables show.
const SHOWN: &str = "http://127.0.0.1:9000/bench/";

/// The bare client as an arm.
fn hyper_arm(name: &'static str, bytes: u64, words: String) -> BenchArm<'static> {
    BenchArm {
        name,
        command: format!("taillight-bench bare-s3 {SHOWN}{words}"),
        run: Box::new(move || {
            let (_minio, url) = loaded(bytes)?;
            hyper(&format!("{url}{words}"))
        }),
    }
}

fn run(setup: &BenchSetup, bytes: u64, shown: &str) -> Result<Comparison> {
    let mut report =
        Comparison::titled(&format!("S3, objects of {shown}, against a bare hyper client"));
    for (what, depth, names) in PAIRS {
        let ours = BenchArm {
            name: names[0],
            command: taillight::command_line(&arguments(SHOWN, what, bytes, depth, setup.seconds)),
            run: Box::new(move || {
                let (_minio, url) = loaded(bytes)?;
                own(&url, what, bytes, depth, setup.seconds)
            }),
        };
        let bare = format!("get/ {what} {bytes} {depth} {} {OBJECTS}", setup.seconds);
        let theirs = hyper_arm(names[1], bytes, bare);
        report.arms.extend(pairs::run(setup.pairs, vec![ours, theirs])?);
    }
    for (_, _, [ours, theirs]) in PAIRS {
        report.ratio("iops", ours, theirs, Bound::AtLeast(0.97))?;
        report.ratio("cpu_ns", ours, theirs, Bound::AtMost(1.0))?;
    }
    report.notes.push(NOTE.into());
    Ok(report)
}

/// What a reader must know.
const NOTE: &str = "The number in a name is the requests in flight, one worker. The server, a MinIO \
     on loopback with its data in memory, new for each run, takes most of both CPUs and is in the foreign cores. CPU is \
     that of the client's process in the measured time. Taillight makes the bytes of every put and keeps every request; \
     the bare client (hyper, tokio's current-thread runtime, a connection for each request in \
     flight) sends the same bytes again and takes no time of a request. Gets read the same objects, \
     puts make new ones, deleted outside of the measured time.";

/// The words of a run of ours. Gets keep what they read for the next run.
fn arguments(url: &str, what: &str, bytes: u64, depth: u32, seconds: u64) -> String {
    let (count, keep) = match what {
        "get" => (OBJECTS, true),
        _ => (0, false),
    };
    format!(
        "--driver s3 --path {url}{what}/ --bs {bytes}B --depth {depth} --runtime {seconds}s \
         --set workload.0.mix={what} --set workload.0.access=random \
         --set workload.0.keys={{count={count},naming=\"ordered\",prefix=\"o\",digits=8}} \
         --set target.options.keep={keep}"
    )
}

fn own(url: &str, what: &str, bytes: u64, depth: u32, seconds: u64) -> Result<Figures> {
    let dir = taillight::BenchRun::new("run")?;
    let mut command = taillight::command(&arguments(url, what, bytes, depth, seconds), &dir);
    let done = child::run(known(&mut command))?;
    taillight::figures(&dir, &done)
}

fn hyper(words: &str) -> Result<Figures> {
    let mut command = Command::new(std::env::current_exe()?);
    super::bare_figures(known(command.arg("bare-s3").args(words.split(' '))))
}

fn known(command: &mut Command) -> &mut Command {
    command.env("AWS_ACCESS_KEY_ID", ID);
    command.env("AWS_SECRET_ACCESS_KEY", SECRET)
}
