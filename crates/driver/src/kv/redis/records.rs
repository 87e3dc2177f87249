//! Tells the records of a run on a Redis server from the keys of others, and deletes those that still are the run's.
//!
//! A server keeps nothing that says who wrote a key. The names of records follow from the plan; type and length
//! of a key are asked before it is deleted, a batch of keys at a time. This proves no content: a value of somebody
//! else's of the same name and type and of a fitting length is taken for the run's (`docs/drivers/redis.md`).

use std::collections::HashSet;
use std::ops::{Range, RangeInclusive};

use serde::{Deserialize, Serialize};
use taillight_core::keys::{KEY_MAX, KeyFormat};
use taillight_core::plan::{Keys, Plan};
use taillight_core::{Error, Result};

use super::admin::{AdminConnection, INDEXED, KeyMark};
use super::resp;
use super::wire::Reply;
use crate::kv::written::ForeignRecords;

/// Most keys asked about, and deleted, together. Each key of a WATCH is compared with the others: 1,000 took 5.4 ms.
const BATCH: usize = 256;
/// After so many numbers without a key, behind the plan's or behind the last one found, no further keys are looked for:
/// a run inserts numbers one after the other and deletes the first ones.
const GAP: u64 = 1 << 20;

/// The form of a workload's records, as the mark keeps it for a later run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordForm {
    keys: Keys,
    /// 1: a string; more: a hash of so many fields at most.
    fields: u32,
    /// Bytes of the smallest and of the largest value, where it is a string.
    smallest: u64,
    largest: u64,
}

/// What the server holds under a name: nothing (or an empty value), a value that fits the run's records, or another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeyState {
    Absent,
    Ours,
    Foreign,
}

/// The names, types and lengths of the records of a run.
pub struct KnownRecords {
    /// What every key begins with, colon included.
    prefix: Vec<u8>,
    formats: Vec<KeyFormat>,
    /// Bytes of a string; none where no record is a string.
    strings: Option<RangeInclusive<u64>>,
    /// Fields of a hash at most; none where no record is a hash.
    hashes: Option<u64>,
    /// The lowest key number.
    start: u64,
    /// One past the highest key number of the plan; inserts come behind it.
    end: u64,
}

impl RecordForm {
    /// The forms of the workloads of a plan, each once.
    pub fn of(plan: &Plan) -> Vec<RecordForm> {
        let mut forms = Vec::new();
        for w in &plan.workloads {
            let value = w.value.clone().unwrap_or_default();
            let form = RecordForm {
                keys: w.keys.clone().unwrap_or_default(),
                fields: value.fields,
                smallest: value.value_bytes(w.block_size.min()),
                largest: value.value_bytes(w.block_size.max()),
            };
            if !forms.contains(&form) {
                forms.push(form);
            }
        }
        forms
    }
}

impl KnownRecords {
    /// Of these forms under `prefix`. Errors: `Usage` when keys cannot be made.
    pub fn of(prefix: &str, forms: &[RecordForm]) -> Result<KnownRecords> {
        let mut formats = Vec::new();
        for form in forms {
            let format = form.keys.format()?;
            if !formats.contains(&format) {
                formats.push(format);
            }
        }
        let of = |strings: bool| forms.iter().filter(move |f| (f.fields == 1) == strings);
        let ends = of(true).map(|f| f.smallest).min().zip(of(true).map(|f| f.largest).max());
        let start = forms.iter().map(|f| f.keys.start).min().unwrap_or(0);
        let last = |f: &RecordForm| f.keys.start.saturating_add(f.keys.count);
        let end = forms.iter().map(last).max().unwrap_or(start);
        Ok(KnownRecords {
            prefix: format!("{prefix}:").into_bytes(),
            formats,
            strings: ends.map(|(smallest, largest)| smallest..=largest),
            hashes: of(false).map(|f| u64::from(f.fields)).max(),
            start,
            end,
        })
    }

    /// The same with strings of these lengths.
    pub fn with_sizes(mut self, sizes: RangeInclusive<u64>) -> KnownRecords {
        self.strings = self.strings.map(|_| sizes);
        self
    }

    fn write(&self, format: &KeyFormat, number: u64, name: &mut Vec<u8>) {
        let mut key = [0; KEY_MAX];
        name.clear();
        name.extend_from_slice(&self.prefix);
        name.extend_from_slice(format.write(number, &mut key));
    }

    /// How many commands ask about a key.
    fn questions(&self) -> usize {
        usize::from(self.strings.is_some()) + usize::from(self.hashes.is_some())
    }

