"use strict";
// The drawing of a graph by cytoscape; scopes open and close.

const SHOWN_AT_FIRST = 200;
const SHOWN_AT_MOST = 3000;

class GraphView {
  /** Draw `nodes`, those of a report, in `element`; `tell` is called with what is selected. */
  constructor(element, nodes, tell) {
    this.nodes = nodes;
    this.tell = tell;
    this.root = scopeTree(nodes);
    this.homes = homes(this.root);
    this.names = new Map();
    this.selected = null;
    openSome(this.root, SHOWN_AT_FIRST);
    this.cy = cytoscape({ container: element, minZoom: 0.02, maxZoom: 3, autoungrabify: true });
    this.cy.on("tap", "node", event => this.select(event.target.id()));
    this.cy.on("dbltap", "node", event => this.toggle(event.target.id()));
    element.addEventListener("keydown", event => this.key(event));
    onTheme(element, () => this.cy.style(this.style()));
    this.draw();
  }

  /** What stands for a node: itself, or the outermost scope around it that is closed. */
  standIn(index) {
    let found = `n${index}`;
    for (let scope = this.homes.get(index); scope.parent; scope = scope.parent) {
      if (!scope.open) found = this.id(scope);
    }
    return found;
  }

  id(scope) {
    if (!scope.id) { scope.id = `s${this.names.size}`; this.names.set(scope.id, scope); }
    return scope.id;
  }

  draw() {
    const elements = [], pending = this.root.children.map(child => [child, null]);
    this.shown = [];
    const places = placed(this);
    while (pending.length) {
      const [child, parent] = pending.pop();
      if (typeof child === "number") {
        elements.push({ data: this.leaf(child, parent), position: places.get(`n${child}`) });
        this.shown.push(`n${child}`);
      } else {
        const id = this.id(child);
        elements.push({ data: this.scope(child, parent), position: places.get(id) });
        if (child.open) pending.push(...child.children.map(each => [each, id]));
        else this.shown.push(id);
      }
    }
    elements.push(...this.edges().map(({ source, target }) => ({ data: { source, target } })));
    this.cy.batch(() => { this.cy.elements().remove(); this.cy.add(elements); });
    this.cy.style(this.style());
    this.home();
    if (this.selected) this.mark(this.selected);
  }

  /** Show the beginning at a size that can be read. */
  home() {
    const box = this.cy.elements().boundingBox(), room = this.cy.width() - 24;
    this.cy.zoom(Math.min(1.1, Math.max(0.75, room / Math.max(box.w, 1))));
    const first = this.cy.getElementById(this.first() || "");
    const middle = first.length ? first.position("x") : (box.x1 + box.x2) / 2;
    const fits = box.w * this.cy.zoom() <= room;
    const x = this.cy.width() / 2 - this.cy.zoom() * (fits ? (box.x1 + box.x2) / 2 : middle);
    this.cy.pan({ x, y: 12 - this.cy.zoom() * box.y1 });
  }

  leaf(index, parent) {
    const node = this.nodes[index];
    const cost = node.cast ? `\n${SHOW.bytes(node.cast.bytes)}` + (node.cast.hops > 1 ? `, ${node.cast.hops} hops` : "") : "";
    const ends = node.op === "input" || node.op === "output";
    const label = node.cast ? `Cast to ${node.format}${cost}` : ends ? `${node.op}\n${node.node}` : node.op;
    return { id: `n${index}`, parent, label, kind: kindOf(node), colour: colourName(node.format) };
  }

  scope(scope, parent) {
    const all = leaves(scope), casts = all.filter(i => this.nodes[i].cast).length;
    const label = scope.open ? scope.name : `${scope.name}\n${all.length} nodes, ${casts} Casts`;
    const data = { id: this.id(scope), parent, label, kind: scope.open ? "open" : "closed" };
    const counts = d3.rollups(all, v => v.length, i => colourName(this.nodes[i].format));
    const ends = d3.cumsum(counts.sort((a, b) => b[1] - a[1]), each => 100 * each[1] / all.length);
    data.colours = counts.flatMap(([name]) => [name, name]);
    data.stops = [...ends].flatMap((end, i) => [i ? ends[i - 1] : 0, end]);
    return data;
  }

  /** What reads what, among that which is shown. */
  edges() {
    const found = new Map();
    this.nodes.forEach((node, index) => {
      if (!this.homes.has(index)) return;
      const to = this.standIn(index);
      for (const from of node.reads || []) {
        if (!this.homes.has(from)) continue;
        const source = this.standIn(from);
        if (source !== to) found.set(`${source}>${to}`, { source, target: to, from, to: index });
      }
    });
    return [...found.values()];
  }

