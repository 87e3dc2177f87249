//! What a target's own statistics are, as its driver states it: pictures, and phrases for one line of text.
//!
//! The names of series tell their units: counters end in `_total`, times in `_ns`, sizes in `_bytes` (`_ns_total`,
//! `_bytes_total`). The manifest keeps the statement, and reports draw what stands there: they know no driver.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The counter of the time for which a store held writes back, whichever store it is: it shades the latency over
/// time, and is what `explain` looks at.
pub const HELD_BACK: &str = "stall_ns_total";

/// How the samples of a target are shown.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SampleDisplay {
    /// Pictures, in their order. Where none of them names a series that was sampled, all series are drawn by unit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub panels: Vec<SamplePanel>,
    /// Parts of the line that sums the samples up.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phrases: Vec<SamplePhrase>,
}

impl SampleDisplay {
    /// The display of a target that is one of several: its series stand behind `prefix`, and headings name it.
    pub fn named(mut self, name: &str, prefix: &str) -> SampleDisplay {
        let rename = |series: &mut String| series.insert_str(0, prefix);
        for panel in &mut self.panels {
            panel.title.push_str(&format!(" ({name})"));
            for line in &mut panel.lines {
                rename(&mut line.series);
                line.misses.iter_mut().for_each(rename);
            }
        }
        for phrase in &mut self.phrases {
            rename(&mut phrase.series);
            phrase.misses.iter_mut().for_each(rename);
            phrase.text.insert_str(0, &format!("{name}: "));
            if let Some(text) = &mut phrase.nothing {
                text.insert_str(0, &format!("{name}: "));
            }
        }
        self
    }

    /// The panels for a run with these series: those stated, and for each target none of whose series a stated panel
    /// names, all its series by their units.
    pub fn panels_for(&self, series: &[&str]) -> Vec<SamplePanel> {
        let mut panels = self.panels.clone();
        let stated = |name: &&str| {
            let mut lines = self.panels.iter().flat_map(|panel| &panel.lines);
            lines.any(|line| line.series == **name)
        };
        let mut prefixes: Vec<&str> = Vec::new();
        for name in series {
            if !prefixes.contains(&prefix_of(name)) {
                prefixes.push(prefix_of(name));
            }
        }
        for prefix in prefixes {
            let of_target = || series.iter().filter(|name| prefix_of(name) == prefix);
            if !of_target().any(stated) {
                let own: Vec<&str> = of_target().map(|name| &name[prefix.len()..]).collect();
                let display = SampleDisplay { panels: by_unit(&own), phrases: Vec::new() };
                panels.extend(match target_of(prefix) {
                    Some(target) => display.named(target, prefix).panels,
                    None => display.panels,
                });
            }
        }
        panels
    }

    /// Every text in it, names of series included.
    pub fn texts(&self) -> Vec<&str> {
        let mut texts: Vec<Option<&String>> = Vec::new();
        for panel in &self.panels {
            texts.extend([Some(&panel.title), panel.note.as_ref()]);
            for line in &panel.lines {
                texts.extend([Some(&line.series), Some(&line.words), line.misses.as_ref()]);
            }
        }
        for p in &self.phrases {
            texts.extend([Some(&p.series), Some(&p.text), p.misses.as_ref(), p.nothing.as_ref()]);
        }
        texts.into_iter().flatten().map(String::as_str).collect()
    }
}

/// What the series of a named target, one of several in a run, begin with.
pub fn target_prefix(target: &str) -> String {
    format!("targets.{target}.")
}

/// The [`target_prefix`] of a series; empty for `[target]`.
fn prefix_of(series: &str) -> &str {
    let end = series.strip_prefix("targets.").and_then(|rest| rest.rfind('.'));
    end.map_or("", |end| &series[..=end + "targets.".len()])
}

fn target_of(prefix: &str) -> Option<&str> {
    prefix.strip_prefix("targets.")?.strip_suffix('.')
}

/// A panel for each unit that the names of series tell, and one for the shares of hits.
fn by_unit(series: &[&str]) -> Vec<SamplePanel> {
    let all = [
        ("Time", SampleUnit::PercentOfTime),
        ("Durations", SampleUnit::Milliseconds),
        ("Traffic", SampleUnit::BytesPerSecond),
        ("Events", SampleUnit::PerSecond),
        ("Sizes", SampleUnit::Bytes),
        ("Counts", SampleUnit::Count),
        ("Factors", SampleUnit::Times),
    ];
    let panel = |(title, unit)| {
        let of_unit = series.iter().filter(|name| SampleUnit::of(name) == unit);
        of_unit.fold(SamplePanel::new(title, unit), |panel, name| panel.line(name, &words(name)))
    };
    let mut hits = SamplePanel::new("Lookups that hit", SampleUnit::Percent);
    for name in series {
        let misses = name.strip_suffix("hits_total").map(|what| format!("{what}misses_total"));
        if let Some(misses) = misses.filter(|misses| series.contains(&misses.as_str())) {
            hits = hits.share(name, &misses, &words(name));
        }
    }
    let panels = all.into_iter().map(panel).chain([hits]);
    panels.filter(|panel| !panel.lines.is_empty()).collect()
}

