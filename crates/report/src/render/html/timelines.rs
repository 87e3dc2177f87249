//! Pictures of an explanation: one time line per episode as SVG, and the percentiles as stacks of boxes, whose labels are
//! text of the page and stay readable however narrow it is.
//!
//! All text that comes from a run is escaped here; the page puts these in as they are.

use std::fmt::Write;

use crate::format;
use taillight_explain::{EpisodeView, Explanation, Phase, PhaseLevel};

const WIDTH: f64 = 900.0;
const LABELS: f64 = 190.0;
const ROW: f64 = 16.0;
const HEAD: f64 = 22.0;
/// Letters of a picture in its full width, px. A narrower page makes them smaller, down to those of the least width that
/// the style gives it.
const LETTERS: f64 = 11.0;

/// Colour of a phase: hues by layer, grey for what was stopped, blocked or not seen.
pub fn colour(phase: Phase) -> &'static str {
    match phase {
        Phase::Submit => "#7e99fc",
        Phase::FileSystem => "#905ad8",
        Phase::PageCache => "#1ba2bd",
        Phase::Throttle => "#cf362d",
        Phase::Tags => "#f39909",
        Phase::Queue => "#d8cf09",
        Phase::Device => "#1b7e48",
        Phase::LowerQueue => "#ab8700",
        Phase::LowerDevice => "#87e1ab",
        Phase::Completion => "#24cff3",
        Phase::Cpu => "#fc5ac6",
        Phase::Stopped => "#555555",
        Phase::Application => "#4848b4",
        Phase::IoWorker => "#903600",
        Phase::Server => "#0075a2",
        Phase::Blocked => "#7e7e7e",
        Phase::Store => "#fc7e7e",
        Phase::JvmPause => "#630090",
        Phase::Unobserved => "#b6b6b6",
    }
}

/// Colour of the layer with this name; none for one that has no bars.
pub fn colour_of(layer: &str) -> Option<&'static str> {
    Phase::ALL.into_iter().find(|phase| phase.words() == layer).map(colour)
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

fn open(height: f64, title: &str) -> String {
    format!(
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{0}\" \
         style=\"width:100%;font:{LETTERS}px sans-serif\"><title>{0}</title>",
        escape(title)
    )
}

fn bar(out: &mut String, x: f64, y: f64, width: f64, phase: Phase, ns: u64) {
    let _ = write!(
        out,
        "<rect x=\"{x:.2}\" y=\"{y:.1}\" width=\"{:.2}\" height=\"{:.0}\" fill=\"{}\">\
         <title>{} {}</title></rect>",
        width.max(0.3),
        ROW - 3.0,
        colour(phase),
        phase.words(),
        format::duration_ns(ns)
    );
}

fn label(out: &mut String, x: f64, y: f64, anchor: &str, text: &str) {
    let _ = write!(
        out,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" fill=\"currentColor\">{}</text>",
        escape(text)
    );
}

/// The slow I/Os of an episode, each a line of its phases on a common time axis.
pub fn episode(e: &EpisodeView) -> Option<String> {
    if e.picture.is_empty() {
        return None;
    }
    let height = HEAD + ROW * e.picture.len() as f64 + 4.0;
    let span = (e.end_ns - e.start_ns).max(1) as f64;
    let x = |ns: i64| LABELS + (ns - e.start_ns) as f64 / span * (WIDTH - LABELS - 8.0);
    let mut out = open(height, "slow I/Os of one episode by phase");
    for i in 0..=4 {
        let at = e.start_ns + (span * f64::from(i) / 4.0) as i64;
        let anchor = if i == 4 { "end" } else { "middle" };
        let text = format::duration_ns((at - e.start_ns) as u64);
        label(&mut out, x(at), 12.0, anchor, &text);
        let _ = write!(
            out,
            "<line x1=\"{0:.1}\" x2=\"{0:.1}\" y1=\"16\" y2=\"{height}\" stroke=\"currentColor\" \
             stroke-opacity=\".15\"/>",
            x(at)
        );
    }
    for (i, row) in e.picture.iter().enumerate() {
        let y = HEAD + ROW * i as f64;
        out.push_str("<g>");
        if let Some(words) = &row.in_front {
            let _ = write!(out, "<title>in front of it: {}</title>", escape(words));
        }
        label(&mut out, LABELS - 6.0, y + 10.0, "end", &row.label);
        out.push_str("</g>");
        for p in &row.segments {
            let ns = (p.to - p.from).max(0) as u64;
            bar(&mut out, x(p.from), y, x(p.to) - x(p.from), p.phase, ns);
        }
    }
    out.push_str("</svg>");
    Some(out)
}

