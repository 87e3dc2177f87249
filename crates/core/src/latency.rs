//! The kinds of latency an I/O can have, with their names, definitions and formulas in one table, and
//! [`LatencyMap`], one value for each kind: for recorder, histogram log, summary, tables and charts. A new kind is a
//! variant, a row of `TABLE`, its place in `ALL` and `each_of`, and the code that takes its stamp.

use std::fmt;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{self, Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::clock::Stamp;
use crate::record::Record;

/// What is timed. The order is that of `totals` in `summary.json`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LatencyKind {
    Service,
    Response,
    Wait,
    Sync,
    EndToEnd,
    BeforeIssue,
    AfterIssue,
    FirstByte,
}

struct KindProperties {
    kind: LatencyKind,
    name: &'static str,
    words: &'static str,
    definition: &'static str,
    logged: bool,
    of: fn(&Record) -> Option<u64>,
}

const TABLE: [KindProperties; LatencyKind::COUNT] = [
    KindProperties {
        kind: LatencyKind::Service,
        name: "service",
        words: "service",
        definition: "complete - submit.",
        logged: true,
        of: |r| Some(between(r.submit, r.complete)),
    },
    KindProperties {
        kind: LatencyKind::Response,
        name: "response",
        words: "response",
        definition: "complete - intended; open loop only (a rate, or recorded times).",
        logged: true,
        of: |r| r.intended.map(|intended| between(intended, r.complete)),
    },
    KindProperties {
        kind: LatencyKind::Wait,
        name: "wait",
        words: "waiting to be sent",
        definition: "submit - intended; open loop only (a rate, or recorded times).",
        logged: false,
        of: |r| r.intended.map(|intended| between(intended, r.submit)),
    },
    KindProperties {
        kind: LatencyKind::Sync,
        name: "sync",
        words: "sync call",
        definition: "The sync inside writes; writes with a sync only.",
        logged: false,
        of: |r| r.sync_ns,
    },
    KindProperties {
        kind: LatencyKind::EndToEnd,
        name: "end_to_end",
        words: "end to end",
        definition: "complete - origin, the writer's stamp; reads of stamped data only.",
        logged: true,
        of: |r| r.origin.map(|origin| between(origin, r.complete)),
    },
    KindProperties {
        kind: LatencyKind::BeforeIssue,
        name: "queue",
        words: "before issue",
        definition: "issued - submit: waiting in the tool for the rest of the batch, and the \
            kernel's part of the call that submits it; queued drivers only.",
        logged: false,
        of: |r| r.issued.map(|issued| between(r.submit, issued)),
    },
    KindProperties {
        kind: LatencyKind::AfterIssue,
        name: "after_issue",
        words: "after issue",
        definition: "complete - issued; queued drivers only.",
        logged: false,
        of: |r| r.issued.map(|issued| between(issued, r.complete)),
    },
    KindProperties {
        kind: LatencyKind::FirstByte,
        name: "first_byte",
        words: "first byte",
        definition: "first - submit, up to the first byte of the answer's body; only of gets and \
            lists that were captured, of drivers that can know it. Its count says how many.",
        logged: false,
        of: |r| r.first.map(|first| between(r.submit, first)),
    },
];

// Properties are found by discriminant: the table stands in the order of the enum.
const _: () = {
    let mut i = 0;
    while i < TABLE.len() {
        assert!(TABLE[i].kind as usize == i);
        i += 1;
    }
};

const NAMES: [&str; LatencyKind::COUNT] = {
    let mut names = [""; LatencyKind::COUNT];
    let mut i = 0;
    while i < names.len() {
        names[i] = TABLE[i].name;
        i += 1;
    }
    names
};

impl LatencyKind {
    const COUNT: usize = LatencyKind::ALL.len();
    /// Every kind, in order.
    pub const ALL: [LatencyKind; 8] = [
        LatencyKind::Service,
        LatencyKind::Response,
        LatencyKind::Wait,
        LatencyKind::Sync,
        LatencyKind::EndToEnd,
        LatencyKind::BeforeIssue,
        LatencyKind::AfterIssue,
        LatencyKind::FirstByte,
    ];

