"use strict";
// What all pages share: data, figures, tables, theme.

const COLOURS = {
  float32: "--orange", float16: "--sky", bfloat16: "--green", float32r: "--blue",
  float8e4m3fn: "--pink", float8e5m2: "--pink", float8e4: "--pink", hifloat8: "--pink",
  float64: "--yellow",
};

function colourName(format) { return COLOURS[format] || "--grey"; }

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** What the page holds under a name; null if there is nothing. */
async function held(name) {
  const element = document.querySelector(`script[data-name="${CSS.escape(name)}"]`);
  if (!element) return null;
  const bytes = Uint8Array.from(atob(element.textContent), letter => letter.charCodeAt(0));
  const plain = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(plain).json();
}

const SHOW = {
  count: value => String(value),
  text: value => String(value),
  bytes(value) {
    const units = ["bytes", "kB", "MB", "GB", "TB"];
    let unit = 0;
    while (value >= 1000 && unit < units.length - 1) { value /= 1000; unit += 1; }
    return unit ? `${value.toFixed(1)} ${units[unit]}` : `${value} ${units[0]}`;
  },
  error: value => typeof value === "number" && value ? value.toExponential(2) : String(value),
  number: value => typeof value === "number" ? String(Number(value.toPrecision(6))) : String(value),
  seconds: value => `${value.toFixed(1)} s`,
};

/** The figure at a path of the report, as an element that tells where it is from. */
function figure(report, path, unit = "text") {
  const value = path.split("/").slice(1).reduce((found, key) => found?.[key], report);
  const element = document.createElement("span");
  element.textContent = value === undefined || value === null ? "–" : SHOW[unit](value);
  if (value !== undefined && value !== null) {
    Object.assign(element.dataset, { figure: path, value: JSON.stringify(value), unit });
    if (unit !== "text" && unit !== "count") element.title = String(value);
  }
  return element;
}

/** A table; a column whose title begins with ">" is aligned to the right. */
function table(parent, columns, rows) {
  const made = parent.append("div").attr("class", "scroll").attr("tabindex", 0).append("table");
  const right = columns.map(column => column.startsWith(">") ? "right" : null);
  made.append("thead").append("tr").selectAll("th").data(columns).join("th")
    .attr("scope", "col").attr("class", (_, i) => right[i]).text(column => column.replace(/^>/, ""));
  made.append("tbody").selectAll("tr").data(rows).join("tr")
    .selectAll("td").data(row => row).join("td").attr("class", (_, i) => right[i])
    .each(function (content) { this.append(content ?? ""); });
  return made;
}

/** A button that looks like a link. */
function button(text, action) {
  const made = document.createElement("button");
  Object.assign(made, { type: "button", className: "link", textContent: text, onclick: action });
  return made;
}

function chip(format) {
  const made = document.createElement("span");
  const mark = document.createElement("span");
  mark.className = "chip";
  mark.style.background = `var(${colourName(format)})`;
  made.append(mark, format || "other");
  return made;
}

const themes = [];

/** Call `redraw` whenever colours change, as long as `element` is there. */
function onTheme(element, redraw) { themes.push({ element, redraw }); }

function applyTheme() {
  const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  document.documentElement.dataset.theme = document.getElementById("theme").value || system;
  for (const each of themes.splice(0)) {
    if (!each.element.isConnected) continue;
    each.redraw();
    themes.push(each);
  }
}

function start(show) {
  document.getElementById("theme").onchange = applyTheme;
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", applyTheme);
  applyTheme();
  show();
}
