//! A file system of one file in memory, served by this process, that is slow when told to: as a
//! file it is a slow file system, under a loop device a slow disk. Speaks the kernel's FUSE protocol
//! over /dev/fuse (version 7.31), as far as one file needs it.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::guard::{NAME, Undo, home, make_home};
use crate::truth::now_ns;

/// The file's name.
pub const FILE: &str = "data";
/// Threads that serve: as many requests can be slow at the same time.
const SERVERS: usize = 8;
const HEAD: usize = 40;
const ROOT: u64 = 1;
const INODE: u64 = 2;
const ENOENT: i32 = 2;
const ENOSYS: i32 = 38;

mod code {
    pub const LOOKUP: u32 = 1;
    pub const FORGET: u32 = 2;
    pub const GETATTR: u32 = 3;
    pub const SETATTR: u32 = 4;
    pub const OPEN: u32 = 14;
    pub const READ: u32 = 15;
    pub const WRITE: u32 = 16;
    pub const STATFS: u32 = 17;
    pub const RELEASE: u32 = 18;
    pub const FSYNC: u32 = 20;
    pub const FLUSH: u32 = 25;
    pub const INIT: u32 = 26;
    pub const OPENDIR: u32 = 27;
    pub const READDIR: u32 = 28;
    pub const RELEASEDIR: u32 = 29;
    pub const ACCESS: u32 = 34;
    pub const INTERRUPT: u32 = 36;
    pub const DESTROY: u32 = 38;
    pub const BATCH_FORGET: u32 = 42;
}

/// How slow the file is. All of it can be changed while it is served.
#[derive(Debug, Default)]
pub struct Slow {
    /// Every N-th read or write sleeps; 0 = none.
    pub every: AtomicU64,
    /// How long, ns.
    pub sleep_ns: AtomicU64,
    /// Smaller ones never sleep, bytes.
    pub least: AtomicU64,
    /// How long each sync sleeps, ns.
    syncs_ns: AtomicU64,
    seen: AtomicU64,
    naps: Mutex<Vec<(i64, i64)>>,
}

impl Slow {
    /// Every N-th request takes this much longer.
    pub fn set(&self, every: u64, sleep: Duration) {
        self.sleep_ns.store(sleep.as_nanos() as u64, Relaxed);
        self.every.store(every, Relaxed);
    }

    /// Each sync takes this much longer.
    pub fn set_syncs(&self, sleep: Duration) {
        self.syncs_ns.store(sleep.as_nanos() as u64, Relaxed);
    }

    pub fn naps(&self) -> Vec<(i64, i64)> {
        let naps = self.naps.lock().unwrap_or_else(PoisonError::into_inner);
        naps.clone()
    }

    /// One request of this size passes, at once or after a nap.
    pub fn pass(&self, bytes: usize) {
        let every = self.every.load(Relaxed);
        let small = (bytes as u64) < self.least.load(Relaxed);
        if every == 0 || small || !self.seen.fetch_add(1, Relaxed).is_multiple_of(every) {
            return;
        }
        self.nap(self.sleep_ns.load(Relaxed));
    }

    fn nap(&self, ns: u64) {
        if ns == 0 {
            return;
        }
        let from = now_ns();
        std::thread::sleep(Duration::from_nanos(ns));
        let mut naps = self.naps.lock().unwrap_or_else(PoisonError::into_inner);
        naps.push((from, now_ns()));
    }
}

struct Served {
    device: File,
    data: RwLock<Vec<u8>>,
    slow: Arc<Slow>,
}

/// Mounts the file system; the path of its file and its brake. It ends when it is undone.
///
/// # Errors
/// When /dev/fuse is not there or may not be used.
pub fn serve(undo: &mut Undo, bytes: usize) -> Result<(PathBuf, Arc<Slow>)> {
    make_home()?;
    let at = home().join(format!("{NAME}-fuse"));
    std::fs::create_dir_all(&at)?;
    let device = File::options()
        .read(true)
        .write(true)
        .open("/dev/fuse")
        .context("/dev/fuse")?;
    let fd = device.as_raw_fd();
    let options = format!("fd={fd},rootmode=40000,user_id=0,group_id=0,allow_other\0");
    let options = std::ffi::CStr::from_bytes_with_nul(options.as_bytes())?;
    mount(NAME, &at, "fuse", MountFlags::empty(), options).context("cannot mount FUSE")?;
    let place = at.clone();
    undo.add(move || {
        let _ = unmount(&place, UnmountFlags::DETACH);
        let _ = std::fs::remove_dir(&place);
    });
    let slow = Arc::new(Slow::default());
    let served = Arc::new(Served {
        device,
        data: RwLock::new(vec![0x5a; bytes]),
        slow: slow.clone(),
    });
    for _ in 0..SERVERS {
        let served = served.clone();
        std::thread::Builder::new()
            .name("fuse".to_owned())
            .spawn(move || served.work())?;
    }
    Ok((at.join(FILE), slow))
}

/// Bytes of an answer, field by field.
#[derive(Default)]
struct Answer(Vec<u8>);

