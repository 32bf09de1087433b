"use strict";
// The page of runs of the zoo, and which page is shown.

const OUTCOMES = {
  written: ["--green", "✓"], refused: ["--yellow", "–"], differs: ["--orange", "≠"],
  invalid: ["--grey", "?"], missing: ["--grey", "?"], failed: ["--red", "✗"], crashed: ["--red", "✗"],
};
const MARKS = { worse: " ▼", better: " ▲" };
const TRENDS = {
  "rows written": rows => rows.filter(row => row.outcome === "written").length,
  "Casts": rows => d3.sum(rows, row => row.casts ?? 0),
  "bytes that Casts write": rows => d3.sum(rows, row => row.cast_bytes ?? 0),
  "bytes of weights": rows => d3.sum(rows, row => row.bytes_after ?? 0),
  "pins": rows => d3.sum(rows, row => row.pins ?? 0),
  "worst error": rows => d3.max(rows, row => (row.outcome === "written" ? Number(row.worst_error ?? 0) : 0)) ?? 0,
  "seconds": rows => d3.sum(rows, row => row.seconds ?? 0),
};

function keyOf(row) { return `${row.name}/${row.mode}`; }

function showZoo(main, runs, known) {
  const view = d3.select(main).html("");
  const last = runs[runs.length - 1];
  const counts = d3.rollups(last.rows, v => v.length, row => row.outcome);
  view.append("h1").text(`Zoo: ${last.name}`);
  view.append("p").attr("class", "faint").text(counts.map(([outcome, count]) => `${count} ${outcome}`).join(", "));
  matrix(section(view, "matrix", "Models and modes", "Each cell tells the outcome and the worst error of any output; ▼ is worse and ▲ better than in the run before. Select one for its page."), last, known);
  trends(section(view, "trends", "Trends", runs.length > 1 ? "Over all runs, the oldest first." : "Give more than one file of results for trends."), runs);
  rowTable(section(view, "rows", "Figures", null), last);
}

function matrix(part, run, known) {
  const modes = [...new Set(run.rows.map(row => row.mode))];
  const names = [...new Set(run.rows.map(row => row.name))].sort();
  const cells = new Map(run.rows.map((row, i) => [keyOf(row), { row, i }]));
  const legend = part.append("div").attr("class", "legend");
  for (const [outcome, [name, sign]] of Object.entries(OUTCOMES)) {
    if (!run.rows.some(row => row.outcome === outcome)) continue;
    const item = legend.append("span");
    item.append("span").attr("class", "chip").style("background", `var(${name})`);
    item.append("span").text(`${sign} ${outcome}`);
  }
  const made = part.append("div").attr("class", "scroll").style("max-height", "none").append("table").attr("class", "matrix");
  made.append("thead").append("tr").selectAll("th").data(["model", ...modes]).join("th")
    .attr("scope", "col").append("div").attr("class", (_, i) => (i ? "upright" : null)).text(each => each);
  const lines = made.append("tbody").selectAll("tr").data(names).join("tr");
  lines.append("th").attr("scope", "row").text(name => name);
  lines.selectAll("td").data(name => modes.map(mode => cells.get(`${name}/${mode}`))).join("td")
    .each(function (cell) { if (cell) this.append(cellFor(run, cell, known)); });
}

function cellFor(run, { row, i }, known) {
  const [name, sign] = OUTCOMES[row.outcome];
  const made = document.createElement("a");
  made.className = "cell";
  made.href = `#${encodeURIComponent(keyOf(row))}`;
  made.style.background = `var(${name})`;
  made.append(`${sign} `);
  made.append(row.outcome === "written" && row.worst_error !== undefined ? figure(run, `/rows/${i}/worst_error`, "error") : row.outcome);
  made.append(MARKS[row.verdict] || "");
  made.title = [`${row.name} ${row.mode}: ${row.outcome}`, row.cause, row.why, known.has(keyOf(row)) ? "" : "no report kept"].filter(text => text).join("\n");
  made.setAttribute("aria-label", made.title);
  return made;
}

