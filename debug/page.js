// The page: a line for each purgatory, then a section for each.
const marks = {trouble: "▲ trouble", look: "● look", ok: "✓ ok"};
const rate = (p, what) => p.rates ? num(p.rates[what]) : "–";
const mark = p => el("span", {class: "mark " + p.state}, marks[p.state]);

function overview(all, sources, queues) {
  const head = ["state", "purgatory", "pending", "oldest", "ended / s", "expired / s", "p99 lateness", "running", "due"];
  const lines = (head, rows, cells) => rows.length ? el("div", {class: "table"}, el("table", {},
    el("thead", {}, el("tr", {}, head.map((h, i) => el("th", column(i), h)))),
    el("tbody", {}, rows.map(p => el("tr", {class: p.state}, [
      [mark(p)],
      [el("a", {href: "#" + p.id}, shown(p.name)), p.notes.length ? el("small", {}, shown(p.notes[0].text), p.notes.length > 1 ? ` (+${p.notes.length - 1})` : "") : []],
      ...cells(p),
    ].map((cell, i) => el("td", column(i), cell))))))) : [];
  return el("section", {id: "overview"}, lines(head, all, p => [
    num(p.pending), p.timed ? time(p.oldest_age) : "–", rate(p, "ended"), rate(p, "expired"),
    p.timed ? quantile(p.window.late, .99) : "–", num(p.running), due(p)]),
  lines(["state", "source of hints", "hints / s", "last word", "ends", "gaps"], sources, s => [
    perSecond(s), time(s.since_last_word), num(s.ends), num(s.gaps)]),
  lines(["state", "line of items", "waiting", "the longest", "items", "refused"], queues, q => [
    num(q.waiting), time(q.oldest), num(q.items), num(q.refused + q.put_refused)]));
}
const bound = p => p.due_capped ? "≥ " : "", due = p => bound(p) + num(p.due);
const perSecond = s => s.hints_per_second === null ? "–" : num(s.hints_per_second);
// column says what a column of the overview is: which ones a narrow screen can do without.
function column(i) { return {class: i < 2 ? "name" : [3, 4, 6, 7].includes(i) ? "wide" : ""}; }

function tile(label, value, cls) { return el("div", {class: "tile " + (cls || "")}, el("b", {}, value), el("span", {}, label)); }
function tiles(p) {
  const w = p.window, all = [tile(p.max_pending ? "pending of " + num(p.max_pending) : "pending", num(p.pending)), tile("keys", num(p.keys)),
    tile("ended / s", rate(p, "ended")), tile("expired / s", rate(p, "expired")), tile("checks / s", rate(p, "checks")),
    tile("checks wasted", w.checks ? Math.round(100 * w.wasted_checks / w.checks) + " %" : "–")];
  if (p.timed) all.push(tile("oldest", time(p.oldest_age)), tile("p99 lateness", quantile(w.late, .99)));
  if (p.blocked_for >= 3 && !p.callbacks_timed) all.push(tile(count(p.running, "callback runs", "callbacks run"), time(p.blocked_for), "bad"));
  if (p.oldest_running >= 1) all.push(tile(count(p.running, "callback runs", "callbacks run"), time(p.oldest_running), "bad"));
  if (p.oldest_due >= .05 || p.due > 64) all.push(tile("due for " + bound(p) + time(p.oldest_due), due(p), "bad"));
  if (w.passed_over) all.push(tile("passed over", num(w.passed_over)));
  for (const [label, n] of [["rejected", w.rejected], ["panic", w.panics], ["slow callback", w.slow_callbacks], ["reaper stall", w.reaper_stalls]]) {
    if (n) all.push(tile(n === 1 || label === "rejected" ? label : label + "s", num(n), "bad"));
  }
  return el("div", {class: "tiles"}, all);
}
function tables(p) {
  const box = el("div", {class: "tables"}), ended = (k, o) => num(k.ended[o] || 0);
  const percent = k => k.tries ? Math.round(100 * k.wasted / k.tries) + " %" : "–";
  if (p.hot.length) box.append(table("Hottest keys", "by operations and tries, half-life 69 s", [
    {name: "key", text: true, of: k => k.key}, {name: "waiting", of: k => num(k.waiting)}, {name: "watched", wide: true, of: k => num(k.watched)},
    {name: "tries", wide: true, of: k => num(k.tries)}, {name: "wasted", of: percent},
    {name: "satisfied", of: k => ended(k, "satisfied")}, {name: "expired", of: k => ended(k, "expired")}], p.hot));
  if (p.expiring.length) box.append(table("Keys with the most expiries", p.timeouts_expected ? "" : "only timeouts: is a wake-up missing?", [
    {name: "key", text: true, of: k => k.key}, {name: "expired", of: k => ended(k, "expired"), suspect: k => k.only_timeouts && !p.timeouts_expected},
    {name: "otherwise", of: k => num(outcomes.reduce((a, o) => a + (o === "expired" ? 0 : k.ended[o] || 0), 0))},
    {name: "waiting", of: k => num(k.waiting)}, {name: "only timeouts", of: k => k.only_timeouts ? "yes" : "", suspect: k => k.only_timeouts && !p.timeouts_expected}], p.expiring));
  if (p.oldest.length) box.append(table("Oldest operations", p.looked < p.watched - p.stale
    ? `of ${num(p.looked)} of ${num(p.watched)} watches; the oldest of all is ≥ ${time(p.oldest[0].age)}` : "of all", [
    {name: "age", of: o => time(o.age)}, {name: "left", of: o => o.no_timeout ? "no timeout" : time(o.left), suspect: o => o.left < -.05},
    {name: "key", text: true, of: o => o.keys ? o.key + (o.keys > 1 ? ` +${o.keys - 1}` : "") : "(no key)"}, {name: "operation", text: true, of: o => o.text || o.type}], p.oldest));
  return box;
}
// unfolded is what the reader has chosen, by section. Otherwise those that are well are folded, if there are many.
const unfolded = new Map(), few = 2;
function section(p, all) {
  const box = fold(p, all, num(p.accepted) + " accepted" + (p.timeouts_expected ? ", timeouts expected" : ""));
  const plots = el("div", {class: "plots"}, pendingPlot(p.history), endedPlot(p.history));
  if (p.timed) {
    plots.append(bars("Age", "of the pending", [{h: p.ages, class: "bar"}]),
      bars("Wait time", "since start", outcomes.map(o => ({h: p.waited[o], class: o}))),
      bars("Lateness", p.window.text, [{h: p.window.late, class: "late"}]));
  }
  box.append(tiles(p), plots, tables(p));
  return el("section", {id: p.id}, box);
}

