//! Colours that stay apart for colour-blind readers, on light and on dark pages.
//!
//! The first hues were those of Okabe and Ito ("Color Universal Design", 2008). Hues were moved and added until all
//! twelve differ for every kind of eye on both page backgrounds, and the first eight by more: `style::MOST_LINES` of
//! the figures that can be parted. A test simulates the eyes. One run: an operation keeps its colour in every chart,
//! unless several workloads share it. Several runs: a run keeps its colour and the operation becomes the line style.

use plotly::common::DashType;
use taillight_core::OpKind;

/// Blue, vermilion, green, purple, orange, sky, grey, brown; then, for reports of many runs, wine, olive, indigo and
/// teal. `app.js` holds the lighter shade of each for dark pages; a test looks for it.
pub const HUES: [&str; 12] = [
    "#2E4E95", "#E2500F", "#04A870", "#E87BB4", "#C9A227", "#8FA9F5", "#646872", "#8A3D04",
    "#65084D", "#7D842F", "#2D267B", "#4883A8",
];

/// The colour of a response-time ceiling: red in every chart.
pub const CEILING: &str = "#C8102E";

/// The colour of an operation; reads are blue and writes vermilion, and several kinds share a colour.
pub fn of_op(op: OpKind) -> &'static str {
    match op {
        OpKind::Read | OpKind::Get | OpKind::OpenReadClose => HUES[0],
        OpKind::Write | OpKind::Put | OpKind::Insert | OpKind::Create => HUES[1],
        OpKind::Trim | OpKind::Scan | OpKind::Rename => HUES[2],
        OpKind::Fsync | OpKind::Delete | OpKind::Unlink => HUES[3],
        OpKind::Update | OpKind::List | OpKind::Mkdir => HUES[4],
        OpKind::Rmw | OpKind::Readdir => HUES[5],
        OpKind::Stat => HUES[6],
        OpKind::RmwGet | OpKind::Rmdir => HUES[7],
        OpKind::RmwUpdate | OpKind::Wait => HUES[8],
        OpKind::Tpcb | OpKind::OltpReadWrite => HUES[1],
        OpKind::OltpPointSelect | OpKind::SelectPoint | OpKind::SelectAccounts => HUES[0],
        OpKind::UpdateAccounts | OpKind::UpdateIndex => HUES[2],
        OpKind::UpdateTellers | OpKind::UpdateNonIndex => HUES[3],
        OpKind::UpdateBranches | OpKind::DeleteRow => HUES[4],
        OpKind::InsertHistory | OpKind::InsertRow => HUES[5],
        OpKind::Begin => HUES[6],
        OpKind::Commit => HUES[7],
        OpKind::SelectRange => HUES[8],
        OpKind::SelectSum => HUES[9],
        OpKind::SelectOrder => HUES[10],
        OpKind::SelectDistinct => HUES[11],
        OpKind::Checkpoint => HUES[6],
        OpKind::AutoCheckpoint => HUES[7],
        OpKind::LockWait => HUES[8],
    }
}

/// The colour of the run with this index; the thirteenth has that of the first again.
pub fn of_run(index: usize) -> &'static str {
    HUES[index % HUES.len()]
}

/// The colours of values that have an order, from low to high: from dark to light, on dark pages too.
pub const ORDERED: [&str; 8] =
    ["#300034", "#3A0072", "#1F27A9", "#045C8C", "#027A8E", "#0E988D", "#03B974", "#88CC1C"];

/// The colour of the `nth` of so many ordered values.
pub fn ordered(nth: usize, of: usize) -> &'static str {
    let last = ORDERED.len() - 1;
    ORDERED[(nth * last / of.saturating_sub(1).max(1)).min(last)]
}

/// The colour of the `nth` of several lines. Three or more lines are settings in order, from dark to light, where the
/// last word of each name begins with a digit ("depth 4"); other lines have the colours of runs.
pub fn of_setting(nth: usize, names: &[&str]) -> &'static str {
    let number = |name: &&str| {
        let last = name.rsplit(' ').next().unwrap_or_default();
        last.starts_with(|c: char| c.is_ascii_digit())
    };
    match names.len() > 2 && names.iter().all(number) {
        true => ordered(nth, names.len()),
        false => of_run(nth),
    }
}