    fn ask(&self, name: &[u8], out: &mut Vec<u8>) {
        let strings = self.strings.as_ref().map(|_| &b"STRLEN"[..]);
        for command in strings.into_iter().chain(self.hashes.map(|_| &b"HLEN"[..])) {
            resp::command(out, 2);
            resp::part(out, command);
            resp::part(out, name);
        }
    }

    /// The state of a key by the answers to [`KnownRecords::ask`].
    fn state(&self, said: &[Reply]) -> Result<KeyState> {
        let string = self.strings.clone().map(|sizes| move |n| sizes.contains(&n));
        let hash = self.hashes.map(|most| move |n| n <= most);
        let (mut answers, mut state) = (said.iter(), KeyState::Absent);
        let mut take = |fits: &dyn Fn(u64) -> bool| -> Result<()> {
            state = match (answers.next().map(length).transpose()?.flatten(), state) {
                (_, KeyState::Ours) => KeyState::Ours,
                (Some(0), other) => other,
                (Some(n), _) if fits(n) => KeyState::Ours,
                _ => KeyState::Foreign,
            };
            Ok(())
        };
        string.iter().try_for_each(|fits| take(fits))?;
        hash.iter().try_for_each(|fits| take(fits))?;
        Ok(state)
    }

    fn states(&self, admin: &mut AdminConnection, names: &[Vec<u8>]) -> Result<Vec<KeyState>> {
        let each = self.questions();
        let ask = |out: &mut Vec<u8>| names.iter().for_each(|name| self.ask(name, out));
        let said = admin.ask_many(each * names.len(), ask)?;
        said.chunks(each.max(1)).map(|said| self.state(said)).collect()
    }

    /// Deletes the records of these numbers that still are the run's; returns the values of others under their names.
    /// Errors: `Unavailable` when the server is gone or refuses.
    pub fn delete(
        &self,
        admin: &mut AdminConnection,
        numbers: &Range<u64>,
    ) -> Result<ForeignRecords> {
        let (mut foreign, mut names) = (ForeignRecords::default(), Vec::with_capacity(BATCH));
        let mut there = self.sparse(admin, numbers)?;
        let mut name = Vec::new();
        for format in &self.formats {
            for number in numbers.clone() {
                if there.as_ref().is_some_and(HashSet::is_empty) {
                    break;
                }
                self.write(format, number, &mut name);
                if there.as_mut().is_none_or(|there| there.remove(name.as_slice())) {
                    names.push(name.clone());
                }
                if names.len() == BATCH {
                    self.delete_some(admin, &names, &mut foreign)?;
                    names.clear();
                }
            }
        }
        self.delete_some(admin, &names, &mut foreign)?;
        Ok(foreign)
    }

    /// The keys under the prefix, when the database has fewer keys than there are numbers, and these are more than a
    /// batch; else none. So a run that wrote a few of a thousand million numbers does not ask about each.
    fn sparse(
        &self,
        admin: &mut AdminConnection,
        numbers: &Range<u64>,
    ) -> Result<Option<HashSet<Vec<u8>>>> {
        let all = numbers.end.saturating_sub(numbers.start);
        if all <= BATCH as u64 || all <= length(&admin.ask(&[b"DBSIZE"])?)?.unwrap_or(0) {
            return Ok(None);
        }
        let mut there = HashSet::new();
        admin.walk(|_, keys| {
            there.extend(keys.iter().cloned());
            Ok(true)
        })?;
        // These are no records.
        [admin.mark_key(), admin.index_key()].iter().for_each(|key| {
            there.remove(key.as_bytes());
        });
        Ok(Some(there))
    }

    /// Deletes those of `names` that are the run's, and notes those that are somebody else's; absent ones are neither.
    /// Where one is changed between the question and the deletion, both halves of `names` are tried again; one that is
    /// changed while it is tried alone is noted. Errors: `Unavailable` when the server is gone or refuses.
    pub fn delete_some(
        &self,
        admin: &mut AdminConnection,
        names: &[Vec<u8>],
        foreign: &mut ForeignRecords,
    ) -> Result<()> {
        if names.is_empty() {
            return Ok(());
        }
        let watched = admin.watch(names)?;
        let states = self.states(admin, names)?;
        let of = |wanted| {
            let pairs = names.iter().zip(&states).filter(move |(_, s)| **s == wanted);
            pairs.map(|(name, _)| name.as_slice())
        };
        if admin.unlink_watched(&of(KeyState::Ours).collect::<Vec<_>>(), watched)? {
            of(KeyState::Foreign).for_each(|name| foreign.note(name));
            return Ok(());
        }
        if let [name] = names {
            foreign.note(name);
            return Ok(());
        }
        let (some, others) = names.split_at(names.len() / 2);
        self.delete_some(admin, some, foreign)?;
        self.delete_some(admin, others, foreign)
    }

