//! Which processes have a file open for writing or mapped for writing, and whether one of the same run has it open,
//! from `/proc/PID`.

mod sys;

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{AtFlags, CWD, FileType, StatxFlags, statx};

use crate::process::{ProcessStat, processes};
use crate::{DeviceNumber, Sys};

/// Bits of `flags` in fdinfo that say how a file was opened (`O_ACCMODE`); 0 is for reading only.
const ACCESS_MODE: u32 = 3;

/// What a descriptor or a mapping of a process is of.
#[derive(Debug, Clone)]
pub struct OpenedFile {
    pub kind: FileType,
    /// Number of the file system's device, as `st_dev`.
    pub file_system: DeviceNumber,
    pub inode: u64,
    /// Its own number, where it is a device.
    pub device: DeviceNumber,
    /// Id of the mount that it was opened through, where the kernel says it (5.8).
    pub mount: Option<u64>,
    /// The link in `/proc` that leads to it.
    pub link: PathBuf,
}

impl OpenedFile {
    /// What the kernel knows already: a dead network or FUSE file system would never answer. Errors: as
    /// statx(2).
    fn of(link: PathBuf) -> io::Result<OpenedFile> {
        let asked = StatxFlags::TYPE | StatxFlags::INO | StatxFlags::MNT_ID;
        let found = statx(CWD, &link, AtFlags::STATX_DONT_SYNC, asked)?;
        let number = |major, minor| DeviceNumber { major, minor };
        Ok(OpenedFile {
            kind: FileType::from_raw_mode(found.stx_mode.into()),
            file_system: number(found.stx_dev_major, found.stx_dev_minor),
            inode: found.stx_ino,
            device: number(found.stx_rdev_major, found.stx_rdev_minor),
            mount: (found.stx_mask & StatxFlags::MNT_ID.bits() != 0).then_some(found.stx_mnt_id),
            link,
        })
    }
}

/// What is looked for: by what stat says of a file, and by device number and inode where a mapping can
/// only be told by these.
pub trait Wanted {
    fn is(&self, file: &OpenedFile) -> bool;
    fn may_be(&self, file_system: DeviceNumber, inode: u64) -> bool;
}

/// A process of the same run. Its number alone could be that of another process by now, or of another namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PeerProcess {
    pub pid: u32,
    /// When it began, in ticks since the boot.
    pub started: u64,
    /// The boot and the PID namespace that the number is of.
    pub numbered_in: String,
}

impl PeerProcess {
    /// This process. None where `/proc` does not tell.
    pub fn own(sys: &Sys) -> Option<PeerProcess> {
        let pid = std::process::id();
        let started = started(sys, &pid.to_string())?;
        Some(PeerProcess { pid, started, numbered_in: numbered_in(sys)? })
    }

    /// Whether a process here is this one: same numbers, begun at the same time, and of the program that asks.
    fn is(&self, sys: &Sys, process: &str, here: Option<&str>) -> bool {
        let program = |process: &str| {
            let meta = fs::metadata(sys.path(&format!("/proc/{process}/exe"))).ok()?;
            Some((meta.dev(), meta.ino()))
        };
        process == self.pid.to_string()
            && here == Some(self.numbered_in.as_str())
            && started(sys, process) == Some(self.started)
            && program(process).is_some_and(|of| program("self") == Some(of))
    }
}

fn numbered_in(sys: &Sys) -> Option<String> {
    let boot = sys.text("/proc/sys/kernel/random/boot_id")?;
    let namespace = fs::read_link(sys.path("/proc/self/ns/pid")).ok()?;
    Some(format!("{} {}", boot.trim(), namespace.display()))
}

fn started(sys: &Sys, process: &str) -> Option<u64> {
    ProcessStat::of(sys, process)?.started()
}

/// Processes of the same run, whose open files are no reason to refuse a target.
static PEERS: Mutex<Vec<PeerProcess>> = Mutex::new(Vec::new());

/// Names the processes that share the run, on whatever host.
pub fn set_peers(peers: Vec<PeerProcess>) {
    *PEERS.lock().unwrap_or_else(PoisonError::into_inner) = peers;
}

