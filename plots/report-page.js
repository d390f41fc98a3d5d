/* SPDX-License-Identifier: MIT */
/* The page: everything it says comes from the two JSON texts in it. */
"use strict";

const report = JSON.parse(document.getElementById("report").textContent);
const curves = JSON.parse(document.getElementById("curves").textContent);
const tip = document.getElementById("tip");
const TIME = ["compute", "recompute", "exposed_comm", "bubble", "optimizer", "other"];
const TIME_WORDS = ["compute", "recompute", "exposed communication", "bubble", "optimizer", "other"];
const TIME_NOTES = ["forward and backward", "forward again, to save memory", "waiting for bytes on a link", "waiting for another GPU's work",
                    "updating the parameters", "host and what remains"];
const BLOCKS = [...MEMORY, "cache", "overhead"];
const BLOCK_NOTES = ["", "", "", "kept from forward to backward", "tensors between stages", "while a kernel runs", "gathered copies, buckets",
                     "held by the allocator, not in use", "context, libraries, communicators"];

/* h("td", { class: "best" }, "text", child) */
function h(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter(child => child !== null && child !== undefined && child !== ""));
  return element;
}
const swatch = name => h("span", { class: "swatch", style: `background: var(--${name})` });
const legend = items => h("ul", { class: "legend" }, items.map(([name, text]) => h("li", {}, swatch(name), text)));
const dash = v => v === null || v === undefined;

function whoIs(rank, short) {
  return rank.stage !== null && rank.stage >= 0 ? `stage ${rank.stage}${short ? "" : `, rank ${rank.rank}`}` : `rank ${rank.rank}`;
}
function blocksOf(rank) {
  return [...MEMORY.map(name => rank[`${name}_bytes`]), Math.max(rank.reserved_bytes - rank.peak_bytes, 0), rank.overhead_bytes];
}
const fullestOf = plan => plan.memory.ranks.reduce((a, b) => b.device_bytes > a.device_bytes ? b : a);
const timesOf = source => TIME.map(name => source[`${name}_s`]);

/* One row of bars: label, pieces, amount. */
function bar(label, values, names, scale, amount, limit, title) {
  const pieces = values.map((value, i) => value > 0
    ? h("i", { style: `width: ${(100 * value / scale).toFixed(3)}%; background: var(--${names}${i})`, title: title(i, value) }) : null);
  const strip = h("div", { class: "bar" }, pieces);
  if (limit > 0 && limit <= scale) strip.append(h("span", { class: "limit", style: `left: ${(100 * limit / scale).toFixed(3)}%` }));
  return [h("span", { class: "label" }, label), strip, h("span", { class: "amount" }, amount)];
}
const barsClass = rows => rows.length > 16 ? "bars many" : "bars figure";
const timeBar = (label, source, scale, amount) => bar(label, timesOf(source), "t", scale, amount, 0,
  (i, value) => `${TIME_WORDS[i]}: ${timeText(value)} (${percentText(value / timesOf(source).reduce((a, b) => a + b))})`);
const memoryBar = (label, rank, scale, capacity) => bar(label, blocksOf(rank), "m", scale, bytesText(rank.device_bytes), capacity,
  (i, value) => `${BLOCKS[i]}: ${bytesText(value)}`);
const usedLegend = (rows, names, words) => legend(words.map((word, i) => [`${names}${i}`, word]).filter((_, i) => rows.some(row => row[i] > 0)));
const capacityLegend = capacity => capacity > 0 ? h("p", { class: "small soft" }, h("span", { class: "swatch dashed", style: "display:inline-block;width:22px;vertical-align:middle;margin-right:6px" }), `${bytesText(capacity)}, the memory of a GPU`) : "";
const memoryScale = (ranks, capacity) => Math.max(...ranks.map(rank => rank.device_bytes), capacity && capacity < 3 * Math.max(...ranks.map(rank => rank.device_bytes)) ? capacity : 0, 1) * 1.01;

/* ---- Parts of the page ---- */

