//! What the bare programs share: random numbers, and the line that they print.

use serde_json::json;

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
