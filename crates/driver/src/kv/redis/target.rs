//! A server's keys under one prefix as a target: sessions, administration, statistics, clean-up.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use taillight_core::plan::Plan;
use taillight_core::{Error, Result};

use super::address::Address;
use super::options::RedisOptions;
use super::owner::{self, Keeper, Mark};
use super::session::{RedisSession, Shape};
use super::wire::Said;
use crate::contract::{Admin, Geometry, Keyed, OpenSpec, Session, SessionSpec, Target};
use crate::kv::rules::{self, Rules};

/// Where the password comes from.
const PASSWORD: &str = "REDIS_PASSWORD";

/// What of INFO goes beside the latencies: its name there, ours.
const SAMPLES: [(&str, &str); 8] = [
    ("used_memory", "used_memory_bytes"),
    ("used_memory_rss", "used_memory_rss_bytes"),
    ("keyspace_hits", "keyspace_hits_total"),
    ("keyspace_misses", "keyspace_misses_total"),
    ("evicted_keys", "evicted_keys_total"),
    ("expired_keys", "expired_keys_total"),
    ("total_commands_processed", "commands_total"),
    ("connected_clients", "connected_clients"),
];

/// What of INFO is disclosed.
const FACTS: [&str; 5] = [
    "redis_version",
    "valkey_version",
    "maxmemory_policy",
    "aof_enabled",
    "io_threads_active",
];

/// The target.
pub struct RedisTarget {
    address: Address,
    options: RedisOptions,
    password: Option<String>,
    shapes: Vec<Shape>,
    keeper: Mutex<Keeper>,
    mark: Mutex<Mark>,
    /// Records do not outlast this run: it deletes some.
    forget: bool,
    facts: Vec<(String, String)>,
    closed: bool,
}

impl RedisTarget {
    /// Connects, passes the guard, marks the prefix as ours.
    ///
    /// # Errors
    /// `Usage`, `Refused` or `Unavailable`.
    pub fn open(spec: &OpenSpec<'_>) -> Result<RedisTarget> {
        let plan = spec.plan;
        let target = &plan.target;
        let options = RedisOptions::parse(&target.options)?;
        let address = Address::parse(target.path.as_deref())?;
        let confirmed = owner::confirmed(target.destroy, spec.destroy, &address)?;
        let shapes = shapes(plan, &options)?;
        let password = std::env::var(PASSWORD).ok().filter(|p| !p.is_empty());
        let timeout = Duration::from_nanos(options.timeout.0);
        let mut keeper = Keeper::open(address.clone(), password.clone(), &options.prefix, timeout)?;
        let index = if options.index { "; indexed" } else { "" };
        let new = Mark {
            run_id: spec.run_id.to_owned(),
            keep: options.keep,
            form: rules::form(plan) + index,
            records: 0,
        };
        let mark = keeper.take(new, confirmed)?;
        let facts = facts(&mut keeper, &address)?;
        Ok(RedisTarget {
            address,
            options,
            password,
            shapes,
            keeper: Mutex::new(keeper),
            mark: Mutex::new(mark),
            forget: rules::changes(plan).1,
            facts,
            closed: false,
        })
    }

    fn keeper(&self) -> MutexGuard<'_, Keeper> {
        self.keeper.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, records: u64) -> Result<()> {
        let mut mark = self.mark.lock().unwrap_or_else(PoisonError::into_inner);
        mark.records = records;
        let mut lasting = mark.clone();
        if self.forget {
            lasting.records = 0;
        }
        self.keeper().note(&lasting)
    }

    /// Deletes what this run made; what was kept before stays.
    fn end(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.closed, true) {
            return Ok(());
        }
        let mark = self.mark.get_mut().unwrap_or_else(PoisonError::into_inner);
        let keeper = self
            .keeper
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        if mark.keep {
            return Ok(());
        }
        if !keeper.still_of(&mark.run_id)? {
            return Err(Error::target(
                "another run took the prefix over; its keys were left alone",
            )
            .with("options.prefix", &self.options.prefix)
            .hint("look what is under the prefix before you use it again"));
        }
        keeper.wipe(true)
    }
}

