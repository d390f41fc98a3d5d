/* SPDX-License-Identifier: MIT */
/* Words for numbers, and the two charts of a step: what each rank does, and what its memory holds. Both show the same
   stretch of time. The step repeats, so beyond its end the next one begins. */
"use strict";

const MEMORY = ["parameters", "gradients", "optimizer", "activations", "boundary", "workspace", "communication"];
const SPANS = ["forward", "backward", "weight gradient", "recompute", "optimizer", "communication"];
const COMMUNICATION = 5;

const digits = v => v >= 999.5 ? v.toFixed(0) : String(Number(v.toPrecision(4)));
function bytesText(b) {
  const names = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  const sign = b < 0 ? "−" : "";
  b = Math.abs(b);
  let i = 0;
  while (b >= 1024 && i < names.length - 1) { b /= 1024; i++; }
  return `${sign}${digits(b)} ${names[i]}`;
}
function timeUnit(s) {
  return s >= 1 ? [1, "s"] : s >= 1e-3 ? [1e-3, "ms"] : s >= 1e-6 ? [1e-6, "µs"] : s >= 1e-9 ? [1e-9, "ns"] : [1e-12, "ps"];
}
function timeText(s) {
  if (!(Math.abs(s) > 0)) return "0 s";
  const [size, name] = timeUnit(Math.abs(s));
  return `${s < 0 ? "−" : ""}${digits(Math.abs(s) / size)} ${name}`;
}
function countText(v) {
  const scale = v >= 1e12 ? [1e12, " T"] : v >= 1e9 ? [1e9, " B"] : v >= 1e6 ? [1e6, " M"] : v >= 1e4 ? [1e3, " k"] : [1, ""];
  return digits(v / scale[0]) + scale[1];
}
const percentText = f => f > 0 && f < 0.0005 ? "<0.1 %" : `${(100 * f).toFixed(1)} %`;

/* "0–3, 7" */
function listText(numbers) {
  const parts = [];
  for (let i = 0; i < numbers.length; i++) {
    const first = i;
    while (numbers[i + 1] === numbers[i] + 1) i++;
    parts.push(i > first + 1 ? `${numbers[first]}–${numbers[i]}` : i > first ? `${numbers[first]}, ${numbers[i]}` : `${numbers[i]}`);
  }
  return parts.length > 9 ? `${parts.slice(0, 8).join(", ")}, … (${numbers.length})` : parts.join(", ");
}

function decodeRow(row) {
  const spans = [];
  let at = 0;
  for (let i = 0; i < row.spans.length; i += 5) {
    at += row.spans[i + 3];
    spans.push({ kind: row.spans[i], batch: row.spans[i + 1], stage: row.spans[i + 2], start: at, end: at + row.spans[i + 4] });
  }
  const points = [];
  const bytes = new Array(MEMORY.length).fill(0);
  at = 0;
  for (const change of row.memory) {
    at += change[0];
    for (let i = 1; i < change.length; i += 2) bytes[change[i]] += change[i + 1];
    points.push({ at, bytes: bytes.slice(), sum: bytes.reduce((a, b) => a + b, 0) });
  }
  return { ...row, spans, points, lives: livesOf(spans) };
}

/* From the first forward of a micro-batch to the end of its last backward: while its activations are kept. */
function livesOf(spans) {
  const lives = new Map();
  for (const span of spans) {
    if (span.batch < 0 || span.kind === COMMUNICATION) continue;
    const key = `${span.batch}/${span.stage}`;
    const life = lives.get(key) || { batch: span.batch, start: Infinity, end: -Infinity };
    if (span.kind === 0) life.start = Math.min(life.start, span.start);
    else life.end = Math.max(life.end, span.end);
    lives.set(key, life);
  }
  return [...lives.values()].filter(life => isFinite(life.start) && isFinite(life.end));
}
function aliveAt(row, at, ticks) {
  const alive = new Set();
  for (const life of row.lives) {
    const end = life.end < life.start ? life.end + ticks : life.end;
    if ((at >= life.start && at < end) || (at + ticks >= life.start && at + ticks < end)) alive.add(life.batch);
  }
  return [...alive].sort((a, b) => a - b);
}
function pointAt(row, at) {
  let low = 0, high = row.points.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (row.points[middle].at <= at) low = middle; else high = middle - 1;
  }
  return row.points[low];
}

