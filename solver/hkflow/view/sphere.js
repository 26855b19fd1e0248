
"use strict";
// The measure on S², one sphere for each sign, turned by the hand: cells by WebGL2, and on a canvas
// over them points with their trails, kinks, and what is chosen.

const VIRIDIS = [[68, 1, 84], [72, 40, 120], [62, 73, 137], [49, 104, 142], [38, 130, 142], [31, 158, 137],
  [53, 183, 121], [110, 206, 88], [181, 222, 43], [253, 231, 37]];
const DIVERGING = [[8, 69, 120], [33, 121, 181], [104, 172, 217], [181, 213, 234], [246, 246, 244], [252, 217, 180],
  [246, 167, 100], [219, 107, 28], [150, 62, 4]];  // blue for negative, orange for positive

// 256 colours through a few; a palette is a Uint8Array of RGBA.
function palette(stops) {
  const table = new Uint8Array(1024).fill(255);
  for (let i = 0; i < 256; i++) {
    const x = i / 255 * (stops.length - 1), k = Math.min(Math.floor(x), stops.length - 2);
    for (let c = 0; c < 3; c++) table[4 * i + c] = Math.round(stops[k][c] + (x - k) * (stops[k + 1][c] - stops[k][c]));
  }
  return table;
}
const ONE_SIGN = palette(VIRIDIS), TWO_SIGNS = palette(DIVERGING);
const rgb = (table, level) => `rgb(${table[4 * level]},${table[4 * level + 1]},${table[4 * level + 2]})`;
const dot = (a, b) => { let sum = 0; for (let k = 0; k < b.length; k++) sum += a[k] * b[k]; return sum; };

// Rows right, up and front of the view from a longitude and a latitude in degrees; the last axis is up.
function viewFrom([longitude, latitude]) {
  const l = longitude * Math.PI / 180, b = latitude * Math.PI / 180;
  return [[-Math.sin(l), Math.cos(l), 0], [-Math.sin(b) * Math.cos(l), -Math.sin(b) * Math.sin(l), Math.cos(b)],
    [Math.cos(b) * Math.cos(l), Math.cos(b) * Math.sin(l), Math.sin(b)]];
}

const VERTEX = `#version 300 es
in vec3 place; in uint cell;
uniform mat3 view; uniform sampler2D colors;
flat out vec3 color; out float front;
void main() {
  vec3 p = view * place;
  front = p.z;
  color = texelFetch(colors, ivec2(int(cell) & 1023, int(cell) >> 10), 0).rgb;
  gl_Position = vec4(p.xy, -0.5 * p.z, 1.0);
}`;
const FRAGMENT = `#version 300 es
precision mediump float;
flat in vec3 color; in float front; out vec4 result;
void main() {  // darker at the rim alone, so that colours elsewhere are those of the scale
  result = vec4(color * mix(0.62, 1.0, smoothstep(0.0, 0.45, front)), 1.0);
}`;

