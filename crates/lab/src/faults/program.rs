//! Faults made by programs in C: inside the victim, whose threads pause in one way or another, or one forks; and beside
//! it, a supervisor of its system calls, a holder of leases, or who asks the kernel for what no tool does.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::fs::{Advice, fadvise};

use crate::cleanup::{NAME, Undo, lab_dir, make_lab_dir, tool};
use crate::fault_trial::FaultTrial;
use crate::faults::stages::BuiltStage;
use crate::truth::now_ns;

const PAUSE: &str = include_str!("pause.c");
const FORK: &str = include_str!("fork.c");
const SUPERVISE: &str = include_str!("supervise.c");
const LEASE: &str = include_str!("lease.c");
const EXT4: &str = include_str!("ext4.c");
const GAP: Duration = Duration::from_millis(200);

/// The load's thread pauses in the program's own code, asleep and busy in turn: a library that is loaded
/// into the program makes it.
pub fn pause(trial: &mut FaultTrial<'_>) -> Result<()> {
    paused(trial, &[0, 1])
}

/// The same where it waits for a child that it has started (`vfork`).
pub fn spawning(trial: &mut FaultTrial<'_>) -> Result<()> {
    paused(trial, &[2])
}

/// The same where it writes a line of the program's log, and nobody takes what stands in the pipe before it.
pub fn logging(trial: &mut FaultTrial<'_>) -> Result<()> {
    paused(trial, &[3])
}

/// Pauses of these kinds in turn, by the numbers of `pause.c`.
fn paused(trial: &mut FaultTrial<'_>, ways: &[u64]) -> Result<()> {
    let library = built(&mut trial.undo, ("pause", PAUSE), &["-shared", "-fPIC", "-lpthread"])?;
    let words = shared_words(trial, 2)?;
    let disk = trial.disk(64)?;
    let mut options = trial.options(disk.device.clone(), "randread");
    // A second busy one would take the other CPU from everybody else.
    options.workers = 1;
    options.env =
        vec![("LD_PRELOAD", library.into()), ("TAILLIGHT_LAB_PAUSE", words.clone().into())];
    let shared = std::fs::File::options().write(true).open(&words)?;
    trial.start(&options)?;
    let (on, mut ways) = (trial.amplitude, ways.iter().cycle());
    // Many: half of them and more come between two operations, where no I/O waits.
    trial.pulses(Duration::from_millis(40), Duration::ZERO, |stop| {
        let way = ways.next().context("a way")?;
        shared.write_all_at(&way.to_ne_bytes(), 8)?;
        let until = now_ns() + on.as_nanos() as i64;
        shared.write_all_at(&until.to_ne_bytes(), 0)?;
        stop.sleep(on)
    })
}

/// Another thread of the program, which holds 3 GiB, forks: nobody may change the memory's map meanwhile, and direct
/// I/O to and from it waits. How long that takes depends on the machine, not on the amplitude.
pub fn forking(trial: &mut FaultTrial<'_>) -> Result<()> {
    let library = built(&mut trial.undo, ("fork", FORK), &["-shared", "-fPIC", "-lpthread"])?;
    let words = shared_words(trial, 4)?;
    let disk = trial.disk(64)?;
    let mut options = trial.options(disk.device.clone(), "randread");
    options.without_pauses();
    options.env =
        vec![("LD_PRELOAD", library.into()), ("TAILLIGHT_LAB_FORK", words.clone().into())];
    let shared = std::fs::File::options().read(true).write(true).open(&words)?;
    let word = |n: u64| -> Result<i64> {
        let mut bytes = [0; 8];
        shared.read_exact_at(&mut bytes, n * 8)?;
        Ok(i64::from_ne_bytes(bytes))
    };
    trial.start(&options)?;
    while trial.more() && word(3)? == 0 {
        trial.stop.sleep(Duration::from_millis(10))?;
    }
    let mut round = 0_i64;
    while trial.more() {
        round += 1;
        let before = word(2)?;
        shared.write_all_at(&round.to_ne_bytes(), 0)?;
        while trial.more() && word(2)? == before {
            trial.stop.sleep(Duration::from_millis(1))?;
        }
        trial.truth.add(word(1)?, word(2)?);
        trial.stop.sleep(Duration::from_millis(200))?;
    }
    Ok(())
}

/// A supervisor of the program's system calls, as a container may have one, lets every 199th I/O call wait.
pub fn supervised(trial: &mut FaultTrial<'_>) -> Result<()> {
    let launcher = built(&mut trial.undo, ("supervise", SUPERVISE), &[])?;
    let (words, log) = (shared_words(trial, 2)?, new_log(trial));
    let disk = trial.disk(64)?;
    let mut options = trial.options(disk.device.clone(), "randread");
    let within = [&launcher, &words, &log].map(|path| path.to_string_lossy().into_owned());
    options.within = within.to_vec();
    let shared = std::fs::File::options().write(true).open(&words)?;
    trial.start(&options)?;
    let ns = trial.amplitude.as_nanos() as u64;
    shared.write_all_at(&ns.to_ne_bytes(), 0)?;
    shared.write_all_at(&199_u64.to_ne_bytes(), 8)?;
    while trial.more() {
        trial.stop.sleep(Duration::from_millis(50))?;
    }
    shared.write_all_at(&0_u64.to_ne_bytes(), 8)?;
    trial.stop.sleep(trial.amplitude * 2)?;
    logged(trial, &log)
}

