
"use strict";
// What is flat: the circle, predictions with the data, records, and the scale of colours.

const FONT = "12px system-ui, sans-serif", LEGEND = 46;
const cut = (text, length) => text.length > length ? text.slice(0, length - 1) + "…" : text;

// The context of a canvas that has the width of its place and a height, in CSS pixels, emptied.
function fitted(canvas, height) {
  const ratio = Math.min(window.devicePixelRatio || 1, 2), width = canvas.clientWidth;
  canvas.style.height = `${height}px`;
  const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== w || canvas.height !== h) Object.assign(canvas, { width: w, height: h });
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return Object.assign(context, { ratio, font: FONT, lineJoin: "round" });
}

// A number in a few digits, with a true minus.
function shown(x, digits = 3) {
  if (x === null || !Number.isFinite(x)) return "–";
  const size = Math.abs(x);
  if (size === 0) return "0";
  const text = size >= 1e-3 && size < 1e5 ? String(Number(x.toPrecision(digits))) : x.toExponential(digits - 1).replace("e+", "e");
  return text.replaceAll("-", "−");
}

// Round numbers from low to high, about so many.
function ticks(low, high, count) {
  const raw = (high - low) / count, unit = 10 ** Math.floor(Math.log10(raw));
  const step = unit * [1, 2, 5, 10].find((k) => k * unit >= raw * 0.999), found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) found.push(k * step);
  return found;
}

// Axes of a box [left, top, right, bottom]: functions x, y to pixels, drawn with round numbers.
function axes(c, box, [x0, x1], [y0, y1], paint, names, format = {}) {
  const [left, top, right, bottom] = box;
  const x = (v) => left + (v - x0) / (x1 - x0) * (right - left), y = (v) => bottom - (v - y0) / (y1 - y0) * (bottom - top);
  c.strokeStyle = paint.line;
  c.fillStyle = paint.soft;
  c.lineWidth = 1;
  c.beginPath();
  c.moveTo(left + 0.5, top); c.lineTo(left + 0.5, bottom + 0.5); c.lineTo(right, bottom + 0.5);
  c.textAlign = "center";
  for (const v of format.xs || ticks(x0, x1, Math.max(2, (right - left) / 90))) {
    c.moveTo(x(v), bottom); c.lineTo(x(v), bottom + 4);
    c.fillText(format.x ? format.x(v) : shown(v), x(v), bottom + 16);
  }
  c.textAlign = "right";
  const digits = Math.max(3, Math.ceil(Math.log10(Math.max(Math.abs(y0), Math.abs(y1)) / (y1 - y0))) + 2);
  for (const v of format.ys || ticks(y0, y1, Math.max(3, (bottom - top) / 45))) {
    c.moveTo(left - 4, y(v)); c.lineTo(left, y(v));
    c.fillText(format.y ? format.y(v) : shown(v, digits), left - 7, y(v) + 4);
  }
  c.stroke();
  c.textAlign = "center";
  if (names[0]) c.fillText(names[0], (left + right) / 2, bottom + 32);
  c.textAlign = "left";
  if (names[1]) c.fillText(names[1], Math.max(2, left - 42), top - 13);
  return { x, y };
}

// The scale of colours of a density under it; of points what their size says.
function legend(c, run, width, top, paint, table, name = "ν/|ν|") {
  c.fillStyle = paint.soft;
  c.textAlign = "center";
  if (!run.cells) {
    c.fillText("area of a point: its share of the mass", width / 2, top + 22);
    return;
  }
  const length = Math.min(300, width - 180), left = (width - length) / 2, { bottom, top: high } = run.scale;
  for (let k = 0; k < length; k++) {
    c.fillStyle = rgb(table, Math.round(255 * k / (length - 1)));
    c.fillRect(left + k, top + 8, 1.5, 10);
  }
  c.fillStyle = paint.soft;
  c.textAlign = "right";
  c.fillText(name, left - 10, top + 17);
  c.textAlign = "left";
  c.fillText("per area", left + length + 10, top + 17);
  c.textAlign = "center";
  const marks = table === TWO_SIGNS ? [[0, -Math.exp(high)], [0.5, 0], [1, Math.exp(high)]] :
    ticks(bottom / Math.LN10, high / Math.LN10, 3).filter((d) => Number.isInteger(d)).map((d) => [(d * Math.LN10 - bottom) / (high - bottom), 10 ** d]);
  for (const [t, value] of marks) {
    c.fillRect(left + t * length - 0.5, top + 18, 1, 4);
    c.fillText(shown(value, 2), left + t * length, top + 35);
  }
}

