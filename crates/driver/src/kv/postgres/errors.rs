//! Counts errors and warnings of a PostgreSQL server in the load, by code, and keeps the first text of each.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use rustix::io::Errno;
use taillight_core::Status;

use super::messages;

/// Most codes that are kept apart; further ones are counted together.
const CODES_MAX: usize = 32;

/// The counters.
#[derive(Debug, Default)]
pub struct ServerErrors {
    by_code: Mutex<BTreeMap<String, (u64, String)>>,
}

impl ServerErrors {
    /// Counts the error in the body of an error message, and gives the status of its operation: an errno for a full
    /// disk, lack of memory and an I/O error, `TIMEOUT` for a cancelled statement, else `STORE`.
    #[cold]
    pub fn note(&self, body: &[u8]) -> Status {
        let text = |letter| String::from_utf8_lossy(messages::field(body, letter)).into_owned();
        let code = text(b'C');
        let errno = match code.as_str() {
            "53100" => Some(Errno::NOSPC),
            "53200" => Some(Errno::NOMEM),
            "58030" => Some(Errno::IO),
            _ if text(b'M').contains("No space left on device") => Some(Errno::NOSPC),
            _ => None,
        };
        let status = match code.as_str() {
            "57014" => Status::TIMEOUT,
            _ => errno.map_or(Status::STORE, |errno| Status(errno.raw_os_error())),
        };
        self.count(code, text(b'M'));
        status
    }

    /// Counts a notice if it is a warning.
    #[cold]
    pub fn warn(&self, body: &[u8]) {
        let text = |letter| String::from_utf8_lossy(messages::field(body, letter)).into_owned();
        if text(b'V') == "WARNING" {
            self.count(format!("warning_{}", text(b'C')), text(b'M'));
        }
    }

    fn count(&self, code: String, says: String) {
        let mut all = self.by_code.lock().unwrap_or_else(PoisonError::into_inner);
        let code = if all.len() < CODES_MAX || all.contains_key(&code) {
            code
        } else {
            "others".to_owned()
        };
        all.entry(code).or_insert((0, says)).0 += 1;
    }

    /// Shows the count of each code as a series.
    pub fn show(&self, out: &mut dyn FnMut(&str, f64)) {
        let all = self.by_code.lock().unwrap_or_else(PoisonError::into_inner);
        for (code, (count, _)) in all.iter() {
            out(&format!("postgres_error_{code}_total"), *count as f64);
        }
    }

    /// Facts: the count of each code, and its first text.
    pub fn facts(&self) -> Vec<(String, String)> {
        let all = self.by_code.lock().unwrap_or_else(PoisonError::into_inner);
        let fact = |(code, (count, says)): (&String, &(u64, String))| {
            (format!("postgres.error.{code}"), format!("{count} times, first: {says}"))
        };
        all.iter().map(fact).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_told_from_other_refusals() {
        let errors = ServerErrors::default();
        let full = errors.note(b"SERROR\0C53100\0Mcould not extend file: No space left\0\0");
        assert_eq!(full, Status(Errno::NOSPC.raw_os_error()));
        for _ in 0..2 {
            assert_eq!(errors.note(b"SERROR\0C23505\0Mduplicate key\0\0"), Status::STORE);
        }
        let facts = errors.facts();
        assert_eq!(facts[0].1, "2 times, first: duplicate key");
        assert_eq!(facts.len(), 2);
    }
}