/// Another process, not of the same run, that has what is wanted open or mapped for writing: its name and id. None
/// when there is none that this user can see.
pub fn writer(sys: &Sys, wanted: &impl Wanted) -> Option<String> {
    // Not getpid(2): /proc may be of another PID namespace.
    let own = fs::read_link(sys.path("/proc/self")).ok();
    let own = own.and_then(|own| own.into_os_string().into_string().ok());
    let id = std::process::id().to_string();
    let own = own.unwrap_or_else(|| id.clone());
    let peers = PEERS.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let here = numbered_in(sys).filter(|_| !peers.is_empty());
    let peer = |process: &str| peers.iter().any(|peer| peer.is(sys, process, here.as_deref()));
    let process = processes(sys).into_iter().find(|process| {
        let dir = sys.path(&format!("/proc/{process}"));
        // Numbers of another namespace mean other processes to the kernel.
        *process != own && !peer(process) && (opens(&dir, own == id, wanted) || maps(&dir, wanted))
    })?;
    let name = sys.text(&format!("/proc/{process}/comm")).unwrap_or_default();
    Some(format!("{name} (process {process})"))
}

/// Whether another process of the same run has what is wanted open, for reading or writing.
pub fn peer_has(sys: &Sys, wanted: &impl Wanted) -> bool {
    let peers = PEERS.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let Some(here) = numbered_in(sys).filter(|_| !peers.is_empty()) else { return false };
    let own = std::process::id();
    let others = peers.iter().filter(|peer| peer.pid != own || peer.numbered_in != here);
    let mut others = others.map(|peer| (peer, peer.pid.to_string()));
    others.any(|(peer, process)| {
        let mut files = opened(&sys.path(&format!("/proc/{process}")));
        peer.is(sys, &process, Some(&here)) && files.any(|file| wanted.is(&file))
    })
}

/// What the process or thread of this directory has open, as far as this user can see it.
pub fn opened(process: &Path) -> impl Iterator<Item = OpenedFile> + use<> {
    let descriptors = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
    descriptors.filter_map(|fd| OpenedFile::of(fd.path()).ok())
}

/// Number of the first namespaces, which hold every process (`PROC_PID_INIT_INO` and
/// `PROC_USER_INIT_INO` in the kernel's `include/linux/proc_ns.h`).
const FIRST: [(&str, &str); 2] = [("pid", "pid:[4026531836]"), ("user", "user:[4026531837]")];

/// Whose open files this user cannot see; none where all can be seen.
pub fn unseen(sys: &Sys) -> Option<String> {
    for (name, first) in FIRST {
        let own = fs::read_link(sys.path(&format!("/proc/self/ns/{name}"))).ok();
        if own.is_none_or(|own| own.as_os_str() != first) {
            return Some(format!("the processes outside this {name} namespace (container)"));
        }
    }
    let forbidden = |process: &String| {
        let list = fs::read_dir(sys.path(&format!("/proc/{process}/fd")));
        list.is_err_and(|e| e.kind() == ErrorKind::PermissionDenied)
    };
    let hidden = !rustix::process::geteuid().is_root() || processes(sys).iter().any(forbidden);
    hidden.then(|| "the open files of other users' processes (needs root)".to_owned())
}

/// Threads may have descriptors of their own; those that share the table of their process have none.
/// `numbered` says whether the kernel calls them by the same numbers when this process asks.
fn opens(process: &Path, numbered: bool, wanted: &impl Wanted) -> bool {
    let threads = fs::read_dir(process.join("task")).into_iter().flatten().flatten();
    let number = |dir: &Path| dir.file_name()?.to_str()?.parse().ok();
    let shares = |thread: &Path| {
        let both = number(process).zip(number(thread)).filter(|_| numbered);
        both.is_some_and(|(one, other)| sys::share_descriptors(one, other))
    };
    let mut all = threads.map(|t| t.path());
    let own = |t: &Path| t.file_name() != process.file_name() && !shares(t);
    thread_opens(process, wanted) || all.any(|t| own(&t) && thread_opens(&t, wanted))
}

fn thread_opens(thread: &Path, wanted: &impl Wanted) -> bool {
    let info = |file: &OpenedFile| Some(thread.join("fdinfo").join(file.link.file_name()?));
    opened(thread)
        .any(|file| wanted.is(&file) && info(&file).is_none_or(|info| opened_for_writing(&info)))
}

/// What cannot be read counts as writing, unless process or descriptor are gone.
fn opened_for_writing(info: &Path) -> bool {
    let text = match fs::read_to_string(info) {
        Ok(text) => text,
        Err(e) => {
            let gone = e.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error());
            return !gone && e.kind() != ErrorKind::NotFound;
        }
    };
    let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
    flags.is_none_or(|flags| flags & ACCESS_MODE != 0)
}