function header() {
  const facts = [["model", `${report.model}, ${countText(report.model_detail.parameters)} parameters: ${report.model_detail.description}`],
                 ["machine", `${report.machine}: ${report.machine_detail.description} (${report.machine_detail.kind})`],
                 ["scenario", report.scenario]];
  if (!(report.model_detail.parameters > 0)) facts[0][1] = `${report.model}: ${report.model_detail.description}`;
  return [h("h1", {}, report.title || `${report.model} on ${report.machine}`),
          h("dl", { class: "facts" }, facts.filter(fact => fact[1]).map(([name, text]) => [h("dt", {}, name), h("dd", {}, text)]))];
}

const COLUMNS = [
  ["verdict", plan => plan.verdict, v => v, 0],
  ["GPUs", plan => plan.gpus, v => String(v), 0],
  ["step", plan => plan.step_time_s, timeText, -1],
  ["tokens/s", plan => plan.throughput.tokens_per_s, countText, 1],
  ["samples/s", plan => plan.throughput.samples_per_s, countText, 1],
  ["MFU", plan => plan.throughput.mfu, percentText, 1],
  ["bubble", plan => plan.bubble_fraction, percentText, -1],
  ["peak", plan => plan.memory.peak_bytes, bytesText, -1],
  ["device", plan => plan.memory.device_bytes, bytesText, -1],
  ["activations of all GPUs", plan => plan.memory.activation_total_peak_bytes, bytesText, -1],
  ["sent per GPU", plan => plan.communication.per_gpu_bytes, bytesText, -1],
  ["chain", plan => plan.communication.sequential_steps, v => String(v), -1],
  ["delay", plan => plan.update.delay_mean, v => digits(v), -1],
];

/* Of one step of each plan, in samples. */
function batchesDiffer(plans) {
  const batches = plans.map(plan => plan.throughput.samples_per_s * plan.step_time_s).filter(batch => batch > 0);
  return Math.max(...batches) > Math.min(...batches) * (1 + 1e-9);
}

function comparison(select) {
  const { plans } = report;
  const tokens = plans.some(plan => !dash(plan.throughput.tokens_per_s));
  const columns = COLUMNS.filter(([name, get]) => name !== (tokens ? "samples/s" : "tokens/s") && plans.some(plan => !dash(get(plan))));
  const differ = batchesDiffer(plans);
  const best = columns.map(([name, get, , wanted]) => {
    const values = plans.filter(plan => plan.verdict !== "oom").map(get).filter(value => typeof value === "number");
    const most = Math.max(...values), least = Math.min(...values);
    return wanted === 0 || (name === "step" && differ) || values.length < 2 || most === least ? NaN : wanted > 0 ? most : least > 0 ? least : NaN;
  });
  const slowest = Math.max(...plans.map(plan => plan.step_time_s), 1e-15);
  const fullest = plans.map(fullestOf), capacity = plans[0].memory.capacity_bytes, scale = memoryScale(fullest, capacity);
  return [
    h("h2", {}, "Plans side by side"),
    h("div", { class: "scroll" }, h("table", { id: "comparison" },
      h("thead", {}, h("tr", {}, h("th", {}, "plan"), columns.map(([name]) => h("th", {}, name)))),
      h("tbody", {}, plans.map((plan, p) => h("tr", { "data-plan": p, onclick: () => select(p, true) }, h("td", {}, plan.name),
        columns.map(([name, get, text], c) => {
          const value = get(plan);
          return h("td", { class: name === "verdict" ? value : value === best[c] && plan.verdict !== "oom" ? "best" : null }, dash(value) ? "–" : text(value));
        })))))),
    h("p", { class: "small soft" }, "★ best of the plans that fit. Peak: allocated by tensors on the fullest GPU; device: as nvidia-smi shows it. Chain: most messages that must pass one after another between two ops. Delay: mean age of the gradients in steps, in updates where the rule is asynchronous.",
      differ ? ` The plans differ in samples per step: ${tokens ? "tokens" : "samples"} per second compare, steps do not.` : ""),
    h("h2", {}, "Where a step goes"),
    h("div", { class: "bars figure" }, plans.map(plan => timeBar(plan.name, plan.time, slowest, timeText(plan.step_time_s)))),
    usedLegend(plans.map(plan => timesOf(plan.time)), "t", TIME_WORDS),
    h("h2", {}, "Memory of the fullest GPU"),
    h("div", { class: "bars figure" }, plans.map((plan, p) => memoryBar(plan.name, fullest[p], scale, capacity))),
    usedLegend(fullest.map(blocksOf), "m", BLOCKS), capacityLegend(capacity),
    activations(plans, slowest),
  ];
}

