//! Which files watched operations were on: each file has a number and, where it is found, a path: the one under which
//! the program has it open or mapped; else the name that the kernel told, below where its file system is mounted.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use taillight_machine::Sys;
use taillight_machine::block::{BlockDevice, DeviceNumber};
use taillight_machine::mounts::{self, Mount};

use super::told::CallFacts;
use crate::bpf::layout::device;
use crate::bpf::look_ups::LookUps;

/// Files that get a number of their own.
const FILES_MAX: usize = 4096;
/// Descriptors of a process that are looked at.
const DESCRIPTORS_MAX: usize = 4096;
/// A file that was not found is looked up again after this time.
const AGAIN: Duration = Duration::from_millis(500);

/// Number of the event that tells a name, see `K_NAME` of the programs; bytes before the names.
const NAME: u8 = 13;
const NAME_HEAD: usize = 32;

/// Device of its file system, inode, and which of the files that had this inode's number.
type FileKey = (u32, u64, u32);

/// What the kernel called a file when an operation on it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileName {
    key: FileKey,
    /// Below the root of its file system.
    path: PathBuf,
}

impl FileName {
    /// Whether an event tells one.
    pub fn is_told(bytes: &[u8]) -> bool {
        bytes.len() >= NAME_HEAD && bytes[..4] == [NAME, 0, 0, 0]
    }

    /// None for one that does not reach the root.
    pub fn parse(bytes: &[u8]) -> Option<FileName> {
        let half = |at: usize| bytes.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes);
        let inode = bytes.get(8..16)?.try_into().ok().map(u64::from_ne_bytes)?;
        let (key, length) = ((half(4)?, inode, half(16)?), half(24)? as usize);
        let names = bytes.get(NAME_HEAD..NAME_HEAD + length)?;
        let up = names.split(|b| *b == 0).filter(|name| !name.is_empty());
        let path = up.rev().map(OsStr::from_bytes).collect();
        (FileName::is_told(bytes) && half(28)? == 1).then_some(FileName { key, path })
    }
}

/// What is asked of a file that has no path yet.
#[derive(Debug)]
struct FileQuestion {
    number: u16,
    dev: u32,
    inode: u64,
    /// 0 where the file system numbers none (overlay, NFS, many of FUSE).
    generation: u32,
    /// An operation on it.
    facts: Option<CallFacts>,
    /// Its path below the root of its file system.
    name: Option<PathBuf>,
}

/// One file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenFile {
    /// Device of its file system, kernel number; of a block device its own.
    pub dev: u32,
    pub inode: u64,
    pub path: Option<PathBuf>,
}

impl SeenFile {
    /// What to call it.
    pub fn words(&self) -> String {
        match (&self.path, device(self.dev)) {
            (Some(path), _) => path.to_string_lossy().into_owned(),
            (None, Some(dev)) => format!("inode {} on {dev}", self.inode),
            (None, None) => "-".to_owned(),
        }
    }
}

/// All of them, by number. The first one stands for those that are not known.
#[derive(Debug)]
pub struct SeenFiles {
    list: Vec<SeenFile>,
    numbers: BTreeMap<FileKey, u16>,
    asked: BTreeMap<u16, Instant>,
    /// What the kernel called them.
    names: BTreeMap<FileKey, PathBuf>,
    /// Those that have another name since they were asked for.
    renamed: BTreeSet<u16>,
    /// Paths of operations that are on no open file.
    given: BTreeMap<PathBuf, u16>,
    look_ups: LookUps<FileQuestion, (u16, Option<PathBuf>)>,
}

impl Default for SeenFiles {
    fn default() -> SeenFiles {
        SeenFiles::begin(Sys::default())
    }
}

impl SeenFiles {
    /// Starts the thread that looks up.
    fn begin(sys: Sys) -> SeenFiles {
        let find = move |asked: FileQuestion| (asked.number, find(&asked, &sys));
        SeenFiles {
            list: vec![SeenFile { dev: 0, inode: 0, path: None }],
            numbers: BTreeMap::new(),
            asked: BTreeMap::new(),
            names: BTreeMap::new(),
            renamed: BTreeSet::new(),
            given: BTreeMap::new(),
            look_ups: LookUps::begin("trace-files", find),
        }
    }

    /// Takes what was looked up since.
    pub fn settle(&mut self) {
        let new = self.look_ups.settle();
        self.answered(new);
    }

