//! The connection to a server outside the measured loop: it locks the prefix, keeps the ownership
//! mark in the key `PREFIX:taillight-owner`, walks and deletes keys, and asks for statistics.
//!
//! Keys under the prefix without a mark are somebody else's: refused, unless their loss is confirmed. So
//! are those beside a killed run's mark that it did not write. Prefixes inside each other clash.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use taillight_core::{Clock, Error, MonoClock, Result, Stamp, StopFlag};

use super::address::DatabaseAddress;
use super::records::RecordForm;
use super::resp;
use super::wire::{Reply, RespSocket, refused, unreachable};
use crate::ownership::{MarkStore, NamedTarget, OwnershipMark, refusal};

/// How long a server may take to notice that the run before has closed its connections.
const CLOSING: Duration = Duration::from_millis(500);

/// A key cannot be copied unnoticed: its name is all the identity it has. Beside it stands what the run
/// writes, by which a later one tells what a killed run left.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyIdentity {
    /// Absent in marks of versions that did not say it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub written: Vec<RecordForm>,
}

impl KeyIdentity {
    /// Takes over what another run writes; false where that is known, or the mark does not say what was
    /// written before.
    pub fn extend(&mut self, new: &KeyIdentity) -> bool {
        let before = self.written.len();
        for form in new.written.iter().filter(|_| before > 0) {
            if !self.written.contains(form) {
                self.written.push(form.clone());
            }
        }
        self.written.len() > before
    }
}

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

/// Bytes of the largest mark.
const MARK_MAX: usize = 1 << 20;
/// What the key of a mark ends in.
pub const MARK: &str = ":taillight-owner";
/// What the key of the sorted set of all keys ends in.
pub const INDEX: &str = ":taillight-index";
/// What the form of records says of that set.
pub const INDEXED: &str = "; indexed";

/// A server asked outside the measured loop.
pub struct AdminConnection {
    /// None after a command failed: its answer may still come, and would be taken for the next
    /// one's. The next command connects anew.
    wire: Option<RespSocket>,
    address: DatabaseAddress,
    password: Option<String>,
    pub prefix: String,
    timeout: Duration,
    /// Ends what waits for the server, until [`AdminConnection::settle`].
    stop: StopFlag,
    /// No look at statistics before.
    rests: Option<Stamp>,
    /// Another rank of the run holds the prefix.
    joins: bool,
}

impl AdminConnection {
    /// Connects and locks the prefix: keeps other runs off it as long as the connection lives. The
    /// connection gets a name that says which prefix it holds, and is refused when another one has
    /// the same name. The server forgets it with the connection, so that a killed run locks nothing.
    /// One that `joins` locks nothing: rank 0 of its run does.
    /// Errors: `Refused` when another run holds the prefix; of two that begin at the same moment
    /// both may be. `Unavailable` when the server cannot be used, or does not let its clients be
    /// listed.
    pub fn open(
        address: DatabaseAddress,
        password: Option<String>,
        prefix: &str,
        timeout: Duration,
        (stop, joins): (&StopFlag, bool),
    ) -> Result<AdminConnection> {
        let mut admin = AdminConnection {
            wire: None,
            address,
            password,
            prefix: prefix.to_owned(),
            timeout,
            stop: stop.clone(),
            rests: None,
            joins,
        };
        admin.wire = Some(admin.connect(timeout, CLOSING)?);
        Ok(admin)
    }

    /// A connection that holds the lock; `patience` is for one with the same name to go.
    fn connect(&self, timeout: Duration, patience: Duration) -> Result<RespSocket> {
        let mut wire = greet(&self.address, self.password.as_deref(), timeout, &self.stop)?;
        if !self.joins {
            self.lock(&mut wire, timeout, patience)?;
        }
        Ok(wire)
    }

    /// One command. Errors: `Unavailable` when the server is gone or refuses; `Refused` when the
    /// connection was lost and another run has taken the prefix since.
    pub fn ask(&mut self, parts: &[&[u8]]) -> Result<Reply> {
        self.ask_within(parts, self.timeout)
    }

    fn ask_within(&mut self, parts: &[&[u8]], timeout: Duration) -> Result<Reply> {
        let write = |out: &mut Vec<u8>| {
            resp::command(out, parts.len());
            parts.iter().for_each(|part| resp::part(out, part));
        };
        match self.ask_many_within(1, write, timeout)?.pop() {
            Some(Reply::Error(says)) => Err(refused(&self.address, &says)),
            said => Ok(said.unwrap_or(Reply::Nil)),
        }
    }

