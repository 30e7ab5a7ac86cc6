// Parts of the page. Text of strangers goes into textContent alone, and is never markup.

const COMMANDS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;
const SVG = "http://www.w3.org/2000/svg";

/** Text with the characters spelled out that would turn its direction, or make it look like another. */
export const shown = (text) =>
  String(text).replace(COMMANDS, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);

/** An element with attributes, listeners (onclick: function) and children: nodes, or text. */
export function make(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

export function draw(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

export const find = (id) => document.getElementById(id);

/** A number with four digits that count. */
export function number(value) {
  if (typeof value !== "number") return String(value); // NaN and Infinity come as words
  if (Number.isSafeInteger(value)) return String(value);
  return String(Number(value.toPrecision(4)));
}

export const percent = (share) => `${(share * 100).toFixed(1)} %`;

/** What was refused, with what to do about it. */
export class Refused extends Error {
  constructor(message, hint, type) {
    super(message);
    [this.hint, this.type] = [hint, type];
  }
}

/** An error as text: the problem, and what to do about it. */
export const inFull = (error) => [error.message, error.hint].filter(Boolean).join(" ");

async function ask(address, options = {}) {
  const response = await fetch(address, options).catch(() => {
    throw new Refused("The page’s server does not answer.", "Is winml-py view still running?");
  });
  const isFacts = (response.headers.get("content-type") || "").startsWith("application/json");
  const facts = isFacts ? await response.json() : null;
  if (response.ok && !(facts && typeof facts.error === "string")) return facts === null ? response : facts;
  throw new Refused(facts ? facts.error : await response.text(), facts ? facts.hint : "", facts ? facts.type : "");
}

export const get = (address) => ask(address);

export const post = (address, facts) =>
  ask(address, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(facts) });

export const upload = (address, file) => ask(address, { method: "POST", body: file });

/** The pages of one model: each leads to the others with the address that says which it is. */
export function leadOn() {
  for (const link of document.querySelectorAll("nav a")) link.setAttribute("href", link.getAttribute("href").split("?")[0] + location.search);
}

/** Numbers between the least and the highest, as bars. */
export function histogram(facts, words) {
  if (!facts.histogram) return null;
  const counts = facts.histogram, most = Math.max(...counts.map(Math.sqrt));
  const bars = counts.map((count, at) => {
    const height = (Math.sqrt(count) / most) * 40; // roots, so that few numbers are seen beside many
    return draw("rect", { x: at * 5, y: 40 - height, width: 4.4, height });
  });
  const label = `${words}: from ${number(facts.min)} to ${number(facts.max)}`;
  return make("div", {},
    draw("svg", { class: "histogram", viewBox: `0 0 ${counts.length * 5} 40`, preserveAspectRatio: "none", role: "img", "aria-label": label }, ...bars),
    make("div", { class: "ends" }, make("span", {}, number(facts.min)), make("span", {}, number(facts.max))));
}

/** Names with a bar and a number each; `share` is how long the bar is, from 0 to 1. */
export function bars(rows) {
  const list = make("div", { class: "bars" });
  for (const { name, share, text } of rows) {
    const bar = make("span");
    bar.style.width = `${Math.max(0, Math.min(1, share)) * 100}%`;
    list.append(make("span", { class: "name" }, shown(name)), make("span", { class: "track" }, bar), make("span", { class: "number" }, text));
  }
  return list;
}

/** Pairs of a word and what it is. */
export function pairs(rows) {
  const list = make("dl", { class: "facts" });
  for (const [name, value] of rows) list.append(make("dt", {}, name), make("dd", {}, shown(value)));
  return list;
}

/** A table; `kinds` has "number" for columns of numbers. */
export function table(heads, kinds, rows) {
  const cells = (tag, row) => row.map((cell, at) => make(tag, { class: kinds[at] || false }, cell instanceof Node ? cell : shown(cell)));
  return make("div", { class: "scrolled" }, make("table", {},
    make("thead", {}, make("tr", {}, ...cells("th", heads))),
    make("tbody", {}, ...rows.map((row) => make("tr", {}, ...cells("td", row))))));
}
