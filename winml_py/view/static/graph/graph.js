// The page of the graph: Netron's drawing of it, coloured by what ran where and how long, and the table beside it.

import { find, get, inFull, leadOn, make, post, shown } from "../static/parts.js";
import { guard } from "./markup.js";
import { NodeTable, microseconds } from "./table.js";

const COLORS = 6; // graph.css has so many for places

let view = null; // Netron's, once it is there
let listened = null; // the drawing whose selection is followed
let measured = null; // the answer of "nodes"
let byKey = new Map(); // its rows, by the nodes of the file in their kernel

const table = new NodeTable(find("nodes"), pick);

function say(text, isError = true) {
  find("notice").textContent = shown(text);
  find("notice").classList.toggle("error", isError);
}

// The drawing.

const page = {
  say,
  drawn: () => setTimeout(paint, 0),
  hush: () => {
    find("question").hidden = true;
  },
  ask: (text, action) =>
    new Promise((resolve) => {
      find("question-text").textContent = text;
      find("question-action").textContent = action;
      find("question-action").onclick = () => {
        page.hush();
        resolve(0);
      };
      find("question").hidden = false;
    }),
};

/** Netron's styles, before ours, which has the last word. */
function dress(name) {
  const link = document.createElement("link");
  link.rel = "stylesheet";
  link.href = `netron/${name}`;
  return new Promise((resolve, reject) => {
    link.addEventListener("load", resolve);
    link.addEventListener("error", () => reject(new Error(`${name} did not load.`)));
    find("style").before(link);
  });
}

async function draw() {
  guard();
  await Promise.all([dress("index.css"), dress("grapher.css")]);
  const [{ View }, { Host }] = await Promise.all([import("./netron/view.js"), import("./host.js")]);
  view = new View(new Host(page));
  await view.start();
}

/** The nodes that are drawn, those inside of others included: what Netron draws, and our key of it. */
function* drawnNodes(target = view?.target) {
  for (const { label } of target?.nodes?.values() ?? []) {
    const outputs = label.value?.outputs ?? [];
    const key = outputs.flatMap((output) => output.value ?? []).find((value) => value?.name)?.name;
    if (label.element && key !== undefined && "inputs" in label.value) {
      yield { key, label, target };
    }
    for (const block of label.blocks ?? []) {
      if (block.target?.nodes) {
        yield* drawnNodes(block.target);
      }
    }
  }
}

function paint() {
  if (!view?.target) {
    return;
  }
  try {
    follow(view.target);
    for (const { key, label } of measured ? drawnNodes() : []) {
      const row = byKey.get(key);
      label.element.classList.remove("placed", "unplaced", ...Array.from({ length: COLORS }, (_, at) => `place-${at}`));
      label.element.classList.add(...(row ? ["placed", `place-${row.color}`] : ["unplaced"]));
      label.element.style.setProperty("--heat", row ? row.heat : 0);
      title(label.element, row);
    }
  } catch (error) {
    say(`This version of netron cannot be coloured; see the table instead. (${error.message})`);
  }
}

function title(group, row) {
  let words = group.querySelector(":scope > title");
  if (!words) {
    words = document.createElementNS("http://www.w3.org/2000/svg", "title");
    group.prepend(words);
  }
  words.textContent = row
    ? `${row.place}, ${microseconds(row.busy_us)}${row.covers.length > 1 ? ` with ${row.covers.length - 1} more` : ""}`
    : "no kernel of its name: folded away, fused into another node, or an expanded function";
}

/** Marks the drawing's selected node in the table. */
function follow(target) {
  if (listened !== target) {
    listened = target;
    target.on("selectionchange", () => {
      const values = new Set(Array.from(target.selection, (label) => label.value));
      const keys = Array.from(drawnNodes()).filter(({ label }) => values.has(label.value));
      table.mark(keys.map(({ key }) => byKey.get(key)).filter(Boolean));
    });
  }
}

