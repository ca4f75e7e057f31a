"use strict";
// The timeline of one link on a canvas: a bar for each bucket of time, stacked by job. A gap, where the daemon was away,
// is grey and not drawn as an idle link.

const Chart = (() => {
  const LEFT = 4, RIGHT = 4, TOP = 4, BOTTOM = 30;
  const SPANS_S = [30, 600, 3600];
  const TICKS_S = [[5, 10], [60, 120], [600, 900]];  // wide, narrow

  // Told apart by people who see few colours, too; further jobs get the same hues, lighter.
  const HUES = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8c6bb1", "#999933"];
  const numbers = new Map();
  function colour(job) {
    if (!numbers.has(job)) numbers.set(job, numbers.size);
    const number = numbers.get(job), hue = HUES[number % HUES.length];
    const round = Math.floor(number / HUES.length) % 3;
    return round === 0 ? hue : `color-mix(in srgb, ${hue} ${round === 1 ? 60 : 35}%, ${round === 1 ? "white" : "black"})`;
  }

  function variable(name) { return getComputedStyle(document.documentElement).getPropertyValue(name).trim(); }

  // rows: {step_s, buckets: [..], jobs: {name: [..]}}; nowS: the daemon's time at the right edge.
  function draw(canvas, link, rows, level, nowS) {
    const width = canvas.clientWidth, height = canvas.clientHeight, ratio = window.devicePixelRatio || 1;
    if (!width) return;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    const pen = canvas.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    const span = SPANS_S[level], inner = width - LEFT - RIGHT, tall = height - TOP - BOTTOM;
    const x = seconds => LEFT + inner * (1 - (nowS - seconds) / span);
    pen.fillStyle = variable("--gap");
    pen.fillRect(LEFT, TOP, inner, tall);
    bars(pen, link, rows, x, tall, nowS - span);
    frame(pen, link, level, width, tall, nowS, x);
  }

  function bars(pen, link, rows, x, tall, oldestS) {
    if (!rows || !rows.buckets.length) return;
    const step = rows.step_s, jobs = Object.keys(rows.jobs).sort(), ground = variable("--card");
    let first = rows.buckets.findIndex(bucket => (bucket + 1) * step >= oldestS);
    if (first < 0) return;
    pen.save();
    pen.beginPath();
    pen.rect(LEFT, TOP, pen.canvas.clientWidth - LEFT - RIGHT, tall);
    pen.clip();
    const paint = new Map(jobs.map(job => [job, colour(job)]));
    const full = Math.max(1, link.capacity_bps);
    for (let at = first; at < rows.buckets.length; at++) {
      const from = Math.floor(x(rows.buckets[at] * step)), next = rows.buckets[at + 1];
      // A sample may come a bucket late: a hole of two is no gap.
      const until = next !== undefined && next - rows.buckets[at] <= 3 ? next : rows.buckets[at] + 1;
      const to = Math.max(from + 1, Math.floor(x(until * step)));
      pen.fillStyle = ground;
      pen.fillRect(from, TOP, to - from, tall);
      let base = TOP + tall;
      for (const job of jobs) {
        const part = rows.jobs[job][at];
        if (!part) continue;
        const size = tall * part / full;
        pen.fillStyle = paint.get(job);
        pen.fillRect(from, base - size, to - from, size);
        base -= size;
      }
    }
    pen.restore();
  }

  function frame(pen, link, level, width, tall, nowS, x) {
    const ink = variable("--quiet"), span = SPANS_S[level];
    pen.strokeStyle = variable("--line");
    pen.lineWidth = 1;
    pen.strokeRect(LEFT + .5, TOP + .5, width - LEFT - RIGHT - 1, tall - 1);
    pen.setLineDash([2, 4]);
    pen.beginPath();
    pen.moveTo(LEFT, Math.round(TOP + tall / 2) + .5);
    pen.lineTo(width - RIGHT, Math.round(TOP + tall / 2) + .5);
    pen.stroke();
    pen.setLineDash([]);
    pen.fillStyle = ink;
    pen.font = "11px system-ui, 'DejaVu Sans', sans-serif";
    pen.textBaseline = "top";
    const every = TICKS_S[level][width < 420 ? 1 : 0];
    let free = width;  // where the label to the right begins
    for (let ago = 0; ago <= span - every / 2; ago += every) {
      const at = x(nowS - ago);
      pen.fillRect(Math.min(Math.round(at), width - RIGHT - 1), TOP + tall, 1, 3);
      pen.textAlign = ago === 0 ? "right" : "center";
      pen.fillText(ago === 0 ? "now" : level === 0 ? `−${ago} s` : `−${ago / 60} min`, at, TOP + tall + 5);
      const slots = ago === 0 ? `slot ${link.slot}` : `−${Math.round(ago * 1000 / link.slot_ms)} slots`;
      const wide = pen.measureText(slots).width, right = ago === 0 ? at : at + wide / 2;
      if (right + 6 > free && ago !== 0) continue;
      pen.fillText(slots, at, TOP + tall + 18);
      free = right - wide;
    }
  }

  // The part of the link's time that was in use, over what is shown.
  function use(link, rows, level) {
    if (!rows || !rows.buckets.length) return null;
    const oldest = rows.buckets.at(-1) - SPANS_S[level] / rows.step_s;
    const first = rows.buckets.findIndex(bucket => bucket > oldest);
    let sum = 0;
    for (const row of Object.values(rows.jobs)) for (let at = first; at < row.length; at++) sum += row[at];
    return Math.min(1, sum / (rows.buckets.length - first) / link.capacity_bps);
  }

  return { draw, use, colour };
})();
