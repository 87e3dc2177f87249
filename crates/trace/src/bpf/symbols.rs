//! Addresses and names of kernel functions, from /proc/kallsyms.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::sync::{Arc, Mutex, PoisonError};

use taillight_machine::Sys;

/// Stacks whose words are kept at most: threads sleep at few places, most of them again and again.
const STACKS_MAX: usize = 4096;

/// Words of stacks by their frames; `None` where no function is known.
type StackWords = HashMap<Box<[u64]>, Option<Arc<str>>>;

/// Names of functions by address.
#[derive(Debug, Default)]
pub struct KernelSymbols {
    list: Vec<(u64, Box<str>)>,
    /// Words of stacks that were asked for: each function by itself is a search through all of the kernel's.
    stacks: Mutex<StackWords>,
}

impl KernelSymbols {
    /// Reads all functions. Empty when the kernel hides their addresses.
    pub fn read(sys: &Sys) -> KernelSymbols {
        let Ok(file) = std::fs::File::open(sys.path("/proc/kallsyms")) else {
            return KernelSymbols::default();
        };
        parse(BufReader::new(file))
    }

    /// Whether addresses were readable.
    pub fn known(&self) -> bool {
        !self.list.is_empty()
    }

    /// The addresses of functions by name, for the few that the programs compare with.
    pub fn addresses(&self, names: &[&str]) -> HashMap<String, u64> {
        let found = self.list.iter().filter(|(_, n)| names.contains(&&**n));
        found.map(|(a, n)| (n.to_string(), *a)).collect()
    }

    /// From where to where a function goes; `None` when it is not known.
    pub fn range(&self, name: &str) -> Option<std::ops::Range<u64>> {
        let place = self.list.iter().position(|(_, n)| &**n == name)?;
        let (from, _) = self.list.get(place)?;
        let (to, _) = self.list[place..].iter().find(|(a, _)| a > from)?;
        Some(*from..*to)
    }

    /// The function that begins last at or before an address; `None` before the first.
    pub fn name(&self, address: u64) -> Option<&str> {
        let place = self.list.partition_point(|(a, _)| *a <= address);
        let (_, name) = self.list.get(place.checked_sub(1)?)?;
        Some(name)
    }

    /// A stack in words, innermost first. The tracing's own frames are left out.
    pub fn stack(&self, frames: &[u64]) -> Option<Arc<str>> {
        let mut stacks = self.stacks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(words) = stacks.get(frames) {
            return words.clone();
        }
        if stacks.len() >= STACKS_MAX {
            stacks.clear();
        }
        let words = self.words(frames);
        stacks.insert(frames.into(), words.clone());
        words
    }

    fn words(&self, frames: &[u64]) -> Option<Arc<str>> {
        let names = frames.iter().filter(|a| **a != 0).filter_map(|a| self.name(*a));
        let own = |n: &&str| !n.starts_with("bpf_") && !n.starts_with("__bpf_");
        let names: Vec<&str> = names.filter(own).collect();
        (!names.is_empty()).then(|| names.join(";").into())
    }
}

fn parse(lines: impl BufRead) -> KernelSymbols {
    let mut list: Vec<(u64, Box<str>)> = Vec::new();
    for line in lines.lines().map_while(Result::ok) {
        let mut words = line.split_ascii_whitespace();
        let (Some(address), Some(kind), Some(name)) = (words.next(), words.next(), words.next())
        else {
            continue;
        };
        let text = matches!(kind, "t" | "T" | "w" | "W") && !name.starts_with("__pfx_");
        if let Ok(address) = u64::from_str_radix(address, 16)
            && address != 0
            && text
        {
            list.push((address, name.into()));
        }
    }
    list.sort_unstable();
    KernelSymbols { list, ..KernelSymbols::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_become_names() {
        let text = "ffff1000 T schedule\nffff2000 t io_schedule\nffff3000 D data\n\
                    ffff4000 t bpf_prog_1 [bpf]\nbad line\n";
        let symbols = parse(text.as_bytes());
        assert!(symbols.known());
        assert_eq!(symbols.name(0xffff_2005), Some("io_schedule"));
        assert_eq!(symbols.name(1), None);
        let stack = symbols.stack(&[0xffff_4001, 0xffff_1001, 0xffff_2001, 0]);
        assert_eq!(stack.as_deref(), Some("schedule;io_schedule"));
        let other = symbols.stack(&[0xffff_2001, 0xffff_1001]);
        assert_eq!(other.as_deref(), Some("io_schedule;schedule"));
        let kept = symbols.stack(&[0xffff_2001, 0xffff_1001]).zip(other);
        assert!(kept.is_some_and(|(kept, other)| Arc::ptr_eq(&kept, &other)), "looked up once");
        for frame in 0..STACKS_MAX as u64 * 2 {
            assert_eq!(symbols.stack(&[frame]), None);
        }
        assert!(symbols.stacks.lock().unwrap().len() <= STACKS_MAX);
        assert_eq!(symbols.range("schedule"), Some(0xffff_1000..0xffff_2000));
        assert_eq!(symbols.range("strange"), None);
        assert_eq!(symbols.addresses(&["schedule"])["schedule"], 0xffff_1000);
    }

    #[test]
    fn hidden_addresses_are_no_symbols() {
        let symbols = parse("0000000000000000 T schedule\n".as_bytes());
        assert!(!symbols.known());
        assert_eq!(symbols.stack(&[0xffff_0000]), None);
    }
}