    /// Sends the `count` commands that `write` makes, one behind the other, and gives their replies.
    /// Errors: `Unavailable` when the server is gone; a reply that is an error is none.
    pub fn ask_many(
        &mut self,
        count: usize,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Result<Vec<Reply>> {
        self.ask_many_within(count, write, self.timeout)
    }

    fn ask_many_within(
        &mut self,
        count: usize,
        write: impl FnOnce(&mut Vec<u8>),
        timeout: Duration,
    ) -> Result<Vec<Reply>> {
        if self.stop.stopped() {
            return Err(Error::unavailable("stopped before the server was asked"));
        }
        let mut wire = match self.wire.take() {
            Some(wire) => wire,
            None => self.connect(timeout, NOTICE)?,
        };
        write(&mut wire.0.out);
        let said = wire.answers(count, timeout, &self.stop);
        // An answer that says no is an answer: only a command without one breaks the connection.
        if said.is_ok() {
            self.wire = Some(wire);
        }
        said.map_err(|e| unreachable(&self.address, e))
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
            let asked = self.ask_within(&[b"EXISTS", key.as_bytes()], self.timeout.min(MOMENT));
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

    /// The key of the mark.
    pub fn mark_key(&self) -> String {
        format!("{}{MARK}", self.prefix)
    }

    /// The sorted set of all keys, where there is one.
    pub fn index_key(&self) -> String {
        format!("{}{INDEX}", self.prefix)
    }

    /// Locks the prefix; see [`AdminConnection::open`].
    fn lock(&self, wire: &mut RespSocket, timeout: Duration, patience: Duration) -> Result<()> {
        let server = format!("taillight:db{}:", self.address.db);
        let name = format!("{server}{}", self.prefix);
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
            let others = holders(&list, &server, &self.prefix);
            // One of them is this connection.
            if others.len() <= 1 {
                return Ok(());
            }
            if MonoClock.now() >= until {
                return Err(Error::refused("another run is using the prefix")
                    .with("target", self.named().shown)
                    .with("connections", others.join(" "))
                    .hint(
                        "wait until it is over, or choose an options.prefix that is not inside \
                         another run's, nor the other way round",
                    ));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Shows every key under the prefix, some at a time, until `each` returns false. Walks over the
    /// whole database.
    pub fn walk(
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

    /// Deletes keys by name. Errors: `Unavailable` when the server is gone or refuses.
    pub fn unlink<'k>(&mut self, keys: impl Iterator<Item = &'k [u8]>) -> Result<()> {
        let mut parts = vec![&b"UNLINK"[..]];
        for key in keys {
            parts.push(key);
            if parts.len() > 1000 {
                self.ask(&parts)?;
                parts.truncate(1);
            }
        }
        if parts.len() > 1 {
            self.ask(&parts)?;
        }
        Ok(())
    }

    /// From now on the server says whether somebody changes one of these keys; false where it knows no such
    /// command, or the user may not give it. Errors: `Unavailable`.
    pub fn watch(&mut self, keys: &[Vec<u8>]) -> Result<bool> {
        let write = |out: &mut Vec<u8>| {
            resp::command(out, 1 + keys.len());
            resp::part(out, b"WATCH");
            keys.iter().for_each(|key| resp::part(out, key));
        };
        Ok(!matches!(self.ask_many(1, write)?.pop(), Some(Reply::Error(_))))
    }

    /// Deletes keys by name; those of a watch only together, and not at all, which is false, when somebody
    /// has changed one of what is watched since. Errors: `Unavailable` when the server is gone or refuses.
    pub fn unlink_watched(&mut self, keys: &[&[u8]], watched: bool) -> Result<bool> {
        if !watched {
            return self.unlink(keys.iter().copied()).map(|()| true);
        }
        if keys.is_empty() {
            return self.ask(&[b"UNWATCH"]).map(|_| true);
        }
        let said = self.ask_many(3, |out| {
            resp::command(out, 1);
            resp::part(out, b"MULTI");
            resp::command(out, 1 + keys.len());
            resp::part(out, b"UNLINK");
            keys.iter().for_each(|key| resp::part(out, key));
            resp::command(out, 1);
            resp::part(out, b"EXEC");
        })?;
        match said.iter().find(|reply| matches!(reply, Reply::Error(_))) {
            Some(Reply::Error(says)) => Err(refused(&self.address, says)),
            _ => Ok(said.last() != Some(&Reply::Nil)),
        }
    }

    /// Looks for a mark of a run whose prefix this one is inside. Where the user's rights do not reach
    /// outside the prefix, nobody knows of one. Errors: `Refused` naming it; `Unavailable`.
    pub fn check_outer(&mut self) -> Result<()> {
        let outer = self.prefix.match_indices(':').map(|(at, _)| &self.prefix[..at]);
        let keys: Vec<_> = outer.map(|outer| format!("{outer}{MARK}")).collect();
        let said = self.ask_many(keys.len(), |out| {
            for key in &keys {
                resp::command(out, 2);
                resp::part(out, b"EXISTS");
                resp::part(out, key.as_bytes());
            }
        })?;
        for (key, said) in keys.iter().zip(said) {
            match said {
                Reply::Text(count) if count == b"0" => {}
                Reply::Error(says) if says.starts_with("NOPERM") => {}
                Reply::Error(says) => return Err(refused(&self.address, &says)),
                _ => return Err(self.clash("the prefix lies inside that of another run", key)),
            }
        }
        Ok(())
    }

    pub fn clash(&self, what: &str, key: &str) -> Error {
        Error::refused(what)
            .with("target", self.named().shown)
            .with("its mark", key)
            .hint("choose an options.prefix that is not inside another run's, nor around one")
    }

    /// Whether the key is a sorted set, or absent.
    pub fn holds_index(&mut self, key: &str) -> Result<bool> {
        let said = self.ask(&[b"TYPE", key.as_bytes()])?;
        Ok([&b"zset"[..], b"none"].iter().any(|kind| said == Reply::Text(kind.to_vec())))
    }

    /// Deletes the sorted set of all keys; false when something else stands there. Errors:
    /// `Unavailable`.
    pub fn delete_index(&mut self) -> Result<bool> {
        let key = self.index_key();
        if !self.holds_index(&key)? {
            return Ok(false);
        }
        self.unlink([key.as_bytes()].into_iter()).map(|()| true)
    }

    /// The prefix and its server, for refusals.
    pub fn named(&self) -> NamedTarget {
        NamedTarget {
            shown: format!("{} keys {}:*", self.address.shown(), self.prefix),
            confirm: self.address.shown(),
            instead: "another options.prefix",
        }
    }

    fn unreadable(&self) -> Error {
        Error::refused("the owner's mark under the prefix is not Taillight's")
            .with("key", self.mark_key())
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
        let key = key.as_bytes();
        let most = MARK_MAX.to_string();
        match admin.ask(&[b"GETRANGE", key, b"0", most.as_bytes()])? {
            Reply::Text(text) if text.len() > MARK_MAX => {
                Err(admin.unreadable().with("bytes", format!("more than {MARK_MAX}")))
            }
            Reply::Text(text) if text.is_empty() => match admin.ask(&[b"EXISTS", key])? {
                Reply::Text(count) if count == b"0" => Ok(None),
                _ => Ok(Some(text)),
            },
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
        match admin.ask(&[b"SET", key.as_bytes(), mark, b"XX"])? {
            Reply::Nil => {
                Err(Error::target("the mark of the run is gone: somebody has deleted it")
                    .with("target", admin.named().shown)
                    .hint("look what is under the prefix before you use it again"))
            }
            _ => Ok(()),
        }
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
    mark.transpose().map_err(|e| lock(admin).unreadable().source(e))
}

/// Addresses of the clients that hold this prefix, one around it or one inside it, from CLIENT LIST.
fn holders<'a>(list: &'a str, server: &str, prefix: &str) -> Vec<&'a str> {
    let inside = |a: &str, b: &str| a.strip_prefix(b).is_some_and(|rest| rest.starts_with(':'));
    let holds = |word: &str| {
        let held = word.strip_prefix("name=").and_then(|name| name.strip_prefix(server));
        held.is_some_and(|p| p == prefix || inside(p, prefix) || inside(prefix, p))
    };
    let lines = list.lines().filter(|line| line.split(' ').any(holds));
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
    fn prefixes_inside_each_other_are_held_together() {
        let line = |p: &str| format!("id=1 addr={p} name=taillight:db0:{p} db=0\n");
        let list: String = ["a", "a:b", "ab", "a:b:c", "x"].map(line).concat();
        let of = |prefix| holders(&list, "taillight:db0:", prefix);
        assert_eq!(of("a"), ["a", "a:b", "a:b:c"]);
        assert_eq!(of("a:b"), ["a", "a:b", "a:b:c"]);
        assert_eq!((of("ab"), of("y").len()), (vec!["ab"], 0));
        assert!(holders(&list, "taillight:db1:", "a").is_empty());
    }

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