/// Another process holds leases of the victim's files, and gives one back late when somebody opens the file.
pub fn leased(trial: &mut FaultTrial<'_>, stage: &BuiltStage) -> Result<()> {
    let holder = built(&mut trial.undo, ("lease", LEASE), &[])?;
    let (log, ns) = (new_log(trial), trial.amplitude.as_nanos().to_string());
    let files = tool("find", &[stage.path.as_os_str(), "-name".as_ref(), "file.*".as_ref()])?;
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]).arg(holder).arg(&log).arg(ns).args(files.lines());
    let mut child = command.stdin(Stdio::null()).spawn().context("cannot start a holder")?;
    trial.undo.add(move || {
        let _ = child.kill();
        let _ = child.wait();
    });
    while trial.more() {
        trial.stop.sleep(Duration::from_millis(50))?;
    }
    logged(trial, &log)
}

/// A neighbour has ext4 move a part of the victim's file to other blocks, as it does to make a file one piece again
/// without taking it away (`e4defrag`): the file is locked while a slow disk reads that part. Only reads are slow, and
/// the victim writes.
pub fn moved(trial: &mut FaultTrial<'_>, stage: &BuiltStage) -> Result<()> {
    let program = built(&mut trial.undo, ("ext4", EXT4), &[])?;
    let (slow, victim, delay) = (stage.slow()?, stage.victim(), trial.amplitude / 2);
    slow.reads_only.store(true, Relaxed);
    let (file, donor) = (File::open(&victim)?, stage.path.join("donor"));
    let [program, victim, donor] = [program, victim, donor].map(|p| p.display().to_string());
    trial.pulses(GAP, Duration::ZERO, |_| {
        file.sync_all()?;
        fadvise(&file, 0, None, Advice::DontNeed)?;
        slow.during(delay, || tool(&program, &["move", &victim, &donor])).map(drop)
    })?;
    trial.only_delays(slow);
    Ok(())
}

/// Somebody has ext4 empty its journal: until all that it holds is in its place, nobody may change anything. A neighbour
/// fills it anew each time; the disk takes long over large writes meanwhile, and the victim's are small.
pub fn emptied_journal(trial: &mut FaultTrial<'_>, stage: &BuiltStage) -> Result<()> {
    let program = built(&mut trial.undo, ("ext4", EXT4), &[])?;
    let (slow, crowd, delay) = (stage.slow()?, stage.path.join("crowd"), trial.amplitude);
    slow.least.store(32 << 10, Relaxed);
    std::fs::create_dir(&crowd)?;
    let [program, at] = [&program, &stage.path].map(|p| p.display().to_string());
    let mut round = 0;
    trial.pulses(GAP, Duration::ZERO, |_| {
        round += 1;
        for n in 0..48 {
            std::fs::create_dir(crowd.join(format!("{round}-{n}")))?;
        }
        slow.during(delay, || tool(&program, &["empty", &at])).map(drop)
    })?;
    trial.only_delays(slow);
    Ok(())
}

/// The file in which a program writes down when it made somebody wait.
fn new_log(trial: &mut FaultTrial<'_>) -> PathBuf {
    let log = lab_dir().join("waits.log");
    let _ = std::fs::remove_file(&log);
    let gone = log.clone();
    trial.undo.add(move || drop(std::fs::remove_file(gone)));
    log
}

/// Adds what stands in such a file to the truth.
fn logged(trial: &mut FaultTrial<'_>, log: &Path) -> Result<()> {
    for line in std::fs::read_to_string(log)?.lines() {
        let (from, to) = line.split_once(' ').context("two stamps")?;
        trial.truth.add(from.parse()?, to.parse()?);
    }
    Ok(())
}

/// A file of so many words of zero, which the victim's process and the lab share.
fn shared_words(trial: &mut FaultTrial<'_>, words: usize) -> Result<PathBuf> {
    make_lab_dir()?;
    let path = lab_dir().join(format!("{NAME}-words"));
    std::fs::write(&path, vec![0; words * 8])?;
    let gone = path.clone();
    trial.undo.add(move || drop(std::fs::remove_file(gone)));
    Ok(path)
}

/// Builds a program or library. Where this lab was built there is a C compiler: it also links Rust.
fn built(undo: &mut Undo, (name, text): (&str, &str), how: &[&str]) -> Result<PathBuf> {
    make_lab_dir()?;
    let (source, made) = (lab_dir().join(format!("{name}.c")), lab_dir().join(name));
    let gone = [source.clone(), made.clone()];
    undo.add(move || gone.iter().for_each(|f| drop(std::fs::remove_file(f))));
    std::fs::write(&source, text)?;
    let (from, to) = (source.to_string_lossy(), made.to_string_lossy());
    tool("cc", &[&["-O1", "-o", &to, &from], how].concat()).context(name.to_owned())?;
    Ok(made)
}
