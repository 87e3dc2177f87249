//! What an earlier attempt at a series left: which points are complete, so that they are read and not run
//! again, and which are run again all the same because they make the state of a target that a later point needs.
//! Refuses a changed plan, series or device; for every series also a confirmed target that was replaced between
//! two points. Called by the series runner.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use taillight_core::exit::Exit;
use taillight_core::plan::{Plan, rank_name};
use taillight_core::{Error, Result};
use taillight_driver::bind;
use taillight_driver::identity::target;
use taillight_rundir::series::{Axis, ConfirmedTarget, PointStatus, SeriesFile, SeriesPoint};
use taillight_rundir::{RunDir, Summary, atomic, names};

use crate::axis;
use crate::differences::differences;
use crate::exit::{ends_series, from_code};
use crate::figures;
use crate::method::{Method, Next, Point, PointResult, SeriesHead, SharedUse};

/// Whether a point needs no other run: it came to its end, and nothing ended the series with it. A
/// signal or a full disk while its results were written leaves a complete run that did.
pub(crate) fn is_done(point: &SeriesPoint) -> bool {
    let ended = point.exit.and_then(from_code).is_none_or(ends_series);
    point.status == PointStatus::Complete && !ended
}

/// The points of an earlier attempt.
pub(crate) struct Earlier {
    dir: PathBuf,
    points: Vec<SeriesPoint>,
    resumed: bool,
    /// Complete results that stay valid while the state they were measured on is made again.
    pub unreached: Vec<PointResult>,
}

impl Earlier {
    pub fn new(file: Option<SeriesFile>, dir: &Path) -> Earlier {
        Earlier {
            dir: dir.to_owned(),
            resumed: file.is_some(),
            points: file.map(|f| f.points).unwrap_or_default(),
            unreached: Vec::new(),
        }
    }

    /// Whether the series is resumed.
    pub fn any(&self) -> bool {
        self.resumed
    }

    /// The results up to the first point that is to be run. Errors: as [`Earlier::take`] and
    /// [`check_state`].
    pub fn replay(&mut self, method: &mut dyn Method) -> Result<Vec<PointResult>> {
        let mut done = Vec::new();
        while self.resumed
            && let Next::Point(point) = method.next(&done)?
        {
            match self.take(method, &done, &point)? {
                Some(result) => done.push(result),
                None => {
                    check_state(&point, &done, None)?;
                    break;
                }
            }
        }
        Ok(done)
    }

    /// The result of a point that is complete already and follows `done`; none for one that is to
    /// be run, which includes one that makes a state which a later point still needs: it was lost
    /// with the process. Errors: `Usage` when the job has changed since; `Corrupt` when a run cannot
    /// be read.
    pub fn take(
        &mut self,
        method: &mut dyn Method,
        done: &[PointResult],
        point: &Point,
    ) -> Result<Option<PointResult>> {
        let Some(result) = self.read(point)? else {
            return Ok(None);
        };
        let Some(made) = point.shared.as_ref().filter(|s| s.prepares) else {
            return Ok(Some(result));
        };
        let mut ahead = done.to_vec();
        ahead.push(result.clone());
        while let Next::Point(next) = method.next(&ahead)?
            && next.shared.as_ref().is_some_and(|s| s.same_state(made))
        {
            match self.read(&next)? {
                Some(result) => ahead.push(result),
                None => {
                    self.unreached = ahead.split_off(done.len() + 1);
                    return Ok(None);
                }
            }
        }
        Ok(Some(result))
    }

    /// The result of a complete point; none for one that is a series itself, which reads its own points.
    fn read(&self, point: &Point) -> Result<Option<PointResult>> {
        let complete = |p: &&SeriesPoint| p.id == point.id && is_done(p);
        let Some(entry) = self.points.iter().find(complete) else {
            return Ok(None);
        };
        let dir = self.dir.join(&entry.run);
        if point.plan.is_series() && dir.join(names::SERIES).exists() {
            return Ok(None);
        }
        if !dir.exists() {
            return Err(Error::usage("the series cannot be resumed: a complete run of it is gone")
                .with("point", &point.id)
                .with("path", dir.display())
                .hint("put the directory back, or begin the series anew in another one"));
        }
        let run = RunDir::open(&dir)?;
        let (was, is) = (comparable(&run.manifest().plan), comparable(&point.plan));
        if was != is {
            return Err(
                changed("job", &self.dir, &plan_changes(&was, &is)).with("point", &point.id)
            );
        }
        let summary = run.read::<Summary>()?;
        Ok(Some(PointResult {
            point: point.clone(),
            dir,
            exit: entry.exit.and_then(from_code).unwrap_or(Exit::Internal),
            status: entry.status,
            values: summary.as_ref().map(figures::values).unwrap_or_default(),
            summary,
        }))
    }

