//! Grafana dashboards from one list of panels, `dashboards/panels.toml`: one for native histograms, one
//! for classic buckets. Written by `cargo xtask dashboards`; a test fails when they are not what the list says.

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::tool;

/// Histograms as Prometheus keeps them.
#[derive(Clone, Copy, PartialEq)]
enum Buckets {
    Native,
    Classic,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PanelList {
    panel: Vec<Panel>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Panel {
    title: String,
    kind: String,
    #[serde(default)]
    unit: String,
    decimals: Option<u32>,
    width: Option<u64>,
    height: Option<u64>,
    /// `name`: the legend is the text of a stat.
    show: Option<String>,
    #[serde(default)]
    log: bool,
    /// Ceilings of the run as lines.
    #[serde(default)]
    ceilings: bool,
    query: Vec<Query>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Query {
    legend: String,
    expr: Option<String>,
    of: Option<String>,
    quantile: Option<f64>,
    #[serde(default)]
    rate: bool,
    #[serde(default)]
    buckets: bool,
}

impl Query {
    fn text(&self, buckets: Buckets) -> Result<String> {
        let text = match (&self.expr, &self.of) {
            (Some(expr), None) => expr.clone(),
            (None, Some(of)) => {
                self.of_histogram(of, buckets).context("no figure of a histogram")?
            }
            _ => anyhow::bail!("a query has expr or of: {}", self.legend),
        };
        let select = "instance=~\"$instance\",workload=~\"$workload\",op=~\"$op\"";
        Ok(text.replace("$SELECT", select).replace("$RANGE", "$__rate_interval"))
    }

    fn of_histogram(&self, of: &str, buckets: Buckets) -> Option<String> {
        let rates = |suffix: &str, by: &str| {
            format!("sum by ({by}) (rate(taillight_io_{of}_seconds{suffix}{{$SELECT}}[$RANGE]))")
        };
        let native = buckets == Buckets::Native;
        let summed = |by: &str| match native {
            true => rates("", by),
            false => rates("_bucket", [by, "le"].join(", ").trim_start_matches(", ")),
        };
        match (self.quantile, self.rate, self.buckets) {
            (Some(q), false, false) => {
                Some(format!("histogram_quantile({q}, {})", summed("workload, op")))
            }
            (None, true, false) if native => {
                Some(format!("histogram_count({})", summed("workload, op")))
            }
            (None, true, false) => Some(rates("_count", "workload, op")),
            (None, false, true) => Some(summed("")),
            _ => None,
        }
    }
}

/// `cargo xtask dashboards`.
pub fn main(args: &[&str]) -> Result<bool> {
    anyhow::ensure!(args.is_empty(), "dashboards takes nothing");
    for (path, text) in files()? {
        std::fs::write(tool::root().join(path), text)?;
        println!("wrote {path}");
    }
    Ok(true)
}

/// Path below the root and text of each dashboard.
fn files() -> Result<Vec<(&'static str, String)>> {
    let list = std::fs::read_to_string(tool::root().join("dashboards/panels.toml"))?;
    let list: PanelList = toml::from_str(&list).context("dashboards/panels.toml")?;
    let write = |name, title, buckets| -> Result<(&str, String)> {
        let value = dashboard(title, &list.panel, buckets)?;
        Ok((name, serde_json::to_string_pretty(&value)? + "\n"))
    };
    Ok(vec![
        write("dashboards/taillight.json", "Taillight", Buckets::Native)?,
        write("dashboards/taillight-classic.json", "Taillight (classic)", Buckets::Classic)?,
    ])
}

fn source() -> Value {
    json!({ "type": "prometheus", "uid": "${datasource}" })
}

fn dashboard(title: &str, panels: &[Panel], buckets: Buckets) -> Result<Value> {
    let (mut x, mut y, mut row) = (0, 0, 0);
    let mut shown = Vec::new();
    for (id, panel) in (1..).zip(panels) {
        let (width, height) = (panel.width.unwrap_or(12), panel.height.unwrap_or(8));
        if x + width > 24 {
            (x, y, row) = (0, y + row, 0);
        }
        let place = json!({ "x": x, "y": y, "w": width, "h": height });
        shown.push(panel_json(panel, id, place, buckets)?);
        (x, row) = (x + width, row.max(height));
    }
    let variable = |name: &str, query: &str| {
        json!({
            "name": name, "type": "query", "datasource": source(), "refresh": 2,
            "query": { "query": query, "refId": name }, "includeAll": true, "multi": true,
            "current": { "text": "All", "value": "$__all" },
        })
    };
    let of_ops = |label: &str| {
        format!("label_values(taillight_io_bytes_total{{instance=~\"$instance\"}}, {label})")
    };
    Ok(json!({
        "uid": if buckets == Buckets::Native { "taillight" } else { "taillight-classic" },
        "title": title,
        "tags": ["taillight"],
        "schemaVersion": 39,
        "editable": true,
        "refresh": "5s",
        "time": { "from": "now-15m", "to": "now" },
        "templating": { "list": [
            { "name": "datasource", "type": "datasource", "query": "prometheus" },
            variable("instance", "label_values(taillight_run_info, instance)"),
            variable("workload", &of_ops("workload")),
            variable("op", &of_ops("op")),
        ] },
        "panels": shown,
    }))
}

fn panel_json(panel: &Panel, id: u64, place: Value, buckets: Buckets) -> Result<Value> {
    let mut targets = Vec::new();
    let heat = panel.kind == "heatmap";
    for (letter, query) in ('A'..).zip(&panel.query) {
        targets.push(json!({
            "refId": letter.to_string(), "datasource": source(), "editorMode": "code", "range": true,
            "expr": query.text(buckets)?, "legendFormat": query.legend,
            "format": if heat { "heatmap" } else { "time_series" },
        }));
    }
    if panel.ceilings {
        targets.push(json!({
            "refId": "Z", "datasource": source(), "editorMode": "code", "range": true,
            "expr": "max by (at, workload) (taillight_ceiling_seconds{instance=~\"$instance\"})",
            "legendFormat": "ceiling at {{at}} % {{workload}}",
        }));
    }
    let scale = match panel.log {
        true => json!({ "type": "log", "log": 10 }),
        false => json!({ "type": "linear" }),
    };
    let mut defaults = json!({ "unit": panel.unit });
    if let Some(decimals) = panel.decimals {
        defaults["decimals"] = decimals.into();
    }
    if panel.kind == "timeseries" {
        defaults["custom"] = json!({ "scaleDistribution": scale, "showPoints": "auto" });
    }
    let options = match (panel.kind.as_str(), panel.show.as_deref()) {
        ("stat", Some("name")) => json!({ "textMode": "name", "colorMode": "none" }),
        ("stat", _) => json!({ "colorMode": "none" }),
        ("heatmap", _) => json!({
            "calculate": false, "yAxis": { "unit": panel.unit },
            "color": { "mode": "scheme", "scheme": "Spectral", "scale": "exponential", "exponent": 0.5 },
        }),
        _ => json!({ "legend": { "displayMode": "list", "placement": "bottom" } }),
    };
    Ok(json!({
        "id": id, "type": panel.kind, "title": panel.title, "gridPos": place,
        "datasource": source(), "targets": targets, "options": options,
        "fieldConfig": { "defaults": defaults, "overrides": [] },
    }))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn panels_have_ids_and_places_of_their_own_and_units_of_grafana() {
        for (name, text) in files().unwrap() {
            let written = std::fs::read_to_string(tool::root().join(name)).unwrap();
            assert!(
                written == text,
                "{name} is not what the list says: run cargo xtask dashboards"
            );
            let value: Value = serde_json::from_str(&text).unwrap();
            let panels = value["panels"].as_array().unwrap();
            let ids: BTreeSet<_> = panels.iter().map(|p| p["id"].as_u64()).collect();
            let places: BTreeSet<_> = panels.iter().map(|p| p["gridPos"].to_string()).collect();
            assert_eq!((ids.len(), places.len()), (panels.len(), panels.len()), "{name}");
            for panel in panels {
                let at = &panel["gridPos"];
                assert!(at["x"].as_u64().unwrap() + at["w"].as_u64().unwrap() <= 24, "{panel}");
                assert!(panel["targets"].as_array().is_some_and(|t| !t.is_empty()), "{panel}");
                let unit = panel["fieldConfig"]["defaults"]["unit"].as_str().unwrap();
                assert!(
                    ["", "s", "Bps", "iops", "ops", "short", "percentunit"].contains(&unit),
                    "{unit}"
                );
            }
            assert!(!text.contains("$SELECT") && !text.contains("$RANGE"), "{name}");
        }
    }
}