/// The name of a series in words, without its unit.
fn words(series: &str) -> String {
    let name = series.strip_suffix("_total").unwrap_or(series);
    let units = ["_bytes_per_s", "_per_s", "_bytes", "_ns", "_us", "_ms"];
    let bare = units.iter().find_map(|unit| name.strip_suffix(unit)).unwrap_or(name);
    bare.replace('_', " ")
}

/// One picture.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SamplePanel {
    /// Heading.
    pub title: String,
    /// What the axis counts.
    pub unit: SampleUnit,
    /// What a reader has to know of it, behind the heading.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Its lines, in the order of the legend.
    pub lines: Vec<SampleLine>,
}

impl SamplePanel {
    pub fn new(title: &str, unit: SampleUnit) -> SamplePanel {
        SamplePanel { title: title.to_owned(), unit, note: None, lines: Vec::new() }
    }

    #[must_use]
    pub fn note(mut self, note: &str) -> SamplePanel {
        self.note = Some(note.to_owned());
        self
    }

    /// With a line of this series, a counter as its rate.
    #[must_use]
    pub fn line(mut self, series: &str, words: &str) -> SamplePanel {
        let (series, words) = (series.to_owned(), words.to_owned());
        self.lines.push(SampleLine { series, words, misses: None });
        self
    }

    /// With a line of the share of `hits` in hits and misses.
    #[must_use]
    pub fn share(mut self, hits: &str, misses: &str, words: &str) -> SamplePanel {
        self = self.line(hits, words);
        if let Some(line) = self.lines.last_mut() {
            line.misses = Some(misses.to_owned());
        }
        self
    }
}

/// One line of a picture: a level as it is, a counter as its rise a second.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SampleLine {
    /// Name of the series in `store.parquet`.
    pub series: String,
    /// In the legend.
    pub words: String,
    /// The counter of misses: then the line is the share of `series`, which counts hits, in both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub misses: Option<String>,
}

/// What an axis counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SampleUnit {
    /// Share of the time: a counter of time as its rise over the time; a level of 0 to 1.
    PercentOfTime,
    /// Share of hits.
    Percent,
    Bytes,
    BytesPerSecond,
    PerSecond,
    Count,
    /// A factor.
    Times,
    /// A level that is a time.
    Milliseconds,
    /// One that a later version knows.
    #[serde(other)]
    Other,
}

impl SampleUnit {
    /// The unit as an axis has it.
    pub fn words(self) -> &'static str {
        match self {
            SampleUnit::PercentOfTime => "% of the time",
            SampleUnit::Percent => "%",
            SampleUnit::Bytes => "bytes",
            SampleUnit::BytesPerSecond => "bytes/s",
            SampleUnit::PerSecond => "per second",
            SampleUnit::Count => "count",
            SampleUnit::Times => "times",
            SampleUnit::Milliseconds => "ms",
            SampleUnit::Other => "of a unit that this version does not know",
        }
    }

    /// What the rise a second, or the level, of a series is multiplied by to be in this unit.
    pub fn factor(self, series: &str) -> f64 {
        let time = |unit: &str| series.strip_suffix("_total").unwrap_or(series).ends_with(unit);
        match self {
            SampleUnit::PercentOfTime if time("_ns") => 1e-7,
            SampleUnit::PercentOfTime if time("_us") => 1e-4,
            SampleUnit::PercentOfTime if time("_ms") => 0.1,
            SampleUnit::PercentOfTime => 100.0,
            SampleUnit::Milliseconds if time("_ns") => 1e-6,
            SampleUnit::Milliseconds if time("_us") => 1e-3,
            _ => 1.0,
        }
    }

    /// The unit that the name of a series tells.
    pub fn of(series: &str) -> SampleUnit {
        let counter = series.strip_suffix("_total");
        match counter.unwrap_or(series) {
            name if name.ends_with("_bytes") && counter.is_some() => SampleUnit::BytesPerSecond,
            name if name.ends_with("_bytes_per_s") => SampleUnit::BytesPerSecond,
            name if name.ends_with("_bytes") => SampleUnit::Bytes,
            name if ["_ns", "_us", "_ms"].iter().any(|u| name.ends_with(u)) => match counter {
                Some(_) => SampleUnit::PercentOfTime,
                None => SampleUnit::Milliseconds,
            },
            _ if counter.is_some() => SampleUnit::PerSecond,
            name if name.ends_with("_per_s") => SampleUnit::PerSecond,
            name if name.ends_with("_amplification") => SampleUnit::Times,
            _ => SampleUnit::Count,
        }
    }
}