let overview = [];
function activations(plans, slowest) {
  const lines = plans.map((plan, p) => ({ name: plan.name, colour: `p${p % 8}`, end: plan.step_time_s / slowest * curves.step_ticks,
                                          points: activationsOf(curves.plans[p], plan.step_time_s / slowest) }))
    .filter(line => line.points && line.points.some(point => point.sum > 0));
  if (!lines.length) return "";
  const canvas = h("canvas", { tabindex: "0", role: "img", "aria-label": "Activations of all GPUs over a step, by plan" });
  const chart = new LinesChart(canvas, lines, new View(curves.step_ticks, slowest), tip);
  chart.left = leftMargin();
  overview = [chart];
  return [h("h2", {}, "Activations of all GPUs together"), h("div", { class: "figure", id: "activations" }, canvas),
          legend(lines.map(line => [line.colour, `${line.name}: at most ${bytesText(plans.find(plan => plan.name === line.name).memory.activation_total_peak_bytes)}`]))];
}
const leftMargin = () => window.innerWidth < 540 ? 40 : 82;

const ageUnit = update => update.rule === "asynchronous" ? "updates" : "steps";

function card(name, value, note) {
  return h("div", { class: "card" }, h("div", { class: "name" }, name), h("div", { class: "value" }, value), note ? h("div", { class: "note" }, note) : "");
}

function verdict(plan) {
  const { memory } = plan, rank = fullestOf(plan), where = plan.gpus > 1 ? `the fullest GPU (${whoIs(rank)})` : "the GPU";
  let text = `${bytesText(memory.device_bytes)} on ${where}; this machine's memory has no end`;
  if (!dash(memory.capacity_bytes)) {
    const left = memory.capacity_bytes - memory.device_bytes;
    text = left < 0 ? `${bytesText(-left)} too much: ${bytesText(memory.device_bytes)} needed of ${bytesText(memory.capacity_bytes)} on ${where}`
                    : `${bytesText(memory.device_bytes)} of ${bytesText(memory.capacity_bytes)} on ${where}, ${percentText(left / memory.capacity_bytes)} free`;
  }
  return h("p", { class: `verdict ${plan.verdict}` }, h("b", {}, plan.verdict), text);
}

function cards(plan) {
  const { throughput, memory } = plan;
  return h("div", { class: "cards" },
    card("step time", timeText(plan.step_time_s), dash(plan.step_time_low_s) ? "" : `80 % of runs: ${timeText(plan.step_time_low_s)} to ${timeText(plan.step_time_high_s)}`),
    dash(throughput.tokens_per_s) ? (dash(throughput.samples_per_s) ? "" : card("samples per second", countText(throughput.samples_per_s)))
      : card("tokens per second", countText(throughput.tokens_per_s), `${countText(throughput.tokens_per_s_per_gpu)} per GPU`),
    dash(throughput.mfu) ? "" : card("MFU", percentText(throughput.mfu), `${digits(throughput.model_tflops_per_gpu)} TFLOP/s per GPU; HFU ${percentText(throughput.hfu)}`),
    card("bubble", percentText(plan.bubble_fraction), "of all GPUs' time"),
    card("peak memory", bytesText(memory.peak_bytes), `${bytesText(memory.steady_bytes)} stay between steps`),
    card("GPUs", String(plan.gpus), plan.update.delay_mean > 0 ? `gradients are ${digits(plan.update.delay_mean)} ${ageUnit(plan.update)} old on average` : ""));
}

