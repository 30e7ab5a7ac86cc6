// What a model answered, the tensor that it was given, and the times.
import { bars, draw, histogram, make, number, pairs, percent, shown, table } from "./parts.js";

const PHASES = ["decode", "tensorize", "bind", "evaluate", "back"];

/** The answer in a few words: "seven, 87.2 %". */
export function inWords(answer) {
  if (answer.objects) {
    const counts = new Map();
    for (const one of answer.objects) counts.set(named(one), (counts.get(named(one)) || 0) + 1);
    return counts.size ? [...counts].map(([name, count]) => `${count} × ${name}`).join(", ") : "no objects";
  }
  if (answer.regions) return answer.regions.slice(0, 3).map((one) => `${named(one)} ${percent(one.share)}`).join(", ");
  for (const output of answer.outputs) {
    if (output.classes && output.classes.length) {
      const [best] = output.classes;
      return `${named(best)}, ${output.are_shares ? percent(best.score) : number(best.score)}`;
    }
  }
  const [first] = answer.outputs;
  if (!first) return "nothing";
  if (first.picture !== undefined) return "a picture";
  if (first.values && first.values.length <= 4 && !first.more) return first.values.map(number).join(", ");
  return first.numbers && first.numbers.min !== undefined ? `${first.name}: ${number(first.numbers.min)} to ${number(first.numbers.max)}` : first.name;
}

/** How sure the model is; null where nothing says so. */
export function score(answer) {
  if (answer.objects) return answer.objects.length ? answer.objects[0].score : 0;
  const classes = answer.outputs.find((output) => output.classes && output.classes.length);
  return classes ? classes.classes[0].score : null;
}

const named = (one) => one.label || `class ${one.index}`;

/** All of the answer. */
export function answerOf(facts) {
  const { answer } = facts, parts = make("div");
  if (answer.objects_error) parts.append(make("p", { class: "error" }, shown(answer.objects_error)));
  if (answer.drawn !== undefined) parts.append(pictureOf(facts, answer.drawn, "What was found, drawn on the picture"));
  if (answer.objects && answer.objects.length) {
    const rows = answer.objects.map((one) => [named(one), percent(one.score), one.box.map(Math.round).join(", ")]);
    parts.append(table(["object", "score", "left, top, right, bottom"], ["", "number", "number"], rows));
    if (answer.more_objects) parts.append(make("p", { class: "soft" }, `and ${answer.more_objects} more`));
  }
  if (answer.regions) parts.append(bars(answer.regions.map((one) => ({ name: named(one), share: one.share, text: percent(one.share) }))));
  const isFound = answer.objects || answer.regions;
  const outputs = answer.outputs.map((output) => outputOf(facts, output, answer.outputs.length > 1));
  if (isFound) parts.append(make("details", {}, make("summary", {}, "The numbers"), ...outputs));
  else parts.append(...outputs);
  return parts;
}

function outputOf(facts, output, isNamed) {
  const part = make("div", { class: "field" }, isNamed ? make("h3", {}, shown(output.name)) : null);
  if (output.picture !== undefined) part.append(pictureOf(facts, output.picture, `The output ${output.name}`));
  if (output.taken_for) part.append(make("p", { class: "soft" }, `A tensor, read as a picture: ${output.taken_for}.`));
  if (output.classes) {
    const least = Math.min(0, ...output.classes.map((one) => one.score)), most = Math.max(...output.classes.map((one) => one.score));
    const share = (value) => (output.are_shares ? value : (value - least) / (most - least || 1));
    part.append(bars(output.classes.map((one) => ({ name: named(one), share: share(one.score), text: output.are_shares ? percent(one.score) : number(one.score) }))));
  }
  if (output.other) part.append(make("pre", { tabindex: "0" }, shown(JSON.stringify(output.other.value ?? output.other, null, 1))));
  if (output.shape) {
    const numbers = numbersOf(output);
    if (output.classes || output.picture !== undefined) part.append(make("details", {}, make("summary", {}, "The numbers"), numbers));
    else part.append(numbers);
  }
  return part;
}

function numbersOf(output) {
  const part = make("div", {}, make("p", { class: "soft" }, `${output.type}, ${output.shape.join(" × ") || "one number"}`));
  if (output.numbers) part.append(...[rangeOf(output.numbers), histogram(output.numbers, "The numbers of the output")].filter(Boolean));
  part.append(make("div", { class: "values", tabindex: "0" }, ...output.values.map((value) => make("span", {}, shown(number(value))))));
  if (output.more) part.append(make("p", { class: "soft" }, `and ${output.more} more`));
  return part;
}

function rangeOf(numbers) {
  const rows = numbers.min === undefined ? [] : [["range", `${number(numbers.min)} to ${number(numbers.max)}`], ["mean", number(numbers.mean)]];
  if (numbers.not_finite) rows.push(["not finite", `${numbers.not_finite} of ${numbers.count}`]);
  return pairs(rows);
}

