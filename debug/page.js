// The page: a line for each thing that is shown, then a section for each.
const marks = {trouble: "▲ trouble", look: "● look", ok: "✓ ok"};
const mark = p => el("span", {class: "mark " + p.state}, marks[p.state]);
const second = 1e9, noTimeout = 9.2e18; // durations are in nanoseconds
const span = ns => time(ns / second);
// lately is how much a counter has grown in the time that the page knows of.
const lately = (p, name) => p.stats[name] - p.before[name];
// rates returns how many operations ended per second over the last seconds, by outcome; nothing if there are not two samples.
function rates(p) {
  const last = p.history?.at(-1), first = p.history?.find(s => last.time - s.time <= 4000);
  return last && last.time > first.time ? last.ended.map((n, i) => 1000 * (n - first.ended[i]) / (last.time - first.time)) : null;
}
const endedRate = p => { const r = rates(p); return r ? num(r.reduce((a, b) => a + b)) : "–"; };
const expiredRate = p => { const r = rates(p); return r ? num(r[2]) : "–"; };
const perSecond = (p, name) => p.seconds ? num(lately(p, name) / p.seconds) : "–";

// kinds are what the page shows beside purgatories: the numbers of the overview, and of the section.
const kinds = [
  {of: "signals", name: "source of hints", head: ["hints / s", "last word", "ends", "gaps"],
    cells: (s, n) => [perSecond(s, "Hints"), span(n.SinceLastWord), num(n.Ends), num(n.Gaps)],
    tiles: (s, n) => [["source", !n.Running ? "not run" : n.Standing ? "stands" : "restarts", !n.Standing], ["hints / s", perSecond(s, "Hints")],
      ["since last word", span(n.SinceLastWord)], ["hints", num(n.Hints)], ["unawaited", num(n.Unawaited)], ["ends", num(n.Ends), lately(s, "Ends") > 0],
      ["gaps", num(n.Gaps)], ["re-checks", num(n.Rechecks)], ["bulk reads", num(n.BulkReads)], ["failed", num(n.Failures), lately(s, "Failures") > 0],
      ["reading for", span(n.Reading)], ["reads lag", span(n.Lag)], ["queue used", n.QueueUsed < 0 ? "–" : (100 * n.QueueUsed).toFixed(1) + " %"]]},
  {of: "queues", name: "line of items", head: ["waiting", "the longest", "items", "refused"],
    cells: (q, n) => [num(n.Waiting), span(n.Oldest), num(n.Items), num(n.Refused + n.PutRefused)],
    tiles: (q, n) => [["waiting", num(n.Waiting)], ["the longest", span(n.Oldest)], ["items", num(n.Items)], ["handed / s", perSecond(q, "Handed")],
      ["served", num(n.Served)], ["expired", num(n.Expired)], ["left", num(n.Left)], ["refused", num(n.Refused + n.PutRefused), lately(q, "Refused") + lately(q, "PutRefused") > 0],
      ["put back", num(n.Back)]]},
  {of: "watermarks", name: "watermark", head: ["waiting", "the longest", "expired", "given up"],
    cells: (w, n) => [num(n.Waiting), span(n.Oldest), num(n.Expired), num(n.Left)],
    tiles: (w, n) => [["waiting", num(n.Waiting)], ["the longest", span(n.Oldest)], ["served / s", perSecond(w, "Served")], ["served", num(n.Served)],
      ["expired", num(n.Expired)], ["given up", num(n.Left)], ["cancelled", num(n.Cancelled)], ["refused", num(n.Refused), lately(w, "Refused") > 0]]},
];

