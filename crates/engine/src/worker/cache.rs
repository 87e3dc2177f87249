//! When a worker drops what the page cache holds of its data: each time a walk in order begins anew; where operations
//! are drawn, each time they have asked for `drop_cache` bytes. The driver does it (`Session::drop_cached`); called by
//! `strategies` between a draw and its submit.

/// Counts towards the next drop.
pub struct CacheDrops {
    /// Bytes between two, where operations are drawn.
    every: u64,
    asked: u64,
    /// Passes begun, of a walk in order.
    passes: u64,
}

impl CacheDrops {
    /// For a drop every `every` bytes, where operations are drawn; none at the start.
    pub fn new(every: u64) -> CacheDrops {
        CacheDrops { every, asked: 0, passes: 1 }
    }

    /// Whether to drop before the operation that was just drawn, of `bytes`. `walked`: passes that a walk in order has
    /// begun; `None` where operations are drawn, and bytes count.
    pub fn due(&mut self, walked: Option<u64>, bytes: u64) -> bool {
        if let Some(passes) = walked {
            return std::mem::replace(&mut self.passes, passes) != passes;
        }
        let due = self.asked >= self.every;
        self.asked = if due { self.asked - self.every } else { self.asked } + bytes;
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_operation_of_each_pass_and_no_other() {
        let mut drops = CacheDrops::new(8);
        let walk: Vec<bool> = [1, 1, 2, 2, 3].map(|pass| drops.due(Some(pass), 4)).to_vec();
        assert_eq!(walk, [false, false, true, false, true]);
        // Blocks of several sizes: what a pass had too much is in the next one.
        let drawn: Vec<bool> = [4, 6, 4, 4, 2, 8].map(|bytes| drops.due(None, bytes)).to_vec();
        assert_eq!(drawn, [false, false, true, false, true, false]);
    }
}