    /// The records of the mark `kept`, whose form is that of `new`; names as in `new` are among theirs. Where the mark
    /// has no list of what was written, strings may have any length. Errors: `Usage` when keys cannot be made.
    pub fn kept(prefix: &str, kept: &KeyMark, new: &KeyMark) -> Result<KnownRecords> {
        let asked = KnownRecords::of(prefix, &new.identity.written)?;
        let mut known = match kept.identity.written.as_slice() {
            [] => return Ok(asked.with_sizes(1..=u64::MAX)),
            written => KnownRecords::of(prefix, written)?,
        };
        // Another workload of the run may name its records in another way.
        known.formats.extend(
            asked.formats.into_iter().filter(|f| !known.formats.contains(f)).collect::<Vec<_>>(),
        );
        Ok(known)
    }

    /// The first of `keys` that has the form of a record's name and holds something else. Errors: `Unavailable`.
    pub fn changed(
        &self,
        admin: &mut AdminConnection,
        keys: &[Vec<u8>],
    ) -> Result<Option<Vec<u8>>> {
        let (mark, index) = (admin.mark_key(), admin.index_key());
        let is_named = |key: &&Vec<u8>| {
            let number = key.strip_prefix(self.prefix.as_slice());
            let named = |key: &[u8]| self.formats.iter().any(|format| format.could_be(key));
            number.is_some_and(named) && ![mark.as_bytes(), index.as_bytes()].contains(&&***key)
        };
        let named: Vec<Vec<u8>> = keys.iter().filter(is_named).cloned().collect();
        for names in named.chunks(BATCH) {
            let states = self.states(admin, names)?;
            if let Some(at) = states.iter().position(|state| *state == KeyState::Foreign) {
                return Ok(names.get(at).cloned());
            }
        }
        Ok(None)
    }

    /// One of `keys` whose name no run with these records gives, or else one that does not hold a record; none if all
    /// are records. Errors: `Unavailable` when the server is gone or refuses, or the run is stopped.
    pub fn foreign(
        &self,
        admin: &mut AdminConnection,
        keys: &[Vec<u8>],
    ) -> Result<Option<Vec<u8>>> {
        let mut unknown: HashSet<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let mut name = Vec::new();
        for format in &self.formats {
            let (mut number, mut end) = (self.start, self.end.saturating_add(GAP));
            while !unknown.is_empty() && number < end {
                self.write(format, number, &mut name);
                if unknown.remove(name.as_slice()) {
                    end = end.max(number.saturating_add(GAP));
                }
                number += 1;
                // The numbers of a plan may be very many.
                if number % LOOKS == 0 && admin.stop().stopped() {
                    return Err(Error::unavailable("stopped while keys were looked at"));
                }
            }
        }
        if let Some(name) = unknown.into_iter().min() {
            return Ok(Some(name.to_vec()));
        }
        for names in keys.chunks(BATCH) {
            let states = self.states(admin, names)?;
            // A key that is gone by now, or empty, counts as foreign here.
            if let Some(at) = states.iter().position(|state| *state != KeyState::Ours) {
                return Ok(names.get(at).cloned());
            }
        }
        Ok(None)
    }
}

/// Names that are made between two looks at whether the run was stopped.
const LOOKS: u64 = 1 << 16;

/// What a killed run left under the prefix.
pub struct LeftRecords {
    pub forms: Vec<RecordForm>,
    known: KnownRecords,
    /// The run kept a sorted set of its keys.
    indexed: bool,
}

impl LeftRecords {
    /// By the killed run's mark; takes its sorted set out of `keys`. Errors: `Usage` for wrong keys; `Unavailable`.
    pub fn of(
        admin: &mut AdminConnection,
        mark: &KeyMark,
        new: &KeyMark,
        keys: &mut Vec<Vec<u8>>,
    ) -> Result<LeftRecords> {
        // A mark without a list of what was written: records of the same form are as those of this run.
        let forms = match mark.identity.written.as_slice() {
            [] if mark.form == new.form => new.identity.written.clone(),
            written => written.to_vec(),
        };
        let index = admin.index_key();
        let indexed = mark.form.ends_with(INDEXED) && admin.holds_index(&index)?;
        keys.retain(|key| !indexed || key.as_slice() != index.as_bytes());
        Ok(LeftRecords { known: KnownRecords::of(&admin.prefix, &forms)?, forms, indexed })
    }

    /// See [`KnownRecords::foreign`].
    pub fn foreign(
        &self,
        admin: &mut AdminConnection,
        keys: &[Vec<u8>],
    ) -> Result<Option<Vec<u8>>> {
        self.known.foreign(admin, keys)
    }

