//! One line of what the target's own statistics say, in the words of its driver.

use std::collections::BTreeMap;

use taillight_core::samples::{SampleDisplay, SampleFigure, SamplePhrase};
use taillight_rundir::summary::StoreFigure;

use crate::format;

/// The phrases of a driver with their figures; none without any. `duration_ns`: how long was measured.
pub fn text(
    display: &SampleDisplay,
    figures: &BTreeMap<String, StoreFigure>,
    duration_ns: u64,
) -> Option<String> {
    let parts = display.phrases.iter().filter_map(|phrase| part(phrase, figures, duration_ns));
    let parts: Vec<String> = parts.collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn part(
    phrase: &SamplePhrase,
    figures: &BTreeMap<String, StoreFigure>,
    duration_ns: u64,
) -> Option<String> {
    let figure = figures.get(&phrase.series)?;
    let value = match phrase.figure {
        SampleFigure::Rise => figure.rise?,
        SampleFigure::Most => figure.max?,
        SampleFigure::Last => figure.last.filter(|last| *last > 0.0)?,
        SampleFigure::Share => {
            let hits = figure.rise?;
            let both = hits + figures.get(phrase.misses.as_ref()?)?.rise?;
            if both <= 0.0 {
                return None;
            }
            hits / both
        }
    };
    if let Some(nothing) = phrase.nothing.as_ref().filter(|_| value == 0.0) {
        return Some(nothing.clone());
    }
    Some(phrase.text.replace("{}", &figure_text(phrase, value, duration_ns)))
}

/// The figure in the unit that its series' name tells.
fn figure_text(phrase: &SamplePhrase, value: f64, duration_ns: u64) -> String {
    let name = phrase.series.strip_suffix("_total").unwrap_or(&phrase.series);
    match phrase.figure {
        SampleFigure::Share => format::percent(value),
        _ if name.ends_with("_bytes") => format::bytes(value.max(0.0) as u64),
        SampleFigure::Rise if name.ends_with("_ns") => {
            let of = duration_ns.max(1) as f64;
            format!("{} ({} of the time)", format::duration(value), format::percent(value / of))
        }
        _ if name.ends_with("_ns") => format::duration(value),
        SampleFigure::Last => format::digits3(value),
        SampleFigure::Rise | SampleFigure::Most => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures() -> BTreeMap<String, StoreFigure> {
        let rise = |rise: f64| StoreFigure { rise: Some(rise), ..StoreFigure::default() };
        let level = |last: f64, max: f64| StoreFigure {
            last: Some(last),
            max: Some(max),
            ..StoreFigure::default()
        };
        [
            ("stall_ns_total", rise(5e8)),
            ("log_hits_total", rise(9.0)),
            ("log_misses_total", rise(1.0)),
            ("log_bytes", level(1024.0, 2048.0)),
            ("age_ns", level(0.0, 2e6)),
        ]
        .map(|(series, figure)| (series.to_owned(), figure))
        .into()
    }

    #[test]
    fn phrases_of_a_driver_get_their_figures() {
        let phrases = vec![
            SamplePhrase::held_back(),
            SamplePhrase::share("log_hits_total", "log_misses_total", "{} found in the log"),
            SamplePhrase::new("log_bytes", SampleFigure::Most, "at most {} of log"),
            SamplePhrase::new("age_ns", SampleFigure::Most, "oldest {}"),
            // What was not sampled, or is none of that kind, is left out.
            SamplePhrase::new("age_ns", SampleFigure::Last, "now {}"),
            SamplePhrase::new("age_ns", SampleFigure::Rise, "rose {}"),
            SamplePhrase::share("log_hits_total", "absent", "{}"),
            SamplePhrase::new("absent", SampleFigure::Rise, "{}"),
        ];
        let display = SampleDisplay { phrases, ..SampleDisplay::default() };
        let said = text(&display, &figures(), 1_000_000_000).unwrap();
        assert_eq!(
            said,
            "writes held back for 500 ms (50.0 % of the time), 90.0 % found in the log, \
             at most 2.00 KiB of log, oldest 2.00 ms"
        );
        let mut calm = figures();
        calm.get_mut("stall_ns_total").unwrap().rise = Some(0.0);
        assert!(text(&display, &calm, 1).unwrap().starts_with("no writes held back, "));
        assert_eq!(text(&SampleDisplay::default(), &calm, 1), None);
        assert_eq!(text(&display, &BTreeMap::new(), 1), None);
    }
}
