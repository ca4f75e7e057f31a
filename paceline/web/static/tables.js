"use strict";
// The daemons, jobs and legend. What changed is written into what is there: nothing flickers, and a screen reader or a
// selection keeps its place. All text is set as text: a job's name is never taken for HTML.

const Tables = (() => {
  function say(node, text) { if (node.textContent !== text) node.textContent = text; }
  function classed(node, name) { if (node.className !== name) node.className = name; }

  // One child of `parent` for each item, in order; `make` a new one, `update` all.
  function keyed(parent, items, key, make, update) {
    const known = new Map([...parent.children].map(child => [child.dataset.key, child]));
    let place = null;
    for (const item of items) {
      const name = key(item);
      let child = known.get(name);
      if (child) known.delete(name);
      else { child = make(item); child.dataset.key = name; }
      const expected = place ? place.nextSibling : parent.firstChild;
      if (child !== expected) parent.insertBefore(child, expected);
      place = child;
      update(child, item);
    }
    for (const child of known.values()) child.remove();
  }

  function element(name, options = {}, children = []) {
    const node = document.createElement(name);
    if (options.className) node.className = options.className;
    if (options.text) node.textContent = options.text;
    node.append(...children);
    return node;
  }

  function rate(bps) {
    if (bps === null || bps === undefined) return "";
    if (bps >= 1e9) return `${(bps / 1e9).toFixed(2)} Gbit/s`;
    return bps >= 5e5 ? `${Math.round(bps / 1e6)} Mbit/s` : bps > 0 ? "< 1 Mbit/s" : "0";
  }
  function lasting(seconds) {
    return seconds < 120 ? `${seconds} s` : seconds < 7200 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3600)} h`;
  }

  function swatch(job) {
    const node = element("span", { className: "swatch" });
    node.style.background = Chart.colour(job);
    node.setAttribute("aria-hidden", "true");
    return node;
  }

  function daemons(list, rows) {
    keyed(list, rows, row => row.address, () => element("li", { className: "card" }, [
      element("div", { className: "top" }, [element("h3"), element("span", { className: "state" })]),
      element("p"), element("p", { className: "quiet" }), element("p", { className: "trouble" }),
    ]), (card, row) => {
      classed(card, row.away ? "card away" : "card");
      const [top, what, more, trouble] = card.children;
      say(top.children[0], `${row.name}`);
      say(top.children[1], row.away ? `away for ${lasting(row.for_s)}` : "live");
      say(what, row.away ? row.why : described(row));
      say(more, row.away ? `${row.kind} at ${row.address}` : counted(row));
      say(trouble, row.away ? "" : troubles(row));
    });
  }
  function described(row) {
    if (row.kind === "switch") return `switch · ${row.policy || "unknown policy"} · hosts ${row.hosts.join(", ") || "none"}`;
    const alone = row.switch.deciding_alone ? "deciding alone" : `switch ${row.switch.round_trip_ms.toFixed(1)} ms away`;
    return `host · ${row.mode} by ${row.backend} · ${row.policy} · ${row.mode === "observe" ? "deciding nothing" : alone}`;
  }
  function counted(row) {
    const found = [`slots of ${row.slot_ms} ms`];
    if (row.kind === "switch") {
      found.push(`${row.messages} messages`, `${row.plans_refused} plans refused`);
      for (const [reason, count] of Object.entries(row.refused)) found.push(`${count} × ${reason}`);
    } else {
      found.push(`${row.missed_slots} missed`, `limits lifted ${row.fail_opens} ×`);
      const older = Object.keys(row.troubles).length - recent(row).length;
      if (older) found.push(`${older} older trouble${older === 1 ? "" : "s"}`);
    }
    return found.join(" · ");
  }
  function recent(row) {
    return Object.entries(row.troubles).filter(([reason]) => !(row.trouble_times[reason]?.age_s > 60));
  }
  function troubles(row) {
    const found = [];
    if (row.kind === "switch") {
      if (row.silent_switches.length) found.push(`silent: ${row.silent_switches.join(", ")}`);
    } else {
      for (const name of Object.keys(row.released_by)) found.push(`released: ${name}`);
      if (row.why_not_enforcing) found.push(`nothing is enforced: ${row.why_not_enforcing}`);
      if (row.switch.deciding_alone && row.switch.address) found.push(row.switch.why || "the switch is silent");
      for (const [reason, count] of recent(row)) found.push(`${count} × ${reason}`);
    }
    return found.slice(0, 3).join("; ");
  }

  const LABELS = ["Host", "Phase", "Iteration", "Slowdown", "Weight", "Rate", "Why"];
  function jobs(body, rows) {
    const ordered = [...rows].sort((a, b) => a.name < b.name ? -1 : a.name > b.name ? 1 : (a.host || "") < (b.host || "") ? -1 : 1);
    keyed(body, ordered, row => `${row.daemon}\n${row.host}\n${row.name}`, row => {
      const head = element("th", {}, [swatch(row.name), document.createTextNode(row.name)]);
      head.scope = "row";
      const cells = LABELS.map((label, at) => {
        const cell = element("td", { className: at >= 2 && at <= 5 ? "number" : at === 6 ? "why" : "" });
        cell.dataset.label = label;
        return cell;
      });
      cells[1].append(element("span", { className: "phase" }));
      return element("tr", {}, [head, ...cells]);
    }, (line, row) => {
      const [, daemon, phase, iteration, slowdown, weight, speed, why] = line.children;
      say(daemon, row.host || row.daemon);
      classed(phase.firstChild, `phase ${row.phase}`);
      say(phase.firstChild, row.phase);
      say(iteration, row.iteration === null ? "" : `${row.iteration}${row.iteration_ms ? ` · ${Math.round(row.iteration_ms)} ms` : ""}`);
      say(slowdown, row.slowdown === null ? "" : row.slowdown.toFixed(2));
      say(weight, row.weight === null ? "" : row.weight.toFixed(2));
      say(speed, rate(row.rate_bps));
      say(why, row.why.join("; "));
    });
  }

  function legend(list, names) {
    keyed(list, names, name => name, name => element("li", {}, [swatch(name), document.createTextNode(name)]), () => {});
  }

  return { keyed, say, element, rate, daemons, jobs, legend, swatch };
})();
