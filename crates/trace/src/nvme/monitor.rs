//! Changing the thresholds of a drive's OCP latency monitor (Set Features C5h).
//!
//! What it is: the only change Taillight ever makes to a drive's settings, made by `taillight drive`
//! after a confirmation. What it is not: a part of a run; a run only reads. Source: OCP Datacenter
//! NVMe SSD Specification 2.0, latency monitor (log page C3h, feature C5h).

use std::fmt;
use std::str::FromStr;

use taillight_core::units::Span;
use taillight_core::{Error, Result};
use taillight_rundir::nvme::LatencyMonitor;

use super::{Admin, ocp, pages};

/// Size of the feature's data.
pub const FEATURE_BYTES: usize = 4096;
/// Thresholds are multiples of it, one byte each.
const STEP_NS: u64 = 5_000_000;

/// A drive whose latency monitor can be set.
pub trait Change: Admin {
    /// Set Features C5h with its data; not saved, so that a reset of the drive undoes it.
    ///
    /// # Errors
    /// `Unavailable` when the drive or the kernel refuses.
    fn set_monitor(&self, data: &[u8; FEATURE_BYTES]) -> Result<()>;
}

/// Where the four buckets begin: multiples of 5 ms up to 1,280 ms, ascending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thresholds([u8; 4]);

impl Thresholds {
    /// In milliseconds.
    pub fn ms(self) -> [u64; 4] {
        self.0.map(|v| 5 * (u64::from(v) + 1))
    }
}

impl fmt::Display for Thresholds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&words(&self.ms()))
    }
}

/// Thresholds as they are written: `5ms,10ms,50ms,100ms`.
pub fn words(ms: &[u64; 4]) -> String {
    ms.map(|v| format!("{v}ms")).join(",")
}

impl FromStr for Thresholds {
    type Err = String;
    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let spans: Vec<Span> = text
            .split(',')
            .map(|part| part.trim().parse())
            .collect::<std::result::Result<_, _>>()?;
        let value = |span: &Span| {
            let steps = span.0 / STEP_NS;
            let exact = span.0.is_multiple_of(STEP_NS) && (1..=256).contains(&steps);
            exact.then(|| (steps - 1) as u8)
        };
        let values: Option<Vec<u8>> = spans.iter().map(value).collect();
        let values = values.ok_or("a threshold is a multiple of 5ms, from 5ms to 1280ms")?;
        let four: [u8; 4] = values
            .try_into()
            .map_err(|_| "four thresholds are needed, like 5ms,10ms,50ms,100ms")?;
        match four.is_sorted_by(|a, b| a < b) {
            true => Ok(Thresholds(four)),
            false => Err("each threshold has to be above the one before it".to_owned()),
        }
    }
}

/// The monitor before and after a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    pub before: LatencyMonitor,
    /// As the drive shows it afterwards.
    pub after: LatencyMonitor,
}

/// The page of a drive that has a monitor which can be set.
fn page(device: &dyn Admin) -> Result<Vec<u8>> {
    let none = |why: &str| {
        Error::unavailable("this drive's latency monitor cannot be set")
            .with("why", why)
            .hint("`taillight drive DEVICE` shows what the drive has")
    };
    if !pages::identity(&device.identify()?)?.lists_logs {
        return Err(none("it does not list its log pages (before NVMe 2.0)"));
    }
    let known = pages::supported(&device.log(0x00, 1024)?)?;
    let has = |id: usize| known.get(id) == Some(&true);
    if !has(0xc3) {
        return Err(none("it has no OCP latency monitor (log page C3h)"));
    }
    if has(0x12) && !pages::supported(&device.log(0x12, 1024)?)?[0xc5] {
        return Err(none("it does not list feature C5h"));
    }
    device.log(0xc3, 512)
}

/// What the monitor is set to, without a change.
///
/// # Errors
/// `Unavailable` when the drive has none that can be set, `Corrupt` for an unknown page.
pub fn look(device: &dyn Admin) -> Result<LatencyMonitor> {
    ocp::parse(&page(device)?)
}

/// Sets the thresholds and turns the monitor on. Its timer, what it latches, its window and its
/// trigger for debug logs stay as they are. The drive is read again, and has to show the new ones.
///
/// # Errors
/// As [`look`]; `Target` when the drive took the command and shows other thresholds.
pub fn set(device: &dyn Change, thresholds: Thresholds) -> Result<Changed> {
    let page = page(device)?;
    let before = ocp::parse(&page)?;
    device.set_monitor(&feature(&page, thresholds))?;
    let after = ocp::parse(&device.log(0xc3, 512)?)?;
    if after.thresholds_ms != thresholds.ms() || !after.enabled {
        return Err(Error::target("the drive did not take the thresholds")
            .with("asked", thresholds)
            .with("shown", words(&after.thresholds_ms))
            .with("enabled", after.enabled)
            .hint("its firmware may keep them fixed"));
    }
    Ok(Changed { before, after })
}

