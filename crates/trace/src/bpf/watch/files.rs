//! Which files watched operations were on: a number for each, and its path while the program has it open.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use taillight_machine::Sys;
use taillight_machine::block::{BlockDevice, DeviceNumber};

use super::told::CallFacts;
use crate::bpf::layout::device;
use crate::bpf::look_ups::LookUps;

/// Files that get a number of their own.
const FILES_MAX: usize = 4096;
/// Descriptors of a process that are looked at.
const DESCRIPTORS_MAX: usize = 4096;
/// Of a file that was not found it is asked again after this time.
const AGAIN: Duration = Duration::from_millis(500);

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
    numbers: BTreeMap<(u32, u64), u16>,
    asked: BTreeMap<u16, Instant>,
    look_ups: LookUps<(u16, CallFacts), (u16, Option<PathBuf>)>,
}

impl Default for SeenFiles {
    fn default() -> SeenFiles {
        SeenFiles::begin(Sys::default())
    }
}

impl SeenFiles {
    /// Starts the thread that looks up.
    fn begin(sys: Sys) -> SeenFiles {
        let find = move |(number, facts): (u16, CallFacts)| (number, find(&facts, &sys));
        SeenFiles {
            list: vec![SeenFile { dev: 0, inode: 0, path: None }],
            numbers: BTreeMap::new(),
            asked: BTreeMap::new(),
            look_ups: LookUps::begin("trace-files", find),
        }
    }

    /// Takes what was looked up since.
    pub fn settle(&mut self) {
        let new = self.look_ups.settle();
        self.answered(new);
    }

    /// Waits for what was asked last, not for long.
    pub fn end(&mut self) {
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

    /// The number of an operation's file; none where it has none, or there are too many. Never waits.
    pub fn number(&mut self, facts: &CallFacts) -> Option<u16> {
        if facts.dev == 0 && facts.inode == 0 {
            return None;
        }
        let key = (facts.dev, facts.inode);
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
        if !known && !recently {
            self.asked.insert(number, Instant::now());
            self.look_ups.ask((number, facts.clone()));
        }
        Some(number)
    }
}

fn find(facts: &CallFacts, sys: &Sys) -> Option<PathBuf> {
    if facts.inode == 0 {
        let number = DeviceNumber { major: facts.dev >> 20, minor: facts.dev & 0xf_ffff };
        return Some(PathBuf::from(format!("/dev/{}", BlockDevice::find(sys, number)?.name)));
    }
    let home = sys.path(&format!("proc/{}", facts.who.pid));
    let mounts = std::fs::read_to_string(home.join("mountinfo")).unwrap_or_default();
    let is = |fd: &str| {
        let info = std::fs::read_to_string(home.join("fdinfo").join(fd)).unwrap_or_default();
        let value = |name: &str| info.lines().find_map(|line| line.strip_prefix(name));
        value("ino:").is_some_and(|inode| inode.trim().parse() == Ok(facts.inode))
            && value("mnt_id:").is_some_and(|id| device_of(&mounts, id.trim()) == device(facts.dev))
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

/// The device of a mount's file system, of lines that begin with its number, its parent's, and the device.
fn device_of(mounts: &str, id: &str) -> Option<String> {
    let mut all = mounts.lines().map(|line| line.split(' '));
    all.find_map(|mut fields| (fields.next()? == id).then(|| fields.nth(1))?.map(str::to_owned))
}

/// The path of a mapped file: a line ends with device, inode and path.
fn mapped(maps: &std::path::Path, dev: u32, inode: u64) -> Option<PathBuf> {
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
    use std::os::fd::AsRawFd;
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
        let own = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", file.as_raw_fd()));
        let own = own.expect("known");
        let mount = own.lines().find_map(|line| line.strip_prefix("mnt_id:")).expect("a mount");
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").expect("mounts");
        let place = device_of(&mounts, mount.trim()).expect("a device");
        let (major, minor) = place.split_once(':').expect("two numbers");
        let number = |text: &str| text.parse::<u32>().expect("a number");
        let dev = number(major) << 20 | number(minor);
        let facts = |inode, fd| CallFacts { dev, ..facts(inode, fd) };
        let path_of = |facts: &CallFacts| find(facts, &Sys::default());
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