const pictureOf = (facts, index, words) =>
  make("div", { class: "frame" }, sized(make("img", { src: `api/answers/${facts.id}/${index}`, alt: shown(words) })));

/** Small pictures are shown with their pixels. */
function sized(image) {
  image.addEventListener("load", () => image.classList.toggle("small", image.naturalWidth < 200));
  return image;
}

/** The picture, and the part of it that each of the settings takes: {seen, className}. */
export function pictureWith(picture, parts) {
  const { width, height } = picture;
  const left = Math.min(0, ...parts.map(({ seen }) => seen[0])), top = Math.min(0, ...parts.map(({ seen }) => seen[1]));
  const right = Math.max(width, ...parts.map(({ seen }) => seen[2])), bottom = Math.max(height, ...parts.map(({ seen }) => seen[3]));
  const box = ([x, y, x2, y2]) => `M${x} ${y}H${x2}V${y2}H${x}Z`, whole = [left, top, right, bottom], own = [0, 0, width, height];
  const words = parts.map(({ letter, seen }) => `${letter} takes ${seen.map(Math.round).join(", ")}`).join("; ");
  const image = draw("svg", { viewBox: `${left} ${top} ${right - left} ${bottom - top}`, role: "img", "aria-label": `${shown(picture.name)}, ${width} × ${height}. ${words}` },
    draw("path", { class: "padding", d: box(whole) + box(own), "fill-rule": "evenodd" }),
    draw("image", { href: `api/pictures/${picture.id}`, x: 0, y: 0, width, height, preserveAspectRatio: "none" }));
  if (parts.length) image.append(draw("path", { class: "outside", d: box(whole) + box(parts[0].seen), "fill-rule": "evenodd" }));
  for (const { seen: [x, y, x2, y2], className } of parts) {
    image.append(draw("rect", { class: `seen ${className}`, x, y, width: x2 - x, height: y2 - y }));
  }
  return image;
}

/** The tensor of an input as a picture; `look` is {read, channel}, which it changes. */
export function tensorOf(facts, input, look, hasModel) {
  const { tensor } = input, part = make("div");
  const image = sized(make("img", { alt: "The tensor as a picture" })), about = make("div");
  const show = () => {
    const query = new URLSearchParams({ input: input.name, read: look.read, channel: look.channel });
    image.src = `api/tensors/${facts.id}?${query}`;
    const numbers = look.channel < 0 ? tensor : tensor.channels[look.channel];
    about.replaceChildren(rangeOf(numbers));
  };
  if (look.channel >= tensor.channels.length) look.channel = -1;
  const group = `channel-${facts.id}-${input.name}`;
  const radio = (channel, words) => make("label", {},
    make("input", { type: "radio", name: group, value: channel, checked: look.channel === channel, onchange: () => { look.channel = channel; show(); } }), ` ${words}`);
  const channels = make("fieldset", { class: "choices" }, make("legend", {}, "Channels"), radio(-1, "all"));
  if (tensor.channels.length > 1) tensor.channels.forEach((one, at) => channels.append(radio(at, one.name)));
  const readings = [["own", "with these settings undone"], ["numbers", "lowest black, highest white, first channel red"]];
  if (hasModel) readings.unshift(["model", "as the model’s own contract reads it"]);
  const reading = make("select", { "aria-label": "How the numbers are read", onchange: () => { look.read = reading.value; show(); } },
    ...readings.map(([value, words]) => make("option", { value, selected: look.read === value }, words)));
  show();
  part.append(make("div", { class: "frame" }, image), channels, make("label", {}, make("span", { class: "soft" }, "Read "), reading),
    about, histogram(tensor, "The numbers of the tensor") || "",
    make("p", { class: "soft" }, `${tensor.type}, ${tensor.shape.join(" × ")}`));
  return part;
}

/** What went into an input that is no picture. */
export const arrayOf = (input) => make("div", {}, pairs([["type", input.array.type], ["shape", input.array.shape.join(" × ") || "one number"]]),
  rangeOf(input.array), histogram(input.array, `The numbers of ${shown(input.name)}`) || "");

/** What each phase took. */
export function timesOf(facts) {
  const all = PHASES.reduce((sum, name) => sum + facts.times[name], 0);
  const bar = make("div", { class: "times", role: "img", "aria-label": `${number(all)} milliseconds in all` });
  const legend = make("ul", { class: "legend" });
  PHASES.forEach((name, at) => {
    const part = make("span", { class: `time-${at}` });
    part.style.flexGrow = facts.times[name];
    bar.append(part);
    legend.append(make("li", {}, make("i", { class: `time-${at}` }), `${name} ${number(facts.times[name])} ms`));
  });
  legend.append(make("li", {}, `${facts.engine} on ${shown(facts.device)}`));
  return make("div", {}, bar, legend);
}
