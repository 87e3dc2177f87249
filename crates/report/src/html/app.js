"use strict";
// Draws the figures of the page: in the page's colours, with ticks people can read at every zoom.
(() => {
  const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const figures = new Map();
  const isAxis = key => /^[xy]axis\d*$/.test(key);

  // Labels -------------------------------------------------------------------------------------
  const TIMES = [[6e10, "min"], [1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];
  const BYTES = [[2 ** 40, "TiB/s"], [2 ** 30, "GiB/s"], [2 ** 20, "MiB/s"], [1024, "KiB/s"], [1, "B/s"]];
  const COUNTS = [[1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""]];
  const trim = v => String(Number(v.toPrecision(6)));
  const unitOf = (units, v) => units.find(u => Math.abs(v) >= u[0] * 0.9999) || units[units.length - 1];
  const label = (units, v, unit) => {
    if (v === 0) return "0";
    const u = unit || unitOf(units, v);
    return (trim(v / u[0]) + " " + u[1]).trim();
  };

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
  const decades = (lo, hi) => {
    const span = hi - lo;
    const factors = span > 2.2 ? [1] : span > 0.9 ? [1, 2, 5] : null;
    if (!factors) return linear(10 ** lo, 10 ** hi, 6, 10);
    const out = [];
    for (let d = Math.floor(lo); d <= hi; d++) for (const f of factors) {
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
    const digits = Math.max(0, Math.ceil(-Math.log10(v)) - 2 + (Math.log10(v) % 1 === 0 ? 0 : 0));
    return (100 * (1 - v)).toFixed(Math.min(12, digits)) + " %";
  };

  // Ticks for what an axis shows now.
  const ticks = (kind, axis, room) => {
    if (!axis || !axis.range) return null;
    const lo = Math.min(...axis.range), hi = Math.max(...axis.range), log = axis.type === "log";
    const most = Math.max(3, Math.floor(room));
    if (kind === "nines") { const v = ninesTicks(lo, hi); return [v, v.map(ninesLabel)]; }
    const units = { time: TIMES, bytes: BYTES, number: COUNTS }[kind];
    if (!units) return null;
    if (log) { const v = decades(lo, hi); return [v, v.map(x => label(units, x))]; }
    const v = linear(lo, hi, most, kind === "bytes" ? 1024 : 10).filter(x => x >= 0);
    const unit = unitOf(units, Math.max(...v.map(Math.abs), 0));
    return [v, v.map(x => label(units, x, unit))];
  };
  const tickPatch = f => {
    const patch = {}, plot = f.node._fullLayout;
    for (const [name, kind] of Object.entries(f.axes)) {
      const axis = plot[name];
      const size = name[0] === "x" ? plot._size.w / 110 : plot._size.h / 55;
      const found = ticks(kind, axis, size);
      if (found) {
        patch[name + ".tickmode"] = "array";
        patch[name + ".tickvals"] = found[0];
        patch[name + ".ticktext"] = found[1];
      }
    }
    return patch;
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
      patch[key + ".automargin"] = true;
      patch[key + ".title.standoff"] = 12;
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
  const draw = f => {
    if (f.drawn) return;
    f.drawn = true;
    const spec = JSON.parse(f.data.textContent);
    f.axes = spec.axes;
    f.switches = spec.switches;
    f.home = {};
    for (const key of Object.keys(spec.layout).filter(isAxis)) {
      if (spec.layout[key].range) f.home[key + ".range"] = spec.layout[key].range.slice();
      else f.home[key + ".autorange"] = true;
    }
    for (const [path, value] of Object.entries(colours(spec.layout))) put(spec.layout, path, value);
    const config = Object.assign({}, spec.config, {
      doubleClick: false,
      modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d", "resetScale2d", "zoomIn2d", "zoomOut2d"],
      toImageButtonOptions: { format: "png", scale: 2, filename: "taillight-" + f.id },
    });
    Plotly.newPlot(f.node, spec.data, spec.layout, config).then(() => {
      retick(f);
      f.node.on("plotly_doubleclick", () => Plotly.relayout(f.node, f.home));
      f.node.on("plotly_relayout", change => {
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
    }
    Plotly.update(f.node, choice.data, choice.layout);
  };

  for (const node of document.querySelectorAll(".plot")) {
    const id = node.id.slice("plot-".length);
    figures.set(id, { id, node, data: document.getElementById("data-" + id), drawn: false });
  }
  for (const button of document.querySelectorAll(".switch button")) {
    button.addEventListener("click", () => choose(button));
  }
  // Figures are drawn when they come near; for paper, all at once.
  const near = new IntersectionObserver(entries => {
    for (const entry of entries.filter(e => e.isIntersecting)) {
      near.unobserve(entry.target);
      draw(figures.get(entry.target.id.slice("plot-".length)));
    }
  }, { rootMargin: "900px 0px" });
  for (const f of figures.values()) near.observe(f.node);
  const recolour = () => {
    for (const f of figures.values()) if (f.drawn) Plotly.relayout(f.node, colours(f.node.layout));
  };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recolour);
  addEventListener("beforeprint", () => {
    for (const f of figures.values()) draw(f);
    for (const d of document.querySelectorAll("details")) d.open = true;
    recolour();
    for (const f of figures.values()) Plotly.Plots.resize(f.node);
  });
  addEventListener("afterprint", () => setTimeout(recolour, 100));
})();
