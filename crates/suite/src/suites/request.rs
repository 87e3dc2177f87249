//! What the command line asks of a suite.

use taillight_core::{Error, Result};
use toml::Value;

use crate::host::{Assignment, JobSource};

/// Flags of `taillight suite`, as given.
#[derive(Debug, Clone, Default)]
pub struct SuiteRequest {
    pub workloads: Vec<String>,
    pub driver: Option<String>,
    pub path: Option<String>,
    /// `[target]` of the job file of `--target`.
    pub target: Option<Value>,
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
}

impl SuiteRequest {
    /// Refuses flags that a suite has no use for. Errors: `Usage`, naming the flag and those that
    /// it takes.
    pub fn only(&self, suite: &str, taken: &[&str]) -> Result<()> {
        let given = [
            ("--workload", !self.workloads.is_empty()),
            ("--driver", self.driver.is_some()),
            ("--path", self.path.is_some()),
            ("--target", self.target.is_some()),
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

    /// The target and the assignments as `--set` takes them, the assignments last.
    pub fn assignments(&self) -> Vec<Assignment> {
        let quoted = |text: &String| Value::String(text.clone());
        let flags = [
            ("--target", "target", self.target.clone()),
            ("--driver", "target.driver", self.driver.as_ref().map(quoted)),
            ("--path", "target.path", self.path.as_ref().map(quoted)),
        ];
        let of = |(flag, path, value): (&str, &str, Option<Value>)| {
            value.map(|value| Assignment::new(flag, format!("{path}={value}")))
        };
        let set = self.set.iter().map(|text| Assignment::new("--set", text));
        flags.into_iter().filter_map(of).chain(set).collect()
    }
}
