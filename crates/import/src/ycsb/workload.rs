//! Properties as YCSB's client and core workload understand them, with their defaults, in the types of a job file,
//! which `job` writes. The number of records and the end of the transactions must be given.

use std::str::FromStr;

use num_integer::gcd;
use taillight_core::job::{
    AccessForm, ArrivalForm, ArrivalKind, ArrivalTable, BlockSizeForm, MixForm,
};
use taillight_core::keys::{KEY_MAX, KeyNaming};
use taillight_core::plan::{
    Access, AccessKind, BlockSize, BlockSizePart, Hot, Keys, MixPart, Reach, Scan, ScanSpread,
    SizeRange, SizeSpread, Values,
};
use taillight_core::units::{ByteSize, Rate, RateUnit, Span};
use taillight_core::{Error, OpKind, Result};

use super::known::{self, PROPERTIES};
use super::lengths;
use super::properties::Properties;
use crate::effect::Effect;

/// Digits after the point that weights keep.
const DIGITS: i32 = 9;
/// Most zipfian lengths, which are written out one by one; more are refused.
const MOST_LENGTHS: u32 = 4096;

/// The store that the properties of a binding name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreBinding {
    pub driver: &'static str,
    pub path: Option<String>,
    /// Longest wait for an answer.
    pub timeout: Option<Span>,
}

/// A workload of YCSB's core, understood.
#[derive(Debug, Clone)]
pub struct CoreWorkload {
    /// End of the transactions, at least one of these two; the first one reached counts.
    pub operations: Option<u64>,
    pub seconds: Option<u64>,
    pub threads: u32,
    pub arrival: Option<ArrivalForm>,
    pub mix: MixForm,
    pub access: AccessForm,
    /// Sizes of a field.
    pub block_size: BlockSizeForm,
    /// The records that the load inserts.
    pub keys: Keys,
    pub value: Values,
    pub scan: Scan,
    /// None where no property names a store: then `job` takes one in memory.
    pub store: Option<StoreBinding>,
    pub notes: Vec<String>,
}

/// Judges every property and reads those that mean something. Errors: `Usage`, naming property and
/// place.
pub fn workload(p: &Properties) -> Result<CoreWorkload> {
    let r = PropertyReader { p };
    let mut notes = r.check_names()?;
    let (insert_start, insert_count) = r.records()?;
    let records = insert_start + insert_count;
    let split = insert_start != 0 || r.number("recordcount", 0)? != records;
    let mix = r.mix(&mut notes)?;
    let access = r.access(split)?;
    if split && mix.iter().any(|part| part.op == OpKind::Insert) {
        return Err(r.error(
            "insertproportion",
            "with a part of the records (insertstart, insertcount) every YCSB client would insert \
             the same keys from recordcount on",
            "set insertproportion=0 for clients that share the records",
        ));
    }
    let seconds = Some(r.number("maxexecutiontime", 0u64)?).filter(|s| *s > 0);
    let operations = Some(r.number("operationcount", 0u64)?).filter(|n| *n > 0);
    if seconds.is_some() {
        notes.push(
            "maxexecutiontime ends the transactions; the load always inserts every record".into(),
        );
    }
    if operations.is_none() && seconds.is_none() {
        return Err(r.error(
            "operationcount",
            "nothing ends the transactions",
            "give operationcount or maxexecutiontime above 0",
        ));
    }
    let block_size = r.lengths()?;
    let integrity = r.boolean("dataintegrity", false)?;
    let one_length = matches!(block_size, BlockSizeForm::Sizes(BlockSize::Fixed(_)));
    if integrity && !one_length {
        return Err(r.error(
            "dataintegrity",
            "it needs fields of one length, here as in YCSB",
            "set fieldlengthdistribution=constant, or dataintegrity=false",
        ));
    }
    Ok(CoreWorkload {
        operations,
        seconds,
        threads: r.at_least("threadcount", 1, 1)?,
        arrival: r.arrival()?,
        mix: MixForm(mix),
        access,
        block_size,
        keys: Keys {
            count: insert_count,
            start: insert_start,
            naming: match r.text("insertorder").is_none_or(|t| t == "hashed") {
                true => KeyNaming::Hashed,
                false => KeyNaming::Ordered,
            },
            digits: r.digits()?,
            ..Keys::default()
        },
        value: Values {
            fields: r.at_least("fieldcount", 10, 1)?,
            prefix: r.text("fieldnameprefix").unwrap_or("field").to_owned(),
            read_all: r.boolean("readallfields", true)?,
            write_all: r.boolean("writeallfields", false)?,
            integrity,
        },
        scan: r.scan()?,
        store: r.store()?,
        notes,
    })
}

