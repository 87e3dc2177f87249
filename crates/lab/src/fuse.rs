//! A file system of one file in memory, served by this process over FUSE, that is slow when told to:
//! as a file it is a slow file system, under a loop device a slow disk.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use fuser::{
    BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, InitFlags, KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr,
    ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request,
    SessionACL, TimeOrNow, WriteFlags,
};
use rustix::mount::{UnmountFlags, unmount};

use crate::cleanup::{NAME, Undo, lab_dir, make_lab_dir};
use crate::truth::now_ns;

/// The file's name.
pub const FILE: &str = "data";
/// Threads that serve: as many requests can be slow at the same time.
pub const SERVERS: usize = 8;
/// Requests that the kernel may have under way by itself.
const BACKGROUND: u16 = 64;
/// The one file.
const INODE: INodeNo = INodeNo(2);
/// How long the kernel may believe names and attributes.
const VALID: Duration = Duration::from_secs(3600);

/// How slow the file is. All of it can be changed while it is served.
#[derive(Debug, Default)]
pub struct DelayInjector {
    /// Every N-th read, write or `fallocate` sleeps; 0 = none.
    pub every: AtomicU64,
    /// How long, ns; of a device that falls asleep, how long it takes to wake up.
    pub sleep_ns: AtomicU64,
    /// Smaller requests, bytes, sleep only until it is awake.
    pub least: AtomicU64,
    /// Reads never sleep.
    pub writes_only: AtomicBool,
    /// Writes never sleep.
    pub reads_only: AtomicBool,
    /// A read that slept fails, as of a sector that cannot be read.
    pub fails: AtomicBool,
    /// How long each sync sleeps, ns.
    syncs_ns: AtomicU64,
    /// With no request for so long it falls asleep, ns; 0 = never. To wake up takes as long as a slow request does.
    asleep_after_ns: AtomicU64,
    /// When the last request came or was done after a wake-up, CLOCK_MONOTONIC ns.
    last_ns: AtomicI64,
    /// When it is awake again.
    awake_ns: AtomicI64,
    /// Requests so far that could have slept.
    requests: AtomicU64,
    /// From when to when each sleep was, CLOCK_MONOTONIC ns.
    delays: Mutex<Vec<(i64, i64)>>,
}

impl DelayInjector {
    /// Every N-th request takes this much longer, of those that may sleep at all.
    pub fn set(&self, every: u64, sleep: Duration) {
        self.sleep_ns.store(sleep.as_nanos() as u64, Relaxed);
        self.every.store(every, Relaxed);
    }

    /// Every request that may sleep takes this much longer while `doing` goes on.
    pub fn during<T>(&self, delay: Duration, doing: impl FnOnce() -> T) -> T {
        self.set(1, delay);
        let done = doing();
        self.set(0, Duration::ZERO);
        done
    }

    /// Each sync takes this much longer.
    pub fn set_syncs(&self, sleep: Duration) {
        self.syncs_ns.store(sleep.as_nanos() as u64, Relaxed);
    }

    /// After a pause of that length what comes, but for syncs, waits until it has woken up, which takes so long.
    pub fn set_asleep(&self, pause: Duration, wake_up: Duration) {
        self.last_ns.store(now_ns(), Relaxed);
        self.sleep_ns.store(wake_up.as_nanos() as u64, Relaxed);
        self.asleep_after_ns.store(pause.as_nanos() as u64, Relaxed);
    }

    /// A request came: it waits until this is awake.
    fn wake_up(&self) {
        let pause = self.asleep_after_ns.load(Relaxed).cast_signed();
        if pause == 0 {
            return;
        }
        let now = now_ns();
        if now - self.last_ns.swap(now, Relaxed) > pause {
            let awake = now + self.sleep_ns.load(Relaxed).cast_signed();
            self.awake_ns.store(awake, Relaxed);
        }
        let left = self.awake_ns.load(Relaxed) - now;
        if left > 0 {
            self.delay(left.cast_unsigned());
            self.last_ns.store(now_ns(), Relaxed);
        }
    }

    pub fn delays(&self) -> Vec<(i64, i64)> {
        let delays = self.delays.lock().unwrap_or_else(PoisonError::into_inner);
        delays.clone()
    }

    /// One request of this size passes, at once or after a delay: whether it is one of those that sleep.
    pub fn pass(&self, bytes: usize) -> bool {
        self.wake_up();
        let every = self.every.load(Relaxed);
        let small = (bytes as u64) < self.least.load(Relaxed);
        if every == 0 || small || !self.requests.fetch_add(1, Relaxed).is_multiple_of(every) {
            return false;
        }
        self.delay(self.sleep_ns.load(Relaxed));
        true
    }

