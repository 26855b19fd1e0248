
"use strict";
// The page: unpacks runs, keeps one state for all, listens, and draws.

const element = (id) => document.getElementById(id);
const reducedMotion = matchMedia("(prefers-reduced-motion: reduce)"), darkScheme = matchMedia("(prefers-color-scheme: dark)");
const NAMES = ["ink", "soft", "line", "body", "panel", "first", "second", "third", "plus", "minus"];
const state = { now: 0, turn: [35, 22], datum: null, hoverDatum: null, kinks: false, fold: false, playing: false };
const views = [];
let times = [0], paint = {}, waiting = false, whole = false, timer = 0;

function failed(error) {
  element("errors").textContent += `${error && error.message || error}\n`;
  element("notice").hidden = false;
  element("notice").textContent = `The page cannot be drawn: ${error && error.message || error}`;
}
window.addEventListener("error", (event) => failed(event.error || event.message));
window.addEventListener("unhandledrejection", (event) => failed(event.reason));

// The arrays of a run from bytes; those of one and two bytes are differences between their rows.
function decoded(table, bytes, offset) {
  const arrays = {};
  for (const [name, [code, shape, size]] of Object.entries(table)) {
    const part = bytes.subarray(offset, offset + size), count = shape.reduce((a, b) => a * b, 1), row = count / shape[0];
    if (code === "u1" || code === "i2") {
      const sums = code === "u1" ? new Uint8Array(part) : new Uint16Array(count);
      if (code === "i2") for (let k = 0; k < count; k++) sums[k] = part[k] | part[count + k] << 8;
      for (let k = row; k < count; k++) sums[k] += sums[k - row];
      arrays[name] = code === "u1" ? sums : new Int16Array(sums.buffer);
    } else {
      arrays[name] = new (code === "f4" ? Float32Array : Uint32Array)(part.slice().buffer);
    }
    offset += size;
  }
  return [arrays, offset];
}

// A run as the page asks it: numbers of cells, points and data at a save.
class Run {
  constructor(facts, arrays) {
    Object.assign(this, facts, { arrays, hover: null, unit: null, dimension: facts.axes.length, kept: new Map() });
    this.bias = Boolean(facts.data && facts.data.bias);
    if (this.cells || this.points) {
      const ranges = (this.cells || this.points).ranges, top = Math.max(...ranges.map((r) => r[1]));
      const decades = this.cells && this.cells.signed ? 2 : 4, least = Math.min(...ranges.map((r) => r[0]));
      this.scale = { top, bottom: Math.min(top - Math.LN10, Math.max(least, top - decades * Math.LN10)), signed: Boolean(this.cells && this.cells.signed) };
    }
    const first = this.time.find((t) => t > this.time[0]) || 1, last = this.time[this.time.length - 1];
    const wide = last > 60 * first && this.time[0] >= 0;  // saves that crowd at the start have a logarithmic clock
    this.clockScale = wide ? (t) => Math.asinh(t / first) : (t) => t;
    this.clockBack = wide ? (s) => first * Math.sinh(s) : (s) => s;
    this.timeTicks = wide ? [0, ...[-1, 0, 1, 2, 3, 4, 5, 6].map((k) => 10 ** k).filter((t) => t >= first && t <= last * 1.001)] : ticks(this.time[0], last, 4);
  }

  // The logarithm of ν/|ν| at a byte, -Infinity for 0; and by what factor it may be off.
  log(code, [low, high], steps = 254) { return code === 0 ? -Infinity : low + (code - 1) / steps * (high - low); }
  spread([low, high], steps = 254) { return Math.exp((high - low) / steps / 2) - 1; }

  code(save, sign, cell) {
    return this.arrays.density[(save * this.signs.length + this.signs.indexOf(sign)) * this.cells.n + cell];
  }

  // ν/|ν| of a cell: [sign of it, its logarithm, relative error].
  densityAt(save, sign, cell) {
    const range = this.cells.ranges[save], code = this.code(save, sign, cell);
    if (!this.cells.signed) return [1, this.log(code, range), this.spread(range)];
    return [Math.sign(code - 128), this.log(Math.abs(code - 128), range, 126), this.spread(range, 126)];
  }

