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
pub struct KernelCast(Option<u32>);

impl KernelCast {
    /// For a kernel without the function.
    pub const NONE: KernelCast = KernelCast(None);

    /// The number in a kernel's own description of its types.
    pub fn of(types: &Btf) -> KernelCast {
        KernelCast(types.id_by_type_name_kind(FUNCTION, BtfKind::Func).ok())
    }

    /// Whether the programs may cast.
    pub fn known(self) -> bool {
        self.0.is_some()
    }

    /// The object with the kernel's call in place of each marked one. As large as it is, the allocator
    /// aligns it as the parser wants; else that says so.
    pub fn placed(self, mut object: Vec<u8>) -> Vec<u8> {
        let now = self.0.map_or(HARMLESS, |id| call(KERNEL, id));
        // Instructions are eight bytes long, and sections of them begin at multiples of that.
        for code in object.chunks_exact_mut(MARK.len()).filter(|c| **c == MARK) {
            code.copy_from_slice(&now);
        }
        object
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::availability::rights;
    use crate::bpf::programs::{self, PROGRAMS, ProgramConfig, TraceProgram};
    use crate::bpf::symbols::KernelSymbols;
    use taillight_machine::Sys;

    fn name_of(program: &TraceProgram) -> &str {
        program.name
    }

    /// Where calls are marked, at any place of an object.
    fn marked(object: &[u8]) -> Vec<usize> {
        let all = object.windows(MARK.len()).enumerate();
        all.filter(|(_, w)| *w == MARK).map(|(at, _)| at).collect()
    }

    #[test]
    fn every_marked_call_is_replaced_and_nothing_else() {
        let object = programs::object().expect("the object");
        let calls = marked(&object);
        assert!(!calls.is_empty(), "the object has no marked call");
        let known = [0x85, 0x20, 0, 0, 0x67, 0x12, 0, 0];
        let harmless = [0x85, 0, 0, 0, 5, 0, 0, 0];
        for (cast, want) in [(KernelCast(Some(0x1267)), known), (KernelCast::NONE, harmless)] {
            let mut expected = object.clone();
            for at in &calls {
                expected[*at..at + 8].copy_from_slice(&want);
            }
            assert!(cast.placed(object.clone()) == expected, "{cast:?}");
        }
    }

    #[test]
    fn kernels_with_and_without_the_function_take_the_programs() {
        let sys = Sys::default();
        if !rights::missing_for_tracing(&sys).is_empty() {
            eprintln!("skipped: this process may not load trace programs");
            return;
        }
        let types = programs::types(&sys).expect("the kernel's types");
        for cast in [KernelCast::of(&types), KernelCast::NONE] {
            for (late, watch) in [(false, false), (true, false), (true, true)] {
                let config = ProgramConfig { late, watch, ..ProgramConfig::default() };
                let symbols = KernelSymbols::read(&sys);
                let mut ebpf = programs::open(&config, &symbols, &types, cast).expect("maps");
                // Those of a module are there only while it is loaded.
                let there = |p: &&_| !["jbd2", "sync_"].iter().any(|m| name_of(p).contains(m));
                for program in PROGRAMS.iter().filter(there) {
                    let done = programs::prepare(&mut ebpf, program, &types);
                    assert_eq!(done, Ok(()), "{} with {cast:?}", program.name);
                }
            }
        }
    }
}
