//! Colours that stay apart for colour-blind readers, on light and on dark pages.
//!
//! The hues are those of Okabe and Ito ("Color Universal Design", 2008), without black and yellow,
//! which vanish on one of the two page backgrounds. One run: an operation keeps its colour in every
//! chart. Several runs: a run keeps its colour and the operation becomes the line style.

use plotly::common::DashType;
use taillight_core::OpKind;

/// Blue, vermilion, green, purple, orange, sky, grey, brown; then, for reports of many runs, wine,
/// olive, indigo and teal. `app.js` holds the lighter shade of each for dark pages.
pub const HUES: [&str; 12] = [
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F8794", "#9A6A4F",
    "#882255", "#8A8A1F", "#4B3FA0", "#2F9C95",
];

/// The colour of a response-time ceiling: red in every chart.
pub const CEILING: &str = "#C8102E";

/// The colour of an operation; reads are blue and writes vermilion everywhere.
pub fn of_op(op: OpKind) -> &'static str {
    match op {
        OpKind::Read | OpKind::Get => HUES[0],
        OpKind::Write | OpKind::Put | OpKind::Insert => HUES[1],
        OpKind::Trim | OpKind::Scan => HUES[2],
        OpKind::Fsync | OpKind::Delete => HUES[3],
        OpKind::Update | OpKind::List => HUES[4],
        OpKind::Rmw => HUES[5],
        OpKind::Stat => HUES[6],
        OpKind::RmwGet => HUES[7],
        OpKind::RmwUpdate => HUES[8],
    }
}

/// The colour of the run with this index.
pub fn of_run(index: usize) -> &'static str {
    HUES[index % HUES.len()]
}

/// The line style that tells series of one colour apart.
pub fn dash(index: usize) -> DashType {
    match index % 4 {
        0 => DashType::Solid,
        1 => DashType::Dash,
        2 => DashType::DashDot,
        _ => DashType::LongDash,
    }
}

/// `#RRGGBB` with an opacity, as CSS understands it.
pub fn with_alpha(hex: &str, alpha: f64) -> String {
    let part =
        |i: usize| hex.get(i..i + 2).and_then(|s| u8::from_str_radix(s, 16).ok()).unwrap_or(128);
    format!("rgba({},{},{},{alpha})", part(1), part(3), part(5))
}

/// From few to many: dark violet to light yellow, its dark end lifted so that a single I/O is
/// visible on a dark page too.
pub const HEAT: [(f64, &str); 6] = [
    (0.0, "#5B4A9B"),
    (0.2, "#3B6FA5"),
    (0.4, "#2A9291"),
    (0.6, "#3DB371"),
    (0.8, "#97CF4C"),
    (1.0, "#F2DC3A"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dark_pages_know_every_hue() {
        let app = include_str!("html/app.js");
        for hue in HUES {
            assert!(app.contains(&format!("\"{hue}\": \"#")), "{hue} has no lighter shade");
        }
    }

    #[test]
    fn alpha() {
        assert_eq!(with_alpha("#0072B2", 0.25), "rgba(0,114,178,0.25)");
    }
}
