//! An open NVMe controller, and the commands of it that only read.

use std::fs::File;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use taillight_core::{Error, Result};
use taillight_machine::Sys;
use taillight_machine::nvme::{AdminCommand, send};
use taillight_machine::rights::{Capability, hint};

use super::NvmeAdmin;

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
            let refused = e.kind() == std::io::ErrorKind::PermissionDenied;
            let right = refused.then(|| hint(&Sys::default(), &[Capability::SysAdmin]) + "; or ");
            Error::unavailable("the drive's logs cannot be read")
                .with("path", path.display())
                .source(e)
                .hint(right.unwrap_or_default() + "import what `nvme smart-log -o json` prints")
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

    /// The result of a command that reads, with its data in `data`.
    fn ask(&self, what: &str, command: &AdminCommand, data: &mut [u8]) -> Result<u32> {
        match send(&self.file, command, data) {
            Ok(reply) if reply.status == 0 => Ok(reply.result),
            Ok(reply) => Err(Error::unavailable(format!("the drive refused {what}"))
                .with("drive", &self.name)
                .with("status", format!("{:#x}", reply.status))),
            Err(e) => Err(Error::unavailable(format!("cannot ask the drive for {what}"))
                .with("drive", &self.name)
                .source(e)),
        }
    }
}

impl NvmeAdmin for NvmeDevice {
    fn identify(&self) -> Result<Vec<u8>> {
        let mut page = vec![0; 4096];
        self.ask("identify", &AdminCommand::identify(0, 1), &mut page)?;
        Ok(page)
    }
    fn log(&self, id: u8, bytes: usize) -> Result<Vec<u8>> {
        let mut page = vec![0; bytes];
        self.ask(&format!("log page {id:02X}h"), &AdminCommand::log(id, bytes), &mut page)?;
        Ok(page)
    }
    fn feature(&self, id: u8) -> Result<u32> {
        self.ask(&format!("feature {id:02X}h"), &AdminCommand::feature(id), &mut [])
    }
}