const SMALL = 0.04;  // of the height: where no mass is

// The measure on the circle: around it, outwards for the sign +1 and inwards for −1, and unrolled.
class Circle {
  constructor(run, canvas) { Object.assign(this, { run, canvas }); }

  layout() {
    const width = this.canvas.clientWidth, beside = width >= 620, size = beside ? Math.min(0.44 * width, 380) : Math.min(width, 340);
    const box = beside ? [size + 76, 36, width - 16, size - 34] : [58, size + 32, width - 16, size + 200];
    const height = (beside ? size : size + 240) + LEGEND;
    return { width, height, x: beside ? size / 2 : width / 2, y: size / 2, radius: size * 0.28, reach: size * 0.14, box };
  }

  // The measure as columns [angle, half width, height from 0 to 1, colour, index] of one sign.
  columns(sign, state) {
    const { run } = this, found = [];
    if (run.cells) {
      const levels = run.levels(state.save, sign), half = Math.PI / run.cells.n;
      const middle = run.cells.signed ? 128 : 0;
      for (let k = 0; k < run.cells.n; k++) {
        const h = Math.abs(levels[k] - middle) / (255 - middle);
        found.push([run.angle(run.arrays.centers.subarray(2 * k, 2 * k + 2)), half, h, levels[k], k]);
      }
    }
    return found;
  }