function advice(plan) {
  if (!plan.advice.length) return "";
  return [h("h2", {}, plan.verdict === "oom" ? "What would fit" : "What would leave room"),
          h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, ["change", "peak memory", "step time", "against now"].map(name => h("th", {}, name)))),
            h("tbody", {}, plan.advice.map(row => h("tr", {}, h("td", {}, h("code", {}, row.set)), h("td", {}, bytesText(row.peak_bytes)), h("td", {}, timeText(row.step_time_s)),
              h("td", {}, `${row.step_time_s >= plan.step_time_s ? "+" : "−"}${percentText(Math.abs(row.step_time_s / plan.step_time_s - 1))} time`))))))];
}

function criticalPath(plan) {
  const path = plan.critical_path;
  if (!path) return "";
  const MOST = 400, segments = path.segments.slice(0, MOST), scale = Math.max(path.duration_s, 1e-15);
  const kinds = Object.entries(path.by_kind).filter(([, value]) => value > 0);
  const where = row => row.stage === null ? `rank ${row.rank}` : `rank ${row.rank} (stage ${row.stage})`;
  return [
    h("h2", {}, "Critical path"),
    h("p", { class: "soft" }, "The ops, one after another, that decide the step time: shorten one, and the step is shorter"),
    h("div", { class: "scroll" }, h("table", {}, h("tbody", {}, kinds.map(([kind, value]) => h("tr", {},
      h("td", {}, kind.replace(/_s$/, "")), h("td", {}, timeText(value)), h("td", {}, percentText(value / scale))))))),
    h("p", {}, path.by_rank.slice(0, 8).map(row => `${percentText(row.time_s / scale)} on ${where(row)}`).join(", ")),
    h("details", {}, h("summary", {}, `${path.segments.length} segments${path.segments.length > MOST ? `, the first ${MOST}` : ""}`),
      h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, ["at", "for", "where", "what", "begins when"].map(name => h("th", {}, name)))),
        h("tbody", {}, segments.map(row => h("tr", {}, h("td", {}, timeText(row.start_s)), h("td", {}, timeText(row.duration_s)), h("td", {}, where(row)),
          h("td", { class: "text" }, row.micro_batch === null ? row.kind : `${row.kind} ${row.micro_batch}`),
          h("td", { class: "text soft" }, row.from_rank === row.rank ? row.reason : `rank ${row.from_rank} was waited for`))))))),
  ];
}

function rateText(v) {
  if (dash(v)) return "no rate";
  const units = ["B/s", "kB/s", "MB/s", "GB/s", "TB/s", "PB/s"];
  let u = 0;
  for (; v >= 999.5 && u + 1 < units.length; u++) v /= 1000;
  return `${Number(v.toPrecision(3))} ${units[u]}`;
}

function whatHelps(plan) {
  const helps = plan.what_helps;
  if (!helps) return "";
  const table = (headings, rows) => h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, headings.map(text => h("th", {}, text)))),
    h("tbody", {}, rows.map(row => h("tr", {}, row.map(cell => h("td", {}, cell)))))));
  const times = helps.speedup_over_one_gpu;
  return [
    helps.links.length ? [h("h2", {}, "Bandwidth it needs"),
      table(["links", "now", "a tenth longer at", "twice as long at", "never below"], helps.links.map(link => [`${link.tier}, ${link.link}`,
        dash(link.bytes_per_s) ? "–" : rateText(link.bytes_per_s), rateText(link.tenth_longer_bytes_per_s), rateText(link.twice_as_long_bytes_per_s), timeText(link.step_time_unlimited_s)])),
      h("p", { class: "small soft" }, "Of one GPU, one direction; against links of that tier that carry any number of bytes at once: then the step would take the time on the right.")] : "",
    helps.degrees.length ? [h("h2", {}, "Other degrees"),
      table(["change", "GPUs", "verdict", "peak memory", "step time", "samples/s", "against now"], helps.degrees.map(row => [h("code", {}, row.set), String(row.gpus), row.verdict,
        bytesText(row.peak_bytes), timeText(row.step_time_s), countText(row.samples_per_s),
        `${row.samples_per_s < plan.throughput.samples_per_s ? "−" : "+"}${percentText(Math.abs(row.samples_per_s / plan.throughput.samples_per_s - 1))}`]))] : "",
    plan.gpus > 1 && times > 0 ? h("p", {}, `${plan.gpus} GPUs do ${times >= 1 ? `${digits(times)} times the work of` : `${digits(1 / times)} times less than`} one${helps.one_gpu_verdict === "oom" ? " (which would not have the memory)" : ""}.`) : "",
  ];
}

