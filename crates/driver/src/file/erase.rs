//! Purges a whole NVMe device by its own means, Format NVM and Sanitize: what a drive says that it can do,
//! which namespaces a command would erase, the commands, and waiting for a sanitize. Called when a device is
//! opened with `purge`; the guard has let the device through: it comes here open, exclusively, and confirmed
//! by name.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use taillight_core::progress::{OnProgress, Progress};
use taillight_core::{Error, Result};
use taillight_machine::Sys;
use taillight_machine::nvme::{AdminCommand, check_size, le, send};
use taillight_machine::rights::{Capability, hint};

use super::options::DevicePurge;

/// Longest time of a format.
const FORMAT_MS: u32 = 3_600_000;
/// How often a sanitize is asked how far it is.
const SANITIZE_PAUSE: Duration = Duration::from_secs(1);

/// Sends commands to the drive of one namespace.
pub trait DrivePort {
    /// Errors: `Unavailable` when the kernel or the drive refuses.
    fn send(&mut self, what: &str, command: &AdminCommand, bytes: usize) -> Result<Vec<u8>>;
    /// The number of its namespace. Errors: `Refused` where the device has none.
    fn namespace(&mut self) -> Result<u32>;
    fn wait(&mut self, pause: Duration);
}

/// The drive behind an open block device.
pub struct OpenDrive<'a> {
    pub fd: BorrowedFd<'a>,
}

impl DrivePort for OpenDrive<'_> {
    fn send(&mut self, what: &str, command: &AdminCommand, bytes: usize) -> Result<Vec<u8>> {
        let mut data = vec![0; bytes];
        match send(self.fd, command, &mut data) {
            Ok(reply) if reply.status == 0 => Ok(data),
            Ok(reply) => Err(Error::unavailable(format!("the drive refused: {what}"))
                .with("status", format!("{:#x}", reply.status))),
            Err(e) => Err(Error::unavailable(format!("cannot send the drive a command: {what}"))
                .source(e)
                .hint(format!(
                    "{}; or purge with nvme-cli before, and set \"none\"",
                    hint(&Sys::default(), &[Capability::SysAdmin])
                ))),
        }
    }
    fn namespace(&mut self) -> Result<u32> {
        taillight_machine::nvme::namespace(self.fd).map_err(|e| {
            Error::refused("only a whole NVMe device can be formatted or sanitized")
                .source(e)
                .hint("purge by discard or zero_fill")
        })
    }
    fn wait(&mut self, pause: Duration) {
        std::thread::sleep(pause);
    }
}

/// Whether a kernel name is that of a whole namespace: `nvme0n1`, no partition. The number of the namespace is not
/// in the name: the kernel counts on its own.
fn is_namespace(device: &str) -> bool {
    let parts = device.strip_prefix("nvme").and_then(|rest| rest.split_once('n'));
    let number = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    parts.is_some_and(|(controller, namespace)| number(controller) && number(namespace))
}

/// Refuses anything but a whole namespace. Errors: `Refused`.
pub fn whole_namespace(device: &str) -> Result<()> {
    if is_namespace(device) {
        return Ok(());
    }
    Err(Error::refused("only a whole NVMe device can be formatted or sanitized")
        .with("device", device)
        .hint("name it like /dev/nvme0n1, no partition; or purge by discard or zero_fill"))
}

/// What a controller says of erasing: parts of the answer to Identify Controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ErasingController {
    formats: bool,
    /// It can list namespaces that are attached to other controllers.
    manages: bool,
    /// Its subsystem may have other controllers, with namespaces of their own.
    shares: bool,
    /// Sanitize by block erase, and by throwing keys away.
    block_erase: bool,
    crypto_erase: bool,
}

fn controller(page: &[u8]) -> Result<ErasingController> {
    check_size("the answer to identify controller", page, 4096)?;
    let (commands, sanitize) = (le(page, 256, 2), le(page, 328, 4));
    Ok(ErasingController {
        formats: commands & 1 << 1 != 0,
        manages: commands & 1 << 3 != 0,
        shares: le(page, 76, 1) & 1 << 1 != 0,
        crypto_erase: sanitize & 1 != 0,
        block_erase: sanitize & 1 << 1 != 0,
    })
}