  draw(state, paint) {
    const { width, height, x, y, radius, reach, box } = this.layout(), { run } = this, c = fitted(this.canvas, height);
    const table = run.scale && run.scale.signed ? TWO_SIGNS : ONE_SIGN, degrees = 180 / Math.PI;
    const at = (angle, r) => [x + r * Math.cos(angle), y - r * Math.sin(angle)];
    for (const datum of state.kinks && run.data ? run.data.rows.keys() : []) if (datum < 200) this.kink(c, datum, at, radius + reach + 7, paint.soft, 0.7, radius + reach + 2);
    for (const sign of run.signs) {
      const side = sign > 0 ? 1 : -1;
      for (const [angle, half, h, level] of this.columns(sign, state)) {
        c.fillStyle = rgb(table, level);
        const end = radius + side * reach * (SMALL + (1 - SMALL) * h);
        c.beginPath();
        c.arc(x, y, radius, -angle - 1.02 * half, -angle + 1.02 * half);
        c.arc(x, y, end, -angle + 1.02 * half, -angle - 1.02 * half, true);
        c.fill();
      }
    }
    c.strokeStyle = paint.soft;
    c.lineWidth = 1;
    c.beginPath(); c.arc(x, y, radius, 0, 7); c.stroke();
    c.fillStyle = paint.soft;
    c.textAlign = "center";
    for (let k = 0; k < 2; k++) {
      const [u, v] = at(k * Math.PI / 2, radius + reach + 14);
      c.fillText(cut(run.axes[k], 12), u, v + 4);
    }
    if (run.signs.length > 1) {
      c.fillText("outwards: sign +1", x, y - 4);
      c.fillText("inwards: sign −1", x, y + 12);
    }
    const { x: X, y: Y } = axes(c, box, [-180, 180], [0, 1], paint, ["angle of θ in degrees", run.cells ? "ν/|ν| per area, log scale" : "share of the mass, log scale"],
      { xs: [-180, -90, 0, 90, 180], ys: [0, 0.5, 1], y: (t) => run.scale ? shown(run.valueOf(t), 2) : "" });
    for (const sign of run.signs) {
      const color = run.signs.length === 1 ? paint.first : sign > 0 ? paint.plus : paint.minus, rows = this.columns(sign, state).sort((a, b) => a[0] - b[0]);
      c.strokeStyle = c.fillStyle = color;
      c.lineWidth = 1.6;
      c.beginPath();
      for (const [angle, half, h] of rows) { c.lineTo(X((angle - half) * degrees), Y(h)); c.lineTo(X((angle + half) * degrees), Y(h)); }
      c.stroke();
      if (!run.points) continue;
      const many = run.points.counts[state.save] > 60, dot = many ? 1.7 : 2.6;
      for (let j = 0; j < run.points.counts[state.save]; j++) if (run.signOf(state.save, j) === sign) {
        const angle = run.angle(run.position(state.save, j)), h = run.heightOf(state.save, j), [a, b] = at(angle, radius + (sign > 0 ? 1 : -1) * reach * h);
        if (h <= 0) continue;
        c.lineWidth = 1;
        c.globalAlpha = many ? 0.3 : 0.7;
        c.beginPath();
        c.moveTo(...at(angle, radius)); c.lineTo(a, b);
        c.moveTo(X(angle * degrees), Y(0)); c.lineTo(X(angle * degrees), Y(h));
        c.stroke();
        c.globalAlpha = 1;
        c.beginPath();
        c.arc(a, b, dot, 0, 7);
        c.moveTo(X(angle * degrees) + dot, Y(h)); c.arc(X(angle * degrees), Y(h), dot, 0, 7);
        c.fill();
      }
    }
    for (const [datum, size] of state.data) this.kink(c, datum, at, radius + reach, paint.ink, size);
    for (const [chosen, size] of state.units) {
      const angle = run.angle(run.placeOf(chosen, state.save));
      c.strokeStyle = paint.ink;
      c.lineWidth = size;
      c.beginPath();
      c.moveTo(...at(angle, radius)); c.lineTo(...at(angle, radius + chosen.sign * (reach + 4)));
      c.moveTo(X(angle * degrees), box[1]); c.lineTo(X(angle * degrees), box[3]);
      c.stroke();
    }
    if (run.cells) legend(c, run, width, height - LEGEND, paint, table);
  }

  // The two directions of units that are 0 at a datum, as marks from a radius to another on both sides.
  kink(c, datum, at, radius, color, width, from = 0) {
    const [a, b] = this.run.input(datum), angle = Math.atan2(a, -b);
    c.strokeStyle = color;
    c.lineWidth = width;
    c.beginPath();
    for (const side of [angle, angle + Math.PI]) { c.moveTo(...at(side, from)); c.lineTo(...at(side, radius)); }
    c.stroke();
  }

  pick(px, py, state) {
    const { x, y, radius, reach, box } = this.layout(), { run } = this;
    let angle, sign;
    if (px > box[0] && px < box[2] && py > box[1] - 8 && py < box[3] + 8) {
      angle = ((px - box[0]) / (box[2] - box[0]) * 2 - 1) * Math.PI;
      sign = null;
    } else {
      const r = Math.hypot(px - x, py - y);
      if (Math.abs(r - radius) > reach + 6) return null;
      angle = Math.atan2(y - py, px - x);
      sign = run.signs.length === 1 ? run.signs[0] : r >= radius ? 1 : -1;
    }
    const p = [Math.cos(angle), Math.sin(angle)];
    const choices = (sign === null ? run.signs : [sign]).map((s) => {  // unrolled: the curve that is nearer
      const kind = run.cells ? "cell" : "point", index = run.cells ? run.nearestCell(p) : run.nearestPoint(state.save, s, p, 0.1);
      if (index < 0) return null;
      const h = run.cells ? run.levels(state.save, s)[index] / 255 : run.heightOf(state.save, index);
      return { kind, sign: s, index, off: Math.abs(box[3] - h * (box[3] - box[1]) - py) };
    }).filter(Boolean).sort((a, b) => a.off - b.off);
    return choices[0] || null;
  }

