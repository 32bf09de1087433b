"use strict";
// The page of one run, from its report.

const WORST = 50;

function showModel(main, report) {
  const view = d3.select(main).html("");
  const fig = (path, unit) => figure(report, path, unit);
  const name = report.source.split(/[\\/]/).pop() || "model in memory";
  view.append("h1").text(name);
  view.append("p").attr("class", "faint").attr("id", "asked")
    .text(`${report.token} for target ${report.target}, opset ${opsets(report.opset)}; samples: ${report.inputs}`);
  tiles(view, report, fig);
  const parts = join(report);
  const pick = graphPart(view, report, parts);
  errorPart(view, report, parts, pick);
  rangePart(view, report, parts, pick);
  pinPart(view, report, parts, pick);
  castPart(view, report, parts, fig, pick);
  decisionPart(view, report);
  changePart(view, report);
  proofPart(view, report, fig);
  runPart(view, report, fig);
}

function opsets({ before, after }) { return before === after ? String(after) : `${before} raised to ${after}`; }

/** The node of a layer, where a Cast that the source lacks gives its value under its name. */
function behindCasts(graph, layer, index) {
  while (index !== undefined && layer.op !== "Cast" && graph[index].op === "Cast" && graph[index].reads) index = graph[index].reads[0];
  return index;
}

/** What belongs together by name: nodes, values, decisions. */
function join(report) {
  const makers = new Map(), byNode = new Map(), groups = new Map(), layers = new Map();
  report.graph.forEach((node, index) => {
    if (node.op !== "input" && node.op !== "output" && !byNode.has(node.node)) byNode.set(node.node, index);
    for (const value of node.gives || []) if (!makers.has(value)) makers.set(value, index);
  });
  for (const group of report.groups) {
    if (!groups.has(group.node)) groups.set(group.node, []);
    groups.get(group.node).push(group);
  }
  const rows = report.layers.map((layer, order) => {
    const index = behindCasts(report.graph, layer, makers.get(layer.value)) ?? byNode.get(layer.node);
    const format = report.graph[index]?.format || "other";
    const reach = layer.low === undefined ? undefined : Math.max(-layer.low, layer.high, 0);
    const smallest = layer.smallest ?? reach;
    return { ...layer, order, index, format, reach, smallest };
  });
  for (const row of rows) {
    if (row.index === undefined) continue;
    if (!layers.has(row.index)) layers.set(row.index, []);
    layers.get(row.index).push(row);
  }
  return { byNode, groups, layers, rows };
}

function tiles(view, report, fig) {
  const list = view.append("dl").attr("class", "tiles");
  const tile = (title, ...content) => {
    const box = list.append("div").attr("class", "tile");
    box.append("dt").text(title);
    box.append("dd").node().append(...content.flat());
  };
  const change = (key, unit) => [fig(`/before/${key}`, unit), " → ", fig(`/after/${key}`, unit)];
  const proof = report.verification;
  tile("Verified", proof ? (proof.ok ? "yes" : "no") : "not asked for", proof ? small(`, on ${proof.samples} ${proof.samples === 1 ? "sample" : "samples"}`) : "");
  if (proof?.twin_errors.length) {
    const worst = d3.greatestIndex(proof.twin_errors, each => Number(each.max_error));
    tile("Worst output error", fig(`/verification/twin_errors/${worst}/max_error`, "error"),
      small(` of ${SHOW.error(proof.tolerance.max)}`));
  }
  tile("Bytes of weights", change("tensor_bytes", "bytes"));
  tile("Casts", change("casts", "count"));
  tile("Conversions on the target", change("hops", "count"));
  tile("Bytes that these write", change("cast_bytes", "bytes"));
  tile("Nodes", change("nodes", "count"));
  tile("Pinned nodes", String(report.pins.length));
}

function small(text) {
  const made = document.createElement("small");
  made.textContent = text;
  return made;
}

function section(view, id, title, note) {
  const made = view.append("section").attr("id", id);
  made.append("h2").text(title);
  if (note) made.append("p").attr("class", "faint").text(note);
  return made;
}