/** Brings a row's nodes into view. */
function pick(row) {
  table.mark([row]);
  const covered = new Set(row.covers);
  const found = Array.from(drawnNodes()).filter(({ key }) => covered.has(key));
  if (!found.length) {
    const isThere = !view?.target || row.covers.length === 0;
    say(isThere ? "" : "The node is in another graph, not the one shown.", false);
    return;
  }
  say("", false);
  const [{ target }] = found;
  target.select(found.filter((one) => one.target === target).map(({ label }) => label.value));
  view.target.scrollTo(
    found.map(({ label }) => label.element),
    "instant", // a large graph is longer than a smooth way is followed
  );
  find("drawing").scrollIntoView({ block: "nearest" });
}

// The measurement.

async function measure(isAgain = false) {
  find("again").hidden = true;
  find("stop").hidden = false;
  find("about").textContent = "Measuring…";
  try {
    const address = `nodes${location.search}`;
    take(await (isAgain ? post(address, {}) : get(address)));
  } catch (error) {
    find("about").textContent = "Nothing was measured.";
    say(inFull(error));
  } finally {
    find("again").hidden = false;
    find("stop").hidden = true;
  }
}

function take(facts) {
  measured = facts;
  const places = Object.entries(facts.providers_us).map(([name, time]) => [name.replace(/ExecutionProvider$/, ""), time]);
  const largest = Math.max(...facts.nodes.map((row) => row.busy_us), Number.MIN_VALUE);
  byKey = new Map();
  for (const row of facts.nodes) {
    row.color = Math.min(places.findIndex(([name]) => name === row.place), COLORS - 1);
    row.heat = Math.sqrt(Math.max(row.busy_us, 0) / largest);
    for (const key of row.covers) {
      byKey.set(key, row);
    }
  }
  table.show(facts.nodes);
  legend(places, largest);
  const count = `${facts.nodes.length} kernels on ${facts.device}, ${microseconds(facts.total_us)} per evaluation`;
  find("about").textContent = `${count}, the mean of ${facts.evaluations}. ${facts.caution}`;
  const names = facts.unplaced.map((node) => `${node.name} (${node.operator})`);
  find("unplaced").hidden = names.length === 0;
  const nodes = names.length === 1 ? "1 node of the file has" : `${names.length} nodes of the file have`;
  find("unplaced-count").textContent = `${nodes} no kernel: folded away, or fused into others`;
  find("unplaced-names").textContent = shown(names.join(", "));
  paint();
}

function legend(places, largest) {
  const items = places.map(([name, time], at) =>
    make("li", {}, make("span", { class: `swatch place-${Math.min(at, COLORS - 1)}` }), `${name}, ${microseconds(time)}`));
  find("places").replaceChildren(...items);
  find("largest").textContent = microseconds(largest);
}

// What the page begins with.

function colourBy(kind) {
  find("page").dataset.colours = kind;
}

async function open() {
  leadOn();
  for (const choice of document.querySelectorAll("input[name=colours]")) {
    choice.addEventListener("change", () => colourBy(choice.value));
  }
  find("filter").addEventListener("input", () => table.filter(find("filter").value));
  find("again").addEventListener("click", () => measure(true));
  find("stop").addEventListener("click", () => post(`stop${location.search}`, {}));
  // Keys that are meant for the table are not those of the drawing, which takes Backspace for "back".
  find("measured").addEventListener("keydown", (event) => event.stopPropagation());
  try {
    const facts = await get(`facts${location.search}`);
    find("name").textContent = facts.name;
    document.title = `${facts.name}: graph`;
    const measuring = measure();
    if (facts.netron) {
      await draw();
      if (!facts.whole) {
        say("The model is large: its weights are not in the drawing.", false);
      }
    } else {
      find("page").classList.add("alone");
      say(`The drawing needs the package netron. ${facts.hint}`, false);
    }
    await measuring;
  } catch (error) {
    say(inFull(error));
  }
  find("page").dataset.state = "ready";
}

open();
