//! Pages as Chromium lays them out: what stands where, by a script that is put into the page.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// What a page says of itself: first the places of the parts, then its figures and labels.
const PROBE: &str = include_str!("dom.js");

/// Where a browser is; none, and a line that says so, where there is none.
pub fn chromium(test: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let found = std::env::split_paths(&path).flat_map(|dir| names.map(|name| dir.join(name)));
    let found = found.into_iter().find(|file| file.is_file());
    if found.is_none() {
        println!("skipped: {test}: no Chromium here");
    }
    found
}

/// What [`PROBE`] says of the page at this width, in pixels. The browser writes into a directory beside the page.
pub fn facts(browser: &Path, page: &Path, width: u32) -> Value {
    let html = std::fs::read_to_string(page).expect("a page");
    let at = html.rfind("</body>").expect("a whole page");
    let probed = page.with_extension("probed.html");
    std::fs::write(&probed, [&html[..at], "<script>", PROBE, "</script>", &html[at..]].concat())
        .expect("written");
    let profile = page.with_extension("browser");
    // No window of Chromium is narrower than 500 pixels: a frame is.
    let shown = match width {
        0..500 => {
            let framed = page.with_extension("framed.html");
            let name = probed.file_name().expect("a name").to_string_lossy();
            let html = format!(
                "<!DOCTYPE html><body><script>addEventListener('message', e => \
                 document.body.innerHTML = e.data)</script><iframe src=\"{name}\" \
                 style=\"border:0;width:{width}px;height:900px\"></iframe></body>"
            );
            std::fs::write(&framed, html).expect("written");
            framed
        }
        _ => probed,
    };
    let output = Command::new(browser)
        .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
        .args(["--hide-scrollbars", "--virtual-time-budget=20000", "--dump-dom"])
        .arg(format!("--window-size={width},900"))
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(format!("file://{}", shown.display()))
        .output()
        .expect("Chromium starts");
    let dom = String::from_utf8_lossy(&output.stdout).into_owned();
    let facts = dom.split("<pre id=\"facts\">").nth(1).and_then(|rest| rest.split("</pre>").next());
    let Some(facts) = facts else {
        panic!("{}: {dom:.2000}\n{}", page.display(), String::from_utf8_lossy(&output.stderr));
    };
    let plain = facts.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    serde_json::from_str(&plain).expect("JSON")
}