  front(state) { return this.pick(this.layout().x + this.layout().radius + 2, this.layout().y, state); }
}

// Predictions: a map of two inputs, a curve over one, or against the targets; with the data.
class Decision {
  constructor(run, canvas) {
    Object.assign(this, { run, canvas, image: document.createElement("canvas") });
  }

  caption(save) {
    const { run } = this, map = run.map;
    if (!map) return `prediction ${run.data.h} of each datum against its target`;
    if (run.columns.length === 1) return `prediction ${map.h}, and the data`;
    return `prediction ${map.h}, up to ±${shown(this.largest(save), 2)}: blue below 0, orange above`;
  }

  // What the strongest colours stand for: of classes the largest at this save, else at any.
  largest(save) {
    const { run } = this;
    return run.classifies ? run.map.largest[save] || 1 : Math.max(...run.map.largest, ...(run.data ? run.arrays.targets.map(Math.abs) : [])) || 1;
  }

  draw(state, paint) {
    const { run } = this, width = this.canvas.clientWidth, two = run.map && run.columns.length === 2;
    const size = Math.min(width - 54, 400), height = two ? size + 66 : Math.max(260, Math.min(0.8 * width, 340));
    const c = fitted(this.canvas, height), box = [44, 22, two ? 44 + size : width - 16, height - 44];
    this.spots = [];
    if (two) this.drawMap(c, box, state, paint);
    else if (run.map) this.drawCurve(c, box, state, paint);
    else this.drawTargets(c, box, state, paint);
    for (const [datum, big] of state.data) {
      const spot = this.spots.find((s) => s[2] === datum);
      if (!spot) continue;
      for (const [color, more] of two ? [["#fff", 2], ["#111", 0]] : [[paint.ink, 0]]) {
        c.strokeStyle = color;
        c.lineWidth = big + more;
        c.beginPath(); c.arc(spot[0], spot[1], 9, 0, 7); c.stroke();
      }
    }
  }

  drawMap(c, box, state, paint) {
    const { run } = this, { pixels: n, frames, largest } = run.map, names = run.columns.map((name) => cut(name, 24));
    const values = run.arrays.map.subarray(state.save * n * n, (state.save + 1) * n * n), top = this.largest(state.save);
    Object.assign(this.image, { width: n, height: n });
    const image = new ImageData(n, n), shade = (v) => Math.round(127.5 + 127.5 * Math.max(-1, Math.min(1, v)));
    for (let j = 0; j < n; j++) for (let i = 0; i < n; i++) {
      const level = shade(values[j * n + i] / 32767 * largest[state.save] / top);
      image.data.set(TWO_SIGNS.subarray(4 * level, 4 * level + 4), 4 * ((n - 1 - j) * n + i));
    }
    this.image.getContext("2d").putImageData(image, 0, 0);
    const [left, up, right, down] = box, half = 0.5 * (right - left) / (n - 1);
    c.save();
    c.beginPath(); c.rect(left, up, right - left, down - up); c.clip();
    c.drawImage(this.image, left - half, up - half, right - left + 2 * half, down - up + 2 * half);
    c.strokeStyle = "#111";
    c.lineWidth = 1.4;
    zeroLevel(c, values, n, box);
    c.restore();
    const { x, y } = axes(c, box, frames[0], frames[1], paint, names);
    c.save();
    c.beginPath(); c.rect(left, up, right - left, down - up); c.clip();
    for (const [chosen, size] of state.units) this.ridge(c, run.placeOf(chosen, state.save), x, y, box, size);
    c.restore();
    for (let i = 0; run.data && i < run.data.rows.length; i++) {
      const [u, v] = run.input(i), target = run.arrays.targets[i];
      this.datum(c, x(u), y(v), i, target, run.classifies ? null : rgb(TWO_SIGNS, shade(target / top)), paint);
    }
  }

