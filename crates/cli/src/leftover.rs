//! Captures that killed runs left in `/dev/shm`: removed where nobody needs them; others stay, and [`LeftoverWords`]
//! says which of these are named, with the command that saves or removes them. Called at the start of `run`, `search`,
//! `suite`, `ab`, `report` and `doctor`.

use std::path::Path;

use taillight_capture::leftover::{LeftoverFate, leftovers};
use taillight_core::units::ByteSize;

use crate::output;
use crate::run::directory::command_line;

/// Which of the captures that stay are named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeftoverWords {
    None,
    /// Those whose run directory is the working directory or below it: the first by name, the rest as a number.
    Own,
    /// All: the newest three by name, the rest as a number.
    Every,
}

/// Removes captures that nobody needs, and names those that stay as `words` says.
pub fn clean_up(words: LeftoverWords) {
    let every = words == LeftoverWords::Every;
    let here = std::env::current_dir().unwrap_or_default();
    let (mut named, most) = (0usize, if every { 3 } else { 1 });
    for left in leftovers() {
        let bytes = ByteSize(left.bytes);
        let own = left.run().is_some_and(|run| run.starts_with(&here));
        let told = every || own && words == LeftoverWords::Own;
        let mut what = "save it with".to_owned();
        let mut words = match left.reclaim() {
            LeftoverFate::Removed => continue,
            LeftoverFate::Saved(run) => vec!["taillight".into(), "report".into(), run],
            LeftoverFate::Orphaned { run, dirs } => {
                // A directory that was renamed, or whose file system is not mounted now, is not gone.
                what = format!(
                    "its run directory is not at {} any more. Under its new name it is saved with \
                     `taillight report NEW_NAME`; if there is none, it is given up with",
                    run.display()
                );
                [vec!["rm".into(), "-r".into()], dirs].concat()
            }
        };
        if !told {
            continue;
        }
        named += 1;
        if named > most {
            continue;
        }
        let words = words.drain(..).map(|word| Path::to_string_lossy(&word).into_owned());
        output::note(&format!(
            "a run that was killed left {bytes} in /dev/shm; {what}\n  `{}`",
            command_line(words)
        ));
    }
    match named.checked_sub(most) {
        None | Some(0) => {}
        Some(more) if every => output::note(&format!(
            "and {more} more; once these are gone, `taillight doctor` names them"
        )),
        Some(more) => output::note(&format!("and {more} more: `taillight doctor` names them")),
    }
}
