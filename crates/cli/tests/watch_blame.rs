//! How often the layer is right that `taillight watch` blames: fio, db_bench and sqlite3, and a program with ways to do
//! I/O that no rule was written for, are watched while a fault comes and goes of which the test knows when it was
//! there. What was slow for three quarters within a fault is that fault's, unless it is blamed on a missing CPU and the
//! kernel itself counted none for half of its time.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use crate::common::traced::{lab, not_root, open_place};
use crate::common::{Ended, binary, build, ended, signal, skipped, start};
use crate::watch::cannot;
use crate::watch_hard::watching;
use crate::watch_waits::compiled;
use serde_json::{Value, json};
use taillight_core::{Clock as _, MonoClock};
use taillight_lab::cleanup::{LabLock, Undo, tool};
use taillight_lab::fuse::{self, DelayInjector};
use taillight_lab::stage::{LabCgroup, LoopDevice, image};

/// Watched from here on.
const SLOWER: &str = "20ms";

/// A program that is watched: its name, and its command line in a directory on the stage's disk; of fio what follows
/// [`FIO`].
type BlameVictim = (&'static str, &'static str);

/// In one process: who is stopped is who reads.
const FIO: &str = "fio --thread --name=v --filename=data --size=32m --bs=4k --time_based --runtime=600 --output=fio.out";

const VICTIMS: [BlameVictim; 5] = [
    (
        "fio, direct reads, psync, 2 threads",
        "--rw=randread --direct=1 --ioengine=psync --numjobs=2",
    ),
    (
        "fio, direct reads, io_uring, depth 4",
        "--rw=randread --direct=1 --ioengine=io_uring --iodepth=4",
    ),
    (
        "fio, buffered writes, each with fdatasync",
        "--rw=randwrite --direct=0 --ioengine=psync --fdatasync=1",
    ),
    (
        "db_bench readrandom, direct, 2 threads",
        "db_bench --benchmarks=fillseq,readrandom --num=60000 --reads=100000000 --threads=2 --duration=600 \
         --use_direct_reads=1 --cache_size=65536 --write_buffer_size=262144 --compression_type=none --db=db",
    ),
    (
        "sqlite3, a commit for each row, WAL",
        "sh -c exec\u{a0}sqlite3\u{a0}database\u{a0}<inserts.sql",
    ),
];

/// Ways of `programs/calls.c`, and whether they write to the file system, which alone a freeze holds back.
const STRANGERS: [(BlameVictim, bool); 12] = [
    (("sendfile of a cold file", "./calls data copy sendfile"), true),
    (("splice from a cold file", "./calls data copy splice"), false),
    (("copy_file_range, cold", "./calls data copy copy_file_range"), true),
    (("preadv2, RWF_NOWAIT first", "./calls data copy preadv2"), false),
    (("fallocate, punch, fsync, ftruncate", "./calls data copy fallocate"), true),
    (("readahead, then pread64", "./calls data copy after-readahead"), false),
    (("pwrite64 with O_DSYNC", "./calls data copy dsync"), true),
    (("libaio through the page cache", "./calls data copy io_submit"), false),
    (("page faults, cold", "./calls data copy page-fault"), false),
    (("msync of a mapped file", "./calls data copy msync"), true),
    (("syncfs", "./calls data copy syncfs"), true),
    (("create, fsync, rename, fsync of the directory", "./calls data copy rename"), true),
];

/// What is done to it, and for how long; each has the layer that is right.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BlameFault {
    /// A limit of its control group, for half a second.
    Limit,
    /// The disk sleeps in each request, for half a second.
    SlowDisk,
    /// It is stopped by a signal, for 0.3 s.
    Stopped,
    /// Its file system is frozen, for 0.3 s.
    Frozen,
    /// Another program of real-time priority has each CPU, for 0.3 s.
    Hog,
}