  // Colours 0 … 255 of the cells of one sign, the logarithm on the scale of all saves; of a sign 0 those of ν₊ − ν₋.
  levels(save, sign) {
    const key = 3 * save + sign;
    if (!this.kept.has(key)) {
      const { bottom, top, signed } = this.scale, { n, ranges } = this.cells, size = this.signs.length;
      const value = Float64Array.from({ length: 256 }, (_, code) =>
        signed ? Math.sign(code - 128) * Math.exp(this.log(Math.abs(code - 128), ranges[save], 126)) : Math.exp(this.log(code, ranges[save])));
      const color = (v) => {
        const t = Math.max(0, Math.min(1, (Math.log(Math.abs(v)) - bottom) / (top - bottom)));
        return Math.round(signed || sign === 0 ? 127.5 + 127.5 * Math.sign(v) * t : 255 * t);
      };
      const codes = (s) => this.arrays.density.subarray((save * size + s) * n, (save * size + s + 1) * n), table = value.map(color);
      const [plus, minus] = [this.signs.indexOf(1), this.signs.indexOf(-1)].map(codes);
      this.kept.set(key, sign === 0 ? plus.map((code, c) => color(value[code] - value[minus[c]])) : (sign > 0 ? plus : minus).map((code) => table[code]));
      if (this.kept.size > 8) this.kept.delete(this.kept.keys().next().value);
    }
    return this.kept.get(key);
  }
  valueOf(t) { return Math.exp(this.scale.bottom + t * (this.scale.top - this.scale.bottom)); }

  position(save, j) {
    const d = this.dimension, start = (save * this.width + j) * d;
    return Array.from(this.arrays.positions.subarray(start, start + d), (v) => v / 32767);
  }
  get width() { return this.arrays.weights.length / this.time.length; }
  signOf(save, j) { return this.arrays.pointSigns[save * this.width + j] ? 1 : -1; }
  logWeight(save, j) { return this.log(this.arrays.weights[save * this.width + j], this.points.ranges[save]); }
  radius(save, j) { const share = Math.exp(this.logWeight(save, j)); return share > 0 ? Math.min(20, Math.max(1.4, 40 * Math.sqrt(share))) : 0; }
  heightOf(save, j) {
    const top = Math.max(...this.points.ranges.map((r) => r[1])), t = 1 + (this.logWeight(save, j) - top) / (4 * Math.LN10);
    return Math.max(0, t);
  }

  nearestCell(p) {
    const { centers } = this.arrays, d = this.dimension;
    let best = 0, most = -Infinity;
    for (let c = 0; c < this.cells.n; c++) {
      let near = 0;
      for (let k = 0; k < d; k++) near += p[k] * centers[d * c + k];
      if (near > most) [best, most] = [c, near];
    }
    return best;
  }

  // The nearest point of a sign, 0 for either, within an angle, or -1.
  nearestPoint(save, sign, p, angle) {
    let best = -1, most = Math.cos(angle);
    for (let j = 0; this.points && j < this.points.counts[save]; j++) {
      if (this.signOf(save, j) === -sign || this.heightOf(save, j) < 0) continue;
      const near = dot(p, this.position(save, j));
      if (near > most) [best, most] = [j, near];
    }
    return best;
  }

  placeOf({ kind, index }, save) {
    const d = this.dimension;
    return kind === "cell" ? Array.from(this.arrays.centers.subarray(d * index, d * index + d), (v) => v / 32767) : this.position(save, index);
  }
  angle(p) { return Math.atan2(p[1], p[0]); }

  // A datum as a vector of the space of θ: its inputs, bias included, and 0 for an output weight.
  input(i) {
    const { inputs } = this.arrays, p = inputs.length / this.data.rows.length;
    return [...inputs.subarray(p * i, p * i + p), 0, 0, 0].slice(0, Math.max(p, this.dimension));
  }

  // J = ε Σ_i g_i φ(θ, x_i) + λ at a place, null where the page cannot tell.
  potentialAt(theta, sign, save) {
    if (!this.potential) return null;
    const { pieces, joint, decay } = this.potential, n = this.data.rows.length, p = this.arrays.inputs.length / n;
    let sum = 0;
    for (let i = 0; i < n; i++) {
      let s = 0;
      for (let k = 0; k < p; k++) s += theta[k] * this.arrays.inputs[p * i + k];
      sum += this.arrays.gradients[save * n + i] * (pieces ? (s > 0 ? pieces[1] : pieces[0]) * s : Math.max(s, 0) ** 2);
    }
    return (joint ? theta[this.dimension - 1] : sign) * sum + decay;
  }

