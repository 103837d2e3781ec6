// What the page is made of: elements, numbers, plots, tables. Every name, key and text goes in as a text node.
const outcomes = ["satisfied", "forced", "expired", "cancelled", "closed"];
const svgNS = "http://www.w3.org/2000/svg";

function fill(e, attrs, children) {
  for (const [k, v] of Object.entries(attrs || {})) e.setAttribute(k, v);
  e.append(...children.flat(Infinity));
  return e;
}
function el(name, attrs, ...children) { return fill(document.createElement(name), attrs, children); }
function svg(name, attrs, ...children) { return fill(document.createElementNS(svgNS, name), attrs, children); }

// shown returns nodes for what a client may have sent. What cannot be seen, or would turn the text around it (control and
// bidirectional characters, every space but the usual one), is shown as its escape.
function shown(text) {
  const nodes = [];
  let from = 0;
  for (const hidden of text.matchAll(/(?! )[\p{C}\p{Z}]/gu)) {
    if (hidden.index > from) nodes.push(text.slice(from, hidden.index));
    nodes.push(el("span", {class: "escape"}, escaped(hidden[0])));
    from = hidden.index + hidden[0].length;
  }
  if (from < text.length) nodes.push(text.slice(from));
  return nodes;
}
function escaped(c) {
  const code = c.codePointAt(0), hex = code.toString(16);
  if (c === "\n") return "\\n";
  if (c === "\t") return "\\t";
  if (code < 0x100) return "\\x" + hex.padStart(2, "0");
  return code < 0x10000 ? "\\u" + hex.padStart(4, "0") : "\\U" + hex.padStart(8, "0");
}

