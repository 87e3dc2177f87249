//! The connection to a Redis server outside the measured loop: it locks the prefix of keys against other runs, keeps
//! the ownership mark in the key `PREFIX:taillight-owner`, walks and deletes keys, and asks for statistics.
//!
//! Runs whose prefixes are equal, or one of which lies inside the other, exclude each other. What becomes of keys that
//! are there is decided in `decision`.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use taillight_core::{Clock, Error, MonoClock, Result, Stamp, StopFlag};

use super::address::DatabaseAddress;
use super::records::RecordForm;
use super::resp;
use super::wire::{Reply, RespSocket, refused, unreachable};
use crate::ownership::{MarkStore, NamedTarget, OwnershipMark, refusal};

/// How long a server may take to notice that an earlier run has closed its connections.
const CLOSING: Duration = Duration::from_millis(500);

/// What the mark of a prefix says of identity: the forms of the records that runs write, by which a later run tells the
/// records of a killed one. A key has no identity but its name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyIdentity {
    /// Empty in marks of versions that did not note it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub written: Vec<RecordForm>,
}

impl KeyIdentity {
    /// Adds the forms of `new` that are missing; false where none is, or where this one has no forms.
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

/// How long a look at statistics may take at most.
const GLANCE: Duration = Duration::from_secs(1);
/// How long statistics are left alone after a look at them failed, ns.
const REST_NS: u64 = 10_000_000_000;
/// How long a server may take to notice that this run's earlier connection is closed.
const NOTICE: Duration = Duration::from_secs(1);
/// How long a server may take at most for the first answer after the run was stopped.
const MOMENT: Duration = Duration::from_millis(700);

/// Bytes of the largest mark.
const MARK_MAX: usize = 1 << 20;
/// What the key of a mark ends in.
pub const MARK: &str = ":taillight-owner";
/// What the key of the sorted set of all keys ends in.
pub const INDEX: &str = ":taillight-index";
/// What the form of records in a mark ends in where the run keeps that set.
pub const INDEXED: &str = "; indexed";

/// The connection to a server outside the measured loop.
pub struct AdminConnection {
    /// None after a command got no answer, which may still come and would be taken for that of the next command. That
    /// one connects anew.
    wire: Option<RespSocket>,
    address: DatabaseAddress,
    password: Option<String>,
    pub prefix: String,
    timeout: Duration,
    /// Ends what waits for the server, until [`AdminConnection::detach_from_stop`].
    stop: StopFlag,
    /// After a look at statistics failed: when the next one may be made.
    rests: Option<Stamp>,
    /// Another rank of the run holds the prefix.
    joins: bool,
}

impl AdminConnection {
    /// Connects and locks the prefix as long as the connection lives: the connection gets a name that says which prefix
    /// it holds, and is refused when there is one for this prefix, or one inside or around it. The server forgets the
    /// name with the connection, so that a killed run locks nothing. A rank that `joins` locks nothing. Errors:
    /// `Refused` when another run holds the prefix; of two that begin at the same moment both may be. `Unavailable`
    /// when the server cannot be used, or does not let its clients be listed.
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

    /// A connection that holds the lock; `patience` is how long an earlier holder may take to go.
    fn connect(&self, timeout: Duration, patience: Duration) -> Result<RespSocket> {
        let mut wire = greet(&self.address, self.password.as_deref(), timeout, &self.stop)?;
        if !self.joins {
            self.lock(&mut wire, timeout, patience)?;
        }
        Ok(wire)
    }

    /// Does one command. Errors: `Unavailable` when the run is stopped, or the server is gone or refuses; `Refused`
    /// when the connection was lost and another run has taken the prefix since.
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

    /// Sends the `count` commands that `write` makes, one behind the other, and gives their replies, error replies too.
    /// Errors: as [`AdminConnection::ask`], but for commands that the server refuses.
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
        // An error reply is an answer: only a command without an answer costs the connection.
        if said.is_ok() {
            self.wire = Some(wire);
        }
        said.map_err(|e| unreachable(&self.address, e))
    }

    fn exchange(&self, wire: &mut RespSocket, parts: &[&[u8]], timeout: Duration) -> Result<Reply> {
        wire.ask(parts, timeout, &self.stop).map_err(|e| unreachable(&self.address, e))
    }

    /// The flag of the run that ends commands at once.
    pub fn stop(&self) -> &StopFlag {
        &self.stop
    }

    /// Detaches the connection from the run's stop, so that what the run made can be deleted. If the run was stopped,
    /// the server is first asked whether it answers at all, for a moment. Errors: `Unavailable` when it does not.
    pub fn detach_from_stop(&mut self) -> Result<()> {
        let stop = std::mem::take(&mut self.stop);
        if stop.stopped() {
            let key = self.mark_key();
            let asked = self.ask_within(&[b"EXISTS", key.as_bytes()], self.timeout.min(MOMENT));
            asked.inspect_err(|_| self.stop = stop)?;
        }
        Ok(())
    }

    /// Does one command whose answer is not needed; none where it failed, and for a while after that without asking, so
    /// that a server that hangs does not hold up the caller each time.
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

    /// The key of the sorted set of all keys.
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
            // One of the holders is this connection.
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

    /// Shows the keys under the prefix, in a walk over the database, until `each` returns false; SCAN may give one
    /// twice.
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

    /// Deletes keys by name, 1,000 with a command. Errors: as [`AdminConnection::ask`].
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

    /// Lets the server watch these keys for changes (WATCH); false where it refuses the command.
    pub fn watch(&mut self, keys: &[Vec<u8>]) -> Result<bool> {
        let write = |out: &mut Vec<u8>| {
            resp::command(out, 1 + keys.len());
            resp::part(out, b"WATCH");
            keys.iter().for_each(|key| resp::part(out, key));
        };
        Ok(!matches!(self.ask_many(1, write)?.pop(), Some(Reply::Error(_))))
    }

    /// Deletes keys by name and ends the watch. If `watched` and somebody has changed one of the watched keys since,
    /// none is deleted, and the answer is false. Errors: as [`AdminConnection::ask`].
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

    /// Checks that no prefix around this one has a mark, as far as the user's rights reach. Errors: `Refused`;
    /// `Unavailable`.
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

    /// Deletes the sorted set of all keys, if there; false, and nothing is deleted, when its key holds something else.
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
            shown: format!("{} keys {}:*", self.address.to_text(), self.prefix),
            confirm: self.address.to_text(),
            instead: "another options.prefix",
        }
    }

    fn unreadable(&self) -> Error {
        Error::refused("the owner's mark under the prefix is not Taillight's")
            .with("key", self.mark_key())
            .hint("choose another options.prefix")
    }
}

/// Takes the connection; others wait until the guard is dropped.
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

/// The mark under the prefix. Errors: `Refused` where its key holds no mark of Taillight's; `Unavailable`.
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

/// Whether the loss of keys is confirmed for this very server and database. Errors:
/// `Refused` when only half of the confirmation is there, or it names something else.
pub fn confirmed(destroy: bool, name: Option<&str>, address: &DatabaseAddress) -> Result<bool> {
    let same = |name: &str| DatabaseAddress::parse(Some(name)).is_ok_and(|a| a == *address);
    refusal::confirmed(destroy, name, &NamedTarget::of(address.to_text()), same)
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
