"use strict";
// Where things stand: dagre lays out each open scope on its own, the inner ones first.

const SIZES = {
  node: { width: 124, height: 34 }, cast: { width: 150, height: 42 },
  end: { width: 150, height: 44 }, closed: { width: 190, height: 52 },
};
const MARGIN = 16;
const TITLE = 18;

function kindOf(node) {
  if (node.cast) return "cast";
  return node.op === "input" || node.op === "output" ? "end" : "node";
}

/** The middle of all that a view shows, by id. */
function placed(view) {
  const inside = edgesByScope(view);
  const boxes = new Map();
  const visit = scope => {
    for (const child of scope.children) if (typeof child !== "number" && child.open) visit(child);
    boxes.set(scope, laidOut(view, scope, boxes, inside.get(scope) || []));
  };
  visit(view.root);
  const found = new Map(), pending = [[view.root, 0, 0]];
  while (pending.length) {
    const [scope, left, top] = pending.pop();
    for (const [child, { x, y, width, height }] of boxes.get(scope).at) {
      found.set(idOf(view, child), { x: left + x, y: top + y });
      if (boxes.has(child)) pending.push([child, left + x - width / 2 + MARGIN, top + y - height / 2 + MARGIN + TITLE]);
    }
  }
  return found;
}

function idOf(view, child) { return typeof child === "number" ? `n${child}` : view.id(child); }

/** One scope: its size, and where its children are in it. */
function laidOut(view, scope, boxes, edges) {
  const graph = new dagre.graphlib.Graph();
  graph.setGraph({ rankdir: "TB", nodesep: 16, ranksep: 36, edgesep: 8, ranker: "longest-path" });
  graph.setDefaultEdgeLabel(() => ({}));
  const ids = new Map(scope.children.map(child => [idOf(view, child), child]));
  for (const [id, child] of ids) graph.setNode(id, { ...sizeOf(view, child, boxes) });
  for (const [from, to] of edges) graph.setEdge(idOf(view, from), idOf(view, to));
  dagre.layout(graph);
  const { width, height } = graph.graph();
  const at = [...ids].map(([id, child]) => [child, graph.node(id)]);
  return { width: width + 2 * MARGIN, height: height + 2 * MARGIN + TITLE, at };
}

function sizeOf(view, child, boxes) {
  if (typeof child === "number") return SIZES[kindOf(view.nodes[child])];
  const box = boxes.get(child);
  return box ? { width: box.width, height: box.height } : SIZES.closed;
}

/** Each edge in the innermost scope around both ends, between its children that hold them. */
function edgesByScope(view) {
  const found = new Map();
  for (const { from, to } of view.edges()) {
    const above = new Map();
    for (let child = from, scope = view.homes.get(from); scope; child = scope, scope = scope.parent) above.set(scope, child);
    for (let child = to, scope = view.homes.get(to); scope; child = scope, scope = scope.parent) {
      if (!above.has(scope)) continue;
      if (!found.has(scope)) found.set(scope, []);
      if (above.get(scope) !== child) found.get(scope).push([above.get(scope), child]);
      break;
    }
  }
  return found;
}
