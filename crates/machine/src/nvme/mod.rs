//! Sends admin commands to NVMe drives by the kernel's passthrough, and returns the drive's answer. What may
//! be sent is the caller's decision: `trace` sends commands that read, `driver` erases what the guard let through.

mod sys;

pub use sys::{namespace, send};
use taillight_core::{Error, Result};

/// Little-endian number of `bytes` bytes, at most 8, at `at` of a page; zero where the page has not all of them.
pub fn le(page: &[u8], at: usize, bytes: usize) -> u64 {
    let part = page.get(at..at + bytes).unwrap_or_default();
    part.iter().take(8).rev().fold(0, |sum, b| sum << 8 | u64::from(*b))
}

/// Refuses a page, called `what`, of another size than it has to have. Errors: `Corrupt`.
pub fn check_size(what: &str, page: &[u8], needed: usize) -> Result<()> {
    if page.len() == needed {
        return Ok(());
    }
    Err(Error::corrupt(format!("{what} has a wrong size"))
        .with("bytes", page.len())
        .with("needed", needed)
        .hint("give the page as the drive sent it, whole"))
}

/// A command without data from the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AdminCommand {
    pub opcode: u8,
    pub namespace: u32,
    pub cdw10: u32,
    pub cdw11: u32,
    /// How long the drive may take.
    pub timeout_ms: u32,
}

/// What a drive answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AdminReply {
    /// 0 for success, else the status of the NVMe specification.
    pub status: i32,
    /// Dword 0 of the completion.
    pub result: u32,
}

impl AdminCommand {
    const QUICK_MS: u32 = 5_000;

    fn read(opcode: u8, namespace: u32, (cdw10, cdw11): (u32, u32)) -> AdminCommand {
        AdminCommand { opcode, namespace, cdw10, cdw11, timeout_ms: AdminCommand::QUICK_MS }
    }

    /// Identify, 4,096 bytes: namespace (`cns` 0), controller (1), active namespaces (2).
    pub fn identify(namespace: u32, cns: u8) -> AdminCommand {
        AdminCommand::read(0x06, namespace, (cns.into(), 0))
    }

    /// Get Log Page of so many bytes. The drive retains its asynchronous event: without that, reading a page
    /// would clear an event the kernel waits for.
    pub fn log(id: u8, bytes: usize) -> AdminCommand {
        const RETAIN_EVENT: u32 = 1 << 15;
        let dwords = (bytes / 4).saturating_sub(1) as u32;
        let cdw10 = u32::from(id) | RETAIN_EVENT | (dwords & 0xffff) << 16;
        AdminCommand::read(0x02, u32::MAX, (cdw10, dwords >> 16))
    }

    /// Get Features: the current value of a feature is the result.
    pub fn feature(id: u8) -> AdminCommand {
        AdminCommand::read(0x0a, 0, (id.into(), 0))
    }

    /// Format NVM, with dword 10 as it is.
    pub fn format(namespace: u32, cdw10: u32, timeout_ms: u32) -> AdminCommand {
        AdminCommand { timeout_ms, ..AdminCommand::read(0x80, namespace, (cdw10, 0)) }
    }

    /// Sanitize, with dword 10 as it is: the drive goes on by itself, log page 81h says how far it is.
    pub fn sanitize(cdw10: u32) -> AdminCommand {
        AdminCommand::read(0x84, 0, (cdw10, 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_a_log_leaves_events_pending() {
        // 512 bytes are 128 dwords, counted from zero.
        assert_eq!(AdminCommand::log(0x02, 512).cdw10, 0x007f_8002);
        let long = AdminCommand::log(0xff, 0x0004_0004);
        assert_eq!((long.cdw10, long.cdw11), (0x0000_80ff, 1));
    }

    #[test]
    fn a_file_that_is_no_drive_answers_nothing() {
        let file = tempfile::tempfile().expect("a file");
        assert!(send(&file, &AdminCommand::identify(0, 1), &mut [0; 4096]).is_err());
    }
}