function graphPart(view, report, parts) {
  const part = section(view, "graph", "Graph", "Colour is the format of a result; Casts have a red border and tell the bytes that they write. Double-click or press Enter to open and close a scope; arrow keys go from node to node, + and - zoom, 0 shows all. Constants are not drawn.");
  if (!report.graph.length) {
    part.append("p").text("This report holds no drawing: it was not asked for.");
    return () => {};
  }
  const tools = part.append("div").attr("class", "tools");
  const formats = [...new Set(report.graph.map(node => node.format))].sort();
  const legend = part.append("div").attr("class", "legend");
  for (const format of formats) legend.node().append(chip(format));
  const split = part.append("div").attr("class", "split");
  const canvas = split.append("div").attr("class", "graph").attr("tabindex", 0).attr("role", "application")
    .attr("aria-label", "The graph of the result; arrow keys go from node to node").node();
  const detail = split.append("aside").attr("class", "detail").attr("aria-live", "polite");
  detail.append("p").attr("class", "faint").text("Select a node.");
  const graph = new GraphView(canvas, report.graph, found => showDetail(detail, report, parts, graph, found));
  canvas.graph = graph;
  const pick = index => { graph.reveal(index); canvas.scrollIntoView({ block: "nearest" }); };
  finder(tools, parts.byNode, pick);
  for (const [text, action] of [["Open scopes", () => graph.all(true)], ["Close scopes", () => graph.all(false)], ["Show all", () => graph.cy.fit(undefined, 12)]]) {
    tools.append("button").attr("type", "button").text(text).on("click", action);
  }
  return pick;
}

function finder(tools, byNode, pick) {
  const field = tools.append("input").attr("type", "search").attr("list", "nodes")
    .attr("placeholder", "find a node by name").attr("aria-label", "Find a node by name");
  const options = tools.append("datalist").attr("id", "nodes").node();
  options.append(...[...byNode.keys()].map(name => new Option(name, name)));
  field.on("change", event => {
    const name = event.target.value;
    const found = byNode.get(name) ?? [...byNode].find(each => each[0].includes(name))?.[1];
    if (name && found !== undefined) pick(found);
  });
}

function showDetail(detail, report, parts, graph, { index, scope, id }) {
  detail.html("");
  if (scope) {
    detail.append("h3").text(scope.name);
    detail.append("p").text(`${leaves(scope).length} nodes`);
    detail.append("button").attr("type", "button").text(scope.open ? "Close" : "Open").on("click", () => graph.toggle(id));
    return;
  }
  const node = report.graph[index];
  detail.append("h3").attr("id", "node").text(node.node);
  const list = detail.append("dl");
  const fact = (title, content) => { list.append("dt").text(title); list.append("dd").node().append(content); };
  fact("op", node.op);
  fact("format", chip(node.format));
  if (node.cast) {
    fact("conversions", figure(report, `/graph/${index}/cast/hops`, "count"));
    fact("writes", figure(report, `/graph/${index}/cast/bytes`, "bytes"));
  }
  for (const group of parts.groups.get(node.node) || []) {
    fact(group.variable, `${group.format}: ${group.because}${group.detail ? ` (${group.detail})` : ""} [${group.reason}]`);
  }
  for (const row of parts.layers.get(index) || []) {
    fact("max error", figure(report, `/layers/${row.order}/max_error`, "error"));
    fact("rms error", figure(report, `/layers/${row.order}/rms_error`, "error"));
    if (row.low !== undefined) {
      fact("lowest", figure(report, `/layers/${row.order}/low`, "number"));
      fact("highest", figure(report, `/layers/${row.order}/high`, "number"));
    }
    if (row.non_finite) fact("not finite", figure(report, `/layers/${row.order}/non_finite`, "count"));
  }
  const near = (title, found) => {
    if (!found.length) return;
    detail.append("strong").text(title);
    const items = detail.append("ul");
    for (const each of found) items.append("li").node().append(button(`${report.graph[each].op}: ${report.graph[each].node}`, () => graph.reveal(each)));
  };
  const drawn = each => graph.homes.has(each);
  near("reads", (node.reads || []).filter(drawn));
  near("is read by", report.graph.flatMap((each, i) => (each.reads?.includes(index) ? [i] : [])).filter(drawn));
}

function nodeCell(parts, pick, name) {
  const index = parts.byNode.get(name);
  return index === undefined || !pick ? name : button(name, () => pick(index));
}

function errorPart(view, report, parts, pick) {
  const part = section(view, "errors", "Error by layer", "How far each value of the result's twin is from the source's, relative to its largest magnitude. Select a value to find its node.");
  if (!parts.rows.length) return part.append("p").text("Layers were not measured.");
  errorChart(part, parts.rows, [report.verification.tolerance.max], row => row.index !== undefined && pick(row.index));
  const worst = d3.sort(parts.rows.filter(row => row.max_error > 0 || row.why), row => -Number(row.max_error)).slice(0, WORST);
  if (!worst.length) return part;
  part.append("p").attr("class", "faint").text(`The ${worst.length} largest:`);
  return table(part, ["node", "op", "format", ">max error", ">rms error"], worst.map(row => [
    nodeCell(parts, pick, row.node), row.op, chip(row.format),
    figure(report, `/layers/${row.order}/max_error`, "error"), figure(report, `/layers/${row.order}/rms_error`, "error"),
  ]));
}

