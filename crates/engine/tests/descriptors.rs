//! Workers with descriptors of their own: how many threads have the target's files while a load goes on, and none when it
//! has ended.
#![allow(clippy::unwrap_used)]

use std::cell::RefCell;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use taillight_core::OpKind;
use taillight_core::plan::Plan;
use taillight_core::units::ByteSize;
use taillight_driver::{OpenSpec, Target};
use taillight_engine::{EngineOutcome, StopFlag};

use crate::common::{self, WatchingObserver, fresh_id, run_on};

/// For each thread of this process, the files below `dir` that it has open.
fn tables(dir: &Path) -> Vec<Vec<PathBuf>> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let of = |task: PathBuf| {
        let all = std::fs::read_dir(task.join("fd")).into_iter().flatten().flatten();
        let links = all.filter_map(|fd| std::fs::read_link(fd.path()).ok());
        links.filter(|link| link.starts_with(dir)).collect()
    };
    tasks.map(|task| of(task.path())).collect()
}

/// How many threads have the target's file, and how many of them what is open beside it not.
fn parted(dir: &Path) -> (usize, usize) {
    let tables = tables(dir);
    // Of what is deleted the kernel says so behind the name.
    let is = |file: &PathBuf, name| file.display().to_string().contains(name);
    let has = |table: &&Vec<PathBuf>, name| table.iter().any(|file| is(file, name));
    let data = || tables.iter().filter(|table| has(table, "/data"));
    (data().count(), data().filter(|table| !has(table, "/beside")).count())
}

fn open(plan: &Plan, id: &str) -> Box<dyn Target> {
    let stop = StopFlag::default();
    let spec = OpenSpec { plan, run_id: id, destroy: None, stop: &stop, fits: &|_| Ok(()) };
    taillight_driver::bind(&plan.target).unwrap().open(&spec, &mut |_| true).unwrap()
}

/// A load on a file, and what the threads of the process have when all sessions are there.
fn load(dir: &Path, options: &str, workers: u32) -> (EngineOutcome, (usize, usize)) {
    let mut plan = common::plan("file", options);
    plan.target.path = Some(dir.join("data").to_str().unwrap().to_owned());
    plan.target.size = Some(ByteSize(1 << 20));
    plan.run.operations = Some(300);
    plan.workloads[0].workers = workers;
    plan.workloads[0].mix[0].op = OpKind::Write;
    let bound = taillight_driver::bind(&plan.target).unwrap();
    plan.target.options = bound.options().unwrap();
    let id = fresh_id();
    let (seen, place) = (Rc::new(RefCell::new((0, 0))), dir.to_owned());
    let told = seen.clone();
    let mut watch = WatchingObserver::at_ready(move || *told.borrow_mut() = parted(&place));
    let (to, stop) = (dir.join("run"), StopFlag::default());
    let (_, outcome) = run_on(open(&plan, &id), &plan, (&id, &to), &stop, &mut watch).unwrap();
    std::fs::remove_dir_all(&to).unwrap();
    let seen = *seen.borrow();
    (outcome, seen)
}

#[test]
fn what_workers_have_of_their_own_is_gone_with_them() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().canonicalize().unwrap();
    // No worker has it in a table of its own.
    let _beside = File::create(dir.join("beside")).unwrap();
    for engine in ["sync", "uring"] {
        let options = format!("direct = false\nengine = \"{engine}\"");
        for workers in [1, 3] {
            let (outcome, (_, own)) = load(&dir, &options, workers);
            let fact = outcome.target_facts.iter().find(|(name, _)| name == "worker.descriptors");
            let said = fact.map(|(_, said)| said.as_str());
            if said.is_some_and(|said| said.starts_with("shared")) {
                eprintln!("skipped: what_workers_have_of_their_own: {said:?}");
                return;
            }
            assert_eq!((said, own), (Some("own"), workers as usize), "{engine}");
            assert_eq!(outcome.operations, 300, "{engine}");
            // Deleted, and held by nobody: its room is free, and what it is on can be unmounted. A worker of another
            // test may have copied all that this process has open, and be about to close it.
            let gone = (0..100).any(|_| {
                let gone = parted(&dir) == (0, 0);
                if !gone {
                    std::thread::sleep(std::time::Duration::from_millis(10));
                }
                gone
            });
            assert!(gone, "{engine}: {:?}", parted(&dir));
        }
    }
}
