//! Ranks as threads of one process, joined by channels: for tests of what ranks do, without MPI.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Instant;

use taillight_core::{Error, Result};

use crate::group::{Group, Patience};

/// One rank of a group within this process.
pub struct LocalGroup {
    rank: u32,
    host: String,
    to: Vec<Sender<Vec<u8>>>,
    from: Vec<Receiver<Vec<u8>>>,
}

impl LocalGroup {
    /// A group of so many ranks, on so many pretended hosts.
    pub fn of(size: u32, hosts: u32) -> Vec<LocalGroup> {
        let mut to: Vec<Vec<Sender<Vec<u8>>>> = (0..size).map(|_| Vec::new()).collect();
        let mut from: Vec<Vec<Receiver<Vec<u8>>>> = (0..size).map(|_| Vec::new()).collect();
        for receiver in from.iter_mut() {
            for sender in to.iter_mut() {
                let (send, receive) = channel();
                sender.push(send);
                receiver.push(receive);
            }
        }
        let per_host = size.div_ceil(hosts.max(1)).max(1);
        let all = (0..size).zip(to).zip(from);
        all.map(|((rank, to), from)| LocalGroup {
            rank,
            host: format!("h{}", rank / per_host),
            to,
            from,
        })
        .collect()
    }

    fn nobody(rank: u32) -> Error {
        Error::internal("there is no such rank").with("rank", rank)
    }
}

impl Group for LocalGroup {
    fn rank(&self) -> u32 {
        self.rank
    }
    fn size(&self) -> u32 {
        self.to.len() as u32
    }
    fn host(&self) -> &str {
        &self.host
    }
    fn send(&mut self, to: u32, bytes: &[u8], _: Patience) -> Result<bool> {
        let to = self.to.get(to as usize).ok_or_else(|| LocalGroup::nobody(to))?;
        Ok(to.send(bytes.to_vec()).is_ok())
    }
    fn receive(&mut self, from: u32, patience: Patience) -> Result<Option<Vec<u8>>> {
        let from = self.from.get(from as usize).ok_or_else(|| LocalGroup::nobody(from))?;
        let left = patience.until.saturating_duration_since(Instant::now());
        match from.recv_timeout(left) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => Ok(None),
        }
    }
}