  datum(c, x, y, i, target, color, paint) {
    const r = this.run.data.rows.length > 300 ? 2.2 : 4;
    this.spots.push([x, y, i]);
    c.fillStyle = color || (target > 0 ? "#d55e00" : "#2a93d5");
    c.strokeStyle = "#111";
    c.lineWidth = 0.8;
    c.beginPath();
    if (this.run.classifies && target <= 0) c.rect(x - r * 0.88, y - r * 0.88, 1.76 * r, 1.76 * r); else c.arc(x, y, r, 0, 7);
    c.fill();
    c.stroke();
  }

  // The line θ·x = 0 of a unit, with an arrow to the side where it is active.
  ridge(c, theta, x, y, box, width) {
    const bias = this.run.bias ? theta[2] : 0, [a, b] = theta, norm = a * a + b * b;
    if (norm < 1e-12) return;
    const foot = [-bias * a / norm, -bias * b / norm];
    const p = [x(foot[0]), y(foot[1])], along = [x(foot[0] - b) - p[0], y(foot[1] + a) - p[1]], length = Math.hypot(...along) || 1;
    const t = along.map((v) => v / length);
    let normal = [-t[1], t[0]];
    if (normal[0] * (x(a) - x(0)) + normal[1] * (y(b) - y(0)) < 0) normal = normal.map((v) => -v);
    const middle = (t[0] * ((box[0] + box[2]) / 2 - p[0]) + t[1] * ((box[1] + box[3]) / 2 - p[1]));
    const m = [p[0] + middle * t[0], p[1] + middle * t[1]], tip = [m[0] + 16 * normal[0], m[1] + 16 * normal[1]];
    for (const [color, more] of [["#fff", 2], ["#111", 0]]) {
      c.strokeStyle = color;
      c.lineWidth = width + more;
      c.beginPath();
      c.moveTo(m[0] - 2000 * t[0], m[1] - 2000 * t[1]); c.lineTo(m[0] + 2000 * t[0], m[1] + 2000 * t[1]);
      c.moveTo(...m); c.lineTo(...tip);
      c.moveTo(tip[0] - 6 * normal[0] - 4 * t[0], tip[1] - 6 * normal[1] - 4 * t[1]); c.lineTo(...tip);
      c.lineTo(tip[0] - 6 * normal[0] + 4 * t[0], tip[1] - 6 * normal[1] + 4 * t[1]);
      c.stroke();
    }
  }

  drawCurve(c, box, state, paint) {
    const { run } = this, { pixels: n, frames: [ends], largest } = run.map, targets = run.data ? Array.from(run.arrays.targets) : [];
    const marks = run.classifies ? [] : targets, most = Math.max(...largest), low = Math.min(-most, ...marks), high = Math.max(most, ...marks);
    const edge = 0.08 * (high - low), { x, y } = axes(c, box, ends, [low - edge, high + edge], paint, [cut(run.columns[0], 40), run.map.h]);
    c.strokeStyle = paint.line;
    c.beginPath(); c.moveTo(box[0], y(0)); c.lineTo(box[2], y(0)); c.stroke();
    for (const [chosen, size] of state.units) {
      const theta = run.placeOf(chosen, state.save), at = x(run.bias ? -theta[1] / theta[0] : 0), side = Math.sign(theta[0]);
      if (!(at > box[0] && at < box[2])) continue;
      c.strokeStyle = paint.ink;
      c.lineWidth = size;
      c.beginPath();
      c.moveTo(at, box[1]); c.lineTo(at, box[3]);
      c.moveTo(at, box[1] + 12); c.lineTo(at + 14 * side, box[1] + 12); c.lineTo(at + 9 * side, box[1] + 8);
      c.stroke();
    }
    c.strokeStyle = paint.first;
    c.lineWidth = 2;
    c.beginPath();
    for (let i = 0; i < n; i++) c.lineTo(x(ends[0] + i / (n - 1) * (ends[1] - ends[0])), y(run.arrays.map[state.save * n + i] / 32767 * largest[state.save]));
    c.stroke();
    for (let i = 0; run.data && i < run.data.rows.length; i++) {
      const target = targets[i], level = run.classifies ? target * (most + 0.5 * edge) : target;
      this.datum(c, x(run.input(i)[0]), y(level), i, target, run.classifies ? null : paint.second, paint);
    }
  }

