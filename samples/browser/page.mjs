// A picture that is dropped, chosen or comes from the camera, and what a model with a built-in contract makes of it.
//
// It needs two things next to it, and then nothing from the network:
//   model.onnx    of `winml-py contract MODEL --build-in --answers auto --output model.onnx`;
//                 index.html?model=other.onnx takes another. The page checks the model's samples.
//   dist/         the folder of that name in the package onnxruntime-web from npm, 1.30.0.
// Browsers load modules from servers only: `python -m http.server` in the folder above, and open /browser/.
import * as ort from "./dist/ort.wasm.bundle.min.mjs";
import { check } from "../javascript/check.mjs";

const COLOURS = ["#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377"];
const by = (id) => document.getElementById(id);
const say = (text) => (by("state").textContent = text);
const path = new URLSearchParams(location.search).get("model") ?? "model.onnx";

/** The last answer: its outputs, and the bytes that they are of. For programs that look at the page. */
export let last = null;

/**
 * The pixels of a picture, red, green and blue. The browser turns it by its EXIF, and converts its colours to sRGB.
 *
 * Transparent pixels become black: a canvas keeps colours only where they are seen.
 */
export function readPixels(picture) {
  const { width, height } = picture;
  const context = new OffscreenCanvas(width, height).getContext("2d", { willReadFrequently: true });
  context.drawImage(picture, 0, 0);
  const { data } = context.getImageData(0, 0, width, height);
  const pixels = new Uint8Array(width * height * 3);
  for (let from = 0, to = 0; from < data.length; from += 4) {
    pixels[to++] = data[from];
    pixels[to++] = data[from + 1];
    pixels[to++] = data[from + 2];
  }
  return { data: pixels, dims: [height, width, 3] };
}

function showClasses(labels, scores) {
  for (const [place, label] of labels.entries()) {
    const [line, score, bar] = ["li", "small", "progress"].map((name) => document.createElement(name));
    line.append(label, score);
    score.textContent = scores[place].toFixed(3);
    bar.value = Math.min(1, Math.max(0, scores[place])); // logits may be any number
    by("answer").append(line, bar);
  }
}

function showBoxes(context, boxes, labels, scores) {
  const names = [...new Set(labels)].sort(), size = Math.max(context.canvas.width, context.canvas.height) / 40;
  context.lineWidth = size / 5;
  context.font = `${size}px system-ui, sans-serif`;
  context.textBaseline = "bottom";
  for (const [place, label] of labels.entries()) {
    const [left, top, right, bottom] = boxes.subarray(place * 4, place * 4 + 4);
    const text = ` ${label} ${scores[place].toFixed(2)} `, y = Math.max(top, size * 1.2);
    context.strokeStyle = context.fillStyle = COLOURS[names.indexOf(label) % COLOURS.length];
    context.strokeRect(left, top, right - left, bottom - top);
    context.fillRect(left, y - size * 1.2, context.measureText(text).width, size * 1.2);
    context.fillStyle = "#fff";
    context.fillText(text, left, y);
  }
  for (const name of names) {
    const line = document.createElement("li"), count = document.createElement("small");
    line.append(name, count);
    count.textContent = labels.filter((label) => label === name).length;
    by("answer").append(line);
  }
  if (!names.length) by("answer").append("Nothing found.");
}

/** Evaluates a picture, and shows it with its answer. */
async function answer(session, picture) {
  const pixels = readPixels(picture), begun = performance.now();
  const batch = Array(session.inputMetadata[0].shape.length - 3).fill(1); // a file for batches takes one as well
  const input = new ort.Tensor("uint8", pixels.data, [...batch, ...pixels.dims]);
  const outputs = await session.run({ [session.inputNames[0]]: input });
  const time = Math.round(performance.now() - begun);
  const canvas = by("picture"), context = canvas.getContext("2d");
  [canvas.height, canvas.width] = pixels.dims;
  canvas.hidden = false;
  context.drawImage(picture, 0, 0);
  by("answer").replaceChildren();
  const { top_labels, top_scores, boxes, box_labels, box_scores } = outputs;
  if (top_labels) showClasses(top_labels.data, top_scores.data);
  if (boxes && box_labels) showBoxes(context, boxes.data, box_labels.data, box_scores.data);
  if (!top_labels && !box_labels)
    for (const [name, { dims, data }] of Object.entries(outputs)) {
      const line = document.createElement("li");
      line.textContent = `${name}, ${dims.join(" x ")}: ${[...data.slice(0, 4)].join(", ")} ...`;
      by("answer").append(line);
    }
  say(`${pixels.dims[1]} x ${pixels.dims[0]} pixels, ${time} ms. The picture stays in this browser.`);
  last = { outputs, pixels };
}

/** The camera, a frame after the other, until it is stopped. */
async function* frames(isWanted) {
  const video = document.createElement("video");
  video.srcObject = await navigator.mediaDevices.getUserMedia({ video: true });
  await video.play();
  while (isWanted()) {
    const frame = await createImageBitmap(video);
    yield frame;
    frame.close();
    await new Promise(requestAnimationFrame);
  }
  for (const track of video.srcObject.getTracks()) track.stop();
}

async function start() {
  const session = await ort.InferenceSession.create(path);
  let isFilming = false, work = Promise.resolve();
  // One after the other: a session runs once at a time.
  const follow = (step) => (work = work.then(step).catch((error) => say(`${error.message ?? error}`)));
  const take = (file) => {
    isFilming = false;
    if (file) follow(async () => answer(session, await createImageBitmap(file)));
  };
  by("choose").onclick = () => by("file").click();
  by("file").onchange = ({ target }) => take(target.files[0]);
  by("camera").onclick = () => {
    isFilming = !isFilming;
    if (isFilming)
      follow(async () => {
        for await (const frame of frames(() => isFilming)) await answer(session, frame);
      });
  };
  document.ondragover = (event) => (event.preventDefault(), by("place").classList.add("over"));
  document.ondragleave = () => by("place").classList.remove("over");
  document.ondrop = (event) => {
    event.preventDefault();
    by("place").classList.remove("over");
    take(event.dataTransfer.files[0]);
  };
  const read = async (name) => {
    const file = await fetch(new URL(name, new URL(path, location.href)));
    return file.ok ? new Uint8Array(await file.arrayBuffer()) : null;
  };
  const { count, wrong } = await check(ort, session, read);
  const names = wrong.map(({ name }) => name).join(", ");
  if (wrong.length) say(`Do not trust it: known answers differ here, of ${names}.`);
  else say(count ? "It gives its known answers." : "Ready.");
}

start().catch((error) => say(`${path}: ${error.message ?? error}`));