/// One part of the line that sums samples up; left out where there is nothing to say.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SamplePhrase {
    /// Name of the series in `store.parquet`.
    pub series: String,
    /// The counter of misses, of a share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub misses: Option<String>,
    /// Which figure of the series.
    pub figure: SampleFigure,
    /// The words, with `{}` for the figure.
    pub text: String,
    /// The words where the figure is zero; none = as any other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nothing: Option<String>,
}

impl SamplePhrase {
    pub fn new(series: &str, figure: SampleFigure, text: &str) -> SamplePhrase {
        let (series, text) = (series.to_owned(), text.to_owned());
        SamplePhrase { series, misses: None, figure, text, nothing: None }
    }

    /// The share of `hits` in hits and misses.
    pub fn share(hits: &str, misses: &str, text: &str) -> SamplePhrase {
        let phrase = SamplePhrase::new(hits, SampleFigure::Share, text);
        SamplePhrase { misses: Some(misses.to_owned()), ..phrase }
    }

    /// Of the time that writes were held back.
    pub fn held_back() -> SamplePhrase {
        SamplePhrase {
            nothing: Some("no writes held back".to_owned()),
            ..SamplePhrase::new(HELD_BACK, SampleFigure::Rise, "writes held back for {}")
        }
    }
}

/// What of a series over the measured time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SampleFigure {
    /// How much a counter rose.
    Rise,
    /// The highest level.
    Most,
    /// The level at the end, where it is above zero.
    Last,
    /// How much of hits and misses were hits.
    Share,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_follow_the_names_of_series() {
        for (series, unit, factor) in [
            ("stall_ns_total", SampleUnit::PercentOfTime, 1e-7),
            ("gc_ms_total", SampleUnit::PercentOfTime, 0.1),
            // Levels of time were once drawn as counts.
            ("oldest_read_ns", SampleUnit::Milliseconds, 1e-6),
            ("last_fork_us", SampleUnit::Milliseconds, 1e-3),
            ("lag_ms", SampleUnit::Milliseconds, 1.0),
            ("wal_bytes_total", SampleUnit::BytesPerSecond, 1.0),
            ("delayed_write_bytes_per_s", SampleUnit::BytesPerSecond, 1.0),
            ("heap_used_bytes", SampleUnit::Bytes, 1.0),
            ("evicted_keys_total", SampleUnit::PerSecond, 1.0),
            ("write_amplification", SampleUnit::Times, 1.0),
            ("level0_files", SampleUnit::Count, 1.0),
        ] {
            assert_eq!(SampleUnit::of(series), unit, "{series}");
            assert_eq!(unit.factor(series), factor, "{series}");
        }
        assert_eq!(SampleUnit::PercentOfTime.factor("writes_stopped"), 100.0);
        // A unit of a later version made the whole run unreadable.
        let later: SampleUnit = serde_json::from_str("\"furlongs\"").unwrap();
        assert_eq!(later, SampleUnit::Other);
    }

    #[test]
    fn series_that_no_panel_names_are_drawn_by_unit() {
        let log = SamplePanel::new("Log", SampleUnit::Bytes).line("log_bytes", "log");
        let display = SampleDisplay { panels: vec![log.clone()], phrases: Vec::new() };
        let shown = |series: &[&str]| {
            let panels = display.panels_for(series).into_iter().skip(1);
            let lines =
                |p: &SamplePanel| p.lines.iter().map(|l| l.words.clone()).collect::<Vec<_>>();
            panels.map(|p| format!("{}: {}", p.title, lines(&p).join(", "))).collect::<Vec<_>>()
        };
        assert!(shown(&["log_bytes", "files"]).is_empty(), "what is left out is so on purpose");
        assert!(shown(&[]).is_empty());
        let own = ["heap_used_bytes", "gc_ms_total", "lookup_hits_total", "lookup_misses_total"];
        let found = shown(&own);
        assert_eq!(
            found,
            [
                "Time: gc",
                "Events: lookup hits, lookup misses",
                "Sizes: heap used",
                "Lookups that hit: lookup hits"
            ]
        );
        // Of several targets each by itself.
        let found = shown(&["log_bytes", "targets.b.x.files", "targets.b.x.gc_ns_total"]);
        assert_eq!(found, ["Time (b.x): gc", "Counts (b.x): files"]);
        assert_eq!(target_prefix("b.x"), "targets.b.x.");
    }

    #[test]
    fn one_of_several_targets_has_its_name_in_what_it_shows() {
        let panel = SamplePanel::new("Lookups that hit", SampleUnit::Percent);
        let display = SampleDisplay {
            panels: vec![panel.share("hits_total", "misses_total", "hits")],
            phrases: vec![SamplePhrase::held_back()],
        };
        let named = display.named("log", "targets.log.");
        let line = &named.panels[0].lines[0];
        assert_eq!(named.panels[0].title, "Lookups that hit (log)");
        assert_eq!(line.series, "targets.log.hits_total");
        assert_eq!(line.misses.as_deref(), Some("targets.log.misses_total"));
        assert_eq!(named.phrases[0].text, "log: writes held back for {}");
        assert_eq!(named.texts().len(), 7);
    }
}