    #[inline]
    const fn properties(self) -> &'static KindProperties {
        &TABLE[self as usize]
    }
    /// The name in JSON and in tags of the histogram log.
    pub fn name(self) -> &'static str {
        self.properties().name
    }
    pub fn from_name(name: &str) -> Option<LatencyKind> {
        LatencyKind::ALL.into_iter().find(|k| k.name() == name)
    }
    /// In words, for legends.
    pub fn words(self) -> &'static str {
        self.properties().words
    }
    /// How it is measured and when it exists.
    pub fn definition(self) -> &'static str {
        self.properties().definition
    }
    /// Whether intervals and the histogram log hold it; the others need the capture.
    pub fn logged(self) -> bool {
        self.properties().logged
    }
    /// Of one I/O, ns; `None` where the I/O has no such latency. Never below zero: stamps of two
    /// clocks may cross.
    #[inline]
    pub fn of(self, record: &Record) -> Option<u64> {
        (self.properties().of)(record)
    }
    /// Hands each kind of latency that the I/O has to `each`, with its duration in ns, in order. Written out call by
    /// call: the compiler inlines these, but not a loop over the table.
    #[inline(always)]
    pub fn each_of(record: &Record, mut each: impl FnMut(LatencyKind, u64)) {
        let mut one = |kind: LatencyKind| {
            if let Some(ns) = kind.of(record) {
                each(kind, ns);
            }
        };
        one(LatencyKind::Service);
        one(LatencyKind::Response);
        one(LatencyKind::Wait);
        one(LatencyKind::Sync);
        one(LatencyKind::EndToEnd);
        one(LatencyKind::BeforeIssue);
        one(LatencyKind::AfterIssue);
        one(LatencyKind::FirstByte);
    }
}

/// `to - from`, ns, never below zero.
#[inline]
fn between(from: Stamp, to: Stamp) -> u64 {
    to.0.saturating_sub(from.0).max(0) as u64
}

/// One value for each kind of latency that a set of I/Os has. Every I/O has a service time, so that
/// kind is always there. In JSON it is flattened into the object around it, one field a kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LatencyMap<T> {
    pub service: T,
    /// By discriminant, `Service` left out.
    others: [Option<T>; LatencyKind::COUNT - 1],
}

impl<T> LatencyMap<T> {
    /// A map of the service time only.
    pub fn new(service: T) -> LatencyMap<T> {
        LatencyMap { service, others: Default::default() }
    }

    #[inline]
    pub fn get(&self, kind: LatencyKind) -> Option<&T> {
        match (kind as usize).checked_sub(1) {
            None => Some(&self.service),
            Some(i) => self.others[i].as_ref(),
        }
    }

    #[inline]
    pub fn get_mut(&mut self, kind: LatencyKind) -> Option<&mut T> {
        match (kind as usize).checked_sub(1) {
            None => Some(&mut self.service),
            Some(i) => self.others[i].as_mut(),
        }
    }

    #[inline]
    pub fn get_or_insert_with(&mut self, kind: LatencyKind, new: impl FnOnce() -> T) -> &mut T {
        match (kind as usize).checked_sub(1) {
            None => &mut self.service,
            Some(i) => self.others[i].get_or_insert_with(new),
        }
    }

    /// Sets the value of a kind.
    pub fn insert(&mut self, kind: LatencyKind, value: T) {
        match (kind as usize).checked_sub(1) {
            None => self.service = value,
            Some(i) => self.others[i] = Some(value),
        }
    }

    /// Takes a kind out; the service time stays.
    pub fn remove(&mut self, kind: LatencyKind) -> Option<T> {
        let i = (kind as usize).checked_sub(1)?;
        self.others[i].take()
    }

