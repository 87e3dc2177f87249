//! Two admin commands of an NVMe controller, which only read.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::fs::File;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, ioctl, opcode};
use taillight_core::{Error, Result};

use super::NvmeAdmin;

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

/// What may be sent: nothing else can be said.
enum AdminCommand {
    Identify,
    Log(u8),
}

/// Dword 10 of Get Log Page: page, how many dwords less one, and that the drive retains its
/// asynchronous event. Without that bit reading a page would clear an event the kernel waits for.
fn get_log(id: u8, dwords: u32) -> u32 {
    const RETAIN_EVENT: u32 = 1 << 15;
    u32::from(id) | RETAIN_EVENT | (dwords & 0xffff) << 16
}

/// The ioctl; its answer is the status of the drive.
struct Passthru(PassthruCommand);

// SAFETY: the opcode is the one of `struct nvme_passthru_cmd`, which `PassthruCommand` mirrors (its size is
// checked above); the pointer is to that struct, and the kernel writes inside it only.
unsafe impl Ioctl for Passthru {
    type Output = i32;
    const IS_MUTATING: bool = true;
    fn opcode(&self) -> Opcode {
        opcode::read_write::<PassthruCommand>(b'N', 0x41)
    }
    fn as_ptr(&mut self) -> *mut c_void {
        (&raw mut self.0).cast()
    }
    unsafe fn output_from_ptr(status: IoctlOutput, _: *mut c_void) -> rustix::io::Result<i32> {
        Ok(status)
    }
}

/// An open controller.
#[derive(Debug)]
pub struct NvmeDevice {
    file: File,
    name: String,
}

impl NvmeDevice {
    /// Opens `/dev/nvmeN` for reading. Errors: `Unavailable` when it is absent, no character
    /// device, or not permitted.
    pub fn open(path: &Path) -> Result<NvmeDevice> {
        let cannot = |e: std::io::Error| {
            Error::unavailable("the drive's logs cannot be read")
                .with("path", path.display())
                .source(e)
                .hint("run as root, or import what `nvme smart-log -o json` prints")
        };
        let file = File::open(path).map_err(cannot)?;
        let kind = file.metadata().map_err(cannot)?.file_type();
        if !kind.is_char_device() {
            return Err(
                Error::unavailable("this is no NVMe controller").with("path", path.display())
            );
        }
        Ok(NvmeDevice { file, name: path.display().to_string() })
    }

    fn send(&self, ask: &AdminCommand, mut data: Vec<u8>) -> Result<Vec<u8>> {
        let bytes = data.len();
        let dwords = (bytes / 4).saturating_sub(1) as u32;
        let mut command = PassthruCommand {
            address: data.as_mut_ptr() as u64,
            bytes: bytes as u32,
            timeout_ms: 5_000,
            ..PassthruCommand::default()
        };
        match ask {
            AdminCommand::Identify => {
                command.opcode = 0x06;
                command.cdw10 = 1;
            }
            AdminCommand::Log(id) => {
                command.opcode = 0x02;
                command.namespace = u32::MAX;
                command.cdw10 = get_log(*id, dwords);
                command.cdw11 = dwords >> 16;
            }
        }
        let what = match ask {
            AdminCommand::Identify => "identify".to_owned(),
            AdminCommand::Log(id) => format!("log page {id:02X}h"),
        };
        // SAFETY: `data` outlives the call and is `bytes` long as the command says; each of the
        // commands fills at most that much of it, and touches no other memory of ours.
        let status = unsafe { ioctl(&self.file, Passthru(command)) };
        match status {
            Ok(0) => Ok(data),
            Ok(status) => Err(Error::unavailable(format!("the drive refused {what}"))
                .with("drive", &self.name)
                .with("status", format!("{status:#x}"))),
            Err(e) => Err(Error::unavailable(format!("cannot ask the drive for {what}"))
                .with("drive", &self.name)
                .source(e)),
        }
    }
}

impl NvmeAdmin for NvmeDevice {
    fn identify(&self) -> Result<Vec<u8>> {
        self.send(&AdminCommand::Identify, vec![0; 4096])
    }
    fn log(&self, id: u8, bytes: usize) -> Result<Vec<u8>> {
        self.send(&AdminCommand::Log(id), vec![0; bytes])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_a_log_leaves_events_pending() {
        // 512 bytes are 128 dwords, counted from zero.
        assert_eq!(get_log(0x02, 127), 0x007f_8002);
        assert_eq!(get_log(0xff, 0x0001_0000), 0x0000_80ff);
    }
}
