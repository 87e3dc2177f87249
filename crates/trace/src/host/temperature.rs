//! Temperatures from hwmon, degrees Celsius. Some drivers ask the device for each reading, so they are read in a sample
//! only where the last reading is 10 s old.

use std::sync::Arc;
use std::time::{Duration, Instant};

use taillight_machine::Sys;

use super::{HostSource, SampleOutput};

const NAME: &str = "temperature";
/// Time between readings, at least.
const SELDOM: Duration = Duration::from_secs(10);
const HWMON: &str = "/sys/class/hwmon";

/// One sensor: its file and its name in samples.
#[derive(Debug)]
struct Sensor {
    path: String,
    name: Arc<str>,
}

/// Every temperature sensor that was there when it was made.
#[derive(Debug)]
pub(crate) struct TemperatureSource {
    sensors: Vec<Sensor>,
    last: Option<Instant>,
}

impl TemperatureSource {
    /// Finds the sensors. A name is chip and label (`nvme Composite`); one that is taken has the directory behind it.
    pub fn new(sys: &Sys) -> TemperatureSource {
        let mut sensors = Vec::new();
        for chip in sys.names(HWMON) {
            let dir = format!("{HWMON}/{chip}");
            let chip_name = sys.text(&format!("{dir}/name")).unwrap_or(chip);
            for file in sys.names(&dir) {
                let inner = file.strip_prefix("temp").and_then(|f| f.strip_suffix("_input"));
                let Some(n) = inner else {
                    continue;
                };
                let label = sys.text(&format!("{dir}/temp{n}_label"));
                let label = label.unwrap_or_else(|| format!("temp{n}"));
                let mut name = format!("{chip_name} {label}");
                // Several drives have the same chip name.
                if sensors.iter().any(|s: &Sensor| *s.name == *name) {
                    name = format!("{name} ({dir})").replace("/sys/class/hwmon/", "");
                }
                sensors.push(Sensor { path: format!("{dir}/{file}"), name: name.into() });
            }
        }
        TemperatureSource { sensors, last: None }
    }
}

impl HostSource for TemperatureSource {
    fn name(&self) -> &'static str {
        NAME
    }

    fn sample(&mut self, sys: &Sys, out: Option<&mut SampleOutput>) {
        let Some(out) = out else {
            return;
        };
        if self.last.is_some_and(|t| t.elapsed() < SELDOM) {
            return;
        }
        self.last = Some(Instant::now());
        for sensor in &self.sensors {
            let text = sys.text(&sensor.path);
            if let Some(milli) = text.and_then(|t| t.parse::<i64>().ok()) {
                out.put(NAME, "temp", Some(&sensor.name), milli as f64 / 1000.0);
            }
        }
    }

    fn missing(&self) -> Option<String> {
        let none = self.sensors.is_empty();
        none.then(|| "no sensor in /sys/class/hwmon".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{put, two};
    use super::*;

    #[test]
    fn sensors_have_names_and_are_read_once_in_ten_seconds() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path();
        for chip in ["hwmon0", "hwmon1"] {
            put(root, &format!("sys/class/hwmon/{chip}/name"), "nvme\n");
            put(root, &format!("sys/class/hwmon/{chip}/temp1_input"), "41850\n");
            put(root, &format!("sys/class/hwmon/{chip}/temp1_label"), "Composite\n");
        }
        let mut it = TemperatureSource::new(&Sys::at(root));
        let values = two(&mut it, root, || ());
        let names: Vec<_> = values.iter().filter_map(|v| v.1.as_deref()).collect();
        assert_eq!(names, ["nvme Composite", "nvme Composite (hwmon1)"]);
        assert_eq!(values[0].2, 41.85);
        assert!(two(&mut it, root, || ()).is_empty());
    }
}
