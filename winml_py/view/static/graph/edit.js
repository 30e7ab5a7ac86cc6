// The page that edits a model: fields with what the file says, of which those that were changed are sent.

import { find, get, inFull, leadOn, make, post, shown } from "../static/parts.js";

const WORDS = {
  name: "Name",
  description: "Description",
  domain: "Domain",
  author: "Author",
  version: "Version",
};
const DENOTATIONS = ["", "IMAGE", "AUDIO", "TEXT", "TENSOR"];
let facts = null;
let fields = []; // of each: the control, what it began with, and what it adds to the edits

/** A control that marks itself once it says something else than the file does. */
function field(control, value, add) {
  control.value = value;
  control.spellcheck = false;
  const one = { control, value: control.value, add };
  fields.push(one);
  control.addEventListener("input", () => control.classList.toggle("changed", isChanged(one)));
  return control;
}

const isChanged = (one) => one.control.value !== one.value;

let labelled = 0;

function label(text, control) {
  control.id ||= `field-${++labelled}`;
  return make("label", { for: control.id }, shown(text));
}

function put(edits, table, key, value) {
  edits[table] ??= {};
  edits[table][key] = value;
}

function showWords() {
  const parts = Object.entries(WORDS).flatMap(([key, title]) => {
    const control = key === "description" ? make("textarea", { rows: 3 }) : make("input");
    field(control, facts.words[key], (edits) => {
      edits[key] = control.value;
    });
    return [label(title, control), control];
  });
  find("words").replaceChildren(...parts);
}

function denotationField(feature) {
  const words = [...new Set([...DENOTATIONS, feature.denotation])];
  const control = make("select", {}, ...words.map((word) => make("option", { value: word }, shown(word || "nothing stated"))));
  return field(control, feature.denotation, (edits) => put(edits, "denotations", feature.name, control.value));
}

function showFeature(feature, isInput) {
  const grid = make("div", { class: "fields" });
  const name = make("input");
  field(name, feature.name, (edits) => put(edits, "rename", feature.name, name.value));
  const denotation = denotationField(feature);
  grid.append(label("Name", name), name, make("span", {}, "Type"), make("span", { class: "kind" }, feature.kind));
  grid.append(label("What it is", denotation), denotation);
  if (feature.sizes.length) {
    grid.append(make("span", {}, "Sizes, and what they are"), showSizes(feature, isInput));
  }
  return make("div", { class: "feature" }, grid);
}

function showSizes(feature, isInput) {
  const lengths = feature.sizes.map(() => -1);
  const words = feature.sizes.map((size) => size.denotation);
  const list = make("div", { class: "sizes" });
  feature.sizes.forEach((size, axis) => {
    const box = make("div", { class: "size" });
    if (size.size === null && isInput) {
      const control = make("input", {
        inputmode: "numeric",
        placeholder: size.name ? `${shown(size.name)} (free)` : "free",
        "aria-label": `Size ${axis + 1} of ${shown(feature.name)}`,
      });
      box.append(
        field(control, "", (edits) => {
          lengths[axis] = Number(control.value);
          put(edits, "shapes", feature.name, lengths);
        }),
      );
    } else {
      box.append(make("span", {}, size.size === null ? shown(size.name || "free") : String(size.size)));
    }
    const word = make("input", {
      list: "size-words",
      placeholder: "nothing stated",
      "aria-label": `What size ${axis + 1} of ${shown(feature.name)} is`,
    });
    box.append(
      field(word, size.denotation, (edits) => {
        words[axis] = word.value;
        put(edits, "dimensions", feature.name, words);
      }),
    );
    list.append(box);
  });
  return list;
}

