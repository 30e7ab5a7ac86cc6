// The switches of a contract. Their words are those of a model's metadata: {"Image.Mean": "0.5,0.5,0.5"}.
import { make } from "./parts.js";

const ORDER = "Image.BitmapPixelFormat", RANGE = "Image.NominalPixelRange", MEAN = "Image.Mean", STD = "Image.Std";
const SCALING = "Image.Scaling", SIZE = "Image.Size";
const HINTS = { [MEAN]: "r, g, b", [STD]: "r, g, b", [SIZE]: "height, width", "Image.Pad": "r, g, b", [SCALING]: "crop_to_aspect" };
const IMAGENET = ["0.485,0.456,0.406", "0.229,0.224,0.225"];

const tidy = (words) => Object.fromEntries(Object.entries(words).filter(([, word]) => word !== "").sort());

export const isSame = (words, others) => JSON.stringify(tidy(words)) === JSON.stringify(tidy(others));

const reversed = (text = "") => text.split(",").reverse().join(",");

/** The words with another order of colours: mean and std stay with their colours. */
function reordered(words, order) {
  const isTurned = [words[ORDER], order].sort().join() === "Bgr8,Rgb8";
  return isTurned ? { ...words, [ORDER]: order, [MEAN]: reversed(words[MEAN]), [STD]: reversed(words[STD]) } : { ...words, [ORDER]: order };
}

/** The form of one contract; `changed` is called with its words. */
export class Switches {
  constructor(switches, changed) {
    [this.changed, this.words] = [changed, {}];
    this.fields = new Map(switches.map((one) => [one.key, { ...one, input: this.field(one) }]));
    const labels = [...this.fields].map(([key, { input }]) => make("label", {}, make("span", {}, key.replace("Image.", "")), input));
    this.element = make("div", { class: "switches" }, ...labels);
  }

  field({ key, choices, default: preset }) {
    const options = (choices.includes(preset) ? choices : ["", ...choices]).map((word) => make("option", { value: word }, word || "the model’s"));
    const input = choices.length ? make("select", {}, ...options)
      : make("input", { type: "text", spellcheck: "false", autocomplete: "off", placeholder: HINTS[key] || "", list: key === SCALING && "scalings" });
    input.dataset.key = key;
    input.addEventListener("change", () => {
      const word = choices.length ? input.value : input.value.split(/[\s,;]+/).filter(Boolean).join(",");
      this.tell(key === ORDER ? reordered(this.words, word) : { ...this.words, [key]: word });
    });
    input.addEventListener("blur", () => this.showField(key));
    return input;
  }

  tell(words) {
    this.show(words);
    this.changed(this.words);
  }

  show(words) {
    this.words = tidy(words);
    for (const [key, { input }] of this.fields) {
      // What somebody is writing stays; it is shown when the field is left.
      if (input !== document.activeElement || input.tagName === "SELECT") this.showField(key);
    }
  }

  showField(key) {
    const { input, choices, default: preset } = this.fields.get(key), word = this.words[key] ?? preset;
    input.value = choices.length ? word : word.replaceAll(",", ", ");
  }
}

/** Contracts that differ from these words in one thing, each with a name. */
export function variants(words, isFree) {
  const found = [["A, as it is", words]];
  const add = (name, changes) => {
    if (!isSame({ ...words, ...changes }, words)) found.push([name, tidy({ ...words, ...changes })]);
  };
  const isColour = words[ORDER] !== "Gray8", other = words[ORDER] === "Rgb8" ? "Bgr8" : "Rgb8";
  if (isColour) add(`order ${other}`, reordered(words, other));
  for (const range of ["NominalRange_0_255", "Normalized_0_1", "Normalized_1_1"]) add(`range ${range}`, { [RANGE]: range });
  const [mean, std] = words[ORDER] === "Rgb8" ? IMAGENET : IMAGENET.map(reversed);
  if (isColour) add("ImageNet’s mean and std", { [RANGE]: "Normalized_0_1", [MEAN]: mean, [STD]: std });
  add("no mean and std", { [MEAN]: "", [STD]: "" });
  for (const rule of ["", "stretch", "fit"]) add(`scaling ${rule || "crop_to_aspect"}`, { [SCALING]: rule });
  if (isFree) for (const side of [224, 256, 299, 384, 512]) add(`size ${side} × ${side}`, { [SIZE]: `${side},${side}` });
  else add("scaled to 1/0.875, then cropped", { [SCALING]: "crop_ratio=0.875,crop_rounding=half_even" });
  return found;
}
