// What a model answered, the tensor that it was given, and the times.
import { bars, draw, histogram, make, number, pairs, percent, shown, table } from "./parts.js";

const PHASES = ["decode", "bind", "evaluate"];

/** The answer in a few words: "seven, 87.2 %". */
export function inWords(answer) {
  if (answer.objects) {
    const counts = new Map();
    for (const one of answer.objects) counts.set(named(one), (counts.get(named(one)) || 0) + 1);
    return counts.size ? [...counts].map(([name, count]) => `${count} × ${name}`).join(", ") : "no objects";
  }
  if (answer.regions) return answer.regions.slice(0, 3).map((one) => `${named(one)} ${percent(one.share)}`).join(", ");
  const output = classesIn(answer);
  if (output) return `${nameOf(answer)}, ${(output.are_shares ? percent : number)(output.classes[0].score)}`;
  const [first] = answer.outputs;
  if (!first) return "nothing";
  if (first.picture !== undefined) return "a picture";
  if (first.values && first.values.length <= 4 && !first.more) return first.values.map(number).join(", ");
  return first.numbers && first.numbers.min !== undefined ? `${first.name}: ${number(first.numbers.min)} to ${number(first.numbers.max)}` : first.name;
}

const classesIn = (answer) => answer.outputs.find((output) => output.classes && output.classes.length);

/** The scores of an answer, the highest first, each with its name; none where nothing says that there are some. */
export function scoresOf(answer) {
  const output = classesIn(answer), found = answer.objects || (output ? output.classes : []);
  return { scores: found.map((one) => ({ name: named(one), score: one.score })), areShares: Boolean(answer.objects) || Boolean(output && output.are_shares) };
}

/** The answer without its score. */
export function nameOf(answer) {
  const output = classesIn(answer);
  return answer.objects || answer.regions || !output ? inWords(answer) : named(output.classes[0]);
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

/** From the picture's own size to the tensor's: "512 × 288 → the part of 288 × 288 → scaled by 0.4444 → 128 × 128". */
export function placementInWords({ picture, taken, scale: [across, down], fills, tensor }) {
  const size = (pair) => pair.join(" × "), steps = [`${size(picture)} pixels`];
  if (size(taken) !== size(picture)) steps.push(`the part of ${size(taken)}`);
  const isEven = Math.abs(across - down) < 0.01 * across; // whole pixels make them differ
  if (size(taken) !== size(fills)) steps.push(isEven ? `scaled by ${number(across)}` : `stretched by ${number(across)} across and ${number(down)} down`);
  if (steps.length > 1 || size(fills) !== size(tensor)) steps.push(size(fills));
  else steps.push("as it is");
  if (size(fills) !== size(tensor)) steps.push(`padded to ${size(tensor)}`);
  return steps.join(" → ");
}

/** What a picture of a tensor shows, and what it cannot show. */
function readingInWords(input, read) {
  const { is_as_stated: isAsStated, outside } = input, isOther = isAsStated === false;
  const share = outside === undefined ? "" : `${percent(outside)} of the numbers are outside the range of the file’s contract`;
  if (read === "own") return "Made and read with these settings: this picture looks right even if they are wrong.";
  if (read === "numbers") {
    const order = input.tensor.channels.length > 1 ? "The first channel is red here: a picture with blue skin has the order BGR. " : "";
    return order + (isOther && outside ? `${share}.` : "");
  }
  if (!isOther) return "Made and read with the file’s contract: this picture looks right even if the file is wrong. To see the numbers alone, choose “lowest black”.";
  return `Read with the file’s contract, which differs from these settings${outside ? `: ${share}, and are clipped here` : ""}. If the file is wrong, so is this picture.`;
}

/** The tensor of an input as a picture; `look` is {read, channel}, which it changes: "" reads it as `automatic` says. */
export function tensorOf(facts, input, look, automatic) {
  const { tensor } = input, part = make("div");
  const image = sized(make("img", { alt: "The tensor as a picture" })), about = make("div");
  const note = make("p", { class: "soft", role: "status" });
  const show = () => {
    const read = look.read || automatic, query = new URLSearchParams({ input: input.name, read, channel: look.channel });
    note.textContent = readingInWords(input, read);
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
  if (input.is_as_stated !== undefined) readings.unshift(["model", "as the file’s contract reads it"]);
  const reading = make("select", { "aria-label": "How the numbers are read", onchange: () => { look.read = reading.value; show(); } },
    ...readings.map(([value, words]) => make("option", { value, selected: (look.read || automatic) === value }, words)));
  show();
  part.append(make("div", { class: "frame" }, image), channels, make("label", {}, make("span", { class: "soft" }, "Read "), reading),
    note, about, histogram(tensor, "The numbers of the tensor") || "",
    make("p", { class: "soft" }, `${tensor.type}, ${tensor.shape.join(" × ")}`));
  return part;
}

/** The value of an input that is not a picture. */
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
  const which = facts.is_first ? "Of the first evaluation, which includes loading." : "Of a second evaluation: the first one loads and allocates.";
  return make("div", {}, bar, legend, make("p", { class: "soft" }, which));
}