    /// Gives a run directory that an earlier attempt did not finish another name, so that the point can be run again,
    /// and takes back what that run made of its target. Errors: `Unavailable` when it cannot be renamed, and as
    /// [`taillight_driver::BoundDriver::take_back`].
    pub fn move_aside(&self, dir: &Path, plan: &Plan) -> Result<()> {
        // A point that is a series itself goes on in its directory.
        if !self.resumed || !dir.exists() || dir.join(names::SERIES).exists() {
            return Ok(());
        }
        let other = atomic::free_name(dir, "earlier")?;
        let id = |dir: &Path| RunDir::open(dir).map(|run| run.manifest().run_id.clone()).ok();
        // What each of several ranks has of its own is named by its own run.
        let ids: Vec<String> =
            [id(dir), id(&dir.join(rank_name(0)))].into_iter().flatten().collect();
        for (name, target) in plan.all_targets() {
            bind(target)?.take_back(&plan.for_target(name), &ids)?;
        }
        std::fs::rename(dir, &other).map_err(|e| {
            Error::unavailable("cannot rename an unfinished run directory")
                .with("path", dir.display())
                .source(e)
        })
    }
}

/// Refuses a run on a state of a shared target that went with the process when nothing makes it
/// again; `open` is the use of the target that is open now. Errors: `Usage`.
pub(crate) fn check_state(
    point: &Point,
    done: &[PointResult],
    open: Option<&SharedUse>,
) -> Result<()> {
    let Some(needed) = point.shared.as_ref().filter(|s| !s.prepares) else {
        return Ok(());
    };
    let same = |other: &SharedUse| other.same_state(needed);
    if open.is_some_and(same) || !done.iter().any(|r| r.point.shared.as_ref().is_some_and(same)) {
        return Ok(());
    }
    Err(Error::usage("the series cannot be resumed: its runs need what those before them stored")
        .with("point", &point.id)
        .hint("begin it anew in another directory; a phase with role = \"precondition\" makes it resumable"))
}

/// Refuses to go on with a series of another version, method or loops. Errors: `Usage`, saying what
/// differs.
pub(crate) fn check_series(began: &SeriesFile, head: &SeriesHead, dir: &Path) -> Result<()> {
    let version = env!("CARGO_PKG_VERSION");
    if began.taillight != version {
        return Err(changed("version", dir, &format!("{}, now {version}", began.taillight)));
    }
    let names = [("method", &began.method, &head.method), ("job", &began.job, &head.job)];
    if let Some((what, was, is)) = names.into_iter().find(|(_, was, is)| was != is) {
        return Err(changed(what, dir, &format!("{was}, now {is}")));
    }
    let values = |axes: &[Axis], path: &str| {
        let axis = axes.iter().find(|a| a.path == path);
        axis.map_or("none".to_owned(), |a| {
            a.values.iter().map(axis::value_text).collect::<Vec<_>>().join(", ")
        })
    };
    let all = began.axes.iter().chain(&head.axes).map(|a| a.path.as_str());
    let mut pairs = all.map(|path| (path, values(&began.axes, path), values(&head.axes, path)));
    match pairs.find(|(_, was, is)| was != is) {
        None => Ok(()),
        Some((path, was, is)) => Err(changed("loop", dir, &format!("{path}: {was}, now {is}"))),
    }
}

/// Parts of a block device that tell it from another one; not its name or number, which a restart of
/// the machine may change.
const IDENTITY: [&str; 6] = ["vendor", "model", "transport", "size", "backing_file", "dm_name"];

/// Refuses to go on with a series on another device: `now` is what the machine says of the target of an
/// earlier run, its manifest what it said then. Errors: `Usage`, saying what differs; `Corrupt` when
/// the run cannot be read.
pub(crate) fn check_device(
    result: &PointResult,
    now: &Map<String, Value>,
    dir: &Path,
) -> Result<()> {
    let run = RunDir::open(&result.dir)?;
    let then = run.manifest().environment.get("target").and_then(|t| t.get("device"));
    let Some((then, now)) = then.zip(now.get("device")) else {
        return Ok(());
    };
    let text = |device: &Value, part: &str| device.get(part).map_or("none".into(), axis::as_given);
    let mut parts = IDENTITY.iter().map(|part| (part, text(then, part), text(now, part)));
    match parts.find(|(_, was, is)| was != is) {
        None => Ok(()),
        Some((part, was, is)) => Err(changed("device", dir, &format!("{part} {was}, now {is}"))),
    }
}