const colour = name => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

/* Activations of all GPUs together, as points in ticks of the longest step; null where not every class is drawn. */
function activationsOf(drawn, share) {
  if (drawn.of > drawn.rows.length) return null;
  const changes = [];
  for (const row of drawn.rows.map(decodeRow)) {
    let before = 0;
    for (const point of row.points) {
      changes.push([point.at, (point.bytes[3] - before) * row.count]);
      before = point.bytes[3];
    }
  }
  changes.sort((a, b) => a[0] - b[0]);
  const points = [];
  let sum = 0;
  for (const [at, change] of changes) {
    sum += change;
    if (points.length && points[points.length - 1].at === at * share) points[points.length - 1].sum = sum;
    else points.push({ at: at * share, sum });
  }
  return points;
}

/* The stretch of time on the screen, in ticks, and where the pointer is. */
class View {
  constructor(ticks, seconds) {
    this.ticks = ticks;
    this.seconds = seconds;
    this.listeners = [];
    this.reset();
  }
  reset() { this.from = 0; this.to = this.ticks; this.cursor = null; this.tell(); }
  tell() {
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => { this.pending = false; for (const listener of this.listeners) listener(); });
  }
  zoom(factor, about) {
    const length = Math.min(Math.max((this.to - this.from) * factor, this.ticks / 20000), 2 * this.ticks);
    const share = (about - this.from) / (this.to - this.from);
    this.from = about - share * length;
    this.to = this.from + length;
    this.fold();
  }
  pan(by) { this.from += by; this.to += by; this.fold(); }
  /* The step repeats: keep its beginning in reach. */
  fold() {
    const middle = (this.from + this.to) / 2;
    const shift = Math.floor(middle / this.ticks) * this.ticks;
    this.from -= shift;
    this.to -= shift;
    this.tell();
  }
  point(at) { this.cursor = at; this.tell(); }
  within(at) { return ((at % this.ticks) + this.ticks) % this.ticks; }
  secondsAt(at) { return at / this.ticks * this.seconds; }
}

class Chart {
  constructor(canvas, view, tip) {
    this.canvas = canvas;
    this.view = view;
    this.tip = tip;
    this.left = 74;
    view.listeners.push(() => this.draw());
    this.listen();
  }
  begin(height) {
    const width = this.canvas.clientWidth || 600;
    const ratio = Math.max(window.devicePixelRatio || 1, this.printing ? 3 : 1);
    this.width = width;
    this.height = height;
    this.canvas.style.height = `${height}px`;
    if (this.canvas.width !== Math.round(width * ratio) || this.canvas.height !== Math.round(height * ratio)) {
      this.canvas.width = Math.round(width * ratio);
      this.canvas.height = Math.round(height * ratio);
    }
    const pen = this.canvas.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    pen.font = "11px system-ui, 'DejaVu Sans', sans-serif";
    pen.textBaseline = "middle";
    return pen;
  }
  x(at) { return this.left + (at - this.view.from) / (this.view.to - this.view.from) * (this.width - this.left - 2); }
  at(x) { return this.view.from + (x - this.left) / (this.width - this.left - 2) * (this.view.to - this.view.from); }

