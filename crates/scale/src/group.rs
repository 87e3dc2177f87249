//! What connects ranks, as a trait: messages between two of them, in order, with a limit of time. Gathering,
//! broadcasts, barriers and sums are made of these, so that a rank that is gone ends a step and can be named.

use std::time::{Duration, Instant};

use taillight_core::Result;

/// How long a rank is waited for, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// Given up then.
    pub until: Instant,
    /// Looks all the time instead of sleeping between looks: for a few messages whose time counts.
    pub spins: bool,
}

impl Patience {
    /// Sleeps between looks.
    pub fn of(time: Duration) -> Patience {
        Patience { until: Instant::now() + time, spins: false }
    }

    /// The same without sleep.
    pub fn spinning(time: Duration) -> Patience {
        Patience { spins: true, ..Patience::of(time) }
    }

    /// Sleeps before the next look. False when the time is over.
    pub fn look_again(&self) -> bool {
        if !self.spins {
            std::thread::sleep(Duration::from_millis(1));
        }
        Instant::now() < self.until
    }
}

/// Ranks that send each other messages. Messages between two ranks arrive in their order.
pub trait Group: Send {
    /// This rank, from 0.
    fn rank(&self) -> u32;
    /// How many there are.
    fn size(&self) -> u32;
    /// Name of this host.
    fn host(&self) -> &str;
    /// Hands a message over. False when the other did not take it in time.
    fn send(&mut self, to: u32, bytes: &[u8], patience: Patience) -> Result<bool>;
    /// The next message of a rank; none when there was none in time, or the rank is cut off.
    fn receive(&mut self, from: u32, patience: Patience) -> Result<Option<Vec<u8>>>;

    /// What connects this rank to others, as the other end names it; none where that is not known.
    fn ends(&self) -> Vec<String> {
        Vec::new()
    }
    /// Tells this rank what others say of their connections ([`Group::ends`]): one that has an end named so leads to
    /// the rank that named it.
    fn meet(&mut self, _others: &[(u32, Vec<String>)]) {}
    /// Whether the host of a rank that is waited for does not answer any more: it or a link to it is down, as far as
    /// that is known. A rank that only stands still is not cut off.
    fn is_cut_off(&mut self, _rank: u32) -> bool {
        false
    }

    /// The bytes of every rank at rank 0, in order; elsewhere nothing. A rank that did not send in time has none.
    fn gather_bytes(&mut self, mine: &[u8], patience: Patience) -> Result<Vec<Option<Vec<u8>>>> {
        if self.rank() != 0 {
            self.send(0, mine, patience)?;
            return Ok(Vec::new());
        }
        let mut all = vec![Some(mine.to_vec())];
        for from in 1..self.size() {
            all.push(self.receive(from, patience)?);
        }
        Ok(all)
    }

    /// The bytes of rank 0 at every rank; none where rank 0 did not send in time.
    fn broadcast(&mut self, mine: &[u8], patience: Patience) -> Result<Option<Vec<u8>>> {
        if self.rank() != 0 {
            return self.receive(0, patience);
        }
        for to in 1..self.size() {
            self.send(to, mine, patience)?;
        }
        Ok(Some(mine.to_vec()))
    }

    /// Waits for all. False when a rank did not come in time.
    fn barrier(&mut self, patience: Patience) -> Result<bool> {
        Ok(self.allreduce_u64(&mut [], patience)?.is_some())
    }

    /// Replaces `values` by their sums over all ranks, at every rank. Returns the bytes that this rank sent and
    /// received, rank 0 those for each other rank; none, and no sums, when a rank did not come in time.
    fn allreduce_u64(&mut self, values: &mut [u64], patience: Patience) -> Result<Option<u64>> {
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        let all = self.gather_bytes(&bytes, patience)?;
        let mut sums = vec![0u64; values.len()];
        let mut whole = true;
        for part in &all {
            let Some(part) = part.as_ref().filter(|part| part.len() == bytes.len()) else {
                whole = false;
                continue;
            };
            for (sum, value) in sums.iter_mut().zip(part.chunks_exact(8)) {
                *sum = sum.saturating_add(u64::from_le_bytes(value.try_into().unwrap_or_default()));
            }
        }
        let mut answer: Vec<u8> = vec![u8::from(whole)];
        answer.extend(sums.iter().flat_map(|v| v.to_le_bytes()));
        let Some(answer) = self.broadcast(&answer, patience)? else { return Ok(None) };
        for (value, sum) in
            values.iter_mut().zip(answer.get(1..).unwrap_or_default().chunks_exact(8))
        {
            *value = u64::from_le_bytes(sum.try_into().unwrap_or_default());
        }
        let moved = (bytes.len() + answer.len()) as u64;
        Ok((answer.first() == Some(&1)).then_some(moved))
    }
}
