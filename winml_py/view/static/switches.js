// The switches of a contract. Its words are those of a model's metadata: {"Image.Mean": "0.5,0.5,0.5"}.
import { make } from "./parts.js";

const ORDER = "Image.BitmapPixelFormat", MEAN = "Image.Mean", STD = "Image.Std", CROP = "Image.CropMode";
const SCALING = "Image.Scaling", GRAY = "Image.Gray", FIRST = [ORDER, "Image.NominalPixelRange", MEAN, STD, CROP, "Image.Kernel", "Image.Size"];
const WIDE = [MEAN, STD], SIZE = "Image.Size";
const SIZES = [224, 256, 299, 384, 512];
const IMAGENET = { RGB: ["0.485,0.456,0.406", "0.229,0.224,0.225"] };

export const parsed = (text) => Object.fromEntries((text || "").split(",").filter(Boolean).map((pair) => {
  const at = pair.indexOf("=");
  return [pair.slice(0, at), pair.slice(at + 1)];
}));

/** The words without those that the others make meaningless. */
export function tidy(words) {
  const tidied = Object.fromEntries(Object.entries(words).filter(([, word]) => word !== ""));
  if (tidied[ORDER] !== "Gray8") delete tidied[GRAY];
  return tidied;
}

/** The words with another order of colours: mean and std stay with their colours. */
export function reordered(words, order) {
  const changed = { ...words, [ORDER]: order };
  for (const key of [MEAN, STD]) {
    const numbers = (words[key] || "").split(",").filter(Boolean);
    if (order === "Gray8") changed[key] = new Set(numbers).size === 1 ? numbers[0] : "";
    else if (words[ORDER] === "Gray8" && numbers.length === 1) changed[key] = Array(3).fill(numbers[0]).join(",");
    else if (words[ORDER] !== order) changed[key] = numbers.reverse().join(",");
  }
  return changed;
}

export const imagenet = (words) => {
  const numbers = IMAGENET.RGB.map((text) => (words[ORDER] === "Bgr8" ? text.split(",").reverse().join(",") : text));
  return { ...words, [MEAN]: numbers[0], [STD]: numbers[1] };
};

/** The form of one contract; `changed` is called with its words. */
export class Switches {
  constructor(controls, changed) {
    this.changed = changed;
    this.words = {};
    this.element = make("div");
    this.inputs = new Map();
    const row = (keys) => make("div", { class: "switches" }, ...keys.map((control) => this.control(control)));
    const plain = controls.filter(({ kind }) => kind !== "scaling");
    const rest = plain.filter(({ key }) => !FIRST.includes(key)), scaling = controls.find(({ kind }) => kind === "scaling");
    this.element.append(
      row(FIRST.map((key) => plain.find((control) => control.key === key))),
      make("div", { class: "tools" },
        make("button", { type: "button", onclick: () => this.tell(imagenet(this.words)) }, "ImageNet’s mean and std"),
        make("button", { type: "button", onclick: () => this.tell({ ...this.words, [MEAN]: "", [STD]: "" }) }, "No mean and std")),
      make("details", {}, make("summary", {}, "Scaling before the crop"),
        make("p", { class: "soft" }, "The size a picture is scaled to first. It replaces the crop mode: without a height and width, a side, or a crop ratio, the picture keeps its size, and is cropped if it is too large."),
        make("div", { class: "switches" }, ...scaling.fields.map((field) => this.scalingField(field)))),
      make("details", {}, make("summary", {}, "Padding, type, layout"), row(rest)));
  }

  control(control) {
    const input = control.kind === "choice" ? this.choices(control.choices.map(({ value, label }) => [value, label]))
      : make("input", { type: "text", inputmode: "decimal", spellcheck: "false", autocomplete: "off", placeholder: { "2": "height, width", "3": "r, g, b" }[control.count] || "none" });
    input.addEventListener("change", () => this.take(control, input.value));
    input.addEventListener("blur", () => this.showField(control.key));
    input.dataset.key = control.key;
    this.inputs.set(control.key, { input, control });
    return make("label", { class: WIDE.includes(control.key) ? "wide" : false }, make("span", {}, control.label), input);
  }

