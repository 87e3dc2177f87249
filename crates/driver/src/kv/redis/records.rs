//! The records of a run on a server: their names, and whether what stands there is still theirs.
//!
//! A server keeps nothing that says who wrote a key. Its name follows from the plan; its type and length
//! are asked before it is deleted, a batch of keys at a time. What it is not: a proof of content; a value
//! of somebody else's of the same name, type and length is taken for the run's (`docs/drivers/redis.md`).

use std::collections::HashSet;
use std::ops::{Range, RangeInclusive};

use serde::{Deserialize, Serialize};
use taillight_core::keys::{KEY_MAX, KeyFormat};
use taillight_core::plan::{Keys, Plan};
use taillight_core::{Error, Result};

use super::admin::AdminConnection;
use super::resp;
use super::wire::Reply;
use crate::kv::written::ForeignRecords;

/// Keys asked about, and deleted, together.
const BATCH: usize = 1000;
/// Numbers without a key behind the last one found, after which there are none: a run writes numbers one
/// after the other and deletes the first ones.
const GAP: u64 = 1 << 20;

/// The records of a workload, as the mark tells them to a later run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordForm {
    keys: Keys,
    /// 1: a string; more: a hash of so many fields at most.
    fields: u32,
    /// Bytes of the smallest and of the largest string.
    smallest: u64,
    largest: u64,
}

/// What stands under a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeyState {
    Absent,
    Ours,
    Foreign,
}

/// The records of a run, named and told from others.
pub struct KnownRecords {
    /// What every key begins with, colon included.
    prefix: Vec<u8>,
    formats: Vec<KeyFormat>,
    /// Bytes of a string; none where no record is one.
    strings: Option<RangeInclusive<u64>>,
    /// Fields of a hash at most; none where no record is one.
    hashes: Option<u64>,
    /// The first number.
    start: u64,
}

impl RecordForm {
    /// Of the workloads of a plan, each once.
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
        Ok(KnownRecords {
            prefix: format!("{prefix}:").into_bytes(),
            formats,
            strings: ends.map(|(smallest, largest)| smallest..=largest),
            hashes: of(false).map(|f| u64::from(f.fields)).max(),
            start,
        })
    }

    /// Strings have these lengths, whatever the plan says.
    pub fn with_sizes(mut self, sizes: RangeInclusive<u64>) -> KnownRecords {
        self.strings = self.strings.map(|_| sizes);
        self
    }

    fn name(&self, format: &KeyFormat, number: u64) -> Vec<u8> {
        let mut key = [0; KEY_MAX];
        [&self.prefix, format.write(number, &mut key)].concat()
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

    /// What the answers to [`KnownRecords::ask`] say.
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

    /// Deletes the records of these numbers that still are the run's; the others. Errors: `Unavailable`
    /// when the server is gone or refuses.
    pub fn delete(
        &self,
        admin: &mut AdminConnection,
        numbers: &Range<u64>,
    ) -> Result<ForeignRecords> {
        let mut foreign = ForeignRecords::default();
        for format in &self.formats {
            for from in numbers.clone().step_by(BATCH) {
                let to = numbers.end.min(from.saturating_add(BATCH as u64));
                let names: Vec<_> = (from..to).map(|n| self.name(format, n)).collect();
                let states = self.states(admin, &names)?;
                let of = |wanted| {
                    let pairs = names.iter().zip(&states).filter(move |(_, s)| **s == wanted);
                    pairs.map(|(name, _)| name.as_slice())
                };
                of(KeyState::Foreign).for_each(|name| foreign.note(name));
                admin.unlink(of(KeyState::Ours))?;
            }
        }
        Ok(foreign)
    }

    /// One of `keys` that no run with these records has written, if there is one. Errors: `Unavailable`
    /// when the server is gone or refuses.
    pub fn foreign(
        &self,
        admin: &mut AdminConnection,
        keys: &[Vec<u8>],
    ) -> Result<Option<Vec<u8>>> {
        let mut unknown: HashSet<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        for format in &self.formats {
            let (mut number, mut end) = (self.start, self.start.saturating_add(GAP));
            while !unknown.is_empty() && number < end {
                if unknown.remove(self.name(format, number).as_slice()) {
                    end = number.saturating_add(GAP);
                }
                number += 1;
            }
        }
        if let Some(name) = unknown.into_iter().min() {
            return Ok(Some(name.to_vec()));
        }
        for names in keys.chunks(BATCH) {
            let states = self.states(admin, names)?;
            // One that is gone, or empty, is not ours either.
            if let Some(at) = states.iter().position(|state| *state != KeyState::Ours) {
                return Ok(names.get(at).cloned());
            }
        }
        Ok(None)
    }
}

/// The number that a server answers with; none where the key is of another type. Errors: `Unavailable`
/// when it refuses.
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
}
