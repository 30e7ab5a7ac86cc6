// Does a model give its known answers here? In Node and in browsers.
//
// `winml-py run MODEL PICTURE --record` writes folders test_data_set_0, test_data_set_1, ... next to a model: the pixels
// of pictures, for a model with a built-in contract, and the answers. In a folder with onnxruntime-node or
// onnxruntime-web from npm:
//
//     node check.mjs MODEL.onnx [onnxruntime-web]

// The largest right difference. Sums in another order differ by a hundredth of it, and half precision by more.
const TOLERANCE = 1e-4;

// The element types of ONNX, by their numbers; ones without numbers are texts.
const TYPES = {
  1: ["float32", Float32Array], 2: ["uint8", Uint8Array], 3: ["int8", Int8Array], 4: ["uint16", Uint16Array],
  5: ["int16", Int16Array], 6: ["int32", Int32Array], 7: ["int64", BigInt64Array], 8: ["string"],
  9: ["bool", Uint8Array], 10: ["float16", Uint16Array], 11: ["float64", Float64Array], 12: ["uint32", Uint32Array],
  13: ["uint64", BigUint64Array],
};

// The tensor in a file of protobuf: its fields are 1, a size; 2, the type; 6, a text; and 9, the numbers as bytes.
function readTensor(file) {
  if (!file) return null;
  const dims = [], texts = [];
  let at = 0, type = 0, bytes = new Uint8Array();
  const readNumber = () => {
    for (let number = 0, factor = 1; ; factor *= 128) {
      number += (file[at] & 127) * factor;
      if (file[at++] < 128) return number;
    }
  };
  while (at < file.length) {
    const tag = readNumber(), value = readNumber(), field = tag >> 3; // a number, or the length of what follows
    if (field === 1) dims.push(value);
    if (field === 2) type = value;
    if (tag % 8 !== 2) continue;
    const content = file.slice(at, (at += value));
    if (field === 6) texts.push(new TextDecoder().decode(content));
    if (field === 9) bytes = content;
  }
  const [name, Numbers] = TYPES[type];
  return { type: name, dims, data: Numbers ? new Numbers(bytes.buffer) : texts };
}

// A tensor's numbers; onnxruntime gives float16 as its bits where the engine has no Float16Array.
function numbersOf({ type, data }) {
  if (type !== "float16" || !(data instanceof Uint16Array)) return data;
  return Float64Array.from(data, (bits) => {
    const exponent = (bits >> 10) & 31, fraction = bits & 1023, sign = bits >> 15 ? -1 : 1;
    if (exponent === 31) return fraction ? NaN : sign * Infinity;
    return sign * (exponent ? 2 ** (exponent - 25) * (1024 + fraction) : 2 ** -24 * fraction);
  });
}

// How far an output is from its answer, as a share of the largest number of its channel; Infinity if it is another.
function difference(answer, tensor) {
  if (!answer || !tensor || answer.type !== tensor.type || answer.dims.join() !== tensor.dims.join()) return Infinity;
  const { type, dims } = answer, wanted = numbersOf(answer), came = numbersOf(tensor);
  if (!type.startsWith("float")) return wanted.every((value, i) => value === came[i]) ? 0 : Infinity;
  // Boxes in pixels may be beside scores up to 1. The channels are the last sizes, or the second ones if these are fewer.
  const axis = dims.length > 2 && dims[1] <= dims.at(-1) ? 1 : dims.length - 1;
  const step = dims.slice(axis + 1).reduce((product, size) => product * size, 1);
  const channels = wanted.length < 16 * dims[axis] ? 1 : dims[axis] ?? 1; // a short one has no scale of its own
  const channelOf = (i) => Math.floor(i / step) % channels, scales = new Float64Array(channels);
  wanted.forEach((value, i) => {
    if (Number.isFinite(value)) scales[channelOf(i)] = Math.max(scales[channelOf(i)], Math.abs(value));
  });
  const least = scales.reduce((one, other) => Math.max(one, other), 0) / 1000 || 1;
  const shares = Float64Array.from(wanted, (value, i) => {
    const share = Object.is(value, came[i]) ? 0 : Math.abs(value - came[i]) / Math.max(scales[channelOf(i)], least);
    return Number.isNaN(share) ? Infinity : share;
  });
  return shares.reduce((one, other) => Math.max(one, other), 0);
}

/**
 * Evaluates the samples next to a model, and lists the outputs that differ from their answers: the sample's number, the
 * output's name, and by how much it differs. With an empty list, the model answers here as where it was made.
 *
 * @param ort onnxruntime-node or onnxruntime-web
 * @param session an InferenceSession of the model
 * @param read reads a file next to the model as a Uint8Array, or gives null if there is none
 * @returns the number of samples, and the list: { count, wrong }
 */
export async function check(ort, session, read) {
  const wrong = [];
  for (let sample = 0; ; sample++) {
    const readAll = (kind, names) =>
      Promise.all(names.map(async (_, i) => readTensor(await read(`test_data_set_${sample}/${kind}_${i}.pb`))));
    const inputs = await readAll("input", session.inputNames), outputs = await readAll("output", session.outputNames);
    if (!inputs.every(Boolean)) return { count: sample, wrong };
    const feeds = inputs.map(({ type, data, dims }, i) => [session.inputNames[i], new ort.Tensor(type, data, dims)]);
    const came = await session.run(Object.fromEntries(feeds));
    outputs.forEach((answer, i) => {
      const name = session.outputNames[i], by = difference(answer, came[name]);
      if (!(by <= TOLERANCE)) wrong.push({ sample, name, difference: by });
    });
  }
}

if (globalThis.process?.argv[1]?.endsWith("check.mjs")) {
  const { readFile } = await import("node:fs/promises");
  const { createRequire } = await import("node:module");
  const { dirname, join } = await import("node:path");
  const [model, runtime = "onnxruntime-node"] = process.argv.slice(2);
  const ort = createRequire(`${process.cwd()}/`)(runtime); // from the folder in which the program is called
  const session = await ort.InferenceSession.create(await readFile(model));
  const read = async (name) => new Uint8Array(await readFile(join(dirname(model), name))); // a copy of its own
  const { count, wrong } = await check(ort, session, (name) => read(name).catch(() => null));
  for (const { sample, name, difference } of wrong) console.log(`sample ${sample}: ${name} differs by ${difference}`);
  console.log(!count ? "no samples" : wrong.length ? "wrong" : "right");
  process.exit(wrong.length || !count ? 1 : 0); // onnxruntime-web's threads would keep the process alive
}
