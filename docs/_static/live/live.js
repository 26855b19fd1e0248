"use strict";
// 1000 ReLU units learn the points that a visitor draws, beside the answer of infinitely many.
//
//   points (x₁, x₂, y = ±1) ─▶ Network: θ_j on S², signs ε_j, masses w_j ─▶ plane, sphere, chart
//   ANSWERS (answers.js, made by postprocess/live.py) ─▶ the same drawings for m = ∞
//
// h(x) = Σ_j w_j ε_j (θ_j·(x, 1))₊,  F = ½ mean (h(x_i) − y_i)²,  J_j = ε_j Σ_i r_i (θ_j·(x_i, 1))₊,
// r_i = (h(x_i) − y_i)/n.  The flow:  θ̇_j = −α ∇J_j,  ẇ_j = −β J_j w_j.

const FLOWS = { both: [1, 2], move: [1, 0], grow: [0, 2] };  // α, β
const TOLERANCE = 2e-3, LONGEST_STEP = 0.02;  // of h in a step; of time, for units that slide on kinks
const MOST_POINTS = 80, REACH = 2;  // the plane is [−REACH, REACH]²
const COLORS = [[8, 69, 120], [33, 121, 181], [104, 172, 217], [181, 213, 234], [246, 246, 244], [252, 217, 180],
  [246, 167, 100], [219, 107, 28], [150, 62, 4]];  // blue for negative, orange for positive

const element = (id) => document.getElementById(id);
const shown = (x, digits = 3) => String(Number(x.toPrecision(digits))).replaceAll("-", "−");

// n evenly spread points of S² on a Fibonacci spiral, as hkflow.quasi_uniform(n, 2).
function spiral(n) {
  return Array.from({ length: n }, (_, k) => {
    const z = 1 - 2 * (k + 0.5) / n, angle = Math.PI * (3 - Math.sqrt(5)) * (k + 0.5), r = Math.sqrt(1 - z * z);
    return [r * Math.cos(angle), r * Math.sin(angle), z];
  });
}

class Network {
  // As many units of either sign at the same places, with equal masses.
  constructor(points, [alpha, beta]) {
    const places = spiral(ANSWERS.units / 2), all = [...places, ...places], m = all.length;
    this.theta = new Float64Array(all.flat());
    this.sign = Float64Array.from(all, (_, j) => j < m / 2 ? 1 : -1);
    this.logs = new Float64Array(m).fill(Math.log(ANSWERS.mass / m));
    Object.assign(this, { points, alpha, beta, m, n: points.length, time: 0, step: LONGEST_STEP });
    Object.assign(this, this.evaluated(this.theta, this.logs));
    this.history = [[0, this.loss]];
  }

  // h at the data, the loss F, and g_j with J_j = θ_j·g_j: the slope between kinks.
  evaluated(theta, logs) {
    const { points, sign, m, n } = this, h = new Float64Array(n), g = new Float64Array(3 * m);
    for (let j = 0; j < m; j++) {
      const weight = sign[j] * Math.exp(logs[j]), a = theta[3 * j], b = theta[3 * j + 1], c = theta[3 * j + 2];
      for (let i = 0; i < n; i++) h[i] += weight * Math.max(0, a * points[i][0] + b * points[i][1] + c);
    }
    const r = h.map((value, i) => (value - points[i][2]) / n);
    for (let j = 0; j < m; j++) {
      const a = theta[3 * j], b = theta[3 * j + 1], c = theta[3 * j + 2];
      for (let i = 0; i < n; i++) if (a * points[i][0] + b * points[i][1] + c > 0) {
        g[3 * j] += sign[j] * r[i] * points[i][0];
        g[3 * j + 1] += sign[j] * r[i] * points[i][1];
        g[3 * j + 2] += sign[j] * r[i];
      }
    }
    return { h, g, loss: n ? 0.5 * r.reduce((sum, value) => sum + value * value, 0) * n : 0 };
  }