    /// The kind that ceilings and verdicts use: response time where it is there (with a schedule), else service time.
    pub fn main_kind(&self) -> LatencyKind {
        self.get(LatencyKind::Response).map_or(LatencyKind::Service, |_| LatencyKind::Response)
    }

    /// The value of [`LatencyMap::main_kind`].
    pub fn main(&self) -> &T {
        self.get(self.main_kind()).unwrap_or(&self.service)
    }

    /// The kinds that are there with their values, in order.
    pub fn iter(&self) -> impl Iterator<Item = (LatencyKind, &T)> {
        let all = LatencyKind::ALL.into_iter();
        all.filter_map(|kind| Some((kind, self.get(kind)?)))
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = (LatencyKind, &mut T)> {
        let values = std::iter::once(Some(&mut self.service))
            .chain(self.others.iter_mut().map(Option::as_mut));
        LatencyKind::ALL.into_iter().zip(values).filter_map(|(kind, value)| Some((kind, value?)))
    }

    /// The same kinds with values made of these.
    pub fn map<U>(self, mut make: impl FnMut(LatencyKind, T) -> U) -> LatencyMap<U> {
        let service = make(LatencyKind::Service, self.service);
        let mut kinds = LatencyKind::ALL.into_iter().skip(1);
        LatencyMap {
            service,
            others: self.others.map(|value| kinds.next().zip(value).map(|(kind, v)| make(kind, v))),
        }
    }

    /// Adds `other`: `add` joins the kinds that both have, kinds of `other` alone are copied.
    pub fn merge(&mut self, other: &LatencyMap<T>, mut add: impl FnMut(&mut T, &T))
    where
        T: Clone,
    {
        for (kind, theirs) in other.iter() {
            match self.get_mut(kind) {
                Some(mine) => add(mine, theirs),
                None => self.insert(kind, theirs.clone()),
            }
        }
    }
}

impl<T: Serialize> Serialize for LatencyMap<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (kind, value) in self.iter() {
            map.serialize_entry(kind.name(), value)?;
        }
        map.end()
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for LatencyMap<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_struct("LatencyMap", &NAMES, MapVisitor(PhantomData))
    }
}

struct MapVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for MapVisitor<T> {
    type Value = LatencyMap<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("latencies by kind")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<LatencyMap<T>, A::Error> {
        let mut service = None;
        let mut others: [Option<T>; LatencyKind::COUNT - 1] = Default::default();
        while let Some(name) = map.next_key::<String>()? {
            match NAMES.iter().position(|n| *n == name) {
                Some(0) => service = Some(map.next_value()?),
                Some(i) => others[i - 1] = map.next_value()?,
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        let service = service.ok_or_else(|| de::Error::missing_field(NAMES[0]))?;
        Ok(LatencyMap { service, others })
    }
}

impl<T: JsonSchema> JsonSchema for LatencyMap<T> {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> std::borrow::Cow<'static, str> {
        format!("LatencyMap_of_{}", T::schema_name()).into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut properties = serde_json::Map::new();
        for kind in LatencyKind::ALL {
            let mut schema = match kind {
                LatencyKind::Service => generator.subschema_for::<T>(),
                _ => generator.subschema_for::<Option<T>>(),
            };
            schema.insert("description".into(), kind.definition().into());
            properties.insert(kind.name().into(), schema.to_value());
        }
        schemars::json_schema!({
            "type": "object",
            "properties": properties,
            "required": [LatencyKind::Service.name()],
        })
    }
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};

    use super::*;
    use crate::op::OpKind;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Surrounding {
        count: u64,
        #[serde(flatten)]
        latencies: LatencyMap<u64>,
        #[serde(default)]
        depth: Option<f64>,
    }

