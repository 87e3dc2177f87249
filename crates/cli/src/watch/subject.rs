//! Whom to watch: processes by number, those of a unit or a control group, or a program. What may be watched is checked
//! here, and the program is started here ([`Started`]): it is held before its first instruction until it is watched.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Component, Path, PathBuf};
use std::process::{Child, Command, ExitStatus};

use taillight_core::secret::masked_command;
use taillight_core::{Error, Result};
use taillight_machine::Sys;
use taillight_machine::process::{self, ProcessStat};

use super::sys;
use crate::args::WatchArgs;

/// Who is watched.
pub enum Subject {
    /// Processes by number, at least one.
    Pids(Vec<u32>),
    /// The directory of a control group.
    Group(PathBuf),
    /// A program with its arguments, which is still to be started.
    Command(Vec<String>),
}

impl Subject {
    /// Whom the arguments name: a command, else a unit, else a control group, else processes by number. Errors: `Usage`
    /// where nobody is named, and for this process, a thread, the kernel or the whole machine; `Unavailable` for what
    /// is not there or has ended.
    pub fn of(args: &WatchArgs) -> Result<Subject> {
        if !args.command.is_empty() {
            return Ok(Subject::Command(args.command.clone()));
        }
        if let Some(unit) = &args.unit {
            return unit_group(unit).map(Subject::Group);
        }
        if let Some(path) = &args.cgroup {
            return cgroup(path).map(Subject::Group);
        }
        if args.pid.is_empty() {
            return Err(Error::usage("nobody to watch is named")
                .hint("--pid N, --unit NAME, --cgroup PATH, or -- COMMAND ARGS"));
        }
        args.pid.iter().try_for_each(|pid| check(*pid))?;
        Ok(Subject::Pids(args.pid.clone()))
    }

    /// The processes to watch now, without this one: the named ones (also those that have ended) with their
    /// descendants, or those of the control group and of the groups below it. None of a command, which is not started.
    pub fn pids(&self) -> Vec<u32> {
        match self {
            Subject::Pids(pids) => {
                let mut all: Vec<u32> = pids.iter().flat_map(|pid| with_children(*pid)).collect();
                all.sort_unstable();
                all.dedup();
                // `--pid $$`: whoever watches is a child of the shell.
                all.retain(|pid| *pid != std::process::id());
                all
            }
            Subject::Group(dir) => processes(dir),
            Subject::Command(_) => Vec::new(),
        }
    }

    /// What to call it: the command line, secrets masked, of the command or of the first process, or the directory of
    /// the control group. A process without a command line has its short name; one that has ended nothing.
    pub fn label(&self) -> String {
        match self {
            Subject::Command(words) => masked_command(words.iter().map(String::as_str)),
            Subject::Group(dir) => dir.to_string_lossy().into_owned(),
            Subject::Pids(pids) => pids.first().map_or_else(String::new, |pid| command_of(*pid)),
        }
    }

    /// A name for a run directory: `watch-` and the last part of the command, of the group's directory, or of the first
    /// process' short name, 60 characters at most; `_` stands for what is no letter, digit or `-`.
    pub fn name(&self) -> String {
        let name = match self {
            Subject::Command(words) => words.first().cloned().unwrap_or_default(),
            Subject::Group(dir) => dir.to_string_lossy().into_owned(),
            Subject::Pids(pids) => pids.first().map_or_else(String::new, |pid| comm(*pid)),
        };
        let last =
            Path::new(&name).file_name().map_or(name.clone(), |n| n.to_string_lossy().into());
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
        format!("watch-{}", last.chars().map(plain).take(60).collect::<String>())
    }
}

/// The short name of a process; empty where it is not there.
fn comm(pid: u32) -> String {
    let text = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    text.trim_end().to_owned()
}

/// The command line of a process, secrets masked; its short name where it has none.
fn command_of(pid: u32) -> String {
    let bytes = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let line = masked_command(text.trim_end_matches('\0').split('\0'));
    if line.is_empty() { comm(pid) } else { line }
}