/// Dword 10 of a format that keeps blocks, metadata and protection as they are, and erases user data.
fn format_as_it_is(page: &[u8]) -> Result<u32> {
    check_size("the answer to identify namespace", page, 4096)?;
    const ERASE_USER_DATA: u32 = 1 << 9;
    let (formatted, protection) = (le(page, 26, 1) as u32, le(page, 29, 1) as u32);
    let block = (formatted & 0xf) | (formatted >> 5 & 3) << 12;
    let metadata_with_data = formatted & 1 << 4;
    Ok(block
        | metadata_with_data
        | (protection & 7) << 5
        | (protection >> 3 & 1) << 8
        | ERASE_USER_DATA)
}

/// Numbers in a list of namespaces.
fn namespaces(page: &[u8]) -> Result<Vec<u32>> {
    check_size("the list of namespaces", page, 4096)?;
    let all = page.chunks_exact(4).map(|id| le(id, 0, 4) as u32);
    Ok(all.take_while(|id| *id != 0).collect())
}

/// How far a sanitize is: log page 81h.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SanitizeState {
    Never,
    Done,
    /// How many of 65,536 parts are done.
    Running(u64),
    Failed,
}

fn sanitize_state(page: &[u8]) -> Result<SanitizeState> {
    check_size("the sanitize log (81h)", page, 512)?;
    match le(page, 2, 2) & 7 {
        0 => Ok(SanitizeState::Never),
        1 | 4 => Ok(SanitizeState::Done),
        2 => Ok(SanitizeState::Running(le(page, 0, 2))),
        3 => Ok(SanitizeState::Failed),
        other => {
            Err(Error::corrupt("the sanitize log (81h) has an unknown state").with("state", other))
        }
    }
}

/// Purges the namespace that `device` is, once `check` lets it. Gives what was done, and how long it took in
/// seconds. Errors: `Refused` where more than this device would be erased or by `check`, `Unavailable` where
/// the drive cannot or will not, or progress says stop.
pub fn purge(
    drive: &mut dyn DrivePort,
    device: &str,
    how: DevicePurge,
    check: &dyn Fn() -> Result<()>,
    progress: &mut OnProgress<'_>,
) -> Result<(String, f64)> {
    let refuse = |what: &str, hint: &str| {
        Err(Error::refused(what.to_owned()).with("device", device).hint(hint.to_owned()))
    };
    whole_namespace(device)?;
    let id = drive.namespace()?;
    let can = controller(&drive.send("identify", &AdminCommand::identify(0, 1), 4096)?)?;
    // All that are allocated, where the drive tells; else those of this controller.
    let list = AdminCommand::identify(0, if can.manages { 0x10 } else { 2 });
    let list = namespaces(&drive.send("list namespaces", &list, 4096)?)?;
    if list != [id] {
        let all: Vec<String> = list.iter().map(u32::to_string).collect();
        return refuse(
            &format!(
                "the drive must hold this namespace ({id}) alone, and holds: {}",
                all.join(", ")
            ),
            "others could be erased too: format this one with nvme-cli, and set \"none\"",
        );
    }
    if can.shares && !can.manages {
        return refuse(
            "the drive may have other controllers, and cannot list all of its namespaces",
            "others could be erased too: format this one with nvme-cli, and set \"none\"",
        );
    }
    check()?;
    let began = Instant::now();
    let words = match how {
        DevicePurge::NvmeFormat if !can.formats => {
            return Err(cannot(device, "format"));
        }
        DevicePurge::NvmeFormat => {
            let space = drive.send("identify namespace", &AdminCommand::identify(id, 0), 4096)?;
            let format = AdminCommand::format(id, format_as_it_is(&space)?, FORMAT_MS);
            drive.send("format", &format, 0)?;
            "NVMe format, user data erased (SES 1)".to_owned()
        }
        DevicePurge::NvmeSanitize => {
            let (action, words) = match (can.block_erase, can.crypto_erase) {
                (true, _) => (2, "NVMe sanitize, block erase"),
                (false, true) => (4, "NVMe sanitize, crypto erase"),
                (false, false) => return Err(cannot(device, "sanitize by block or crypto erase")),
            };
            drive.send("sanitize", &AdminCommand::sanitize(action), 0)?;
            sanitized(drive, device, progress)?;
            words.to_owned()
        }
        DevicePurge::None => return Ok(("none".to_owned(), 0.0)),
    };
    Ok((words, began.elapsed().as_secs_f64()))
}

