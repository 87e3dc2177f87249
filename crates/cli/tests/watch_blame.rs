//! How often the layer is right that `taillight watch` blames: fio, db_bench and sqlite3 are watched while a fault comes and
//! goes of which the test knows when it was there. What was slow mostly within a fault is that fault's.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use crate::common::traced::{lab, not_root, open_place};
use crate::common::{Ended, binary, build, ended, signal, skipped, start};
use crate::watch::cannot;
use crate::watch_hard::watching;
use serde_json::{Value, json};
use taillight_core::{Clock as _, MonoClock};
use taillight_lab::cleanup::{LabLock, Undo};
use taillight_lab::fuse::{self, DelayInjector};
use taillight_lab::stage::{LabCgroup, LoopDevice};

/// Watched from here on.
const SLOWER: &str = "20ms";

/// A program whose tail is slow: its name, and its command line in a directory on the stage's disk.
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

/// What is done to it, and the layers that are right.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BlameFault {
    /// A limit of its control group, for half a second.
    Limit,
    /// The disk sleeps in each request, for half a second.
    SlowDisk,
    /// It is stopped by a signal, for 0.3 s.
    Stopped,
}

impl BlameFault {
    const ALL: [BlameFault; 3] = [BlameFault::Limit, BlameFault::SlowDisk, BlameFault::Stopped];

    fn name(self) -> &'static str {
        match self {
            BlameFault::Limit => "I/O limit of its control group",
            BlameFault::SlowDisk => "slow disk",
            BlameFault::Stopped => "stopped by a signal",
        }
    }

    fn layer(self) -> &'static str {
        match self {
            BlameFault::Limit => "throttle",
            BlameFault::SlowDisk => "device",
            BlameFault::Stopped => "stopped",
        }
    }
}

/// A disk that sleeps when told to, with a file system, and a control group.
struct BlameStage {
    home: PathBuf,
    group: LabCgroup,
    device: String,
    slow: Arc<DelayInjector>,
    _undo: Undo,
    _lab: LabLock,
}

impl BlameStage {
    /// Errors: why there is none here.
    fn build() -> Result<BlameStage, String> {
        let (lab, mut undo) = (lab(), Undo::default());
        let mut made = || {
            let (file, slow) = fuse::serve(&mut undo, 768 << 20)?;
            let disk = LoopDevice::over(&mut undo, &file, true)?;
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
    fn once(&self, fault: BlameFault, victim: &Ended) -> (i64, i64) {
        let from = MonoClock.now().0;
        match fault {
            BlameFault::Limit => {
                self.limit(30);
                std::thread::sleep(Duration::from_millis(500));
                self.limit(0);
            }
            BlameFault::SlowDisk => self.slow.during(Duration::from_millis(40), || {
                std::thread::sleep(Duration::from_millis(500));
            }),
            BlameFault::Stopped => {
                signal(&victim.0, "STOP");
                std::thread::sleep(Duration::from_millis(300));
                signal(&victim.0, "CONT");
            }
        }
        (from, MonoClock.now().0)
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

/// Verdicts on what was slow mostly while the fault was there.
fn judged(out: &Path, faults: &[(i64, i64)]) -> Vec<(String, bool)> {
    let mut explain = Command::new(binary());
    let said = explain.args(["explain", "--json"]).arg(out).output().expect("it starts");
    let value: Value = serde_json::from_str(&ended(&said, 0).0).expect("JSON");
    let within = |io: &&Value| {
        let at = |field: &str| io[field].as_i64().expect("a stamp");
        let (begin, end) = (at("submit_ns"), at("complete_ns"));
        let overlap = |(from, to): &(i64, i64)| (end.min(*to) - begin.max(*from)).max(0);
        faults.iter().map(overlap).max().unwrap_or(0) * 4 >= (end - begin) * 3
    };
    let of = |io: &Value| {
        (io["layer"].as_str().unwrap_or_default().to_owned(), io["sure"].as_bool() == Some(true))
    };
    value["ios"].as_array().expect("a list").iter().filter(within).map(of).collect()
}

/// A cell of the matrix; none where the victim is not here.
fn cell(stage: &BlameStage, victim: BlameVictim, fault: BlameFault) -> Option<Value> {
    let program = victim.0.split([' ', ',']).next()?;
    if Command::new(program).arg("--version").output().is_err() {
        skipped(victim.0, Some(format!("no {program} here")));
        return None;
    }
    let dir = stage.home.join("victim");
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir(&dir).expect("made");
    let insert = "INSERT INTO t VALUES(randomblob(900));\n".repeat(400_000);
    let head = "PRAGMA journal_mode=WAL; PRAGMA synchronous=full; CREATE TABLE t(a);\n";
    std::fs::write(dir.join("inserts.sql"), head.to_owned() + &insert).expect("written");
    let place = open_place();
    let child = Ended(victim_of(stage, victim, &dir).spawn().expect("it starts"));
    std::thread::sleep(Duration::from_secs(3));
    let line = format!("watch --pid {} --for 9s --slower {SLOWER} --output out", child.0.id());
    let watch = start(place.path(), &line);
    watching(&watch);
    let faults: Vec<(i64, i64)> = (0..5)
        .map(|_| {
            std::thread::sleep(Duration::from_millis(500));
            stage.once(fault, &child)
        })
        .collect();
    let out = watch.wait_with_output().expect("it ends");
    ended(&out, 0);
    let all = judged(&place.path().join("out"), &faults);
    let count = |of: &dyn Fn(&(String, bool)) -> bool| all.iter().filter(|one| of(one)).count();
    let right = count(&|one| one.0 == fault.layer());
    let open = count(&|one| one.0 == "unknown" || one.0 == "mixed");
    let sure_wrong = count(&|one| one.1 && one.0 != fault.layer());
    let mut others: Vec<&str> = all.iter().map(|one| one.0.as_str()).collect();
    others.retain(|layer| *layer != fault.layer());
    others.sort_unstable();
    others.dedup();
    // Of none there is no share.
    let share = |n: usize| (!all.is_empty()).then(|| 100.0 * n as f64 / all.len() as f64);
    Some(json!({
        "victim": victim.0, "fault": fault.name(), "slow": all.len(), "right": share(right),
        "wrong": share(all.len() - right - open), "undecided": share(open),
        "sure_wrong": share(sure_wrong), "others": others.join(", "), "build": build(),
    }))
}

#[test]
#[ignore = "a proof: cargo xtask proof watch-blame"]
fn proof() {
    let results = std::env::var("PROOF_RESULTS").expect("where the lines go");
    if skipped("proof", not_root().or_else(cannot)) {
        return;
    }
    let stage = BlameStage::build().expect("a stage");
    let mut lines = String::new();
    for victim in VICTIMS {
        for fault in BlameFault::ALL {
            let Some(line) = cell(&stage, victim, fault) else { continue };
            println!("{line}");
            lines += &format!("{line}\n");
        }
    }
    std::fs::write(results, lines).expect("written");
}