function timeSplit(plan) {
  const main = plan.time_detail, values = timesOf(plan.time);
  const rows = main.ranks.length <= 64 ? main.ranks : main.ranks.slice(0, 64);
  const scale = Math.max(plan.step_time_s, 1e-15);
  return [
    h("h2", {}, "Time"),
    h("p", { class: "soft" }, `Where ${timeText(plan.step_time_s)} go on rank ${main.rank}, the one that computes most`),
    h("div", { class: "scroll" }, h("table", {}, h("tbody", {}, values.map((value, i) => value > 0 ? h("tr", {},
      h("td", {}, swatch(`t${i}`), ` ${TIME_WORDS[i]}`), h("td", {}, timeText(value)), h("td", {}, percentText(value / scale)), h("td", { class: "text soft" }, TIME_NOTES[i])) : "")))),
    rows.length > 1 ? [h("p", { class: "soft", style: "margin-top:14px" }, rows.length < main.ranks.length ? `The first ${rows.length} of ${main.ranks.length} classes of equal GPUs` : "All classes of equal GPUs"),
      h("div", { class: barsClass(rows) }, rows.map(rank => timeBar(whoIs(rank, true) + (rank.count > 1 ? ` ×${rank.count}` : ""), rank, scale, `${percentText(rank.bubble_s / scale)} bubble`))),
      usedLegend(rows.map(timesOf), "t", TIME_WORDS)] : "",
  ];
}

function memoryByStage(plan) {
  const { ranks, capacity_bytes: capacity } = plan.memory, rows = ranks.slice(0, 64), scale = memoryScale(ranks, capacity);
  const used = MEMORY.filter(name => ranks.some(rank => rank[`${name}_bytes`] > 0));
  return [
    h("h2", {}, rows.some(rank => rank.stage !== null) ? "Memory of each stage at its peak" : "Memory of each GPU at its peak"),
    h("div", { class: barsClass(rows) }, rows.map(rank => memoryBar(whoIs(rank, true) + (rank.count > 1 ? ` ×${rank.count}` : ""), rank, scale, capacity))),
    usedLegend(rows.map(blocksOf), "m", BLOCKS.map((name, i) => BLOCK_NOTES[i] ? `${name} (${BLOCK_NOTES[i]})` : name)), capacityLegend(capacity),
    h("details", {}, h("summary", {}, "As numbers"), h("div", { class: "scroll" }, h("table", {},
      h("thead", {}, h("tr", {}, ["GPU", "count", ...used, "peak", "reserved", "device"].map(name => h("th", {}, name)))),
      h("tbody", {}, rows.map(rank => h("tr", {}, h("td", {}, whoIs(rank)), h("td", {}, String(rank.count)), used.map(name => h("td", {}, rank[`${name}_bytes`] ? bytesText(rank[`${name}_bytes`]) : "–")),
        h("td", {}, bytesText(rank.peak_bytes)), h("td", {}, bytesText(rank.reserved_bytes)), h("td", {}, bytesText(rank.device_bytes)))))))),
  ];
}

