//! The connection to a server outside the measured loop: it locks the prefix, keeps the ownership
//! mark in the key `PREFIX:taillight-owner`, walks and deletes keys, and asks for statistics.
//!
//! Keys under the prefix without a mark are somebody else's: refused, unless their loss is confirmed.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use taillight_core::{Clock, Error, MonoClock, Result, Stamp, StopFlag};

use super::address::DatabaseAddress;
use super::wire::{Reply, RespSocket, refused, unreachable};
use crate::ownership::{
    Contents, HeldMark, MarkStore, NamedTarget, OwnershipDecision, OwnershipMark, refusal,
};

/// How long a server may take to notice that the run before has closed its connections.
const CLOSING: Duration = Duration::from_millis(500);

/// A key cannot be copied unnoticed: its name is all the identity it has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyIdentity {}

/// The mark of the keys under a prefix.
pub type KeyMark = OwnershipMark<KeyIdentity>;

/// How long a look at statistics may take.
const GLANCE: Duration = Duration::from_secs(1);
/// How long statistics are left alone after a look at them failed, ns.
const REST_NS: u64 = 10_000_000_000;
/// How long a server is given to notice that the connection before is closed.
const NOTICE: Duration = Duration::from_secs(1);
/// How long a server may take to answer once, after the run was stopped.
const MOMENT: Duration = Duration::from_millis(700);

/// A server asked outside the measured loop.
pub struct AdminConnection {
    /// None after a command failed: its answer may still come, and would be taken for the next
    /// one's. The next command connects anew.
    wire: Option<RespSocket>,
    address: DatabaseAddress,
    password: Option<String>,
    prefix: String,
    timeout: Duration,
    /// Ends what waits for the server, until [`AdminConnection::settle`].
    stop: StopFlag,
    /// No look at statistics before.
    rests: Option<Stamp>,
}

impl AdminConnection {
    /// Connects and locks the prefix: keeps other runs off it as long as the connection lives. The
    /// connection gets a name that says which prefix it holds, and is refused when another one has
    /// the same name. The server forgets it with the connection, so that a killed run locks nothing.
    /// Errors: `Refused` when another run holds the prefix; of two that begin at the same moment
    /// both may be. `Unavailable` when the server cannot be used, or does not let its clients be
    /// listed.
    pub fn open(
        address: DatabaseAddress,
        password: Option<String>,
        prefix: &str,
        timeout: Duration,
        stop: &StopFlag,
    ) -> Result<AdminConnection> {
        let mut admin = AdminConnection {
            wire: None,
            address,
            password,
            prefix: prefix.to_owned(),
            timeout,
            stop: stop.clone(),
            rests: None,
        };
        admin.wire = Some(admin.connect(timeout, CLOSING)?);
        Ok(admin)
    }

    /// A connection that holds the lock; `patience` is for one with the same name to go.
    fn connect(&self, timeout: Duration, patience: Duration) -> Result<RespSocket> {
        let mut wire = greet(&self.address, self.password.as_deref(), timeout, &self.stop)?;
        self.lock(&mut wire, timeout, patience)?;
        Ok(wire)
    }

    /// One command. Errors: `Unavailable` when the server is gone or refuses; `Refused` when the
    /// connection was lost and another run has taken the prefix since.
    pub fn ask(&mut self, parts: &[&[u8]]) -> Result<Reply> {
        self.ask_within(parts, self.timeout)
    }

    fn ask_within(&mut self, parts: &[&[u8]], timeout: Duration) -> Result<Reply> {
        if self.stop.stopped() {
            return Err(Error::unavailable("stopped before the server was asked"));
        }
        let mut wire = match self.wire.take() {
            Some(wire) => wire,
            None => self.connect(timeout, NOTICE)?,
        };
        let said = self.exchange(&mut wire, parts, timeout);
        // An answer that says no is an answer: only a command without one breaks the connection.
        if said.is_ok() {
            self.wire = Some(wire);
        }
        match said? {
            Reply::Error(says) => Err(refused(&self.address, &says)),
            said => Ok(said),
        }
    }

    fn exchange(&self, wire: &mut RespSocket, parts: &[&[u8]], timeout: Duration) -> Result<Reply> {
        wire.ask(parts, timeout, &self.stop).map_err(|e| unreachable(&self.address, e))
    }

    /// What ends commands at once.
    pub fn stop(&self) -> &StopFlag {
        &self.stop
    }

    /// From now on no stop ends a command: what the run made is to be put in order. After one, the server
    /// has a moment to show that it answers at all. Errors: `Unavailable` when it does not.
    pub fn settle(&mut self) -> Result<()> {
        let stop = std::mem::take(&mut self.stop);
        if stop.stopped() {
            let key = self.mark_key();
            let asked = self.ask_within(&[b"GET", key.as_bytes()], self.timeout.min(MOMENT));
            asked.inspect_err(|_| self.stop = stop)?;
        }
        Ok(())
    }