  /* Time below, a line at each end of the step. */
  drawAxis(pen, top, bottom) {
    const { view } = this;
    const length = view.secondsAt(view.to - view.from);
    const [size, name] = timeUnit(view.seconds);
    const rough = length / size / Math.max((this.width - this.left) / 95, 1);
    const power = 10 ** Math.floor(Math.log10(rough));
    const gap = [1, 2, 5, 10].map(f => f * power).find(g => g >= rough) || power;
    const places = Math.max(0, -Math.floor(Math.log10(gap) + 1e-9));
    pen.strokeStyle = colour("line");
    pen.fillStyle = colour("soft");
    pen.lineWidth = 1;
    pen.textAlign = "center";
    for (let n = Math.ceil(view.secondsAt(view.from) / size / gap); n * gap * size <= view.secondsAt(view.to) + 1e-15; n++) {
      const x = this.x(n * gap * size / view.seconds * view.ticks);
      pen.beginPath(); pen.moveTo(x, top); pen.lineTo(x, bottom + 4); pen.stroke();
      const text = `${(n * gap).toFixed(places)} ${name}`;
      const half = pen.measureText(text).width / 2;
      pen.fillText(text, Math.max(half + 1, Math.min(x, this.width - half - 1)), bottom + 13);
    }
    pen.strokeStyle = colour("soft");
    pen.setLineDash([2, 3]);
    for (let end = Math.ceil(view.from / view.ticks); end * view.ticks <= view.to; end++) {
      const x = this.x(end * view.ticks);
      if (x <= this.left + 1 || x >= this.width - 3) continue;
      pen.beginPath(); pen.moveTo(x, top); pen.lineTo(x, bottom); pen.stroke();
    }
    pen.setLineDash([]);
  }
  /* Bytes at the left, up to `top`. */
  drawBytes(pen, top, y) {
    const narrow = this.left < 60;
    let unit = 0;
    while (top / 1024 ** (unit + 1) >= 1 && unit < 5) unit++;
    const size = 1024 ** unit, rough = top / size / 5, power = 10 ** Math.floor(Math.log10(rough));
    const gap = [1, 2, 5, 10].map(f => f * power).find(g => g >= rough);
    pen.textAlign = "right";
    pen.fillStyle = colour("soft");
    pen.strokeStyle = colour("line");
    for (let n = 0; n * gap * size <= top; n++) {
      const at = y(n * gap * size);
      pen.beginPath(); pen.moveTo(this.left, at); pen.lineTo(this.width, at); pen.stroke();
      pen.fillText(`${Number((n * gap).toPrecision(6))}${narrow ? "" : ` ${["B", "KiB", "MiB", "GiB", "TiB", "PiB"][unit]}`}`, this.left - 6, Math.max(at, 7));
    }
  }
  drawCursor(pen, top, bottom) {
    if (this.view.cursor === null) return;
    const x = this.x(this.view.cursor);
    if (x < this.left || x > this.width) return;
    pen.strokeStyle = colour("ink");
    pen.lineWidth = 1;
    pen.beginPath(); pen.moveTo(x, top); pen.lineTo(x, bottom); pen.stroke();
  }

