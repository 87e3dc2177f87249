setTimeout(() => {
  const box = node => { const r = node.getBoundingClientRect(); return [r.top + scrollY, r.height]; };
  const one = sel => { const n = document.querySelector(sel); return n && n.offsetParent !== null ? { top: box(n)[0], height: box(n)[1], text: n.textContent.trim().replace(/\s+/g, " ") } : null; };
  const parts = {};
  for (const [name, sel] of Object.entries({
    title: "h1", about: "header .about", answer: "#answer .answer", shared: "#shared", cards: "#cards", held: "#held", follow: ".follow", chart: "section.chart .plot",
    holders: "#holders", verdicts: "#verdicts", tables: ".tables .card", conformance: ".conformance > summary", tiles: "#tiles", caption: ".caption",
  })) parts[name] = one(sel);
  const plots = [...document.querySelectorAll(".plot")].filter(p => p._fullLayout).map(p => ({
    id: p.id, top: box(p)[0],
    lines: p.data.filter(t => t.type === "scatter" && t.visible === true && t.showlegend !== false && /lines/.test(t.mode)).length,
    log: (p._fullLayout.yaxis || {}).type,
    words: [...p.querySelectorAll("svg text")].map(t => t.textContent).concat((p.parentElement.querySelector("h3") || {}).textContent || ""),
    cut: [...p.querySelectorAll("svg text")].filter(t => t.textContent.trim() && !t.closest(".modebar")).filter(t => { const r = t.getBoundingClientRect(), a = p.getBoundingClientRect(); return r.width && (r.left < a.left - 1 || r.right > a.right + 1); }).map(t => t.textContent),
  }));
  const cards = [...document.querySelectorAll("#cards .tile")].map(c => [c.dataset.card, c.textContent.trim().replace(/\s+/g, " ")]);
  const chart = document.querySelector("section.chart");
  const nav = (document.querySelector("nav") || document.body).getBoundingClientRect();
  const links = [...document.querySelectorAll("nav a")].map(a => a.getBoundingClientRect()).filter(a => a.top < nav.bottom);
  const out = { nav_cut: links.filter(a => a.right > nav.right + 1 || a.bottom > nav.bottom + 1).length, nav_shown: links.length, parts, plots, cards, first_chart: chart && chart.id, wide: document.documentElement.scrollWidth, room: innerWidth,
    open_settings: [...document.querySelectorAll(".settings[open]")].length, settings: document.querySelectorAll(".settings").length };
  const pre = document.createElement("pre");
  pre.id = "facts";
  pre.textContent = JSON.stringify(out);
  if (parent !== window) parent.postMessage(pre.outerHTML, "*");
  document.body.replaceChildren(pre);
  document.head.replaceChildren();
}, 4000);
