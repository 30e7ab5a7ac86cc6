// Elements, errors and requests. Texts of models and files go into textContent alone, and are never markup.

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

export function table(heads, rows) {
  const line = (tag, cells) => make("tr", {}, ...cells.map((cell) => make(tag, {}, cell instanceof Node ? cell : shown(cell))));
  return make("div", { class: "scrolled", tabindex: "0" },
    make("table", {}, make("thead", {}, line("th", heads)), make("tbody", {}, ...rows.map((row) => line("td", row)))));
}

// Errors.

/** What was refused, with what to do about it. */
export class Refused extends Error {
  constructor(message, hint = "") {
    super([message, hint].filter(Boolean).join(" "));
  }
}

/** Shows an error; null shows none. */
export function tell(error) {
  find("notice").hidden = error === null;
  find("notice").textContent = error === null ? "" : shown(error.message);
  if (error !== null && !(error instanceof Refused)) console.warn(error);
}

/** Runs what a button does; an error is shown. */
export async function doing(work) {
  tell(null);
  try {
    await work();
  } catch (error) {
    tell(error);
  }
}

/** Has an event of an element do something of ours instead of the browser's own. */
export function on(id, event, work) {
  find(id).addEventListener(event, (happened) => {
    happened.preventDefault();
    doing(work);
  });
}

// The server.

async function ask(address, options = {}) {
  let response;
  try {
    response = await fetch(address, options);
  } catch {
    throw options.signal?.aborted ? new Refused("The evaluation was stopped.") : new Refused("The page’s server does not respond.", "Check that winml-py view is still running.");
  }
  const isFacts = (response.headers.get("content-type") || "").startsWith("application/json");
  const facts = isFacts ? await response.json() : null;
  if (response.ok) return facts === null ? response : facts;
  throw facts ? new Refused(facts.error, facts.hint) : new Refused(await response.text());
}

export const get = (address) => ask(address);

export const post = (address, facts, signal = undefined) =>
  ask(address, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(facts), signal });

export const upload = (address, file) => ask(address, { method: "POST", body: file });
