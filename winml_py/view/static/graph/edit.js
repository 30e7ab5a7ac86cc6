// The page that edits a model: fields with what the file says, of which those that were changed are sent.

const WORDS = {
  name: "Name",
  description: "Description",
  domain: "Domain",
  author: "Author",
  version: "Version",
};
const DENOTATIONS = ["", "IMAGE", "AUDIO", "TEXT", "TENSOR"];
const element = (id) => document.getElementById(id);

let facts = null;
let fields = []; // of each: the control, what it began with, and what it adds to the edits

function make(kind, text, className) {
  const made = document.createElement(kind);
  made.textContent = text ?? "";
  if (className) {
    made.className = className;
  }
  return made;
}

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
  const made = make("label", text);
  made.htmlFor = control.id;
  return made;
}

function put(edits, table, key, value) {
  edits[table] ??= {};
  edits[table][key] = value;
}

function showWords() {
  const parts = Object.entries(WORDS).flatMap(([key, title]) => {
    const control = document.createElement(key === "description" ? "textarea" : "input");
    control.rows = 3;
    field(control, facts.words[key], (edits) => {
      edits[key] = control.value;
    });
    return [label(title, control), control];
  });
  element("words").replaceChildren(...parts);
}

function denotationField(feature) {
  const control = document.createElement("select");
  for (const word of new Set([...DENOTATIONS, feature.denotation])) {
    const option = make("option", word || "nothing stated");
    option.value = word;
    control.append(option);
  }
  return field(control, feature.denotation, (edits) => put(edits, "denotations", feature.name, control.value));
}

function showFeature(feature, isInput) {
  const box = make("div", "", "feature");
  const grid = make("div", "", "fields");
  const name = document.createElement("input");
  field(name, feature.name, (edits) => put(edits, "rename", feature.name, name.value));
  const denotation = denotationField(feature);
  grid.append(label("Name", name), name, make("span", "Type"), make("span", feature.kind, "kind"));
  grid.append(label("What it is", denotation), denotation);
  if (feature.sizes.length) {
    grid.append(make("span", "Sizes, and what they are"), showSizes(feature, isInput));
  }
  box.append(grid);
  return box;
}

function showSizes(feature, isInput) {
  const lengths = feature.sizes.map(() => -1);
  const words = feature.sizes.map((size) => size.denotation);
  const list = make("div", "", "sizes");
  feature.sizes.forEach((size, axis) => {
    const box = make("div", "", "size");
    if (size.size === null && isInput) {
      const control = document.createElement("input");
      control.inputMode = "numeric";
      control.placeholder = size.name ? `${size.name} (free)` : "free";
      control.setAttribute("aria-label", `Size ${axis + 1} of ${feature.name}`);
      box.append(
        field(control, "", (edits) => {
          lengths[axis] = Number(control.value);
          put(edits, "shapes", feature.name, lengths);
        }),
      );
    } else {
      box.append(make("span", size.size === null ? size.name || "free" : String(size.size)));
    }
    const word = document.createElement("input");
    word.setAttribute("list", "size-words");
    word.placeholder = "nothing stated";
    word.setAttribute("aria-label", `What size ${axis + 1} of ${feature.name} is`);
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
  const control = document.createElement("textarea");
  control.rows = Math.min(6, value.split("\n").length);
  field(control, value, (edits) => put(edits, "metadata", key, control.value));
  const pair = make("div", "", "pair");
  const remove = make("button", "Remove");
  remove.type = "button";
  const title = label(key, control);
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
  pair.append(control, remove);
  element("metadata").append(title, pair);
  return control;
}

function addEntry() {
  const key = element("new-key").value;
  const keys = Array.from(element("metadata").querySelectorAll("label"), (title) => title.textContent);
  if (key && !keys.includes(key)) {
    showEntry(key, "", true).focus();
    element("new-key").value = "";
  }
}

function showLabels() {
  const control = element("labels");
  if (facts.labels.some((one) => /[\r\n]/.test(one))) {
    control.disabled = true;
    control.value = "Some of the labels are of several lines: winml-py edit changes those.";
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
  const where = new FormData(element("form")).get("where");
  const request = { edits: edits(), name: where === "folder" ? element("name").value : null };
  element("write").disabled = true;
  tell("Writing, and comparing…");
  try {
    const response = await fetch("write", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(request),
    });
    const answer = await response.json();
    if (response.ok) {
      done(answer);
    } else {
      tell(`${answer.error} ${answer.hint}`, true);
    }
  } catch (error) {
    tell(`The page's program did not answer: ${error.message}`, true);
  } finally {
    element("write").disabled = false;
  }
}

function tell(text, isError = false) {
  element("words-of-result").textContent = text;
  element("words-of-result").classList.toggle("error", isError);
  element("link").replaceChildren();
  element("differences").hidden = true;
}

function done(answer) {
  const compared =
    answer.error === null
      ? "It was loaded, and not run: its inputs cannot be made up, and only words have changed."
      : answer.error === 0
        ? "Both give the same results on example inputs."
        : `On example inputs their results differ by ${answer.error.toExponential(1)} at most.`;
  const where = "download" in answer ? "" : `${answer.file} was written beside the model. `;
  tell(`${where}${compared}`);
  if ("download" in answer) {
    const link = make("a", `Download ${answer.file}`);
    link.href = `file/${answer.download}`;
    link.download = answer.file;
    element("link").append(link);
  }
  const lines = answer.differences.map((row) => {
    const line = document.createElement("tr");
    line.append(make("td", row.what), make("td", row.before), make("td", row.after));
    return line;
  });
  if (answer.more) {
    lines.push(make("tr"));
    lines.at(-1).append(make("td", `${answer.more} more`), make("td"), make("td"));
  }
  element("differences").tBodies[0].replaceChildren(...lines);
  element("differences").hidden = false;
}

async function open() {
  try {
    const response = await fetch("facts");
    facts = await response.json();
    if (!response.ok) {
      throw new Error(`${facts.error} ${facts.hint}`);
    }
    element("file").textContent = facts.file;
    document.title = `${facts.file}: edit`;
    element("name").value = facts.proposal;
    element("beside").hidden = !facts.proposal; // what was dropped on the page lies in no folder
    showWords();
    element("inputs").replaceChildren(...facts.inputs.map((feature) => showFeature(feature, true)));
    element("outputs").replaceChildren(...facts.outputs.map((feature) => showFeature(feature, false)));
    for (const [key, value] of Object.entries(facts.metadata)) {
      showEntry(key, value, false);
    }
    showLabels();
    element("add").addEventListener("click", addEntry);
    element("name").addEventListener("input", () => {
      document.querySelector("input[value=folder]").checked = true;
    });
    element("form").addEventListener("submit", write);
  } catch (error) {
    tell(error.message, true);
    element("write").disabled = true;
  }
  element("page").dataset.state = "ready";
}

open();
