//! The same job file in fio and in Taillight: operations and bytes of each group of sections, files with their names
//! and sizes, and syncs are the same; of fio's own examples operations, bytes and files, about the same where sizes are
//! drawn. `cargo xtask proof fio` writes them as a table, with all options that are refused.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::common::traced::TestDisk;
use crate::common::{run, scratch_on_disk};
use serde_json::{Value, json};
use taillight_import::fio::UNDRIVEN;
use taillight_import::fio::options::OPTIONS;

/// What a tool did.
#[derive(Debug, Default, PartialEq, Eq)]
struct WorkDone {
    /// Of each group reads, bytes read, writes, bytes written, of both together where they are one, trims and their
    /// bytes.
    groups: BTreeMap<u64, [u64; 8]>,
    /// Bytes of the files that are left, by name.
    files: BTreeMap<PathBuf, u64>,
    syncs: u64,
    /// Names of the jobs, in the order in which they are reported.
    rows: Vec<String>,
    /// Bytes that the device was asked to read for it.
    from_device: u64,
    jobs: u64,
}

impl WorkDone {
    fn of(answer: &Value, dir: &Path, from_device: u64) -> WorkDone {
        let mut done = WorkDone { files: sizes(dir, dir), from_device, ..WorkDone::default() };
        for job in answer["jobs"].as_array().expect("jobs") {
            assert_eq!(job["error"], 0, "{job}");
            let name = job["jobname"].as_str().expect("a name").to_owned();
            if done.rows.last() != Some(&name) {
                done.rows.push(name);
            }
            let unified = job.get("mixed").is_some();
            let number = |of: &str, field: &str| match (of, unified, job.get(of)) {
                // With unified_rw_reporting some are left out.
                ("mixed", false, None) | ("read" | "write" | "trim" | "sync", true, None) => 0,
                (_, _, part) => part.expect(of)[field].as_u64().expect("a number"),
            };
            let group = done.groups.entry(job["groupid"].as_u64().expect("a group")).or_default();
            for (at, (of, field)) in [
                ("read", "total_ios"),
                ("read", "io_bytes"),
                ("write", "total_ios"),
                ("write", "io_bytes"),
                ("mixed", "total_ios"),
                ("mixed", "io_bytes"),
                ("trim", "total_ios"),
                ("trim", "io_bytes"),
            ]
            .into_iter()
            .enumerate()
            {
                group[at] += number(of, field);
            }
            done.syncs += number("sync", "total_ios");
            done.jobs += 1;
        }
        done
    }

    /// A row: ends of groups apart by commas.
    fn row(&self) -> [String; 2] {
        let each = |part: fn(&[u64; 8]) -> String| {
            self.groups.values().map(part).collect::<Vec<_>>().join(", ")
        };
        [
            each(|[reads, _, writes, _, mixed, _, trims, _]| match (reads, writes) {
                (_, writes) if *trims > 0 => format!("{trims} t {writes} w"),
                (0, 0) => format!("{mixed} mixed"),
                (0, writes) => format!("{writes} w"),
                (reads, 0) => format!("{reads} r"),
                (reads, writes) => format!("{reads} r {writes} w"),
            }),
            each(|[_, read, _, written, _, mixed, _, trimmed]| {
                (read + written + trimmed).max(*mixed).to_string()
            }),
        ]
    }
}

/// Sizes of the files that a load left in `root`, by name.
fn sizes(root: &Path, dir: &Path) -> BTreeMap<PathBuf, u64> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(dir).expect("listed").flatten() {
        let (name, facts) = (entry.file_name(), entry.metadata().expect("facts"));
        let name = name.to_string_lossy();
        // Logs are fio's own, the report has what they say.
        let theirs = [".state", ".log", ".json"].iter().any(|end| name.ends_with(end));
        let ours = name == "out" || name.starts_with(".taillight");
        if facts.is_dir() && !ours {
            found.extend(sizes(root, &entry.path()));
        } else if facts.is_file() && !ours && !theirs {
            let path = entry.path();
            found.insert(path.strip_prefix(root).expect("within").to_owned(), facts.len());
        }
    }
    found
}

fn jobs() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fio");
    let mut found: Vec<PathBuf> =
        std::fs::read_dir(dir).expect("listed").flatten().map(|e| e.path()).collect();
    found.sort();
    found
}