/// Refuses a process that cannot be watched. Errors: as [`Subject::of`].
fn check(pid: u32) -> Result<()> {
    let home = PathBuf::from(format!("/proc/{pid}"));
    if pid == 0 || !home.exists() {
        return Err(Error::unavailable("there is no such process")
            .with("pid", pid)
            .hint("`ps -e` lists processes and their numbers"));
    }
    if pid == std::process::id() {
        return Err(Error::usage("taillight does not watch itself").with("pid", pid));
    }
    let status = std::fs::read_to_string(home.join("status")).unwrap_or_default();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.map(|value| value.trim_start_matches(':').trim().to_owned())
    };
    if let Some(process) = field("Tgid").and_then(|t| t.parse::<u32>().ok()).filter(|t| *t != pid) {
        return Err(Error::usage("this is a thread, and whole processes are watched")
            .with("pid", pid)
            .hint(format!("--pid {process} is its process")));
    }
    if field("State").is_some_and(|state| state.starts_with(['Z', 'X'])) {
        return Err(Error::unavailable("the process has ended").with("pid", pid));
    }
    let flags = stat(pid).and_then(|stat| stat.flags());
    const KERNEL: u64 = 0x20_0000;
    if flags.is_some_and(|flags| flags & KERNEL != 0) {
        return Err(Error::usage(
            "this is a thread of the kernel: it has no operations of its own",
        )
        .with("pid", pid)
        .with("name", comm(pid))
        .hint("watch the program whose I/O it does; its part is in the verdicts"));
    }
    Ok(())
}

/// What `/proc/PID/stat` says; none where it is not there.
fn stat(pid: u32) -> Option<ProcessStat> {
    ProcessStat::of(&Sys::default(), &pid.to_string())
}

/// When a process was started, in clock ticks since boot; none of one that is not there, or has ended and is not yet
/// waited for.
pub fn started_at(pid: u32) -> Option<u64> {
    const EXITING: u64 = 0x4;
    const THREADS: usize = 20;
    let stat = stat(pid)?;
    // The first thread may have ended before the others.
    let ended = stat.flags()? & EXITING != 0 && stat.number(THREADS)? <= 1;
    stat.started().filter(|_| !ended)
}

/// A process, whether it is there or not, and those that descend from it.
fn with_children(pid: u32) -> Vec<u32> {
    let children = process::processes(&Sys::default());
    let children = children.iter().filter_map(|child| child.parse().ok());
    let parents = children.filter_map(|child| Some((child, stat(child)?.parent()?)));
    descendants(pid, parents.collect())
}

/// A process and those that descend from it, each once, by the parent of each process. Not all were read at the same
/// moment: with numbers that were given anew they may lead in a circle.
fn descendants(pid: u32, mut parents: BTreeMap<u32, u32>) -> Vec<u32> {
    let mut all = vec![pid];
    let mut at = 0;
    while let Some(parent) = all.get(at).copied() {
        parents.remove(&parent);
        all.extend(parents.iter().filter(|(_, of)| **of == parent).map(|(child, _)| *child));
        at += 1;
    }
    all
}

/// Hierarchies of control groups, the unified one first.
const HIERARCHIES: [&str; 5] = ["", "unified", "systemd", "blkio", "memory"];

const MOUNTED: &str = "/sys/fs/cgroup";

/// The directory of a control group by its path, below [`MOUNTED`] or whole. Errors: `Usage` for one with `..` and for the
/// whole machine; `Unavailable` for one that is not there.
fn cgroup(path: &Path) -> Result<PathBuf> {
    let below = path.strip_prefix(MOUNTED).unwrap_or(path);
    let names = below.components().filter(|part| matches!(part, Component::Normal(_)));
    let given: PathBuf = names.collect();
    let with = |e: Error, hint: &str| e.with("cgroup", path.display()).hint(hint.to_owned());
    if below.components().any(|part| part == Component::ParentDir) {
        let e = Error::usage("a control group is named by its path from the top, without `..`");
        return Err(with(e, "name it as /proc/PID/cgroup does"));
    }
    let found = group(&given.to_string_lossy());
    if found.is_none() && is_group(&Path::new(MOUNTED).join(&given)) || given == Path::new("") {
        let e = Error::usage("this control group is the whole machine");
        return Err(with(e, "name one below it, as /proc/PID/cgroup does"));
    }
    let none = || Error::unavailable("there is no such control group");
    found.ok_or_else(|| with(none(), "name it as /proc/PID/cgroup does"))
}