    fn delay(&self, ns: u64) {
        if ns == 0 {
            return;
        }
        let from = now_ns();
        std::thread::sleep(Duration::from_nanos(ns));
        let mut delays = self.delays.lock().unwrap_or_else(PoisonError::into_inner);
        delays.push((from, now_ns()));
    }
}

/// The file system of one file.
struct OneFile {
    data: RwLock<Vec<u8>>,
    injector: Arc<DelayInjector>,
}

/// Mounts the file system until it is undone; the path of its file and its injector.
pub fn serve(undo: &mut Undo, bytes: usize) -> Result<(PathBuf, Arc<DelayInjector>)> {
    make_lab_dir()?;
    let at = lab_dir().join(format!("{NAME}-fuse"));
    std::fs::create_dir_all(&at)?;
    let injector = Arc::new(DelayInjector::default());
    let files = OneFile { data: RwLock::new(vec![0x5a; bytes]), injector: injector.clone() };
    let mut config = Config::default();
    config.mount_options = vec![MountOption::FSName(NAME.to_owned())];
    config.acl = SessionACL::All;
    config.n_threads = Some(SERVERS);
    let session = fuser::spawn_mount(files, &at, &config).context("cannot mount FUSE")?;
    let place = at.clone();
    undo.add(move || {
        // Also when something still has it open; the threads that serve end by themselves.
        let _ = unmount(&place, UnmountFlags::DETACH);
        drop(session);
        let _ = std::fs::remove_dir(&place);
    });
    Ok((at.join(FILE), injector))
}

impl OneFile {
    fn attributes(&self, inode: INodeNo) -> FileAttr {
        let file = inode == INODE;
        let bytes = self.data.read().map_or(0, |d| d.len() as u64);
        let size = if file { bytes } else { 0 };
        let (kind, perm) = match file {
            true => (FileType::RegularFile, 0o666),
            false => (FileType::Directory, 0o755),
        };
        FileAttr {
            ino: inode,
            size,
            blocks: size.div_ceil(512),
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind,
            perm,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }
}

impl Filesystem for OneFile {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        // A kernel without it serves direct I/O one by one: still a slow disk.
        let _ = config.add_capabilities(InitFlags::FUSE_ASYNC_DIO);
        let _ = config.set_max_background(BACKGROUND);
        Ok(())
    }

    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match name == FILE {
            true => reply.entry(&VALID, &self.attributes(INODE), Generation(0)),
            false => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&VALID, &self.attributes(inode));
    }

    /// Changes nothing and succeeds: the size is fixed, and nobody asks for the rest.
    fn setattr(
        &self,
        _: &Request,
        inode: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        reply.attr(&VALID, &self.attributes(inode));
    }

    /// Reads and writes go past the page cache.
    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let slept = !self.injector.writes_only.load(Relaxed) && self.injector.pass(size as usize);
        if slept && self.injector.fails.load(Relaxed) {
            return reply.error(Errno::EIO);
        }
        let data = self.data.read().unwrap_or_else(PoisonError::into_inner);
        let from = (offset as usize).min(data.len());
        let to = from.saturating_add(size as usize).min(data.len());
        reply.data(&data[from..to]);
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        bytes: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        if !self.injector.reads_only.load(Relaxed) {
            self.injector.pass(bytes.len());
        }
        let mut data = self.data.write().unwrap_or_else(PoisonError::into_inner);
        let from = offset as usize;
        match data.get_mut(from..from.saturating_add(bytes.len())) {
            Some(part) => {
                part.copy_from_slice(bytes);
                reply.written(bytes.len() as u32);
            }
            None => reply.error(Errno::ENOSPC),
        }
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.injector.delay(self.injector.syncs_ns.load(Relaxed));
        reply.ok();
    }

    /// Whatever is asked of the blocks, what they hold stays.
    fn fallocate(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: u64,
        length: u64,
        _: i32,
        reply: ReplyEmpty,
    ) {
        self.injector.pass(length as usize);
        reply.ok();
    }

    /// Half of 4 GiB is free: nobody runs out of it.
    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        reply.statfs(1 << 20, 1 << 19, 1 << 19, 2, 1, 4096, 255, 4096);
    }

    fn readdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: u64, reply: ReplyDirectory) {
        reply.ok();
    }
}

/// Whether FUSE can be served here.
pub fn there() -> bool {
    Path::new("/dev/fuse").exists()
}
