"use strict";
// The charts: by Observable Plot.

const HEIGHT = 300;

/** A chart that is drawn again for each theme. `options` makes those of the plot. */
function chart(parent, label, options, click) {
  const box = parent.append("div").attr("class", "chart").attr("role", "figure").attr("aria-label", label).node();
  const draw = () => {
    const plot = Plot.plot({ style: { background: "transparent", fontSize: "12px" }, ...options() });
    box.replaceChildren(plot);
    if (click) plot.addEventListener("click", () => plot.value && click(plot.value));
  };
  draw();
  onTheme(box, draw);
  return box;
}

function formatScale(rows) {
  const domain = [...new Set(rows.map(row => row.format))].sort();
  return { domain, range: domain.map(each => colour(colourName(each))), legend: true };
}

/** As wide as the page, and wider for many values. */
function widthFor(parent, rows) { return Math.max(parent.node().clientWidth, 480, Math.min(4000, rows.length)); }

/** The error of each value, in topological order. */
function errorChart(parent, rows, limit, click) {
  const shown = rows.filter(row => Number.isFinite(row.max_error) && row.max_error > 0);
  if (!shown.length) return parent.append("p").attr("class", "faint").text("No value differs from the source's.");
  return chart(parent, "Error by layer", () => ({
    width: widthFor(parent, rows), height: HEIGHT, marginLeft: 60,
    x: { label: "values in topological order →" },
    y: { type: "log", label: "↑ max error, relative to the value", grid: true, tickFormat: "~e" },
    color: formatScale(shown),
    marks: [
      Plot.ruleY(limit, { stroke: colour("--alarm"), strokeDasharray: "5,4" }),
      Plot.text(limit, { frameAnchor: "right", y: d => d, dy: -7, text: () => "tolerance for outputs", fill: colour("--alarm") }),
      Plot.line(shown, { x: "order", y: "max_error", z: null, stroke: colour("--line") }),
      Plot.dot(shown, { x: "order", y: "max_error", fill: "format", r: 3.2, stroke: colour("--faint"), strokeWidth: 0.5 }),
      Plot.tip(shown, Plot.pointer({ x: "order", y: "max_error", title: describe, fill: colour("--panel") })),
    ],
  }), click);
}

/** From the smallest to the largest magnitude of each value, and what formats hold. */
function rangeChart(parent, rows, limits, click) {
  const shown = rows.filter(row => row.reach > 0 && row.format.includes("float"));
  if (!shown.length) return parent.append("p").attr("class", "faint").text("No ranges were measured.");
  const bounds = Object.entries(limits).flatMap(([name, each]) => [
    { name: `largest ${name}`, at: each.max }, { name: `smallest ${name}`, at: each.smallest },
  ]).filter(each => each.at < 1e30 && each.at > 1e-30);
  return chart(parent, "Ranges", () => ({
    width: widthFor(parent, rows), height: HEIGHT, marginLeft: 60,
    x: { label: "values in topological order →" },
    y: { type: "log", domain: sensible(shown, bounds), clamp: true, label: "↑ magnitude, from the smallest above 0 to the largest", grid: true, tickFormat: "~e" },
    color: formatScale(shown),
    marks: [
      Plot.ruleY(bounds, { y: "at", stroke: colour("--alarm"), strokeDasharray: "5,4" }),
      Plot.text(bounds, { frameAnchor: "right", y: "at", dy: -7, text: "name", fill: colour("--alarm") }),
      Plot.ruleX(shown, { x: "order", y1: "smallest", y2: "reach", stroke: "format", strokeWidth: 2 }),
      Plot.tip(shown, Plot.pointerX({ x: "order", y: "reach", title: describe, fill: colour("--panel") })),
    ],
  }), click);
}

/** The magnitudes, as far as they are not out of all proportion to what formats hold. */
function sensible(rows, bounds) {
  const limits = bounds.map(each => each.at);
  const low = Math.max(d3.min(rows, row => row.smallest), (d3.min(limits) ?? 1e-30) / 1e4);
  const high = Math.min(d3.max(rows, row => row.reach), (d3.max(limits) ?? 1e30) * 1e4);
  return [Math.min(low, d3.min(limits) ?? low), Math.max(high, d3.max(limits) ?? high)];
}

function describe(row) {
  return [
    `${row.op}  ${row.node}`, `format: ${row.format}`,
    `max error ${SHOW.error(row.max_error)}, rms error ${SHOW.error(row.rms_error)}`,
    row.reach === undefined ? "" : `from ${SHOW.number(row.low)} to ${SHOW.number(row.high)}`,
  ].filter(line => line).join("\n");
}