impl Answer {
    fn half(mut self, list: &[u32]) -> Answer {
        list.iter().for_each(|v| self.0.extend(v.to_ne_bytes()));
        self
    }
    fn word(mut self, list: &[u64]) -> Answer {
        list.iter().for_each(|v| self.0.extend(v.to_ne_bytes()));
        self
    }
    fn attributes(self, inode: u64, size: u64) -> Answer {
        let mode = if inode == ROOT { 0o40755 } else { 0o100_666 };
        let blocks = size.div_ceil(512);
        self.word(&[inode, size, blocks, 0, 0, 0])
            .half(&[0, 0, 0, mode, 1, 0, 0, 0, 4096, 0])
    }
}

fn word(bytes: &[u8], at: usize) -> u64 {
    let part = bytes.get(at..at + 8).and_then(|b| b.try_into().ok());
    part.map_or(0, u64::from_ne_bytes)
}

fn half(bytes: &[u8], at: usize) -> u32 {
    let part = bytes.get(at..at + 4).and_then(|b| b.try_into().ok());
    part.map_or(0, u32::from_ne_bytes)
}

impl Served {
    /// Serves until the mount is gone.
    fn work(&self) {
        let mut buffer = vec![0; (1 << 20) + 4096];
        loop {
            let n = match (&self.device).read(&mut buffer) {
                Ok(n) if n >= HEAD => n,
                // Taken back by an interrupted process: the next one.
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
                _ => return,
            };
            let request = &buffer[..n];
            let (opcode, unique) = (half(request, 4), word(request, 8));
            match opcode {
                code::FORGET | code::BATCH_FORGET | code::INTERRUPT => continue,
                code::DESTROY => return,
                _ => {}
            }
            let (error, body) = match self.answer(opcode, word(request, 16), &request[HEAD..]) {
                Ok(Answer(body)) => (0, body),
                Err(errno) => (-errno, Vec::new()),
            };
            let mut reply = Vec::with_capacity(16 + body.len());
            reply.extend((16 + body.len() as u32).to_ne_bytes());
            reply.extend(error.to_ne_bytes());
            reply.extend(unique.to_ne_bytes());
            reply.extend(body);
            // The asker may be gone.
            let _ = (&self.device).write(&reply);
        }
    }

    fn answer(&self, opcode: u32, inode: u64, body: &[u8]) -> Result<Answer, i32> {
        let size = self.data.read().map_or(0, |d| d.len() as u64);
        let answer = Answer::default();
        Ok(match opcode {
            code::INIT => init(),
            code::LOOKUP if body == b"data\0" => answer
                .word(&[INODE, 0, 3600, 3600])
                .half(&[0, 0])
                .attributes(INODE, size),
            code::LOOKUP => return Err(ENOENT),
            code::GETATTR | code::SETATTR => answer
                .word(&[3600])
                .half(&[0, 0])
                .attributes(inode, if inode == INODE { size } else { 0 }),
            // 1 = past the page cache.
            code::OPEN => answer.word(&[0]).half(&[1, 0]),
            code::OPENDIR => answer.word(&[0]).half(&[0, 0]),
            code::READ => self.read(body),
            code::WRITE => self.write(body)?,
            code::STATFS => answer
                .word(&[1 << 20, 1 << 19, 1 << 19, 2, 1])
                .half(&[4096, 255, 4096, 0, 0, 0, 0, 0, 0, 0]),
            code::RELEASE | code::RELEASEDIR | code::FLUSH => answer,
            code::FSYNC => {
                self.slow.nap(self.slow.syncs_ns.load(Relaxed));
                answer
            }
            code::READDIR | code::ACCESS => answer,
            _ => return Err(ENOSYS),
        })
    }

    fn read(&self, body: &[u8]) -> Answer {
        let (from, size) = (word(body, 8) as usize, half(body, 16) as usize);
        self.slow.pass(size);
        let data = self.data.read().unwrap_or_else(PoisonError::into_inner);
        let from = from.min(data.len());
        Answer(data[from..(from + size).min(data.len())].to_vec())
    }

    fn write(&self, body: &[u8]) -> Result<Answer, i32> {
        let (from, size) = (word(body, 8) as usize, half(body, 16) as usize);
        self.slow.pass(size);
        let bytes = body.get(40..40 + size).ok_or(ENOSYS)?;
        let mut data = self.data.write().unwrap_or_else(PoisonError::into_inner);
        let end = from.checked_add(size).ok_or(ENOSYS)?;
        data.get_mut(from..end).ok_or(28)?.copy_from_slice(bytes);
        Ok(Answer::default().half(&[size as u32, 0]))
    }
}

/// Version 7.31, asynchronous reads and direct I/O, requests of up to 1 MiB.
fn init() -> Answer {
    let flags = 1 | 1 << 5 | 1 << 15 | 1 << 22;
    let background = 64 | 48 << 16;
    Answer::default()
        .half(&[7, 31, 1 << 17, flags, background, 1 << 20, 1])
        .half(&[256, 0])
        .half(&[0; 7])
}

/// Whether FUSE can be served here.
pub fn there() -> bool {
    Path::new("/dev/fuse").exists()
}