// The cells of a run as coloured triangles of WebGL, drawn into a canvas of its own.
class Cells {
  constructor(run) {
    this.canvas = document.createElement("canvas");
    // without a graphics card smoothing would cost more than half of the frames
    const gl = this.gl = this.canvas.getContext("webgl2", { antialias: false });
    if (!gl) throw new Error("This browser has no WebGL2, which draws the cells of a sphere.");
    const { triangles, centers, vertices } = run.arrays, count = triangles.length / 3;
    const places = new Int16Array(9 * count), cells = new Uint32Array(3 * count);
    for (let t = 0; t < count; t++) {  // a triangle: centre of its cell, two corners of a face
      const [cell, a, b] = triangles.subarray(3 * t, 3 * t + 3);
      cells.fill(cell, 3 * t, 3 * t + 3);
      places.set(centers.subarray(3 * cell, 3 * cell + 3), 9 * t);
      places.set(vertices.subarray(3 * a, 3 * a + 3), 9 * t + 3);
      places.set(vertices.subarray(3 * b, 3 * b + 3), 9 * t + 6);
    }
    this.count = 3 * count;
    const program = this.program = gl.createProgram();
    for (const [kind, source] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]]) {
      const shader = gl.createShader(kind);
      gl.shaderSource(shader, source);
      gl.compileShader(shader);
      gl.attachShader(program, shader);
    }
    gl.linkProgram(program);
    if (!gl.getProgramParameter(program, gl.LINK_STATUS)) throw new Error(gl.getProgramInfoLog(program));
    gl.useProgram(program);
    const bind = (name, array) => {
      const at = gl.getAttribLocation(program, name);
      gl.bindBuffer(gl.ARRAY_BUFFER, gl.createBuffer());
      gl.bufferData(gl.ARRAY_BUFFER, array, gl.STATIC_DRAW);
      gl.enableVertexAttribArray(at);
      return at;
    };
    gl.vertexAttribPointer(bind("place", places), 3, gl.SHORT, true, 0, 0);
    gl.vertexAttribIPointer(bind("cell", cells), 1, gl.UNSIGNED_INT, 0, 0);
    gl.bindTexture(gl.TEXTURE_2D, gl.createTexture());
    gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MIN_FILTER, gl.NEAREST);
    gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MAG_FILTER, gl.NEAREST);
    gl.enable(gl.DEPTH_TEST);
    this.rows = Math.ceil(run.cells.n / 1024);
    this.colors = new Uint8Array(4096 * this.rows);
  }

  // Draw discs = [{x, y, radius, levels}] in pixels, y from below.
  draw(width, height, view, table, discs) {
    const gl = this.gl;
    if (this.canvas.width !== width || this.canvas.height !== height) Object.assign(this.canvas, { width, height });
    gl.clearColor(0, 0, 0, 0);
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
    gl.uniformMatrix3fv(gl.getUniformLocation(this.program, "view"), true, view.flat());
    for (const { x, y, radius, levels } of discs) {
      for (let c = 0; c < levels.length; c++) this.colors.set(table.subarray(4 * levels[c], 4 * levels[c] + 4), 4 * c);
      gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA8, 1024, this.rows, 0, gl.RGBA, gl.UNSIGNED_BYTE, this.colors);
      gl.viewport(x - radius, y - radius, 2 * radius, 2 * radius);
      gl.drawArrays(gl.TRIANGLES, 0, this.count);
    }
  }
}

const TRAIL = 8;  // saves that a trail goes back

class Sphere {
  constructor(run, canvas) {
    Object.assign(this, { run, canvas, cells: run.cells ? new Cells(run) : null });
  }

  // Where the spheres lie: side by side where there is room, one over the other on a phone; of sign 0 is one of both signs.
  layout({ fold }) {
    const signs = fold && this.run.signs.length > 1 ? [0] : this.run.signs, count = signs.length, width = this.canvas.clientWidth, across = width < 440 ? 1 : count;
    const size = Math.min(width / across, 460), down = count / across, left = (width - across * size) / 2;
    const discs = signs.map((sign, s) => ({
      sign, x: left + size * (s % across + 0.5), y: 12 + size * (Math.floor(s / across) + 0.5), radius: 0.5 * size - 26,
    }));
    return { discs, width, height: 12 + size * down + LEGEND };
  }

  draw(state, paint) {
    const { discs, width, height } = this.layout(state), { run } = this, view = viewFrom(state.turn), folded = discs[0].sign === 0;
    const c = fitted(this.canvas, height), ratio = c.ratio, table = folded || run.scale && run.scale.signed ? TWO_SIGNS : ONE_SIGN;
    this.ink = !this.cells ? paint.ink : table === TWO_SIGNS ? "#111" : "#fff";  // over cells
    for (const disc of discs) {
      c.fillStyle = paint.body;
      c.beginPath(); c.arc(disc.x, disc.y, disc.radius, 0, 7); c.fill();
    }
    if (this.cells) {
      this.cells.draw(Math.round(width * ratio), Math.round(height * ratio), view, table,
        discs.map((disc) => ({
          x: disc.x * ratio, y: (height - disc.y) * ratio, radius: disc.radius * ratio, levels: run.levels(state.save, disc.sign),
        })));
      c.drawImage(this.cells.canvas, 0, 0, width, height);
    }
    for (const disc of discs) this.over(c, disc, view, state, paint);
    legend(c, run, width, height - LEGEND, paint, table, folded ? "(ν₊ − ν₋)/|ν|" : "ν/|ν|");
  }