fn is_group(dir: &Path) -> bool {
    dir.join("cgroup.procs").exists()
}

/// The directory of a control group whose path is as `/proc/PID/cgroup` has it, in the first hierarchy that has it; none
/// for a path that leads nowhere, and for the top of a hierarchy.
fn group(path: &str) -> Option<PathBuf> {
    let of = |hierarchy: &str| Path::new(MOUNTED).join(hierarchy).join(path);
    let mut all = HIERARCHIES.iter().map(|hierarchy| of(hierarchy));
    all.find(|dir| !path.is_empty() && is_below_top(dir))
}

/// Whether a directory is a control group in another one: all processes are in the top of a hierarchy.
fn is_below_top(dir: &Path) -> bool {
    is_group(dir) && dir.parent().is_some_and(is_group)
}

/// The directory of the control group of a systemd unit; a name without a dot is that of a service. Errors:
/// `Unavailable` where systemd cannot be asked, or the unit does not run.
fn unit_group(unit: &str) -> Result<PathBuf> {
    let name = if unit.contains('.') { unit.to_owned() } else { format!("{unit}.service") };
    let no = |why: &str| {
        Error::unavailable(why.to_owned())
            .with("unit", &name)
            .hint("name its control group with --cgroup, or its process with --pid")
    };
    let mut show = Command::new("systemctl");
    show.args(["show", "--property=ControlGroup", "--value", "--", &name]);
    let said = show.output().map_err(|e| no("systemd cannot be asked for the unit").source(e))?;
    let path = String::from_utf8_lossy(&said.stdout).trim().trim_matches('/').to_owned();
    group(&path).ok_or_else(|| no("the unit does not run, or there is none of this name"))
}

/// Processes of a control group and of those below it, without this one.
fn processes(dir: &Path) -> Vec<u32> {
    let text = std::fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default();
    let mut all: Vec<u32> = text.lines().filter_map(|line| line.parse().ok()).collect();
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            all.extend(processes(&entry.path()));
        }
    }
    all.retain(|pid| *pid != std::process::id() && *pid != 0);
    all
}

/// A program that was started to be watched.
pub struct Started(Child);

impl Started {
    /// Starts a program, which begins once `watched` has returned `Ok` for its process, and never where that fails.
    /// Errors: `Usage` without a word, `Unavailable` when it cannot be started; those of `watched`.
    pub fn start(words: &[String], watched: impl FnOnce(u32) -> Result<()>) -> Result<Started> {
        let cannot = |e: std::io::Error| {
            Error::unavailable("the program cannot be started")
                .with("command", words.first().map_or("", String::as_str))
                .source(e)
        };
        let (program, arguments) =
            words.split_first().ok_or_else(|| Error::usage("no program is named after --"))?;
        let (mut told, tell) = std::io::pipe().map_err(cannot)?;
        let (wait, mut go) = std::io::pipe().map_err(cannot)?;
        let mut command = Command::new(program);
        command.args(arguments);
        sys::wait_before_exec(&mut command, tell, wait, &go);
        // `spawn` returns when the program has begun, and the program begins when it is told to.
        let starting = std::thread::spawn(move || command.spawn());
        let mut pid = [0; 4];
        let ready = told.read_exact(&mut pid).map_err(cannot);
        let added = ready.and_then(|()| watched(u32::from_ne_bytes(pid)));
        if added.is_ok() {
            let _ = go.write_all(&[1]);
        }
        drop(go);
        let child =
            starting.join().map_err(|_| Error::internal("starting the program panicked"))?;
        added?;
        child.map(Started).map_err(cannot)
    }

