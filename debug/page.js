"use strict";
// The page is drawn from data: every name, key and text goes in as a text node.
const outcomes = ["satisfied", "forced", "expired", "cancelled", "closed"];
const svgNS = "http://www.w3.org/2000/svg";

function el(name, attrs, ...children) {
  const e = document.createElement(name);
  for (const [k, v] of Object.entries(attrs || {})) e.setAttribute(k, v);
  e.append(...children);
  return e;
}
function svg(name, attrs, ...children) {
  const e = document.createElementNS(svgNS, name);
  for (const [k, v] of Object.entries(attrs || {})) e.setAttribute(k, v);
  e.append(...children);
  return e;
}
function num(n) {
  const a = Math.abs(n);
  if (a >= 1e9) return (n / 1e9).toFixed(2) + " G";
  if (a >= 1e6) return (n / 1e6).toFixed(2) + " M";
  if (a >= 1e4) return (n / 1e3).toFixed(1) + " k";
  return a >= 100 || Number.isInteger(n) ? n.toFixed(0) : n.toFixed(1);
}
function time(s) {
  const a = Math.abs(s);
  if (a >= 172800) return (s / 86400).toFixed(1) + " d";
  if (a >= 7200) return (s / 3600).toFixed(1) + " h";
  if (a >= 120) return (s / 60).toFixed(1) + " min";
  if (a >= 1) return +s.toFixed(1) + " s";
  if (a >= 1e-3) return +(s * 1e3).toFixed(a < 0.01 ? 1 : 0) + " ms";
  return a === 0 ? "0" : (s * 1e6).toFixed(0) + " µs";
}
function quantile(h, q) {
  const n = h.counts.reduce((a, b) => a + b, 0);
  let rank = Math.max(Math.ceil(q * n), 1);
  if (n === 0) return "–";
  for (let i = 0; i < h.counts.length; i++) {
    rank -= h.counts[i];
    if (rank <= 0) return i < h.bounds.length ? "≤ " + time(h.bounds[i]) : "> " + time(h.bounds.at(-1));
  }
}

function tile(label, value) { return el("div", {class: "tile"}, el("b", {}, value), el("span", {}, label)); }