function num(n) {
  const a = Math.abs(n);
  if (a >= 1e9) return +(n / 1e9).toFixed(2) + " G";
  if (a >= 1e6) return +(n / 1e6).toFixed(2) + " M";
  if (a >= 1e4) return +(n / 1e3).toFixed(1) + " k";
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

// nice returns the end of a y axis that reaches up to most: half of it is a short number too.
function nice(most) {
  const step = 10 ** Math.floor(Math.log10(Math.max(most, 1)));
  return [1, 1.2, 1.6, 2, 3, 4, 6, 8, 10].map(f => f * step).find(top => top >= most);
}
function plot(title, hint, top, drawing, left, right, legend) {
  const y = el("div", {class: "y"}, el("span", {}, num(top)), el("span", {}, top > 1 ? num(top / 2) : ""), el("span", {}, "0"));
  return el("div", {class: "plot"}, el("h3", {}, title + " ", el("small", {}, hint)), y, drawing,
    el("div", {class: "axis"}, el("span", {}, left), el("span", {}, right)), legend || []);
}
function canvas(label) {
  return svg("svg", {viewBox: "0 0 100 100", preserveAspectRatio: "none", role: "img", "aria-label": label},
    [0.6, 50, 99.4].map(y => svg("line", {x1: 0, x2: 100, y1: y, y2: y, class: "grid"})));
}
// follows reports whether a sample belongs to the one before. If too much time lies between them, nothing was sampled there.
const follows = (s, before) => s.time - before.time <= 5000;
// area draws bands, one upon the other, over samples that lie at x from 0 to 100. It leaves gaps where nothing was sampled.
function area(label, samples, xs, bands, top) {
  const starts = samples.flatMap((s, i) => i && follows(s, samples[i - 1]) ? [] : [i]);
  const c = canvas(label);
  let floor = xs.map(() => 0);
  for (const band of bands) {
    const roof = floor.map((f, i) => f + band.values[i]);
    const y = v => (100 - 100 * v / top).toFixed(2);
    const points = line => line.map((v, i) => `${xs[i].toFixed(2)},${y(v)}`), above = points(roof), below = points(floor);
    starts.forEach((from, k) => {
      const path = above.slice(from, starts[k + 1]).concat(below.slice(from, starts[k + 1]).reverse());
      if (path.length > 2) c.append(svg("polygon", {points: path.join(" "), class: band.class}));
    });
    floor = roof;
  }
  return c;
}
// places returns where samples lie on the x axis, and how long ago the first was.
function places(samples) {
  const from = samples.length ? samples[0].time : 0, to = samples.length ? samples.at(-1).time : 0;
  return {xs: samples.map(s => to === from ? 100 : 100 * (s.time - from) / (to - from)), ago: to > from ? time((to - from) / 1000) + " ago" : ""};
}
function pendingPlot(history) {
  const {xs, ago} = places(history), peak = Math.max(0, ...history.map(s => s.pending)), top = nice(peak);
  return plot("Pending", "peak " + num(peak), top, area("pending operations over the last minutes", history, xs,
    [{values: history.map(s => s.pending), class: "fill-pending"}], top), ago, "now");
}
function endedPlot(history) {
  const samples = history.slice(1).map((s, i) => ({...s, before: history[i]})).filter(s => follows(s, s.before)), {xs, ago} = places(samples);
  const bands = outcomes.map((o, k) => ({class: o, values: samples.map(s => Math.max(0, 1000 * (s.ended[k] - s.before.ended[k]) / (s.time - s.before.time)))}));
  const peak = Math.max(0, ...samples.map((_, i) => bands.reduce((a, b) => a + b.values[i], 0))), top = nice(peak);
  const used = bands.filter(b => b.values.some(v => v > 0)).map(b => b.class);
  return plot("Ended per second", "peak " + num(peak), top, area("operations ended per second by outcome", samples, xs, bands, top), ago, "now", legend(used));
}
function legend(classes) {
  return el("div", {class: "legend"}, ...classes.map(c => el("span", {}, el("i", {class: c}), c)));
}
// bars draws histograms of waits, one upon the other. The first bucket ends at 1 ms, each other one at twice the one before; the last has no end.
function bars(title, hint, parts) {
  const total = parts[0].counts.map((_, i) => parts.reduce((a, p) => a + p.counts[i], 0)), last = total.length - 1;
  const used = total.findLastIndex(n => n > 0), from = Math.max(0, Math.min(total.findIndex(n => n > 0) - 1, last - 9));
  const to = Math.min(last, Math.max(used + 1, from + 9)), top = nice(Math.max(...total)), c = canvas(title);
  const width = 100 / (to - from + 1), end = i => i < last ? "≤ " + time(2 ** i / 1000) : "> " + time(2 ** (last - 1) / 1000);
  for (let i = from; i <= to; i++) {
    let y = 100;
    for (const p of parts) {
      const height = p.counts[i] && Math.max(100 * p.counts[i] / top, 1);
      y -= height;
      c.append(svg("rect", {x: (i - from) * width + width * .08, y, width: width * .84, height, class: p.class},
        svg("title", {}, `${end(i)}: ${p.counts[i]} ${p.class}`)));
    }
  }
  return plot(title, hint, top, c, end(from), end(to), legend(parts.filter(p => p.counts.some(n => n > 0)).map(p => p.class)));
}
// table draws rows. A column's text is what a client may have sent. A narrow screen does without the wide columns.
function table(title, hint, columns, rows) {
  const cls = c => c.text ? {class: "text"} : c.wide ? {class: "wide"} : {};
  return el("div", {class: "table"}, el("h3", {}, title + " ", el("small", {}, hint)),
    el("table", {}, el("thead", {}, el("tr", {}, ...columns.map(c => el("th", cls(c), c.name)))),
      el("tbody", {}, ...rows.map(r => el("tr", {}, ...columns.map(c => {
        const cell = el("td", cls(c), c.text ? shown(c.of(r)) : String(c.of(r)));
        if (c.suspect && c.suspect(r)) cell.classList.add("suspect");
        return cell;
      }))))));
}
