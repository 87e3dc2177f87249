//! The kernel's `bpf_rdonly_cast`, which the programs read fields with: its number differs from
//! kernel to kernel, and the loader library knows no functions of that kind, so that the number is put
//! into the object before it is loaded. Called by [`super::programs`].

use aya::Btf;
use aya_obj::btf::BtfKind;

/// The function (Linux 6.2 and later).
const FUNCTION: &str = "bpf_rdonly_cast";

/// A call in the object as the compiler leaves it: of a helper with the number in `bpf/helpers.h`.
const MARK: [u8; 8] = call(0, 0x7a11_ca57);

/// A helper that every kernel has (`bpf_ktime_get_ns`): in place of calls that are never reached.
const HARMLESS: [u8; 8] = call(0, 5);

/// What a call's source register says of a function that is no helper (`BPF_PSEUDO_KFUNC_CALL`).
const KERNEL: u8 = 2;

/// A call instruction (`linux/bpf.h`): code, registers, offset, number.
const fn call(kind: u8, number: u32) -> [u8; 8] {
    let n = number.to_le_bytes();
    [0x85, kind << 4, 0, 0, n[0], n[1], n[2], n[3]]
}

/// The kernel's number of the function; none where it has no such function.
#[derive(Debug, Clone, Copy)]
pub struct Cast(Option<u32>);

impl Cast {
    /// The number in a kernel's own description of its types.
    pub fn of(types: &Btf) -> Cast {
        Cast(types.id_by_type_name_kind(FUNCTION, BtfKind::Func).ok())
    }

    /// Whether the programs may cast.
    pub fn known(self) -> bool {
        self.0.is_some()
    }

    /// The object with the kernel's call in place of each marked one.
    pub fn placed(self, object: &[u8]) -> Vec<u8> {
        let now = self.0.map_or(HARMLESS, |id| call(KERNEL, id));
        let mut all = object.to_vec();
        // Instructions are eight bytes long, and sections of them begin at multiples of that.
        for code in all.chunks_exact_mut(MARK.len()).filter(|c| **c == MARK) {
            code.copy_from_slice(&now);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sys;
    use crate::bpf::programs::{self, Config, OBJECT, PROGRAMS};
    use crate::bpf::symbols::Symbols;

    /// Marked calls at any place of an object.
    fn marked(object: &[u8]) -> usize {
        object.windows(MARK.len()).filter(|w| *w == MARK).count()
    }

    #[test]
    fn every_marked_call_is_replaced_and_nothing_else() {
        assert!(marked(OBJECT) > 0, "the object has no marked call");
        for cast in [Cast(Some(4711)), Cast(None)] {
            let now = cast.placed(OBJECT);
            assert_eq!(marked(&now), 0);
            assert_eq!(now.len(), OBJECT.len());
            let other = OBJECT.iter().zip(&now).filter(|(a, b)| a != b).count();
            assert!(other <= marked(OBJECT) * MARK.len());
        }
    }

    #[test]
    fn kernels_with_and_without_the_function_take_the_programs() {
        let sys = Sys::default();
        let Ok(types) = programs::types(&sys) else {
            eprintln!("skipped: this kernel does not describe its types");
            return;
        };
        for cast in [Cast::of(&types), Cast(None)] {
            for late in [false, true] {
                let config = Config {
                    late,
                    ..Config::default()
                };
                let Ok(mut ebpf) = programs::open(&config, &Symbols::read(&sys), &types, cast)
                else {
                    eprintln!("skipped: no trace programs here");
                    return;
                };
                for program in PROGRAMS.iter().filter(|p| p.name.starts_with("rq_")) {
                    let done = programs::prepare(&mut ebpf, program, &types);
                    assert_eq!(done, Ok(()), "{} with {cast:?}", program.name);
                }
            }
        }
    }
}