    /// Takes note of what the kernel called a file. With another name it is looked up again at its next operation.
    pub fn named(&mut self, name: FileName) {
        let before = self.names.get(&name.key);
        if before.is_some_and(|before| *before != name.path) {
            self.renamed.extend(self.numbers.get(&name.key));
        } else if self.names.len() >= FILES_MAX {
            return;
        }
        self.names.insert(name.key, name.path);
    }

    /// Asks by its name for each file that has no path so far, and waits for the answers, not for long.
    pub fn end(&mut self) {
        self.settle();
        for (key, number) in &self.numbers {
            let known = self.list.get(usize::from(*number)).is_none_or(|file| file.path.is_some());
            let name = self.names.get(key).filter(|_| !known).cloned();
            if name.is_some() {
                let (number, (dev, inode, generation)) = (*number, *key);
                let facts = None;
                self.look_ups.ask(FileQuestion { number, dev, inode, generation, facts, name });
            }
        }
        let last = self.look_ups.end();
        self.answered(last);
    }

    fn answered(&mut self, answers: Vec<(u16, Option<PathBuf>)>) {
        for (number, path) in answers.into_iter().filter(|(_, path)| path.is_some()) {
            if let Some(file) = self.list.get_mut(usize::from(number)) {
                file.path = path;
            }
        }
    }

    pub fn list(&self) -> &[SeenFile] {
        &self.list
    }

    /// The file of a number.
    pub fn get(&self, number: u16) -> Option<&SeenFile> {
        self.list.get(usize::from(number)).filter(|_| number > 0)
    }

    /// The number of a path that an operation was given; none where there are too many.
    pub fn given(&mut self, path: PathBuf) -> Option<u16> {
        if let Some(number) = self.given.get(&path) {
            return Some(*number);
        }
        let number = (self.list.len() < FILES_MAX).then_some(self.list.len() as u16)?;
        self.list.push(SeenFile { dev: 0, inode: 0, path: Some(path.clone()) });
        self.given.insert(path, number);
        Some(number)
    }

    /// The number of an operation's file; none where it has none, or there are too many. Never waits.
    pub fn number(&mut self, facts: &CallFacts) -> Option<u16> {
        if facts.dev == 0 && facts.inode == 0 {
            return None;
        }
        let key = (facts.dev, facts.inode, facts.generation);
        let number = match self.numbers.get(&key) {
            Some(number) => *number,
            None if self.list.len() >= FILES_MAX => return None,
            None => {
                let number = self.list.len() as u16;
                self.list.push(SeenFile { dev: key.0, inode: key.1, path: None });
                self.numbers.insert(key, number);
                number
            }
        };
        let known = self.get(number).is_some_and(|file| file.path.is_some());
        let recently = self.asked.get(&number).is_some_and(|at| at.elapsed() < AGAIN);
        if self.renamed.remove(&number) || (!known && !recently) {
            self.asked.insert(number, Instant::now());
            let (name, facts) = (self.names.get(&key).cloned(), Some(facts.clone()));
            let (dev, inode, generation) = key;
            self.look_ups.ask(FileQuestion { number, dev, inode, generation, facts, name });
        }
        Some(number)
    }
}

fn find(asked: &FileQuestion, sys: &Sys) -> Option<PathBuf> {
    if asked.inode == 0 {
        let number = DeviceNumber { major: asked.dev >> 20, minor: asked.dev & 0xf_ffff };
        return Some(PathBuf::from(format!("/dev/{}", BlockDevice::find(sys, number)?.name)));
    }
    let open = asked.facts.as_ref().and_then(|facts| open_in(facts, sys));
    // Another file may have got its inode's number since. Without generations it may be older.
    let same = |path: &PathBuf| asked.name.as_ref().is_none_or(|name| same_name(path, name));
    let is_called = |path: &PathBuf| asked.generation == 0 || same(path);
    open.filter(is_called).or_else(|| named_below(asked, sys))
}

