//! Pages of the NVMe base specification: identify, SMART (02h), error log (01h), supported log
//! pages (00h).

use taillight_core::{Error, Result};
use taillight_machine::nvme::{check_size, le};
use taillight_rundir::nvme::{ErrorEntry, Smart};

/// What a controller says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControllerIdentity {
    pub vendor: u16,
    pub model: String,
    pub firmware: String,
    /// Entries the error log holds.
    pub error_entries: u16,
    /// It can list its log pages.
    pub lists_logs: bool,
    /// It has a volatile write cache.
    pub write_cache: bool,
}

/// Parses the answer to Identify Controller. Errors: `Corrupt` when it is no such answer.
pub fn identity(page: &[u8]) -> Result<ControllerIdentity> {
    check_size("the answer to identify", page, 4096)?;
    let text = |from: usize, to: usize| {
        let text = String::from_utf8_lossy(&page[from..to]);
        text.trim_matches(|c: char| c == ' ' || c == '\0').to_owned()
    };
    let it = ControllerIdentity {
        vendor: le(page, 0, 2) as u16,
        model: text(24, 64),
        firmware: text(64, 72),
        error_entries: le(page, 262, 1) as u16 + 1,
        lists_logs: le(page, 261, 1) & 1 << 5 != 0,
        write_cache: le(page, 525, 1) & 1 != 0,
    };
    if it.vendor == 0 || it.model.is_empty() {
        return Err(Error::corrupt("the drive did not identify itself")
            .hint("its logs are left alone; is this an NVMe controller?"));
    }
    Ok(it)
}

/// A 16-byte counter, the largest number when it exceeds 64 bits.
fn wide(page: &[u8], at: usize) -> u64 {
    match le(page, at + 8, 8) {
        0 => le(page, at, 8),
        _ => u64::MAX,
    }
}

/// Parses log page 02h. Errors: `Corrupt` for another size.
pub fn smart(page: &[u8]) -> Result<Smart> {
    check_size("the SMART page (02h)", page, 512)?;
    let kelvin = le(page, 1, 2) as i64;
    Ok(Smart {
        critical_warning: le(page, 0, 1),
        temperature_c: (kelvin > 0).then_some(kelvin - 273),
        available_spare: le(page, 3, 1),
        percent_used: le(page, 5, 1),
        data_units_read: wide(page, 32),
        data_units_written: wide(page, 48),
        host_reads: wide(page, 64),
        host_writes: wide(page, 80),
        busy_min: wide(page, 96),
        power_cycles: wide(page, 112),
        power_on_h: wide(page, 128),
        unsafe_shutdowns: wide(page, 144),
        media_errors: wide(page, 160),
        error_entries: wide(page, 176),
        warning_temp_min: le(page, 192, 4),
        critical_temp_min: le(page, 196, 4),
        throttles: [le(page, 216, 4), le(page, 220, 4)],
        throttled_s: [le(page, 224, 4), le(page, 228, 4)],
    })
}

/// Parses log page 01h: entries of 64 bytes, those in use. Errors: `Corrupt` for a size that is no
/// multiple of an entry.
pub fn errors(page: &[u8]) -> Result<Vec<ErrorEntry>> {
    check_size("the error log (01h)", page, page.len().next_multiple_of(64).max(64))?;
    let entry = |e: &[u8]| ErrorEntry {
        count: le(e, 0, 8),
        queue: le(e, 8, 2),
        command: le(e, 10, 2),
        // Bit 0 is the phase tag.
        status: le(e, 12, 2) >> 1,
        lba: le(e, 16, 8),
        namespace: le(e, 24, 4),
    };
    let used = page.chunks_exact(64).map(entry).filter(|e| e.count > 0);
    Ok(used.collect())
}

/// Parses log page 00h: whether each of the 256 pages is there. Errors: `Corrupt` for another size.
pub fn supported(page: &[u8]) -> Result<Vec<bool>> {
    check_size("the list of log pages (00h)", page, 1024)?;
    Ok(page.chunks_exact(4).map(|e| e[0] & 1 != 0).collect())
}

/// A synthetic answer.
#[cfg(test)]
pub mod testing {
    /// An answer to identify.
    pub fn identity(vendor: u16, lists: bool) -> Vec<u8> {
        let mut page = vec![0u8; 4096];
        page[..2].copy_from_slice(&vendor.to_le_bytes());
        page[24..64].fill(b' ');
        page[24..35].copy_from_slice(b"Example SSD");
        page[64..72].copy_from_slice(b"1.0A    ");
        page[261] = u8::from(lists) << 5;
        page[262] = 3;
        page
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smart_of_a_synthetic_page() {
        let mut page = vec![0u8; 512];
        page[0] = 2;
        page[1..3].copy_from_slice(&315u16.to_le_bytes());
        page[3] = 100;
        page[5] = 7;
        page[32..40].copy_from_slice(&123_456u64.to_le_bytes());
        page[72] = 1; // above 64 bits
        page[176..184].copy_from_slice(&9u64.to_le_bytes());
        page[216..220].copy_from_slice(&4u32.to_le_bytes());
        page[228..232].copy_from_slice(&60u32.to_le_bytes());
        let it = smart(&page).unwrap();
        assert_eq!((it.critical_warning, it.temperature_c), (2, Some(42)));
        assert_eq!((it.available_spare, it.percent_used), (100, 7));
        assert_eq!((it.data_units_read, it.host_reads), (123_456, u64::MAX));
        assert_eq!((it.throttles, it.throttled_s), ([4, 0], [0, 60]));
        assert_eq!(it.error_entries, 9);
        let e = smart(&page[..500]).unwrap_err();
        assert!(e.to_string().contains("02h") && e.hint_text().is_some());
    }

    #[test]
    fn error_entries_in_use() {
        let mut page = vec![0u8; 128];
        page[0] = 5;
        page[8] = 1;
        page[12..14].copy_from_slice(&(0x2002u16 << 1).to_le_bytes());
        page[16] = 77;
        let list = errors(&page).unwrap();
        assert_eq!(list.len(), 1);
        assert_eq!((list[0].count, list[0].status, list[0].lba), (5, 0x2002, 77));
        assert!(errors(&page[..100]).is_err());
    }

    #[test]
    fn an_answer_that_identifies_nothing_is_refused() {
        let it = identity(&testing::identity(0x1344, true)).unwrap();
        assert_eq!((it.model.as_str(), it.firmware.as_str()), ("Example SSD", "1.0A"));
        assert_eq!((it.error_entries, it.lists_logs), (4, true));
        assert!(identity(&[0; 4096]).is_err());
        assert!(identity(&[1; 512]).is_err());
        assert!(supported(&[0; 512]).is_err());
    }
}
