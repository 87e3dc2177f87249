//! Names of objects: prefix and key. Binary keys are written in hexadecimal, since names are text;
//! their order stays.

use taillight_core::keys::{KEY_MAX, KeyFormat, KeyNaming};
use taillight_core::plan::{Keys, WorkloadPlan};
use taillight_core::{Error, Result};

/// How one workload names its objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectNaming {
    prefix: String,
    format: KeyFormat,
}

impl ObjectNaming {
    /// How a workload names its objects under `prefix`. Errors: `Usage` when its keys cannot be
    /// made, or are too long for S3.
    pub fn of(w: &WorkloadPlan, prefix: &str) -> Result<ObjectNaming> {
        let keys: Keys = w.keys.clone().unwrap_or_default();
        let format = keys.format()?;
        let binary = format.naming() == KeyNaming::Binary;
        let longest = prefix.len() + format.longest() * if binary { 2 } else { 1 };
        let printable = keys.prefix.bytes().all(|b| b.is_ascii_graphic());
        if longest > KEY_MAX || !printable || keys.prefix.contains(['/', '\\']) {
            return Err(Error::usage("the keys make no names of objects")
                .with("longest", longest)
                .with("keys.prefix", format!("{:?}", keys.prefix))
                .hint("1024 bytes at most; printable letters without / in keys.prefix"));
        }
        Ok(ObjectNaming { prefix: prefix.to_owned(), format })
    }

    /// Writes the name of key number `n`.
    pub fn write(&self, n: u64, out: &mut Vec<u8>) {
        let mut key = [0; KEY_MAX];
        let key = self.format.write(n, &mut key);
        out.clear();
        out.extend_from_slice(self.prefix.as_bytes());
        if self.format.naming() != KeyNaming::Binary {
            out.extend_from_slice(key);
            return;
        }
        let from = out.len();
        out.resize(from + 2 * key.len(), 0);
        // Cannot fail: the lengths fit.
        let _ = hex::encode_to_slice(key, &mut out[from..]);
    }

    /// The name of key number `n`.
    pub fn name(&self, n: u64) -> String {
        let mut name = Vec::new();
        self.write(n, &mut name);
        String::from_utf8_lossy(&name).into_owned()
    }

    /// Whether a name under the prefix could be one of these.
    pub fn could_be(&self, name: &str) -> bool {
        let Some(key) = name.strip_prefix(&self.prefix) else {
            return false;
        };
        if self.format.naming() == KeyNaming::Binary {
            let hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
            return key.len() == 2 * self.format.longest() && key.bytes().all(hex);
        }
        self.format.could_be(key.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use taillight_core::OpKind;
    use taillight_core::units::ByteSize;

    fn names(keys: Keys) -> Result<ObjectNaming> {
        let w = WorkloadPlan {
            keys: Some(keys),
            ..WorkloadPlan::simple("w", OpKind::Get, ByteSize(1))
        };
        ObjectNaming::of(&w, "p/")
    }

    #[test]
    fn names_are_text_and_known_again() {
        let binary = Keys { naming: KeyNaming::Binary, size: Some(ByteSize(8)), ..Keys::default() };
        let mut out = Vec::new();
        for (keys, number, name) in
            [(binary, 258, "p/0000000000000102"), (Keys::default(), 0, "p/user6284781860667377211")]
        {
            let names = names(keys).unwrap();
            names.write(number, &mut out);
            assert_eq!(std::str::from_utf8(&out).unwrap(), name);
            assert!(names.could_be(name));
            for other in ["p/user", "p/userx1", "p/photo.jpg", "user1", "p/a/user1", "p/"] {
                assert!(!names.could_be(other), "{other}");
            }
        }
    }

    #[test]
    fn what_makes_no_name_is_refused() {
        let long = Keys { naming: KeyNaming::Binary, size: Some(ByteSize(600)), ..Keys::default() };
        let slashed = Keys { prefix: "../".into(), ..Keys::default() };
        assert!(names(long).is_err() && names(slashed).is_err());
    }
}