  // What is said of a chosen cell or point.
  said(chosen, save) {
    const theta = this.placeOf(chosen, save), J = this.potentialAt(theta, chosen.sign, save), log = this.logMass[save];
    const cell = chosen.kind === "cell", times = (side, l) => l === -Infinity ? "0" : Math.abs(l) < 600 ? shown(side * Math.exp(l), 4) : `e^${shown(l, 5)}`;
    const [side, own, off] = cell ? this.densityAt(save, chosen.sign, chosen.index) : [1, this.logWeight(save, chosen.index), this.spread(this.points.ranges[save])];
    const what = cell ? "density" : "weight", close = `± ${shown(100 * off, 2)} %`;
    return [`${cell ? "cell" : "point"} ${chosen.index}`, this.signs.length > 1 ? `sign ${chosen.sign > 0 ? "+1" : "−1"}` : "",
      `θ = (${theta.map((v) => v.toFixed(3).replace("-", "−")).join(", ")})`, `${what} of ν ${times(side, log === null ? -Infinity : own + log)} ${close}`,
      `of ν/|ν| ${times(side, own)}`, J === null ? "" : `J = ${shown(J, 4)}`].filter(Boolean).join(" · ");
  }

  saidOfDatum(i, save) {
    const n = this.data.rows.length, p = this.columns.length;
    const row = Array.from(this.input(i).slice(0, p), (v, k) => `${cut(this.columns[k], 24)} = ${shown(v)}`);
    const bars = this.errors.predictions, bar = bars && this.errors.normalised === (this.data.h !== "h") ? ` ± ${shown(bars[save], 2)}` : "";
    return [`datum ${this.data.rows[i]}`, ...(p > 6 ? [...row.slice(0, 6), "…"] : row), `target ${shown(this.arrays.targets[i])}`,
      `${this.data.h} = ${shown(this.arrays.predictions[save * n + i], 4)}${bar}`].join(" · ");
  }
}

// The panels of one run.
class View {
  constructor(run) {
    this.run = run;
    this.root = element("run").content.firstElementChild.cloneNode(true);
    element("runs").append(this.root);
    const find = (selector) => this.root.querySelector(selector);
    find("h1").textContent = run.title || run.name;
    find(".status").textContent = `${run.name}: ${run.size}. ${run.status}`;
    this.readout = find(".readout");
    const [measure, decision] = [find(".measure canvas"), find(".decision canvas")];
    if (run.picture === "map") this.measure = new Sphere(run, measure);
    else if (run.picture === "circle") this.measure = new Circle(run, measure);
    if (this.measure) this.listen(measure);
    else measure.replaceWith(`The measure lives on ${run.domain}, which this page does not draw: hkflow plot RUN ${run.plot} does.`);
    if (run.data || run.map) {
      this.decision = new Decision(run, decision);
      this.decisionCaption = find(".decision figcaption");
      this.listenToData(decision);
    } else find(".decision").remove();
    find(".panels").classList.toggle("both", Boolean(this.measure && this.decision));
    find(".measure figcaption").textContent = run.picture !== "map" && run.picture !== "circle" ? "" : `${run.cells ? "density of the measure ν" : "the measure ν, point by point"} on ${run.picture === "map" ? "the sphere" : "the circle"} of input weights${run.cells && run.points ? "; dots: atoms on kinks, counted in cells" : ""}`;
    measure.setAttribute("aria-label", `The measure on ${run.domain}, see the line below for numbers`);
    decision.setAttribute("aria-label", "Predictions and data, see the line below for numbers");
    this.charts = this.records().map((what) => {
      const canvas = document.createElement("canvas");
      canvas.setAttribute("role", "img");
      canvas.setAttribute("aria-label", `${what.title} over time`);
      find(".records").append(canvas);
      const chart = new Chart(run, canvas, what), seek = (event) => { if (event.buttons) go(nearest(chart.timeAt(event.offsetX))); };
      canvas.addEventListener("pointerdown", seek);
      canvas.addEventListener("pointermove", seek);
      return chart;
    });
  }