// fold is a section that the reader may fold. It is open at first if there is something to look at, or little to show.
function fold(p, all, about) {
  const box = el("details", {}, el("summary", {}, el("div", {class: "head"}, el("h2", {}, shown(p.name)), mark(p),
    el("span", {class: "dim"}, about), el("a", {class: "only", href: only(p.name)}, "only this"))));
  box.open = unfolded.get(p.id) ?? (p.state !== "ok" || all.length <= few);
  box.append(...notes(p.notes));
  return box;
}
function notes(all) { return (all || []).map(n => el("p", {class: "note " + n.level}, shown(n.text))); }
function signalSection(s, all) {
  const box = fold(s, all, "hints from other processes"), w = s.window;
  box.append(el("div", {class: "tiles"}, tile("source", !s.running ? "not run" : s.standing ? "stands" : "restarts", s.standing ? "" : "bad"),
    tile("hints / s", perSecond(s)), tile("since last word", time(s.since_last_word)), tile("hints", num(s.hints)),
    tile("unawaited", s.hints ? Math.round(100 * s.unawaited / s.hints) + " %" : "–"), tile("ends", num(s.ends), w.ends ? "bad" : ""),
    tile("gaps", num(s.gaps), w.gaps ? "bad" : ""), tile("re-checks", num(s.rechecks)), tile("audits", num(s.audits)),
    s.bulk_reads ? tile("bulk reads failed", num(s.failures) + " of " + num(s.bulk_reads), w.failures ? "bad" : "") : []));
  if (s.error) box.append(el("p", {class: "dim"}, "Last error: ", shown(s.error)));
  return el("section", {id: s.id}, box);
}

function queueSection(q, all) {
  const box = fold(q, all, "a line of items");
  box.append(el("div", {class: "tiles"}, tile("waiting", num(q.waiting)), tile("the longest", time(q.oldest)), tile("items", num(q.items)),
    tile("handed / s", q.handed_per_second === null ? "–" : num(Math.round(q.handed_per_second))), tile("served", num(q.served)),
    tile("expired", num(q.expired)), tile("left", num(q.left)), tile("refused", num(q.refused + q.put_refused), q.refused + q.put_refused ? "bad" : ""),
    q.back ? tile("put back", num(q.back)) : []));
  for (const t of q.tenants) box.append(el("p", {class: "dim"}, shown(t.name), `: ${num(t.waiting)} wait, the longest for ${time(t.oldest)}; ${num(t.items)} items`));
  return el("section", {id: q.id}, box);
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
  const all = view.purgatories, sources = view.signals || [], queues = view.queues || [], sick = [...all, ...sources, ...queues].filter(p => p.state === "trouble").length;
  const next = el("main", {id: "main"}, notes(view.notes), all.length + sources.length + queues.length ? overview(all, sources, queues) : el("p", {class: "dim"}, "No purgatory is shown here."),
    all.map(p => section(p, all)), sources.map(s => signalSection(s, sources)), queues.map(q => queueSection(q, queues)),
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
