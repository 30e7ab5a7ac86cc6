// What a model answered, the tensor that it was given, and the times.
import { draw, make, number, percent, shown, table } from "./parts.js";

const MAX_LETTERS = 1000;

const named = (one) => one.label || `class ${one.index}`;
const shortened = (value) => {
  const text = typeof value === "number" ? number(value) : typeof value === "string" ? value : JSON.stringify(value, null, 1);
  return shown(text.length > MAX_LETTERS ? `${text.slice(0, MAX_LETTERS)}…` : text);
};

/** The answer in a few words: "seven, 87.2 %". */
export function inWords(answer) {
  if (answer.objects) {
    const counts = new Map();
    for (const one of answer.objects) counts.set(named(one), (counts.get(named(one)) || 0) + 1);
    return [...counts].map(([name, count]) => `${count} × ${name}`).join(", ") || "no objects";
  }
  if (answer.regions) return answer.regions.slice(0, 3).map((one) => `${named(one)} ${percent(one.share)}`).join(", ");
  const outputs = Object.entries(answer.outputs), ranked = outputs.find(([, output]) => output.top);
  if (ranked) return `${named(ranked[1].top[0])}, ${scoreOf(ranked[1], ranked[1].top[0])}`;
  if (!outputs.length) return "nothing";
  const [name, first] = outputs[0];
  if (answer.pictures.includes(name)) return "a picture";
  if (first.values && first.values.length <= 4) return first.values.map(shortened).join(", ");
  return first.min === undefined ? name : `${name}: ${number(first.min)} to ${number(first.max)}`;
}

const scoreOf = (output, one) => (output.are_shares ? percent : number)(one.value);

/** All of the answer. */
export function answerOf({ id, answer }) {
  const parts = make("div");
  if (answer.objects_error) parts.append(make("p", { class: "error" }, shown(answer.objects_error)));
  if (answer.pictures.includes("")) parts.append(pictureOf(id, "", "What was found, drawn on the picture"));
  if (answer.objects && answer.objects.length) {
    const rows = answer.objects.map((one) => [named(one), percent(one.score), one.box.map(Math.round).join(", ")]);
    parts.append(table(["object", "score", "left, top, right, bottom"], rows));
  }
  if (answer.regions) parts.append(bars(answer.regions.map((one) => [named(one), one.share, percent(one.share)])));
  const outputs = Object.entries(answer.outputs).map(([name, output]) => outputOf(id, name, output, answer.pictures));
  const isFound = answer.objects || answer.regions;
  parts.append(...(isFound ? [make("details", {}, make("summary", {}, "The numbers"), ...outputs)] : outputs));
  return parts;
}

function outputOf(id, name, output, pictures) {
  const part = make("div", { class: "field" }, make("h3", {}, shown(name)));
  if (pictures.includes(name)) part.append(pictureOf(id, name, `The output ${name}`));
  if (output.read_as) part.append(make("p", { class: "soft" }, `A tensor, read as a picture: ${output.read_as}.`));
  if (output.top) {
    const least = Math.min(0, ...output.top.map((one) => one.value)), most = Math.max(...output.top.map((one) => one.value));
    const share = (value) => (output.are_shares ? value : (value - least) / (most - least || 1));
    part.append(bars(output.top.map((one) => [named(one), share(one.value), scoreOf(output, one)])));
  }
  if (output.shape) part.append(make("p", { class: "soft" }, `${output.type}, ${output.shape.join(" × ") || "one number"}`));
  if (output.values) part.append(make("p", {}, output.values.map(shortened).join(", ")));
  if (output.min !== undefined) part.append(rangeOf(output));
  if (output.value !== undefined) part.append(make("pre", { tabindex: "0" }, shortened(output.value)));
  return part;
}

/** Names with a bar and a text each; a share is how long the bar is, from 0 to 1. */
function bars(rows) {
  const list = make("div", { class: "bars" });
  for (const [name, share, text] of rows) {
    const bar = make("span");
    bar.style.width = `${Math.max(0, Math.min(1, share)) * 100}%`;
    list.append(make("span", { class: "name" }, shown(name)), make("span", { class: "track" }, bar), make("span", {}, text));
  }
  return list;
}

function rangeOf(numbers) {
  const rows = numbers.min === undefined ? [] : [["range", `${number(numbers.min)} to ${number(numbers.max)}`], ["mean", number(numbers.mean)]];
  if (numbers.not_finite) rows.push(["not finite", String(numbers.not_finite)]);
  return make("dl", { class: "facts" }, ...rows.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));
}

