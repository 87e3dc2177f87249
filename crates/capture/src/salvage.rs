//! After a crash or SIGKILL: the chunks that the run left in memory-backed and spilled files become
//! `ios.parquet`.
//!
//! Called by whoever opens a run directory (`taillight report`). Outside of the run directory only capture
//! chunks are read, and these and the owner's file removed, in directories named after this very run; inside it,
//! files that were being written are removed.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use taillight_core::plan::CaptureMode;
use taillight_core::progress::OnProgress;
use taillight_core::{Error, Result, atomic};
use taillight_rundir::RunDir;
use taillight_rundir::atomic::cannot;
use taillight_rundir::ios::IosFile;
use taillight_rundir::manifest::{Degraded, Manifest, PhaseInfo, ProcessInfo, RunStatus};
use taillight_rundir::names;
use taillight_rundir::sums;

use crate::chunk::{ANY_VERSION, MAGIC};
use crate::convert::{ChunkFiles, ChunkRelease, ChunkStore, ConvertOptions, Converted, convert};
use crate::dir::{capture_dir, dir_name, remove_empty, spill_dir};

/// What salvage found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Salvaged {
    /// I/Os in `ios.parquet` now.
    pub ios: u64,
    /// Chunks that were missing or could not be read.
    pub damaged: u64,
    /// What happened, one sentence; also in the manifest.
    pub text: String,
}

/// Recovers the I/Os of a run that was killed, marks its manifest partial, and frees its memory.
/// Does nothing (`None`) when the run ended by itself or ran on another machine. Errors:
/// `Unavailable` when the run still lives, its chunks are of another version, `progress` asked to stop
/// (nothing is lost then), or the directory cannot be written.
pub fn salvage(dir: &mut RunDir, progress: &mut OnProgress<'_>) -> Result<Option<Salvaged>> {
    if dir.manifest().status != RunStatus::Running || elsewhere(dir.manifest()) {
        return Ok(None);
    }
    if dir.is_live() {
        return Err(Error::unavailable("the run is still going")
            .with("path", dir.path().display())
            .hint("wait until it ends; its report is made then"));
    }
    dir.take_lock()?;
    remove_leftovers(dir.path());
    let places = places(dir.manifest());
    let gone = gone(dir, &places);
    let mut found = Found::list(&places, &dir.manifest().taillight)?;
    found.damaged += gone;
    let phases = phases(dir.manifest());
    let converted = if dir.existing(names::IOS).is_some() {
        // Killed between conversion and the last manifest: the file is whole, as its name says.
        let mut converted = Converted {
            rows: IosFile::open(&dir.file(names::IOS))?.rows(),
            ..Converted::default()
        };
        for chunk in 0..found.chunks.count() {
            if let Ok(header) = found.chunks.header(chunk) {
                converted.note_partial(&header);
            }
            found.chunks.release(chunk)?;
        }
        converted
    } else if found.chunks.count() == 0 {
        Converted { damaged: found.damaged, ..Converted::default() }
    } else {
        let options = ConvertOptions {
            phases: &phases,
            expected: None,
            tolerant: true,
            release: ChunkRelease::AtEnd,
        };
        let mut converted = convert(dir, &mut found.chunks, &options, &mut |_| (), progress)?;
        converted.damaged = converted.damaged.max(found.damaged);
        converted
    };
    found.clean();
    let salvaged = describe(&converted, gone > 0);
    let mut manifest = partial(dir.manifest(), &phases, &converted, &salvaged);
    manifest.files = sums::file_sums(dir)?;
    dir.write_manifest(&manifest)?;
    Ok(Some(salvaged))
}

/// Whether the run belongs to another machine, whose memory cannot be seen from here.
fn elsewhere(manifest: &Manifest) -> bool {
    let both = manifest.process.as_ref().zip(ProcessInfo::current());
    both.is_some_and(|(p, me)| p.host != me.host && p.boot_id != me.boot_id)
}

/// Names of the phases by the index chunks hold. A killed run may not have listed them; then
/// the only phase with a capture is the measure phase.
fn phases(manifest: &Manifest) -> Vec<String> {
    let names: Vec<String> = manifest.phases.iter().map(|p| p.name.clone()).collect();
    if names.is_empty() {
        return vec!["measure".into()];
    }
    names
}

/// Where this run's chunks may be. A manifest may come from anywhere, so a directory counts only
/// if it carries the name of this run.
fn places(manifest: &Manifest) -> Vec<PathBuf> {
    let id = &manifest.run_id;
    if id.is_empty() || id.contains(['/', '\0']) {
        return Vec::new();
    }
    let mut places = vec![capture_dir(id)];
    let stated = manifest.capture.path.as_ref().map(PathBuf::from);
    places.extend(stated.filter(|p| p.file_name().is_some_and(|n| *n == *dir_name(id))));
    let spill = manifest.capture.dir.as_ref();
    places.extend(spill.map(|d| spill_dir(Path::new(d), id)));
    places.dedup();
    places
}

/// Chunk files on disk.
struct Found {
    chunks: ChunkFiles,
    /// Chunk files without a record: never handed to a worker, or without a readable header.
    useless: Vec<PathBuf>,
    damaged: u64,
    places: Vec<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Chunk,
    Unused,
    Damaged,
    /// A chunk of another version; or of this one, with damage in its version.
    OtherVersion,
}

