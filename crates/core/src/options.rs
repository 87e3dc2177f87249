//! Reads `[target.options]` of a job file as the driver's own struct, so that unknown names and wrong
//! values are reported alike for every driver.

use serde::de::DeserializeOwned;
use toml::de::DeTable;

use crate::job::read;
use crate::{Error, Result};

/// Reads the options of `driver`. Errors: `Usage` for an unknown option, with a suggestion where one is near, or a
/// value that does not fit, with the option as [`Error::field`]; `Internal` for a table that TOML cannot hold.
pub fn from_table<T: DeserializeOwned>(driver: &str, table: &toml::Table) -> Result<T> {
    let text = toml::to_string(table)
        .map_err(|e| Error::internal("the options cannot be written as TOML").source(e))?;
    let tree = DeTable::parse(&text)
        .map_err(|e| Error::internal("the options cannot be read back").source(e))?;
    read::read(&tree).map_err(|e| e.into_option_error(driver))
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Default, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    struct RingOptions {
        depth: u32,
        fixed_buffers: bool,
    }

    fn ring(text: &str) -> Result<RingOptions> {
        from_table("ring", &text.parse().unwrap())
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct EmptyOptions {}

    #[test]
    fn a_driver_without_options_says_so() {
        let table = "direct = true".parse().unwrap();
        let e = from_table::<EmptyOptions>("null", &table).unwrap_err();
        assert_eq!(e.message(), "driver `null` has no options, so no `direct`");
        assert_eq!(e.field(), Some("direct"));
    }

    #[test]
    fn errors_name_their_option() {
        assert_eq!(ring("depth = 3").unwrap().depth, 3);
        assert!(!ring("").unwrap().fixed_buffers);
        let e = ring("fixd_buffers = true").unwrap_err();
        assert_eq!(e.message(), "driver `ring` has no option `fixd_buffers`");
        assert_eq!(e.hint_text(), Some("did you mean `fixed_buffers`?"));
        assert_eq!(e.field(), Some("fixd_buffers"));
        let e = ring("depth = \"deep\"").unwrap_err();
        assert_eq!(
            e.message(),
            "option `depth` of driver `ring`: `deep` is not a whole number, at most 4294967295"
        );
        assert_eq!(e.field(), Some("depth"));
    }
}