function showEntry(key, value, isNew) {
  const control = make("textarea", { rows: Math.min(6, value.split("\n").length) });
  field(control, value, (edits) => put(edits, "metadata", key, control.value));
  const remove = make("button", { type: "button" }, "Remove");
  const pair = make("div", { class: "pair" }, control, remove), title = label(key, control);
  title.dataset.key = key;
  remove.addEventListener("click", () => {
    if (isNew) {
      fields = fields.filter((one) => one.control !== control);
      title.remove();
      pair.remove();
      return;
    }
    const isGone = control.disabled;
    control.disabled = !isGone;
    control.value = isGone ? value : "";
    title.classList.toggle("removed", !isGone);
    remove.textContent = isGone ? "Remove" : "Keep";
    control.dispatchEvent(new Event("input"));
  });
  find("metadata").append(title, pair);
  return control;
}

function addEntry() {
  const key = find("new-key").value;
  const keys = Array.from(find("metadata").querySelectorAll("label"), (title) => title.dataset.key);
  if (key && !keys.includes(key)) {
    showEntry(key, "", true).focus();
    find("new-key").value = "";
  }
}

function showLabels() {
  const control = find("labels");
  if (facts.labels.some((one) => /[\r\n]/.test(one))) {
    control.disabled = true;
    control.value = "Some labels have several lines, which this page cannot edit.";
    return;
  }
  field(control, facts.labels.join("\n"), (edits) => {
    edits.labels = control.value.split("\n").map((one) => one.trim());
    while (edits.labels.at(-1) === "") {
      edits.labels.pop();
    }
  });
}

function edits() {
  const wanted = {};
  for (const one of fields.filter(isChanged)) {
    one.add(wanted);
  }
  return wanted;
}

async function write(event) {
  event.preventDefault();
  const where = new FormData(find("form")).get("where");
  const request = { edits: edits(), name: where === "folder" ? find("name").value : null };
  find("write").disabled = true;
  tell("Writing, and comparing…");
  try {
    done(await post(`write${location.search}`, request));
  } catch (error) {
    tell(inFull(error), true);
  } finally {
    find("write").disabled = false;
  }
}

function tell(text, isError = false) {
  find("words-of-result").textContent = shown(text);
  find("words-of-result").classList.toggle("error", isError);
  find("link").replaceChildren();
  find("differences").hidden = true;
}

function done(answer) {
  const compared =
    answer.error === null
      ? "It was loaded but not run: its inputs have no example values, and only texts have changed."
      : answer.error === 0
        ? "Both give the same results on example inputs."
        : `On example inputs, their results differ by at most ${answer.error.toExponential(1)}.`;
  const where = "download" in answer ? "" : `${answer.file} was written beside the model. `;
  tell(`${where}${compared}`);
  if ("download" in answer) {
    find("link").append(make("a", { href: `file/${answer.download}`, download: answer.file }, `Download ${shown(answer.file)}`));
  }
  const line = (...words) => make("tr", {}, ...words.map((word) => make("td", {}, shown(word))));
  const lines = answer.differences.map((row) => line(row.what, row.before, row.after));
  if (answer.more) {
    lines.push(line(`${answer.more} more`, "", ""));
  }
  find("differences").tBodies[0].replaceChildren(...lines);
  find("differences").hidden = false;
}

async function open() {
  leadOn();
  try {
    facts = await get(`facts${location.search}`);
    find("file").textContent = facts.file;
    document.title = `${facts.file}: edit`;
    find("name").value = facts.proposal;
    find("beside").hidden = !facts.proposal; // a dropped model has no folder
    showWords();
    find("inputs").replaceChildren(...facts.inputs.map((feature) => showFeature(feature, true)));
    find("outputs").replaceChildren(...facts.outputs.map((feature) => showFeature(feature, false)));
    for (const [key, value] of Object.entries(facts.metadata)) {
      showEntry(key, value, false);
    }
    showLabels();
    find("add").addEventListener("click", addEntry);
    find("name").addEventListener("input", () => {
      document.querySelector("input[value=folder]").checked = true;
    });
    find("form").addEventListener("submit", write);
  } catch (error) {
    tell(inFull(error), true);
    find("write").disabled = true;
  }
  find("page").dataset.state = "ready";
}

open();