function plot(title, hint, drawing, left, right, legend) {
  return el("div", {class: "plot"}, el("h3", {}, title + " ", el("small", {}, hint)), drawing,
    el("div", {class: "axis"}, el("span", {}, left), el("span", {}, right)), ...(legend ? [legend] : []));
}
function canvas(label) {
  return svg("svg", {viewBox: "0 0 100 100", preserveAspectRatio: "none", role: "img", "aria-label": label});
}
// area draws bands, one upon the other, over samples that lie at x from 0 to 100.
function area(label, xs, bands, top) {
  const c = canvas(label);
  let floor = xs.map(() => 0);
  for (const band of bands) {
    const roof = floor.map((f, i) => f + band.values[i]);
    const y = v => (100 - 94 * v / top).toFixed(2);
    const path = roof.map((v, i) => `${xs[i].toFixed(2)},${y(v)}`)
      .concat(floor.map((v, i) => `${xs[i].toFixed(2)},${y(v)}`).reverse());
    if (xs.length > 1) c.append(svg("polygon", {points: path.join(" "), class: band.class}));
    floor = roof;
  }
  return c;
}
function pendingPlot(h, xs, span) {
  const most = Math.max(1, ...h.map(s => s.pending));
  return plot("Pending", "most " + num(most), area("pending operations over the last minutes", xs,
    [{values: h.map(s => s.pending), class: "fill-pending"}], most), span, "now");
}
function endedPlot(h, xs, span) {
  const rates = outcomes.map((o, k) => ({class: o, values: h.map((s, i) => {
    if (i === 0) return 0;
    const d = (s.time - h[i - 1].time) / 1000;
    return d > 0 ? Math.max(0, s.ended[k] - h[i - 1].ended[k]) / d : 0;
  })}));
  const most = Math.max(1, ...h.map((_, i) => rates.reduce((a, b) => a + b.values[i], 0)));
  const used = rates.filter(r => r.values.some(v => v > 0));
  return plot("Ended per second", "most " + num(most), area("operations ended per second by outcome", xs, rates, most), span, "now", legend(used.map(r => r.class)));
}
function legend(classes) {
  return el("div", {class: "legend"}, ...classes.map(c => el("span", {}, el("i", {class: c}), c)));
}
// bars draws histograms with the same bounds, one upon the other.
function bars(title, hint, parts) {
  const bounds = parts[0].h.bounds, total = parts[0].h.counts.map((_, i) => parts.reduce((a, p) => a + p.h.counts[i], 0));
  const from = Math.max(0, total.findIndex(n => n > 0) - 1), used = total.findLastIndex(n => n > 0);
  const to = Math.min(total.length - 1, Math.max(used + 1, from + 9)), most = Math.max(1, ...total), c = canvas(title);
  const width = 100 / (to - from + 1);
  for (let i = from; i <= to; i++) {
    let y = 100;
    for (const p of parts) {
      const height = p.h.counts[i] && Math.max(94 * p.h.counts[i] / most, 1);
      y -= height;
      const bar = svg("rect", {x: (i - from) * width + width * .08, y, width: width * .84, height, class: p.class});
      bar.append(svg("title", {}, `${i < bounds.length ? "up to " + time(bounds[i]) : "more than " + time(bounds.at(-1))}: ${p.h.counts[i]} ${p.class}`));
      c.append(bar);
    }
  }
  const seen = parts.filter(p => outcomes.includes(p.class) && p.h.counts.some(n => n > 0)).map(p => p.class);
  return plot(title, hint, c, "≤ " + time(bounds[from]), to < bounds.length ? "≤ " + time(bounds[to]) : "more", seen.length ? legend(seen) : null);
}
function wheels(w) {
  const box = el("div", {class: "wheels"}, el("h3", {}, "Timing wheels ",
    el("small", {}, `${num(w.pending)} entries, ${w.due} due, ${w.youngEstimated ? "about " : ""}${w.young} not placed yet; tick ${time(w.tick)}; a row is a wheel, the frame is now`)));
  const most = Math.max(1, ...w.levels.flatMap(l => l.slots));
  for (const l of w.levels) {
    const n = l.slots.length, c = svg("svg", {viewBox: `0 0 ${n * 10} 17`, preserveAspectRatio: "none", role: "img", "aria-label": "entries by slot"});
    l.slots.forEach((entries, i) => {
      c.append(svg("rect", {x: i * 10 + .8, y: 1, width: 8.4, height: 15, class: "cell"}));
      if (!entries) return;
      const shade = .25 + .75 * Math.log1p(entries) / Math.log1p(most);
      c.append(svg("rect", {x: i * 10 + .8, y: 1, width: 8.4, height: 15, class: "entry", "fill-opacity": shade.toFixed(2)},
        svg("title", {}, `slot ${i}: ${l.estimated ? "about " : ""}${entries}`)));
    });
    c.append(svg("rect", {x: l.hand * 10, y: 1, width: 10, height: 15, class: "hand"}));
    box.append(el("div", {class: "level"}, el("span", {}, time(l.span) + "/slot"), c,
      el("span", {}, (l.estimated ? "≈ " : "") + num(l.slots.reduce((a, b) => a + b, 0)))));
  }
  return box;
}
function table(title, hint, columns, rows) {
  const cls = c => c.text ? {class: "text"} : {};
  return el("div", {class: "table"}, el("h3", {}, title + " ", el("small", {}, hint)),
    el("table", {}, el("thead", {}, el("tr", {}, ...columns.map(c => el("th", cls(c), c.name)))),
      el("tbody", {}, ...rows.map(r => el("tr", {}, ...columns.map(c => {
        const cell = el("td", cls(c), String(c.of(r)));
        if (c.suspect && c.suspect(r)) cell.classList.add("suspect");
        return cell;
      }))))));
}
function tables(p) {
  const box = el("div", {class: "tables"}), ended = (k, o) => num(k.ended[o] || 0);
  const percent = k => k.tries ? Math.round(100 * k.wasted / k.tries) + " %" : "–";
  if (p.hot.length) box.append(table("Hottest keys", "by operations and tries, halved every 69 s", [
    {name: "key", text: true, of: k => k.key}, {name: "waiting", of: k => num(k.waiting)}, {name: "watched", of: k => num(k.watched)},
    {name: "tries", of: k => num(k.tries)}, {name: "wasted", of: percent},
    {name: "satisfied", of: k => ended(k, "satisfied")}, {name: "expired", of: k => ended(k, "expired")}], p.hot));
  if (p.expiring.length) box.append(table("Keys with the most expiries", "only timeouts: is a wake-up missing?", [
    {name: "key", text: true, of: k => k.key}, {name: "expired", of: k => ended(k, "expired"), suspect: k => k.only_timeouts},
    {name: "otherwise", of: k => num(outcomes.reduce((a, o) => a + (o === "expired" ? 0 : k.ended[o] || 0), 0))},
    {name: "waiting", of: k => num(k.waiting)}, {name: "only timeouts", of: k => k.only_timeouts ? "yes" : "", suspect: k => k.only_timeouts}], p.expiring));
  if (p.oldest.length) box.append(table("Oldest operations", `of ${num(p.looked)} looked at`, [
    {name: "age", of: o => time(o.age)}, {name: "left", of: o => time(o.left), suspect: o => o.left < -1},
    {name: "key", text: true, of: o => o.key + (o.keys > 1 ? ` +${o.keys - 1}` : "")}, {name: "operation", text: true, of: o => o.text || o.type}], p.oldest));
  return box;
}
function section(p) {
  const h = p.history, last = h.at(-1), recent = h.findLast(s => last && s.time < last.time - 4000) || h[0];
  const rate = f => last && last.time > recent.time ? num(Math.max(0, 1000 * (f(last) - f(recent)) / (last.time - recent.time))) : "–";
  const xs = h.map(s => last.time === h[0].time ? 100 : 100 * (s.time - h[0].time) / (last.time - h[0].time));
  const span = h.length > 1 ? time((last.time - h[0].time) / 1000) + " ago" : "";
  const box = el("section", {}, el("div", {class: "head"}, el("h2", {}, p.name),
    p.notes.length ? el("span", {class: "dim"}, num(p.accepted) + " accepted") : el("span", {class: "ok"}, "✓ nothing remarkable")));
  for (const n of p.notes) box.append(el("p", {class: "note " + (n.level === "trouble" ? "trouble" : "look")}, n.text));
  const tiles = el("div", {class: "tiles"}, tile("pending", num(p.pending)), tile("keys", num(p.keys)),
    tile("ended / s", rate(s => s.ended.reduce((a, b) => a + b, 0))), tile("expired / s", rate(s => s.ended[2])),
    tile("checks / s", rate(s => s.checks)), tile("checks wasted", p.checks ? Math.round(100 * p.wasted_checks / p.checks) + " %" : "–"));
  if (p.timed) tiles.append(tile("oldest", time(p.oldest_age)), tile("late, 99 %", quantile(p.late, .99)));
  for (const [label, n] of [["rejected", p.rejected], ["panics", p.panics]]) if (n) tiles.append(tile(label, num(n)));
  const plots = el("div", {class: "plots"}, pendingPlot(h, xs, span), endedPlot(h, xs, span));
  if (p.timed) {
    plots.append(bars("Waiting for", "ages of the pending", [{h: p.ages, class: "bar"}]),
      bars("Waited", "until the end, all so far", outcomes.map(o => ({h: p.waited[o], class: o}))),
      bars("Timeouts late by", p.late.counts.some(n => n > 0) ? "99 % " + quantile(p.late, .99) : "none yet", [{h: p.late, class: "late"}]));
  } else plots.append(el("p", {class: "dim"}, "Ages, waits and lateness are kept by a purgatory made with WithHistograms."));
  box.append(tiles, plots, wheels(p.wheels), tables(p));
  return box;
}

