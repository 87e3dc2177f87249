//! What the bare programs share: random numbers, the thread that they are on, and the line that they print.

use anyhow::Result;
use serde_json::json;

/// Does `work`; where the words end with `threads`, on a second thread for which the first one waits: a worker of any
/// program that measures is on such a one. In a process of one thread locks of the C library take no locked instruction
/// (`lll_mutex_lock_optimized` of glibc), the kernel does not count who uses a file (`fdget`, fs/file.c), and memory comes
/// from the first thread's arena, which grows by more at a time than those of others.
pub fn on_thread(args: &[&str], work: fn(&[&str]) -> Result<()>) -> Result<()> {
    let [words @ .., "threads"] = args else { return work(args) };
    let ended = std::thread::scope(|scope| scope.spawn(|| work(words)).join());
    ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// The next number (xorshift); `random` is never 0.
pub fn next(random: &mut u64) -> u64 {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    *random
}

/// A number below `count` (scaled by multiplication).
pub fn below(random: &mut u64, count: u64) -> u64 {
    ((u128::from(next(random)) * u128::from(count)) >> 64) as u64
}

/// Prints what was done in `seconds`, as JSON.
pub fn print(ios: u64, seconds: f64) {
    println!("{}", json!({"ios": ios, "seconds": seconds, "iops": ios as f64 / seconds}));
}
