//! What killed runs left in memory: removed where nobody needs it, else named with the command that
//! saves or removes it. Called before commands that measure, and by `doctor`.

use std::path::Path;

use taillight_core::units::ByteSize;
use taillight_rundir::leftover::{LeftoverFate, leftovers};

use crate::output;
use crate::run::directory::command_line;

/// Looks through the memory that captures are kept in; names the first of what stays, or `every` one.
pub fn settle(every: bool) {
    let mut named = 0;
    for left in leftovers() {
        let bytes = ByteSize(left.bytes);
        let (what, mut words) = match left.settle() {
            LeftoverFate::Removed => continue,
            LeftoverFate::Saved(run) => {
                ("save it with", vec!["taillight".into(), "report".into(), run])
            }
            LeftoverFate::Orphaned(dirs) => {
                let what = "its run directory is gone or has another run; remove it with";
                (what, [vec!["rm".into(), "-r".into()], dirs].concat())
            }
        };
        named += 1;
        if named > 1 && !every {
            continue;
        }
        let words = words.drain(..).map(|word| Path::to_string_lossy(&word).into_owned());
        output::note(&format!(
            "a run that was killed left {bytes} in /dev/shm; {what}\n  `{}`",
            command_line(words)
        ));
    }
    if named > 1 && !every {
        output::note(&format!("and {} more: `taillight doctor` names them", named - 1));
    }
}