impl Found {
    /// Lists the chunk files in `places`, of a run that `version` of Taillight made.
    fn list(places: &[PathBuf], version: &str) -> Result<Found> {
        let mut found = Found {
            chunks: ChunkFiles::default(),
            useless: Vec::new(),
            damaged: 0,
            places: places.to_vec(),
        };
        let mut others = 0;
        for place in places {
            let mut paths = entries(place)?;
            paths.retain(|p| p.extension().is_some_and(|e| e == "chunk"));
            paths.retain(|p| fs::symlink_metadata(p).is_ok_and(|m| m.is_file()));
            paths.sort();
            for path in paths {
                let kind = kind(&path)?;
                others += u32::from(kind == Kind::OtherVersion);
                match kind {
                    Kind::Chunk => found.chunks.0.push(path),
                    Kind::Unused => found.useless.push(path),
                    Kind::Damaged | Kind::OtherVersion => {
                        found.damaged += 1;
                        found.useless.push(path);
                    }
                }
            }
        }
        if others > 0 && found.chunks.count() == 0 {
            let what =
                "another version of Taillight ran this, and left its I/Os in a form of its own";
            return Err(Error::unavailable(what).with("chunks", others).hint(format!(
                "recover them with `taillight report` of version {version}: nothing was changed"
            )));
        }
        Ok(found)
    }

    /// Removes what holds nothing, then the directories if they are empty.
    fn clean(self) {
        for path in &self.useless {
            let _ = fs::remove_file(path);
        }
        for place in &self.places {
            let _ = remove_empty(place);
        }
    }
}

/// What lies in a place; nothing where there is no such directory. Errors: `Unavailable` when it
/// cannot be listed: chunks that may be there must not count as gone.
fn entries(place: &Path) -> Result<Vec<PathBuf>> {
    use std::io::ErrorKind::{NotADirectory, NotFound};
    let list = match fs::read_dir(place) {
        Err(e) if matches!(e.kind(), NotFound | NotADirectory) => return Ok(Vec::new()),
        list => list,
    };
    let paths = list.and_then(|list| list.map(|entry| Ok(entry?.path())).collect());
    paths.map_err(|e| cannot("list", place, e))
}

fn kind(path: &Path) -> Result<Kind> {
    let mut head = Vec::new();
    File::open(path)
        .and_then(|f| f.take(MAGIC.len() as u64).read_to_end(&mut head))
        .map_err(|e| cannot("read", path, e))?;
    // A chunk is made whole: a shorter one was cut.
    Ok(if head == MAGIC {
        Kind::Chunk
    } else if head.len() == MAGIC.len() && head.iter().all(|b| *b == 0) {
        Kind::Unused
    } else if head.len() == MAGIC.len() && head.starts_with(&ANY_VERSION) {
        Kind::OtherVersion
    } else {
        Kind::Damaged
    })
}

/// Removes files that were being written when the run was killed.
fn remove_leftovers(dir: &Path) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let file = entry.file_type().is_ok_and(|kind| kind.is_file());
        if file && atomic::is_temporary(&name.to_string_lossy()) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Chunks of a capture that is no longer there: each worker had one at least.
fn gone(dir: &RunDir, places: &[PathBuf]) -> u64 {
    let manifest = dir.manifest();
    let kept = manifest.plan.capture.mode != CaptureMode::Off && manifest.capture.path.is_some();
    if !kept || dir.existing(names::IOS).is_some() || places.iter().any(|p| p.is_dir()) {
        return 0;
    }
    manifest.plan.workers().into()
}

/// Why nobody wrote the end; which of the two, nothing tells.
const WHY: &str = "it was killed or could not write its results";

fn describe(converted: &Converted, gone: bool) -> Salvaged {
    let damaged = match converted.damaged {
        _ if gone => ": the capture in memory is gone, deleted or lost with a restart".into(),
        0 => String::new(),
        1 => "; one capture chunk could not be read".into(),
        n => format!("; {n} capture chunks could not be read"),
    };
    let text = match converted.rows {
        0 => format!("{WHY}, and none of its I/Os could be saved{damaged}"),
        n if converted.partial_from.is_some() => format!(
            "{WHY}; {n} I/Os were saved from memory, from some point on only \
             outliers{damaged}"
        ),
        n => format!("{WHY}; {n} I/Os were saved from memory, those in flight were not{damaged}"),
    };
    Salvaged { ios: converted.rows, damaged: converted.damaged, text }
}

/// The manifest of a run that was killed and salvaged.
fn partial(
    old: &Manifest,
    phases: &[String],
    converted: &Converted,
    salvaged: &Salvaged,
) -> Manifest {
    let mut new = old.clone();
    new.status = RunStatus::Partial;
    new.reason = Some(salvaged.text.clone());
    new.capture.kept = converted.rows;
    new.capture.path = None;
    new.losses.chunks = converted.damaged;
    if let Some(at_ns) = converted.partial_from
        && new.capture.degraded.is_none()
    {
        new.capture.degraded = Some(Degraded {
            at_ns,
            not_kept: 0,
            reason: "only outliers were kept from some point on, and because the run was killed \
                     the number of I/Os left out is unknown"
                .into(),
        });
    }
    let mut before = i64::MIN;
    for (index, (submit, end)) in &converted.spans {
        // A schedule that was late from the start began before its first submit; what was due in the warm-up did not.
        let due = converted.due.get(index).copied().unwrap_or(i64::MAX);
        let start = (*submit).min(due.max(before));
        before = *end;
        let ios = |p: u16| {
            let counts = converted.counts.iter().filter(|((phase, _), _)| *phase == p);
            counts.map(|(_, n)| n).sum::<u64>()
        };
        let at = usize::from(*index);
        match new.phases.get_mut(at) {
            Some(phase) => {
                if phase.start_ns == 0 {
                    phase.start_ns = start;
                }
                phase.end_ns.get_or_insert(*end);
                phase.ios = ios(*index);
            }
            None => new.phases.push(PhaseInfo {
                name: phases.get(at).cloned().unwrap_or_else(|| format!("phase-{index}")),
                start_ns: start,
                end_ns: Some(*end),
                ios: ios(*index),
            }),
        }
    }
    new
}
