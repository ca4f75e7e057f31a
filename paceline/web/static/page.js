"use strict";
// Ties the page together: events in, tables and charts out. The stream is opened again by itself after a break.

(() => {
  const LATE_S = .8;  // the axis is so far behind, so that what it ends with has arrived
  const FRAME_MS = 100, HISTORY_MS = [0, 2000, 10000], KEPT_S = 61, SILENT_MS = 4000;
  const slots = new Map();     // id of a link → its rows by slot
  const history = new Map();   // the same of the level shown, if that is not by slots
  const clocks = new Map();    // id → {slot time in s, when it came in ms}
  const cards = new Map();     // id → {canvas, visible}
  let state = null, level = 0, heardMs = 0, fetching = false, seen = new Set();
  const byId = name => document.getElementById(name);
  const calm = window.matchMedia("(prefers-reduced-motion: reduce)");

  // ---- What comes in ----

  function listen() {
    const stream = new EventSource("api/stream");
    stream.addEventListener("state", event => { heardMs = performance.now(); state = JSON.parse(event.data); show(); });
    stream.addEventListener("slots", event => { heardMs = performance.now(); take(JSON.parse(event.data)); });
    stream.addEventListener("error", () => {  // after a refusal the browser does not try again by itself
      if (stream.readyState === EventSource.CLOSED) setTimeout(listen, 2000);
    });
    stream.addEventListener("open", () => { slots.clear(); heardMs = performance.now(); });
  }

  function take(news) {
    for (const [id, rows] of Object.entries(news.links)) {
      const known = slots.get(id) || { step_s: rows.step_s, buckets: [], jobs: {} };
      if (known.step_s !== rows.step_s || known.buckets.at(-1) >= rows.buckets[0]) {  // another daemon, or another time
        known.step_s = rows.step_s; known.buckets = []; known.jobs = {};
      }
      const before = known.buckets.length, added = rows.buckets.length;
      known.buckets.push(...rows.buckets);
      for (const job of new Set([...Object.keys(known.jobs), ...Object.keys(rows.jobs)])) {
        const row = known.jobs[job] || (known.jobs[job] = new Array(before).fill(0));
        row.push(...(rows.jobs[job] || new Array(added).fill(0)));
        if (rows.jobs[job]) seen.add(job);
      }
      forget(known);
      slots.set(id, known);
      const timeS = (rows.buckets.at(-1) + 1) * rows.step_s;
      const clock = clocks.get(id), nowMs = performance.now();
      // The clock of the axis runs on by itself, so that it moves evenly; it follows the daemon's if they differ.
      const runS = clock ? clock.timeS + (nowMs - clock.atMs) / 1000 : 0;
      clocks.set(id, clock && Math.abs(runS - timeS) < 1 ? { timeS: runS + (timeS - runS) * .1, atMs: nowMs } : { timeS, atMs: nowMs });
    }
  }

  function forget(rows) {
    const oldest = rows.buckets.at(-1) - KEPT_S / rows.step_s;
    const gone = rows.buckets.findIndex(bucket => bucket >= oldest);
    if (gone < 64) return;  // not for each event
    rows.buckets.splice(0, gone);
    for (const [job, row] of Object.entries(rows.jobs)) {
      row.splice(0, gone);
      if (!row.some(Boolean)) delete rows.jobs[job];
    }
  }

  async function fetchHistory() {
    if (level === 0 || fetching) return;
    fetching = true;
    try {
      const wanted = level, answer = await fetch(`api/history?level=${wanted}`);
      const found = await answer.json();
      if (wanted === level) {
        history.clear();
        for (const [id, rows] of Object.entries(found.links)) history.set(id, rows);
      }
    } catch { /* the server is away; the stream says so */ }
    fetching = false;
  }

  // ---- What is shown ----

  function show() {
    const away = state.daemons.filter(one => one.away).length;
    const jobs = new Set(state.jobs.map(row => row.name)).size;
    Tables.say(byId("connection"), `${state.daemons.length} daemon${state.daemons.length === 1 ? "" : "s"}, ` +
      (away ? `${away} away` : "all live") + `, ${jobs} job${jobs === 1 ? "" : "s"}`);
    Tables.daemons(byId("daemons"), state.daemons);
    Tables.jobs(byId("jobs").tBodies[0], state.jobs);
    byId("jobs").hidden = !state.jobs.length;
    byId("no-jobs").hidden = state.jobs.length > 0;
    for (const row of state.jobs) seen.add(row.name);
    const drawn = new Set();
    for (const rows of (level ? history : slots).values()) for (const job of Object.keys(rows.jobs)) drawn.add(job);
    for (const row of state.jobs) drawn.add(row.name);
    Tables.legend(byId("legend"), [...seen].filter(job => drawn.has(job)));
    links();
    Tables.say(byId("version"), `Paceline ${state.version}, read only`);
  }

  function isIdle(link) {
    const rows = (level ? history : slots).get(link.id);
    return !rows || !Object.keys(rows.jobs).length;
  }

  function links() {
    const wanted = byId("show-idle").checked ? state.links : state.links.filter(link => !isIdle(link));
    const idle = state.links.length - state.links.filter(link => !isIdle(link)).length;
    Tables.say(byId("idle").lastElementChild, `show idle links (${idle})`);
    byId("idle").hidden = idle === 0;
    byId("no-links").hidden = state.links.length > 0;
    Tables.keyed(byId("links"), wanted, link => link.id, link => {
      const canvas = Tables.element("canvas");
      canvas.setAttribute("role", "img");
      canvas.dataset.link = link.id;
      watcher.observe(canvas);
      const title = Tables.element("figcaption", {}, [Tables.element("h3"), Tables.element("span", { className: "load" })]);
      return Tables.element("figure", { className: "link card" }, [title, canvas]);
    }, (card, link) => {
      const [title, canvas] = card.children;
      Tables.say(title.children[0], link.name.replace("->", " → "));
      const part = Chart.use(link, (level ? history : slots).get(link.id), level);
      const load = part === null ? "nothing known" : `${Math.round(100 * part)} %`;
      Tables.say(title.children[1], `${link.kind} by ${link.daemon}${link.away ? " (away)" : ""} · ${load} of ${Tables.rate(link.capacity_bps)}`);
      const parts = Object.entries(link.jobs).map(([job, bps]) => `${job} ${Tables.rate(bps)}`).join(", ");
      canvas.setAttribute("aria-label", `Timeline of ${link.name}, ${link.kind}: ${load} in use; now ${parts || "idle"}`);
      cards.set(link.id, { canvas, link });
    });
  }

  // ---- What moves ----

  const visible = new Set();
  const watcher = new IntersectionObserver(entries => {
    for (const one of entries) {
      if (one.isIntersecting) visible.add(one.target); else visible.delete(one.target);
    }
  });

  function nowS(link) {
    const clock = clocks.get(link.id);
    return clock ? clock.timeS + (performance.now() - clock.atMs) / 1000 - LATE_S : link.slot * link.slot_ms / 1000;
  }

  let drawnMs = 0;
  function frame(atMs) {
    requestAnimationFrame(frame);
    if (atMs - drawnMs < (calm.matches || level ? 1000 : FRAME_MS)) return;
    drawnMs = atMs;
    for (const [id, { canvas, link }] of cards) {
      if (!canvas.isConnected) { cards.delete(id); watcher.unobserve(canvas); visible.delete(canvas); continue; }
      if (visible.has(canvas)) Chart.draw(canvas, link, (level ? history : slots).get(id), level, nowS(link));
    }
  }

  byId("range").addEventListener("change", event => {
    level = Number(event.target.value);
    history.clear();
    drawnMs = 0;
    fetchHistory().then(() => state && show());
  });
  byId("show-idle").addEventListener("change", () => state && show());
  let polledMs = 0;
  setInterval(() => {
    const nowMs = performance.now();
    if (level && nowMs - polledMs >= HISTORY_MS[level]) { polledMs = nowMs; fetchHistory(); }
    if (nowMs - heardMs > SILENT_MS) {
      Tables.say(byId("connection"), "paceline web is away; what is below was true before");
      document.body.classList.add("stale");
    } else document.body.classList.remove("stale");
  }, 500);
  listen();
  requestAnimationFrame(frame);
})();