impl BlameFault {
    fn name(self) -> &'static str {
        match self {
            BlameFault::Limit => "I/O limit of its control group",
            BlameFault::SlowDisk => "slow disk",
            BlameFault::Stopped => "stopped by a signal",
            BlameFault::Frozen => "frozen file system",
            BlameFault::Hog => "real-time hog on each CPU",
        }
    }

    fn layer(self) -> &'static str {
        match self {
            BlameFault::Limit => "throttle",
            BlameFault::SlowDisk => "device",
            BlameFault::Stopped => "stopped",
            BlameFault::Frozen => "file_system",
            BlameFault::Hog => "cpu",
        }
    }
}

/// A fault was there from, until, and for so long the victim's threads could have run meanwhile and had no CPU, ns, as
/// the kernel counts it.
type FaultTime = (i64, i64, u64);

/// Time without a CPU of all threads of a process so far, ns.
fn without_cpu(pid: u32) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let of = |task: std::fs::DirEntry| {
        let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split_whitespace().nth(1)?.parse::<u64>().ok()
    };
    tasks.filter_map(of).sum()
}

/// Takes each CPU for a while, and ends by itself.
fn hog() {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let one = |cpu: usize| {
        let line = "chrt -f 20 timeout -s KILL 0.3 chrt -f 10 sh -c";
        let mut command = Command::new("taskset");
        command.args(["-c", &cpu.to_string()]).args(line.split(' ')).arg("while :; do :; done");
        command.spawn().map(Ended)
    };
    let hogs: Vec<Ended> = (0..cpus).filter_map(|cpu| one(cpu).ok()).collect();
    for mut hog in hogs {
        let _ = hog.0.wait();
    }
}

/// A disk that sleeps when told to, with a file system, and a control group.
struct BlameStage {
    home: PathBuf,
    group: LabCgroup,
    device: String,
    /// None where no program serves the disk: one without a CPU would make it a slow disk.
    slow: Option<Arc<DelayInjector>>,
    _undo: Undo,
    _lab: LabLock,
}

impl BlameStage {
    /// Errors: why there is none here.
    fn build(served: bool) -> Result<BlameStage, String> {
        let (lab, mut undo) = (lab(), Undo::default());
        let mut made = || {
            let bytes = 768 << 20;
            let (file, slow) = match served {
                true => fuse::serve(&mut undo, bytes).map(|(file, slow)| (file, Some(slow)))?,
                false => (image(&mut undo, "blamed", bytes as u64)?, None),
            };
            let disk = LoopDevice::over(&mut undo, &file, served)?;
            let home = disk.mount(&mut undo, "ext4")?;
            let group = LabCgroup::named(&mut undo, "blkio", "taillight-lab-blamed")?;
            disk.number().map(|device| (home, group, device, slow))
        };
        let (home, group, device, slow) = made().map_err(|e| format!("{e:#}"))?;
        Ok(BlameStage { home, group, device, slow, _undo: undo, _lab: lab })
    }

    fn limit(&self, rate: u32) {
        for way in ["read", "write"] {
            let file = format!("blkio.throttle.{way}_iops_device");
            self.group.set(&file, format!("{} {rate}", self.device)).expect("set");
        }
    }

    /// The fault comes and goes; when it was there.
    fn once(&self, fault: BlameFault, victim: &Ended) -> FaultTime {
        let home = self.home.to_string_lossy();
        // What is dirty is written first, and takes its time.
        if fault == BlameFault::Frozen {
            tool("fsfreeze", &["--freeze", &home]).expect("frozen");
        }
        let (from, before) = (MonoClock.now().0, without_cpu(victim.0.id()));
        match fault {
            BlameFault::Limit => {
                self.limit(30);
                std::thread::sleep(Duration::from_millis(500));
                self.limit(0);
            }
            BlameFault::SlowDisk => {
                let wait = || std::thread::sleep(Duration::from_millis(500));
                self.slow.as_ref().expect("served").during(Duration::from_millis(40), wait)
            }
            BlameFault::Frozen => std::thread::sleep(Duration::from_millis(300)),
            BlameFault::Hog => hog(),
            BlameFault::Stopped => {
                signal(&victim.0, "STOP");
                std::thread::sleep(Duration::from_millis(300));
                signal(&victim.0, "CONT");
            }
        }
        if fault == BlameFault::Frozen {
            tool("fsfreeze", &["--unfreeze", &home]).expect("goes on");
        }
        (from, MonoClock.now().0, without_cpu(victim.0.id()).saturating_sub(before))
    }
}