let charts = [];
function figures(plan, drawn) {
  charts = [];
  const rows = drawn.rows.map(decodeRow);
  if (!rows.some(row => row.spans.length || row.points.length)) return "";
  const view = new View(curves.step_ticks, plan.step_time_s), ticks = curves.step_ticks;
  const canvas = label => h("canvas", { tabindex: "0", role: "img", "aria-label": label });
  const ganttCanvas = canvas(`What each rank does over a step of plan ${plan.name}`), memoryCanvas = canvas(`Memory over a step of plan ${plan.name}`);
  const gantt = new Gantt(ganttCanvas, rows, view, tip);
  const fullest = Math.max(rows.findIndex(row => row.fullest), 0);
  const memory = new MemoryChart(memoryCanvas, rows[fullest], plan.memory.capacity_bytes || 0, view, tip);
  const head = h("p", { id: "readout-head" }), readout = h("ul", { class: "readout" }), alive = h("p", { class: "small soft", id: "alive" });
  memory.onDraw = cursor => {
    const peak = memory.peak, at = cursor === null ? peak.at : view.within(cursor), point = cursor === null ? peak : pointAt(memory.row, at);
    head.textContent = `${cursor === null ? "At the peak, " : "At "}${timeText(view.secondsAt(at))} into the step: ${bytesText(point.sum)} allocated` + (cursor === null ? "" : ` (peak ${bytesText(peak.sum)})`);
    readout.replaceChildren(...MEMORY.map((name, c) => memory.row.points.some(other => other.bytes[c] > 0)
      ? h("li", {}, swatch(`m${c}`), h("span", {}, name), h("span", {}, bytesText(point.bytes[c]))) : "").filter(Boolean));
    const batches = aliveAt(memory.row, at, ticks);
    alive.textContent = memory.row.lives.length ? `Micro-batches whose activations are alive: ${batches.length ? listText(batches) : "none"}` : "";
  };
  gantt.left = memory.left = leftMargin();
  charts = [gantt, memory];
  const kinds = SPANS.map((_, kind) => rows.some(row => row.spans.some(span => span.kind === kind)));
  const button = (text, label, act) => h("button", { type: "button", "aria-label": label, title: label, onclick: act }, text);
  const middle = () => (view.from + view.to) / 2;
  const choice = h("select", { id: "memory-row", "aria-label": "whose memory", onchange: event => { memory.row = rows[event.target.value]; memory.draw(); } },
    rows.map((row, i) => h("option", { value: i, selected: i === fullest }, `${whoIs(row)}${row.count > 1 ? ` (and ${row.count - 1} equal)` : ""}${row.fullest ? ", the fullest" : ""}`)));
  const less = [];
  if (drawn.of > rows.length) less.push(`${rows.length} of ${drawn.of} classes of equal GPUs are drawn`);
  if (drawn.thinned) less.push("ops that nearly touch are drawn as one");
  return [
    h("h2", {}, "One step"),
    h("div", { class: "tools" }, button("+", "zoom in", () => view.zoom(0.5, middle())), button("−", "zoom out", () => view.zoom(2, middle())),
      button("◀", "earlier", () => view.pan((view.from - view.to) / 4)), button("▶", "later", () => view.pan((view.to - view.from) / 4)),
      button("whole step", "whole step", () => { gantt.chosen = null; view.reset(); }),
      h("span", { class: "small soft hint" }, "Drag to move, pinch, Ctrl + wheel or double-click to zoom; press a piece of work to follow its micro-batch.")),
    h("div", { class: "figure", id: "gantt" }, ganttCanvas),
    legend(SPANS.map((word, kind) => [`s${kind}`, word]).filter((_, kind) => kinds[kind])),
    h("p", { class: "small soft" }, `Numbers are micro-batches. The step repeats: what runs beyond its end goes on at its beginning.${less.length ? ` ${less.join("; ")}.` : ""}`),
    h("h2", {}, "Memory over the step"),
    rows.length > 1 ? h("div", { class: "tools" }, choice) : "",
    h("div", { class: "figure", id: "memory" }, memoryCanvas), head, readout, alive,
  ];
}

