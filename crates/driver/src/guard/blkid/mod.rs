//! What libblkid says of a range of a device or file; it is loaded at run time, where it is there.

mod sys;

#[cfg(test)]
pub use sys::signatures_of_any_checksum;
pub use sys::{partitions, signatures};

/// One signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    /// `filesystem`, `raid`, `crypto` or `other`.
    pub usage: String,
    /// As blkid calls it: `ext4`, `LVM2_member`.
    pub kind: String,
    pub label: Option<String>,
    /// Where its magic number stands, bytes from the start of the range.
    pub at: Option<u64>,
}

impl Signature {
    /// Whether it says that the data is a part of something that lies elsewhere too, or that another
    /// layer's state depends on it. A file system is a user's to give up, and so is a locked LUKS volume.
    pub fn is_member(&self) -> bool {
        match self.usage.as_str() {
            "raid" => true,
            "other" => self.kind != "swap",
            "crypto" => !self.kind.starts_with("crypto_LUKS") && self.kind != "BitLocker",
            _ => matches!(self.kind.as_str(), "zfs_member" | "oracleasm" | "mpool"),
        }
    }
}