  style() {
    const text = colour("--text"), line = colour("--line");
    return [
      { selector: "node", style: { label: "data(label)", "text-wrap": "wrap", "text-max-width": 170, "font-size": 12, color: "#000", "text-valign": "center", "text-halign": "center", shape: "round-rectangle", width: SIZES.node.width, height: SIZES.node.height, "border-width": 1, "border-color": colour("--faint"), "background-color": each => colour(each.data("colour") || "--grey") } },
      { selector: "node[kind='cast']", style: { shape: "cut-rectangle", width: SIZES.cast.width, height: SIZES.cast.height, "border-width": 3, "border-color": colour("--red") } },
      { selector: "node[kind='end']", style: { shape: "ellipse", width: SIZES.end.width, height: SIZES.end.height } },
      { selector: "node[kind='closed']", style: { width: SIZES.closed.width, height: SIZES.closed.height, "border-style": "double", "border-width": 4, "border-color": text, "background-fill": "linear-gradient", "background-gradient-direction": "to-right", "background-gradient-stop-colors": each => each.data("colours").map(colour), "background-gradient-stop-positions": each => each.data("stops") } },
      { selector: "node[kind='open']", style: { "background-color": colour("--panel"), "background-opacity": 0.5, "text-valign": "top", "text-halign": "center", color: text, "text-background-color": colour("--back"), "text-background-opacity": 0.8, "border-color": line, padding: 10 } },
      { selector: "edge", style: { width: 1.4, "line-color": colour("--faint"), "target-arrow-color": colour("--faint"), "target-arrow-shape": "triangle", "arrow-scale": 0.8, "curve-style": "bezier" } },
      { selector: ".selected", style: { "border-width": 5, "border-style": "solid", "border-color": text } },
    ];
  }

  /** Open and close a scope, by its own id or that of a node in it. */
  toggle(id) {
    const scope = this.names.get(id);
    if (!scope) return;
    scope.open = !scope.open;
    this.draw();
    this.select(id);
    this.cy.center(this.cy.getElementById(id));
  }

  /** Open or close all; as many as can be looked at, the outer ones first. */
  all(open) {
    const pending = [...this.root.children];
    while (pending.length) {
      const each = pending.pop();
      if (typeof each !== "number") { each.open = false; pending.push(...each.children); }
    }
    if (open) openSome(this.root, SHOWN_AT_MOST);
    this.draw();
  }

  /** Open what is around a node of the report, select it and bring it into view. */
  reveal(index) {
    let closed = false;
    for (let scope = this.homes.get(index); scope?.parent; scope = scope.parent) {
      closed ||= !scope.open;
      scope.open = true;
    }
    if (closed) this.draw();
    this.select(`n${index}`);
    const shown = this.cy.getElementById(`n${index}`);
    this.cy.animate({ center: { eles: shown }, zoom: 1 }, { duration: 0 });
  }

  select(id) {
    this.selected = id;
    this.mark(id);
    this.tell(id.startsWith("n") ? { index: Number(id.slice(1)) } : { scope: this.names.get(id), id });
  }

  mark(id) {
    this.cy.elements(".selected").removeClass("selected");
    this.cy.getElementById(id).addClass("selected");
  }

  /** Arrow keys go along edges, Enter opens and closes, + and - zoom, 0 shows all. */
  key(event) {
    const now = this.selected && this.cy.getElementById(this.selected);
    const next = {
      ArrowDown: () => now?.outgoers("node"), ArrowUp: () => now?.incomers("node"),
      ArrowRight: () => this.beside(now, 1), ArrowLeft: () => this.beside(now, -1),
    }[event.key];
    const zoom = { "+": 1.3, "-": 1 / 1.3 }[event.key];
    if (next) {
      const found = next();
      const to = found?.length ? found[0] : now?.length ? null : this.cy.getElementById(this.first());
      if (to?.length) { this.select(to.id()); this.cy.animate({ center: { eles: to } }, { duration: 0 }); }
    } else if (zoom) this.cy.zoom({ level: this.cy.zoom() * zoom, renderedPosition: { x: this.cy.width() / 2, y: this.cy.height() / 2 } });
    else if (event.key === "0") this.cy.fit(undefined, 12);
    else if (event.key === "Enter" && this.selected) this.toggle(this.selected);
    else return;
    event.preventDefault();
  }

  first() { return this.cy.nodes(":childless").sort((a, b) => a.position("y") - b.position("y"))[0]?.id(); }

  beside(now, step) {
    if (!now?.length) return null;
    const row = this.cy.nodes(":childless").sort((a, b) => a.position("y") - b.position("y") || a.position("x") - b.position("x"));
    const to = row[row.toArray().findIndex(each => each.id() === now.id()) + step];
    return to ? this.cy.collection(to) : null;
  }
}