  records() {
    const { records: r, errors } = this.run, found = [], line = (name, color, dash) => ({ values: r[name], color, dash });
    const there = (name) => r[name] && r[name].some((v) => v !== null);
    if (!r.time.length) return found;
    const fits = (name) => (name === "margin" || errors.normalised === r.perMass) && errors[name] || null;
    if (there("objective")) found.push({ title: r.perMass ? "objective per mass F/|ν|" : "objective F", lines: [line("objective", "first")], bars: fits("objective") });
    if (there("log_mass")) found.push({ title: "log mass log |ν|", lines: [line("log_mass", "first")], bars: errors.log_mass || null, linear: true });
    if (there("margin")) {
      const band = there("margin_upper"), upper = band ? r.margin_upper.filter((v) => v !== null).pop() : 0, best = r.gamma ? r.gamma[1] : upper;
      const least = Math.min(...r.margin.filter((v) => v !== null)), range = best > 0 ? [Math.min(-0.1 * best, Math.max(least, -0.5 * best)), 1.6 * best] : null;
      found.push({ title: "margin/|ν|" + (r.gamma ? (r.certified ? ", certified γ" : ", γ") : ""), lines: [line("margin", "first")],
        band: band ? [r.margin_lower, r.margin_upper] : null, levels: r.gamma || [], bars: fits("margin"), range });
    }
    if (there("training_error") && r.training_error.some((v) => v !== r.training_error[0]))
      found.push({ title: there("test_error") ? "error: training, test" : "training error", lines: [line("training_error", "first"), ...(there("test_error") ? [line("test_error", "second", true)] : [])] });
    return found;
  }

  // The save that is the last at the time of the clock.
  get save() {
    const { time } = this.run, now = times[state.now];
    let k = 0;
    while (k + 1 < time.length && time[k + 1] <= now) k++;
    return k;
  }

  // The state for this run: its save, and what is pointed at and chosen, data and units, each with the width of its mark.
  get now() {
    const { data, hover, unit } = this.run, n = data ? data.rows.length : 0;
    return { ...state, save: this.save, data: [[state.hoverDatum, 1.2], [state.datum, 2.2]].filter(([i]) => i !== null && i < n),
      units: [[hover, 1.2], [unit, 2.2]].filter(([chosen]) => chosen) };
  }

  listen(canvas) {
    let start = null, moved = false;
    const place = (event) => this.measure.pick(event.offsetX, event.offsetY, this.now);
    canvas.addEventListener("pointerdown", (event) => {
      start = { x: event.clientX, y: event.clientY, turn: state.turn };
      moved = false;
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (start && this.run.picture === "map") {
        const dx = event.clientX - start.x, dy = event.clientY - start.y;
        moved = moved || Math.hypot(dx, dy) > 4;
        if (moved) turnTo(start.turn[0] - 0.4 * dx, start.turn[1] + 0.4 * dy);
        if (moved) return;
      }
      this.run.hover = place(event);
      redraw();
    });
    canvas.addEventListener("pointerup", (event) => {
      if (start && !moved) this.choose(place(event));
      start = null;
      redraw();  // and remember the view
    });
    canvas.addEventListener("pointerleave", () => { this.run.hover = null; redraw(); });
    canvas.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: [-6, 0], ArrowRight: [6, 0], ArrowUp: [0, 6], ArrowDown: [0, -6] }[event.key];
      if (event.key === "Enter") this.choose(this.measure.front(this.now));
      else if (step && this.run.picture === "map") turnTo(state.turn[0] + step[0], state.turn[1] + step[1]);
      else return;
      event.preventDefault();
      event.stopPropagation();
    });
  }

  choose(found) {
    this.run.unit = found;
    redraw();
  }

  listenToData(canvas) {
    canvas.addEventListener("pointermove", (event) => { state.hoverDatum = this.decision.pick(event.offsetX, event.offsetY); redraw(); });
    canvas.addEventListener("pointerleave", () => { state.hoverDatum = null; redraw(); });
    canvas.addEventListener("click", (event) => { state.datum = this.decision.pick(event.offsetX, event.offsetY); redraw(); });
    canvas.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key], n = this.run.data ? this.run.data.rows.length : 0;
      if (!step || !n) return;
      state.datum = ((state.datum === null ? (step > 0 ? -1 : 0) : state.datum) + step + n) % n;
      event.preventDefault();
      event.stopPropagation();
      redraw();
    });
  }

  turn() { if (this.measure) this.measure.draw(this.now, paint); }

  draw() {
    const { run, save } = this;
    for (const chosen of ["hover", "unit"]) {  // points may be fewer at another save
      if (run[chosen] && run[chosen].kind === "point" && run[chosen].index >= run.points.counts[save]) run[chosen] = null;
    }
    const { now } = this, { data: [datum], units: [unit] } = now, lines = [];
    if (this.measure) this.measure.draw(now, paint);
    if (this.decision) {
      this.decision.draw(now, paint);
      this.decisionCaption.textContent = this.decision.caption(save);
    }
    for (const chart of this.charts) chart.draw(now, paint);
    if (unit) lines.push(run.said(unit[0], save));
    if (datum) lines.push(run.saidOfDatum(datum[0], save));
    this.readout.textContent = lines.join("\n") || "Point at the measure or at a datum to read its numbers.";
  }
}

