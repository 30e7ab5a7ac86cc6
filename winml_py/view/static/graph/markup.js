// What Netron's renderer writes as markup holds names and descriptions from the model, and it escapes most of them. Here
// such a text becomes elements of a list of ours, without attributes that load, link or style; what else it has stays
// text. The browser's own parser never sees it: that would report each attribute of a stranger's to the console.

import { shown } from "../static/parts.js";

const HTML = "http://www.w3.org/1999/xhtml";
const SVG = "http://www.w3.org/2000/svg";
const ELEMENTS = new Map([
  ...("b blockquote br code dd div dl dt em h1 h2 h3 h4 i li ol p pre span strong sub sup table tbody td th thead tr " +
    "tt ul")
    .split(" ")
    .map((name) => [name, [HTML, name]]),
  ["a", [HTML, "span"]],
  ["svg", [SVG, "svg"]],
  ["use", [SVG, "use"]],
]);
const EMPTY = new Set(["br", "use"]);
// The length is bounded, or many openings without an end would take forever.
const TAG = /<(\/?)([a-z][a-z0-9]*)((?:\s(?:[^<>"']|"[^"]*"|'[^']*'){0,300})?)\/?>/gi;
const ENTITY = /&(?:#x([0-9a-f]{1,6})|#([0-9]{1,7})|(amp|lt|gt|quot|apos|nbsp|hellip));?/gi;
const CHARACTERS = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\u00a0", hellip: "\u2026" };

function decoded(text) {
  const plain = text.replace(ENTITY, (all, hex, decimal, name) => {
    if (name) {
      return CHARACTERS[name.toLowerCase()];
    }
    const code = hex ? parseInt(hex, 16) : Number(decimal);
    return code > 0 && code <= 0x10ffff ? String.fromCodePoint(code) : all;
  });
  return shown(plain);
}

function attribute(text, name) {
  return new RegExp(`\\s${name}=(?:"([^"]*)"|'([^']*)')`).exec(text)?.slice(1).find((value) => value !== undefined);
}

/** The elements that a text of markup becomes. */
export function filtered(text) {
  const root = document.createDocumentFragment();
  const open = [root];
  let at = 0;
  const write = (words) => open.at(-1).append(words);
  for (const match of text.matchAll(TAG)) {
    const [all, slash, tag, attributes] = match;
    const name = tag.toLowerCase();
    if (!ELEMENTS.has(name)) {
      continue; // it stays text
    }
    write(decoded(text.slice(at, match.index)));
    at = match.index + all.length;
    const [namespace, kind] = ELEMENTS.get(name);
    if (slash) {
      const place = open.findLastIndex((element) => element.localName === kind);
      open.length = place > 0 ? place : open.length;
      continue;
    }
    const element = document.createElementNS(namespace, kind);
    const link = kind === "use" ? attribute(attributes, "href") : undefined;
    element.setAttribute("class", attribute(attributes, "class") ?? "");
    if (link?.startsWith("#")) {
      element.setAttribute("href", link);
    }
    write(element);
    if (!EMPTY.has(kind) && open.length < 100) {
      open.push(element);
    }
  }
  write(decoded(text.slice(at)));
  return root;
}

/** Has all that is written as markup on this page filtered, and styles set in the one way that the policy allows. */
export function guard() {
  const setAttribute = Element.prototype.setAttribute;
  const markup = Object.getOwnPropertyDescriptor(Element.prototype, "innerHTML");
  Object.defineProperty(Element.prototype, "innerHTML", {
    ...markup,
    set(text) {
      this.replaceChildren(filtered(String(text)));
    },
  });
  Element.prototype.setAttribute = function (name, value) {
    if (name === "style") {
      this.style.cssText = value;
    } else {
      setAttribute.call(this, name, value);
    }
  };
}