fn changed(what: &str, dir: &Path, how: &str) -> Error {
    Error::usage(format!("the {what} is not the one this series began with"))
        .with("series", dir.display())
        .with("began with", how)
        .hint("begin a new series, or undo the change")
}

/// What two plans have in different ways, in words.
fn plan_changes(was: &Plan, is: &Plan) -> String {
    let table = |plan: &Plan| plan.to_toml().ok()?.parse::<toml::Table>().ok();
    let all = match (table(was), table(is)) {
        (Some(was), Some(is)) => differences(&is.into(), &was.into()),
        _ => Vec::new(),
    };
    all.into_iter().map(|d| d.text).collect::<Vec<_>>().join("; ")
}

/// A plan without what may differ between two attempts: where it goes, and the memory that was free.
fn comparable(plan: &Plan) -> Plan {
    let mut plan = plan.clone();
    plan.run.output = None;
    plan.capture.budget = taillight_core::units::ByteSize(0);
    plan
}
/// Checks before a point that a confirmed target is what its name meant after the point before: a disk that
/// drops off may come back under another name, and somebody may move a file or a database of his own there.
/// Errors: `Refused` where it is another one, or cannot be known any more.
pub fn check_targets(last: &[ConfirmedTarget], now: &[ConfirmedTarget]) -> Result<()> {
    for ConfirmedTarget { name, identity, .. } in now {
        let was = last.iter().find(|c| c.name == *name).and_then(|c| c.identity.as_ref());
        if was.is_some() || identity.is_some() {
            let hint = "what was measured is kept; look what has the name now";
            target::check_same(name, was, identity.as_ref()).map_err(|e| e.hint(hint))?;
        }
    }
    Ok(())
}

/// What the targets are after a point. One that was replaced meanwhile stays what it was, so that the next
/// point is not begun on it; `own` says of a name whether Taillight has made what is there now.
pub fn after_point(
    last: &[ConfirmedTarget],
    now: Vec<ConfirmedTarget>,
    own: impl Fn(&str) -> bool,
) -> Vec<ConfirmedTarget> {
    let looked = |now: ConfirmedTarget| {
        let Some(was) = last.iter().find(|was| was.name == now.name) else { return now };
        let gone = now.identity.as_ref().is_some_and(target::is_absent);
        let same = target::check_same(&now.name, was.identity.as_ref(), now.identity.as_ref());
        let unknown = was.identity.is_none() && now.identity.is_none();
        match gone || unknown || same.is_ok() || own(&now.name) {
            true => now,
            false => was.clone(),
        }
    };
    now.into_iter().map(looked).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use taillight_driver::identity::target::TargetIdentity;

    fn confirmed(identity: &[(&str, &str)]) -> Vec<ConfirmedTarget> {
        let all = identity.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        let identity = Some(all).filter(|all: &TargetIdentity| !all.is_empty());
        vec![ConfirmedTarget { name: "/dev/sdx".to_owned(), identity, contents: None }]
    }

    #[test]
    fn a_target_is_the_same_at_each_point() {
        let disk = |serial| confirmed(&[("device.size", "9"), ("device.serial", serial)]);
        let file = |inode| confirmed(&[("file.inode", inode)]);
        for same in [disk("a"), file("1"), confirmed(&[])] {
            assert!(check_targets(&same, &same).is_ok());
        }
        let changes = [
            (disk("a"), disk("b")),
            (disk("a"), file("1")),
            (disk("a"), confirmed(&[])),
            (file("1"), disk("a")),
            (file("1"), file("2")),
            (confirmed(&[("file", "absent")]), file("1")),
        ];
        for (was, now) in changes {
            let e = check_targets(&was, &now).unwrap_err();
            assert_eq!(e.kind(), taillight_core::ErrorKind::Refused, "{e}");
        }
    }

    #[test]
    fn what_came_into_the_place_during_a_point_is_refused_after_it() {
        let file = |inode| confirmed(&[("file.inode", inode)]);
        let absent = || confirmed(&[("file", "absent")]);
        let after = |was: &[ConfirmedTarget], now, own| after_point(was, now, |_| own);
        assert_eq!(after(&file("1"), file("2"), false), file("1"));
        assert_eq!(after(&absent(), file("2"), false), absent());
        assert_eq!(after(&absent(), file("2"), true), file("2"), "kept");
        assert_eq!(after(&file("1"), absent(), false), absent(), "deleted at the end");
        let read = |line: &str| -> Vec<ConfirmedTarget> {
            let contents = Some(vec![line.to_owned()]);
            file("1")
                .into_iter()
                .map(|c| ConfirmedTarget { contents: contents.clone(), ..c })
                .collect()
        };
        let (before, now) = (read("a"), read("b"));
        assert_eq!(after(&before, now.clone(), false), now);
    }
}