  scalingField(field) {
    const input = field.choices ? this.choices(field.choices.map((word) => [word, { True: "yes", False: "no" }[word] || word.replaceAll("_", " ")]))
      : make("input", { type: "text", inputmode: "decimal", autocomplete: "off" });
    input.addEventListener("change", () => {
      const stated = { ...parsed(this.words[SCALING]), [field.name]: input.value.trim() };
      if (stated[field.name] === field.default) delete stated[field.name];
      const text = Object.entries(stated).filter(([, word]) => word !== "").map((pair) => pair.join("=")).join(",");
      this.tell({ ...this.words, [SCALING]: text, ...(text ? { [CROP]: "" } : {}) }); // it takes the place of a crop mode
    });
    input.addEventListener("blur", () => this.showField(`scaling ${field.name}`));
    this.inputs.set(`scaling ${field.name}`, { input, field });
    return make("label", {}, make("span", {}, field.name.replaceAll("_", " ")), input);
  }

  choices(pairs) {
    return make("select", {}, ...pairs.map(([value, label]) => make("option", { value }, label)));
  }

  take(control, value) {
    const text = control.kind === "numbers" ? value.split(/[\s,;x]+/).filter(Boolean).join(",") : value;
    if (control.key === ORDER) return this.tell(reordered(this.words, text));
    const words = { ...this.words, [control.key]: text };
    if (control.key === CROP && text !== "Center") words[SCALING] = "";
    this.tell(words);
  }

  tell(words) {
    this.show(words);
    this.changed(this.words);
  }

  /** Shows a contract's words; `channels` are those that the model takes, 0 for any. */
  show(words, channels = 0) {
    this.words = tidy(words);
    for (const [name, { input }] of this.inputs) {
      // What somebody is writing stays; it is shown when the field is left.
      if (input !== document.activeElement || input.tagName === "SELECT") this.showField(name);
    }
    this.inputs.get(GRAY).input.disabled = this.words[ORDER] !== "Gray8";
    for (const option of this.inputs.get(ORDER).input.options) option.disabled = Boolean(channels) && (option.value === "Gray8") !== (channels === 1);
  }

  showField(name) {
    const { input, control, field } = this.inputs.get(name);
    const value = field ? parsed(this.words[SCALING])[field.name] ?? field.default
      : control.kind === "numbers" ? (this.words[name] || "").replaceAll(",", ", ") : this.words[name] ?? control.default;
    if (input.value !== value) input.value = value;
  }
}

/** Whether two contracts differ. */
export const isOther = (words, others) => JSON.stringify(sorted(tidy(words))) !== JSON.stringify(sorted(tidy(others)));

/** The labels of what differs between two contracts. */
export function differing(words, others, controls) {
  const [one, other] = [words, others].map((each) => Object.fromEntries(sorted(tidy(each))));
  return controls.filter(({ key }) => one[key] !== other[key]).map(({ label }) => label.toLowerCase());
}

/**
 * Contracts that differ from these words in one thing, each with a word for it, and what none of them changes.
 * A size is among them where the model leaves it free.
 */
export function variants(words, { is_free: isFree }) {
  const order = words[ORDER] || "Bgr8", found = [];
  const add = (what, changed) => {
    const tidied = tidy(changed);
    if (isOther(tidied, words)) found.push([what, tidied]);
  };
  if (order !== "Gray8") add(order === "Rgb8" ? "order BGR" : "order RGB", reordered(words, order === "Rgb8" ? "Bgr8" : "Rgb8"));
  for (const [word, label] of [["NominalRange_0_255", "0 to 255"], ["Normalized_0_1", "0 to 1"], ["Normalized_1_1", "-1 to 1"]]) {
    add(`range ${label}`, { ...words, "Image.NominalPixelRange": word });
  }
  if (order !== "Gray8") add("ImageNet’s mean and std, range 0 to 1", imagenet({ ...words, "Image.NominalPixelRange": "Normalized_0_1" }));
  add("no mean and std", { ...words, [MEAN]: "", [STD]: "" });
  for (const [word, label] of [["Center", "middle"], ["Stretch", "stretch"], ["Letterbox", "letterbox"]]) {
    add(`crop ${label}`, { ...words, [CROP]: word, [SCALING]: "" });
  }
  if (!isFree || words[SIZE]) add("scaled to 1/0.875, then cropped", { ...words, [CROP]: "", [SCALING]: "crop_ratio=0.875,crop_rounding=half_even" });
  if (isFree) {
    if (!(words[SCALING] || "").includes("crop_ratio")) add("size: the picture’s own", { ...words, [SIZE]: "" });
    for (const side of SIZES) add(`size ${side} × ${side}`, { ...words, [SIZE]: `${side},${side}` });
  }
  return { list: found, untried: [...(isFree ? ["other sizes"] : []), "kernel", "padding", "other scalings"] };
}

const sorted = (words) => Object.entries(words).filter(([key, word]) => !(key === CROP && word === "Center")).sort();