/// Phases at some percentiles, each stack to its own full width.
pub fn stacks(it: &Explanation) -> Option<String> {
    if it.levels.is_empty() {
        return None;
    }
    let mut out = "<div class=\"phases\">".to_owned();
    it.levels.iter().for_each(|level| stack(&mut out, level));
    out.push_str("</div>");
    Some(out)
}

fn stack(out: &mut String, level: &PhaseLevel) {
    let time = format::duration_ns(level.ns);
    let text = escape(&format!("{} {} %: {time}", level.op.name(), level.p));
    let _ = write!(
        out,
        "<span>{text}</span><div class=\"stack\" role=\"img\" aria-label=\"{text}, by phase\">"
    );
    for (phase, ns) in Phase::ALL.map(|phase| (phase, level.phases.get(phase))) {
        if ns > 0 {
            let _ = write!(
                out,
                "<i style=\"flex-grow:{ns};background:{}\" title=\"{} {}\"></i>",
                colour(phase),
                phase.words(),
                format::duration_ns(ns)
            );
        }
    }
    out.push_str("</div>");
}

/// The phases that occur, with their colours.
pub fn legend(it: &Explanation) -> Vec<(&'static str, &'static str)> {
    let used = |phase: &Phase| {
        let mut rows = it.episodes.iter().flat_map(|e| e.picture.iter());
        rows.any(|r| r.segments.iter().any(|p| p.phase == *phase))
            || it.levels.iter().any(|l| l.phases.get(*phase) > 0)
    };
    let phases = Phase::ALL.into_iter().filter(used);
    phases.map(|p| (p.words(), colour(p))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::palette::eyes::{EYES, distance};

    #[test]
    fn text_cannot_leave_its_element() {
        assert_eq!(escape("<a b=\"&\">"), "&lt;a b=&quot;&amp;&quot;&gt;");
    }

    /// At 500 px the letters of a picture that shrinks with the page were of 7 px.
    #[test]
    fn labels_stay_readable_on_a_narrow_page() {
        let mut phases = taillight_explain::Phases::default();
        (phases.0[0], phases.0[1]) = (300, 700);
        let op = taillight_core::OpKind::Read;
        let mut out = String::new();
        stack(&mut out, &PhaseLevel { op, p: "99", ns: 1000, ios: 3, phases });
        assert!(
            out.starts_with("<span>read 99 %: 1.00 us</span>") && !out.contains("svg"),
            "{out}"
        );
        assert!(out.contains("flex-grow:300") && out.contains("flex-grow:700"), "{out}");
        let style = super::super::STYLE;
        let least = style.split_once(".wide > svg { min-width: ").and_then(|(_, rest)| {
            let (px, _) = rest.split_once("px")?;
            px.parse::<f64>().ok()
        });
        assert!(least.is_some_and(|px| px / WIDTH * LETTERS >= 10.0), "{least:?}");
    }

    #[test]
    fn layers_differ_for_every_eye_on_light_and_dark_pages() {
        let colours = Phase::ALL.map(|phase| (phase.words(), colour(phase)));
        let cards = [("light", "#ffffff"), ("dark", "#1c2024")];
        assert!(
            cards.iter().all(|(_, card)| super::super::STYLE.contains(&format!("--card: {card}")))
        );
        for (eye, _, least) in &EYES {
            for (i, (a, one)) in colours.iter().enumerate() {
                for (b, other) in colours[..i].iter().chain(&cards) {
                    let found = distance(eye, one, other);
                    assert!(found >= *least, "{a} {one}, {b} {other}: {found:.3}");
                }
            }
        }
        assert_eq!(colour_of("page cache"), Some(colour(Phase::PageCache)));
    }
}