/// The feature's data: 00h timer, 02h thresholds, 06h what is latched, 08h window, 09h trigger of
/// debug logs, 0Bh discard the debug log, 0Ch on; the rest is reserved.
fn feature(page: &[u8], thresholds: Thresholds) -> [u8; FEATURE_BYTES] {
    let mut data = [0; FEATURE_BYTES];
    data[0x00..0x02].copy_from_slice(&page[0x04..0x06]);
    data[0x02..0x06].copy_from_slice(&thresholds.0);
    data[0x06..0x08].copy_from_slice(&page[0x0a..0x0c]);
    data[0x08] = page[0x0c];
    data[0x09..0x0b].copy_from_slice(&page[0x1c0..0x1c2]);
    data[0x0c] = 1;
    data
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// A drive that keeps what it is told, unless its firmware does not.
    struct Fake {
        lists: bool,
        feature: bool,
        fixed: bool,
        page: RefCell<Vec<u8>>,
        told: RefCell<Vec<[u8; FEATURE_BYTES]>>,
    }

    impl Default for Fake {
        fn default() -> Fake {
            let mut page = ocp::testing::page();
            page[0] &= !1;
            page[0x0a..0x0d].copy_from_slice(&[0xff, 0x0f, 0x0a]);
            page[0x1c0..0x1c2].copy_from_slice(&[0x41, 0x02]);
            Fake {
                lists: true,
                feature: true,
                fixed: false,
                page: RefCell::new(page),
                told: RefCell::default(),
            }
        }
    }

    impl Admin for Fake {
        fn identify(&self) -> Result<Vec<u8>> {
            Ok(pages::testing::identity(0x1234, self.lists))
        }
        fn log(&self, id: u8, bytes: usize) -> Result<Vec<u8>> {
            let mut page = vec![0; bytes];
            match id {
                0x00 => [0x12, 0xc3].iter().for_each(|i| page[i * 4] = 1),
                0x12 => page[0xc5 * 4] = u8::from(self.feature),
                0xc3 => page = self.page.borrow().clone(),
                _ => return Err(Error::unavailable("not asked for here")),
            }
            Ok(page)
        }
    }

    impl Change for Fake {
        fn set_monitor(&self, data: &[u8; FEATURE_BYTES]) -> Result<()> {
            self.told.borrow_mut().push(*data);
            if !self.fixed {
                let mut page = self.page.borrow_mut();
                page[6..10].copy_from_slice(&data[2..6]);
                page[0] |= data[0x0c];
            }
            Ok(())
        }
    }

    fn thresholds(text: &str) -> Thresholds {
        text.parse().unwrap()
    }

    #[test]
    fn only_thresholds_and_the_switch_change() {
        let drive = Fake::default();
        let changed = set(&drive, thresholds("10ms, 20ms, 1s, 1280ms")).unwrap();
        assert_eq!(changed.before.thresholds_ms, [5, 10, 50, 100]);
        assert!(!changed.before.enabled && changed.after.enabled);
        assert_eq!(changed.after.thresholds_ms, [10, 20, 1000, 1280]);
        let told = drive.told.into_inner();
        let data = [
            0xe0, 0x07, 1, 3, 199, 255, 0xff, 0x0f, 0x0a, 0x41, 0x02, 0, 1,
        ];
        assert_eq!(told.len(), 1);
        assert_eq!(told[0][..13], data);
        assert!(told[0][13..].iter().all(|b| *b == 0));
    }

    #[test]
    fn a_drive_that_keeps_its_own_is_an_error() {
        let drive = Fake {
            fixed: true,
            ..Fake::default()
        };
        let e = set(&drive, thresholds("10ms,20ms,30ms,40ms")).unwrap_err();
        assert!(e.to_string().contains("did not take"), "{e}");
    }

    #[test]
    fn nothing_is_sent_to_a_drive_without_the_feature() {
        let without = [
            Fake {
                lists: false,
                ..Fake::default()
            },
            Fake {
                feature: false,
                ..Fake::default()
            },
        ];
        let mut foreign = Fake::default();
        foreign.page.get_mut()[0x1f0] = 0;
        for drive in without.into_iter().chain([foreign]) {
            assert!(set(&drive, thresholds("10ms,20ms,30ms,40ms")).is_err());
            assert!(drive.told.borrow().is_empty());
        }
    }

    #[test]
    fn thresholds_are_four_ascending_multiples_of_5_ms() {
        assert_eq!(thresholds("5ms,10ms,50ms,100ms").0, [0, 1, 9, 19]);
        assert_eq!(
            thresholds("5ms,10ms,50ms,100ms").to_string(),
            "5ms,10ms,50ms,100ms"
        );
        for (bad, says) in [
            ("5,10,50,100", "not a time"),
            ("0ms,5ms,10ms,15ms", "multiple of 5ms"),
            ("5ms,7ms,10ms,15ms", "multiple of 5ms"),
            ("5ms,10ms,15ms,2s", "multiple of 5ms"),
            ("5ms,10ms,15ms", "four"),
            ("5ms,10ms,10ms,15ms", "above the one before"),
        ] {
            let e = bad.parse::<Thresholds>().unwrap_err();
            assert!(e.contains(says), "{bad}: {e}");
        }
    }
}
