//! The system calls that have no safe face in the standard library: waiting for a child with what it used, a pinned
//! mapping of a file, a bare ring, the CPU time of this process. Every unsafe block says what makes it sound.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::process::Child;
use std::ptr;

use io_uring::{IoUring, opcode, types};

/// What a finished child used.
#[derive(Debug, Clone, Copy)]
pub struct CpuUsage {
    /// Exit code; `None` after a signal.
    pub code: Option<i32>,
    /// CPU seconds in user mode, its waited-for children included.
    pub user_s: f64,
    /// CPU seconds in the kernel.
    pub system_s: f64,
    /// Most memory it had at once, bytes.
    pub max_rss: u64,
}

/// Waits for a child and returns what it used. The child must not be waited for again.
pub fn wait4(child: &Child) -> io::Result<CpuUsage> {
    let pid = i32::try_from(child.id()).map_err(io::Error::other)?;
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    loop {
        // SAFETY: both pointers are valid for writes for the whole call.
        let got = unsafe { libc::wait4(pid, &raw mut status, 0, usage.as_mut_ptr()) };
        if got == pid {
            break;
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    // SAFETY: zeroed is a valid rusage (plain integers), and the kernel has filled it.
    let usage = unsafe { usage.assume_init() };
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
    Ok(CpuUsage {
        code: libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status)),
        user_s: seconds(usage.ru_utime),
        system_s: seconds(usage.ru_stime),
        max_rss: u64::try_from(usage.ru_maxrss).unwrap_or(0) * 1024,
    })
}

/// A file mapped for reading, so that its pages count as mapped and are not reclaimed as idle.
pub struct PinnedMapping {
    start: *mut libc::c_void,
    len: usize,
}

impl PinnedMapping {
    /// Maps the whole file.
    pub fn new(file: &File) -> io::Result<PinnedMapping> {
        let len = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
        // SAFETY: a new read-only mapping at an address the kernel picks aliases nothing of ours;
        // it is never turned into a reference.
        let start = unsafe {
            let (prot, flags) = (libc::PROT_READ, libc::MAP_SHARED);
            libc::mmap(ptr::null_mut(), len, prot, flags, file.as_raw_fd(), 0)
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(PinnedMapping { start, len })
    }
    /// Brings every page in and pins it. Needs the right to lock that much memory.
    pub fn lock(&self) -> io::Result<()> {
        // SAFETY: start and len are exactly a mapping of this process.
        match unsafe { libc::mlock(self.start, self.len) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
    /// Share of its pages that are in the page cache.
    pub fn resident(&self) -> io::Result<f64> {
        let pages = self.len.div_ceil(4096);
        let mut seen = vec![0_u8; pages];
        // SAFETY: the vector has a byte for each page of the mapping.
        let got = unsafe { libc::mincore(self.start, self.len, seen.as_mut_ptr()) };
        if got != 0 {
            return Err(io::Error::last_os_error());
        }
        let there = seen.iter().filter(|page| **page & 1 == 1).count();
        Ok(there as f64 / pages as f64)
    }
}

impl Drop for PinnedMapping {
    fn drop(&mut self) {
        // SAFETY: start and len are exactly a mapping of this process, used by nobody after this.
        unsafe { libc::munmap(self.start, self.len) };
    }
}

/// Bytes of one block.
pub const BLOCK: u32 = 4096;

/// Memory for one block, at the start of a page.
#[repr(C, align(4096))]
pub struct AlignedBlock(pub [u8; BLOCK as usize]);

/// A ring with a registered file and registered buffers, one per slot: the least work that can
/// be done per read.
pub struct BareRing {
    ring: IoUring,
    blocks: Vec<AlignedBlock>,
    in_flight: usize,
}

impl BareRing {
    /// A ring of `depth` slots over `file`.
    pub fn new(file: &File, depth: u32) -> io::Result<BareRing> {
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_coop_taskrun()
            .build(depth)
            .or_else(|_| IoUring::new(depth))?;
        let blocks: Vec<AlignedBlock> =
            (0..depth).map(|_| AlignedBlock([0; BLOCK as usize])).collect();
        let vectors: Vec<libc::iovec> = blocks
            .iter()
            .map(|block| libc::iovec {
                iov_base: ptr::from_ref(block).cast_mut().cast(),
                iov_len: BLOCK as usize,
            })
            .collect();
        // SAFETY: the blocks live in a vector that is never resized and is dropped after the
        // ring has no I/O in flight (see `drop`).
        unsafe { ring.submitter().register_buffers(&vectors)? };
        ring.submitter().register_files(&[file.as_raw_fd()])?;
        Ok(BareRing { ring, blocks, in_flight: 0 })
    }
    /// Queues a read of one block into the buffer of `slot`, which must not be in flight.
    pub fn push(&mut self, slot: u16, offset: u64) -> io::Result<()> {
        let buffer = self.blocks[usize::from(slot)].0.as_mut_ptr();
        let entry = opcode::ReadFixed::new(types::Fixed(0), buffer, BLOCK, slot)
            .offset(offset)
            .build()
            .user_data(u64::from(slot));
        // SAFETY: the buffer is registered, as long as the read, and outlives it (see `drop`).
        unsafe { self.ring.submission().push(&entry) }.map_err(io::Error::other)?;
        self.in_flight += 1;
        Ok(())
    }
    /// Hands over what is queued, and waits for nothing.
    pub fn hand_over(&mut self) -> io::Result<()> {
        self.ring.submit().map(drop)
    }
    /// Hands over what is queued, waits for at least one, returns the slots that are free again.
    pub fn turn(&mut self, free: &mut Vec<u16>) -> io::Result<()> {
        self.ring.submit_and_wait(1)?;
        for done in self.ring.completion() {
            self.in_flight -= 1;
            if done.result() != BLOCK as i32 {
                return Err(io::Error::other(format!("read returned {}", done.result())));
            }
            free.push(done.user_data() as u16);
        }
        Ok(())
    }
}

impl Drop for BareRing {
    fn drop(&mut self) {
        let mut free = Vec::new();
        while self.in_flight > 0 {
            if self.turn(&mut free).is_err() {
                // The kernel may still write: better to lose the memory than to give it away.
                std::mem::forget(std::mem::take(&mut self.blocks));
                return;
            }
        }
    }
}

/// CPU seconds of this process so far, all threads.
pub fn process_cpu_s() -> io::Result<f64> {
    let mut now = MaybeUninit::<libc::timespec>::zeroed();
    // SAFETY: the pointer is valid for writes for the whole call.
    let got = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, now.as_mut_ptr()) };
    if got != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: zeroed is a valid timespec (plain integers), and the kernel has filled it.
    let now = unsafe { now.assume_init() };
    Ok(now.tv_sec as f64 + now.tv_nsec as f64 / 1e9)
}

/// The open flag that goes around the page cache.
pub const O_DIRECT: i32 = libc::O_DIRECT;