/// The path of a file by its name in its file system, as the program sees it, or else this one. Where no file of that
/// name is there any more, or another one, that is said.
fn named_below(asked: &FileQuestion, sys: &Sys) -> Option<PathBuf> {
    let name = asked.name.as_ref()?;
    let program = asked.facts.as_ref().map(|facts| facts.who.pid.to_string());
    let mut gone = None;
    for process in program.iter().map(String::as_str).chain(["self"]) {
        let home = sys.path(&format!("proc/{process}"));
        let Ok(table) = std::fs::read(home.join("mountinfo")) else { continue };
        let mounts = mounts::parse(&table);
        for mount in mounts.iter().filter(|mount| mount.device.in_kernel() == asked.dev) {
            let Ok(below) = Path::new("/").join(name).strip_prefix(&mount.root).map(PathBuf::from)
            else {
                continue;
            };
            let path =
                if below == Path::new("") { mount.point.clone() } else { mount.point.join(below) };
            let inside = path.strip_prefix("/").unwrap_or(&path);
            if is_there(&home.join("root").join(inside), &mounts, asked) {
                return Some(path);
            }
            gone.get_or_insert_with(|| marked(path, " (gone)"));
        }
    }
    let elsewhere =
        || Some(marked(Path::new("/").join(name), &format!(" on {}", device(asked.dev)?)));
    gone.or_else(elsewhere)
}

/// Whether two paths end with the same name; the kernel marks one that was removed.
fn same_name(path: &Path, name: &Path) -> bool {
    let last = |path: &Path| path.file_name().map(|name| name.as_bytes().to_vec());
    let own = last(path).unwrap_or_default();
    let own = own.strip_suffix(b" (deleted)").unwrap_or(&own);
    last(name).is_none_or(|name| name == own)
}

fn marked(path: PathBuf, mark: &str) -> PathBuf {
    let mut words = path.into_os_string();
    words.push(mark);
    words.into()
}

/// Whether a path leads to the file, by device and inode.
fn is_there(path: &Path, mounts: &[Mount], asked: &FileQuestion) -> bool {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Ok(file) = rustix::fs::open(path, flags, Mode::empty()) else { return false };
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", file.as_raw_fd()));
    is_file(&info.unwrap_or_default(), mounts, asked.dev, asked.inode)
}

/// Whether `/proc/PID/fdinfo` is of this file, by the device of its file system and its inode.
fn is_file(info: &str, mounts: &[Mount], dev: u32, inode: u64) -> bool {
    let value = |name: &str| -> Option<u64> {
        info.lines().find_map(|line| line.strip_prefix(name))?.trim().parse().ok()
    };
    let mount = value("mnt_id:").and_then(|id| mounts.iter().find(|mount| mount.id == id));
    value("ino:") == Some(inode) && mount.is_some_and(|mount| mount.device.in_kernel() == dev)
}

/// The path under which a program has a file open, or mapped. A thread may have descriptors of its own, as Taillight's
/// workers do; those that `/proc/PID/fd` shows are the first thread's.
fn open_in(facts: &CallFacts, sys: &Sys) -> Option<PathBuf> {
    let process = sys.path(&format!("proc/{}", facts.who.pid));
    let thread = process.join(format!("task/{}", facts.who.tid));
    let home = if thread.is_dir() { thread } else { process };
    let mounts = mounts::parse(&std::fs::read(home.join("mountinfo")).unwrap_or_default());
    let is = |fd: &str| {
        let info = std::fs::read_to_string(home.join("fdinfo").join(fd)).unwrap_or_default();
        is_file(&info, &mounts, facts.dev, facts.inode)
    };
    let link = |fd: &str| std::fs::read_link(home.join("fd").join(fd)).ok();
    let own = facts.descriptor.to_string();
    if is(&own) {
        return link(&own);
    }
    let all = std::fs::read_dir(home.join("fd")).ok()?.flatten().take(DESCRIPTORS_MAX);
    let open = all.filter_map(|entry| entry.file_name().into_string().ok()).find(|fd| is(fd));
    open.and_then(|fd| link(&fd)).or_else(|| mapped(&home.join("maps"), facts.dev, facts.inode))
}

