//! The part of the page that says why the tail is slow.

use serde::Serialize;

use super::timelines;
use crate::format;
use crate::render::explain_text::answer;
use taillight_explain::Explanation;

/// What the page says of one run; its episodes are those with a picture.
#[derive(Serialize)]
pub struct Explained {
    /// The answer in words.
    sentences: Vec<String>,
    legend: Vec<(&'static str, &'static str)>,
    /// Percentiles as stacks of phases.
    stacks: Option<String>,
    episodes: Vec<EpisodeRow>,
    /// How many episodes are not shown, and where they are.
    more: Option<String>,
    /// Layer, outliers, share, excess, sure, likely.
    layers: Vec<[String; 6]>,
    /// Trace points: what they see, and why not.
    programs: Vec<(String, String, String)>,
}

#[derive(Serialize)]
struct EpisodeRow {
    title: String,
    evidence: Vec<String>,
    picture: String,
}

/// The section of one run, with at most so many pictures of episodes.
pub fn explained(it: &Explanation, start_ns: i64, pictures: usize) -> Explained {
    let time = |ns: u64| format::duration_ns(ns);
    let mut heavy: Vec<_> = it.episodes.iter().collect();
    heavy.sort_by_key(|e| std::cmp::Reverse(e.excess_ns));
    let episodes = heavy.iter().filter_map(|e| {
        let next = format!("next: {}", e.next);
        let evidence = e.evidence.iter().map(String::as_str).chain([next.as_str()]);
        Some(EpisodeRow {
            title: format!(
                "At {:.3} s: {}, {}{}",
                (e.start_ns - start_ns) as f64 / 1e9,
                e.size(),
                e.blame(),
                e.certainty().map_or(String::new(), |c| format!(" ({c})"))
            ),
            evidence: evidence.map(str::to_owned).collect(),
            picture: timelines::episode(e)?,
        })
    });
    let episodes: Vec<EpisodeRow> = episodes.take(pictures).collect();
    let layers = it.layers.iter().map(|l| {
        [
            l.layer.words().to_owned(),
            format::count(l.outliers),
            format::percent(l.outliers as f64 / it.outliers.max(1) as f64),
            time(l.excess_ns),
            format::count(l.sure),
            format::count(l.likely()),
        ]
    });
    let programs = it.info.programs.iter().map(|p| {
        let missing = p.missing.clone().unwrap_or_default();
        (p.trace_point.clone(), p.sees.clone(), missing)
    });
    Explained {
        sentences: answer(it),
        legend: timelines::legend(it),
        stacks: timelines::stacks(it),
        more: more(it.episodes.len(), episodes.len()),
        episodes,
        layers: layers.collect(),
        programs: programs.collect(),
    }
}

/// What is said of episodes without a place on the page.
fn more(all: usize, shown: usize) -> Option<String> {
    let hidden = all.saturating_sub(shown) as u64;
    (hidden > 0).then(|| {
        let which = if shown > 0 { "lighter episode" } else { "episode" };
        format!(
            "{} without a picture here: `taillight explain RUN --json` lists every one, with its \
             evidence.",
            format::counted(hidden, which)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_episodes_are_counted() {
        assert_eq!(more(12, 12), None);
        assert!(more(13, 12).unwrap().starts_with("1 lighter episode without"));
        assert!(more(23, 12).unwrap().starts_with("11 lighter episodes without"));
    }
}