  // All units after a time dt of constant g, in closed form: with e = −g/|g|, z = e·θ and τ = α|g|dt,
  // θ becomes (θ + c e)/f, c = z (cosh τ − 1) + sinh τ, f = cosh τ + z sinh τ, and w grows by f^(β/α).
  moved(g, dt) {
    const { alpha, beta, m } = this, theta = this.theta.slice(), logs = this.logs.slice();
    for (let j = 0; j < m; j++) {
      const k = 3 * j, size = Math.hypot(g[k], g[k + 1], g[k + 2]);
      if (size === 0) continue;
      const J = g[k] * theta[k] + g[k + 1] * theta[k + 1] + g[k + 2] * theta[k + 2], z = -J / size;
      if (alpha === 0) { logs[j] -= beta * J * dt; continue; }
      const tau = alpha * size * dt, f = Math.cosh(tau) + z * Math.sinh(tau), c = z * (Math.cosh(tau) - 1) + Math.sinh(tau);
      for (let axis = 0; axis < 3; axis++) theta[k + axis] = (theta[k + axis] - c * g[k + axis] / size) / f;
      logs[j] += beta / alpha * Math.log(f);
    }
    return [theta, logs];
  }

  // Heun's step with the closed form, no further than a time; again with a smaller one where h is not accurate.
  advance(until) {
    for (;;) {
      const dt = Math.min(this.step, until - this.time), first = this.evaluated(...this.moved(this.g, dt));
      const [theta, logs] = this.moved(this.g.map((value, k) => 0.5 * (value + first.g[k])), dt), found = this.evaluated(theta, logs);
      const error = found.h.reduce((most, value, i) => Math.max(most, Math.abs(value - first.h[i])), 1e-12);
      const next = dt * Math.min(2, Math.max(0.2, 0.9 * Math.sqrt(TOLERANCE / error)));
      if (error > 2 * TOLERANCE) { this.step = next; continue; }
      if (dt === this.step) this.step = Math.min(LONGEST_STEP, next);
      Object.assign(this, found, { theta, logs, time: this.time + dt });
      this.history.push([this.time, this.loss]);
      return;
    }
  }

  // As what is drawn: values on the grid of a plane, and units with the square root of their share of the mass.
  get picture() {
    const { theta, sign, logs, m } = this, size = ANSWERS.pixels, values = new Float64Array(size * size);
    const weights = logs.map(Math.exp), mass = weights.reduce((a, b) => a + b);
    for (let q = 0; q < size; q++) for (let p = 0; p < size; p++) {
      const x = REACH * (2 * p / (size - 1) - 1), y = REACH * (2 * q / (size - 1) - 1);
      let h = 0;
      for (let j = 0; j < m; j++) h += sign[j] * weights[j] * Math.max(0, theta[3 * j] * x + theta[3 * j + 1] * y + theta[3 * j + 2]);
      values[q * size + p] = h;
    }
    return { values, theta, sign, mass, roots: weights.map((w) => Math.sqrt(w / mass)) };
  }
}