function trends(part, runs) {
  const names = [...new Set(runs.flatMap(run => run.rows.map(row => row.name)))].sort();
  const tools = part.append("div").attr("class", "tools");
  const what = pickOne(tools, "Figure", Object.keys(TRENDS));
  const model = pickOne(tools, "Model", ["all models", ...names]);
  const box = part.append("div");
  const show = () => {
    box.html("");
    const chosen = TRENDS[what.value];
    const points = runs.flatMap((run, order) => d3.groups(run.rows, row => row.mode).map(([mode, rows]) => ({
      order, run: run.name, mode,
      value: chosen(model.value === "all models" ? rows : rows.filter(row => row.name === model.value)),
    })));
    chart(box, `Trend of ${what.value}`, () => ({
      width: Math.max(box.node().clientWidth, 480), height: 260, marginLeft: 70, marginBottom: 50,
      x: { type: "point", domain: runs.map((_, order) => order), tickFormat: order => runs[order].name, label: "run" },
      y: { grid: true, zero: true, label: `↑ ${what.value}`, tickFormat: "~s" },
      color: { legend: true, domain: [...new Set(points.map(each => each.mode))], range: ["--sky", "--orange", "--green", "--pink", "--blue", "--red", "--yellow", "--grey"].map(colour) },
      symbol: { legend: false },
      marks: [
        Plot.line(points, { x: "order", y: "value", z: "mode", stroke: "mode", strokeWidth: 2 }),
        Plot.dot(points, { x: "order", y: "value", z: "mode", stroke: "mode", symbol: "mode", r: 5 }),
        Plot.tip(points, Plot.pointer({ x: "order", y: "value", fill: colour("--panel"), title: each => `${each.run} ${each.mode}\n${what.value}: ${SHOW.number(each.value)}` })),
      ],
    }));
  };
  what.onchange = model.onchange = show;
  show();
}

function pickOne(tools, label, options) {
  const made = tools.append("label").text(`${label} `).append("select").node();
  made.append(...options.map(each => new Option(each, each)));
  return made;
}

function rowTable(part, run) {
  const columns = ["model", "mode", "outcome", ">Casts", ">they write", ">weights", ">pins", ">worst error", ">time"];
  table(part, columns, run.rows.map((row, i) => {
    const fig = (key, unit) => figure(run, `/rows/${i}/${key}`, unit);
    return [row.name, row.mode, row.outcome, fig("casts", "count"), fig("cast_bytes", "bytes"), fig("bytes_after", "bytes"), fig("pins", "count"), fig("worst_error", "error"), fig("seconds", "seconds")];
  }));
}

/** The page of one row: that of its report, or what the row tells. */
async function showRow(main, runs, key) {
  const report = await held(`report:${key}`);
  if (report) showModel(main, report);
  const last = runs[runs.length - 1];
  const row = last.rows.find(each => keyOf(each) === key);
  const view = d3.select(main);
  if (!report) {
    view.html("");
    view.append("h1").text(row ? row.name : "Nothing is known of this");
    if (row) view.append("p").attr("class", "faint").text(`${row.mode}; no report of this conversion was kept.`);
  }
  if (!row) return;
  const part = section(view, "row", "In the zoo", null);
  if (row.cause || row.why) part.append("p").text([row.cause, row.why].filter(text => text).join("; "));
  table(part, ["run", "outcome", ">Casts", ">they write", ">pins", ">worst error", ">time"], runs.flatMap(run => {
    const i = run.rows.findIndex(each => keyOf(each) === key);
    if (i < 0) return [];
    const fig = (name, unit) => figure(run, `/rows/${i}/${name}`, unit);
    return [[run.name, run.rows[i].outcome, fig("casts", "count"), fig("cast_bytes", "bytes"), fig("pins", "count"), fig("worst_error", "error"), fig("seconds", "seconds")]];
  }));
}

async function route(main, runs, known) {
  const key = decodeURIComponent(location.hash.slice(1));
  const trail = document.getElementById("path");
  document.body.dataset.ready = "no";
  trail.replaceChildren();
  if (key.includes("/")) {
    const home = Object.assign(document.createElement("a"), { href: "#", textContent: "all models" });
    trail.append(home, ` / ${key.replace("/", " in ")}`);
    await showRow(main, runs, key);
    scrollTo(0, 0);
  } else showZoo(main, runs, known);
  document.body.dataset.ready = "yes";
}

start(async () => {
  const main = document.getElementById("content");
  try {
    const report = await held("report");
    if (report) {
      showModel(main, report);
      document.body.dataset.ready = "yes";
      return;
    }
    const runs = await held("runs");
    const known = new Set([...document.querySelectorAll("script[data-name^='report:']")].map(each => each.dataset.name.slice(7)));
    addEventListener("hashchange", () => route(main, runs, known));
    await route(main, runs, known);
  } catch (error) {
    main.textContent = `This page cannot be shown: ${error}`;
    throw error;
  }
});