    /// One command whose answer is not needed: not asked for a while after it failed, so that a
    /// server that hangs does not hold up whoever asks.
    pub fn glance(&mut self, parts: &[&[u8]]) -> Option<Reply> {
        if self.rests.is_some_and(|until| MonoClock.now() < until) {
            return None;
        }
        let said = self.ask_within(parts, self.timeout.min(GLANCE));
        self.rests = said.is_err().then(|| MonoClock.now().plus(REST_NS));
        said.ok()
    }

    fn mark_key(&self) -> String {
        format!("{}:taillight-owner", self.prefix)
    }

    /// Locks the prefix; see [`AdminConnection::open`].
    fn lock(&self, wire: &mut RespSocket, timeout: Duration, patience: Duration) -> Result<()> {
        let name = format!("taillight:db{}:{}", self.address.db, self.prefix);
        let set: [&[u8]; 3] = [b"CLIENT", b"SETNAME", name.as_bytes()];
        if let Reply::Error(says) = self.exchange(wire, &set, timeout)? {
            return Err(refused(&self.address, &says));
        }
        let until = MonoClock.now().plus(patience.as_nanos() as u64);
        loop {
            let list = match self.exchange(wire, &[b"CLIENT", b"LIST"], timeout)? {
                Reply::Text(list) => String::from_utf8_lossy(&list).into_owned(),
                Reply::Error(says) => return Err(refused(&self.address, &says)),
                _ => {
                    return Err(Error::unavailable(
                        "the server's answer to CLIENT LIST is no text",
                    ));
                }
            };
            let others = holders(&list, &name);
            if others.len() <= 1 {
                return Ok(());
            }
            if MonoClock.now() >= until {
                return Err(Error::refused("another run is using the prefix")
                    .with("target", self.named().shown)
                    .with("connections", others.join(" "))
                    .hint("wait until it is over, or choose another options.prefix"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Shows every key under the prefix, some at a time, until `each` says stop. Walks over the
    /// whole database.
    fn walk(
        &mut self,
        mut each: impl FnMut(&mut AdminConnection, &[Vec<u8>]) -> Result<bool>,
    ) -> Result<()> {
        let pattern = format!("{}:*", self.prefix);
        let mut cursor = b"0".to_vec();
        loop {
            let scan: [&[u8]; 6] =
                [b"SCAN", &cursor, b"MATCH", pattern.as_bytes(), b"COUNT", b"1000"];
            let Reply::List(all) = self.ask(&scan)? else {
                return Err(Error::unavailable("the server's answer to SCAN is no list"));
            };
            // The cursor, the head of the list of keys, the keys.
            let keys = all.get(2..).unwrap_or_default();
            if !keys.is_empty() && !each(self, keys)? {
                return Ok(());
            }
            cursor = all.into_iter().next().unwrap_or_default();
            if cursor == b"0" || cursor.is_empty() {
                return Ok(());
            }
        }
    }

    /// How many keys are under the prefix. Errors: `Unavailable` when the server is gone or refuses.
    pub fn count(&mut self) -> Result<u64> {
        let mut count = 0;
        self.walk(|_, keys| {
            count += keys.len() as u64;
            Ok(true)
        })?;
        Ok(count)
    }

    /// Deletes every key under the prefix but the mark, so that a broken-off end is known. Errors:
    /// `Unavailable` when the server is gone or refuses.
    pub fn wipe(&mut self) -> Result<()> {
        let mark = self.mark_key();
        self.walk(|admin, keys| {
            let mut parts: Vec<&[u8]> = vec![b"UNLINK"];
            let others = keys.iter().filter(|k| k.as_slice() != mark.as_bytes());
            parts.extend(others.map(Vec::as_slice));
            if parts.len() > 1 {
                admin.ask(&parts)?;
            }
            Ok(true)
        })
    }

    /// The prefix and its server, for refusals.
    pub fn named(&self) -> NamedTarget {
        NamedTarget {
            shown: format!("{} keys {}:*", self.address.shown(), self.prefix),
            confirm: self.address.shown(),
            instead: "another options.prefix",
        }
    }

    fn unreadable(&self, e: serde_json::Error) -> Error {
        Error::refused("the owner's mark under the prefix is not Taillight's")
            .with("key", self.mark_key())
            .source(e)
            .hint("choose another options.prefix")
    }
}

/// The connection for one command.
pub fn lock(admin: &Mutex<AdminConnection>) -> MutexGuard<'_, AdminConnection> {
    admin.lock().unwrap_or_else(PoisonError::into_inner)
}

impl MarkStore for Mutex<AdminConnection> {
    fn read(&self) -> Result<Option<Vec<u8>>> {
        let mut admin = lock(self);
        let key = admin.mark_key();
        match admin.ask(&[b"GET", key.as_bytes()])? {
            Reply::Text(text) => Ok(Some(text)),
            _ => Ok(None),
        }
    }

    fn create(&self, mark: &[u8]) -> Result<()> {
        let mut admin = lock(self);
        let key = admin.mark_key();
        match admin.ask(&[b"SET", key.as_bytes(), mark, b"NX"])? {
            Reply::Nil => Err(refusal::taken(admin.named().shown)),
            _ => Ok(()),
        }
    }

    fn renew(&self, mark: &[u8]) -> Result<()> {
        let mut admin = lock(self);
        let key = admin.mark_key();
        admin.ask(&[b"SET", key.as_bytes(), mark]).map(drop)
    }

    fn remove(&self) -> Result<()> {
        let mut admin = lock(self);
        let key = admin.mark_key();
        admin.ask(&[b"UNLINK", key.as_bytes()]).map(drop)
    }
}

/// The mark under the prefix. Errors: `Refused` for one that no version of Taillight wrote.
pub fn mark(admin: &Mutex<AdminConnection>) -> Result<Option<KeyMark>> {
    let mark = admin.read()?.map(|bytes| KeyMark::parse(&bytes));
    mark.transpose().map_err(|e| lock(admin).unreadable(e))
}

/// Whether there is a mark, and what becomes of the keys for the run that would write the mark `new`;
/// nothing is changed. Errors: `Refused` when keys are there that Taillight did not make, or of another
/// form; `Unavailable`.
pub fn decide(
    admin: &Mutex<AdminConnection>,
    new: &KeyMark,
    confirmed: bool,
) -> Result<(bool, OwnershipDecision<KeyIdentity>)> {
    let found = mark(admin)?;
    let mut contents = Contents::Records;
    if found.is_none() {
        contents = Contents::Empty;
        lock(admin).walk(|_, keys| {
            let key = keys.first().map(|key| String::from_utf8_lossy(key).into_owned());
            contents = Contents::Foreign(key);
            Ok(false)
        })?;
    }
    let named = lock(admin).named();
    let decision = KeyMark::decide(new, found.as_ref(), contents, confirmed, &named)?;
    Ok((found.is_some(), decision))
}

/// Does what was decided: writes the mark `new`, or takes the one that is there over. `forgets`: no
/// records outlast the run. Errors: `Unavailable`; `Refused` when another run was faster.
pub fn claim(
    admin: &Mutex<AdminConnection>,
    new: KeyMark,
    (marked, decision): (bool, OwnershipDecision<KeyIdentity>),
    forgets: bool,
) -> Result<HeldMark<KeyIdentity>> {
    match decision {
        OwnershipDecision::Reuse(kept) => return Ok(HeldMark::new(kept, forgets)),
        OwnershipDecision::Wipe => lock(admin).wipe()?,
        OwnershipDecision::Create => {}
    }
    let text = new.bytes()?;
    match marked {
        false => admin.create(&text)?,
        true => admin.renew(&text)?,
    }
    Ok(HeldMark::new(new, forgets))
}

/// Addresses of the clients of this name, from CLIENT LIST.
fn holders<'a>(list: &'a str, name: &str) -> Vec<&'a str> {
    let field = format!("name={name}");
    let lines = list.lines().filter(|line| line.split(' ').any(|word| word == field));
    lines.filter_map(|line| line.split(' ').find_map(|word| word.strip_prefix("addr="))).collect()
}

/// Whether the loss of what is there is confirmed for this very server and database. Errors:
/// `Refused` when only half of the confirmation is there, or it names something else.
pub fn confirmed(destroy: bool, name: Option<&str>, address: &DatabaseAddress) -> Result<bool> {
    let same = |name: &str| DatabaseAddress::parse(Some(name)).is_ok_and(|a| a == *address);
    refusal::confirmed(destroy, name, &NamedTarget::of(address.shown()), same)
}

/// Connects, gives the password, selects the database. Errors: `Unavailable` when the server cannot
/// be reached or refuses.
pub fn greet(
    address: &DatabaseAddress,
    password: Option<&str>,
    timeout: Duration,
    stop: &StopFlag,
) -> Result<RespSocket> {
    let gone = |e| unreachable(address, e);
    let mut wire = RespSocket::connect(address, timeout, stop).map_err(gone)?;
    let db = address.db.to_string();
    let select: [&[u8]; 2] = [b"SELECT", db.as_bytes()];
    let auth = password.map(|p| [&b"AUTH"[..], p.as_bytes()]);
    let commands = auth.iter().map(|a| &a[..]).chain([&select[..]]);
    for command in commands {
        if let Reply::Error(says) = wire.ask(command, timeout, stop).map_err(gone)? {
            return Err(refused(address, &says));
        }
    }
    Ok(wire)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_of_earlier_versions_are_read() {
        let text =
            br#"{"run_id":"r1","keep":true,"form":"keys hashed; values one piece","records":9}"#;
        let mark = KeyMark::parse(text).unwrap();
        assert_eq!((mark.keep, mark.records, mark.run_id.as_str()), (true, 9, "r1"));
        assert_eq!(mark.bytes().unwrap(), text);
        assert!(KeyMark::parse(b"hello").is_err());
    }
}