const pictureOf = (id, output, words) =>
  make("div", { class: "frame" }, sized(make("img", { src: `api/answers/${id}?${new URLSearchParams({ output })}`, alt: shown(words) })));

/** Small pictures are shown with their pixels. */
function sized(image) {
  image.addEventListener("load", () => image.classList.toggle("small", image.naturalWidth < 200));
  return image;
}

/** The picture, and the part of it that each of the settings takes: {letter, seen}. */
export function pictureWith(picture, parts) {
  const { width, height } = picture;
  const left = Math.min(0, ...parts.map(({ seen }) => seen[0])), top = Math.min(0, ...parts.map(({ seen }) => seen[1]));
  const right = Math.max(width, ...parts.map(({ seen }) => seen[2])), bottom = Math.max(height, ...parts.map(({ seen }) => seen[3]));
  const box = ([x, y, x2, y2]) => `M${x} ${y}H${x2}V${y2}H${x}Z`, whole = box([left, top, right, bottom]);
  const words = parts.map(({ letter, seen }) => `${letter} takes ${seen.map(Math.round).join(", ")}`).join("; ");
  const image = draw("svg", { viewBox: `${left} ${top} ${right - left} ${bottom - top}`, role: "img", "aria-label": `${shown(picture.name)}, ${width} × ${height}. ${words}` },
    draw("path", { class: "padding", d: whole + box([0, 0, width, height]), "fill-rule": "evenodd" }),
    draw("image", { href: `api/pictures/${picture.id}`, x: 0, y: 0, width, height, preserveAspectRatio: "none" }));
  if (parts.length) image.append(draw("path", { class: "outside", d: whole + box(parts[0].seen), "fill-rule": "evenodd" }));
  for (const { letter, seen: [x, y, x2, y2] } of parts) {
    image.append(draw("rect", { class: `seen ${letter.toLowerCase()}`, x, y, width: x2 - x, height: y2 - y }));
  }
  return image;
}

/** From the picture's own size to the tensor's: "512 × 288 pixels, of which 288 × 288 become 128 × 128". */
export function placementInWords({ picture, seen, tensor }) {
  const size = (pair) => pair.map(Math.round).join(" × ");
  const taken = [0, 1].map((axis) => Math.min(seen[axis + 2], picture[axis]) - Math.max(seen[axis], 0));
  const isPadded = seen[0] < 0 || seen[1] < 0 || seen[2] > picture[0] || seen[3] > picture[1];
  return `${size(picture)} pixels, of which ${size(taken)} become ${size(tensor)}${isPadded ? ", padding included" : ""}`;
}

const READINGS = { undone: "with these settings undone", numbers: "lowest black, highest white, first channel red" };
const NOTES = {
  undone: "Made and shown with the same settings, so this picture looks right even if they are wrong. To see the plain numbers, choose “lowest black”.",
  numbers: "The plain numbers. With three channels, the first one is shown as red, so skin looks blue if the order is BGR.",
};

/** The tensor of an input: as a picture where it is one; `reading` is how, and `choose` is called with another. */
export function tensorOf(facts, name, reading, choose) {
  const tensor = facts.tensors[name], type = make("p", { class: "soft" }, `${tensor.type}, ${tensor.shape.join(" × ") || "one number"}`);
  const part = make("div", { class: "field" }, make("h3", {}, shown(name)));
  if (!tensor.channels) {
    part.append(rangeOf(tensor), type);
    return part;
  }
  const src = `api/tensors/${facts.id}?${new URLSearchParams({ input: name, read: reading })}`;
  const select = make("select", { "aria-label": "How the numbers are read", onchange: () => choose(select.value) },
    ...Object.entries(READINGS).map(([value, words]) => make("option", { value, selected: value === reading }, words)));
  part.append(make("div", { class: "frame" }, sized(make("img", { src, alt: "The tensor as a picture" }))),
    make("label", {}, make("span", { class: "soft" }, "Read "), select), make("p", { class: "soft" }, NOTES[reading]), rangeOf(tensor));
  const rows = tensor.channels.map((one) => [one.name, number(one.min), number(one.max), number(one.mean)]);
  if (rows.length > 1) part.append(table(["channel", "lowest", "highest", "mean"], rows));
  part.append(type);
  return part;
}

/** What each phase took. */
export function timesOf({ times, engine, device }) {
  const rows = Object.entries(times).map(([phase, milliseconds]) => `${phase} ${number(milliseconds)} ms`);
  return make("p", {}, `${rows.join(", ")}; ${engine} on ${shown(device)}. The first evaluation also loads and allocates.`);
}