const main = document.getElementById("main"), state = document.getElementById("state"), pause = document.getElementById("pause");
let paused = false;
function draw(view) {
  const at = [...document.querySelectorAll(".table")].map(t => t.scrollLeft);
  main.replaceChildren(...view.purgatories.map(section));
  if (!view.purgatories.length) main.append(el("p", {class: "dim"}, "No purgatory is shown here."));
  if (view.hidden) main.append(el("p", {class: "dim"}, "Keys and operations are hidden."));
  document.querySelectorAll(".table").forEach((t, i) => { t.scrollLeft = at[i] || 0; });
  document.getElementById("time").textContent = new Date(view.time).toLocaleTimeString();
}
function show(what, cls) { state.textContent = what; state.className = cls; }
async function poll() {
  if (!paused && !document.hidden) {
    try {
      const answer = await fetch("?format=json", {cache: "no-store"});
      if (!answer.ok) throw new Error(answer.statusText);
      const view = await answer.json();
      if (!paused) { draw(view); show("live", ""); }
    } catch { show("no answer", "lost"); }
  }
  setTimeout(poll, 1000);
}
pause.addEventListener("click", () => {
  paused = !paused;
  pause.textContent = paused ? "Go on" : "Pause";
  pause.setAttribute("aria-pressed", paused);
  show(paused ? "paused" : "live", paused ? "paused" : "");
});
draw(first);
setTimeout(poll, 1000);