struct PropertyReader<'a> {
    p: &'a Properties,
}

impl PropertyReader<'_> {
    fn text(&self, name: &str) -> Option<&str> {
        self.p.get(name).map(|v| v.text.as_str())
    }

    /// A complaint about a property, with its place if it was given.
    fn error(&self, name: &str, what: impl AsRef<str>, hint: &str) -> Error {
        Error::usage(format!("`{name}`: {}", what.as_ref()))
            .with_some("at", self.p.get(name).map(|value| &value.at))
            .hint(hint)
    }

    /// Refuses properties that are unknown or have no equivalent. Returns a note, with the reason, for each one that
    /// changes nothing here.
    fn check_names(&self) -> Result<Vec<String>> {
        let mut notes = Vec::new();
        for (name, value) in self.p.iter() {
            match PROPERTIES.effect(name) {
                Some(Effect::Same(why)) => notes.push(format!("{}, {name}: {why}", value.at)),
                Some(Effect::Refused { changes, .. } | Effect::Only { changes, .. }) => {
                    return Err(self.error(name, changes, "take the line out"));
                }
                Some(Effect::Mapped | Effect::Becomes(_)) => {}
                None if known::is_binding(name) => {
                    return Err(self.error(
                        name,
                        "it belongs to one of YCSB's database bindings, which are not used here",
                        "take the line out, and describe the store with --driver, --path and \
                         --set target.options.NAME=VALUE (`taillight drivers` lists them)",
                    ));
                }
                None => {
                    let hint = match PROPERTIES.nearest(name) {
                        Some(near) => format!("did you mean `{near}`?"),
                        None => "take the line out; docs/ycsb.md lists what is known".to_owned(),
                    };
                    return Err(self.error(name, "YCSB's core has no such property", &hint));
                }
            }
        }
        self.only_core()?;
        Ok(notes)
    }

    /// Refuses another workload than YCSB's core, and repeats of failed inserts, which would hide the failures.
    fn only_core(&self) -> Result<()> {
        if let Some(class) = self.text("workload")
            && class.rsplit('.').next() != Some("CoreWorkload")
        {
            return Err(self.error(
                "workload",
                format!("`{class}` is another workload than YCSB's core"),
                "only CoreWorkload can be imported",
            ));
        }
        if self.number("core_workload_insertion_retry_limit", 0u64)? > 0 {
            return Err(self.error(
                "core_workload_insertion_retry_limit",
                "failed inserts would be repeated, their failures hidden in one latency",
                "set it to 0: every failure is counted and shown",
            ));
        }
        Ok(())
    }

    fn number<T: FromStr>(&self, name: &str, default: T) -> Result<T> {
        let Some(text) = self.text(name) else {
            return Ok(default);
        };
        text.parse().map_err(|_| {
            self.error(
                name,
                format!("`{text}` is not a whole number that fits"),
                "write a number without unit, 0 or more",
            )
        })
    }

    fn at_least(&self, name: &str, default: u32, least: u32) -> Result<u32> {
        let n = self.number(name, default)?;
        match n >= least {
            true => Ok(n),
            false => Err(self.error(name, format!("{n} is too few"), "give at least 1")),
        }
    }

    fn boolean(&self, name: &str, default: bool) -> Result<bool> {
        match self.text(name).map(str::to_ascii_lowercase).as_deref() {
            None => Ok(default),
            Some("true") => Ok(true),
            Some("false") => Ok(false),
            Some(other) => Err(self.error(
                name,
                format!("`{other}` is neither true nor false (YCSB would take it as false)"),
                "write true or false",
            )),
        }
    }

    fn one_of(&self, name: &str, words: &[&'static str]) -> Result<&'static str> {
        let text = self.text(name).unwrap_or(words[0]);
        words.iter().find(|w| **w == text).copied().ok_or_else(|| {
            let hint = format!("write one of: {}", words.join(", "));
            self.error(name, format!("`{text}` is not known"), &hint)
        })
    }

    fn share(&self, name: &str, default: f64, most: f64) -> Result<f64> {
        let Some(text) = self.text(name) else {
            return Ok(default);
        };
        let value: Option<f64> = text.parse().ok();
        value.filter(|v| v.is_finite() && *v >= 0.0 && *v <= most).ok_or_else(|| {
            let what = format!("`{text}` is not a number from 0 to {most}");
            self.error(name, what, "write a decimal like 0.95")
        })
    }

    /// A number above 0: where none at all would be no distribution.
    fn above_zero(&self, name: &str, default: f64, most: f64) -> Result<f64> {
        let value = self.share(name, default, most)?;
        match value > 0.0 {
            true => Ok(value),
            false => Err(self.error(
                name,
                "0 would be no distribution",
                "give a value above 0, or another requestdistribution",
            )),
        }
    }

    /// Digits of a key number, `user` before them.
    fn digits(&self) -> Result<u32> {
        let most = (KEY_MAX - "user".len()) as u32;
        match self.number("zeropadding", 1)? {
            n if n <= most => Ok(n),
            n => Err(self.error(
                "zeropadding",
                format!("keys of {n} digits are too long"),
                &format!("give at most {most}"),
            )),
        }
    }

    /// Percent of the requests, neither none nor all of them.
    fn percentile(&self) -> Result<f64> {
        let name = "exponential.percentile";
        let value = self.above_zero(name, 95.0, 100.0)?;
        match value < 100.0 {
            true => Ok(value),
            false => Err(self.error(
                name,
                "an exponential distribution has no last value: 100 % reach back without end",
                "give a value below 100, like 95",
            )),
        }
    }

    /// A shortest and a longest.
    fn range(&self, min: &str, min_is: u32, max: &str, max_is: u32) -> Result<(u32, u32)> {
        let (low, high) = (self.at_least(min, min_is, 1)?, self.at_least(max, max_is, 1)?);
        match low <= high {
            true => Ok((low, high)),
            false => Err(self.error(min, format!("{low} is above {max}={high}"), "swap them")),
        }
    }

    /// First record and number of records of this client.
    fn records(&self) -> Result<(u64, u64)> {
        let records: u64 = self.number("recordcount", 0)?;
        if records == 0 {
            return Err(self.error(
                "recordcount",
                "it is not given (YCSB would take 2147483647)",
                "give the number of records, like -p recordcount=1000000",
            ));
        }
        let start: u64 = self.number("insertstart", 0)?;
        let count = self.number("insertcount", records.saturating_sub(start))?;
        let ends = start.checked_add(count).filter(|end| *end <= records);
        if ends.is_none() || start >= records {
            return Err(self.error(
                "insertstart",
                format!("{start} and insertcount={count} go beyond recordcount={records}"),
                "recordcount is the total over all clients, at least insertstart + insertcount",
            ));
        }
        if count == 0 {
            return Err(self.error(
                "insertcount",
                "0 records: there would be nothing to read",
                "leave it out",
            ));
        }
        Ok((start, count))
    }

    /// Whole weights that stand to each other as the proportions do.
    fn mix(&self, notes: &mut Vec<String>) -> Result<Vec<MixPart>> {
        let parts = [
            ("readproportion", OpKind::Get, 0.95),
            ("updateproportion", OpKind::Update, 0.05),
            ("insertproportion", OpKind::Insert, 0.0),
            ("scanproportion", OpKind::Scan, 0.0),
            ("readmodifywriteproportion", OpKind::Rmw, 0.0),
        ];
        let mut shares = Vec::new();
        for (name, op, default) in parts {
            let share = self.share(name, default, 1e9)?;
            if share > 0.0 {
                shares.push((op, share));
            }
        }
        let largest = shares.iter().map(|(_, s)| *s).fold(0.0, f64::max);
        if largest == 0.0 {
            return Err(self.error(
                "readproportion",
                "all proportions are 0: there is nothing to do",
                "give at least one of the proportions a value above 0",
            ));
        }
        let fits = |digits: &i32| largest * 10f64.powi(*digits) < f64::from(u32::MAX);
        let digits = (0..=DIGITS).rev().find(fits).unwrap_or(0);
        let scale = 10f64.powi(digits);
        let whole = |s: f64| (s * scale).round().max(1.0);
        if shares.iter().any(|(_, s)| (s * scale - whole(*s)).abs() > 1e-3) {
            notes.push(format!("the proportions are rounded to {digits} digits after the point"));
        }
        let weights: Vec<_> = shares.iter().map(|(op, s)| (*op, whole(*s) as u32)).collect();
        let common = weights.iter().fold(0, |d, (_, w)| gcd(d, *w)).max(1);
        let part = |(op, weight)| MixPart { op, weight: weight / common };
        Ok(weights.into_iter().map(part).collect())
    }

    /// `target`: operations a second over all threads.
    fn arrival(&self) -> Result<Option<ArrivalForm>> {
        let per_s = Some(self.number("target", 0u64)?).filter(|n| *n > 0);
        Ok(per_s.map(|num| {
            ArrivalForm(ArrivalTable {
                kind: Some(ArrivalKind::Constant),
                rate: Some(Rate { unit: RateUnit::Ops, num, den: 1, per_ns: 1_000_000_000 }),
                ..ArrivalTable::default()
            })
        }))
    }

    fn scan(&self) -> Result<Scan> {
        let (min, max) = self.range("minscanlength", 1, "maxscanlength", 1000)?;
        let word = self.one_of("scanlengthdistribution", &["uniform", "zipfian"])?;
        Ok(Scan {
            min,
            max,
            spread: match word {
                "zipfian" => ScanSpread::Zipfian,
                _ => ScanSpread::Uniform,
            },
            reverse: false,
        })
    }

    /// `split`: several clients share the records. Patterns that reach back over all records are refused then.
    fn access(&self, split: bool) -> Result<AccessForm> {
        let words = ["uniform", "sequential", "zipfian", "latest", "hotspot", "exponential"];
        let word = self.one_of("requestdistribution", &words)?;
        if split && matches!(word, "latest" | "exponential") {
            return Err(self.error(
                "requestdistribution",
                format!("`{word}` reaches back over the records of all clients"),
                "use it without insertstart and insertcount",
            ));
        }
        Ok(match word {
            "uniform" => AccessKind::Random.into(),
            "sequential" => AccessKind::Sequential.into(),
            "zipfian" => AccessKind::Scrambled.into(),
            "latest" => AccessKind::Latest.into(),
            "hotspot" => AccessForm(Access {
                hot: Some(Hot {
                    space: self.above_zero("hotspotdatafraction", 0.2, 1.0)?,
                    share: self.above_zero("hotspotopnfraction", 0.8, 1.0)?,
                }),
                ..AccessKind::Hotspot.into()
            }),
            _ => AccessForm(Access {
                reach: Some(Reach {
                    percentile: self.percentile()?,
                    space: self.above_zero("exponential.frac", 0.857_142_857_1, 1.0)?,
                }),
                ..AccessKind::Exponential.into()
            }),
        })
    }

    /// Lengths of a field.
    fn lengths(&self) -> Result<BlockSizeForm> {
        let words = ["constant", "uniform", "zipfian", "histogram"];
        let word = self.one_of("fieldlengthdistribution", &words)?;
        let longest = self.at_least("fieldlength", 100, 1)?;
        if word == "histogram" {
            let file = self.text("fieldlengthhistogram").unwrap_or("hist.txt");
            return Ok(BlockSizeForm::File(file.to_owned()));
        }
        let size = |bytes: u32| ByteSize(u64::from(bytes));
        if word == "constant" {
            return Ok(size(longest).into());
        }
        let (min, max) = self.range("minfieldlength", 1, "fieldlength", 100)?;
        if word == "zipfian" && max - min >= MOST_LENGTHS {
            return Err(self.error(
                "fieldlengthdistribution",
                format!("zipfian over {} lengths", max - min + 1),
                "at most 4096 lengths can be written out; use a shorter fieldlength or uniform",
            ));
        }
        Ok(BlockSizeForm::Sizes(match word {
            _ if min == max => BlockSize::Fixed(size(min)),
            "uniform" => BlockSize::Range(SizeRange {
                min: size(min),
                max: size(max),
                step: ByteSize(1),
                spread: SizeSpread::Uniform,
            }),
            _ => {
                let parts = lengths::weighted(min, max).into_iter();
                let part = |(bytes, weight)| BlockSizePart { size: size(bytes), weight };
                BlockSize::Split(parts.map(part).collect())
            }
        }))
    }

    /// The binding with an equivalent, RocksDB or Redis: by `db`, without it Redis by `redis.host`, else RocksDB by
    /// `rocksdb.dir`, else none. Errors: `Usage` for any other binding, and those of `redis`.
    fn store(&self) -> Result<Option<StoreBinding>> {
        let dir = self.text("rocksdb.dir").map(str::to_owned);
        let host = self.text("redis.host");
        let class = self.text("db");
        let class = class.map(|class| class.rsplit('.').next().unwrap_or(class));
        let rocksdb = |path| StoreBinding { driver: "rocksdb", path, timeout: None };
        match class {
            None if dir.is_none() && host.is_none() => Ok(None),
            None if host.is_none() => Ok(Some(rocksdb(dir))),
            Some("RocksDBClient" | "rocksdb") => Ok(Some(rocksdb(dir))),
            None | Some("RedisClient" | "redis") => self.redis(host).map(Some),
            Some(class) => Err(self.error(
                "db",
                format!("the binding `{class}` says where a store is in properties of its own"),
                "take the line out, and name the store with --driver and --path \
                 (`taillight drivers` lists them)",
            )),
        }
    }

    /// `redis.host`, `redis.port` and `redis.timeout` (ms). Errors: `Usage` without a host and for a cluster.
    /// (`check_names` has refused a password.)
    fn redis(&self, host: Option<&str>) -> Result<StoreBinding> {
        let Some(host) = host else {
            return Err(self.error("db", "Redis without `redis.host`", "name the server"));
        };
        if self.one_of("redis.cluster", &["false", "true"])? == "true" {
            let what = "the driver knows no cluster: all keys go to one server";
            return Err(self.error("redis.cluster", what, "take the line out"));
        }
        let port: u64 = self.number("redis.port", 6379)?;
        let timeout: u64 = self.number("redis.timeout", 0)?;
        Ok(StoreBinding {
            driver: "redis",
            path: Some(format!("{host}:{port}")),
            timeout: Some(Span(timeout.saturating_mul(1_000_000))).filter(|t| t.0 > 0),
        })
    }
}