/// How each workload's records are stored.
fn shapes(plan: &Plan, options: &RedisOptions) -> Result<Vec<Shape>> {
    let shape = |w| -> Result<Shape> {
        let rules = Rules::of(w, false)?;
        let value = w.value.clone().unwrap_or_default();
        let names = match value.fields {
            1 => Vec::new(),
            n => (0..n).map(|i| format!("{}{i}", value.prefix)).collect(),
        };
        Ok(Shape {
            rules,
            prefix: format!("{}:", options.prefix).into_bytes(),
            index: match options.index {
                true => format!("{}:taillight-index", options.prefix).into_bytes(),
                false => Vec::new(),
            },
            names,
        })
    };
    plan.workloads.iter().map(shape).collect()
}

fn facts(keeper: &mut Keeper, address: &Address) -> Result<Vec<(String, String)>> {
    let mut facts = vec![
        ("target.kind".to_owned(), "server".to_owned()),
        ("target.server".to_owned(), address.shown()),
    ];
    let Said::Text(text) = keeper.ask(&[b"INFO"])? else {
        return Err(Error::unavailable("the server's answer to INFO is no text"));
    };
    let text = String::from_utf8_lossy(&text);
    let lines = text.lines().filter_map(|l| l.split_once(':'));
    let known = lines.filter(|(name, _)| FACTS.contains(name));
    facts.extend(known.map(|(name, value)| (format!("redis.{name}"), value.to_owned())));
    Ok(facts)
}

impl Drop for RedisTarget {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

impl Target for RedisTarget {
    fn geometry(&self) -> Geometry {
        Geometry::keyed()
    }
    fn session(&self, spec: &SessionSpec) -> Result<Box<dyn Session>> {
        let shape = self.shapes.get(usize::from(spec.workload)).cloned();
        let shape = shape.ok_or_else(|| Error::internal("a session of no workload"))?;
        let timeout = Duration::from_nanos(self.options.timeout.0);
        let wire = owner::greet(&self.address, self.password.as_deref(), timeout)?;
        Ok(Box::new(RedisSession::new(wire, shape, spec)))
    }
    fn admin(&self, action: Admin) -> Result<()> {
        match action {
            // What is written is in the server's memory; when it saves is its own affair.
            Admin::Flush => Ok(()),
            Admin::Compact | Admin::DropCaches => Err(Error::unavailable(
                "a server in memory has nothing to compact and no caches to drop",
            )),
            Admin::Purge => {
                self.keeper().wipe(false)?;
                self.note(0)
            }
        }
    }
    fn facts(&self) -> Vec<(String, String)> {
        self.facts.clone()
    }
    fn keyed(&self) -> Option<&dyn Keyed> {
        Some(self)
    }
    fn sample(&self, out: &mut dyn FnMut(&str, f64)) {
        let Some(Said::Text(text)) = self.keeper().glance(&[b"INFO"]) else {
            return;
        };
        let text = String::from_utf8_lossy(&text);
        for (name, value) in text.lines().filter_map(|l| l.split_once(':')) {
            let ours = SAMPLES.iter().find(|(theirs, _)| *theirs == name);
            if let (Some((_, ours)), Ok(value)) = (ours, value.trim().parse()) {
                out(ours, value);
            }
        }
    }
    fn close(mut self: Box<Self>) -> Result<()> {
        self.end()
    }
}

impl Keyed for RedisTarget {
    fn records(&self) -> u64 {
        let mark = self.mark.lock().unwrap_or_else(PoisonError::into_inner);
        mark.records
    }
    fn loaded(&self, records: u64) -> Result<()> {
        self.note(records)
    }
}