/// The command of a victim, in the control group and in a directory of its own on the disk.
fn victim_of(stage: &BlameStage, (name, line): BlameVictim, dir: &Path) -> Command {
    let line = match name.starts_with("fio") {
        true => format!("{FIO} {line}"),
        false => line.to_owned(),
    };
    let within = stage.group.within();
    let mut command = Command::new(&within[0]);
    command.args(&within[1..]).args(line.split(' ').filter(|w| !w.is_empty()).map(plain));
    command.current_dir(dir).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// A word of a command line, in which spaces are written so that they stay.
fn plain(word: &str) -> String {
    word.replace('\u{a0}', " ")
}

/// A verdict: the layer, whether it is sure, and whether the kernel itself says that there was no CPU for half of it.
struct BlameVerdict {
    layer: String,
    sure: bool,
    without_cpu: bool,
}

/// Verdicts on what was slow mostly while the fault was there.
fn judged(out: &Path, faults: &[FaultTime]) -> Vec<BlameVerdict> {
    let mut explain = Command::new(binary());
    let said = explain.args(["explain", "--json"]).arg(out).output().expect("it starts");
    let value: Value = serde_json::from_str(&ended(&said, 0).0).expect("JSON");
    let of = |io: &Value| {
        let at = |field: &str| io[field].as_i64().expect("a stamp");
        let (begin, end) = (at("submit_ns"), at("complete_ns"));
        let within = |(from, to, _): &&FaultTime| {
            (end.min(*to) - begin.max(*from)).max(0) * 4 >= (end - begin) * 3
        };
        let (_, _, waited) = faults.iter().find(within)?;
        Some(BlameVerdict {
            layer: io["layer"].as_str().unwrap_or_default().to_owned(),
            sure: io["sure"].as_bool() == Some(true),
            without_cpu: *waited as i64 * 2 >= end - begin,
        })
    };
    value["ios"].as_array().expect("a list").iter().filter_map(of).collect()
}

/// The files of a victim, in a directory on the stage's disk; why it cannot be there, if so.
fn made_ready(program: &str, dir: &Path) -> Option<String> {
    let _ = std::fs::remove_dir_all(dir);
    std::fs::create_dir(dir).expect("made");
    if program == "./calls" {
        std::fs::write(dir.join("data"), vec![7; 256 << 10]).expect("written");
        return compiled(dir, "calls");
    }
    if Command::new(program).arg("--version").output().is_err() {
        return Some(format!("no {program} here"));
    }
    let insert = "INSERT INTO t VALUES(randomblob(900));\n".repeat(400_000);
    let head = "PRAGMA journal_mode=WAL; PRAGMA synchronous=full; CREATE TABLE t(a);\n";
    std::fs::write(dir.join("inserts.sql"), head.to_owned() + &insert).expect("written");
    None
}

/// A cell of the matrix; none where the victim is not here.
fn cell(stage: &BlameStage, victim: BlameVictim, fault: BlameFault) -> Option<Value> {
    let program = match victim.1.split(' ').next()? {
        "./calls" => "./calls",
        _ => victim.0.split([' ', ',']).next()?,
    };
    let dir = stage.home.join("victim");
    if let Some(why) = made_ready(program, &dir) {
        skipped(victim.0, Some(why));
        return None;
    }
    let place = open_place();
    let child = Ended(victim_of(stage, victim, &dir).spawn().expect("it starts"));
    std::thread::sleep(Duration::from_secs(3));
    let line = format!("watch --pid {} --for 9s --slower {SLOWER} --output out", child.0.id());
    let watch = start(place.path(), &line);
    watching(&watch);
    let faults: Vec<FaultTime> = (0..5)
        .map(|_| {
            std::thread::sleep(Duration::from_millis(500));
            stage.once(fault, &child)
        })
        .collect();
    let out = watch.wait_with_output().expect("it ends");
    ended(&out, 0);
    let all = judged(&place.path().join("out"), &faults);
    let of_fault = |one: &BlameVerdict| one.layer == fault.layer();
    let count = |of: &dyn Fn(&BlameVerdict) -> bool| all.iter().filter(|one| of(one)).count();
    let right = count(&of_fault);
    let open = count(&|one| one.layer == "unknown" || one.layer == "mixed");
    let no_cpu = |one: &BlameVerdict| one.layer == "cpu" && one.without_cpu && !of_fault(one);
    let beside = count(&no_cpu);
    let sure_wrong = count(&|one| one.sure && !of_fault(one) && !no_cpu(one));
    let others = all.iter().filter(|one| !of_fault(one) && !no_cpu(one));
    let mut others: Vec<&str> = others.map(|one| one.layer.as_str()).collect();
    others.sort_unstable();
    others.dedup();
    // Of none there is no share.
    let share = |n: usize| (!all.is_empty()).then(|| 100.0 * n as f64 / all.len() as f64);
    Some(json!({
        "victim": victim.0, "fault": fault.name(), "slow": all.len(), "right": share(right),
        "wrong": share(all.len() - right - open - beside), "undecided": share(open),
        "without_cpu": share(beside), "sure_wrong": share(sure_wrong), "others": others.join(", "),
        "build": build(),
    }))
}

/// Cells, as lines.
fn lines(all: impl Iterator<Item = Value>) -> String {
    let line = |cell: Value| {
        println!("{cell}");
        format!("{cell}\n")
    };
    all.map(line).collect()
}

#[test]
#[ignore = "a proof: cargo xtask proof watch-blame"]
fn proof() {
    let results = std::env::var("PROOF_RESULTS").expect("where the lines go");
    if skipped("proof", not_root().or_else(cannot)) {
        return;
    }
    let stage = BlameStage::build(true).expect("a stage");
    let faults = [BlameFault::Limit, BlameFault::SlowDisk, BlameFault::Stopped];
    let all = VICTIMS.iter().flat_map(|victim| faults.map(|fault| (*victim, fault)));
    let lines = lines(all.filter_map(|(victim, fault)| cell(&stage, victim, fault)));
    std::fs::write(results, lines).expect("written");
}

/// `PROOF_VICTIM` and `PROOF_FAULT` leave only those whose names contain them.
#[test]
#[ignore = "a proof: cargo xtask proof watch-strangers"]
fn strangers() {
    let results = std::env::var("PROOF_RESULTS").expect("where the lines go");
    if skipped("strangers", not_root().or_else(cannot)) {
        return;
    }
    let asked = |name: &str, is: &str| std::env::var(name).is_ok_and(|part| !is.contains(&part));
    let cells = |served: bool, faults: &[BlameFault]| {
        let faults = faults.iter().filter(|fault| !asked("PROOF_FAULT", fault.name()));
        let faults: Vec<BlameFault> = faults.copied().collect();
        if faults.is_empty() {
            return String::new();
        }
        let stage = BlameStage::build(served).expect("a stage");
        let victims = STRANGERS.iter().filter(|(victim, _)| !asked("PROOF_VICTIM", victim.0));
        let all = victims.flat_map(|it| faults.iter().map(move |fault| (it, *fault)));
        let held = all.filter(|((_, writes), fault)| *writes || *fault != BlameFault::Frozen);
        lines(held.filter_map(|((victim, _), fault)| cell(&stage, *victim, fault)))
    };
    let served = [BlameFault::Limit, BlameFault::SlowDisk, BlameFault::Stopped, BlameFault::Frozen];
    let all = cells(true, &served) + &cells(false, &[BlameFault::Hog]);
    std::fs::write(results, all).expect("written");
}
