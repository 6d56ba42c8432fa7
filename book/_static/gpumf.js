// What readers can touch. Each element .gpumf-widget holds its data as JSON and a static picture; here controls and a
// drawing take the picture's place. Without this script the picture stays.
(() => {
  "use strict";
  const INK = "#222222", FAINT = "#d9d9d9", SOFT = "#555555", IDLE = "#bbbbbb";
  const svg = (name, attributes = {}, ...children) => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    node.append(...children);
    return node;
  };
  const html = (name, properties = {}, ...children) => {
    const node = Object.assign(document.createElement(name), properties);
    node.append(...children);
    return node;
  };
  const short = (value) =>
    value === 0 ? "0" : Math.abs(value) >= 1e4 || Math.abs(value) < 1e-3 ? power(value) : String(+value.toPrecision(3));
  const power = (value) => {
    const exponent = Math.floor(Math.log10(Math.abs(value)));
    const mantissa = +(value / 10 ** exponent).toPrecision(2);
    const up = String(exponent).replace("-", "⁻").replace(/\d/g, (digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[digit]);
    return (mantissa === 1 ? "" : `${mantissa}·`) + `10${up}`;
  };
  const seconds = (value) => (value < 1e-3 ? `${short(value * 1e6)} µs` : value < 1 ? `${short(value * 1e3)} ms` : `${short(value)} s`);

  // Controls, all of them native elements.
  const select = (label, options, change) => {
    const node = html("select", {}, ...options.map((text, value) => html("option", { value, textContent: text })));
    node.addEventListener("change", () => change(+node.value));
    return html("label", {}, label + " ", node);
  };
  const range = (label, { min, max, step = 1, value, says }, change) => {
    const shown = html("output", { textContent: says(value) });
    const node = html("input", { type: "range", min, max, step });
    node.value = value;
    node.setAttribute("aria-valuetext", says(value));
    node.addEventListener("input", () => {
      shown.textContent = says(+node.value);
      node.setAttribute("aria-valuetext", says(+node.value));
      change(+node.value);
    });
    return html("label", { className: "gpumf-range" }, html("span", { textContent: label }), node, shown);
  };
  const button = (text, click) => {
    const node = html("button", { type: "button", textContent: text });
    node.addEventListener("click", click);
    return node;
  };
  const checks = (legend, items, change) => {
    const boxes = items.map((item, k) => {
      const box = html("input", { type: "checkbox", checked: item.checked });
      box.addEventListener("change", () => change(k, box.checked));
      const sample = svg("svg", { width: 26, height: 12, "aria-hidden": "true", class: "gpumf-sample" });
      sample.append(svg("line", { x1: 1, x2: 25, y1: 6, y2: 6, stroke: item.colour, "stroke-width": 3, "stroke-dasharray": item.dash || "" }));
      return html("label", {}, box, sample, item.name);
    });
    return html("fieldset", {}, html("legend", { textContent: legend }), ...boxes);
  };

  // A frame for every widget: controls, a drawing as wide as the page, a sentence that is read out when it changes.
  const stage = (host, name, draw) => {
    const controls = html("div", { className: "gpumf-controls" });
    const picture = html("div", { className: "gpumf-picture" });
    const says = html("p", { className: "gpumf-says" });
    says.setAttribute("aria-live", "polite");
    const fitting = () => Math.max(280, Math.min(720, picture.clientWidth || 720));
    let width = 0;
    const redraw = () => {
      width = fitting();
      const drawn = draw(width);
      drawn.setAttribute("role", "img");
      drawn.setAttribute("aria-label", name());
      picture.replaceChildren(drawn);
    };
    host.replaceChildren(controls, picture, says);
    host.classList.add("gpumf-live");
    new ResizeObserver(() => fitting() !== width && redraw()).observe(picture);
    return { controls, redraw, say: (text) => (says.textContent = text) };
  };

  // Axes. Positions are in CSS pixels, text is 12 px on every screen.
  const ticks = (axis) => {
    const [low, high] = axis.domain;
    if (axis.ticks) return axis.ticks;
    if (axis.log) {
      const found = [];
      for (let k = Math.ceil(Math.log10(low) - 1e-9); k <= Math.log10(high) + 1e-9; k++) found.push(10 ** k);
      const every = Math.ceil(found.length / 6);
      return found.length > 1 ? found.filter((_, k) => k % every === 0) : [low, Math.sqrt(low * high), high];
    }
    const rough = (high - low) / 5, ten = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((k) => k * ten).find((size) => size >= rough);
    const found = [];
    for (let value = Math.ceil(low / step) * step; value <= high + step / 1e6; value += step) found.push(+value.toPrecision(8));
    return found;
  };
  const plot = (width, height, x, y, top = 10) => {
    const box = { left: 58, right: width - 12, top, bottom: height - 42 };
    const scale = (axis, from, to) => {
      const f = axis.log ? Math.log : (value) => value;
      const [low, high] = axis.domain.map(f);
      return (value) => from + ((f(value) - low) / (high - low)) * (to - from);
    };
    const sx = scale(x, box.left, box.right), sy = scale(y, box.bottom, box.top);
    const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height });
    const text = (at, words, more = {}) => {
      const node = svg("text", { x: at[0], y: at[1], fill: INK, "font-size": 12, "text-anchor": "middle", ...more });
      node.textContent = words;
      root.append(node);
    };
    for (const tick of ticks(x)) {
      root.append(svg("line", { x1: sx(tick), x2: sx(tick), y1: box.top, y2: box.bottom, stroke: FAINT }));
      text([sx(tick), box.bottom + 16], short(tick));
    }
    for (const tick of ticks(y)) {
      root.append(svg("line", { x1: box.left, x2: box.right, y1: sy(tick), y2: sy(tick), stroke: FAINT }));
      text([box.left - 6, sy(tick) + 4], short(tick), { "text-anchor": "end" });
    }
    text([(box.left + box.right) / 2, height - 6], x.label);
    const middle = (box.top + box.bottom) / 2;
    text([13, middle], y.label, { transform: `rotate(-90 13 ${middle})` });
    return { root, sx, sy, box, text };
  };
  const clipped = (root, box, id) => {
    root.append(svg("clipPath", { id }, svg("rect", { x: box.left, y: box.top, width: box.right - box.left, height: box.bottom - box.top })));
    const group = svg("g", { "clip-path": `url(#${id})` });
    root.append(group);
    return group;
  };
  const span = (values, log, margin = 0.04) => {
    const [low, high] = [Math.min(...values), Math.max(...values)];
    return log ? [low * (low / high) ** margin, high * (high / low) ** margin] : [low - margin * (high - low), high + margin * (high - low)];
  };
  let counter = 0;

  const kinds = {};

  kinds.race = (host, data) => {
    let order = data.orders[0], at = 0, timer = null;
    const NAMES = ["update 0", "update 1"], COLOURS = ["#0072B2", "#D55E00"];
    const cells = { p: "the user's factor", q0: "the first item's factor", q1: "the second item's factor" };
    const start = { p: data.user, q0: data.items[0], q1: data.items[1] };
    const memory = () => order.steps.slice(0, at).filter((s) => s.access === "write").reduce((m, s) => ({ ...m, [s.cell]: s.value }), start);
    const outcome = (one) =>
      one.outcome + `, update ${one.first} reads first`;
    const sentence = () => {
      if (at === 0) return `Before the first step: p = ${data.user}. Update 0 has rating ${data.ratings[0]}, update 1 rating ${data.ratings[1]}.`;
      const s = order.steps[at - 1];
      const end = at === order.steps.length ? ` The end: p = ${memory().p}; ${outcome(order)}.` : "";
      return `Step ${at} of ${order.steps.length}: ${NAMES[s.update]} ${s.access}s ${cells[s.cell]}, ${s.value}.${end}`;
    };
    const draw = (width) => {
      const row = 30, top = 64, columns = [width * 0.04, width * 0.36, width * 0.7], wide = width * 0.27;
      const root = svg("svg", { viewBox: `0 0 ${width} ${top + row * order.steps.length}`, width, height: top + row * order.steps.length });
      const text = (x, y, words, more = {}) => {
        const node = svg("text", { x, y, fill: INK, "font-size": 13, "text-anchor": "middle", ...more });
        node.textContent = words;
        root.append(node);
      };
      [...NAMES, "in memory"].forEach((name, k) => text(columns[k] + wide / 2, 16, name, { "font-weight": "bold" }));
      const now = memory();
      text(columns[0] + wide / 2, 36, `rating ${data.ratings[0]}`, { fill: SOFT });
      text(columns[1] + wide / 2, 36, `rating ${data.ratings[1]}`, { fill: SOFT });
      text(columns[2] + wide / 2, 36, `p = ${now.p}`, { "font-weight": "bold" });
      text(columns[2] + wide / 2, 53, `q = ${now.q0}, ${now.q1}`, { fill: SOFT });
      order.steps.forEach((s, k) => {
        const y = top + row * k, done = k < at, write = s.access === "write";
        root.append(svg("rect", {
          x: columns[s.update], y, width: wide, height: row - 5, rx: 4, stroke: done ? COLOURS[s.update] : FAINT, "stroke-width": k === at - 1 ? 3 : 1.2,
          fill: done && write ? COLOURS[s.update] : "white",
        }));
        const words = `${s.access}s ${s.cell[0]}` + (done ? ` ${s.value}` : "");
        text(columns[s.update] + wide / 2, y + 17, words, { fill: done && write ? "white" : done ? INK : SOFT });
        if (done && s.cell === "p") {
          const a = columns[s.update] + wide + 3, b = columns[2] + 6, mid = y + 12;
          root.append(svg("path", { d: write ? `M${a} ${mid}H${b}m-6 -4l6 4l-6 4` : `M${b} ${mid}H${a}m6 -4l-6 4l6 4`, fill: "none", stroke: COLOURS[s.update], "stroke-width": 1.6 }));
          if (write) text(columns[2] + wide / 2 + 8, y + 17, `p = ${s.value}`, { "font-weight": "bold" });
        }
      });
      return root;
    };
    const view = stage(host, () => `Two updates of one user, step by step. ${sentence()}`, draw);
    const show = () => { view.redraw(); view.say(sentence()); back.disabled = at === 0; on.disabled = at === order.steps.length; };
    const stop = () => { clearInterval(timer); timer = null; play.textContent = "Play"; };
    const go = (to) => { at = Math.max(0, Math.min(order.steps.length, to)); show(); };
    const back = button("Back", () => { stop(); go(at - 1); }), on = button("Step", () => { stop(); go(at + 1); });
    const play = button("Play", () => {
      if (timer) return stop();
      if (at === order.steps.length) go(0);
      play.textContent = "Pause";
      timer = setInterval(() => { go(at + 1); if (at === order.steps.length) stop(); }, 1200);
    });
    view.controls.append(select("Order of reads and writes:", data.orders.map(outcome), (k) => { stop(); order = data.orders[k]; go(0); }), back, on, play);
    show();
  };

  kinds.convergence = (host, data) => {
    const names = Object.keys(data.sets), labels = { seconds: "seconds of training", epochs: "epochs" };
    const axes = Object.keys(labels);
    let set = names[0], by = "seconds";
    const lines = () => data.sets[set];
    const chosen = new Set(lines().filter((line) => line.main).map((line) => line.name));
    const all = [...new Map(names.flatMap((name) => data.sets[name]).map((line) => [line.name, line])).values()];
    const known = (line) => line[by].map((x, k) => [x, line.errors[k]]).filter(([x, y]) => x !== null && y !== null);
    const ending = (line) => {
      const last = line.errors[line.errors.length - 1];
      return last === null ? `${line.name} diverged` : `${line.name}: ${data.metric} ${last.toFixed(4)} after ${line.epochs[line.epochs.length - 1]} epochs, ${seconds(line.seconds[line.seconds.length - 1])}`;
    };
    const draw = (width) => {
      const shown = lines().filter((line) => chosen.has(line.name)), points = (shown.length ? shown : lines()).flatMap(known);
      const errors = points.map(([, y]) => y).sort((a, b) => a - b);
      // The first epochs are far above all that is worth seeing.
      const y = span([errors[0], errors[Math.floor(0.93 * (errors.length - 1))]], false, 0.06);
      const log = by !== "epochs", x = span(points.map(([x]) => x), log, log ? 0.03 : 0.02);
      const { root, sx, sy, box } = plot(width, 340, { domain: x, log, label: labels[by] }, { domain: y, label: `test ${data.metric}` });
      const inside = clipped(root, box, `gpumf-clip-${counter++}`);
      for (const line of shown) {
        const path = known(line).map(([x, y], k) => `${k ? "L" : "M"}${sx(x).toFixed(1)} ${sy(y).toFixed(1)}`).join("");
        inside.append(svg("path", { d: path, fill: "none", stroke: line.colour, "stroke-width": 2.2, "stroke-dasharray": line.dash, "data-scheme": line.name }));
      }
      return root;
    };
    const best = () => {
      const shown = lines().filter((line) => chosen.has(line.name) && line.errors[line.errors.length - 1] !== null);
      const lowest = shown.reduce((a, b) => (!a || b.errors[b.errors.length - 1] < a.errors[a.errors.length - 1] ? b : a), null);
      return lowest ? `${set}: of ${shown.length} shown the lowest in the end is ${ending(lowest)}.` : `${set}: nothing is shown.`;
    };
    const view = stage(host, () => `Test ${data.metric} on ${set} against ${labels[by]}. ${best()}`, draw);
    const show = (words) => { view.redraw(); view.say(words || best()); };
    view.controls.append(
      select("Data:", names, (k) => { set = names[k]; show(); }),
      select("Against:", axes.map((name) => labels[name]), (k) => { by = axes[k]; show(); }),
      checks("Solvers", all.map((line) => ({ ...line, checked: chosen.has(line.name) })), (k, on) => {
        chosen[on ? "add" : "delete"](all[k].name);
        const line = lines().find((one) => one.name === all[k].name);
        show(on ? (line ? `${set}: ${ending(line)}.` : `${all[k].name} was not measured on ${set}.`) : undefined);
      }),
    );
    show();
  };

  kinds.crossover = (host, data) => {
    const at = { density: 0.02, users: 10000, items: 5000, factors: 32 };
    const factors = [...new Set(data.settings.map((s) => s.factors))].sort((a, b) => a - b);
    const row = () => (at.density * at.users * at.items) / (at.users + at.items);
    const rows = data.settings.map((s) => s.row), domain = span(rows, true, 0.08);
    const distance = (s) => Math.hypot(Math.log(s.row / row()), Math.log(s.factors / at.factors));
    const nearest = () => data.settings.reduce((a, b) => (distance(b) < distance(a) ? b : a));
    const winner = (s) => (s.ratio > 1 ? "ALS" : "SGD");
    const sentence = () => {
      const s = nearest(), outside = row() < Math.min(...rows) || row() > Math.max(...rows);
      return `${short(row())} ratings per user or item. The nearest setting measured has ${short(s.row)} and ${s.factors} factors (${s.data}, ${short(100 * s.density)} % filled): ` +
        `${winner(s)} is faster there, with a speed-up of ${short(Math.max(s.ratio, 1 / s.ratio))}.` +
        (s.counts ? "" : " This setting does not count: user and item biases alone reach the error.") + (outside ? " What you ask for lies outside of what was measured." : "");
    };
    const draw = (width) => {
      const { root, sx, sy, box, text } = plot(width, 340, { domain, log: true, label: "ratings per user or item, mean of both" },
        { domain: [factors[0] / 1.4, factors[factors.length - 1] * 1.4], log: true, label: "factors", ticks: factors }, 70);
      const near = nearest();
      for (const s of data.settings) {
        const [x, y, colour] = [sx(s.row), sy(s.factors), s.counts ? data.colours[winner(s)] : IDLE], size = 3.5 + 2.5 * Math.min(1.5, Math.abs(Math.log10(s.ratio)));
        root.append(winner(s) === "ALS" ? svg("circle", { cx: x, cy: y, r: size, fill: colour, "fill-opacity": 0.85 })
          : svg("rect", { x: x - size, y: y - size, width: 2 * size, height: 2 * size, fill: colour, "fill-opacity": 0.95, stroke: s.counts ? INK : "none", "stroke-width": 0.8 }));
        if (s === near) root.append(svg("circle", { cx: x, cy: y, r: size + 5, fill: "none", stroke: INK, "stroke-width": 2 }));
      }
      const x = Math.max(box.left, Math.min(box.right, sx(row()))), y = sy(at.factors);
      root.append(svg("path", { d: `M${x} ${box.top}V${box.bottom}M${box.left} ${y}H${box.right}`, stroke: INK, "stroke-dasharray": "3 3" }));
      root.append(svg("circle", { cx: box.left + 12, cy: 14, r: 6, fill: data.colours.ALS }));
      text([box.left + 24, 18], "ALS faster", { "text-anchor": "start" });
      if (data.settings.some((s) => s.counts && winner(s) === "SGD")) {
        root.append(svg("rect", { x: box.left + 104, y: 8, width: 12, height: 12, fill: data.colours.SGD, stroke: INK, "stroke-width": 0.8 }));
        text([box.left + 122, 18], "SGD faster", { "text-anchor": "start" });
      }
      root.append(svg("circle", { cx: box.left + 12, cy: 32, r: 6, fill: IDLE }));
      text([box.left + 24, 36], "not counted: biases alone reach the error", { "text-anchor": "start" });
      text([box.left + 6, 54], "squares: SGD faster; larger marks: by more", { "text-anchor": "start" });
      return root;
    };
    const view = stage(host, () => `Settings by ratings per user or item and factors, with the faster model. ${sentence()}`, draw);
    const show = () => { view.redraw(); view.say(sentence()); };
    const counts = (name, low, high) => ({ min: low, max: high, step: 0.1, value: Math.log10(at[name]), says: (value) => Math.round(10 ** value).toLocaleString("en") });
    view.controls.append(
      range("Density", { min: -4, max: 0, step: 0.05, value: Math.log10(at.density), says: (value) => `${short(100 * 10 ** value)} %` }, (value) => { at.density = 10 ** value; show(); }),
      range("Factors f", { min: 0, max: factors.length - 1, value: factors.indexOf(at.factors), says: (k) => String(factors[k]) }, (k) => { at.factors = factors[k]; show(); }),
      range("Users", counts("users", 2, 6), (value) => { at.users = 10 ** value; show(); }),
      range("Items", counts("items", 2, 6), (value) => { at.items = 10 ** value; show(); }),
    );
    show();
  };

  kinds.roofline = (host, data) => {
    let setting = data.settings[0], version = setting.versions[setting.versions.length - 1];
    const roofs = data.roofs;
    const share = (step, v) => step.rate / Math.min(roofs[v.products], step.intensity * roofs.bandwidth);
    const sentence = () =>
      `${version.name}, ${setting.name}. ` + version.steps.map((step) =>
        `${step.side}: ${short(step.intensity)} FLOP a byte, ${short(step.rate / 1e12)} TFLOP/s, ${short(100 * share(step, version))} % of its roofline bound, ${seconds(step.seconds)}`).join("; ") + ".";
    const draw = (width) => {
      const all = setting.versions.flatMap((v) => v.steps);
      const x = [Math.min(0.3, ...all.map((s) => s.gathered)) / 1.5, Math.max(3000, ...all.map((s) => s.intensity)) * 2];
      const y = [Math.min(...all.map((s) => s.rate)) / 3, roofs.fp16 * 2];
      const { root, sx, sy, box, text } = plot(width, 360, { domain: x, log: true, label: "operations a byte (FLOP/byte)" }, { domain: y, log: true, label: "FLOP/s" });
      const inside = clipped(root, box, `gpumf-clip-${counter++}`);
      for (const [key, dash, name] of [["fp16", "6 4", "products in FP16"], ["fp32", "", "products in FP32"]]) {
        const ridge = roofs[key] / roofs.bandwidth;
        inside.append(svg("path", { d: `M${sx(x[0])} ${sy(x[0] * roofs.bandwidth)}L${sx(ridge)} ${sy(roofs[key])}H${box.right}`, fill: "none", stroke: SOFT, "stroke-width": 1.6, "stroke-dasharray": dash }));
        text([box.right - 4, sy(roofs[key]) - 5], name, { "text-anchor": "end", fill: SOFT });
      }
      for (const v of setting.versions) {
        const now = v === version;
        for (const step of v.steps) {
          const place = [sx(step.intensity), sy(step.rate)], open = [sx(step.gathered), sy(step.rate)];
          const mark = ([cx, cy], fill) => step.side === "users" ? svg("circle", { cx, cy, r: now ? 7 : 4, fill, stroke: v.colour, "stroke-width": 2 })
            : svg("rect", { x: cx - (now ? 6 : 3.5), y: cy - (now ? 6 : 3.5), width: now ? 12 : 7, height: now ? 12 : 7, fill, stroke: v.colour, "stroke-width": 2 });
          if (now) inside.append(svg("line", { x1: open[0], x2: place[0], y1: open[1], y2: place[1], stroke: v.colour, "stroke-width": 1.5 }), mark(open, "white"));
          const node = mark(place, v.colour);
          node.setAttribute("opacity", now ? 1 : 0.35);
          inside.append(node);
        }
      }
      return root;
    };
    const view = stage(host, () => `Roofline. ${sentence()}`, draw);
    const show = () => { view.redraw(); view.say(sentence()); };
    const versions = html("span");
    const offer = () => versions.replaceChildren(select("Version:", setting.versions.map((v) => v.name), (k) => { version = setting.versions[k]; show(); }));
    const pick = () => { version = setting.versions[0]; offer(); show(); };
    view.controls.append(select("Data:", data.settings.map((s) => s.name), (k) => { setting = data.settings[k]; pick(); }), versions);
    pick();
  };

  // A table of class `filterable`: a search, a choice for each column that repeats itself, and what is shown as CSV.
  const filterable = (table) => {
    const names = [...table.querySelectorAll("thead th")].map((cell) => cell.textContent.trim());
    const rows = [...table.querySelectorAll("tbody tr")].map((row) => ({ row, cells: [...row.cells].map((cell) => cell.textContent.trim()) }));
    const wanted = {}, says = html("span", { className: "gpumf-says" }), search = html("input", { type: "search" });
    says.setAttribute("aria-live", "polite");
    const group = (text) => text.replace(/ \(.*/, ""); // of verdicts without the ratio
    const shown = () => rows.filter(({ row }) => !row.hidden);
    const show = () => {
      const text = search.value.toLowerCase();
      for (const { row, cells } of rows)
        row.hidden = !cells.join(" ").toLowerCase().includes(text) || Object.entries(wanted).some(([k, value]) => value && group(cells[k]) !== value);
      says.textContent = `${shown().length} of ${rows.length} rows`;
    };
    const quoted = (cells) => cells.map((cell) => `"${cell.replaceAll('"', '""')}"`).join(",");
    const keep = button("Download as CSV", () => {
      const text = [names, ...shown().map(({ cells }) => cells)].map(quoted).join("\n") + "\n";
      const link = html("a", { href: URL.createObjectURL(new Blob([text], { type: "text/csv" })), download: "claims.csv" });
      link.click();
      URL.revokeObjectURL(link.href);
    });
    search.addEventListener("input", show);
    const controls = html("div", { className: "gpumf-controls" }, html("label", {}, "Search ", search));
    for (const name of ["publication", "data", "verdict"]) {
      const k = names.indexOf(name), values = [...new Set(rows.map(({ cells }) => group(cells[k])))];
      controls.append(select(`${name[0].toUpperCase()}${name.slice(1)}`, ["all", ...values], (chosen) => { wanted[k] = chosen ? values[chosen - 1] : ""; show(); }));
    }
    controls.append(keep, says);
    table.parentElement.before(controls);
    show();
  };

  // Tables of claims, goals and programs become cards on a phone: each cell knows its column, and parts keep the roles of a table.
  const cards = (table) => {
    const heads = [...table.querySelectorAll("thead tr:only-child th")].map((cell) => cell.textContent.trim());
    if (!["verdict", "replicated", "outcome", "theirs / ours", "end to end (s)"].some((name) => heads.includes(name))) return;
    table.classList.add("cards");
    table.setAttribute("role", "table");
    table.tBodies[0].setAttribute("role", "rowgroup");
    for (const row of table.tBodies[0].rows) {
      row.setAttribute("role", "row");
      [...row.cells].forEach((cell, k) => {
        cell.dataset.label = heads[k];
        cell.setAttribute("role", cell.tagName === "TH" ? "rowheader" : "cell");
      });
    }
  };

  const start = () => {
    document.querySelectorAll(".bd-article table").forEach(cards);
    document.querySelectorAll("table.filterable").forEach(filterable);
    for (const host of document.querySelectorAll(".gpumf-widget")) {
      const data = JSON.parse(host.querySelector("script").textContent);
      kinds[host.dataset.kind](host, data);
    }
  };
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
