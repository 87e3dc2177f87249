//! What a name leads to changes between the look and the first write, and again before the end: a
//! second thread goes on exchanging, while runs that are not confirmed use the name.

use std::fs::{hard_link, remove_file, rename};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::stage::{AttackStage, MIB, Setup, SharedBinary, path_text, sum, write_data};
use crate::common::traced::tool;

/// What is exchanged.
#[derive(Debug, Clone, Copy)]
pub enum Race {
    Symlinks,
    Files,
    Mounts,
}

impl Race {
    pub const ALL: [Race; 3] = [Race::Symlinks, Race::Files, Race::Mounts];
}

/// How the rounds of a race ended.
#[derive(Debug, Default)]
pub struct RaceEnd {
    pub rounds: u32,
    pub ran: u32,
    pub refused: u32,
    /// Something was lost: which round, and how.
    pub lost: Vec<String>,
}

/// Plays so many rounds.
pub fn play(program: &SharedBinary, race: Race, rounds: u32) -> Setup<RaceEnd> {
    let mut stage = AttackStage::new(program);
    let place = stage.fresh_dir("place");
    // Two names of the victim: one is exchanged, and must be there in the end.
    let (victim, safe, name) = (place.join("victim"), stage.at("safe"), place.join("name"));
    write_data(&victim, MIB as usize);
    hard_link(&victim, &safe).map_err(|e| e.to_string())?;
    prepare(race, &name).map_err(|e| e.to_string())?;
    let before = sum(&safe);
    let mut end = RaceEnd::default();
    let (done, turns) = (AtomicBool::new(false), Mutex::new(()));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for turn in 0_u64.. {
                if done.load(Ordering::Relaxed) {
                    return;
                }
                {
                    let _turn = turns.lock().expect("no panic");
                    exchange(race, &place, turn);
                }
                std::thread::sleep(Duration::from_micros(turn * 37 % 1500));
            }
        });
        for round in 0..rounds {
            if let Race::Files = race {
                // The run begins with nothing under the name, so that it goes on and deletes in the end.
                let _turn = turns.lock().expect("no panic");
                put_back(&safe, &victim, &name);
            }
            let line = format!(
                "run --driver file --path {} --size 1MiB --bs 4KiB --rw write --ops 64 \
                 --output out --set target.options.direct=false",
                path_text(&name)
            );
            let out = stage.run(&[], &line.split_whitespace().collect::<Vec<_>>());
            end.rounds += 1;
            match out.status.code() {
                Some(0) => end.ran += 1,
                Some(3) => end.refused += 1,
                _ => {}
            }
            let links = std::fs::metadata(&safe).map(|m| m.nlink()).unwrap_or(0);
            let intact = sum(&safe) == before;
            if links != 2 || !intact {
                end.lost.push(format!("round {round}: {links} names, intact: {intact}"));
                // So that the next rounds have something to lose.
                let again = place.join("again");
                write_data(&safe, MIB as usize);
                let _ = remove_file(&again);
                let _ = hard_link(&safe, &again).and_then(|()| rename(&again, &victim));
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    let _ = tool(&["umount", &path_text(&name)]);
    Ok(end)
}

fn prepare(race: Race, name: &Path) -> std::io::Result<()> {
    match race {
        Race::Symlinks => {
            std::fs::write(name.with_file_name("mine"), "").and_then(|()| symlink("mine", name))
        }
        // The run makes its own, to be deleted in the end.
        Race::Files => Ok(()),
        // A mount needs something to be on.
        Race::Mounts => std::fs::write(name, ""),
    }
}

/// The victim under its own name, whichever it has, and nothing under the other.
fn put_back(safe: &Path, victim: &Path, name: &Path) {
    let number = |path: &Path| std::fs::metadata(path).map(|m| m.ino()).ok();
    let _ = match number(name) == number(safe) {
        true => rename(name, victim),
        false => remove_file(name),
    };
}

/// One turn. What cannot be done now is done the next time: the run has its own part in the names.
fn exchange(race: Race, place: &Path, turn: u64) {
    let (victim, name) = (place.join("victim"), place.join("name"));
    match race {
        Race::Symlinks => {
            let next = place.join("next");
            let _ = remove_file(&next);
            let to = if turn.is_multiple_of(2) { "victim" } else { "mine" };
            let _ = symlink(to, &next).and_then(|()| rename(&next, &name));
        }
        Race::Files => {
            let _ = renameat_with(CWD, &victim, CWD, &name, RenameFlags::EXCHANGE);
        }
        Race::Mounts => {
            let words = [&*path_text(&victim), &*path_text(&name)];
            let _ = match turn % 2 {
                0 => tool(&["mount", "--bind", words[0], words[1]]),
                _ => tool(&["umount", "--lazy", words[1]]),
            };
        }
    }
}