  over(c, disc, view, state, paint) {
    const { run } = this, at = (p) => [disc.x + disc.radius * dot(view[0], p), disc.y - disc.radius * dot(view[1], p), dot(view[2], p)];
    c.font = FONT;
    c.lineWidth = 1;
    c.strokeStyle = paint.line;
    c.beginPath(); c.arc(disc.x, disc.y, disc.radius, 0, 7); c.stroke();
    if (disc.sign && run.signs.length > 1) {
      c.fillStyle = disc.sign > 0 ? paint.plus : paint.minus;
      c.textAlign = "center";
      c.fillText(`output sign ${disc.sign > 0 ? "+" : "−"}1`, disc.x, disc.y + disc.radius + 20);
    }
    // The great circle of units that are 0 at x: its front is half of an ellipse, its back the other.
    const circle = (x, color, width) => {
      const size = Math.hypot(x[0], x[1], x[2]) || 1, n = view.map((row) => dot(row, x) / size);
      const tilt = Math.atan2(-n[0], -n[1]), flat = Math.abs(n[2]) * disc.radius;
      c.strokeStyle = color;
      for (const front of width > 1 ? [false, true] : [true]) {
        c.lineWidth = front ? width : 0.7;
        c.setLineDash(front ? [] : [2, 4]);
        c.beginPath();
        c.ellipse(disc.x, disc.y, disc.radius, flat, tilt, 0, Math.PI, n[2] > 0 === front);
        c.stroke();
      }
      c.setLineDash([]);
    };
    if (state.kinks && run.data) for (let i = 0; i < Math.min(run.data.rows.length, 200); i++) circle(run.input(i), this.cells ? this.ink + "6" : paint.line, 1);
    this.axes(c, disc, at, paint);
    this.points(c, disc, view, state, paint);
    for (const [datum, width] of state.data) circle(run.input(datum), this.ink, width);
    for (const [chosen, width] of state.units) if (chosen.sign !== -disc.sign) {
      const place = run.placeOf(chosen, state.save), [x, y, depth] = at(place);
      if (depth < 0) continue;
      for (const [color, more] of [[paint.panel, 1.6], [paint.ink, 0]]) {
        c.strokeStyle = color;
        c.lineWidth = width + more;
        c.beginPath(); c.arc(x, y, 7 + 2 * width, 0, 7); c.stroke();
      }
    }
  }

  axes(c, disc, at, paint) {
    c.textAlign = "center";
    c.textBaseline = "middle";
    for (let k = 0; k < 3; k++) {
      const e = [0, 0, 0];
      e[k] = 1;
      const [x, y, depth] = at(e);
      if (depth < -0.02) continue;
      const r = Math.hypot(x - disc.x, y - disc.y), away = Math.max(r + 13, r > 0.8 * disc.radius ? disc.radius + 12 : 0);
      const u = r > 13 ? disc.x + away / r * (x - disc.x) : x, v = r > 13 ? disc.y + away / r * (y - disc.y) : y - 13;
      const over = (p, q) => Math.hypot(p - disc.x, q - disc.y) < disc.radius ? this.ink : paint.ink;
      c.strokeStyle = over(x, y);
      c.lineWidth = 1.5;
      c.beginPath(); c.arc(x, y, 2, 0, 7); c.stroke();
      c.fillStyle = over(u, v);
      c.fillText(cut(this.run.axes[k], 16), u, v);
    }
    c.textBaseline = "alphabetic";
  }