function overview(view) {
  const lines = (head, rows, cells) => rows.length ? el("div", {class: "table"}, el("table", {},
    el("thead", {}, el("tr", {}, ["state", ...head].map((h, i) => el("th", column(i), h)))),
    el("tbody", {}, rows.map(p => el("tr", {class: p.state}, [
      [mark(p)],
      [el("a", {href: "#" + p.id}, shown(p.name)), p.notes.length ? el("small", {}, shown(p.notes[0].text), p.notes.length > 1 ? ` (+${p.notes.length - 1})` : "") : []],
      ...cells(p, p.stats),
    ].map((cell, i) => el("td", column(i), cell))))))) : [];
  return el("section", {id: "overview"}, lines(["purgatory", "pending", "keys", "ended / s", "expired / s", "running"], view.purgatories, (p, n) => [
    num(n.Pending), num(n.Keys), endedRate(p), expiredRate(p), num(n.Running)]),
  kinds.map(k => lines([k.name, ...k.head], view[k.of] || [], k.cells)));
}
// column says what a column of the overview is: which ones a narrow screen can do without.
function column(i) { return {class: i < 2 ? "name" : [3, 4, 6].includes(i) ? "wide" : ""}; }

function tiles(all) { return el("div", {class: "tiles"}, all.map(([label, value, bad]) => el("div", {class: "tile" + (bad ? " bad" : "")}, el("b", {}, value), el("span", {}, label)))); }
function numbers(p, n) {
  const all = [[n.MaxPending ? "pending of " + num(n.MaxPending) : "pending", num(n.Pending)], ["keys", num(n.Keys)], ["ended / s", endedRate(p)],
    ["expired / s", expiredRate(p)], ["checks / s", perSecond(p, "Checks")], ["gave up", num(lately(p, "GaveUp"))]];
  if (n.Running) all.push([n.Running === 1 ? "callback runs" : "callbacks run", num(n.Running)]);
  if (n.BlockedFor >= 3 * second) all.push(["none has returned for", span(n.BlockedFor), true]);
  if (n.OldestDue >= second) all.push(["due for " + span(n.OldestDue), num(n.Due), true]);
  for (const [label, name] of [["expired unchecked", "Unchecked"], ["rejected", "Rejected"], ["panics", "Panics"], ["reaper stalls", "ReaperStalls"]]) {
    if (lately(p, name) > 0 && !(name === "Unchecked" && n.TimeoutsExpected)) all.push([label, num(lately(p, name)), true]);
  }
  return tiles(all);
}
function tables(p, n, look) {
  const box = el("div", {class: "tables"});
  const key = {name: "key", text: true, of: o => o.Key}, type = {name: "operation", text: true, of: o => o.Type};
  const expired = [...(look.Unchecked || []).map(o => ({...o, checks: "none"})), ...(look.NeverTrue || []).map(o => ({...o, checks: o.Checks ? num(o.Checks) : "some"}))];
  if (expired.length) box.append(table("Expired lately", "the last of some keys: never checked, or never true", [
    {name: "after", of: o => span(o.Age)}, {name: "checks", of: o => o.checks, suspect: o => o.checks === "none"}, key, type], expired));
  if (look.Oldest?.length) box.append(table("Oldest operations", look.Looked < n.Watched - n.Stale
    ? `of ${num(look.Looked)} of ${num(n.Watched)} watches; the oldest of all is ≥ ${span(look.Oldest[0].Age)}` : "of all", [
    {name: "age", of: o => span(o.Age)}, {name: "left", of: o => o.Left >= noTimeout ? "no timeout" : span(o.Left), suspect: o => o.Left < -second}, key, type], look.Oldest));
  return box;
}
// unfolded is what the reader has chosen, by section. Otherwise those that are well are folded, if there are many.
const unfolded = new Map(), few = 2;
function section(p, all) {
  const n = p.stats, plots = el("div", {class: "plots"}, pendingPlot(p.history || []), endedPlot(p.history || []));
  if (n.Waited) plots.append(bars("Wait time", "since start", outcomes.map((o, i) => ({counts: n.Waited[i + 1].Counts, class: o}))));
  return fold(p, all, num(n.Accepted) + " accepted" + (n.TimeoutsExpected ? ", timeouts expected" : ""), numbers(p, n), plots, tables(p, n, p.inspection || {}));
}
// fold is a section that the reader may fold. It is open at first if there is something to look at, or little to show.
function fold(p, all, about, ...content) {
  const box = el("details", {}, el("summary", {}, el("div", {class: "head"}, el("h2", {}, shown(p.name)), mark(p),
    el("span", {class: "dim"}, about), el("a", {class: "only", href: only(p.name)}, "only this"))));
  box.open = unfolded.get(p.id) ?? (p.state !== "ok" || all.length <= few);
  box.append(...notes(p.notes), ...content);
  return el("section", {id: p.id}, box);
}
function notes(all) { return (all || []).map(n => el("p", {class: "note " + n.level}, shown(n.text))); }
function tenants(of) {
  const all = Object.entries(of || {}).sort(([, a], [, b]) => b.Waiting - a.Waiting || b.Items - a.Items);
  return all.length ? table("Tenants", "that wait most", [{name: "tenant", text: true, of: ([name]) => name}, {name: "waiting", of: ([, t]) => num(t.Waiting)},
    {name: "the longest", of: ([, t]) => span(t.Oldest)}, {name: "items", of: ([, t]) => num(t.Items)}], all) : [];
}