  listen() {
    const { canvas, view } = this;
    const pointers = new Map();
    let pinch = 0;
    const where = event => { const box = canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
    canvas.addEventListener("wheel", event => {
      const [x] = where(event);
      if (event.ctrlKey || event.metaKey) view.zoom(Math.exp(event.deltaY * (event.deltaMode ? 0.05 : 0.003)), this.at(x));
      else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) view.pan(event.deltaX / this.width * (view.to - view.from));
      else return;
      event.preventDefault();
    }, { passive: false });
    canvas.addEventListener("pointerdown", event => {
      pointers.set(event.pointerId, where(event));
      if (event.pointerType === "mouse") canvas.setPointerCapture(event.pointerId);
      this.moved = 0;
      pinch = 0;
    });
    canvas.addEventListener("pointermove", event => {
      const now = where(event), before = pointers.get(event.pointerId);
      if (before) pointers.set(event.pointerId, now);
      if (before && pointers.size === 2) {
        const [a, b] = [...pointers.values()];
        const spread = Math.max(Math.abs(a[0] - b[0]), 20);
        if (pinch > 0) view.zoom(pinch / spread, this.at((a[0] + b[0]) / 2));
        pinch = spread;
        this.moved = 99;
        return;
      }
      if (before) {
        this.moved += Math.abs(now[0] - before[0]);
        if (this.moved > 4) view.pan((before[0] - now[0]) / (this.width - this.left) * (view.to - view.from));
      }
      this.hover(now[0], now[1], event);
    });
    const end = event => {
      const at = pointers.get(event.pointerId);
      pointers.delete(event.pointerId);
      if (at && this.moved <= 4 && event.type === "pointerup") { this.hover(at[0], at[1], event); this.press(at[0], at[1]); }
    };
    canvas.addEventListener("pointerup", end);
    canvas.addEventListener("pointercancel", end);
    canvas.addEventListener("pointerleave", () => { if (!pointers.size) { this.tip.hidden = true; view.point(null); } });
    canvas.addEventListener("dblclick", event => { view.zoom(0.4, this.at(where(event)[0])); event.preventDefault(); });
    canvas.addEventListener("keydown", event => {
      const length = view.to - view.from, middle = (view.from + view.to) / 2;
      const keys = { ArrowLeft: () => view.pan(-length / 8), ArrowRight: () => view.pan(length / 8), "+": () => view.zoom(0.6, middle),
                     "=": () => view.zoom(0.6, middle), "-": () => view.zoom(1 / 0.6, middle), "0": () => view.reset() };
      if (!keys[event.key]) return;
      keys[event.key]();
      event.preventDefault();
    });
  }
  press() { }
  hover(x, y, event) {
    if (x < this.left) { this.tip.hidden = true; this.view.point(null); return; }
    this.view.point(this.at(x));
    const text = this.describe(this.at(x), y);
    this.tip.hidden = !text;
    if (!text) return;
    this.tip.textContent = text;
    const { width, height } = this.tip.getBoundingClientRect();
    const right = event.clientX + 16 + width > window.innerWidth;
    const low = event.clientY + 20 + height > window.innerHeight;
    this.tip.style.left = `${Math.max(4, right ? event.clientX - width - 12 : event.clientX + 16)}px`;
    this.tip.style.top = `${Math.max(4, low ? event.clientY - height - 14 : event.clientY + 18)}px`;
  }
}

