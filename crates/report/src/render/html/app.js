"use strict";
// Draws the figures of the page: in the page's colours, with ticks people can read at every zoom.
(() => {
  let printing = false;
  // Figures are drawn before the styles for paper hold.
  const ON_PAPER = { "--ink": "#000", "--grid": "#ddd", "--axis": "#999", "--card": "#fff" };
  const css = name => printing && ON_PAPER[name] || getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const figures = new Map();
  // Width of a figure on paper, px: 186 mm less the frame around it.
  const PAPER = 666, PAPER_HIGH = 300, PAPER_HALF = 245;
  // Whether it is in an open part of the page: only then it has a size.
  const open = f => f.node.offsetParent !== null;
  const isAxis = key => /^[xy]axis\d*$/.test(key);

  // Labels -------------------------------------------------------------------------------------
  const TIMES = [[6e10, "min"], [1e9, "s"], [1e6, "ms"], [1e3, "us"], [1, "ns"]];
  const BYTES = [[2 ** 40, "TiB/s"], [2 ** 30, "GiB/s"], [2 ** 20, "MiB/s"], [1024, "KiB/s"], [1, "B/s"]];
  const SIZES = BYTES.map(([size, name]) => [size, name.replace("/s", "")]);
  const COUNTS = [[1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""]];
  const trim = v => String(Number(v.toPrecision(6)));
  const unitOf = (units, v) => units.find(u => Math.abs(v) >= u[0] * 0.9999) || units[units.length - 1];
  const label = (units, v, unit) => {
    if (v === 0) return "0";
    const u = unit || unitOf(units, v);
    return (trim(v / u[0]) + (units === COUNTS ? "" : " ") + u[1]).trim();
  };
  // A value in words for hover texts: three digits and a unit.
  const words = (units, v) => {
    const u = unitOf(units, v), x = v / u[0];
    return (Math.abs(x) >= 99.95 ? x.toFixed(0) : x.toPrecision(3)) + " " + u[1];
  };
  const count = v => Math.round(v).toLocaleString("en-US");

  // Round steps: 1, 2 or 5 times a power of the base, at most `most` of them.
  const niceStep = (span, most, base) => {
    const rough = span / most;
    let size = base === 1024 ? 1024 ** Math.floor(Math.log(rough) / Math.log(1024)) : 10 ** Math.floor(Math.log10(rough));
    const factors = base === 1024 ? [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024] : [1, 2, 5, 10];
    return size * factors.find(f => f * size >= rough * 0.999);
  };
  const linear = (lo, hi, most, base) => {
    const step = niceStep(hi - lo, most, base);
    const out = [];
    for (let v = Math.ceil(lo / step) * step; v <= hi + step * 1e-9; v += step) out.push(Number(v.toPrecision(12)));
    return out;
  };
  const decades = (lo, hi, most) => {
    const span = hi - lo;
    // Every so many-th decade where they would stand too close.
    const stride = Math.max(1, Math.ceil(span / most));
    const factors = span > 2.2 ? [1] : span > 0.9 ? [1, 2, 5] : null;
    if (!factors) return linear(10 ** lo, 10 ** hi, 6, 10);
    const out = [];
    for (let d = Math.floor(lo); d <= hi; d++) for (const f of factors) {
      if (d % stride) continue;
      const v = f * 10 ** d;
      if (Math.log10(v) >= lo - 1e-9 && Math.log10(v) <= hi + 1e-9) out.push(Number(v.toPrecision(12)));
    }
    return out;
  };
  const ninesTicks = (lo, hi) => {
    const vals = [1, 0.5];
    for (let k = 1; k < 13; k++) vals.push(10 ** -k);
    if (hi - lo < 1.5) for (let k = 0; k < 13; k++) vals.push(2 * 10 ** -k, 3 * 10 ** -k, 7 * 10 ** -k);
    return vals.filter(v => v <= 1 && Math.log10(v) >= lo - 0.01 && Math.log10(v) <= hi + 0.01).sort((a, b) => a - b);
  };
  const ninesLabel = v => {
    const digits = Math.max(0, Math.ceil(-Math.log10(v) - 1e-9) - 2);
    return (100 * (1 - v)).toFixed(Math.min(12, digits)) + " %";
  };

  // Ticks for what an axis shows now.
  const ticks = (kind, axis, room) => {
    if (!axis || !axis.range) return null;
    const lo = Math.min(...axis.range), hi = Math.max(...axis.range), log = axis.type === "log";
    const most = Math.max(3, Math.floor(room));
    if (kind === "nines") { const v = ninesTicks(lo, hi); return [v, v.map(ninesLabel)]; }
    const units = { time: TIMES, bytes: BYTES, size: SIZES, number: COUNTS }[kind];
    if (!units) return null;
    // Decades of seconds are no round minutes.
    const plain = units === TIMES ? TIMES.slice(1) : units;
    if (log) { const v = decades(lo, hi, 1.7 * room); return [v, v.map(x => label(plain, x))]; }
    const v = linear(lo, hi, most, kind === "bytes" || kind === "size" ? 1024 : 10).filter(x => x >= 0);
    const unit = unitOf(units, Math.max(...v.map(Math.abs), 0));
    return [v, v.map(x => label(units, x, unit))];
  };
  const tickPatch = f => {
    const patch = {}, plot = f.node._fullLayout;
    for (const [name, kind] of Object.entries(f.axes)) {
      const axis = plot[name];
      // Small pictures below each other share the height.
      const part = axis && axis.domain ? axis.domain[1] - axis.domain[0] : 1;
      const size = name[0] === "x" ? plot._size.w / 110 : plot._size.h * part / (part < 0.5 ? 26 : 44);
      const found = ticks(kind, axis, size);
      if (found) {
        patch[name + ".tickmode"] = "array";
        patch[name + ".tickvals"] = found[0];
        patch[name + ".ticktext"] = found[1];
      }
    }
    return patch;
  };

  // Hover texts that are made here from the points, so that the file stays small.
  const hoverTexts = spec => {
    for (const trace of spec.data) {
      if (trace.hovertext || !/%\{hovertext\}/.test(trace.hovertemplate || "")) continue;
      if (trace.type === "heatmap") {
        trace.hovertext = trace.z.map((row, i) => row.map(z => z === null ? "" :
          count(10 ** z) + " I/Os from " + words(TIMES, trace.y[i]) + " to " + words(TIMES, trace.y[i + 1])));
        continue;
      }
      const nines = spec.axes.yaxis === "nines";
      trace.hovertext = trace.x.map((ns, i) => {
        const y = trace.y[i];
        if (!nines) return y.toFixed(y > 99 ? 3 : 1) + " % within " + words(TIMES, ns);
        const share = y >= 0.1 ? (100 * y).toFixed(1) + " %" : "1 in " + count(Number((1 / y).toPrecision(3)));
        return share + " take " + words(TIMES, ns) + " or longer";
      });
    }
  };

  // The hues of the figures, and lighter ones of the same kind for dark pages.
  const HUES = {
    "#2E4E95": "#318BF5", "#E2500F": "#D96C1C", "#04A870": "#78C272", "#E87BB4": "#E98ECA",
    "#C9A227": "#FECE0A", "#8FA9F5": "#5AC5FF", "#646872": "#C9CDD7", "#8A3D04": "#B18179",
    "#65084D": "#8A74B0", "#7D842F": "#A1C02F", "#2D267B": "#9997F5", "#4883A8": "#5EE7FF",
    "#C8102E": "#FF6B70",
    // Ordered values.
    "#300034": "#7544CD", "#3A0072": "#476EF0", "#1F27A9": "#1298DC", "#045C8C": "#0AB6CE",
    "#027A8E": "#1BD2BF", "#0E988D": "#20F091", "#03B974": "#B9F854", "#88CC1C": "#FFF7C5",
  };
  const dark = () => matchMedia("(prefers-color-scheme: dark)").matches && !printing;
  const rgb = hex => [1, 3, 5].map(i => parseInt(hex.slice(i, i + 2), 16)).join(",");
  const themed = text => {
    if (!dark()) return text;
    for (const [from, to] of Object.entries(HUES)) {
      text = text.replaceAll(from, to).replaceAll("rgba(" + rgb(from) + ",", "rgba(" + rgb(to) + ",");
    }
    return text;
  };

  // Marks of runs and layers outside the figures.
  const chips = () => {
    for (const chip of document.querySelectorAll(".chip[style]")) {
      chip.dataset.style ||= chip.getAttribute("style");
      chip.setAttribute("style", themed(chip.dataset.style));
    }
  };

  // Colours ------------------------------------------------------------------------------------
  const colours = layout => {
    const ink = css("--ink"), grid = css("--grid"), axis = css("--axis"), card = css("--card");
    const patch = {
      "paper_bgcolor": "rgba(0,0,0,0)", "plot_bgcolor": "rgba(0,0,0,0)", "font.color": ink,
      "hoverlabel.bgcolor": card, "hoverlabel.bordercolor": axis, "hoverlabel.font.color": ink,
      "hoverlabel.align": "left", "modebar.bgcolor": "rgba(0,0,0,0)", "modebar.color": axis, "modebar.activecolor": ink,
      "font.family": "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'DejaVu Sans', sans-serif",
    };
    for (const key of Object.keys(layout).filter(isAxis)) {
      patch[key + ".gridcolor"] = grid;
      patch[key + ".linecolor"] = axis;
      patch[key + ".tickcolor"] = axis;
      patch[key + ".automargin"] = layout[key].automargin !== false;
      patch[key + ".title.standoff"] = 12;
      patch[key + ".title.font.size"] = 13;
    }
    return patch;
  };
  const put = (object, path, value) => {
    const keys = path.split(".");
    const last = keys.pop();
    let at = object;
    for (const key of keys) at = at[key] = at[key] || {};
    at[last] = value;
  };

  // Figures ------------------------------------------------------------------------------------
  const retick = f => {
    if (f.busy) return;
    f.busy = true;
    Plotly.relayout(f.node, tickPatch(f)).then(() => { f.busy = false; });
  };
  // What is hidden: by the reader (a legend entry, a switch) or with its whole run.
  const hidden = new Set();
  const effective = (f, i) => hidden.has(f.keys[i].split("|")[0]) ? false : f.shown[i];
  const show = f => {
    if (f.drawn) Plotly.restyle(f.node, { visible: f.keys.map((_, i) => effective(f, i)) });
  };
  const legendClick = (f, event, alone) => {
    const key = f.keys[event.curveNumber];
    const on = i => f.shown[i] === true;
    if (alone) {
      // Alone, or all again when it is alone already.
      const others = f.keys.some((k, i) => k !== key && k !== "" && on(i));
      f.shown = f.shown.map((s, i) => f.keys[i] === "" || s === false ? s : (f.keys[i] === key || !others) ? true : "legendonly");
    } else {
      const next = on(event.curveNumber) ? "legendonly" : true;
      f.shown = f.shown.map((s, i) => f.keys[i] === key && s !== false ? next : s);
    }
    show(f);
    // The axis was made for what is shown at first; what comes in may lie beside it.
    if (on(event.curveNumber) && f.axes.xaxis === "time") Plotly.relayout(f.node, { "xaxis.autorange": true });
    return false;
  };
  // Figures over time show the same stretch of it; null = each its own whole.
  const together = (f, range) => {
    if (f.axes.xaxis !== "elapsed") return;
    for (const other of figures.values()) {
      if (other === f || !other.drawn || other.axes.xaxis !== "elapsed") continue;
      Plotly.relayout(other.node, { "xaxis.range": (range || other.home["xaxis.range"]).slice() });
    }
  };
  // On a telephone: smaller words, a legend line for each entry below the others, fewer of the
  // ticks that carry words of their own.
  const SMALL = 10, CHAR = 0.56, LINE = 19;
  const slim = (f, spec) => {
    const room = f.node.clientWidth;
    const layout = spec.layout;
    layout.font = Object.assign({}, layout.font, { size: 11 });
    layout.legend = Object.assign({}, layout.legend, { font: { size: SMALL } });
    const listed = spec.data.filter(t => t.showlegend !== false && t.visible !== false && t.name);
    // A name that is wider than the figure would be cut at its edge, within a letter.
    const most = Math.floor((room - 70) / (CHAR * SMALL));
    for (const t of listed) if (t.name.length > most) t.name = t.name.slice(0, most - 1) + "\u2026";
    const heads = new Set(listed.map(t => t.legendgroup).filter(group => group));
    const lines = layout.showlegend === false ? 0 : listed.length + heads.size;
    f.tall = f.tall || f.node.clientHeight;
    f.node.style.height = f.tall + Math.max(0, lines - 2) * LINE + "px";
    for (const note of layout.annotations || []) {
      const fits = text => (room - 90) / (CHAR *
        Math.max(...text.split("<br>").map(line => line.replace(/<[^>]*>/g, "").length)));
      const size = (note.font && note.font.size) || 12;
      if (!note.text || fits(note.text) >= size) continue;
      // A panel's title stands above the words of its lines.
      note.text = note.text.replace("</b>   ", "</b><br>").replaceAll("   ", "  ");
      note.align = "left";
      note.font = Object.assign({}, note.font, { size: Math.max(7, Math.min(9, fits(note.text))) });
    }
    // Names on the upright axis (of figures, of settings) take two fifths of the width at most.
    const named = Math.max(8, Math.floor(0.4 * room / (CHAR * 11)));
    for (const key of Object.keys(layout).filter(k => k.startsWith("yaxis") && !f.axes[k])) {
      const axis = layout[key];
      if (axis.ticktext) axis.ticktext = axis.ticktext.map(t => t.length > named ? t.slice(0, named - 1) + "\u2026" : t);
    }
    for (const key of Object.keys(layout).filter(k => k.startsWith("xaxis"))) {
      const axis = layout[key];
      if (!axis.ticktext) continue;
      // The last one is the tail's: the others are counted from it.
      const step = Math.ceil(axis.ticktext.length * 15 / (room - 110));
      const kept = (_, i, all) => (all.length - 1 - i) % step === 0;
      axis.tickvals = axis.tickvals.filter(kept);
      axis.ticktext = axis.ticktext.filter(kept);
    }
  };
  // On paper the words of vertical lines near the right end stand left of them: there is less room.
  const turn = (f, side) => {
    const axis = f.node._fullLayout.xaxis, [lo, hi] = axis.range;
    const place = t => ((axis.type === "log" ? Math.log10(t.x[0]) : t.x[0]) - lo) / (hi - lo);
    const far = f.node.data.map((t, i) => i).filter(i => f.node.data[i].mode === "lines+text" && place(f.node.data[i]) > 0.7);
    if (far.length) Plotly.restyle(f.node, { textposition: side }, far);
  };
  // Labels of their own on the upright axis that would lie on each other: from the plain one (0 %) outwards, those
  // with room stay.
  const thin = f => {
    const axis = f.node._fullLayout.yaxis;
    if (!axis || f.axes.yaxis || !axis.ticktext || axis.type === "category") return;
    const all = axis.tickvals.map((v, i) => ({ v, text: axis.ticktext[i], at: axis.d2p(v) }));
    const plain = all.find(t => /^0/.test(t.text)) || all[0];
    const kept = [];
    for (const t of [plain, ...all]) if (kept.every(k => Math.abs(k.at - t.at) >= 14)) kept.push(t);
    if (kept.length < all.length) Plotly.relayout(f.node, { "yaxis.tickvals": kept.map(t => t.v), "yaxis.ticktext": kept.map(t => t.text) });
  };
  // A long legend takes its room above the lines, not from them.
  const leastHigh = () => printing ? 160 : 220;
  const makeRoom = f => {
    for (let pass = 0; pass < 2; pass++) {
      const { legend, _size } = f.node._fullLayout;
      if (!legend || !(legend._height > 3 * LINE)) return;
      const lack = Math.max(0, leastHigh() - _size.h) + Math.max(0, legend._height - legend._effHeight);
      if (lack < 8) return;
      const height = Math.round(f.node.clientHeight + lack);
      f.node.style.height = height + "px";
      Plotly.relayout(f.node, { height });
    }
  };
  // A picture to publish: what is shown, its headings above, command, device and date below.
  const lines = (text, most) => {
    const all = [""];
    for (const word of text.split(" ")) {
      if (all.at(-1) && (all.at(-1) + " " + word).length > most) all.push("");
      all[all.length - 1] = (all.at(-1) + " " + word).trim();
    }
    return all;
  };
  const save = f => {
    const plain = text => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
    const part = f.node.closest("section.chart"), head = f.node.parentElement.querySelector("h3");
    const words = [part && part.querySelector("h2"), head].filter(Boolean).map(n => n.textContent);
    const { clientWidth: width, clientHeight: height } = f.node;
    const below = lines(document.body.dataset.caption || "", Math.floor((width - 30) / 5.6));
    const layout = Object.assign({}, f.node.layout, { width, height: height + 54 + 15 * below.length, paper_bgcolor: css("--card") });
    const margin = f.node._fullLayout._size, room = layout.height - margin.t - 44 - margin.b - 15 * below.length;
    layout.margin = { l: margin.l, r: margin.r, t: margin.t + 44, b: margin.b + 15 * below.length, autoexpand: false };
    const note = (y, yshift, anchor, size, text) => ({ x: 0, xref: "paper", xshift: 10 - margin.l, xanchor: "left", y, yref: "paper", yshift,
      yanchor: anchor, align: "left", showarrow: false, font: { size }, text });
    layout.annotations = (layout.annotations || []).concat(
      note(1, margin.t + 36, "top", 16, "<b>" + plain(words.join(": ")) + "</b>"),
      note(0, -margin.b - 15 * below.length + 6, "bottom", 11, below.map(plain).join("<br>")));
    if (room < 80) return Promise.resolve("");
    return Plotly.toImage({ data: f.node.data, layout }, { format: "png", scale: 2, width, height: layout.height }).then(url => {
      const link = document.createElement("a");
      link.href = url;
      link.download = "taillight-" + f.id + ".png";
      link.click();
      return url;
    });
  };
  const draw = f => {
    if (f.drawn) return;
    f.drawn = true;
    const data = document.getElementById("data-" + f.id);
    if (data && "packed" in data.dataset) {
      unpackData(data).then(() => { f.drawn = false; draw(f); });
      return;
    }
    const spec = JSON.parse(themed(f.text()));
    f.axes = spec.axes;
    f.switches = spec.switches;
    f.home = {};
    f.shown = f.shown || spec.data.map(t => t.visible === undefined ? true : t.visible);
    f.keys = spec.data.map(t => typeof t.meta === "string" ? t.meta : "");
    hoverTexts(spec);
    // Labels of vertical lines need room; without it their words are in the hover text.
    if (f.node.clientWidth < 640) {
      for (const trace of spec.data) if (trace.mode === "lines+text") trace.mode = "lines";
    }
    if (f.node.clientWidth < 480) slim(f, spec);
    spec.data.forEach((t, i) => { t.visible = effective(f, i); });
    for (const key of Object.keys(spec.layout).filter(isAxis)) {
      if (f.chosen[key + ".range"]) f.home[key + ".range"] = f.chosen[key + ".range"].slice();
      else if (spec.layout[key].range) f.home[key + ".range"] = spec.layout[key].range.slice();
      else f.home[key + ".autorange"] = true;
    }
    for (const [path, value] of Object.entries(colours(spec.layout))) put(spec.layout, path, value);
    const config = Object.assign({}, spec.config, {
      doubleClick: false,
      // Where there is no room beside the legend the buttons would lie on it.
      displayModeBar: f.node.clientWidth < 480 ? false : "hover",
      modeBarButtonsToRemove: ["toImage", "select2d", "lasso2d", "autoScale2d", "resetScale2d", "zoomIn2d", "zoomOut2d"],
      modeBarButtonsToAdd: [{ name: "Save as a picture, with its caption", icon: Plotly.Icons.camera, click: () => save(f) }],
    });
    for (const [path, value] of Object.entries(f.chosen)) put(spec.layout, path, value);
    // What the reader has zoomed into or hidden stays when a figure gets newer data.
    spec.layout.uirevision = "kept";
    Plotly.react(f.node, spec.data, spec.layout, config).then(() => {
      makeRoom(f);
      retick(f);
      if (f.heard) return;
      f.heard = true;
      f.node.on("plotly_legendclick", e => legendClick(f, e, false));
      f.node.on("plotly_legenddoubleclick", e => legendClick(f, e, true));
      f.node.on("plotly_doubleclick", () => { Plotly.relayout(f.node, f.home); together(f, null); });
      f.node.on("plotly_relayout", change => {
        const from = change["xaxis.range[0]"], to = change["xaxis.range[1]"];
        if (from !== undefined && to !== undefined) together(f, [from, to]);
        if (Object.keys(change).some(k => /axis\d*\.(range|autorange|type)/.test(k))) retick(f);
      });
    });
  };
  const choose = button => {
    const f = figures.get(button.dataset.figure);
    if (!f) return;
    draw(f);
    const choice = f.switches[button.dataset.switch].choices[button.dataset.choice];
    for (const other of button.parentElement.querySelectorAll("button")) {
      other.setAttribute("aria-pressed", String(other === button));
    }
    for (const [key, value] of Object.entries(choice.layout)) {
      if (/\.range$/.test(key)) f.home[key] = value.slice();
      f.chosen[key] = value;
    }
    if (choice.data.visible) { f.shown = choice.data.visible.slice(); show(f); }
    if (Object.keys(choice.layout).length) Plotly.relayout(f.node, choice.layout);
  };

  const find = text => {
    figures.clear();
    for (const node of document.querySelectorAll(".plot")) {
      const id = node.id.slice("plot-".length);
      figures.set(id, { id, node, text: () => text(id), drawn: false, chosen: {} });
      near.observe(node);
    }
    for (const button of document.querySelectorAll(".switch button")) {
      button.addEventListener("click", () => choose(button));
    }
  };
  for (const box of document.querySelectorAll(".runs input")) {
    box.addEventListener("change", () => {
      if (box.checked) hidden.delete(box.value); else hidden.add(box.value);
      for (const f of figures.values()) show(f);
    });
  }
  // Figures near the reader are drawn first, then some more when there is time; of many, the rest when they come near.
  const near = new IntersectionObserver(entries => {
    for (const entry of entries.filter(e => e.isIntersecting)) {
      near.unobserve(entry.target);
      const f = figures.get(entry.target.id.slice("plot-".length));
      if (f) draw(f);
    }
  }, { rootMargin: "400px 0px" });
  // For a page that stays open: figures whose texts come from elsewhere and change.
  window.taillight = {
    find,
    picture: id => save(figures.get(id)),
    redraw: () => {
      for (const f of figures.values()) if (f.drawn) { f.drawn = false; draw(f); }
    },
  };
  const AHEAD = 24;
  const drawNext = () => {
    const f = [...figures.values()].filter(open).slice(0, AHEAD).find(f => !f.drawn);
    if (!f) return unpackAll();
    draw(f);
    setTimeout(drawNext, 20);
  };
  const begin = () => {
    find(id => document.getElementById("data-" + id).textContent);
    setTimeout(drawNext, 300);
  };
  // In a report the plotting library is kept compressed: the page is less than half the size.
  const unpacked = packed => {
    // Two megabytes: a call for each of them would be felt.
    const text = atob(packed.trim()), bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
  };
  const unpack = async library => {
    const script = document.createElement("script");
    script.textContent = await unpacked(library.textContent);
    document.head.append(script);
  };
  const unpackData = async data => {
    const text = await unpacked(data.textContent);
    // Asked for twice, it is unpacked once.
    if ("packed" in data.dataset) data.textContent = text;
    delete data.dataset.packed;
  };
  // On paper everything is drawn at once.
  const unpackAll = async () => {
    for (const data of document.querySelectorAll("script[data-packed]")) await unpackData(data);
  };
  const library = document.getElementById("plotly");
  if (!library) begin();
  else unpack(library).then(begin, () => {
    for (const node of document.querySelectorAll(".plot")) {
      node.textContent = "This browser cannot unpack the chart library: a newer one can.";
    }
  });
  chips();
  const recolour = () => {
    chips();
    for (const f of figures.values()) if (f.drawn) {
      Plotly.purge(f.node);
      f.drawn = f.heard = false;
      draw(f);
    }
  };
  // A link into a closed part opens it.
  const reveal = () => {
    const part = location.hash.length > 1 && document.getElementById(location.hash.slice(1));
    for (let d = part && part.closest("details"); d; d = d.parentElement.closest("details")) d.open = true;
    const closed = part && part.querySelector(":scope > details.long");
    if (closed) closed.open = true;
    if (part) part.scrollIntoView();
  };
  addEventListener("hashchange", reveal);
  // A menu closes when something of it was chosen, or something else.
  document.addEventListener("click", event => {
    for (const menu of document.querySelectorAll(".choose[open]")) {
      if (!menu.contains(event.target) || event.target.closest("a")) menu.open = false;
    }
  });
  reveal();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recolour);
  addEventListener("beforeprint", () => {
    const wasDark = dark();
    printing = true;
    for (const part of document.querySelectorAll(".sheet details:not([open]), .conformance:not([open]), .banner details:not([open])")) {
      part.open = part.dataset.paper = true;
    }
    for (const f of figures.values()) if (open(f)) draw(f);
    if (wasDark) recolour();
    for (const f of figures.values()) if (f.drawn) {
      f.screen = f.node.style.height;
      const screen = parseInt(f.screen);
      const high = f.node.closest(".halves") ? PAPER_HALF : PAPER_HIGH;
      f.node.style.height = (screen > 520 ? screen : Math.min(screen, high)) + "px";
      Plotly.relayout(f.node, { width: PAPER, height: parseInt(f.node.style.height) });
      turn(f, "top left");
      makeRoom(f);
      thin(f);
    }
  });
  addEventListener("afterprint", () => {
    printing = false;
    for (const part of document.querySelectorAll("details[data-paper]")) {
      part.open = false;
      delete part.dataset.paper;
    }
    for (const f of figures.values()) if (f.drawn && f.screen) {
      f.node.style.height = f.screen;
      Plotly.relayout(f.node, { width: null, height: null, autosize: true });
      turn(f, "top right");
    }
    if (dark()) recolour();
  });
})();