/// Both tools on one file, each in a directory of its own; fio's is the first. None without fio.
fn both(file: &Path) -> Option<[WorkDone; 2]> {
    both_with(file, &[])
}

/// As [`both`], with more words for Taillight.
fn both_with(file: &Path, words: &[&str]) -> Option<[WorkDone; 2]> {
    let (theirs, ours) = (scratch_on_disk(), scratch_on_disk());
    for dir in [&theirs, &ours] {
        std::fs::create_dir(dir.path().join("data")).expect("made");
    }
    let begun = read_by_children();
    let fio = Command::new("fio")
        .args(["--output-format=json", "--output=fio.json"])
        .arg(file)
        .current_dir(theirs.path())
        .output()
        .ok()?;
    assert!(fio.status.success(), "{file:?}: {fio:?}");
    let text = std::fs::read_to_string(theirs.path().join("fio.json")).expect("fio's answer");
    // Notes of fio stand above it.
    let text = &text[text.find('{').expect("JSON")..];
    let between = read_by_children();
    let answer = serde_json::from_str(text).expect("JSON");
    let fio = WorkDone::of(&answer, theirs.path(), between - begun);
    let file = file.to_string_lossy();
    let own = ["run", &*file, "--json=fio", "--output", "out"];
    let words = [&own[..], words].concat();
    let (out, _) = run(ours.path(), &words, 0);
    let answer = serde_json::from_str(&out).expect("JSON");
    let ours = WorkDone::of(&answer, ours.path(), read_by_children() - between);
    Some([fio, ours])
}

/// What this process and those that it waited for had a device read, bytes: `read_bytes` of `/proc/self/io`. Tells
/// the work of one job only where no other test runs in this process.
fn read_by_children() -> u64 {
    let io = std::fs::read_to_string("/proc/self/io").expect("accounted");
    let line = io.lines().find_map(|l| l.strip_prefix("read_bytes: ")).expect("read_bytes");
    line.parse().expect("a number")
}

/// Whether both synced as often, where fio counts: it leaves the sync after the last write out, and counts no
/// fdatasync.
fn same_syncs(fio: &WorkDone, ours: &WorkDone) -> bool {
    fio.syncs == 0 || ours.syncs.abs_diff(fio.syncs) <= fio.jobs + OF_FDATASYNC
}

/// Writes of the section with `fdatasync=1` in `syncs.fio`.
const OF_FDATASYNC: u64 = 128;

/// Runs a file in both tools, which must do the same work; what they did. None without fio.
fn same_work(file: &Path) -> Option<[WorkDone; 2]> {
    let Some([fio, ours]) = both(file) else {
        println!("skipped: {file:?}: fio is not installed");
        return None;
    };
    assert_eq!((&ours.groups, &ours.files), (&fio.groups, &fio.files), "{file:?}");
    assert_eq!((ours.jobs, &ours.rows), (fio.jobs, &fio.rows), "{file:?}");
    assert!(same_syncs(&fio, &ours), "{file:?}: {} and {}", ours.syncs, fio.syncs);
    Some([fio, ours])
}

/// Checks all of these, two at a time, as they wait for syncs most of the time. Once one cannot be checked no other is begun.
fn by_twos<T: Sync>(all: &[T], check: impl Fn(&T) -> bool + Sync) {
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(one) = all.get(next.fetch_add(1, Relaxed)) {
            if !check(one) {
                next.store(all.len(), Relaxed);
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(work);
        work();
    });
}

#[test]
fn the_work_is_that_of_fio() {
    let mut files = jobs();
    files.retain(|file| !file.ends_with("rounds.fio"));
    by_twos(&files, |file| same_work(file).is_some());
}

/// A pass that only one of them has from the page cache is a MiB. Cold programs differ by a little, by more where their
/// pages are taken for others'. Files of other jobs may be in the cache still.
#[test]
fn rounds_have_the_device_read_as_much_as_fios() {
    let rounds = jobs().into_iter().find(|file| file.ends_with("rounds.fio")).expect("a job");
    // Once before, for the programs' own pages: ten MiB of fio's were cold, and counted as its work.
    let Some([fio, ours]) = same_work(&rounds).and_then(|_| same_work(&rounds)) else { return };
    let (read, theirs) = (ours.from_device, fio.from_device);
    assert!(read.abs_diff(theirs) < 1 << 20, "{read} and {theirs}");
}