/// Lines of maps: `start-end rw-s offset major:minor inode path`. The number of the file system is not
/// always the one that stat gives (btrfs), so that the file itself is asked where it can be.
fn maps(process: &Path, wanted: &impl Wanted) -> bool {
    let text = fs::read(process.join("maps")).unwrap_or_default();
    String::from_utf8_lossy(&text).lines().any(|line| {
        let words: Vec<&str> = line.split_whitespace().take(5).collect();
        let [range, rights, _, number, inode] = words[..] else { return false };
        if !(rights.contains('w') && rights.ends_with('s')) || inode == "0" {
            return false;
        }
        match OpenedFile::of(process.join("map_files").join(range)) {
            Ok(file) => wanted.is(&file),
            Err(_) => in_hex(number)
                .zip(inode.parse().ok())
                .is_some_and(|(number, inode)| wanted.may_be(number, inode)),
        }
    })
}

fn in_hex(number: &str) -> Option<DeviceNumber> {
    let (major, minor) = number.split_once(':')?;
    let part = |text| u32::from_str_radix(text, 16).ok();
    Some(DeviceNumber { major: part(major)?, minor: part(minor)? })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;
    use std::process::{Command, Stdio};

    use super::*;

    struct ByInode(u64, u64);

    impl Wanted for ByInode {
        fn is(&self, file: &OpenedFile) -> bool {
            (file.file_system, file.inode) == (DeviceNumber::from_dev(self.0), self.1)
        }
        fn may_be(&self, file_system: DeviceNumber, inode: u64) -> bool {
            (file_system, inode) == (DeviceNumber::from_dev(self.0), self.1)
        }
    }

    /// What is found while a program has `path` in use: it says so by a line, and waits for the end of
    /// its input.
    fn held(path: &Path, program: &[&str]) -> Option<String> {
        let meta = fs::metadata(path).expect("metadata");
        let mut child = Command::new(program[0])
            .args(&program[1..])
            .arg(path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a program");
        let mut out = child.stdout.take().expect("its output");
        std::io::Read::read_exact(&mut out, &mut [0]).expect("it is ready");
        let found = writer(&Sys::default(), &ByInode(meta.dev(), meta.ino()));
        let id = child.id();
        drop(child.stdin.take());
        child.wait().expect("its end");
        assert!(
            found.as_ref().is_none_or(|f| f.ends_with(&format!("(process {id})"))),
            "{found:?}"
        );
        found
    }

    #[test]
    fn a_writer_is_named_and_a_reader_is_not() {
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join("data");
        let meta = fs::File::create(&path).expect("a file").metadata().expect("metadata");
        let own = fs::OpenOptions::new().write(true).open(&path).expect("opened");
        assert_eq!(writer(&Sys::default(), &ByInode(meta.dev(), meta.ino())), None, "this process");
        drop(own);
        let shell = |redirection: &str| {
            held(&path, &["sh", "-c", &format!("exec 9{redirection}\"$0\"; echo; read _")])
        };
        assert_eq!(shell("<"), None);
        assert!(shell(">>").is_some_and(|found| found.starts_with("sh ")));
    }

    #[test]
    fn what_this_process_has_open_no_peer_has() {
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join("data");
        let meta = fs::File::create(&path).expect("a file").metadata().expect("metadata");
        let wanted = ByInode(meta.dev(), meta.ino());
        let own = fs::File::open(&path).expect("opened");
        assert!(!peer_has(&Sys::default(), &wanted), "this process");
        drop(own);
    }

    #[test]
    fn a_peer_is_more_than_a_number() {
        let sys = Sys::default();
        let own = PeerProcess::own(&sys).expect("this process");
        let is = |peer: &PeerProcess, process: &str| {
            peer.is(&sys, process, numbered_in(&sys).as_deref())
        };
        let name = own.pid.to_string();
        assert!(is(&own, &name));
        assert!(!is(&own, "1"));
        assert!(!is(&PeerProcess { started: own.started + 1, ..own.clone() }, &name));
        assert!(!is(&PeerProcess { numbered_in: "another host".to_owned(), ..own }, &name));
        let mut other = Command::new("sleep").arg("60").spawn().expect("a program");
        let of = PeerProcess {
            pid: other.id(),
            started: started(&sys, &other.id().to_string()).expect("its time"),
            numbered_in: numbered_in(&sys).expect("here"),
        };
        let same = is(&of, &other.id().to_string());
        other.kill().expect("killed");
        other.wait().expect("its end");
        assert!(!same, "another program with all its numbers right");
    }

    /// A writer is found whether its thread has a table of descriptors of its own or shares that of the process.
    #[test]
    fn a_thread_with_descriptors_of_its_own_is_a_writer() {
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join("data");
        fs::write(&path, b"x").expect("written");
        if Command::new("python3").arg("--version").output().is_err() {
            eprintln!("skipped: a_thread_with_descriptors_of_its_own: no python3");
            return;
        }
        // CLONE_FILES is 0x400.
        let threads = |unshare: &str| {
            let script = format!(
                "import ctypes,os,sys,threading\nc=ctypes.CDLL(None)\n\
                 def other():\n {unshare}\n os.open(sys.argv[1],os.O_RDWR)\n \
                 print(flush=True)\n sys.stdin.read()\n\
                 threading.Thread(target=other).start()"
            );
            held(&path, &["python3", "-c", &script])
        };
        for unshare in ["pass", "assert c.unshare(0x400)==0"] {
            assert!(threads(unshare).is_some_and(|f| f.starts_with("python3 ")), "{unshare}");
        }
    }

    #[test]
    fn threads_share_their_descriptors_and_processes_do_not() {
        let own = std::process::id().cast_signed();
        if !sys::share_descriptors(own, own) {
            eprintln!("skipped: threads_share_their_descriptors: no kcmp(2)");
            return;
        }
        let thread = || rustix::thread::gettid().as_raw_nonzero().get();
        let shares = move |number| sys::share_descriptors(own, number);
        assert!(std::thread::spawn(move || shares(thread())).join().expect("a thread"));
        assert!(!sys::share_descriptors(own, 1));
    }

    #[test]
    fn a_descriptor_that_cannot_be_asked_counts_as_writing_unless_it_is_gone() {
        let home = tempfile::tempdir().expect("a directory");
        let info = home.path().join("7");
        assert!(!opened_for_writing(&info));
        fs::create_dir(&info).expect("made");
        assert!(opened_for_writing(&info));
        fs::remove_dir(&info).expect("removed");
        for (text, writes) in
            [("pos:\t0\n", true), ("flags:\t0100001\n", true), ("flags:\t00\n", false)]
        {
            fs::write(&info, text).expect("written");
            assert_eq!(opened_for_writing(&info), writes, "{text}");
        }
    }

    #[test]
    fn this_process_is_known_where_proc_is_of_another_namespace() {
        let tmp = tempfile::tempdir().expect("a directory");
        let home = tmp.path().join("proc/1");
        for dir in ["fd", "fdinfo", "task"] {
            fs::create_dir_all(home.join(dir)).expect("made");
        }
        let path = tmp.path().join("data");
        let meta = fs::File::create(&path).expect("a file").metadata().expect("metadata");
        std::os::unix::fs::symlink(&path, home.join("fd/3")).expect("a link");
        fs::write(home.join("fdinfo/3"), "flags:\t0100002\n").expect("written");
        let ask = || writer(&Sys::at(tmp.path()), &ByInode(meta.dev(), meta.ino()));
        assert_eq!(ask().as_deref(), Some(" (process 1)"));
        std::os::unix::fs::symlink("1", tmp.path().join("proc/self")).expect("a link");
        assert_eq!(ask(), None);
    }

    #[test]
    fn a_shared_mapping_for_writing_is_a_writer_after_its_descriptor_is_closed() {
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join("data");
        fs::write(&path, [0; 8192]).expect("written");
        if Command::new("python3").arg("--version").output().is_err() {
            eprintln!("skipped: a_shared_mapping_for_writing_is_a_writer: no python3");
            return;
        }
        // Protection 3 is reading and writing, flags 1 shared and 2 private.
        let mapped = |flags: u32| {
            let script = format!(
                "import ctypes,os,sys\nfd=os.open(sys.argv[1],os.O_RDWR)\nc=ctypes.CDLL(None)\n\
                 c.mmap(None,ctypes.c_size_t(8192),3,{flags},fd,ctypes.c_long(0))\n\
                 os.close(fd)\nprint(flush=True)\nsys.stdin.read()"
            );
            held(&path, &["python3", "-c", &script])
        };
        assert!(mapped(1).is_some_and(|found| found.starts_with("python3 ")));
        assert_eq!(mapped(2), None);
    }
}