  drawTargets(c, box, state, paint) {
    const { run } = this, n = run.data.rows.length, targets = Array.from(run.arrays.targets), all = run.arrays.predictions;
    let low = Math.min(0, ...targets), high = Math.max(0, ...targets);
    let [least, most] = [0, 0];
    for (const h of all) { least = Math.min(least, h); most = Math.max(most, h); }
    const frame = run.classifies ? [-2, 2] : [low - 0.06 * (high - low || 1), high + 0.06 * (high - low || 1)], edge = 0.06 * (most - least || 1);
    const { x, y } = axes(c, box, frame, [least - edge, most + edge], paint, [run.classifies ? "class" : "target y", run.data.h],
      run.classifies ? { xs: [-1, 1], x: (v) => v > 0 ? "+1" : "−1" } : {});
    c.strokeStyle = paint.line;
    c.save();
    c.beginPath(); c.rect(box[0], box[1], box[2] - box[0], box[3] - box[1]); c.clip();
    c.beginPath();
    if (run.classifies || run.data.h !== "h") { c.moveTo(box[0], y(0)); c.lineTo(box[2], y(0)); } else { c.moveTo(x(low), y(low)); c.lineTo(x(high), y(high)); }
    c.stroke();
    c.restore();
    for (let i = 0; i < n; i++) {
      const spread = run.classifies ? 0.7 * ((i * 0.618034) % 1 - 0.5) : 0;  // side by side, where there are but two places
      this.datum(c, x(targets[i] + spread), y(all[state.save * n + i]), i, targets[i], run.classifies ? null : paint.first, paint);
    }
  }

  pick(px, py) {
    let best = null, least = 12;
    for (const [x, y, i] of this.spots || []) {
      const off = Math.hypot(x - px, y - py);
      if (off < least) [best, least] = [i, off];
    }
    return best;
  }
}

// The zero level of values (n, n) on a grid over a box, by marching squares.
function zeroLevel(c, values, n, [left, top, right, bottom]) {
  const x = (i) => left + i / (n - 1) * (right - left), y = (j) => bottom - j / (n - 1) * (bottom - top);
  c.beginPath();
  for (let j = 0; j + 1 < n; j++) for (let i = 0; i + 1 < n; i++) {
    const corners = [[i, j], [i + 1, j], [i + 1, j + 1], [i, j + 1]], ends = [];
    for (let k = 0; k < 4; k++) {
      const [a, b] = [corners[k], corners[(k + 1) % 4]], u = values[a[1] * n + a[0]], v = values[b[1] * n + b[0]];
      if (u > 0 === v > 0) continue;
      const t = u / (u - v);
      ends.push([x(a[0] + t * (b[0] - a[0])), y(a[1] + t * (b[1] - a[1]))]);
    }
    for (let k = 0; k + 1 < ends.length; k += 2) { c.moveTo(...ends[k]); c.lineTo(...ends[k + 1]); }
  }
  c.stroke();
}

// One record over time with a cursor: lines [{values, color, dash}], a band, bars at the saves.
class Chart {
  constructor(run, canvas, { title, lines, band = null, levels = [], bars = null, range = null, linear = false }) {
    Object.assign(this, { run, canvas, title, lines, band, levels, bars });
    const all = lines.flatMap((line) => line.values).concat(levels).filter((v) => v !== null);
    this.log = !range && !linear && all.every((v) => v > 0) && Math.max(...all) > 20 * Math.min(...all);
    const f = this.f = this.log ? Math.log10 : (v) => v;
    let [low, high] = range || [f(Math.min(...all)), f(Math.max(...all))];
    const size = Math.max(Math.abs(low), Math.abs(high)), rounding = Math.max(1e-9 * size, 1e-12); // what varies less stands still
    const edge = range ? 0 : high - low > rounding ? 0.06 * (high - low) : size > rounding ? 0.1 * size : 0.1;
    this.ends = [low - edge, high + edge];
  }