/// Blocks that are trimmed and then written, and what is verified on two devices beside a file that is not.
#[test]
fn the_work_on_devices_is_that_of_fio() {
    const NAME: &str = "the_work_on_devices_is_that_of_fio";
    let (Some(a), Some(b)) = (TestDisk::new(NAME, 4, false), TestDisk::new(NAME, 4, false)) else {
        return;
    };
    let (a, b) = (a.device.as_str(), b.device.as_str());
    let global = "[global]\nbs=4k\nsize=1m\ndirect=1\nioengine=libaio\niodepth=4\n";
    let trims = format!(
        "{global}filename={a}\n[t]\nrw=trimwrite\nloops=2\n[r]\nstonewall\nrw=randtrimwrite\nverify=md5\n\
         [more]\nstonewall\nrw=trimwrite\nio_size=3m\n[part]\nstonewall\nrw=trimwrite\nnumber_ios=100\n"
    );
    let checks = format!(
        "{global}verify=crc32c\nrw=randwrite\n[v]\nfilename={a}\n[w]\nfilename={b}\n[u]\nverify=0\nsize=2m\n"
    );
    let dir = scratch_on_disk();
    let first = ["--destroy", a, "--set", "target.destroy=true"];
    let both_devices = ["--destroy", b, "--set", "targets.w.destroy=true"];
    let cases = [(trims, first.to_vec()), (checks, [first, both_devices].concat())];
    for (text, words) in cases {
        let file = dir.path().join("devices.fio");
        std::fs::write(&file, &text).expect("written");
        let Some([fio, ours]) = both_with(&file, &words) else {
            println!("skipped: {NAME}: fio is not installed");
            return;
        };
        assert_eq!((&ours.groups, &ours.files), (&fio.groups, &fio.files), "{text}");
        assert_eq!(ours.rows, fio.rows, "{text}");
    }
}

#[test]
fn what_is_refused_leaves_nothing() {
    let dir = scratch_on_disk();
    let file = dir.path().join("odd.fio");
    // Only the device's blocks tell of the last one.
    let refused = [
        ("filename=new/sub/f\nrw=write\nsize=64m\ndirect=1\nbs=700\n", "block_size"),
        ("rw=randread\nsize=64m\natomic=1\n", "atomic"),
        ("rw=read\nsize=64m\ndirect=1\nbs=700\n", "block_size"),
        ("rw=read\nsize=1m\n[b]\nstonewall\nrw=write\nsize=64m\ndirect=1\nbs=700\n", "block_size"),
    ];
    for (text, why) in refused {
        std::fs::write(&file, format!("[a]\n{text}")).expect("written");
        let (_, said) = run(dir.path(), &["run", "odd.fio", "--output", "out"], 2);
        assert!(said.contains(why), "{said}");
        let left = std::fs::read_dir(dir.path()).expect("listed").flatten().map(|e| e.file_name());
        assert_eq!(left.collect::<Vec<_>>(), ["odd.fio"], "{text}");
    }
}

#[test]
fn a_layout_alone_measures_nothing() {
    let dir = scratch_on_disk();
    let text = "[a]\nfilename=new/sub/f\nsize=1m\nrw=read\ncreate_only=1\n";
    std::fs::write(dir.path().join("lay.fio"), text).expect("written");
    let (out, _) = run(dir.path(), &["run", "lay.fio", "--json=fio", "--output", "out"], 0);
    let answer: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(answer["jobs"], json!([]));
    let facts = std::fs::metadata(dir.path().join("new/sub/f")).expect("laid out");
    assert_eq!(facts.len(), 1 << 20);
    assert!(!dir.path().join("out").exists());
}

/// Where Debian's package `fio-examples` has them.
const EXAMPLES_DIR: &str = "/usr/share/doc/fio/examples";

