//! A scan as one operation, as YCSB's client for object stores has it: a listing from the key on, then
//! a get of each record listed, one after the other.

use taillight_core::Status;

use super::connection::HttpConnection;
use super::naming::ObjectNaming;
use crate::kv::KeyList;

/// Objects of one scan at most: what a listing names at a time.
pub const SCAN_MAX: u32 = 1000;
/// Room for the text of a listing: some 400 bytes an object.
pub const ANSWER_MAX: usize = 2 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum ScanStep {
    #[default]
    None,
    List,
    Get,
}

/// A scan under way; its memory is used again.
#[derive(Default)]
pub struct ObjectScan {
    step: ScanStep,
    /// Names listed.
    names: KeyList,
    /// The one under way.
    at: usize,
    /// Objects that were there, and their bytes.
    found: u32,
    moved: u64,
}

impl ObjectScan {
    pub fn begin(&mut self) {
        self.step = ScanStep::List;
        self.names.clear();
        (self.at, self.found, self.moved) = (0, 0, 0);
    }
    /// Whether one is under way.
    pub fn active(&self) -> bool {
        self.step != ScanStep::None
    }
    pub fn reset(&mut self) {
        self.step = ScanStep::None;
    }
    /// The object to get next; none while it is listed.
    pub fn name(&self) -> Option<&[u8]> {
        self.names.get(self.at)
    }
    /// Objects that were there, and their bytes.
    pub fn result(&self) -> (u32, u64) {
        (self.found, self.moved)
    }

    /// Takes an answer; the status when the scan has ended. `names` says which of those listed are
    /// records.
    pub fn answered(
        &mut self,
        connection: &HttpConnection,
        names: &ObjectNaming,
    ) -> Option<Status> {
        match (self.step, connection.reply.code) {
            (ScanStep::List, 200..300) => {
                let Ok(text) = std::str::from_utf8(&connection.text) else {
                    return Some(Status::STORE);
                };
                self.step = ScanStep::Get;
                for name in keys(text).filter(|name| names.could_be(name)) {
                    self.names.push(name.as_bytes());
                }
            }
            (ScanStep::Get, 200..300) => {
                self.found += 1;
                self.moved += connection.moved;
                self.at += 1;
            }
            // Deleted since it was listed: no record any more.
            (ScanStep::Get, 404) => self.at += 1,
            (_, 404) => return Some(Status::NOT_FOUND),
            _ => return Some(Status::STORE),
        }
        (self.at == self.names.len()).then_some(Status::OK)
    }
}

/// Names in a listing, as they stand there: those of records need no escapes.
fn keys(text: &str) -> impl Iterator<Item = &str> {
    let after = text.split("<Key>").skip(1);
    after.filter_map(|rest| rest.split_once("</Key>").map(|(name, _)| name))
}

/// Turns a name into what a listing starts *after* so that it begins with that name: the last byte is
/// one less, and the highest of printable ones follows. No name of a record lies between.
pub fn start_after(name: &mut Vec<u8>) {
    if let Some(last) = name.last_mut() {
        *last -= 1;
        name.push(b'~');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_begins_with_its_key() {
        for name in ["p/user120", "p/user0", "p/00000000000000ff"] {
            let mut after = name.as_bytes().to_vec();
            start_after(&mut after);
            assert!(after.as_slice() < name.as_bytes());
            let mut less = name.to_owned();
            let last = less.pop().unwrap_or_default();
            // Shorter ones, and the neighbours below with whatever digits follow.
            assert!(less.as_bytes() < after.as_slice());
            if last != '0' {
                let below = format!("{less}{}999", (last as u8 - 1) as char);
                assert!(below.as_bytes() < after.as_slice(), "{below}");
            }
        }
    }

    #[test]
    fn names_are_found_in_a_listing() {
        let text = "<R><Contents><Key>p/a</Key></Contents><Keys/><Key>p/b</Key><Key>";
        assert_eq!(keys(text).collect::<Vec<_>>(), ["p/a", "p/b"]);
    }
}
