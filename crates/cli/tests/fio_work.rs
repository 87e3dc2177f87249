//! The same file in fio and in Taillight: operations, bytes, files with their names and sizes, syncs and what the device is asked
//! to read are the same, of every group of sections; of fio's own examples as well, as far as nothing in them is drawn. `cargo xtask proof fio` writes them as a table, with all options that are refused.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{run, scratch_on_disk};
use serde_json::{Value, json};
use taillight_import::fio::UNDRIVEN;
use taillight_import::fio::options::OPTIONS;

/// What a tool did.
#[derive(Debug, Default, PartialEq, Eq)]
struct WorkDone {
    /// Of each group reads, bytes read, writes, bytes written, and of both together where they are one.
    groups: BTreeMap<u64, [u64; 6]>,
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
                ("mixed", false, None) | ("read" | "write" | "sync", true, None) => 0,
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
    fn shown(&self) -> [String; 2] {
        let each = |part: fn(&[u64; 6]) -> String| {
            self.groups.values().map(part).collect::<Vec<_>>().join(", ")
        };
        [
            each(|[reads, _, writes, _, mixed, _]| match (reads, writes) {
                (0, 0) => format!("{mixed} mixed"),
                (0, writes) => format!("{writes} w"),
                (reads, 0) => format!("{reads} r"),
                (reads, writes) => format!("{reads} r {writes} w"),
            }),
            each(|[_, read, _, written, _, mixed]| (read + written).max(*mixed).to_string()),
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
    let (out, _) =
        run(ours.path(), &["run", &file.to_string_lossy(), "--json=fio", "--output", "out"], 0);
    let answer = serde_json::from_str(&out).expect("JSON");
    let ours = WorkDone::of(&answer, ours.path(), read_by_children() - between);
    Some([fio, ours])
}

/// What this process and those that it waited for had a device read, bytes: `read_bytes` of `/proc/self/io`.
fn read_by_children() -> u64 {
    let io = std::fs::read_to_string("/proc/self/io").expect("accounted");
    let line = io.lines().find_map(|l| l.strip_prefix("read_bytes: ")).expect("read_bytes");
    line.parse().expect("a number")
}

/// Of files that lie on the disk when a section begins: what was just written and not synced fio leaves in the cache.
/// Cold programs make them differ by a little; a pass that is cached in one of them is a MiB.
fn same_reads(file: &Path, fio: &WorkDone, ours: &WorkDone) -> bool {
    !file.ends_with("rounds.fio") || ours.from_device.abs_diff(fio.from_device) < 1 << 20
}

/// fio leaves the sync after the last write out, and counts no fdatasync.
fn same_syncs(fio: &WorkDone, ours: &WorkDone) -> bool {
    fio.syncs == 0 || ours.syncs.abs_diff(fio.syncs) <= fio.jobs + OF_FDATASYNC
}

/// Writes of the section with `fdatasync=1` in `syncs.fio`.
const OF_FDATASYNC: u64 = 128;

#[test]
fn the_work_is_that_of_fio() {
    for file in jobs() {
        let Some([fio, ours]) = both(&file) else {
            println!("skipped: the_work_is_that_of_fio: fio is not installed");
            return;
        };
        assert_eq!((&ours.groups, &ours.files), (&fio.groups, &fio.files), "{file:?}");
        assert_eq!((ours.jobs, &ours.rows), (fio.jobs, &fio.rows), "{file:?}");
        let (read, theirs) = (ours.from_device, fio.from_device);
        assert!(same_reads(&file, &fio, &ours), "{file:?}: {read} and {theirs}");
        assert!(same_syncs(&fio, &ours), "{file:?}: {} and {}", ours.syncs, fio.syncs);
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
const EXAMPLES: [(&str, &[(&str, &str)]); 27] = [
    ("1mbs_clients", &[("32m", "64k"), ("=tmp", "=data"), ("=1250", "=64k"), ("startdelay", ";")]),
    ("aio-read", &[("512m", "1m"), ("/data1", "data")]),
    ("backwards-read", &[("=128m", "=1m")]),
    ("basic-verify", &[("/dev/", "disk\nsize=1m ; ")]),
    ("butterfly", &[("/tmp/testfile", "disk\nsize=1m")]),
    (
        "cross-stripe-verify",
        &[("/dev/nvme0n1", "disk\nsize=1m"), ("124g", "1m"), ("120g", "128k"), ("=30", "=3")],
    ),
    ("dedupe-global", &[("100m", "1m")]),
    ("disk-zone-profile", &[("/dev/sdb", "disk\nsize=4m"), ("256m", "256k"), ("2g", "1m")]),
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
    ("tiobench-example", &[("512m", "1m")]),
    ("waitfor", &[("/tmp/data", "disk"), ("128m", "1m")]),
    ("zipf", &[("1280m", "16m")]),
];

const LONG: [(&str, &str); 3] = [("10G", "1m"), ("time_based", ";"), ("runtime", ";")];

/// An example of fio, smaller. None where it is not installed.
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
    for (name, smaller) in EXAMPLES {
        let file = example(name, smaller, dir.path());
        let Some([fio, ours]) = file.and_then(|file| both(&file)) else {
            println!("skipped: the_work_of_fios_examples: fio or fio-examples is not installed");
            return;
        };
        assert_eq!(ours.files, fio.files, "{name}");
        assert_eq!((ours.jobs, &ours.rows), (fio.jobs, &fio.rows), "{name}");
        let amounts = ours.groups.values().zip(fio.groups.values());
        for (ours, fio) in amounts {
            let drawn = ["flow", "iometer-file-access-server", "jesd219"].contains(&name);
            assert!(same_amounts(*ours, *fio, drawn), "{name}: {ours:?} and {fio:?}");
        }
        assert_eq!(ours.groups.len(), fio.groups.len(), "{name}");
    }
}

/// As many operations and bytes. Where both directions are used, which comes is drawn; where sizes are, the last block of
/// each job ends behind the amount.
fn same_amounts([reads, read, writes, written, ..]: [u64; 6], fio: [u64; 6], drawn: bool) -> bool {
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
        let ([fio_ops, fio_bytes], [our_ops, our_bytes]) = (fio.shown(), ours.shown());
        line(json!({
            "file": name,
            "fio": fio_ops, "fio_bytes": fio_bytes, "taillight": our_ops, "taillight_bytes": our_bytes,
            "fio_files": fio.files.len(), "files": ours.files.len(),
            "sizes": if fio.files == ours.files { "same" } else { "differ" },
            "fio_syncs": fio.syncs, "syncs": ours.syncs,
        }));
    }
    for (names, why) in UNDRIVEN {
        line(json!({ "engine": names, "why": why }));
    }
    for (names, changes) in OPTIONS.refused() {
        line(json!({ "refused": names.replace('|', "/"), "changes": changes }));
    }
}