/// Those of fio's own examples that need no hardware and whose options are all taken: what is written smaller or
/// left out, so that they end by their amount within a second. fio 3.33 hangs now and then with io_submit_mode=offload.
const EXAMPLES: [(&str, &[(&str, &str)]); 31] = [
    ("1mbs_clients", &[("32m", "64k"), ("=tmp", "=data"), ("=1250", "=64k"), ("startdelay", ";")]),
    ("aio-read", &[("512m", "1m"), ("/data1", "data")]),
    ("backwards-read", &[("=128m", "=1m")]),
    ("basic-verify", &[("/dev/", "disk\nsize=1m ; ")]),
    ("butterfly", &[("/tmp/testfile", "disk\nsize=1m")]),
    ("cmdprio-percentage", &[("/dev/sda", "disk\nsize=4m")]),
    (
        "cross-stripe-verify",
        &[("/dev/nvme0n1", "disk\nsize=1m"), ("124g", "1m"), ("120g", "128k"), ("=30", "=3")],
    ),
    ("dedupe-global", &[("100m", "1m")]),
    ("disk-zone-profile", &[("/dev/sdb", "disk\nsize=4m"), ("256m", "256k"), ("2g", "1m")]),
    // Its fast jobs end with the slow ones, whenever that is.
    ("exitwhat", &[("/tmp/test", "disk"), ("=1G", "=1m"), ("=1000", "=100")]),
    ("fio-rand-RW", &LONG),
    ("fio-rand-read", &LONG),
    ("fio-rand-write", &LONG),
    ("fio-seq-RW", &LONG),
    ("fio-seq-read", &LONG),
    ("fio-seq-write", &LONG),
    ("fixed-rate-submission", &[("128m", "1m"), ("offload", "inline")]),
    (
        "flow",
        &[
            ("/tmp/testfile", "disk"),
            ("100g", "8m"),
            ("time_based", "exitall"),
            ("runtime=30", "number_ios=900"),
        ],
    ),
    ("fsx", &[("500000", "3")]),
    ("iometer-file-access-server", &[("4g", "4m\nnorandommap")]),
    ("jesd219", &[("/dev/nvme0n1", "disk\nsize=2m")]),
    ("null", &[("100g", "16m")]),
    ("poisson-rate-submission", &[("128m", "64k"), ("offload", "inline")]),
    ("rand-zones", &[("2g", "1m")]),
    ("ssd-steadystate", &[("/dev/fioa", "disk\nsize=2m")]),
    ("ssd-test", &[("10g", "1m"), ("/mount-point-of-ssd", "data")]),
    (
        "steadystate",
        &[("/dev/null", "disk"), ("/dev/zero", "disk"), ("128m", "1m"), ("time_based", ";")],
    ),
    ("surface-scan", &[("datafile.tmp\t;", "disk\nsize=1m ;"), ("datafile.tmp\n", "disk\n")]),
    ("tiobench-example", &[("512m", "1m")]),
    ("waitfor", &[("/tmp/data", "disk"), ("128m", "1m")]),
    ("zipf", &[("1280m", "16m")]),
];

/// The other ones, which Taillight refuses with all reasons; for many of them fio has not what they need here either.
const REFUSED: [&str; 55] = [
    "cmdprio-bssplit",
    "cpp_null",
    "cpuio",
    "dev-dax",
    "dfs",
    "e4defrag",
    "e4defrag2",
    "enospc-pressure",
    "exec",
    "falloc",
    "filecreate-ioengine",
    "filedelete-ioengine",
    "filestat-ioengine",
    "ftruncate",
    "gfapi",
    "gpudirect-rdmaio-client",
    "gpudirect-rdmaio-server",
    "http-s3",
    "http-s3-crypto",
    "http-s3-storage-class",
    "http-swift",
    "http-webdav",
    "ime",
    "latency-profile",
    "libcufile-cufile",
    "libcufile-posix",
    "libhdfs",
    "libiscsi",
    "libpmem",
    "librpma_apm-client",
    "librpma_apm-server",
    "librpma_gpspm-client",
    "librpma_gpspm-server",
    "libzbc-rand-write",
    "libzbc-seq-read",
    "mtd",
    "nbd",
    "netio",
    "netio_multicast",
    "nfs",
    "numa",
    "pmemblk",
    "rados",
    "rbd",
    "rdmaio-client",
    "rdmaio-server",
    "sg_verify",
    "sg_verify-fail",
    "sg_write_same_ndob",
    "uring-cmd-ng",
    "uring-cmd-zoned",
    "xnvme-compare",
    "xnvme-zoned",
    "zbd-rand-write",
    "zbd-seq-read",
];