const main = document.getElementById("main"), state = document.getElementById("state"), pause = document.getElementById("pause");
let paused = false;

// address returns the query of this page in another format, or for other purgatories.
function address(format, names) {
  const q = new URLSearchParams();
  for (const name of names) q.append("name", name);
  if (format) q.set("format", format);
  return "?" + q;
}
const names = new URLSearchParams(location.search).getAll("name");
function only(name) { return address("", [name]); }

// become makes an element like another one by changing only what differs, so that what a reader has focused, scrolled or
// marked stays so.
function become(old, wanted) {
  if (old.nodeName !== wanted.nodeName || old.id !== wanted.id) return old.replaceWith(wanted);
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== wanted.data) old.data = wanted.data;
    return;
  }
  for (const a of [...old.attributes]) if (!wanted.hasAttribute(a.name)) old.removeAttribute(a.name);
  for (const a of wanted.attributes) if (old.getAttribute(a.name) !== a.value) old.setAttribute(a.name, a.value);
  const here = [...old.childNodes], there = [...wanted.childNodes];
  there.forEach((child, i) => i < here.length ? become(here[i], child) : old.append(child));
  here.slice(there.length).forEach(child => child.remove());
}
function draw(view) {
  const all = ["purgatories", ...kinds.map(k => k.of)].flatMap(of => view[of] || []), sick = all.filter(p => p.state === "trouble").length;
  const next = el("main", {id: "main"}, notes(view.notes), all.length ? overview(view) : el("p", {class: "dim"}, "No purgatory is shown here."),
    view.purgatories.map(p => section(p, view.purgatories)),
    kinds.map(k => (view[k.of] || []).map(p => fold(p, view[k.of], "a " + k.name, tiles(k.tiles(p, p.stats)), tenants(p.stats.Tenants)))),
    view.hidden ? el("p", {class: "dim"}, "Keys and operations are hidden.") : [],
    view.more ? el("p", {class: "dim"}, shown(view.more)) : []);
  become(main, next);
  document.title = (sick ? `▲ ${sick} – ` : "") + "Purgatories";
  document.getElementById("time").textContent = new Date(view.time).toLocaleTimeString();
}
function show(what, cls) { state.textContent = what; state.className = cls; }
const patience = 5000; // a server that hangs gives no answer, and no error either
async function poll() {
  if (!paused && !document.hidden) {
    try {
      const answer = await fetch(address("json", names), {cache: "no-store", signal: AbortSignal.timeout(patience)});
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
// unfold opens the section that a link leads to, before the browser goes there. No id has a character that is escaped.
function unfold(hash) {
  const id = hash.slice(1), box = document.getElementById(id)?.querySelector("details");
  if (!box) return;
  unfolded.set(id, true);
  box.open = true;
  return box;
}
main.addEventListener("click", e => {
  const link = e.target.closest("a"), summary = e.target.closest("summary");
  if (link?.hash) unfold(link.hash);
  else if (!link && summary) unfolded.set(summary.closest("section").id, !summary.parentNode.open);
});
for (const a of document.querySelectorAll("nav a")) {
  if (a.dataset.format) a.href = address(a.dataset.format, names);
  else a.hidden = !names.length;
}
draw(first);
unfold(location.hash)?.scrollIntoView();
setTimeout(poll, 1000);
