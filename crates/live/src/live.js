// The page of a run that goes on: events bring figures, charts are fetched when they can have changed.
(() => {
  const at = id => document.getElementById(id);
  const make = (name, text) => {
    const node = document.createElement("div");
    node.className = name;
    node.textContent = text;
    return node;
  };
  const clock = s => s < 90 ? Math.round(s) + " s" : s < 5400 ? Math.round(s / 60) + " min" : (s / 3600).toFixed(1) + " h";
  let state = null, shape = null, figures = {}, drawnAt = 0, drawn = -1, run = null, stallSince = null;

  const show = () => {
    const s = state;
    document.title = (s.end ? "Ended: " : s.stalled ? "Stalled: " : "") + (s.name || "Taillight") + " (live)";
    at("name").textContent = s.name || "Taillight";
    at("about").textContent = (s.series ? "Point " + s.series.point + ", round " + s.series.round + " · " : "") + (s.about || "");
    const share = s.end ? 1 : s.progress;
    at("bar").firstElementChild.style.width = 100 * (share || 0) + "%";
    at("bar").setAttribute("aria-valuenow", Math.round(100 * (share || 0)));
    const parts = [s.end ? "ended" : s.phase];
    if (s.elapsed_s) parts.push(clock(s.elapsed_s) + " measured");
    if (!s.end && s.progress !== null) parts.push(Math.round(100 * s.progress) + " %");
    if (!s.end && s.phase === "measure" && s.left_s !== null) parts.push(clock(s.left_s) + " left");
    at("bar").lastElementChild.textContent = parts.join(" · ");
    const verdict = at("verdict");
    verdict.className = "verdict " + s.verdict.tone;
    verdict.querySelector(".word").textContent = s.verdict.word;
    verdict.querySelector("p").textContent = s.verdict.text;
    if (s.end) {
      const line = document.createElement("p");
      line.textContent = "Run directory: " + s.directory + ". ";
      if (s.end.report) {
        const link = document.createElement("a");
        link.href = "/report.html";
        link.textContent = "Open the report";
        line.append(link);
      }
      verdict.querySelector("p").append(line);
    }
    at("tiles").replaceChildren(...s.tiles.map(t => {
      const node = make("tile", "");
      node.append(make("what", t.label), make("figure-value", t.value), make("note", t.note));
      return node;
    }));
  };

  // A longer run changes less from one second to the next: charts are redrawn as often as one of some
  // 300 columns fills, and every three seconds at most: drawing them is what a page costs.
  const pause = () => 1000 * Math.min(30, Math.max(3, (state.elapsed_s || 0) / 300));
  let asked = false;
  const charts = () => {
    if (!state || asked || document.hidden || drawn === state.version) return;
    if (Date.now() - drawnAt < pause() - 100 && !state.end) return;
    asked = true;
    const version = state.version;
    fetch("/api/charts").then(r => r.json()).then(now => {
      figures = {};
      for (const [id, spec] of Object.entries(now.figures)) figures[id] = JSON.stringify(spec);
      if (now.html !== shape) {
        shape = now.html;
        at("charts").innerHTML = now.html;
        window.taillight.find(id => figures[id]);
      } else {
        window.taillight.redraw();
      }
      [drawn, drawnAt] = [version, Date.now()];
    }).catch(() => {}).finally(() => { asked = false; });
  };

  const lost = text => {
    at("lost").hidden = !text;
    at("lost").textContent = text;
  };
  const source = new EventSource("/events");
  source.onmessage = event => {
    state = JSON.parse(event.data);
    if (state.run !== run) [run, shape] = [state.run, null];
    stallSince = state.stalled ? Date.now() - 1000 * state.oldest_s : null;
    lost("");
    show();
    charts();
    // Nothing more comes: a stream that is asked for again would only fail.
    if (state.end && !state.series) source.close();
  };
  source.onerror = () => lost(state && state.end ? "" :
    "The run does not answer: it has ended, or was killed. Its directory" +
    (state && state.directory ? " (" + state.directory + ")" : "") +
    " has what was measured; `taillight report` reads it. This page tries again.");
  // A stall sends no news: its age is counted here.
  setInterval(() => {
    if (stallSince === null) return;
    const p = at("verdict").querySelector("p");
    p.textContent = "An I/O has been in flight for " + ((Date.now() - stallSince) / 1000).toFixed(1) + " s at least.";
  }, 500);
  document.addEventListener("visibilitychange", charts);
})();