/// What both tools are given of those: nothing outside of their directory, in little and in a second. The options of
/// engines and devices stay.
const SMALLER: [(&str, &str); 13] = [
    ("/dev/sda\n", "data/sda\nsize=4m\n"),
    ("/dev/", "data/"),
    ("/scratch", "data"),
    ("/mnt/pmem", "data"),
    ("=/tmp", "=data"),
    ("time_based", ";"),
    ("runtime=", "runtime=1;"),
    ("size=10g", "size=1m"),
    ("128G", "1m"),
    ("999G", "1m"),
    ("=31250", "=20"),
    ("size=100m", "size=1m"),
    ("size=100M", "size=1m"),
];

/// An example of fio, made smaller, and why Taillight refuses it, which leaves nothing behind.
fn refused(name: &str, dir: &Path) -> (PathBuf, String) {
    let text = std::fs::read_to_string(format!("{EXAMPLES_DIR}/{name}.fio")).expect("fio-examples");
    let smaller = SMALLER.iter().fold(text, |text, (from, to)| text.replace(from, to));
    let dir = dir.join(name);
    std::fs::create_dir_all(dir.join("data")).expect("made");
    let file = dir.join("example.fio");
    std::fs::write(&file, smaller).expect("written");
    let (_, said) = run(&dir, &["run", "example.fio", "--output", "out"], 2);
    let left = std::fs::read_dir(&dir).expect("listed").flatten().count();
    let left = left + std::fs::read_dir(dir.join("data")).expect("listed").count();
    assert_eq!(left, 2, "{name}: refused, and something is left");
    (file, reasons(&said))
}

/// The reasons of an answer, without their places.
fn reasons(said: &str) -> String {
    let reason = |line: &str| {
        let line = line.trim_start_matches("  - ").trim_start_matches("error: ");
        let line = line.split(" (at: ").next().unwrap_or(line);
        // Whichever section.
        match (line.find(" in ["), line.find("]: ")) {
            (Some(from), Some(to)) if from < to => {
                format!("{}: {}", &line[..from], &line[to + 3..])
            }
            _ => line.to_owned(),
        }
    };
    let lines = said.lines().filter(|line| {
        line.starts_with("  - ") || (line.starts_with("error: ") && !line.contains(" reasons: "))
    });
    let mut all: Vec<String> = Vec::new();
    for reason in lines.map(reason) {
        if !all.contains(&reason) {
            all.push(reason);
        }
    }
    all.join("; ").replace('|', "/")
}

/// What fio makes of a file within ten seconds, in words.
fn of_fio(file: &Path) -> String {
    let dir = file.parent().expect("a directory");
    let mut fio = Command::new("timeout");
    fio.args(["10", "fio", "--output-format=json"]).arg(file).current_dir(dir);
    let output = fio.output().expect("it starts");
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let text = format!("{}\n{}", said(&output.stderr), said(&output.stdout));
    const SIGNS: [&str; 7] =
        ["not loadable", "failed", "error", "refused", "running on", "err=", "terminating"];
    let word = |line: &&str| SIGNS.iter().any(|sign| line.contains(sign)) && !line.contains('"');
    let word = text.lines().find(word).unwrap_or_default().trim();
    // Numbers of processes and lines of its source come and go.
    let word = word.split(", err=").last().unwrap_or(word).trim_start_matches("fio: ");
    match output.status.code() {
        Some(0) => "runs".to_owned(),
        Some(124) => "runs until it is stopped".to_owned(),
        _ if word.is_empty() => "fails".to_owned(),
        _ => word.replace('|', "/"),
    }
}

#[test]
fn every_example_of_fio_is_listed_and_what_is_refused_leaves_nothing() {
    let Ok(listed) = std::fs::read_dir(EXAMPLES_DIR) else {
        println!("skipped: every_example_of_fio_is_listed: fio-examples is not installed");
        return;
    };
    let names = listed.flatten().filter_map(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        name.strip_suffix(".fio").map(str::to_owned)
    });
    let mut names: Vec<String> = names.collect();
    names.sort();
    let mut told: Vec<&str> = EXAMPLES.iter().map(|(name, _)| *name).chain(REFUSED).collect();
    told.sort_unstable();
    assert_eq!(names, told);
    let dir = scratch_on_disk();
    for name in REFUSED {
        let (_, why) = refused(name, dir.path());
        assert!(!why.is_empty(), "{name}");
    }
}