  draw(state, paint) {
    const { run, f } = this, c = fitted(this.canvas, 150), width = this.canvas.clientWidth, time = run.records.time, at = run.clockScale;
    const box = this.box = [54, 26, width - 16, 150 - 36], last = time[time.length - 1];
    const format = this.log ? { ys: ticks(...this.ends, 4), y: (v) => Number.isInteger(v) ? shown(10 ** v, 1) : "" } : { ys: ticks(...this.ends, 4) };
    const { x, y } = axes(c, box, [at(time[0]), at(last) > at(time[0]) ? at(last) : at(time[0]) + 1], this.ends, paint, [run.clock, ""],
      { ...format, xs: run.timeTicks.map(at), x: (v) => shown(run.clockBack(v), 2) });
    const trace = (values) => { values.forEach((v, k) => { if (v !== null) c.lineTo(x(at(time[k])), y(f(v))); }); };
    c.save();
    c.beginPath(); c.rect(box[0], box[1] - 2, box[2] - box[0], box[3] - box[1] + 4); c.clip();
    if (this.band) {
      c.fillStyle = paint.third;
      c.globalAlpha = 0.22;
      const rows = time.map((t, k) => [x(at(t)), this.band[0][k], this.band[1][k]]).filter((r) => r[1] !== null && r[2] !== null);
      c.beginPath();
      for (const [u, low] of rows) c.lineTo(u, y(low));
      for (const [u, , high] of rows.reverse()) c.lineTo(u, y(high));
      c.fill();
      c.globalAlpha = 1;
    }
    for (const level of this.levels) {
      c.strokeStyle = paint.third;
      c.setLineDash([5, 3]);
      c.beginPath(); c.moveTo(box[0], y(f(level))); c.lineTo(box[2], y(f(level))); c.stroke();
      c.setLineDash([]);
    }
    for (const { values, color, dash } of this.lines) {
      c.strokeStyle = paint[color];
      c.lineWidth = 1.7;
      c.setLineDash(dash ? [4, 3] : []);
      c.beginPath(); trace(values); c.stroke();
      c.setLineDash([]);
    }
    if (this.bars) {
      c.strokeStyle = paint[this.lines[0].color];
      c.lineWidth = 1;
      c.beginPath();
      run.time.forEach((t, k) => {
        const value = this.at(this.lines[0].values, t), bar = this.bars[k];
        if (value === null || bar === null) return;
        const ends = [value - bar, value + bar].map((v) => this.log ? Math.max(v, 10 ** this.ends[0]) : v);
        c.moveTo(x(at(t)), y(f(ends[0]))); c.lineTo(x(at(t)), y(f(ends[1])));
        for (const end of ends) { c.moveTo(x(at(t)) - 3, y(f(end))); c.lineTo(x(at(t)) + 3, y(f(end))); }
      });
      c.stroke();
    }
    c.restore();
    const now = run.time[state.save];
    c.strokeStyle = paint.ink;
    c.lineWidth = 1;
    c.beginPath(); c.moveTo(x(at(now)), box[1]); c.lineTo(x(at(now)), box[3]); c.stroke();
    c.fillStyle = paint.ink;
    c.textAlign = "left";
    c.fillText(this.title, 2, 13);
    c.textAlign = "right";
    const text = this.lines.map((line) => shown(this.at(line.values, now))).join(", "), bar = this.bars && this.bars[state.save];
    c.fillText(bar ? `${text} ± ${shown(bar, 2)}` : text, width - 16, 13);
  }

  // The value at the last record that is not after a time.
  at(values, now) {
    const { time } = this.run.records;
    let k = 0;
    while (k + 1 < time.length && time[k + 1] <= now * (1 + 1e-6)) k++;
    return values[k];
  }

  // The time under a place of the canvas.
  timeAt(px) {
    const { time } = this.run.records, at = this.run.clockScale, [left, , right] = this.box;
    return this.run.clockBack(at(time[0]) + (px - left) / (right - left) * (at(time[time.length - 1]) - at(time[0])));
  }
}
