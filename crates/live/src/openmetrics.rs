//! Metric families as text: OpenMetrics 1.0, or the older text format of Prometheus.

use std::fmt::Write;

use crate::metrics::{Family, FamilyKind, MetricSample, SampleValue};

/// Which text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextFormat {
    OpenMetrics,
    /// Version 0.0.4.
    Prometheus,
}

/// The families as text. `at_s` stamps every sample, seconds since the epoch, where one is given.
pub fn text(families: &[Family], format: TextFormat, at_s: Option<f64>) -> String {
    let mut out = String::new();
    for family in families {
        head(&mut out, family, format);
        samples(&mut out, family, at_s);
    }
    if format == TextFormat::OpenMetrics {
        out.push_str("# EOF\n");
    }
    out
}

/// Name, type, unit and meaning of a family.
pub fn head(out: &mut String, family: &Family, format: TextFormat) {
    let name = match format {
        TextFormat::OpenMetrics => family.name.to_owned(),
        TextFormat::Prometheus => family.sample_name(),
    };
    let kind = match family.kind {
        FamilyKind::Counter => "counter",
        FamilyKind::Gauge => "gauge",
        FamilyKind::Histogram => "histogram",
    };
    let _ = writeln!(out, "# TYPE {name} {kind}");
    if let Some(unit) = family.unit.filter(|_| format == TextFormat::OpenMetrics) {
        let _ = writeln!(out, "# UNIT {name} {unit}");
    }
    let _ = writeln!(out, "# HELP {name} {}", escape(family.help));
}

/// The samples of a family.
pub fn samples(out: &mut String, family: &Family, at_s: Option<f64>) {
    for sample in &family.samples {
        match &sample.value {
            SampleValue::Number(value) => {
                line(out, &family.sample_name(), (sample, None), *value, at_s);
            }
            SampleValue::Histogram(h) => {
                let name = format!("{}_bucket", family.name);
                for (edge, count) in &h.classic {
                    line(out, &name, (sample, Some(&number(*edge))), *count as f64, at_s);
                }
                line(out, &name, (sample, Some("+Inf")), h.count as f64, at_s);
                let of = |what: &str| format!("{}_{what}", family.name);
                line(out, &of("count"), (sample, None), h.count as f64, at_s);
                line(out, &of("sum"), (sample, None), h.sum, at_s);
            }
        }
    }
}

fn line(
    out: &mut String,
    name: &str,
    (sample, le): (&MetricSample, Option<&str>),
    value: f64,
    at_s: Option<f64>,
) {
    out.push_str(name);
    let labels = sample.labels.iter().map(|(k, v)| (*k, v.as_str()));
    let mut before = '{';
    for (key, value) in labels.chain(le.map(|le| ("le", le))) {
        let _ = write!(out, "{before}{key}=\"{}\"", escape(value));
        before = ',';
    }
    if before == ',' {
        out.push('}');
    }
    let _ = write!(out, " {}", number(value));
    if let Some(at) = at_s {
        let _ = write!(out, " {at:.3}");
    }
    out.push('\n');
}

/// A number; OpenMetrics wants a point in every edge of a bucket. Exponents have two digits, as those
/// that Prometheus makes of the same edges in protobuf: they are labels.
pub fn number(value: f64) -> String {
    let text = format!("{value:?}");
    match text.split_once("e-") {
        Some((digits, exponent)) => format!("{digits}e-{exponent:0>2}"),
        None => text,
    }
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::HistogramValue;

    #[test]
    fn both_texts_are_as_their_specifications_say() {
        let labels = vec![("op", "a\"b\\c\n".to_owned())];
        let histogram = HistogramValue {
            count: 9,
            sum: 0.5,
            classic: vec![(1e-5, 2), (1.0, 8)],
            native: crate::native::NativeHistogram::default(),
        };
        let value = SampleValue::Histogram(histogram);
        let families = [
            Family::new("x", FamilyKind::Counter, "What.", 3.0),
            Family {
                unit: Some("seconds"),
                samples: vec![MetricSample { labels, value }],
                ..Family::new("y_seconds", FamilyKind::Histogram, "How long.", 0.0)
            },
        ];
        let om = text(&families, TextFormat::OpenMetrics, None);
        assert_eq!(
            om,
            "# TYPE x counter\n# HELP x What.\nx_total 3.0\n\
             # TYPE y_seconds histogram\n# UNIT y_seconds seconds\n# HELP y_seconds How long.\n\
             y_seconds_bucket{op=\"a\\\"b\\\\c\\n\",le=\"1e-05\"} 2.0\n\
             y_seconds_bucket{op=\"a\\\"b\\\\c\\n\",le=\"1.0\"} 8.0\n\
             y_seconds_bucket{op=\"a\\\"b\\\\c\\n\",le=\"+Inf\"} 9.0\n\
             y_seconds_count{op=\"a\\\"b\\\\c\\n\"} 9.0\ny_seconds_sum{op=\"a\\\"b\\\\c\\n\"} 0.5\n# EOF\n"
        );
        let old = text(&families[..1], TextFormat::Prometheus, Some(1.5));
        assert_eq!(old, "# TYPE x_total counter\n# HELP x_total What.\nx_total 3.0 1.500\n");
    }
}