    /// Its exit code as a shell tells it, once it has ended; none while it runs. It does not wait.
    pub fn exit_code(&mut self) -> Option<u8> {
        self.0.try_wait().ok().flatten().map(code)
    }
}

/// The exit code as a shell tells it: 128 and the signal where one ended it; 255 for what is no byte.
fn code(status: ExitStatus) -> u8 {
    let signal = status.signal().map(|signal| 128 + signal);
    status.code().or(signal).and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_waits_until_it_is_watched_and_its_code_is_kept() {
        let words = |text: &str| ["sh", "-c", text].map(str::to_owned).to_vec();
        let mut named = 0;
        let mut started = Started::start(&words("exit 3"), |pid| {
            named = pid;
            assert_ne!(comm(pid), "sh", "it has not begun");
            Ok(())
        })
        .expect("started");
        assert_eq!(started.0.id(), named);
        let code = (0..1000).find_map(|_| {
            std::thread::sleep(std::time::Duration::from_millis(5));
            started.exit_code()
        });
        assert_eq!(code, Some(3));
        let refused = Started::start(&words("exit 0"), |_| Err(Error::unavailable("no room")));
        assert!(refused.is_err_and(|e| e.to_string().contains("no room")));
        let absent = Started::start(&["/nowhere/at/all".to_owned()], |_| Ok(()));
        assert!(absent.is_err_and(|e| e.to_string().contains("cannot be started")));
    }

    #[test]
    fn who_cannot_be_watched_is_refused_with_the_reason() {
        let refused = |pid: u32| check(pid).expect_err("refused").to_string();
        assert!(refused(u32::MAX).contains("no such process"));
        assert!(refused(std::process::id()).contains("itself"));
        assert!(refused(2).contains("kernel") || !comm(2).contains("kthreadd"));
    }

    #[test]
    fn parents_that_lead_in_a_circle_end() {
        let parents = |list: &[(u32, u32)]| list.iter().copied().collect();
        assert_eq!(descendants(1, parents(&[(2, 1), (3, 2), (4, 9), (5, 1)])), [1, 2, 5, 3]);
        assert_eq!(descendants(2, parents(&[(2, 3), (3, 2), (4, 3)])), [2, 3, 4]);
    }

    #[test]
    fn the_top_of_a_hierarchy_is_no_control_group_to_watch() {
        let home = tempfile::tempdir().expect("a directory");
        let top = home.path().join("blkio");
        std::fs::create_dir_all(top.join("a/b")).expect("made");
        for dir in [&top, &top.join("a"), &top.join("a/b")] {
            std::fs::write(dir.join("cgroup.procs"), "").expect("written");
        }
        assert!(!is_below_top(&top) && is_below_top(&top.join("a")));
        assert!(is_below_top(&top.join("a/b")) && !is_below_top(&top.join("c")));
        let refused = |path: &str| cgroup(Path::new(path)).expect_err("refused").to_string();
        for whole in ["/", "", "/.", "./", "/sys/fs/cgroup", "/sys/fs/cgroup/."] {
            assert!(refused(whole).contains("the whole machine"), "{whole}");
        }
        for up in ["..", "/a/../..", "/sys/fs/cgroup/a/.."] {
            assert!(refused(up).contains("without `..`"), "{up}");
        }
    }

    #[test]
    fn who_has_ended_was_never_started_and_who_watches_is_not_watched() {
        let own = std::process::id();
        assert!(started_at(own).is_some_and(|at| Some(at) == started_at(own)));
        assert_eq!(started_at(u32::MAX), None);
        let mut child = Command::new("true").spawn().expect("started");
        // Dead, and not waited for.
        let state =
            || std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap_or_default();
        let dead = (0..2000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(5));
            state().contains(") Z ")
        });
        assert!(dead, "{}", state());
        assert_eq!(started_at(child.id()), None);
        child.wait().expect("waited for");
        let parent = std::os::unix::process::parent_id();
        let all = Subject::Pids(vec![parent]).pids();
        assert!(all.contains(&parent) && !all.contains(&own), "{all:?}");
    }
}