    /// Deletes those of `keys` that still are the killed run's, and its sorted set. Errors: `Refused` if some are not.
    pub fn delete(&self, admin: &mut AdminConnection, keys: &[Vec<u8>]) -> Result<()> {
        let mut foreign = ForeignRecords::default();
        for names in keys.chunks(BATCH) {
            self.known.delete_some(admin, names, &mut foreign)?;
        }
        if self.indexed && !admin.delete_index()? {
            foreign.note(admin.index_key().as_bytes());
        }
        let Some(example) = foreign.example else { return Ok(()) };
        Err(Error::refused("somebody else writes what a killed run left under the prefix")
            .with("keys that stay", foreign.count)
            .with("one of them", example)
            .hint("choose another options.prefix"))
    }
}

/// The number in a reply; none where the key is of another type. Errors: `Unavailable` when the server refuses.
fn length(said: &Reply) -> Result<Option<u64>> {
    match said {
        Reply::Error(says) if says.starts_with("WRONGTYPE") => Ok(None),
        Reply::Error(says) => {
            Err(Error::unavailable("the server refuses to say what its keys are")
                .with("server says", says)
                .hint("STRLEN and HLEN of keys under options.prefix are needed"))
        }
        Reply::Text(text) => Ok(std::str::from_utf8(text).ok().and_then(|n| n.parse().ok())),
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use taillight_core::StopFlag;

    use super::super::address::DatabaseAddress;
    use super::*;

    fn known(fields: u32) -> KnownRecords {
        let keys = Keys::default();
        let form = RecordForm { keys, fields, smallest: 10, largest: 20 };
        KnownRecords::of("p", &[form]).unwrap()
    }

    #[test]
    fn type_and_length_tell_whose_a_value_is() {
        let number = |n: u64| Reply::Text(n.to_string().into_bytes());
        let wrong = || Reply::Error("WRONGTYPE Operation".to_owned());
        for (fields, said, wanted) in [
            (1, number(0), KeyState::Absent),
            (1, number(10), KeyState::Ours),
            (1, number(21), KeyState::Foreign),
            (1, wrong(), KeyState::Foreign),
            (3, number(1), KeyState::Ours),
            (3, number(4), KeyState::Foreign),
            (3, wrong(), KeyState::Foreign),
        ] {
            assert_eq!(known(fields).state(&[said]).unwrap(), wanted);
        }
        let both = KnownRecords { hashes: Some(3), ..known(1) };
        assert_eq!(both.state(&[wrong(), number(2)]).unwrap(), KeyState::Ours);
        assert_eq!(both.state(&[number(15), wrong()]).unwrap(), KeyState::Ours);
        assert_eq!(both.state(&[number(9), wrong()]).unwrap(), KeyState::Foreign);
        assert!(known(1).state(&[Reply::Error("NOPERM".to_owned())]).is_err());
    }

    /// A value is changed between the question whose it is and its deletion.
    #[test]
    fn what_changes_under_a_watch_stays() {
        let dir = tempfile::tempdir().unwrap();
        let server = match super::super::testing::RedisServer::start(dir.path(), &[]) {
            Ok(server) => server,
            Err(why) => return eprintln!("skipped: {why}"),
        };
        let address = DatabaseAddress::parse(Some(&server.address())).unwrap();
        let (time, stop) = (std::time::Duration::from_secs(5), StopFlag::default());
        let mut admin = AdminConnection::open(address, None, "p", time, (&stop, false)).unwrap();
        let names = [&b"p:a"[..], b"p:b", b"p:c"].map(<[u8]>::to_vec);
        let ours = "x".repeat(15);
        ["p:a", "p:b", "p:c"].iter().for_each(|name| drop(server.cli(&["SET", name, &ours])));
        assert!(admin.watch(&names).unwrap());
        assert_eq!(known(1).states(&mut admin, &names).unwrap(), [KeyState::Ours; 3]);
        server.cli(&["SET", "p:b", "precious"]);
        assert!(!admin.unlink_watched(&names.each_ref().map(Vec::as_slice), true).unwrap());
        assert_eq!(server.cli(&["DBSIZE"]), "3");
        // The watch has ended. Asked anew, the changed value is known as foreign.
        let mut foreign = ForeignRecords::default();
        known(1).delete_some(&mut admin, &names, &mut foreign).unwrap();
        assert_eq!((foreign.count, foreign.example.as_deref()), (1, Some("p:b")));
        assert_eq!(server.cli(&["KEYS", "*"]), "p:b");
    }
}