function communication(plan) {
  const { communication: sent, time_detail: detail, update } = plan;
  const kinds = Object.entries(sent.by_kind).filter(([, bytes]) => bytes > 0);
  if (!kinds.length) return "";
  return [
    h("h2", {}, "Communication"),
    h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, ["kind", "sent by all GPUs", "share", `exposed on rank ${detail.rank}`].map(name => h("th", {}, name)))),
      h("tbody", {}, kinds.map(([kind, bytes]) => h("tr", {}, h("td", {}, kind), h("td", {}, bytesText(bytes)), h("td", {}, percentText(bytes / sent.total_bytes)), h("td", {}, timeText(detail.exposed_comm_by_kind_s[kind]))))))),
    h("p", { class: "soft" }, `Each GPU sends ${bytesText(sent.per_gpu_bytes)} on average, ${bytesText(sent.per_gpu_max_bytes)} at most; at most ${bytesText(sent.concurrent_peak_bytes)} are on the links at once. Longest chain of messages between two ops: ${sent.sequential_steps}. Update rule: ${update.rule}` +
      (update.delay_max > 0 ? `, gradients at most ${digits(update.delay_max)} and on average ${digits(update.delay_mean)} ${ageUnit(update)} old, ${update.parameter_versions} parameter version${update.parameter_versions === 1 ? "" : "s"}.` : ", gradients are never stale.")),
  ];
}

function notes(plan) {
  return [
    plan.warnings.length ? [h("h2", {}, "Warnings"), h("ul", { class: "plain" }, plan.warnings.map(text => h("li", {}, text)))] : "",
    h("h2", {}, "Assumptions"),
    plan.assumptions.length ? h("ul", { class: "plain" }, plan.assumptions.map(text => h("li", {}, text))) : h("p", { class: "soft" }, "No default mattered."),
  ];
}

/* ---- The chosen plan ---- */

const page = document.getElementById("page"), detail = h("div", { id: "detail" });
const tabs = report.plans.length > 1 ? h("div", { class: "tabs", role: "group", "aria-label": "plan" }, report.plans.map((plan, p) => h("button", { type: "button", onclick: () => choose(p, false) }, plan.name))) : "";

function choose(p, jump) {
  const plan = report.plans[p];
  document.querySelectorAll("tr[data-plan]").forEach((row, i) => row.classList.toggle("chosen", i === p));
  if (tabs) [...tabs.children].forEach((button, i) => button.setAttribute("aria-pressed", String(i === p)));
  tip.hidden = true;
  detail.replaceChildren(...[
    h("h2", {}, plan.name === "plan" ? "The plan" : `Plan ${plan.name}`), h("p", { class: "soft" }, `${plan.gpus} GPU${plan.gpus === 1 ? "" : "s"}: ${plan.layout}`),
    verdict(plan), cards(plan), advice(plan), figures(plan, curves.plans[p]), timeSplit(plan), criticalPath(plan), whatHelps(plan), memoryByStage(plan), communication(plan), notes(plan),
  ].flat(Infinity).filter(Boolean));
  for (const chart of charts) chart.draw();
  if (jump) tabs.scrollIntoView({ block: "start" });
}

page.append(...header(), ...(report.plans.length > 1 ? comparison(choose).flat(Infinity) : []), tabs, detail,
  h("footer", { class: "small soft" }, `psisim ${report.psisim}. A simulation: numbers from a datasheet machine are estimates. Digest${report.plans.length > 1 ? "s" : ""}: ${report.plans.map(plan => plan.digest).join(", ")}.`));
/* First the fastest plan that fits. */
const secondsOfSample = plan => plan.throughput.samples_per_s > 0 ? 1 / plan.throughput.samples_per_s : plan.step_time_s;
choose(report.plans.reduce((best, plan, p) => {
  const better = (plan.verdict !== "oom") - (report.plans[best].verdict !== "oom") || secondsOfSample(report.plans[best]) - secondsOfSample(plan);
  return better > 0 ? p : best;
}, 0), false);

const everything = () => [...overview, ...charts];
const redraw = () => { for (const chart of everything()) chart.draw(); };
new ResizeObserver(redraw).observe(page);
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
const printing = on => { for (const chart of everything()) { chart.printing = on; chart.draw(); } };
window.matchMedia("print").addEventListener("change", event => printing(event.matches));
window.addEventListener("beforeprint", () => printing(true));
window.addEventListener("afterprint", () => printing(false));