    #[test]
    fn an_io_hands_out_the_kinds_it_has() {
        let all = Record {
            intended: Some(Stamp(1)),
            origin: Some(Stamp(2)),
            submit: Stamp(5),
            issued: Some(Stamp(9)),
            first: Some(Stamp(20)),
            complete: Stamp(100),
            sync_ns: Some(7),
            ..Record::default()
        };
        for record in [all, Record { origin: None, issued: None, ..all }, Record::default()] {
            let mut found = Vec::new();
            LatencyKind::each_of(&record, |kind, ns| found.push((kind, ns)));
            let kinds = LatencyKind::ALL.into_iter();
            let wanted: Vec<_> = kinds.filter_map(|k| Some((k, k.of(&record)?))).collect();
            assert_eq!(found, wanted);
        }
    }

    #[test]
    fn a_map_is_one_field_a_kind_of_the_object_around_it() {
        let mut latencies = LatencyMap::new(u64::MAX);
        latencies.insert(LatencyKind::BeforeIssue, 2);
        latencies.insert(LatencyKind::Wait, 3);
        let around = Surrounding { count: 1, latencies, depth: Some(0.5) };
        let text = serde_json::to_string(&around).unwrap();
        assert_eq!(
            text,
            r#"{"count":1,"service":18446744073709551615,"wait":3,"queue":2,"depth":0.5}"#
        );
        assert_eq!(serde_json::from_str::<Surrounding>(&text).unwrap(), around);
        let old = r#"{"count":1,"service":5,"response":null,"later":7}"#;
        let read: Surrounding = serde_json::from_str(old).unwrap();
        assert_eq!(read.latencies, LatencyMap::new(5));
        for wrong in [
            r#"{"count":1}"#,
            r#"{"count":1,"service":null}"#,
            r#"{"count":1,"service":5,"wait":"long"}"#,
        ] {
            assert!(serde_json::from_str::<Surrounding>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn each_kind_is_computed_from_its_stamps() {
        let record = Record {
            op: OpKind::Get,
            key: Some(1),
            size: 100,
            intended: Some(Stamp(1_000)),
            origin: Some(Stamp(500)),
            submit: Stamp(1_200),
            issued: Some(Stamp(1_230)),
            first: Some(Stamp(1_700)),
            complete: Stamp(2_000),
            sync_ns: Some(77),
            ..Record::default()
        };
        let of = LatencyKind::ALL.map(|kind| (kind.name(), kind.of(&record)));
        let expected = [
            ("service", 800),
            ("response", 1000),
            ("wait", 200),
            ("sync", 77),
            ("end_to_end", 1500),
            ("queue", 30),
            ("after_issue", 770),
            ("first_byte", 500),
        ];
        assert_eq!(of, expected.map(|(name, ns)| (name, Some(ns))));
        let bare = Record {
            intended: None,
            origin: None,
            issued: None,
            first: None,
            sync_ns: None,
            ..record
        };
        let present = LatencyKind::ALL.map(|kind| kind.of(&bare).is_some());
        assert_eq!(present.iter().filter(|p| **p).count(), 1);
        let crossed = Record { origin: Some(Stamp(9_000)), ..record };
        assert_eq!(LatencyKind::EndToEnd.of(&crossed), Some(0));
    }

    #[test]
    fn maps_merge_kind_by_kind() {
        let mut one = LatencyMap::new(1);
        one.insert(LatencyKind::Wait, 10);
        let mut two = LatencyMap::new(2);
        two.insert(LatencyKind::Wait, 20);
        two.insert(LatencyKind::Sync, 30);
        one.merge(&two, |a, b| *a += b);
        let all: Vec<_> = one.iter().map(|(kind, v)| (kind, *v)).collect();
        assert_eq!(
            all,
            [(LatencyKind::Service, 3), (LatencyKind::Wait, 30), (LatencyKind::Sync, 30)]
        );
        assert_eq!((*one.main(), one.remove(LatencyKind::Service)), (3, None));
        let named = one.map(|kind, v| format!("{}={v}", kind.name()));
        assert_eq!(named.get(LatencyKind::Sync).map(String::as_str), Some("sync=30"));
        assert_eq!(LatencyKind::from_name("queue"), Some(LatencyKind::BeforeIssue));
    }
}
