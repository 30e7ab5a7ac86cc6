// The page that edits a model: fields with what the file says, of which those that were changed are sent.
import { doing, find, get, leadOn, make, on, openKey, Refused, saveCopy, shown } from "./parts.js";

const fields = []; // of each: the control, what it began with, and what it adds to the edits

function field(title, value, add, rows = 1) {
  const control = rows > 1 ? make("textarea", { rows }) : make("input", { type: "text" });
  control.value = value;
  control.spellcheck = false;
  fields.push({ control, value: control.value, add });
  return make("label", { class: "field" }, make("span", {}, shown(title)), control);
}

const listed = (text) => text.split(",").map((word) => word.trim());

function featureFields({ name, denotation, sizes, dimensions }, isInput) {
  const add = (table, read) => (edits, text) => { (edits[table] ??= {})[name] = read(text); };
  const fixed = (text) => {
    const written = listed(text);
    if (written.length !== sizes.length) throw new Refused(`${name} has ${sizes.length} sizes.`);
    return written.map((size, axis) => (size === sizes[axis] ? "" : size));
  };
  return make("fieldset", {}, make("legend", {}, shown(name)),
    field("Name", name, add("rename", String)),
    field("Denotation: IMAGE, AUDIO, TEXT, TENSOR", denotation, add("denotations", String)),
    isInput && sizes.length ? field("Sizes: numbers fix those that are free", sizes.join(", "), add("shapes", fixed)) : null,
    sizes.length ? field("Denotations of the sizes: DATA_BATCH, DATA_CHANNEL, …", dimensions.join(", "), add("dimensions", listed)) : null);
}

function changedMetadata(text, metadata) {
  try {
    return { ...Object.fromEntries(Object.keys(metadata).map((key) => [key, ""])), ...JSON.parse(text) };
  } catch (error) {
    throw new Refused("The metadata are not JSON.", String(error.message));
  }
}

function changedLabels(edits, text) {
  const labels = text.split("\n").map((label) => label.trim());
  while (labels.at(-1) === "") labels.pop();
  if (labels.length) edits.labels = labels;
  else edits.metadata = { ...edits.metadata, Labels: "" };
}

function save(isBeside) {
  const edits = {};
  for (const { control, value, add } of fields) if (control.value !== value) add(edits, control.value);
  return saveCopy("api/edit", { model: openKey(), edits }, isBeside);
}

doing(async () => {
  leadOn();
  const { model, is_here: isHere, texts, features, metadata, labels } = await get(`api/fields/${openKey()}`);
  find("model-name").textContent = shown(model);
  find("save-name").value = `${model.replace(/\.onnx$/i, "")}_edited.onnx`;
  find("save-beside").hidden = !isHere;
  find("edits").replaceChildren(
    ...Object.entries(texts).map(([key, value]) => field(key, value, (edits, text) => { edits[key] = text; }, key === "description" ? 3 : 1)),
    ...features.inputs.map((feature) => featureFields(feature, true)),
    ...features.outputs.map((feature) => featureFields(feature, false)),
    field("Metadata", JSON.stringify(metadata, null, 1), (edits, text) => { edits.metadata = changedMetadata(text, metadata); }, 8),
    // A label of several lines would become several labels.
    labels.some((label) => /[\r\n]/.test(label)) ? "" : field("Labels, one a line", labels.join("\n"), changedLabels, 8));
  on("form", "submit", () => save(true));
  on("save-download", "click", () => save(false));
  document.body.dataset.state = "ready";
});
