//! The directory of a database: whose it is, the mark that says so, and what goes in the end.
//!
//! Decides before anything is touched. A database is Taillight's when the mark in its directory
//! names that directory; everything else needs `destroy` and `--destroy`. What this run made is
//! deleted at the end unless it is kept; what was kept before stays.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use taillight_core::{Error, Result};

use super::rules;
use crate::contract::OpenSpec;
use crate::guard;
use crate::guard::owner::{OwnedDir, SIDECAR, StoreMark};

/// What this run wants of the directory.
pub struct Wanted<'a> {
    /// The plan, run id and confirmation.
    pub spec: &'a OpenSpec<'a>,
    /// Name of the driver.
    pub driver: &'static str,
    /// What this run makes stays.
    pub keep: bool,
    /// Nothing is changed, whoever made it.
    pub read_only: bool,
}

/// A database directory past the guard.
pub struct Home {
    dir: PathBuf,
    /// Absent when the database is only read.
    owner: Option<Owner>,
}

struct Owner {
    dir: OwnedDir,
    mark: Mutex<StoreMark>,
    /// The directory itself goes too.
    made_dir: bool,
    /// Records do not outlast this run: it deletes some.
    forget: bool,
}

impl Home {
    /// Finds the directory, asks the guard, makes directory and mark. `wipe` deletes a database
    /// that is there and must not stay.
    ///
    /// # Errors
    /// `Usage` for a path that is no directory, `Refused` by the guard, `Unavailable`.
    pub fn take(w: &Wanted<'_>, wipe: &dyn Fn(&Path) -> Result<()>) -> Result<Home> {
        let target = &w.spec.plan.target;
        let path = target.path.as_deref().filter(|p| !p.is_empty());
        let path = path.ok_or_else(|| {
            Error::usage(format!("driver `{}` needs a path", w.driver))
                .hint("a directory for the database: --path /mnt/test/db/")
        })?;
        let (dir, absent) = find(path)?;
        let same = |name: &str| find(name).is_ok_and(|(d, _)| d == dir);
        let confirmed = guard::confirmed(target.destroy, w.spec.destroy, &dir, same)?;
        if w.read_only {
            return Home::visit(w, dir, absent);
        }
        let form = rules::form(w.spec.plan);
        let kept = match absent {
            true => None,
            false => existing(w, &dir, &form, confirmed, wipe)?,
        };
        if absent {
            std::fs::create_dir(&dir).map_err(|e| cannot("make the directory", &dir, e))?;
        }
        let owned = OwnedDir::open(&dir)?;
        let (inode, device) = owned.identity()?;
        let (_, forget) = rules::changes(w.spec.plan);
        let mark = kept.unwrap_or_else(|| StoreMark {
            driver: w.driver.to_owned(),
            inode,
            device,
            run_id: w.spec.run_id.to_owned(),
            keep: w.keep,
            form,
            records: 0,
        });
        let home = Home {
            dir,
            owner: Some(Owner {
                dir: owned,
                mark: Mutex::new(mark),
                made_dir: absent,
                forget,
            }),
        };
        // Before the first byte of data, so that a killed run leaves what the next one knows.
        home.note(None)?;
        Ok(home)
    }