// What infinitely many units do with the points of a preset: `answer(preset, flow, time)`.
class Answers {
  async open() {
    const bytes = Uint8Array.from(atob(ANSWERS.numbers), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    const all = new Uint8Array(await new Response(stream).arrayBuffer());
    const { pixels, units, times } = ANSWERS, maps = pixels * pixels * times.length, block = maps + units * times.length;
    this.places = new Float64Array([...spiral(units / 2), ...spiral(units / 2)].flat());
    this.signs = Float64Array.from({ length: units }, (_, j) => j < units / 2 ? 1 : -1);
    this.blocks = ANSWERS.presets.flatMap((preset, p) => Object.keys(FLOWS).map((_, f) => {
      const part = all.slice((p * 3 + f) * block, (p * 3 + f + 1) * block);
      return { maps: new Int8Array(part.buffer, 0, maps), roots: part.subarray(maps) };
    }));
    return this;
  }

  // As Network.picture at the last save until a time; with flip = −1 for labels of the other sign.
  at(preset, flow, flip, time) {
    const { pixels, units, times } = ANSWERS, f = Object.keys(FLOWS).indexOf(flow), { maps, roots } = this.blocks[preset * 3 + f];
    const save = times.findLastIndex((t) => t <= time + 1e-9), area = pixels * pixels, { curves, tops } = ANSWERS.presets[preset];
    return {
      time: times[save], curve: curves[f], theta: this.places, sign: this.signs.map((sign) => flip * sign),
      values: Float64Array.from(maps.subarray(save * area, (save + 1) * area), (value) => flip * value * 2 / 127),
      roots: Float64Array.from(roots.subarray(save * units, (save + 1) * units), (value) => value / 255 * tops[f][save]),
    };
  }
}

// The energy distance of two sets of labelled points: 2E|a − b| − E|a − a′| − E|b − b′|, square root of it.
function distance(a, b) {
  const mean = (u, v) => u.reduce((sum, p) => sum + v.reduce((s, q) => s + Math.hypot(p[0] - q[0], p[1] - q[1], p[2] - q[2]), 0), 0) / (u.length * v.length);
  return Math.sqrt(Math.max(0, 2 * mean(a, b) - mean(a, a) - mean(b, b)));
}

// The preset that is nearest, with its labels as they are or turned round.
function nearest(points) {
  const choices = ANSWERS.presets.flatMap(({ points: own }, preset) => [1, -1].map((flip) => {
    const turned = own.map(([x, y, label]) => [x, y, flip * label]);
    return { preset, flip, points: turned, off: points.length ? distance(points, turned) : Infinity };
  }));
  return choices.reduce((best, choice) => choice.off < best.off ? choice : best);
}

// ---- Drawing: every function takes a canvas and what it shows

const paint = () => {
  const style = getComputedStyle(document.documentElement);
  return Object.fromEntries(["ink", "soft", "line", "body", "panel", "plus", "minus"].map((name) => [name, style.getPropertyValue(`--${name}`)]));
};

// The context of a canvas as wide as its place and so high, in CSS pixels, emptied.
function fitted(canvas, height) {
  const ratio = Math.min(window.devicePixelRatio || 1, 2), width = canvas.clientWidth, c = canvas.getContext("2d");
  Object.assign(canvas, { width: Math.round(width * ratio), height: Math.round(height * ratio) });
  canvas.style.height = `${height}px`;
  c.setTransform(ratio, 0, 0, ratio, 0, 0);
  return [Object.assign(c, { font: "12px system-ui, sans-serif" }), width];
}

// A mark of a label or a sign, round and orange or square and blue, as a part of a path.
function mark(c, x, y, sign, radius) {
  if (sign > 0) { c.moveTo(x + radius, y); c.arc(x, y, radius, 0, 7); } else c.rect(x - 0.88 * radius, y - 0.88 * radius, 1.76 * radius, 1.76 * radius);
}

// Predictions from −1.2 to 1.2 as colours, the line h = 0, the points, and the cursor of the keyboard.
function drawPlane(canvas, values, points, cursor) {
  const [c, side] = fitted(canvas, canvas.clientWidth), n = ANSWERS.pixels, image = new ImageData(n, n), small = document.createElement("canvas");
  values.forEach((h, k) => {
    const t = Math.max(0, Math.min(7.999, 4 + h / 1.2 * 4)), low = Math.floor(t), color = [0, 1, 2].map((i) => COLORS[low][i] + (t - low) * (COLORS[low + 1][i] - COLORS[low][i]));
    image.data.set([...color, 255], 4 * ((n - 1 - Math.floor(k / n)) * n + k % n));
  });
  Object.assign(small, { width: n, height: n }).getContext("2d").putImageData(image, 0, 0);
  const cell = side / (n - 1), at = ([x, y]) => [(x / REACH + 1) * side / 2, (1 - y / REACH) * side / 2];
  c.drawImage(small, -cell / 2, -cell / 2, side + cell, side + cell);
  c.beginPath();  // h = 0, by marching squares
  for (let q = 0; q + 1 < n; q++) for (let p = 0; p + 1 < n; p++) {
    const ends = [[0, 0, 1, 0], [1, 0, 1, 1], [1, 1, 0, 1], [0, 1, 0, 0]].flatMap(([a, b, d, e]) => {
      const u = values[(q + b) * n + p + a], v = values[(q + e) * n + p + d], t = u / (u - v);
      return u > 0 === v > 0 || Math.abs(u - v) < 1e-9 ? [] : [[(p + a + t * (d - a)) * cell, side - (q + b + t * (e - b)) * cell]];
    });
    for (let k = 0; k + 1 < ends.length; k += 2) { c.moveTo(...ends[k]); c.lineTo(...ends[k + 1]); }
  }
  c.lineWidth = 1.5;
  c.strokeStyle = "#111";
  c.stroke();
  for (const sign of [1, -1]) {
    c.beginPath();
    for (const point of points) if (point[2] === sign) mark(c, ...at(point), sign, 4.5);
    c.fillStyle = sign > 0 ? "#d55e00" : "#2a93d5";
    for (const [color, width] of [["#fff", 4], ["#111", 1]]) {
      Object.assign(c, { strokeStyle: color, lineWidth: width });
      c.stroke();
      c.fill();
    }
  }
  if (!cursor) return;
  const [x, y] = at(cursor);
  for (const [color, width] of [["#fff", 4], ["#111", 2]]) {
    Object.assign(c, { strokeStyle: color, lineWidth: width });
    c.beginPath(); c.moveTo(x - 10, y); c.lineTo(x + 10, y); c.moveTo(x, y - 10); c.lineTo(x, y + 10); c.stroke();
  }
}

// Units on the front of S², areas their shares of the mass, and the great circles θ·(x, 1) = 0 of the points.
function drawSphere(canvas, { theta, sign, roots }, points, [longitude, latitude], colors) {
  const [c, side] = fitted(canvas, canvas.clientWidth), radius = side / 2 - 16, middle = side / 2, rad = Math.PI / 180;
  const [sl, cl, sb, cb] = [Math.sin(longitude * rad), Math.cos(longitude * rad), Math.sin(latitude * rad), Math.cos(latitude * rad)];
  const view = ([x, y, z]) => [cl * y - sl * x, cb * z - sb * (cl * x + sl * y), cb * (cl * x + sl * y) + sb * z];
  c.fillStyle = colors.body;
  c.strokeStyle = colors.line;
  c.beginPath(); c.arc(middle, middle, radius, 0, 7); c.fill(); c.stroke();
  for (const [x, y] of points) {  // the front of a great circle is half of an ellipse
    const n = view([x, y, 1]).map((value) => value / Math.hypot(x, y, 1));
    c.beginPath();
    c.ellipse(middle, middle, radius, radius * Math.abs(n[2]), Math.atan2(-n[0], -n[1]), 0, Math.PI, n[2] <= 0);
    c.stroke();
  }
  for (const side of [1, -1]) {
    c.beginPath();
    for (let j = 0; j < sign.length; j++) if (sign[j] === side) {
      const [u, v, depth] = view(theta.subarray(3 * j, 3 * j + 3)), size = Math.min(22, 0.26 * radius * roots[j]);
      if (depth > 0 && size > 0.3) mark(c, middle + radius * u, middle - radius * v, side, size);
    }
    c.fillStyle = side > 0 ? colors.plus : colors.minus;
    c.globalAlpha = 0.8;
    c.fill();
    c.globalAlpha = 1;
  }
  c.fillStyle = c.strokeStyle = colors.ink;
  c.textAlign = "center";
  for (const [name, axis] of [["x₁", [1, 0, 0]], ["x₂", [0, 1, 0]], ["bias", [0, 0, 1]]]) {
    const [u, v, depth] = view(axis), off = Math.max(0.1, Math.hypot(u, v)), out = radius * off + 9;
    if (depth < -0.02) continue;
    c.beginPath(); c.arc(middle + radius * u, middle - radius * v, 2, 0, 7); c.stroke();
    c.fillText(name, middle + out * u / off, middle - out * v / off + 4);
  }
}

// The losses over time, both logarithmic: ours as a line, the answer dashed.
function drawChart(canvas, ours, answer, time, colors) {
  const [c, width] = fitted(canvas, 190), [left, top, right, bottom] = [54, 12, width - 12, 160], end = ANSWERS.times.at(-1);
  const x = (t) => left + Math.asinh(t / 0.5) / Math.asinh(end / 0.5) * (right - left), y = (F) => bottom + (Math.log10(Math.max(F, 1e-5)) + 4) / 4 * (top - bottom);
  Object.assign(c, { fillStyle: colors.soft, strokeStyle: colors.line, lineWidth: 1, textAlign: "center" });
  c.beginPath();
  for (const t of [0, 0.5, 1, 2, 5, 10, 20, 30]) { c.moveTo(x(t), bottom); c.lineTo(x(t), bottom + 4); c.fillText(t, x(t), bottom + 17); }
  c.textAlign = "right";
  for (const k of [0, -1, -2, -3, -4]) { c.moveTo(left, y(10 ** k)); c.lineTo(right, y(10 ** k)); c.fillText(10 ** k, left - 6, y(10 ** k) + 4); }
  c.stroke();
  c.beginPath(); c.rect(left, 0, right - left, bottom); c.clip();
  for (const [curve, color, dash, wide] of [[answer, colors.soft, [6, 4], 2], [ours, colors.ink, [], 2], [[[time, 1], [time, 1e-5]], colors.soft, [], 1]]) {
    Object.assign(c, { strokeStyle: color, lineWidth: wide }).setLineDash(dash);
    c.beginPath();
    for (const [t, F] of curve) c.lineTo(x(t), y(F));
    c.stroke();
  }
}

// ---- The page: one state, what changes it, and a picture of it in the next frame

const still = matchMedia("(prefers-reduced-motion: reduce)");
const state = { points: [], flow: "both", tool: 1, playing: false, turn: [40, 25], cursor: null, preset: 0, flip: 1, off: 0 };
let network, answers, waiting = false, before = 0, goal = 0;
const [plane, sphere, chart, theirPlane, theirSphere] = ["plane", "sphere", "chart", "their-plane", "their-sphere"].map(element);
const end = () => ANSWERS.times.at(-1);

function restart() {
  Object.assign(state, nearest(state.points), { points: state.points });
  network = new Network(state.points, FLOWS[state.flow]);
  goal = 0;
  redraw();
}

function play(on) {
  state.playing = on;
  before = performance.now();
  element("play").textContent = on ? "Pause" : network.time < end() ? "Train" : "Train again";
  if (on && network.time >= end()) restart();
  redraw();
}

function redraw() {
  if (!waiting) requestAnimationFrame(frame);
  waiting = true;
}

// Train up to where the clock is, 14 ms at most, and draw; slower at first, where most happens.
function frame(now) {
  waiting = false;
  if (state.playing) {
    const seconds = Math.min(0.1, (now - before) / 1000), stop = performance.now() + 14;
    before = now;
    goal = Math.min(end(), Math.max(goal, network.time) + seconds * (0.4 + 0.25 * network.time));
    while (network.n && network.time < goal && performance.now() < stop) network.advance(goal);
    if (network.time < goal) goal = network.time;
    if (!still.matches) state.turn[0] += 6 * seconds;
    if (network.time >= end()) play(false); else if (network.n) redraw();
  }
  draw();
}

function draw() {
  const colors = paint(), mine = network.picture, preset = ANSWERS.presets[state.preset];
  const theirs = answers.at(state.preset, state.flow, state.flip, network.time), own = preset.points.map(([x, y, label]) => [x, y, state.flip * label]);
  drawPlane(plane, mine.values, state.points, state.cursor);
  drawSphere(sphere, mine, state.points, state.turn, colors);
  drawPlane(theirPlane, theirs.values, own, null);
  drawSphere(theirSphere, theirs, own, state.turn, colors);
  drawChart(chart, network.history, theirs.curve, network.time, colors);
  element("now").textContent = `t = ${shown(network.time)} · loss ${shown(network.loss)} · mass ${shown(mine.mass)}` + (network.n ? "" : " · draw points of both labels in the plane");
  const near = !network.n ? "" : state.off < 1e-6 ? ", the same points" : `, the nearest preset (distance ${shown(state.off, 2)})`;
  element("theirs").textContent = `${preset.name}${state.flip < 0 ? ", labels exchanged" : ""}${near}, at t = ${shown(theirs.time)}`;
  if (!state.playing) element("state").textContent = JSON.stringify({ time: network.time, loss: network.loss, mass: mine.mass, h: [...network.h], steps: network.history.length,
    values: [...mine.values], theirs: [...theirs.values], preset: preset.name, flip: state.flip, off: state.off === Infinity ? null : state.off, points: state.points });
}

// Put or take away a point at a place of the plane; a stroke leaves one in every quarter of a unit.
function edit(place, apart = 0.05) {
  const off = ([x, y]) => Math.hypot(x - place[0], y - place[1]), kept = state.points.filter((point) => off(point) >= 0.15);
  if (state.tool === 0) { if (kept.length === state.points.length) return; state.points = kept; }
  else if (state.points.length >= MOST_POINTS || state.points.some((point) => off(point) < apart) || Math.max(...place.map(Math.abs)) > REACH) return;
  else state.points = [...state.points, [...place, state.tool]];
  element("preset").value = "own";
  restart();
}

function listen() {
  const place = (event) => [2 * event.offsetX / plane.clientWidth - 1, 1 - 2 * event.offsetY / plane.clientHeight].map((v) => Math.round(REACH * v * 1000) / 1000);
  plane.addEventListener("pointerdown", (event) => { plane.setPointerCapture(event.pointerId); state.cursor = null; edit(place(event)); });
  plane.addEventListener("pointermove", (event) => { if (event.buttons) edit(place(event), 0.25); });
  plane.addEventListener("pointerup", () => { if (network.n) play(true); });
  plane.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: [-0.1, 0], ArrowRight: [0.1, 0], ArrowUp: [0, 0.1], ArrowDown: [0, -0.1] }[event.key], tool = { "+": 1, "-": -1, Delete: 0, Backspace: 0 }[event.key];
    if (step) state.cursor = (state.cursor || [0, 0]).map((v, k) => Math.max(-REACH, Math.min(REACH, Math.round(10 * (v + step[k])) / 10)));
    else if (tool !== undefined || event.key === "Enter") {
      if (tool !== undefined) document.querySelector(`[name=tool][value="${state.tool = tool}"]`).checked = true;
      edit(state.cursor = state.cursor || [0, 0]);
    } else return;
    event.preventDefault();
    redraw();
  });
  for (const canvas of [sphere, theirSphere]) {
    canvas.addEventListener("pointerdown", (event) => canvas.setPointerCapture(event.pointerId));
    canvas.addEventListener("pointermove", (event) => { if (event.buttons) turn(-0.5 * event.movementX, 0.5 * event.movementY); });
    canvas.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: [-6, 0], ArrowRight: [6, 0], ArrowUp: [0, 6], ArrowDown: [0, -6] }[event.key];
      if (step) { turn(...step); event.preventDefault(); }
    });
  }
  const turn = (east, north) => { state.turn = [state.turn[0] + east, Math.max(-89, Math.min(89, state.turn[1] + north))]; redraw(); };
  element("play").addEventListener("click", () => play(!state.playing));
  element("again").addEventListener("click", () => { restart(); play(true); });
  element("preset").addEventListener("change", (event) => { choose(event.target.value); play(state.points.length > 0); });
  element("flow").addEventListener("change", (event) => { state.flow = event.target.value; restart(); play(network.n > 0); });
  for (const tool of document.querySelectorAll("[name=tool]")) tool.addEventListener("change", () => { state.tool = Number(tool.value); });
  for (const [target, kind] of [[window, "resize"], [matchMedia("(prefers-color-scheme: dark)"), "change"]]) target.addEventListener(kind, redraw);
}

function choose(name) {
  const preset = ANSWERS.presets.find((one) => one.name === name);
  state.points = preset ? preset.points : [];
  element("preset").value = preset ? name : "own";
  restart();
}

// The address may say what to open: #preset=Rings&flow=move&t=2 trains until then and waits.
async function open() {
  document.body.classList.toggle("framed", self !== top);  // the page around it has said it
  const words = new URLSearchParams(location.hash.slice(1)), until = Math.min(end(), Number(words.get("t")) || 0);
  for (const { name } of ANSWERS.presets) element("preset").add(new Option(name), element("preset").options.length - 1);
  answers = await new Answers().open();
  if (words.get("flow") in FLOWS) element("flow").value = state.flow = words.get("flow");
  choose(words.get("preset") || ANSWERS.presets[0].name);
  while (network.n && network.time < until) network.advance(until);
  listen();
  draw();
  if (!words.has("t") && !still.matches) play(true);
}
const failed = (error) => { element("errors").textContent = element("now").textContent = `The page cannot be drawn: ${error.message || error}`; };
window.addEventListener("error", (event) => failed(event.error || event.message));
open().catch(failed);
