"use strict";
// The scopes of a graph: by the names of nodes and by the subgraphs that they are in.

const CROWDED = 80;
const SECTION = 40;

/** Whether a node is more than a constant. */
function isDrawn(node) { return Boolean(node.reads || node.scope || node.cast || node.op === "input"); }

/** The tree of scopes over the nodes of a report; constants are left out. */
function scopeTree(nodes) {
  const root = newScope("", null);
  const readers = [];
  nodes.forEach((node, i) => (node.reads || []).forEach(from => { readers[from] ??= i; }));
  const paths = nodes.map(path);
  nodes.forEach((node, i) => {
    if (!node.cast) return;
    const maker = node.reads?.[0], given = maker === undefined || paths[maker].length === 0;
    paths[i] = (given ? paths[readers[i]] : paths[maker]) || [];
  });
  nodes.forEach((node, i) => { if (isDrawn(node)) place(root, paths[i], i); });
  tidy(root);
  return root;
}

function newScope(name, parent) { return { name, parent, children: [], inside: new Map(), open: false }; }

function path(node) {
  if (node.op === "input" || node.op === "output") return [];
  const unnamed = /\(-> (.*)\)$/.exec(node.node);
  const own = parts(unnamed ? unnamed[1] : node.node).slice(0, -1);
  const outer = (node.scope || []).flatMap(parts);
  return [...outer, ...own];
}

function parts(name) { return name.split("/").filter(part => part); }

function place(scope, names, index) {
  for (const name of names) {
    if (!scope.inside.has(name)) {
      const made = newScope(name, scope);
      scope.inside.set(name, made);
      scope.children.push(made);
    }
    scope = scope.inside.get(name);
  }
  scope.children.push(index);
}

/** Scopes of one node are none; a scope of one scope is that one; crowded scopes get sections. */
function tidy(scope) {
  scope.children = scope.children.flatMap(child => {
    if (typeof child === "number") return [child];
    tidy(child);
    if (child.children.length > 1) return [child];
    const [only] = child.children;
    if (only === undefined) return [];
    if (typeof only !== "number") { only.name = `${child.name}/${only.name}`; only.parent = scope; }
    return [only];
  });
  while (scope.children.length > CROWDED) {
    const sections = [], all = scope.children;
    const count = Math.ceil(all.length / SECTION), from = i => Math.floor(i * all.length / count);
    for (let i = 0; i < count; i += 1) {
      const made = newScope(`part ${i + 1}`, scope);
      made.children = all.slice(from(i), from(i + 1));
      for (const child of made.children) if (typeof child !== "number") child.parent = made;
      sections.push(made);
    }
    scope.children = sections;
  }
}

/** The numbers of all nodes in a scope. */
function leaves(scope) {
  const found = [], pending = [scope];
  while (pending.length) {
    const each = pending.pop();
    if (typeof each === "number") found.push(each); else pending.push(...each.children);
  }
  return found.sort((a, b) => a - b);
}

/** Open scopes, the outermost first, as long as no more than `most` nodes are shown. */
function openSome(root, most) {
  let shown = root.children.length;
  root.open = true;
  let level = [root];
  while (level.length) {
    const next = level.flatMap(scope => scope.children.filter(child => typeof child !== "number"));
    for (const scope of next) {
      if (shown + scope.children.length > most) return;
      shown += scope.children.length;
      scope.open = true;
    }
    level = next;
  }
}

/** Each node's innermost scope. */
function homes(root) {
  const found = new Map(), pending = [root];
  while (pending.length) {
    const scope = pending.pop();
    for (const child of scope.children) {
      if (typeof child === "number") found.set(child, scope); else pending.push(child);
    }
  }
  return found;
}