/// The line style that tells series of one colour apart; the fifth is that of the first again.
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

/// How far apart colours are for eyes of every kind.
#[cfg(test)]
pub mod eyes {
    pub type Matrix = [[f64; 3]; 3];

    /// Linear RGB as seen by all cones, without the red, the green, the blue ones (Machado, Oliveira and
    /// Fernandes 2009), each with the least distance of lines and of layers.
    pub const EYES: [(Matrix, f64, f64); 4] = [
        ([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], 0.09, 0.12),
        (
            [
                [0.152286, 1.052583, -0.204868],
                [0.114503, 0.786281, 0.099216],
                [-0.003882, -0.048116, 1.051998],
            ],
            0.07,
            0.07,
        ),
        (
            [
                [0.367322, 0.860646, -0.227968],
                [0.280085, 0.672501, 0.047413],
                [-0.011820, 0.042940, 0.968881],
            ],
            0.07,
            0.07,
        ),
        (
            [
                [1.255528, -0.076749, -0.178779],
                [-0.078411, 0.930809, 0.147602],
                [0.004733, 0.691367, 0.303900],
            ],
            0.07,
            0.03,
        ),
    ];
    /// OKLab (Ottosson 2020).
    const CONES: Matrix = [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ];
    const LAB: Matrix = [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ];

    fn times(m: &Matrix, v: [f64; 3]) -> [f64; 3] {
        m.map(|row| row.iter().zip(v).map(|(a, b)| a * b).sum())
    }

    /// How far apart two colours are for an eye; 0.02 is just seen.
    pub fn distance(eye: &Matrix, a: &str, b: &str) -> f64 {
        let lab = |hex: &str| {
            let linear = [1, 3, 5].map(|i| {
                let c = f64::from(u8::from_str_radix(&hex[i..i + 2], 16).unwrap()) / 255.0;
                if c <= 0.04045 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) }
            });
            let seen = times(eye, linear).map(|c| c.clamp(0.0, 1.0));
            times(&LAB, times(&CONES, seen).map(f64::cbrt))
        };
        lab(a).iter().zip(lab(b)).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::eyes::{EYES, distance};
    use super::*;

    /// The lighter shade of a hue, which `app.js` puts in its place on a dark page.
    fn on_dark(hue: &str) -> String {
        let app = include_str!("html/app.js");
        let key = format!("\"{hue}\": \"");
        let at = app.find(&key).unwrap_or_else(|| panic!("{hue} has no shade for dark pages"));
        app[at + key.len()..][..7].to_owned()
    }

    #[test]
    fn lines_differ_for_every_eye_on_light_and_dark_pages() {
        let light = |hues: &[&str]| hues.iter().map(|h| (*h).to_owned()).collect::<Vec<_>>();
        let dark = |hues: &[&str]| hues.iter().map(|h| on_dark(h)).collect::<Vec<_>>();
        for (eye, least, _) in &EYES {
            let sets = [(&HUES[..8], *least), (&ORDERED[..], *least - 0.01), (&HUES[..], 0.05)];
            for (lines, least) in sets {
                for (all, card) in [(light(lines), "#ffffff"), (dark(lines), "#1c2024")] {
                    for (i, one) in all.iter().enumerate() {
                        for other in &all[..i] {
                            let found = distance(eye, one, other);
                            assert!(found >= least, "{one}, {other} on {card}: {found:.3}");
                        }
                        let found = distance(eye, one, card);
                        assert!(found >= 0.2, "{one} on {card}: {found:.3}");
                    }
                }
            }
        }
    }

    #[test]
    fn ordered_values_get_lighter_or_darker_all_the_way() {
        let black = "#000000";
        for (eye, ..) in &EYES {
            let from_black: Vec<f64> = ORDERED.iter().map(|c| distance(eye, c, black)).collect();
            assert!(from_black.windows(2).all(|w| w[0] < w[1]), "{from_black:?}");
        }
        assert_eq!([ordered(0, 3), ordered(2, 3)], [ORDERED[0], ORDERED[7]]);
        assert_eq!(ordered(0, 1), ORDERED[0]);
        let depths = ["depth 1", "depth 4", "depth 16"];
        assert_eq!(of_setting(1, &depths), ordered(1, 3));
        assert_eq!(of_setting(1, &["base", "new", "other"]), HUES[1]);
    }

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