function rangePart(view, report, parts, pick) {
  const part = section(view, "ranges", "Ranges", "What the source's values are on the samples, beside what the formats hold.");
  if (!parts.rows.length) return part.append("p").text("Ranges were not measured.");
  return rangeChart(part, parts.rows, report.limits, row => row.index !== undefined && pick(row.index));
}

function pinPart(view, report, parts, pick) {
  const part = section(view, "pins", "Pins", "Nodes that a measured figure keeps wide, in later runs too.");
  const rows = [...report.pins, ...(report.fallbacks || []).map(each => ({ ...each, figure: `falls back: ${each.figure}` }))];
  if (!rows.length) return part.append("p").text("None.");
  return table(part, ["node", "because"], rows.map(pin => [nodeCell(parts, pick, pin.node), pin.figure]));
}

function castPart(view, report, parts, fig, pick) {
  const part = section(view, "casts", "Casts", null);
  const bound = report.casts.bound;
  if (bound) {
    const told = part.append("p").node();
    told.append("At least ", fig("/casts/bound/least", bound.unit === "bytes" ? "bytes" : "count"), bound.unit === "bytes" ? "" : " Casts", " for this plan");
    if (bound.not_proven_minimal) told.append(`; not proven minimal: ${bound.not_proven_minimal}`);
    told.append(".");
  }
  const casts = report.graph.flatMap((node, index) => (node.cast ? [{ node, index }] : []));
  const dear = d3.sort(casts, each => -each.node.cast.bytes).slice(0, WORST);
  if (dear.length) {
    table(part, ["the dearest Casts", "to", ">conversions", ">writes"], dear.map(({ node, index }) => [
      button(node.node, () => pick(index)), chip(node.format), fig(`/graph/${index}/cast/hops`, "count"), fig(`/graph/${index}/cast/bytes`, "bytes"),
    ]));
  } else part.append("p").text(report.graph.length ? "None." : "");
  if (!report.casts.chains.length) return;
  part.append("h3").style("margin-top", "1rem").text("Done in more than one conversion");
  table(part, ["Cast", "chain", "in ONNX", "on the device", ">writes"], report.casts.chains.map((chain, i) => [
    nodeCell(parts, pick, chain.node), chain.path.join(" → "), chain.labels.join(", "), chain.device_labels.join(", "), fig(`/casts/chains/${i}/bytes`, "bytes"),
  ]));
}

function decisionPart(view, report) {
  const part = section(view, "decisions", "Decisions", "Type groups by format and reason.");
  const counts = d3.rollups(report.groups, v => v.length, g => g.format, g => g.reason, g => g.because)
    .flatMap(([format, inner]) => inner.flatMap(([reason, last]) => last.map(([because, count]) => ({ format, reason, because, count }))));
  table(part, [">type groups", "format", "reason", "because"], d3.sort(counts, each => -each.count)
    .map(each => [String(each.count), chip(each.format), each.reason, each.because]));
}

function changePart(view, report) {
  const part = section(view, "changes", "Changes and findings", null);
  const counts = d3.rollups(report.findings, v => ({ count: v.length, first: v[0].message }), each => `${each.code} ${each.kind}`);
  if (!counts.length) return part.append("p").text("None.");
  return table(part, [">times", "what", "for instance"], counts.map(([code, each]) => [String(each.count), code, each.first]));
}

function proofPart(view, report, fig) {
  const part = section(view, "proof", "Proof", null);
  const proof = report.verification;
  if (!proof) return part.append("p").text("Not verified.");
  table(part, ["output", ">max error", ">rms error", "passes"], proof.twin_errors.map((each, i) => [
    each.name, fig(`/verification/twin_errors/${i}/max_error`, "error"), fig(`/verification/twin_errors/${i}/rms_error`, "error"),
    each.ok ? "yes" : `no: ${each.why}`,
  ]));
  const facts = [["reference", proof.reference], ["twin", `${proof.twin}, ${proof.rounded} values rounded`], ["as is", proof.as_is], ["default level", proof.default_level]];
  return table(part, ["run", "outcome"], facts);
}

function runPart(view, report, fig) {
  const part = section(view, "run", "The run", null);
  const rows = Object.keys(report.seconds).map(step => [step, fig(`/seconds/${step}`, "seconds")]);
  table(part, ["step", ">time"], rows);
  table(part, ["package", "version"], Object.entries(report.versions));
}