class Gantt extends Chart {
  constructor(canvas, rows, view, tip) {
    super(canvas, view, tip);
    this.rows = rows;
    this.chosen = null;
    this.rowHeight = rows.length <= 8 ? 38 : rows.length <= 16 ? 28 : rows.length <= 32 ? 20 : 15;
  }
  label(row) {
    const narrow = this.width < 500;
    if (narrow) return row.stage >= 0 ? `S${row.stage}` : `R${row.rank}`;
    return (row.stage >= 0 ? `stage ${row.stage}` : `rank ${row.rank}`) + (row.count > 1 ? ` ×${row.count}` : "");
  }
  lane(i, kind) {
    const top = 4 + i * this.rowHeight, high = this.rowHeight - Math.max(3, this.rowHeight * 0.14);
    return kind === COMMUNICATION ? [top + high * 0.72, high * 0.28] : [top, high * 0.7];
  }
  draw() {
    const bottom = 4 + this.rows.length * this.rowHeight;
    const pen = this.begin(bottom + 24);
    const { view } = this;
    this.drawAxis(pen, 0, bottom);
    const fills = SPANS.map((_, k) => colour(`s${k}`)), inks = SPANS.map((_, k) => colour(`s${k}-ink`)), ink = colour("ink");
    pen.save();
    pen.beginPath(); pen.rect(this.left, 0, this.width - this.left, bottom); pen.clip();
    pen.textAlign = "center";
    this.rows.forEach((row, i) => {
      let lastX = -1, lastKind = -1;
      for (let copy = Math.floor(view.from / view.ticks) - 1; copy * view.ticks < view.to; copy++) {
        const shift = copy * view.ticks;
        for (const span of row.spans) {
          if (span.end + shift <= view.from || span.start + shift >= view.to) continue;
          const x = this.x(span.start + shift), width = Math.max(this.x(span.end + shift) - x, 0.8);
          if (width < 1 && Math.floor(x) === lastX && span.kind === lastKind) continue;
          lastX = Math.floor(x); lastKind = span.kind;
          const [top, high] = this.lane(i, span.kind);
          pen.globalAlpha = this.chosen !== null && span.batch !== this.chosen ? 0.16 : 1;
          pen.fillStyle = fills[span.kind];
          pen.fillRect(x, top, width > 5 ? width - 0.8 : width, high);
          if (span.kind !== COMMUNICATION && span.batch >= 0 && high >= 9 && width > 9) {
            const text = String(span.batch);
            if (pen.measureText(text).width + 4 < width) {
              pen.fillStyle = inks[span.kind];
              pen.fillText(text, Math.min(Math.max(x + width / 2, this.left + 6), Math.max(this.width - 8, x)), top + high / 2 + 0.5);
            }
          }
        }
      }
    });
    pen.globalAlpha = 1;
    pen.restore();
    pen.fillStyle = ink;
    pen.textAlign = "right";
    this.rows.forEach((row, i) => { if (this.rowHeight > 11) pen.fillText(this.label(row), this.left - 8, 4 + i * this.rowHeight + this.rowHeight * 0.38); });
    this.drawCursor(pen, 0, bottom);
  }
  find(at, y) {
    const i = Math.floor((y - 4) / this.rowHeight), row = this.rows[i];
    if (!row) return null;
    const slack = (this.view.to - this.view.from) / this.width * 1.5;
    const [commTop] = this.lane(i, COMMUNICATION);
    let best = null, distance = Infinity;
    for (let copy = Math.floor(this.view.from / this.view.ticks) - 1; copy * this.view.ticks < this.view.to; copy++)
      for (const span of row.spans) {
        if ((span.kind === COMMUNICATION) !== (y >= commTop)) continue;
        const away = Math.max(span.start + copy * this.view.ticks - at, at - span.end - copy * this.view.ticks, 0);
        if (away <= slack && away < distance) { distance = away; best = span; }
      }
    return { row, span: best };
  }
  describe(at, y) {
    const found = this.find(at, y);
    if (!found) return "";
    const time = s => timeText(this.view.secondsAt(s));
    const who = (found.row.stage >= 0 ? `stage ${found.row.stage}, rank ${found.row.rank}` : `rank ${found.row.rank}`) +
                (found.row.count > 1 ? ` (one of ${found.row.count} equal)` : "");
    if (!found.span) return `${who}\nidle at ${time(this.view.within(at))}`;
    const { span } = found;
    const what = SPANS[span.kind] + (span.batch >= 0 ? ` of micro-batch ${span.batch}` : "") +
                 (span.stage >= 0 && span.stage !== found.row.stage ? `, part ${span.stage}` : "");
    return `${what}\n${who}\n${time(span.start)} to ${time(span.end)}: ${time(span.end - span.start)}`;
  }
  press(x, y) {
    const found = this.find(this.at(x), y);
    const batch = found && found.span && found.span.batch >= 0 ? found.span.batch : null;
    this.chosen = batch === this.chosen ? null : batch;
    this.draw();
  }
}

/* One line for each plan. */
class LinesChart extends Chart {
  constructor(canvas, lines, view, tip) {
    super(canvas, view, tip);
    this.lines = lines;
  }
  draw() {
    const bottom = this.canvas.clientWidth < 500 ? 170 : 210, pen = this.begin(bottom + 24);
    const top = Math.max(...this.lines.flatMap(line => line.points.map(point => point.sum)), 1) * 1.06;
    const y = bytes => bottom - bytes / top * (bottom - 6);
    this.drawAxis(pen, 0, bottom);
    this.drawBytes(pen, top, y);
    pen.save();
    pen.beginPath(); pen.rect(this.left, 0, this.width - this.left, bottom + 1); pen.clip();
    this.lines.forEach((line, i) => {
      pen.strokeStyle = colour(line.colour);
      pen.lineWidth = 3.2 - 2 * i / this.lines.length;
      pen.setLineDash(i >= 8 ? [6, 3] : []);
      pen.beginPath();
      line.points.forEach((point, k) => {
        const end = k + 1 < line.points.length ? line.points[k + 1].at : line.end;
        pen.lineTo(this.x(point.at), y(point.sum));
        pen.lineTo(this.x(end), y(point.sum));
      });
      pen.stroke();
    });
    pen.restore();
    pen.setLineDash([]);
    this.drawCursor(pen, 0, bottom);
  }
  describe(at) {
    const rows = this.lines.filter(line => at >= 0 && at <= line.end).map(line => `${line.name}: ${bytesText(pointAt(line, at).sum)}`);
    return rows.length ? `at ${timeText(this.view.secondsAt(at))}\n${rows.join("\n")}` : "";
  }
}

