//! A method as data: `suites/NAME.toml`.
//!
//! Holds workloads as properties and the order they run in, and decides nothing about load. Which
//! step needs a new load is the caller's knowledge: it sees the plans.

use std::collections::BTreeMap;

use serde::Deserialize;
use taillight_core::{Error, Result};

/// The method `ycsb`.
const YCSB: &str = include_str!("../../../suites/ycsb.toml");

/// A method.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Method {
    /// Name on the command line.
    pub name: String,
    /// One line for people.
    pub about: String,
    /// Names of workloads, first to last.
    pub order: Vec<String>,
    /// Properties of every workload.
    #[serde(default)]
    pub properties: BTreeMap<String, String>,
    #[serde(rename = "workload")]
    pub workloads: Vec<Workload>,
}

/// One workload of a method.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Name on the command line.
    pub name: String,
    /// One line for people.
    pub about: String,
    /// Its own properties: they win over the method's.
    #[serde(default)]
    pub properties: BTreeMap<String, String>,
}

impl Method {
    /// Reads a method.
    ///
    /// # Errors
    /// `Usage` when the text is no method, or its order is not that of its workloads.
    pub fn parse(text: &str) -> Result<Method> {
        let method: Method = toml::from_str(text)
            .map_err(|e| Error::usage("this is no suite").with("why", e.message()))?;
        let named = |n: &String| method.workloads.iter().filter(|w| w.name == *n).count() == 1;
        match method.order.len() == method.workloads.len() && method.order.iter().all(named) {
            true => Ok(method),
            false => Err(Error::usage(
                "the suite's order does not name each of its workloads once",
            )),
        }
    }

    /// YCSB's core workloads.
    ///
    /// # Errors
    /// `Usage` never: the text is part of the program, and a test reads it.
    pub fn ycsb() -> Result<Method> {
        Method::parse(YCSB)
    }

    /// The workloads asked for, in the method's order, each once.
    ///
    /// # Errors
    /// `Usage` for a name that is none.
    pub fn choose(&self, asked: &[String]) -> Result<Vec<&Workload>> {
        for name in asked {
            if !self.order.contains(name) {
                return Err(Error::usage(format!(
                    "suite `{}` has no workload `{name}`",
                    self.name
                ))
                .hint(format!("it has: {}", self.order.join(", "))));
            }
        }
        let chosen = self.order.iter().filter(|name| asked.contains(name));
        let workload = |name: &String| self.workloads.iter().find(|w| w.name == *name);
        Ok(chosen.filter_map(workload).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_ycsb_s() {
        let method = Method::ycsb().unwrap();
        let all: Vec<String> = ["e", "a", "d", "b", "a", "f", "c"]
            .map(String::from)
            .to_vec();
        let names: Vec<_> = method.choose(&all).unwrap();
        let names: Vec<_> = names.iter().map(|w| w.name.as_str()).collect();
        assert_eq!(names, ["a", "b", "c", "f", "d", "e"]);
        assert!(method.choose(&["g".to_owned()]).is_err());
    }

    #[test]
    fn a_broken_method_is_refused() {
        let text = "name = 'x'\nabout = ''\norder = ['a']\n[[workload]]\nname = 'b'\nabout = ''\n";
        assert!(Method::parse(text).is_err());
        assert!(Method::parse(&text.replace("'b'", "'a'")).is_ok());
        assert!(Method::parse(&text.replace("about = ''\norder", "abot = ''\norder")).is_err());
    }
}
