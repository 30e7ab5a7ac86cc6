// Runs models over pictures in onnxruntime-node or onnxruntime-web: the JavaScript of portable.py.
//
//     node portable.mjs onnxruntime-node|onnxruntime-web
//
// In a folder with the packages. Each line of the input names a folder with built.onnx, the model; pictures.json, the
// shapes of the pictures; and pictures.raw, their bytes one after the other. The first output of each is written to
// RUNTIME.raw in the same way, the shapes to RUNTIME.json. Then a line is printed: "done", or the error.
import { closeSync, openSync, readFileSync, readSync, writeFileSync, writeSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const runtime = process.argv[2];
const ort = createRequire(`${process.cwd()}/`)(runtime);
ort.env.wasm.numThreads = 1; // the other runtimes have the other cores

async function run(folder) {
  const session = await ort.InferenceSession.create(readFileSync(`${folder}/built.onnx`));
  const source = openSync(`${folder}/pictures.raw`), target = openSync(`${folder}/${runtime}.raw`, "w"), shapes = [];
  for (const shape of JSON.parse(readFileSync(`${folder}/pictures.json`))) {
    const data = new Uint8Array(shape.reduce((product, side) => product * side, 1));
    readSync(source, data);
    const outputs = await session.run({ [session.inputNames[0]]: new ort.Tensor("uint8", data, shape) });
    const output = outputs[session.outputNames[0]];
    shapes.push(output.dims);
    writeSync(target, new Uint8Array(output.data.buffer, output.data.byteOffset, output.data.byteLength));
  }
  writeFileSync(`${folder}/${runtime}.json`, JSON.stringify(shapes));
  closeSync(source);
  closeSync(target);
  await session.release();
}

for await (const folder of createInterface({ input: process.stdin })) {
  const said = await run(folder).then(() => "done", (error) => `${error}`.split("\n")[0]);
  writeSync(1, `${said}\n`);
}
process.exit(0); // onnxruntime-web's threads would keep the process alive
