//! What the kernel itself gives to others from this machine's disks and files, read from configfs: SCSI
//! targets (LIO), NVMe targets (nvmet), and USB gadgets that are disks. The driver's guard asks.
//!
//! Paths are as they were written there; in the mount namespace of their writer they may mean something
//! else. An export by NFS, or by a program, is not listed.

use std::path::PathBuf;

use crate::{Sys, read};

/// Something that the kernel exports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Export {
    /// By what, for people.
    pub by: &'static str,
    /// The device or file, as it was named.
    pub path: PathBuf,
}

/// Directories below a root, by levels that may have any name (`*`), with the file that holds the path.
const PLACES: [(&str, &[&str], &str); 3] = [
    ("an export by SCSI (LIO)", &["target", "core", "*", "*"], "udev_path"),
    ("an export by NVMe (nvmet)", &["nvmet", "subsystems", "*", "namespaces", "*"], "device_path"),
    ("a USB gadget", &["usb_gadget", "*", "functions", "*", "*"], "file"),
];

/// Every device and file that is set up there to be exported, enabled or not.
pub fn exports(sys: &Sys) -> Vec<Export> {
    let of = |(by, levels, file): (&'static str, &[&str], &str)| {
        let mut dirs = vec!["/sys/kernel/config".to_owned()];
        for level in levels {
            let below = |dir: &String| match *level {
                "*" => sys.names(dir),
                name => vec![name.to_owned()],
            };
            dirs = dirs
                .iter()
                .flat_map(|d| below(d).into_iter().map(move |n| format!("{d}/{n}")))
                .collect();
        }
        let paths = dirs.into_iter().filter_map(|dir| read(&sys.path(&format!("{dir}/{file}"))));
        let named = paths.map(PathBuf::from).filter(|path| path.is_absolute());
        named.map(|path| Export { by, path }).collect::<Vec<_>>()
    };
    PLACES.into_iter().flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::put;

    #[test]
    fn what_the_kernel_exports_is_read_from_configfs() {
        let tmp = tempfile::tempdir().unwrap();
        let sys = Sys::at(tmp.path());
        assert_eq!(exports(&sys), []);
        for (place, text) in [
            ("target/core/iblock_0/disk/udev_path", "/dev/sda\n"),
            ("target/core/fileio_1/image/udev_path", "/srv/a b\n"),
            ("target/core/rd_mcp_0/memory/udev_path", "\n"),
            ("target/core/alua/lu_gps/other", "x\n"),
            ("nvmet/subsystems/one/namespaces/1/device_path", "/dev/nvme0n1\n"),
            ("nvmet/subsystems/one/namespaces/2/device_path", "(null)\n"),
            ("usb_gadget/g1/functions/mass_storage.0/lun.0/file", "/srv/stick\n"),
        ] {
            put(tmp.path(), &format!("sys/kernel/config/{place}"), text);
        }
        let all = exports(&sys);
        let paths: Vec<&str> = all.iter().filter_map(|e| e.path.to_str()).collect();
        assert_eq!(paths, ["/srv/a b", "/dev/sda", "/dev/nvme0n1", "/srv/stick"]);
    }
}