/// The path of a mapped file: a line ends with device, inode and path.
fn mapped(maps: &Path, dev: u32, inode: u64) -> Option<PathBuf> {
    let text = std::fs::read_to_string(maps).ok()?;
    text.lines().find_map(|line| {
        let mut fields = line.splitn(6, char::is_whitespace).skip(3);
        let (major, minor) = fields.next()?.split_once(':')?;
        let number = |hex: &str| u32::from_str_radix(hex, 16).ok();
        let place = number(major)? << 20 | number(minor)?;
        let own = fields.next()?.parse::<u64>().ok()? == inode && place == dev;
        fields.next().filter(|_| own).map(|path| PathBuf::from(path.trim()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bpf::layout::ThreadSeen;
    use std::os::linux::fs::MetadataExt;

    fn facts(inode: u64, descriptor: u64) -> CallFacts {
        let who = ThreadSeen { pid: std::process::id(), ..ThreadSeen::default() };
        let dev = 8 << 20 | 1;
        CallFacts {
            who,
            number: 0,
            descriptor,
            dev,
            inode,
            generation: 3,
            errno: 0,
            unsure: false,
            slow: true,
            plain: false,
        }
    }

    #[test]
    fn an_open_or_mapped_file_has_its_path_and_any_other_its_number() {
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join("data file");
        let file = std::fs::File::create(&path).expect("a file");
        let inode = file.metadata().expect("known").st_ino();
        let dev = mounts::mount_of(&Sys::default(), &path).expect("mounted").device.in_kernel();
        let place = device(dev).expect("a device");
        let facts = |inode, fd| CallFacts { dev, ..facts(inode, fd) };
        let path_of = |facts: &CallFacts| open_in(facts, &Sys::default());
        let elsewhere = CallFacts { dev: dev + 1, ..facts(inode, u64::MAX) };
        assert_eq!(path_of(&elsewhere), None, "the inode of another device");
        let mut files = SeenFiles::default();
        let number = files.number(&facts(inode, u64::MAX)).expect("a number");
        let other = files.number(&facts(u64::MAX, 0)).expect("a number");
        assert_eq!(files.number(&facts(inode, 0)), Some(number), "the same one");
        files.end();
        assert_eq!(files.get(number).and_then(|f| f.path.clone()), Some(path.clone()));
        assert_eq!(
            files.get(other).map(SeenFile::words).as_deref(),
            Some(format!("inode 18446744073709551615 on {place}").as_str())
        );
        let unknown = CallFacts { dev: 0, ..facts(0, 0) };
        assert_eq!(files.number(&unknown), None);
        std::fs::write(
            home.path().join("maps"),
            format!("7f-8f r--p 00 08:01 {inode}      {}\n", path.display()),
        )
        .expect("written");
        let maps = home.path().join("maps");
        assert_eq!(mapped(&maps, 8 << 20 | 1, inode), Some(path));
        assert_eq!(mapped(&maps, 8 << 20 | 2, inode), None, "the inode of another device");
    }

    /// As the programs tell it.
    fn told(dev: u32, inode: u64, names: &[&str], whole: u32) -> Vec<u8> {
        let all: Vec<u8> = names.iter().rev().flat_map(|n| n.bytes().chain([0])).collect();
        let mut bytes = [u32::from(NAME), dev].map(u32::to_ne_bytes).concat();
        bytes.extend(inode.to_ne_bytes());
        bytes.extend([3, 0, all.len() as u32, whole].map(u32::to_ne_bytes).concat());
        bytes.extend(all);
        bytes.resize(NAME_HEAD + 1280, 7);
        bytes
    }

    #[test]
    fn a_file_has_its_path_when_its_program_has_ended() {
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().canonicalize().expect("known").join("of a short life");
        std::fs::write(&path, "x").expect("written");
        let inode = path.metadata().expect("known").st_ino();
        let mount = mounts::mount_of(&Sys::default(), &path).expect("mounted");
        let (dev, below) =
            (mount.device.in_kernel(), path.strip_prefix(&mount.point).expect("in it"));
        let within = mount.root.join(below);
        let names: Vec<&str> =
            within.iter().skip(1).map(|name| name.to_str().expect("text")).collect();
        let name = FileName::parse(&told(dev, inode, &names, 1)).expect("a name");
        assert_eq!(Path::new("/").join(&name.path), within);
        assert_eq!(FileName::parse(&told(dev, inode, &names, 0)), None, "not up to the root");
        assert!(FileName::parse(&told(dev, inode, &names, 1)[..NAME_HEAD + 3]).is_none());
        let dead = ThreadSeen { pid: u32::MAX, ..ThreadSeen::default() };
        let path_of = |dev: u32, inode: u64| {
            let mut files = SeenFiles::default();
            files.named(FileName { key: (dev, inode, 3), path: name.path.clone() });
            let number = files.number(&CallFacts { dev, who: dead, ..facts(inode, u64::MAX) });
            files.end();
            number.and_then(|number| files.get(number).map(SeenFile::words)).expect("a file")
        };
        let words = path.to_string_lossy().into_owned();
        assert_eq!(path_of(dev, inode), words);
        assert_eq!(path_of(dev, inode + 1), format!("{words} (gone)"), "another file is there");
        let name_of = |path: &str| same_name(Path::new(path), Path::new("a/b"));
        assert!(name_of("/x/b") && name_of("/b (deleted)") && !name_of("/a/c"));
        std::fs::remove_file(&path).expect("removed");
        assert_eq!(path_of(dev, inode), format!("{words} (gone)"));
        let nowhere = path_of(4095 << 20 | 7, inode);
        assert_eq!(nowhere, format!("{} on 4095:7", within.display()));
    }

    #[test]
    fn a_file_that_was_renamed_has_its_new_name() {
        let home = tempfile::tempdir().expect("a directory");
        let path = |name: &str| home.path().canonicalize().expect("known").join(name);
        std::fs::write(path("before"), "x").expect("written");
        let inode = path("before").metadata().expect("known").st_ino();
        let mount = mounts::mount_of(&Sys::default(), &path("before")).expect("mounted");
        let dev = mount.device.in_kernel();
        let name = |name: &str| {
            let below = path(name).strip_prefix(&mount.point).expect("in it").to_owned();
            let within = mount.root.join(below);
            let path = within.strip_prefix("/").expect("from the root").to_owned();
            FileName { key: (dev, inode, 3), path }
        };
        let dead = ThreadSeen { pid: u32::MAX, ..ThreadSeen::default() };
        let facts = CallFacts { dev, who: dead, ..facts(inode, u64::MAX) };
        let mut files = SeenFiles::default();
        files.named(name("before"));
        let number = files.number(&facts).expect("a number");
        let found = (0..2000).any(|_| {
            std::thread::sleep(Duration::from_millis(5));
            files.settle();
            files.get(number).is_some_and(|file| file.path == Some(path("before")))
        });
        assert!(found, "{:?}", files.get(number));
        std::fs::rename(path("before"), path("after")).expect("renamed");
        files.named(name("after"));
        assert_eq!(files.number(&facts), Some(number), "the same file");
        files.end();
        assert_eq!(files.get(number).and_then(|file| file.path.clone()), Some(path("after")));
    }

    #[test]
    fn a_thread_may_have_files_of_its_own() {
        let home = tempfile::tempdir().expect("a directory");
        let thread = home.path().join("proc/7/task/9");
        for dir in ["fd", "fdinfo"] {
            std::fs::create_dir_all(thread.join(dir)).expect("made");
        }
        let info = "pos:\t0\nflags:\t0100002\nmnt_id:\t30\nino:\t77\n";
        std::fs::write(thread.join("fdinfo/3"), info).expect("written");
        std::os::unix::fs::symlink("/of/the/thread", thread.join("fd/3")).expect("made");
        let mounts = "30 1 8:1 / / rw - ext4 /dev/a rw\n";
        std::fs::write(thread.join("mountinfo"), mounts).expect("written");
        let who = ThreadSeen { pid: 7, tid: 9, ..ThreadSeen::default() };
        let facts = CallFacts { who, ..facts(77, 3) };
        assert_eq!(open_in(&facts, &Sys::at(home.path())), Some("/of/the/thread".into()));
    }

    /// A program that holds the lock of its memory holds up whoever reads its maps.
    #[test]
    fn a_look_up_that_hangs_holds_nobody_up() {
        let home = tempfile::tempdir().expect("a directory");
        let own = home.path().join(format!("proc/{}", std::process::id()));
        std::fs::create_dir_all(own.join("fd")).expect("made");
        let pipe = own.join("mountinfo");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.is_ok_and(|s| s.success()));
        let (done, ended) = std::sync::mpsc::channel();
        let sys = Sys::at(home.path());
        std::thread::spawn(move || {
            let mut files = SeenFiles::begin(sys);
            let all: Vec<_> = (0..2000).map(|inode| files.number(&facts(inode + 7, 3))).collect();
            files.settle();
            files.end();
            done.send(all.iter().flatten().count()).expect("somebody waits");
        });
        let numbered = ended.recv_timeout(Duration::from_secs(60)).expect("it goes on");
        assert_eq!(numbered, 2000);
        // Lets the thread go.
        drop(std::fs::OpenOptions::new().write(true).open(&pipe));
    }
}
