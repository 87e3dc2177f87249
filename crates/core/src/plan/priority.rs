//! The priority of a worker's I/O: the class and level of ioprio_set(2).

use std::fmt;
use std::str::FromStr;

use crate::units::as_text;

/// Classes of I/O priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IoClass {
    Realtime,
    BestEffort,
    Idle,
}

/// A class and a level in it, 0 the highest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IoPriority {
    pub class: IoClass,
    /// 0 to 7.
    pub level: u8,
}

impl fmt::Display for IoPriority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.class {
            IoClass::Realtime => write!(f, "realtime:{}", self.level),
            IoClass::BestEffort => write!(f, "best-effort:{}", self.level),
            IoClass::Idle => f.write_str("idle"),
        }
    }
}

impl FromStr for IoPriority {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let fail =
            || format!("`{text}` is no I/O priority; write realtime:0, best-effort:4 or idle");
        let (class, level) = text.split_once(':').unwrap_or((text, ""));
        let class = match class {
            "realtime" => IoClass::Realtime,
            "best-effort" => IoClass::BestEffort,
            "idle" if level.is_empty() => return Ok(IoPriority { class: IoClass::Idle, level: 0 }),
            _ => return Err(fail()),
        };
        let level = level.parse().ok().filter(|level| *level < 8).ok_or_else(fail)?;
        Ok(IoPriority { class, level })
    }
}

as_text!(
    IoPriority,
    "IoPriority",
    "realtime:LEVEL or best-effort:LEVEL (0, the highest, to 7), or idle",
    "^(idle|(realtime|best-effort):[0-7])$",
    str::parse,
    None
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priorities_are_text() {
        for text in ["realtime:0", "best-effort:7", "idle"] {
            assert_eq!(text.parse::<IoPriority>().map(|p| p.to_string()), Ok(text.to_owned()));
        }
        for bad in ["realtime", "best-effort:8", "idle:1", "none", ""] {
            assert!(bad.parse::<IoPriority>().is_err(), "{bad}");
        }
    }
}