class MemoryChart extends Chart {
  constructor(canvas, row, capacity, view, tip) {
    super(canvas, view, tip);
    this.row = row;
    this.capacity = capacity;
  }
  get peak() { return this.row.points.reduce((a, b) => b.sum > a.sum ? b : a); }
  draw() {
    const narrow = this.canvas.clientWidth < 500, bottom = narrow ? 190 : 230;
    const pen = this.begin(bottom + 24);
    const { view, row } = this;
    const peak = this.peak;
    let top = Math.max(peak.sum, 1);
    if (this.capacity > 0 && this.capacity < 2.2 * top) top = Math.max(top, this.capacity);
    top *= 1.06;
    const y = bytes => bottom - bytes / top * (bottom - 6);
    this.drawAxis(pen, 0, bottom);

    this.drawBytes(pen, top, y);
    pen.save();
    pen.beginPath(); pen.rect(this.left, 0, this.width - this.left, bottom); pen.clip();
    /* Corners of the curve in the window. */
    const steps = [];
    for (let copy = Math.floor(view.from / view.ticks) - 1; copy * view.ticks < view.to; copy++)
      row.points.forEach((point, i) => {
        const start = point.at + copy * view.ticks, end = (i + 1 < row.points.length ? row.points[i + 1].at : view.ticks) + copy * view.ticks;
        if (end > view.from && start < view.to && end > start) steps.push({ start, end, bytes: point.bytes });
      });
    const below = steps.map(() => 0);
    MEMORY.forEach((_, c) => {
      if (!row.points.some(point => point.bytes[c] > 0)) return;
      pen.beginPath();
      steps.forEach((step, i) => { const high = y(below[i] + step.bytes[c]); pen.lineTo(this.x(step.start), high); pen.lineTo(this.x(step.end), high); });
      for (let i = steps.length - 1; i >= 0; i--) { const low = y(below[i]); pen.lineTo(this.x(steps[i].end), low); pen.lineTo(this.x(steps[i].start), low); }
      pen.fillStyle = colour(`m${c}`);
      pen.fill();
      steps.forEach((step, i) => { below[i] += step.bytes[c]; });
    });
    pen.lineWidth = 1.3;
    pen.strokeStyle = colour("ink");
    pen.beginPath();
    steps.forEach((step, i) => { pen.lineTo(this.x(step.start), y(below[i])); pen.lineTo(this.x(step.end), y(below[i])); });
    pen.stroke();
    if (this.capacity > 0 && this.capacity <= top) {
      pen.strokeStyle = colour("limit"); pen.lineWidth = 1.7; pen.setLineDash([6, 4]);
      pen.beginPath(); pen.moveTo(this.left, y(this.capacity)); pen.lineTo(this.width, y(this.capacity)); pen.stroke();
      pen.setLineDash([]);
    }
    for (let copy = Math.floor(view.from / view.ticks); copy * view.ticks < view.to; copy++) {
      const x = this.x(peak.at + copy * view.ticks), high = y(peak.sum);
      pen.fillStyle = colour("bad");
      pen.beginPath(); pen.arc(x, high, 4, 0, 7); pen.fill();
      pen.strokeStyle = colour("paper"); pen.lineWidth = 1.5; pen.stroke();
    }
    pen.restore();
    this.drawCursor(pen, 0, bottom);
    if (this.onDraw) this.onDraw(view.cursor);
  }
  describe(at) {
    const point = pointAt(this.row, this.view.within(at));
    return `${bytesText(point.sum)} at ${timeText(this.view.secondsAt(this.view.within(at)))}`;
  }
}