fn cannot(device: &str, what: &str) -> Error {
    Error::unavailable(format!("the drive knows no {what}"))
        .with("device", device)
        .hint("purge by discard or zero_fill")
}

/// Waits for the end of a sanitize.
fn sanitized(drive: &mut dyn DrivePort, device: &str, progress: &mut OnProgress<'_>) -> Result<()> {
    loop {
        let page = drive.send("sanitize log", &AdminCommand::log(0x81, 512), 512)?;
        let done = match sanitize_state(&page)? {
            SanitizeState::Done => return Ok(()),
            SanitizeState::Running(done) => done,
            SanitizeState::Never | SanitizeState::Failed => {
                return Err(Error::unavailable("the drive says that the sanitize failed")
                    .with("device", device)
                    .hint(
                        "`nvme sanitize-log` has the details; the drive may need another sanitize",
                    ));
            }
        };
        let told = Progress { what: "sanitizing", done, total: 1 << 16, unit: "parts" };
        if !progress(told) {
            return Err(Error::unavailable("stopped while the drive goes on with its sanitize")
                .with("device", device)
                .hint("`nvme sanitize-log` says how far it is; it cannot be called off"));
        }
        drive.wait(SANITIZE_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use taillight_core::ErrorKind;

    use super::*;

    /// A drive that answers from memory and notes what it was told to do.
    struct ErasedDrive {
        controller: Vec<u8>,
        list: Vec<u32>,
        id: u32,
        /// States of the sanitize log, one after another.
        states: Vec<u16>,
        told: Vec<AdminCommand>,
    }

    fn drive(commands: u16, sanitize: u8, list: &[u32]) -> ErasedDrive {
        let mut controller = vec![0; 4096];
        controller[256..258].copy_from_slice(&commands.to_le_bytes());
        controller[328] = sanitize;
        let states = vec![2, 2, 1];
        ErasedDrive { controller, list: list.to_vec(), id: 1, states, told: Vec::new() }
    }

    impl DrivePort for ErasedDrive {
        fn send(&mut self, _: &str, command: &AdminCommand, bytes: usize) -> Result<Vec<u8>> {
            let mut page = vec![0; bytes];
            match (command.opcode, command.cdw10 as u8) {
                (0x06, 1) => page.clone_from(&self.controller),
                (0x06, 2 | 0x10) => {
                    let ids = self.list.iter().flat_map(|id| id.to_le_bytes());
                    page.splice(..self.list.len() * 4, ids);
                }
                // Format 2 of the list, metadata with the data, protection of type 1 first.
                (0x06, 0) => (page[26], page[29]) = (0x12, 0x09),
                (0x02, 0x81) => page[2..4].copy_from_slice(&self.states.remove(0).to_le_bytes()),
                _ => self.told.push(*command),
            }
            Ok(page)
        }
        fn namespace(&mut self) -> Result<u32> {
            Ok(self.id)
        }
        fn wait(&mut self, _: Duration) {}
    }

    fn run(drive: &mut ErasedDrive, device: &str, how: DevicePurge) -> Result<String> {
        purge(drive, device, how, &|| Ok(()), &mut |_| true).map(|(words, _)| words)
    }

    #[test]
    fn a_format_keeps_blocks_metadata_and_protection() {
        let mut it = drive(2, 0, &[1]);
        let words = run(&mut it, "nvme0n1", DevicePurge::NvmeFormat).expect("formatted");
        assert!(words.contains("SES 1"));
        assert_eq!((it.told[0].opcode, it.told[0].namespace), (0x80, 1));
        assert_eq!(it.told[0].cdw10, 2 | 1 << 4 | 1 << 5 | 1 << 8 | 1 << 9);
        assert_eq!(it.told.len(), 1);
    }

    #[test]
    fn a_sanitize_is_waited_for() {
        for (can, action) in [(0b11, 2), (0b10, 2), (0b01, 4)] {
            // The kernel's name has a number of its own.
            let mut it = ErasedDrive { id: 7, ..drive(0, can, &[7]) };
            run(&mut it, "nvme12n3", DevicePurge::NvmeSanitize).expect("sanitized");
            assert_eq!((it.told[0].opcode, it.told[0].cdw10), (0x84, action));
            assert!(it.states.is_empty(), "asked until it was done");
        }
        let mut failed = ErasedDrive { states: vec![2, 3], ..drive(0, 2, &[1]) };
        let e = run(&mut failed, "nvme0n1", DevicePurge::NvmeSanitize).expect_err("failed");
        assert!(e.to_string().contains("failed"), "{e}");
        let mut stopped = drive(0, 2, &[1]);
        let e =
            purge(&mut stopped, "nvme0n1", DevicePurge::NvmeSanitize, &|| Ok(()), &mut |_| false);
        assert!(e.expect_err("stopped").to_string().contains("goes on"));
    }

    #[test]
    fn nothing_is_sent_where_more_would_be_lost_or_the_drive_cannot() {
        let both = [DevicePurge::NvmeFormat, DevicePurge::NvmeSanitize];
        for how in both {
            for device in ["nvme0n1p1", "nvme0", "sda", "loop0", "nvme0c1n1", "nvmen1"] {
                let mut it = drive(2, 3, &[1]);
                let e = run(&mut it, device, how).expect_err(device);
                assert_eq!((e.kind(), it.told.len()), (ErrorKind::Refused, 0), "{device}");
            }
            for (commands, list) in [(2, &[1, 2][..]), (2, &[2]), (2, &[]), (0b1010, &[1, 2])] {
                let mut it = drive(commands, 3, list);
                let e = run(&mut it, "nvme0n1", how).expect_err("other namespaces");
                assert_eq!((e.kind(), it.told.len()), (ErrorKind::Refused, 0), "{list:?}");
            }
            let mut it = drive(2, 3, &[1]);
            it.controller[76] = 2;
            let e = run(&mut it, "nvme0n1", how).expect_err("other controllers");
            assert_eq!((e.kind(), it.told.len()), (ErrorKind::Refused, 0));
            let mut it = drive(2, 3, &[1]);
            let in_use = || Err(Error::refused("in use"));
            let e = purge(&mut it, "nvme0n1", how, &in_use, &mut |_| true).expect_err("in use");
            assert_eq!((e.kind(), it.told.len()), (ErrorKind::Refused, 0));
            let mut it = drive(0, 4, &[1]);
            let e = run(&mut it, "nvme0n1", how).expect_err("it cannot");
            assert_eq!((e.kind(), it.told.len()), (ErrorKind::Unavailable, 0), "{how:?}");
        }
    }

    #[test]
    fn pages_of_another_size_are_refused() {
        assert!(controller(&[0; 512]).is_err() && format_as_it_is(&[0; 4095]).is_err());
        assert!(namespaces(&[0; 0]).is_err() && sanitize_state(&[0; 4096]).is_err());
        let mut page = vec![0; 512];
        assert_eq!(sanitize_state(&page).expect("a page"), SanitizeState::Never);
        (page[0], page[1], page[2]) = (0, 0x80, 0b1010);
        assert_eq!(sanitize_state(&page).expect("a page"), SanitizeState::Running(0x8000));
        page[2] = 4;
        assert_eq!(sanitize_state(&page).expect("a page"), SanitizeState::Done);
        page[2] = 7;
        assert!(sanitize_state(&page).is_err());
    }
}