  points(c, disc, view, state, paint) {
    const { run } = this, { save } = state;
    if (!run.points) return;
    const count = run.points.counts[save], frames = [this.projected(save, view, disc)];
    for (let back = 1; run.points.same && back <= Math.min(save, TRAIL); back++) frames.push(this.projected(save - back, view, disc));
    const [now] = frames;
    for (const sign of disc.sign ? [disc.sign] : run.signs) {
      const own = [];
      for (let j = 0; j < count; j++) if (run.signOf(save, j) === sign) own.push(j);
      c.fillStyle = c.strokeStyle = this.cells ? this.ink : sign > 0 ? paint.plus : paint.minus;
      c.lineWidth = 1;
      for (let back = 1; back < frames.length; back++) {
        const from = frames[back], to = frames[back - 1];
        c.globalAlpha = 0.6 * (1 - (back - 1) / TRAIL);
        c.beginPath();
        for (const j of own) if (from[3 * j + 2] > 0 && to[3 * j + 2] > 0 && Math.abs(from[3 * j] - to[3 * j]) + Math.abs(from[3 * j + 1] - to[3 * j + 1]) > 0.5) {
          c.moveTo(from[3 * j], from[3 * j + 1]);
          c.lineTo(to[3 * j], to[3 * j + 1]);
        }
        c.stroke();
      }
      c.globalAlpha = 1;
      c.strokeStyle = !this.cells ? paint.panel : this.ink === "#fff" ? "#222" : "#fff";
      c.lineWidth = 0.8;
      for (const large of [false, true]) {  // those that are large have an edge, over those that are small
        c.beginPath();
        for (const j of own) {
          const radius = run.radius(save, j), x = now[3 * j], y = now[3 * j + 1];
          if (now[3 * j + 2] > 0 && radius > 0 && radius > 3 === large) { c.moveTo(x + radius, y); c.arc(x, y, radius, 0, 7); }
        }
        c.fill();
        if (large) c.stroke();
      }
    }
  }

  // Pixels x, y and depth of all points at a save, three numbers each.
  projected(save, [right, up, front], disc) {
    const { width, arrays: { positions } } = this.run, found = new Float32Array(3 * width), unit = disc.radius / 32767;
    for (let j = 0, k = 3 * save * width; j < 3 * width; j += 3, k += 3) {
      const a = positions[k], b = positions[k + 1], d = positions[k + 2];
      found[j] = disc.x + unit * (right[0] * a + right[1] * b + right[2] * d);
      found[j + 1] = disc.y - unit * (up[0] * a + up[1] * b + up[2] * d);
      found[j + 2] = front[0] * a + front[1] * b + front[2] * d;
    }
    return found;
  }

  // What lies under a place of the canvas: {kind, sign, index} of a point or cell in front, or null.
  pick(x, y, state) {
    const { run } = this, view = viewFrom(state.turn);
    const disc = this.layout(state).discs.find((d) => Math.hypot(x - d.x, y - d.y) < d.radius);
    if (!disc) return null;
    const u = (x - disc.x) / disc.radius, v = (disc.y - y) / disc.radius, w = Math.sqrt(1 - u * u - v * v);
    const p = [0, 1, 2].map((k) => u * view[0][k] + v * view[1][k] + w * view[2][k]);
    const point = run.nearestPoint(state.save, disc.sign, p, (this.cells ? 8 : 18) / disc.radius);
    if (point >= 0) return { kind: "point", sign: run.signOf(state.save, point), index: point };
    if (!run.cells) return null;
    const index = run.nearestCell(p), log = (sign) => run.densityAt(state.save, sign, index)[1];
    return { kind: "cell", sign: disc.sign || (log(1) >= log(-1) ? 1 : -1), index };
  }

  front(state) {
    const { discs: [disc] } = this.layout(state);
    return this.pick(disc.x, disc.y, state);
  }
}