const LONG: [(&str, &str); 3] = [("10G", "1m"), ("time_based", ";"), ("runtime", ";")];

/// An example of fio, made smaller. None where it is not installed.
fn example(name: &str, smaller: &[(&str, &str)], dir: &Path) -> Option<PathBuf> {
    let mut text = std::fs::read_to_string(format!("{EXAMPLES_DIR}/{name}.fio")).ok()?;
    for (from, to) in smaller {
        assert!(text.contains(from), "{name}: {from}");
        text = text.replace(from, to);
    }
    let file = dir.join(format!("{name}.fio"));
    std::fs::write(&file, text).expect("written");
    Some(file)
}

#[test]
fn the_work_of_fios_examples_is_that_of_fio() {
    let dir = scratch_on_disk();
    by_twos(&EXAMPLES, |&(name, smaller)| {
        let file = example(name, smaller, dir.path());
        let Some([fio, ours]) = file.and_then(|file| both(&file)) else {
            println!("skipped: the_work_of_fios_examples: fio or fio-examples is not installed");
            return false;
        };
        assert_eq!(ours.files, fio.files, "{name}");
        assert_eq!((ours.jobs, &ours.rows), (fio.jobs, &fio.rows), "{name}");
        let amounts = ours.groups.values().zip(fio.groups.values());
        for (ours, fio) in amounts {
            let drawn = ["flow", "iometer-file-access-server", "jesd219"].contains(&name);
            let timed = name == "exitwhat";
            let same = timed || same_amounts(*ours, *fio, drawn);
            assert!(same, "{name}: {ours:?} and {fio:?}");
        }
        assert_eq!(ours.groups.len(), fio.groups.len(), "{name}");
        true
    });
}

/// As many operations and bytes. Where both directions are used, which comes is drawn; where sizes are, the last block
/// of each job ends behind the amount.
fn same_amounts([reads, read, writes, written, ..]: [u64; 8], fio: [u64; 8], drawn: bool) -> bool {
    let [fio_reads, fio_read, fio_writes, fio_written, ..] = fio;
    let (bytes, fio_bytes) = (read + written, fio_read + fio_written);
    if drawn {
        let near = |a: u64, b: u64, percent: u64| a.abs_diff(b) * 100 <= a.max(b) * percent;
        return near(bytes, fio_bytes, 5) && near(reads + writes, fio_reads + fio_writes, 25);
    }
    let both = fio_reads > 0 && fio_writes > 0;
    (bytes, reads + writes) == (fio_bytes, fio_reads + fio_writes) && (both || reads == fio_reads)
}

#[test]
#[ignore = "a proof: cargo xtask proof fio"]
fn proof() {
    let path = std::env::var("PROOF_RESULTS").expect("PROOF_RESULTS");
    let mut out = std::fs::File::create(path).expect("created");
    let mut line = |value: Value| writeln!(out, "{value}").expect("written");
    let dir = scratch_on_disk();
    let examples = EXAMPLES.iter().map(|(name, smaller)| {
        let file = example(name, smaller, dir.path()).expect("fio-examples");
        (format!("fio-examples: {name}.fio, smaller"), file)
    });
    let named =
        |file: PathBuf| (file.file_name().expect("a name").to_string_lossy().into_owned(), file);
    for (name, file) in jobs().into_iter().map(named).chain(examples) {
        let [fio, ours] = both(&file).expect("fio");
        let ([fio_ops, fio_bytes], [our_ops, our_bytes]) = (fio.row(), ours.row());
        line(json!({
            "file": name,
            "fio": fio_ops, "fio_bytes": fio_bytes, "taillight": our_ops, "taillight_bytes": our_bytes,
            "fio_files": fio.files.len(), "files": ours.files.len(),
            "sizes": if fio.files == ours.files { "same" } else { "differ" },
            "fio_syncs": fio.syncs, "syncs": ours.syncs,
        }));
    }
    for name in REFUSED {
        let (file, why) = refused(name, dir.path());
        line(
            json!({ "example": format!("{name}.fio"), "fio_says": of_fio(&file), "why_not": why }),
        );
    }
    for (names, why) in UNDRIVEN {
        line(json!({ "engine": names, "why": why }));
    }
    for (names, changes) in OPTIONS.refused() {
        line(json!({ "refused": names.replace('|', "/"), "changes": changes }));
    }
}
