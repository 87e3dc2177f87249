//! A file system filled to a level before the run, by a file of ours beside the data; or a device, whose
//! first share then holds data. Here are the option, how large that file must be, and the level that was
//! reached, as the file system counts it; `layout` writes the file, `prepare` owns it.

use std::fmt;
use std::os::fd::AsFd;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use taillight_core::{Error, Result};

/// Name of the file in the directory of the data.
pub const NAME: &str = "taillight-fill.dat";

/// Share of a file system or device that is to hold data, in tenths of a percent; 0 leaves it as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct FillLevel(u32);

impl FillLevel {
    pub fn is_asked(self) -> bool {
        self.0 > 0
    }

    /// This share of `bytes`.
    pub fn of(self, bytes: u64) -> u64 {
        // A share below all fits.
        (u128::from(bytes) * u128::from(self.0) / 1000) as u64
    }
}

impl fmt::Display for FillLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 % 10 {
            0 => write!(f, "{}%", self.0 / 10),
            tenths => write!(f, "{}.{tenths}%", self.0 / 10),
        }
    }
}

impl From<FillLevel> for String {
    fn from(level: FillLevel) -> String {
        level.to_string()
    }
}

impl FromStr for FillLevel {
    type Err = String;
    fn from_str(text: &str) -> std::result::Result<FillLevel, String> {
        let wrong = || format!("`fill` is a share like \"80%\", below 100%, not {text:?}");
        let number = text.strip_suffix('%').map(str::trim).ok_or_else(wrong)?;
        let (whole, tenths) = number.split_once('.').unwrap_or((number, "0"));
        let digits = |s: &str, most: usize| {
            let fine = (1..=most).contains(&s.len()) && s.bytes().all(|b| b.is_ascii_digit());
            fine.then(|| s.parse::<u32>().ok())?
        };
        let level = digits(whole, 2).zip(digits(tenths, 1)).map(|(w, t)| w * 10 + t);
        level.map(FillLevel).ok_or_else(wrong)
    }
}

impl TryFrom<String> for FillLevel {
    type Error = String;
    fn try_from(text: String) -> std::result::Result<FillLevel, String> {
        text.parse()
    }
}

/// Room of a file system, bytes. What only root may use counts as neither used nor free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    pub used: u64,
    pub available: u64,
}

impl Room {
    /// The room of the file system that holds an open file. Errors: `Unavailable` when it cannot be
    /// asked.
    pub fn of(fd: impl AsFd) -> Result<Room> {
        let fs = rustix::fs::fstatvfs(fd)
            .map_err(|e| Error::unavailable("cannot ask for free space").source(e))?;
        let bytes = |blocks: u64| blocks.saturating_mul(fs.f_frsize);
        Ok(Room {
            used: bytes(fs.f_blocks.saturating_sub(fs.f_bfree)),
            available: bytes(fs.f_bavail),
        })
    }

    /// Bytes that a file must have for this level, when one of ours there has `there` now. None where the
    /// file system is fuller without it.
    pub fn missing(self, level: FillLevel, there: u64) -> Option<u64> {
        let all = self.used.saturating_add(self.available);
        let wanted = level.of(all);
        wanted.checked_sub(self.used.saturating_sub(there))
    }

    /// The level now, for people: `80.0 %`.
    pub fn level(self) -> String {
        let all = (self.used as f64 + self.available as f64).max(1.0);
        format!("{:.1} %", self.used as f64 * 100.0 / all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(text: &str) -> FillLevel {
        text.parse().unwrap()
    }

    #[test]
    fn levels_are_shares_below_all() {
        for text in ["0%", "80%", "7.5%", "99.9%"] {
            assert_eq!(level(text).to_string(), text);
        }
        assert_eq!(level("80.0 %"), level("80%"));
        for wrong in ["", "%", "80", "100%", "-1%", "1.25%", "+5%", "8e1%", ".5%"] {
            assert!(FillLevel::from_str(wrong).is_err(), "{wrong}");
        }
        assert!(!FillLevel::default().is_asked() && level("0.1%").is_asked());
    }

    #[test]
    fn the_file_makes_up_for_what_others_do_not_fill() {
        let room = Room { used: 300, available: 700 };
        assert_eq!(room.missing(level("80%"), 0), Some(500));
        assert_eq!(room.missing(level("80%"), 100), Some(600), "ours is part of what is used");
        assert_eq!(room.missing(level("30%"), 0), Some(0));
        assert_eq!(room.missing(level("29.9%"), 0), None);
        assert_eq!(room.level(), "30.0 %");
        let large = Room { used: 0, available: u64::MAX };
        assert_eq!(large.missing(level("50%"), 0), Some(u64::MAX / 2));
    }
}