    fn visit(w: &Wanted<'_>, dir: PathBuf, absent: bool) -> Result<Home> {
        if absent {
            return Err(Error::unavailable("there is no database to read")
                .with("path", dir.display())
                .hint("load it first, without options.read_only"));
        }
        if rules::changes(w.spec.plan).0 {
            return Err(Error::usage("read_only = true, but the plan writes")
                .hint("leave only get and scan in the mix, or set options.read_only = false"));
        }
        Ok(Home { dir, owner: None })
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Whether the database may be made.
    pub fn creates(&self) -> bool {
        self.owner.is_some()
    }

    /// Records known to be there; `None` when nothing is known of a database that is only read.
    pub fn records(&self) -> Option<u64> {
        self.owner.as_ref().map(|o| lock(&o.mark).records)
    }

    /// Takes note of `records`; `None` notes what is known, as it should outlast the run.
    ///
    /// # Errors
    /// `Unavailable` when the note cannot be written.
    pub fn note(&self, records: Option<u64>) -> Result<()> {
        let Some(owner) = &self.owner else {
            return Ok(());
        };
        let mut mark = lock(&owner.mark);
        if let Some(records) = records {
            mark.records = records;
        }
        let mut lasting = mark.clone();
        if owner.forget {
            lasting.records = 0;
        }
        owner.dir.set_store(Some(lasting))
    }

    /// Whether the database goes with the run.
    pub fn goes(&self) -> bool {
        self.owner.as_ref().is_some_and(|o| !lock(&o.mark).keep)
    }

    /// Deletes what goes: `wipe` the database, then the mark, then the directory.
    ///
    /// # Errors
    /// `Unavailable` when something cannot be removed.
    pub fn leave(&mut self, wipe: &dyn Fn(&Path) -> Result<()>) -> Result<()> {
        if !self.goes() {
            return Ok(());
        }
        let Some(owner) = self.owner.take() else {
            return Ok(());
        };
        wipe(&self.dir)?;
        owner.dir.set_store(None)?;
        if owner.made_dir {
            // Not empty any more: somebody else's files are in it, so it stays.
            let _ = std::fs::remove_dir(&self.dir);
        }
        Ok(())
    }
}

/// What a directory that exists means for the run; the mark of a database that stays in use.
fn existing(
    w: &Wanted<'_>,
    dir: &Path,
    form: &str,
    confirmed: bool,
    wipe: &dyn Fn(&Path) -> Result<()>,
) -> Result<Option<StoreMark>> {
    if is_empty(dir)? {
        return Ok(None);
    }
    let mark = OwnedDir::open(dir)?.store()?;
    let Some(mark) = mark else {
        guard::foreign(confirmed, dir)?;
        wipe(dir)?;
        return Ok(None);
    };
    if mark.driver != w.driver {
        return Err(
            Error::refused("the directory holds a database of another driver")
                .with("path", dir.display())
                .with("driver", &mark.driver)
                .hint("choose another path, or delete the directory"),
        );
    }
    if !mark.keep || confirmed {
        // What a killed run left behind, or what the user gave up.
        wipe(dir)?;
        return Ok(None);
    }
    if mark.form != form {
        return Err(Error::refused("the database holds records of another form")
            .with("path", dir.display())
            .with("there", &mark.form)
            .with("asked", form)
            .hint(format!(
                "choose another path; or if it may be lost, set `destroy = true` under \
                     [target] and add: --destroy {}",
                dir.display()
            )));
    }
    Ok(Some(mark))
}

/// The directory that `path` means, and whether it is not there yet. No symlink is left in it.
fn find(path: &str) -> Result<(PathBuf, bool)> {
    let given = Path::new(path);
    match std::fs::canonicalize(given) {
        Ok(real) if real.is_dir() => return Ok((real, false)),
        Ok(_) => {
            return Err(
                Error::usage("a database is a directory, and the path is not one")
                    .with("path", path)
                    .hint("name a directory, or one that is to be made"),
            );
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        Err(e) => return Err(cannot("resolve the path", given, e)),
    }
    if given.symlink_metadata().is_ok() {
        return Err(Error::usage("the path is a symbolic link to nothing").with("path", path));
    }
    let Some(name) = given.file_name() else {
        return Err(Error::usage("the path names no directory").with("path", path));
    };
    let parent = given.parent().filter(|p| !p.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    let real = std::fs::canonicalize(parent).map_err(|e| {
        cannot("find the directory that would hold the database", parent, e)
            .hint("make it first, or correct the path")
    })?;
    Ok((real.join(name), true))
}

/// Nothing in it that anyone could miss.
fn is_empty(dir: &Path) -> Result<bool> {
    let failed = |e| cannot("list the directory", dir, e);
    for entry in std::fs::read_dir(dir).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        if name != SIDECAR && name != "lost+found" {
            return Ok(false);
        }
    }
    Ok(true)
}

fn cannot(what: &str, path: &Path, e: io::Error) -> Error {
    Error::unavailable(format!("cannot {what}"))
        .with("path", path.display())
        .source(e)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
