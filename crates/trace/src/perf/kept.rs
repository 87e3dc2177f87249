//! The way of kept I/Os from a worker to the gatherer: a ring with one writer and one reader.
//!
//! Nothing is allocated, locked or called: a worker that finds the ring full counts a loss.

use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};

use taillight_core::OpKind;

use super::schedstat::Reading;

/// One I/O that is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kept {
    pub op: OpKind,
    /// See `taillight_rundir::layers::flags`.
    pub flags: u32,
    pub submit: i64,
    pub complete: i64,
    pub offset: u64,
    pub size: u64,
    /// The worker's counters right after it, when it was slow; read since `complete`.
    pub reading: Option<Reading>,
}

#[derive(Debug, Default)]
struct Cell {
    /// Kind of operation << 32 | flags.
    what: AtomicU64,
    submit: AtomicI64,
    complete: AtomicI64,
    offset: AtomicU64,
    size: AtomicU64,
    waited: AtomicU64,
    /// 0 without a reading.
    arrivals: AtomicU64,
    read: AtomicI64,
}

/// The ring.
#[derive(Debug)]
pub struct Queue {
    cells: Box<[Cell]>,
    /// Written so far; only the worker changes it.
    head: AtomicUsize,
    /// Read so far; only the gatherer changes it.
    tail: AtomicUsize,
}

impl Queue {
    /// A ring for `cells` I/Os.
    pub fn new(cells: usize) -> Queue {
        Queue {
            cells: (0..cells.max(1)).map(|_| Cell::default()).collect(),
            head: AtomicUsize::new(0),
            tail: AtomicUsize::new(0),
        }
    }

    /// Puts an I/O in; false when there is no room. Only the worker calls this.
    pub fn push(&self, kept: &Kept) -> bool {
        let head = self.head.load(Ordering::Relaxed);
        let free = head.wrapping_sub(self.tail.load(Ordering::Acquire)) < self.cells.len();
        let cell = self.cells.get(head % self.cells.len());
        let Some(cell) = cell.filter(|_| free) else {
            return false;
        };
        let what = (kept.op as u64) << 32 | u64::from(kept.flags);
        cell.what.store(what, Ordering::Relaxed);
        cell.submit.store(kept.submit, Ordering::Relaxed);
        cell.complete.store(kept.complete, Ordering::Relaxed);
        cell.offset.store(kept.offset, Ordering::Relaxed);
        cell.size.store(kept.size, Ordering::Relaxed);
        let reading = kept.reading.unwrap_or_default();
        cell.waited.store(reading.waited, Ordering::Relaxed);
        cell.arrivals.store(reading.arrivals, Ordering::Relaxed);
        cell.read.store(reading.to, Ordering::Relaxed);
        self.head.store(head.wrapping_add(1), Ordering::Release);
        true
    }

    /// Takes the oldest I/O out. Only the gatherer calls this.
    pub fn pop(&self) -> Option<Kept> {
        let tail = self.tail.load(Ordering::Relaxed);
        if tail == self.head.load(Ordering::Acquire) {
            return None;
        }
        let cell = self.cells.get(tail % self.cells.len())?;
        let what = cell.what.load(Ordering::Relaxed);
        let reading = Reading {
            from: cell.complete.load(Ordering::Relaxed),
            to: cell.read.load(Ordering::Relaxed),
            waited: cell.waited.load(Ordering::Relaxed),
            arrivals: cell.arrivals.load(Ordering::Relaxed),
        };
        let kept = Kept {
            reading: (reading.arrivals > 0).then_some(reading),
            op: OpKind::from_index((what >> 32) as u8).unwrap_or(OpKind::Read),
            flags: what as u32,
            submit: cell.submit.load(Ordering::Relaxed),
            complete: cell.complete.load(Ordering::Relaxed),
            offset: cell.offset.load(Ordering::Relaxed),
            size: cell.size.load(Ordering::Relaxed),
        };
        self.tail.store(tail.wrapping_add(1), Ordering::Release);
        Some(kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(n: i64) -> Kept {
        Kept {
            op: OpKind::Write,
            flags: 3,
            submit: n,
            complete: n + 1,
            offset: n as u64 * 4096,
            size: 4096,
            reading: (n % 2 == 0).then_some(Reading {
                from: n + 1,
                to: n + 2,
                waited: n as u64,
                arrivals: n as u64 + 1,
            }),
        }
    }

    #[test]
    fn what_goes_in_comes_out_in_order_and_a_full_ring_refuses() {
        let queue = Queue::new(4);
        assert_eq!(queue.pop(), None);
        assert!((0..4).all(|n| queue.push(&kept(n))));
        assert!(!queue.push(&kept(4)));
        assert_eq!(queue.pop(), Some(kept(0)));
        assert!(queue.push(&kept(5)));
        let rest: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(rest, [kept(1), kept(2), kept(3), kept(5)]);
    }

    #[test]
    fn nothing_is_torn_between_two_threads() {
        let queue = std::sync::Arc::new(Queue::new(8));
        let other = queue.clone();
        let writer = std::thread::spawn(move || {
            for n in 0..20_000 {
                while !other.push(&kept(n)) {
                    std::thread::yield_now();
                }
            }
        });
        for n in 0..20_000 {
            let got = loop {
                match queue.pop() {
                    Some(got) => break got,
                    None => std::thread::yield_now(),
                }
            };
            assert_eq!(got, kept(n));
        }
        writer.join().unwrap();
    }
}
