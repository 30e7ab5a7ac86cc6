// Does a model give its known answers here? In Node and in browsers.
//
// `winml-py contract MODEL --sample PICTURE` writes MODEL.answers.json beside a model with a built-in contract: small
// pictures as bytes, and numbers of the outputs for them. In a folder with onnxruntime-node or onnxruntime-web from npm:
//
//     node check.mjs MODEL.onnx [onnxruntime-web]

// The example picture: rings that become narrower, which every kernel scales to something else.
function waves(shape, seed) {
  const [height, width, channels] = shape.slice(-3);
  const data = new Uint8Array(height * width * channels);
  for (let y = 0, i = 0; y < height; y++)
    for (let x = 0; x < width; x++)
      for (let channel = 1; channel <= channels; channel++) data[i++] = ((x * x + y * y) * (channel + seed)) / 32;
  return data;
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

// How far an output is from the known one, as a share of the largest numbers of its channel; Infinity if it is another.
function difference(known, tensor) {
  if (tensor === undefined || known.shape.join() !== tensor.dims.join()) return Infinity;
  if ((known.kind === "float") !== tensor.type.startsWith("float")) return Infinity;
  const numbers = numbersOf(tensor);
  if (known.kind !== "float") {
    // Texts, integers and booleans are equal or not; bytes are levels, as in pictures, and may be one off.
    const text = (value) => String(typeof value === "boolean" ? Number(value) : value);
    const isEqual = (came, value) => (known.kind === "byte" ? Math.abs(came - value) <= 1 : text(came) === text(value));
    return known.positions.every((position, i) => isEqual(numbers[position], known.values[i])) ? 0 : Infinity;
  }
  let largest = 0;
  known.positions.forEach((position, i) => {
    const came = numbers[position], value = known.values[i]; // JSON has no NaN or infinity: they are texts
    const isSame = typeof value === "string" && String(came).toLowerCase().slice(0, 3) === value.slice(0, 3);
    const share = isSame ? 0 : Math.abs(came - value) / known.scales[i];
    largest = Math.max(largest, Number.isNaN(share) ? Infinity : share);
  });
  const finite = numbers.filter(Number.isFinite); // their mean stands for all numbers that are not stored
  if (!finite.length) return largest;
  const mean = finite.reduce((sum, number) => sum + number, 0) / finite.length;
  return Math.max(largest, Math.abs(mean - known.mean[0]) / Math.max(...known.scales));
}

/**
 * Evaluates the known pictures, and lists the outputs that differ from the known answers: the sample's number, the
 * output's name, and by how much it differs. An empty list means that the model answers here as where it was made.
 *
 * @param ort onnxruntime-node or onnxruntime-web
 * @param session an InferenceSession of the model
 * @param answers the content of MODEL.answers.json
 */
export async function check(ort, session, answers) {
  const wrong = [];
  for (const [sample, { inputs, outputs }] of answers.samples.entries()) {
    const feeds = {};
    for (const [name, { shape, bytes, seed }] of Object.entries(inputs)) {
      const data = bytes === undefined ? waves(shape, seed) : Uint8Array.from(atob(bytes), (c) => c.charCodeAt(0));
      feeds[name] = new ort.Tensor("uint8", data, shape);
    }
    const came = await session.run(feeds);
    for (const known of outputs) {
      const by = difference(known, came[known.name]);
      if (!(by <= known.tolerance)) wrong.push({ sample, name: known.name, difference: by, tolerance: known.tolerance });
    }
  }
  return wrong;
}

if (globalThis.process?.argv[1]?.endsWith("check.mjs")) {
  const { readFile } = await import("node:fs/promises");
  const { createRequire } = await import("node:module");
  const [model, runtime = "onnxruntime-node"] = process.argv.slice(2);
  const ort = createRequire(`${process.cwd()}/`)(runtime); // from the folder in which the program is called
  const session = await ort.InferenceSession.create(await readFile(model));
  const wrong = await check(ort, session, JSON.parse(await readFile(`${model}.answers.json`, "utf8")));
  for (const { sample, name, difference } of wrong) console.log(`sample ${sample}: ${name} differs by ${difference}`);
  console.log(wrong.length ? "wrong" : "right");
  process.exit(wrong.length ? 1 : 0); // onnxruntime-web's threads would keep the process alive
}
