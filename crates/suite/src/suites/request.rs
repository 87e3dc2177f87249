//! What the command line asks of a suite.

use taillight_core::{Error, Result};
use toml::Value;

use super::targets::SuiteTarget;
use crate::host::{Assignment, JobSource};

/// Flags of `taillight suite`, as given.
#[derive(Debug, Clone, Default)]
pub struct SuiteRequest {
    pub workloads: Vec<String>,
    pub driver: Option<String>,
    /// Of each `--path`.
    pub paths: Vec<String>,
    /// Of each `--target`: the name of the job file, and its `[target]`.
    pub targets: Vec<(String, Value)>,
    pub endpoint: Option<String>,
    pub scale: Option<String>,
    pub records: Option<u64>,
    pub operations: Option<u64>,
    pub runtime: Option<String>,
    pub threads: Option<u32>,
    pub target_rate: Option<u64>,
    /// Files of YCSB properties, in order.
    pub property_files: Vec<JobSource>,
    /// Single YCSB properties, `name=value`.
    pub properties: Vec<String>,
    /// Assignments to fields of every job.
    pub set: Vec<String>,
    /// Ranks that run it together; 0 is one process.
    pub ranks: u32,
}

impl SuiteRequest {
    /// Refuses flags that a suite has no use for. Errors: `Usage`, naming the flag and those that
    /// it takes.
    pub fn only(&self, suite: &str, taken: &[&str]) -> Result<()> {
        let given = [
            ("--workload", !self.workloads.is_empty()),
            ("--driver", self.driver.is_some()),
            ("--path", !self.paths.is_empty()),
            ("--target", !self.targets.is_empty()),
            ("--endpoint", self.endpoint.is_some()),
            ("--scale", self.scale.is_some()),
            ("--records", self.records.is_some()),
            ("--operations", self.operations.is_some()),
            ("--runtime", self.runtime.is_some()),
            ("--threads", self.threads.is_some()),
            ("--target-rate", self.target_rate.is_some()),
            ("-P", !self.property_files.is_empty()),
            ("-p", !self.properties.is_empty()),
        ];
        let wrong = given.iter().find(|(flag, there)| *there && !taken.contains(flag));
        match wrong {
            None => Ok(()),
            Some((flag, _)) => Err(Error::usage(format!("{flag} is not for suite {suite}"))
                .hint(format!("it takes {}, --set and --output", taken.join(", ")))),
        }
    }

    /// The path, for a suite of one target. Errors: `Usage` where several targets are named.
    pub fn path(&self, suite: &str) -> Result<Option<&str>> {
        match self.paths.len().max(self.targets.len()) > 1 {
            false => Ok(self.paths.first().map(String::as_str)),
            true => Err(Error::usage(format!("suite {suite} runs on one target"))
                .hint("give --path and --target once; suites of the rule `matrix` take several")),
        }
    }

    /// Each target, where several are named. Errors: `Usage` for several of both kinds.
    pub(super) fn several_targets(&self) -> Result<Vec<SuiteTarget>> {
        let several = |of: usize| of > 1;
        if several(self.paths.len()) && !self.targets.is_empty()
            || several(self.targets.len()) && !self.paths.is_empty()
        {
            return Err(Error::usage("several targets by --path and by --target")
                .hint("name them in one way"));
        }
        let quoted = |text: &String| Value::String(text.clone());
        let path = |path: &String| SuiteTarget {
            name: path.clone(),
            set: vec![Assignment::new("--path", format!("target.path={}", quoted(path)))],
        };
        let file = |(name, target): &(String, Value)| SuiteTarget {
            name: name.clone(),
            set: vec![Assignment::new("--target", format!("target={target}"))],
        };
        Ok(match (several(self.paths.len()), several(self.targets.len())) {
            (true, _) => self.paths.iter().map(path).collect(),
            (_, true) => self.targets.iter().map(file).collect(),
            _ => Vec::new(),
        })
    }

    /// The target and the assignments as `--set` takes them, the assignments last.
    pub fn assignments(&self) -> Vec<Assignment> {
        self.assignments_on(None)
    }

    /// The same on one of several targets.
    pub(super) fn assignments_on(&self, target: Option<&SuiteTarget>) -> Vec<Assignment> {
        let quoted = |text: &String| Value::String(text.clone());
        let flags = [
            ("--target", "target", self.targets.first().map(|(_, t)| t.clone())),
            ("--driver", "target.driver", self.driver.as_ref().map(quoted)),
            ("--path", "target.path", self.paths.first().map(quoted)),
        ];
        let of = |(flag, path, value): (&str, &str, Option<Value>)| {
            let value = value.filter(|_| flag == "--driver" || target.is_none())?;
            Some(Assignment::new(flag, format!("{path}={value}")))
        };
        let own = target.map_or(&[][..], |t| &t.set).iter().cloned();
        let set = self.set.iter().map(|text| Assignment::new("--set", text));
        own.chain(flags.into_iter().filter_map(of)).chain(set).collect()
    }
}
