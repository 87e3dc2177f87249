//! Metric families as Prometheus' protobuf (`io.prometheus.client`): of the formats that are served, the one with
//! native histograms.

use prost::Message;

use crate::metrics::{Family, FamilyKind, HistogramValue, SampleValue};
use crate::native::{SCHEMA, ZERO_THRESHOLD};

/// What the answer's `Content-Type` is.
pub const CONTENT_TYPE: &str = "application/vnd.google.protobuf; \
    proto=io.prometheus.client.MetricFamily; encoding=delimited";

#[derive(Clone, PartialEq, Message)]
struct FamilyMessage {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    help: String,
    #[prost(int32, tag = "3")]
    kind: i32,
    #[prost(message, repeated, tag = "4")]
    metrics: Vec<MetricMessage>,
}

#[derive(Clone, PartialEq, Message)]
struct MetricMessage {
    #[prost(message, repeated, tag = "1")]
    labels: Vec<LabelMessage>,
    #[prost(message, optional, tag = "2")]
    gauge: Option<NumberMessage>,
    #[prost(message, optional, tag = "3")]
    counter: Option<NumberMessage>,
    #[prost(message, optional, tag = "7")]
    histogram: Option<HistogramMessage>,
}

#[derive(Clone, PartialEq, Message)]
struct LabelMessage {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Clone, PartialEq, Message)]
struct NumberMessage {
    #[prost(double, tag = "1")]
    value: f64,
}

#[derive(Clone, PartialEq, Message)]
struct HistogramMessage {
    #[prost(uint64, tag = "1")]
    count: u64,
    #[prost(double, tag = "2")]
    sum: f64,
    #[prost(message, repeated, tag = "3")]
    buckets: Vec<BucketMessage>,
    #[prost(sint32, tag = "5")]
    schema: i32,
    #[prost(double, tag = "6")]
    zero_threshold: f64,
    #[prost(uint64, tag = "7")]
    zero_count: u64,
    #[prost(message, repeated, tag = "12")]
    positive_spans: Vec<SpanMessage>,
    #[prost(sint64, repeated, tag = "13")]
    positive_deltas: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
struct BucketMessage {
    #[prost(uint64, tag = "1")]
    cumulative_count: u64,
    #[prost(double, tag = "2")]
    upper_bound: f64,
}

#[derive(Clone, PartialEq, Message)]
struct SpanMessage {
    #[prost(sint32, tag = "1")]
    offset: i32,
    #[prost(uint32, tag = "2")]
    length: u32,
}

/// The families, each behind its length.
pub fn encode(families: &[Family]) -> Vec<u8> {
    families.iter().flat_map(|f| message(f).encode_length_delimited_to_vec()).collect()
}

fn message(family: &Family) -> FamilyMessage {
    let metric = |sample: &crate::metrics::MetricSample| {
        let label = |(name, value): &(&'static str, String)| LabelMessage {
            name: (*name).to_owned(),
            value: value.clone(),
        };
        let labels = sample.labels.iter().map(label).collect();
        let mut metric = MetricMessage { labels, ..MetricMessage::default() };
        match (&sample.value, family.kind) {
            (SampleValue::Histogram(h), _) => metric.histogram = Some(histogram(h)),
            (SampleValue::Number(value), FamilyKind::Counter) => {
                metric.counter = Some(NumberMessage { value: *value });
            }
            (SampleValue::Number(value), _) => metric.gauge = Some(NumberMessage { value: *value }),
        }
        metric
    };
    FamilyMessage {
        name: family.sample_name(),
        help: family.help.to_owned(),
        kind: match family.kind {
            FamilyKind::Counter => 0,
            FamilyKind::Gauge => 1,
            FamilyKind::Histogram => 4,
        },
        metrics: family.samples.iter().map(metric).collect(),
    }
}

fn histogram(h: &HistogramValue) -> HistogramMessage {
    let (spans, positive_deltas) = h.native.spans();
    let bucket =
        |(edge, count): &(f64, u64)| BucketMessage { cumulative_count: *count, upper_bound: *edge };
    HistogramMessage {
        count: h.count,
        sum: h.sum,
        buckets: h.classic.iter().map(bucket).collect(),
        schema: SCHEMA,
        zero_threshold: ZERO_THRESHOLD,
        zero_count: h.native.zero,
        positive_spans: spans
            .into_iter()
            .map(|(offset, length)| SpanMessage { offset, length })
            .collect(),
        positive_deltas,
    }
}
