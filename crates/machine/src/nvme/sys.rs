//! The kernel's passthrough of NVMe admin commands.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::os::fd::AsFd;

use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, ioctl, opcode};

use super::{AdminCommand, AdminReply};

/// The kernel's `struct nvme_passthru_cmd`.
#[repr(C)]
#[derive(Debug, Default)]
struct PassthruCommand {
    opcode: u8,
    flags: u8,
    reserved: u16,
    namespace: u32,
    cdw2: u32,
    cdw3: u32,
    metadata: u64,
    address: u64,
    metadata_bytes: u32,
    bytes: u32,
    cdw10: u32,
    cdw11: u32,
    cdw12: u32,
    cdw13: u32,
    cdw14: u32,
    cdw15: u32,
    timeout_ms: u32,
    result: u32,
}

const _: () = assert!(size_of::<PassthruCommand>() == 72);

/// The ioctl; its answer is the status of the drive, and the drive's result.
struct Passthru(PassthruCommand);

// SAFETY: the opcode is the one of `struct nvme_passthru_cmd`, which `PassthruCommand` mirrors (its size is
// checked above); the pointer is to that struct, and the kernel writes inside it and the buffer that it
// names only.
unsafe impl Ioctl for Passthru {
    type Output = AdminReply;
    const IS_MUTATING: bool = true;
    fn opcode(&self) -> Opcode {
        opcode::read_write::<PassthruCommand>(b'N', 0x41)
    }
    fn as_ptr(&mut self) -> *mut c_void {
        (&raw mut self.0).cast()
    }
    unsafe fn output_from_ptr(
        status: IoctlOutput,
        command: *mut c_void,
    ) -> rustix::io::Result<AdminReply> {
        // SAFETY: the pointer is the one that `as_ptr` gave, to a command that is still there.
        let result = unsafe { (*command.cast::<PassthruCommand>()).result };
        Ok(AdminReply { status, result })
    }
}

/// `NVME_IOCTL_ID`: no data, the answer is the number.
struct NamespaceId;

// SAFETY: the call takes no pointer; its answer is a number.
unsafe impl Ioctl for NamespaceId {
    type Output = u32;
    const IS_MUTATING: bool = false;
    fn opcode(&self) -> Opcode {
        opcode::none(b'N', 0x40)
    }
    fn as_ptr(&mut self) -> *mut c_void {
        std::ptr::null_mut()
    }
    unsafe fn output_from_ptr(id: IoctlOutput, _: *mut c_void) -> rustix::io::Result<u32> {
        Ok(id.unsigned_abs())
    }
}

/// The number of the namespace that an open block device is. Errors: `ENOTTY` where it is none.
pub fn namespace(device: impl AsFd) -> rustix::io::Result<u32> {
    // SAFETY: `NamespaceId` hands over no memory.
    unsafe { ioctl(device, NamespaceId) }
}

/// Sends a command; the drive fills `data`. A command that the drive refuses is no error but
/// a status of the reply. Errors: what the kernel says, such as missing rights.
pub fn send(
    device: impl AsFd,
    ask: &AdminCommand,
    data: &mut [u8],
) -> rustix::io::Result<AdminReply> {
    let command = PassthruCommand {
        opcode: ask.opcode,
        namespace: ask.namespace,
        address: data.as_mut_ptr() as u64,
        bytes: data.len() as u32,
        cdw10: ask.cdw10,
        cdw11: ask.cdw11,
        timeout_ms: ask.timeout_ms,
        ..PassthruCommand::default()
    };
    // SAFETY: `data` outlives the call and is as long as the command says; the kernel copies at most that
    // much into it, whatever the command, and touches no other memory of ours.
    unsafe { ioctl(device, Passthru(command)) }
}
