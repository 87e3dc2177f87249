//! What the kernel says of a process or thread in its `stat`, by the numbers of proc(5), and which processes there are.

use crate::Sys;

/// A `stat`. The name, field 2, may hold anything: what is behind it counts from the last parenthesis.
#[derive(Debug, Clone)]
pub struct ProcessStat(String);

impl ProcessStat {
    /// Of `/proc/WHICH`: a process by its number, or one of its threads (`7/task/8`). None where it is not there.
    pub fn of(sys: &Sys, which: &str) -> Option<ProcessStat> {
        sys.text(&format!("/proc/{which}/stat")).map(ProcessStat)
    }

    pub fn name(&self) -> &str {
        let named = self.0.rsplit_once(')').and_then(|(before, _)| before.split_once('('));
        named.map_or("", |(_, name)| name)
    }

    /// A field by its number in proc(5), from 4 on; none where it is no natural number.
    pub fn number(&self, field: usize) -> Option<u64> {
        let (_, behind) = self.0.rsplit_once(')')?;
        behind.split_whitespace().nth(field.checked_sub(3)?)?.parse().ok()
    }

    pub fn parent(&self) -> Option<u32> {
        self.number(4)?.try_into().ok()
    }

    /// The kernel's `PF_` bits.
    pub fn flags(&self) -> Option<u64> {
        self.number(9)
    }

    /// When it began, in ticks since the boot.
    pub fn started(&self) -> Option<u64> {
        self.number(22)
    }
}

/// The numbers of all processes, as they are named in `/proc`.
pub fn processes(sys: &Sys) -> Vec<String> {
    let mut all = sys.names("/proc");
    all.retain(|name| name.bytes().all(|b| b.is_ascii_digit()));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::put;

    #[test]
    fn fields_count_from_behind_the_name_whatever_it_holds() {
        let home = tempfile::tempdir().unwrap();
        let sys = Sys::at(home.path());
        put(home.path(), "proc/self/stat", "");
        put(home.path(), "proc/7/stat", "7 (a) b (c) S 3 -1 0 0 0 64 1 2\n");
        let stat = ProcessStat::of(&sys, "7").unwrap();
        assert_eq!((stat.name(), stat.parent(), stat.flags()), ("a) b (c", Some(3), Some(64)));
        assert_eq!([2, 3, 5, 11, 12].map(|n| stat.number(n)), [None, None, None, Some(2), None]);
        assert_eq!(stat.started(), None);
        assert!(ProcessStat::of(&sys, "8").is_none());
        assert_eq!(processes(&sys), ["7"]);
    }
}