const nearest = (t) => times.reduce((best, time, k) => Math.abs(time - t) < Math.abs(times[best] - t) ? k : best, 0);

// The colours of the style sheet by name.
function paints() {
  const style = getComputedStyle(document.documentElement);
  return Object.fromEntries(NAMES.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

// Draw in the next frame: all, or what turns alone.
function redraw(turned = false) {
  whole = whole || !turned;
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => {
    if (whole) draw(); else for (const view of views) view.turn();
    waiting = whole = false;
  });
}

function draw() {
  element("clock").value = state.now;
  element("now").textContent = `${views[0].run.clock} = ${shown(times[state.now], 4)}`;
  element("clock").setAttribute("aria-valuetext", element("now").textContent);
  for (const view of views) view.draw();
  clearTimeout(draw.later);
  draw.later = setTimeout(remember, 300);
}

function go(k) {
  state.now = Math.max(0, Math.min(times.length - 1, k));
  redraw();
}

function turnTo(longitude, latitude) {
  state.turn = [((longitude + 180) % 360 + 360) % 360 - 180, Math.max(-89, Math.min(89, latitude))];
  redraw(true);
}

function play(on) {
  state.playing = on;
  clearInterval(timer);
  element("play").setAttribute("aria-label", on ? "pause" : "play");
  element("play").querySelector("path").setAttribute("d", on ? "M3 2h4v12H3zM9 2h4v12H9z" : "M4 2l10 6-10 6z");
  if (!on) return;
  if (state.now === times.length - 1) go(0);
  const step = Math.max(reducedMotion.matches ? 800 : 70, Math.min(500, 9000 / times.length));
  timer = setInterval(() => state.now < times.length - 1 ? go(state.now + 1) : play(false), step);
}

// The state as the end of the address: save, turn, datum, kinks, and hover and unit as sign,index,run[,point].
function remember() {
  const words = new URLSearchParams({ save: state.now, turn: state.turn.map((v) => v.toFixed(1)).join(",") });
  if (state.datum !== null) words.set("datum", state.datum);
  if (state.fold) words.set("fold", 1);
  if (state.kinks !== views.every(kinksFirst)) words.set("kinks", Number(state.kinks));
  views.forEach(({ run: { unit } }, k) => { if (unit) words.append("unit", [unit.sign, unit.index, k, ...(unit.kind === "point" ? ["point"] : [])].join(",")); });
  try { history.replaceState(null, "", `#${words.toString().replaceAll("%2C", ",")}`); } catch { /* a frame may not */ }
}

function recall() {
  const words = new URLSearchParams(location.hash.slice(1)), number = (name, most) => {
    const value = words.has(name) ? Math.trunc(Number(words.get(name))) : NaN;
    return value >= 0 && value <= most ? value : null;
  };
  state.now = number("save", times.length - 1) ?? times.length - 1;
  const turn = (words.get("turn") || "").split(",").map(Number);
  if (turn.length === 2 && turn.every(Number.isFinite)) turnTo(...turn);
  state.datum = number("datum", 1e6);
  state.kinks = words.has("kinks") ? words.get("kinks") === "1" : views.every(kinksFirst);
  element("kinks").checked = state.kinks;
  element("fold").checked = state.fold = words.get("fold") === "1";
  if (words.has("scheme")) darken(words.get("scheme") === "dark");
  for (const view of views) view.run.hover = view.run.unit = null;
  for (const kind of ["hover", "unit"]) for (const word of words.getAll(kind)) {
    const [sign, index, which = 0, point] = word.split(","), view = views[which], j = Math.trunc(Number(index));
    if (!view || !view.run.signs.includes(Number(sign))) continue;
    const cell = view.run.cells && point !== "point", most = cell ? view.run.cells.n : view.run.points ? view.run.points.counts[view.save] : 0;
    if (j >= 0 && j < most) view.run[kind] = { kind: cell ? "cell" : "point", sign: cell ? Number(sign) : view.run.signOf(view.save, j), index: j };
  }
}

// Kinks are shown at first where they are few and hide no density.
const kinksFirst = ({ run }) => Boolean(run.data && !run.cells && run.data.rows.length <= 60);

function darken(dark) {
  document.documentElement.classList.toggle("dark", dark);
  document.documentElement.style.colorScheme = dark ? "dark" : "light";
  paint = paints();
  redraw();
}

// What tests read: the save, what is in front, its colour, where the first sphere is, what the records have, and with bench=N in the
// address the milliseconds of a turn.
function report() {
  const frames = Math.min(Number(new URLSearchParams(location.hash.slice(1)).get("bench")) || 0, 200), turn = state.turn, start = performance.now();
  for (let k = 0; k < frames; k++) {
    state.turn = [turn[0] + 3 * k, turn[1]];
    for (const view of views) view.turn();
  }
  const front = views.map(({ run, measure, now }) => {
    if (run.picture !== "map") return null;
    const { discs: [{ x, y, radius }] } = measure.layout(state), c = measure.canvas.getContext("2d"), { left, top } = measure.canvas.getBoundingClientRect();
    const color = Array.from(c.getImageData(Math.round(x * c.ratio), Math.round(y * c.ratio), 1, 1).data);
    return { ...measure.front(now), color, disc: [left + x, top + y, radius] };
  });
  const milliseconds = (performance.now() - start) / (frames || 1);
  element("state").textContent = JSON.stringify({ save: state.now, saves: times.length, turn: state.turn, front, milliseconds,
    charts: views.map(({ charts }) => charts.map(({ title, bars, band }) => [title, Boolean(bars), Boolean(band)])) });
}

async function opened() {
  const bytes = Uint8Array.from(atob(element("numbers").textContent), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const whole = new Uint8Array(await new Response(stream).arrayBuffer());
  let offset = 0, arrays;
  for (const facts of JSON.parse(element("facts").textContent)) {
    [arrays, offset] = decoded(facts.arrays, whole, offset);
    views.push(new View(new Run(facts, arrays)));
  }
  const runs = views.map((view) => view.run);
  times = [...new Set(runs.flatMap((run) => run.time))].sort((a, b) => a - b);
  element("clock").max = times.length - 1;
  const off = Math.max(...runs.map((run) => run.cells ? Math.max(...run.cells.ranges.map((r) => run.spread(r, run.cells.signed ? 126 : 254))) : 0),
    ...runs.map((run) => run.points ? Math.max(...run.points.ranges.map((r) => run.spread(r))) : 0));
  const few = runs.filter((run) => run.points && Math.max(...run.points.counts) < run.points.of).map((run) => `${run.name} shows its ${Math.max(...run.points.counts)} heaviest points of ${run.points.of}, ${shown(100 * run.points.least, 3)} % of the mass at least`);
  const some = runs.filter((run) => run.time.length < run.saves).map((run) => `${run.name} shows ${run.time.length} of its ${run.saves} saves`);
  element("precision").textContent = ["Densities and weights are kept in one byte of their logarithm over six decades, so that they are off by "
    + `${shown(100 * off, 2)} % at most; what is smaller is read as 0. Positions are exact to 2e−5, predictions on a map to 1.5e−5 of their largest`, ...few, ...some].join(". ") + ".";
  darken(darkScheme.matches);
  recall();
  draw();
  report();
  darkScheme.addEventListener("change", () => darken(darkScheme.matches));
  window.addEventListener("resize", () => redraw());
  window.addEventListener("hashchange", () => { recall(); redraw(); });
  element("clock").addEventListener("input", (event) => { play(false); go(Number(event.target.value)); });
  element("play").addEventListener("click", () => play(!state.playing));
  for (const name of ["kinks", "fold"]) element(name).addEventListener("change", (event) => { state[name] = event.target.checked; redraw(); });
  element("fold").parentElement.hidden = !runs.some((run) => run.picture === "map" && run.signs.length > 1);
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const jump = { ArrowLeft: state.now - 1, ArrowRight: state.now + 1, Home: 0, End: times.length - 1 }[event.key];
    if (event.key === " " && !["play", "kinks", "fold"].includes(event.target.id)) play(!state.playing);
    else if (event.key === "Escape") { state.datum = null; for (const run of runs) run.unit = null; redraw(); }
    else if (jump !== undefined) { play(false); go(jump); }
    else return;
    event.preventDefault();
  });
}
opened().catch(failed);
