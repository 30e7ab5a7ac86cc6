// The page: what goes in, two settings side by side, and what comes out.
import { answerOf, arrayOf, inWords, pictureWith, score, tensorOf, timesOf } from "./answer.js";
import { find, get, make, number, percent, post, Refused, shown, upload } from "./parts.js";
import { Switches, variants } from "./switches.js";

const bench = { state: null, model: null, pictures: {}, texts: {}, running: null, isWaiting: false };

// Words that everybody should read.

function tell(error) {
  const notice = find("notice");
  notice.hidden = error === null;
  notice.textContent = error === null ? "" : shown([error.message, error.hint].filter(Boolean).join(" "));
  if (error !== null && !(error instanceof Refused)) console.warn(error);
}

/** Runs what a button does; an error is shown. */
async function doing(work) {
  tell(null);
  try {
    return await work();
  } catch (error) {
    tell(error instanceof TypeError ? new Refused("The page’s server does not answer.", "Is winml-py view still running?") : error);
    return null;
  }
}

// One setting, and what comes of it: A, and B beside it.

class Side {
  constructor(letter) {
    [this.letter, this.facts, this.look] = [letter, null, { read: "model", channel: -1 }];
    this.element = make("div", { class: `side ${letter.toLowerCase()}` });
    this.switches = new Switches(bench.state.controls, letter, () => evaluate());
    const part = (words, extra = {}) => make("section", { "aria-label": `${words} ${letter}`, ...extra }, make("h2", {}, this.mark(), words));
    [this.tensor, this.answer, this.times, this.settings] =
      [part("What the model is given"), part("What it answers"), part("Time", { class: "wide" }), part("Settings", { class: "wide" })];
    this.summary = make("p", { class: "best", "aria-live": "polite" });
    [this.tensorPart, this.answerPart, this.timePart] = [make("div"), make("div"), make("div")];
    this.words = make("p", { class: "words" });
    this.tensor.append(this.tensorPart);
    this.answer.append(this.summary, this.answerPart);
    this.times.append(this.timePart);
    this.settings.append(this.takeFrom(), this.switches.element, this.words, this.config());
    this.element.append(this.tensor, this.answer, this.times, this.settings);
  }

  mark() {
    return make("span", { class: "letter", "aria-hidden": "true" }, this.letter);
  }

  takeFrom() {
    const tools = make("div", { class: "tools" }, make("span", { class: "soft" }, "Take from"));
    const own = make("button", { type: "button", onclick: () => this.switches.tell(bench.model.contract.words) }, "the model");
    const presets = bench.state.presets.map(({ name, words }) => make("button", { type: "button", onclick: () => this.switches.tell(words) }, name));
    tools.append(own, ...presets);
    return tools;
  }

  config() {
    const text = make("textarea", { rows: 4, spellcheck: "false", "aria-label": `A config for ${this.letter}`, placeholder: '{"image_processor_type": "ViTImageProcessor", …}' });
    const file = make("input", { type: "file", accept: ".json", class: "file", id: `config-${this.letter}`, onchange: async () => {
      if (file.files.length) text.value = await file.files[0].text();
      file.value = "";
      take();
    } });
    const take = () => doing(async () => this.takeConfig(text.value));
    this.configText = text;
    return make("details", {}, make("summary", {}, "From a config of Hugging Face or timm"),
      make("p", { class: "soft" }, "Paste a preprocessor_config.json, or timm’s config.json, or drop the file anywhere."), text,
      make("div", { class: "tools" }, make("button", { type: "button", onclick: take }, "Take it"),
        make("label", { class: "button", for: file.id }, "Choose the file"), file));
  }

  async takeConfig(text) {
    let values;
    try {
      values = JSON.parse(text);
    } catch (error) {
      throw new Refused("The config is not JSON.", String(error.message));
    }
    const contract = await post("api/config", values);
    this.switches.tell(contract.words);
  }

  get hasPicture() {
    return Object.keys(bench.pictures).length > 0;
  }

  /** What is asked of the server for these settings. */
  asked(words = this.switches.words) {
    const inputs = {};
    for (const input of bench.model.inputs) {
      if (bench.pictures[input.name]) inputs[input.name] = { picture: bench.pictures[input.name].id };
      else if (bench.texts[input.name] !== undefined && bench.texts[input.name].trim() !== "") inputs[input.name] = { text: bench.texts[input.name] };
    }
    return { model: bench.model.id, inputs, contract: this.hasPicture ? words : null };
  }

  show(facts) {
    this.facts = facts;
    this.summary.className = "best";
    this.summary.textContent = shown(inWords(facts.answer));
    this.answerPart.replaceChildren(answerOf(facts));
    this.timePart.replaceChildren(timesOf(facts));
    const inputs = facts.inputs.filter((input) => input.tensor || input.array).map((input) => make("div", { class: "field" },
      facts.inputs.length > 1 ? make("h3", {}, shown(input.name)) : null,
      input.tensor ? tensorOf(facts, input, this.look, bench.model.is_stated) : arrayOf(input)));
    this.tensorPart.replaceChildren(...inputs);
    this.words.textContent = facts.contract ? facts.contract.text : "";
    if (facts.contract) this.switches.show(facts.contract.words);
  }

  fail(error) {
    this.facts = null;
    this.summary.className = "error";
    this.summary.textContent = shown([error.message, error.hint].filter(Boolean).join(" "));
    this.answerPart.replaceChildren();
    this.timePart.replaceChildren();
  }
}

let sides = [];

// Evaluating: the latest settings win.

let jobs = 0;

async function ask(asked) {
  const job = `${Date.now()}-${(jobs += 1)}-${Math.random()}`;
  bench.running = job;
  const late = setTimeout(() => { find("stop").hidden = false; }, 400);
  try {
    return await post("api/evaluate", { ...asked, job });
  } finally {
    clearTimeout(late);
    find("stop").hidden = true;
    bench.running = null;
  }
}

const stop = async () => { if (bench.running) await post("api/cancel", { job: bench.running }); };

let loop = null;

/** Evaluates what is on the screen; called again meanwhile, what runs is stopped, and it begins anew. */
function evaluate() {
  bench.isWaiting = true;
  if (loop) return stop().then(() => loop);
  loop = evaluateAll().finally(() => { loop = null; });
  return loop;
}

async function evaluateAll() {
  while (bench.isWaiting) {
    bench.isWaiting = false;
    if (!bench.model || !isReady()) return;
    for (const side of sides) {
      side.element.classList.add("busy");
      try {
        const facts = await ask(side.asked());
        if (!bench.isWaiting) side.show(facts);
      } catch (error) {
        if (!bench.isWaiting) side.fail(error instanceof TypeError ? new Refused("The page’s server does not answer.", "Is winml-py view still running?") : error);
      }
      side.element.classList.remove("busy");
      if (bench.isWaiting) break;
    }
  }
  showPicture();
  showProgram();
}

/** Whether every input that only a picture can be for has one; others are made up. */
const isReady = () => bench.model.inputs.every((input) => !input.is_picture || bench.pictures[input.name] || bench.texts[input.name] !== undefined);

function showPicture() {
  const [name] = pictureInputs(), picture = bench.pictures[name], frame = find("picture");
  if (!picture) {
    frame.replaceChildren(make("p", {}, bench.model ? "Drop a picture here" : "Drop an .onnx file here, or try a sample"));
    return;
  }
  const parts = sides.flatMap((side, at) => {
    const input = side.facts && side.facts.inputs.find((one) => one.name === name);
    return input && input.placement ? [{ seen: input.placement.seen, letter: side.letter, className: at ? "second" : "" }] : [];
  });
  frame.replaceChildren(pictureWith(picture, parts));
}

function showProgram() {
  const [{ facts }] = sides;
  find("program").hidden = !facts;
  find("save").hidden = !facts || !facts.contract;
  find("others").hidden = !facts || !facts.contract;
  if (facts) find("code").textContent = facts.code;
  find("copied").textContent = "";
}

// What goes in.

const pictureInputs = () => (bench.model ? bench.model.inputs.filter((input) => input.is_picture && bench.texts[input.name] === undefined).map((input) => input.name) : []);

function showFields() {
  const inputs = bench.model.inputs, hasPictures = inputs.some((input) => input.is_picture);
  find("picture-part").hidden = !hasPictures;
  find("fields").replaceChildren(...inputs.map((input) => {
    const id = `input-${inputs.indexOf(input)}`, isText = !input.is_picture || bench.texts[input.name] !== undefined;
    const field = make("div", { class: "field" }, make("label", { for: id }, `${shown(input.name)}: ${shown(input.words)}`));
    if (!isText) {
      if (inputs.length > 1) field.append(make("p", { class: "soft" }, "the picture above"));
      return inputs.length > 1 ? field : make("p", { class: "soft" }, `${shown(input.name)}: ${shown(input.words)}`);
    }
    const text = make("textarea", { id, rows: 3, spellcheck: "false", placeholder: "empty: made-up values. Numbers, a text, or JSON", onchange: () => { bench.texts[input.name] = text.value; evaluate(); } });
    text.value = bench.texts[input.name] || "";
    const note = make("span", { class: "soft", role: "status" });
    const fill = () => doing(async () => {
      const made = await post("api/example", { model: bench.model.id, input: input.name });
      bench.texts[input.name] = text.value = made.text ?? "";
      note.textContent = made.made_up ? `made up: ${made.made_up}` : "";
      evaluate();
    });
    field.append(text, make("div", { class: "tools" }, make("button", { type: "button", onclick: fill }, "Make up values"), note));
    return field;
  }));
}

// Models and pictures that come.

async function openModel(facts, picture = null) {
  const before = Object.values(bench.pictures)[0] || null;
  bench.model = facts;
  [bench.pictures, bench.texts] = [{}, {}];
  find("model-name").textContent = shown(facts.name);
  document.title = `${shown(facts.name)}: what the model sees`;
  find("model-about").textContent = shown(facts.description || facts.outputs.map((one) => `${one.name}: ${one.words}`).join("; "));
  find("saved").textContent = "";
  find("tried").hidden = true;
  find("save-name").value = facts.name.replace(/\.onnx$/i, "") + "_contract.onnx";
  find("save-beside").hidden = !facts.path;
  find("isolation").hidden = facts.is_isolated;
  find("compare").closest("label").hidden = !facts.contract;
  if (!facts.contract) find("compare").checked = false;
  makeSides();
  const shownPicture = picture || before;
  if (shownPicture) for (const name of pictureInputs()) bench.pictures[name] = shownPicture;
  showFields();
  showPicture();
  await evaluate();
}

function makeSides() {
  const isCompared = find("compare").checked;
  sides = (isCompared ? ["A", "B"] : ["A"]).map((letter) => sides.find((side) => side.letter === letter && side.model === bench.model.id) || newSide(letter));
  find("sides").replaceChildren(...sides.map((side) => side.element));
  find("sides").classList.toggle("two", isCompared);
}

function newSide(letter) {
  const side = new Side(letter), other = sides.find((one) => one.model === bench.model.id);
  side.model = bench.model.id;
  side.look.read = bench.model.is_stated ? "model" : "numbers";
  const words = other ? other.switches.words : bench.model.contract && bench.model.contract.words;
  side.settings.hidden = !words;
  if (words) side.switches.show(words);
  return side;
}

async function takePicture(file, name) {
  if (!bench.model) throw new Refused("Open a model first.", "");
  if (!bench.model.inputs.some((input) => input.is_picture)) throw new Refused("This model takes no pictures.", "Write its inputs into the fields.");
  const picture = await upload(`api/pictures?${new URLSearchParams({ name: name || file.name || "picture.png" })}`, file);
  for (const each of pictureInputs()) bench.pictures[each] = picture;
  showPicture();
  await evaluate();
}

async function takeFile(file) {
  if (/\.onnx$/i.test(file.name)) await openModel(await upload(`api/models?${new URLSearchParams({ name: file.name })}`, file));
  else if (/\.json$/i.test(file.name) && sides.length) await sides[0].takeConfig(await file.text());
  else await takePicture(file);
}

// The camera: only while somebody asked for it.

let stream = null;

async function startCamera() {
  try {
    stream = await navigator.mediaDevices.getUserMedia({ video: true });
  } catch (error) {
    throw new Refused(`The camera cannot be used: ${error.message}.`, "");
  }
  find("video").srcObject = stream;
  find("camera-part").hidden = false;
  await find("video").play();
}

function stopCamera() {
  if (stream) stream.getTracks().forEach((track) => track.stop());
  stream = null;
  find("video").srcObject = null;
  find("camera-part").hidden = true;
}

async function takeFrame() {
  const video = find("video"), canvas = make("canvas", { width: video.videoWidth, height: video.videoHeight });
  canvas.getContext("2d").drawImage(video, 0, 0);
  const blob = await new Promise((done) => canvas.toBlob(done, "image/png"));
  await takePicture(blob, "camera.png");
}

// Other settings, saving, copying.

async function tryOthers() {
  const [side] = sides, body = find("tried").tBodies[0], rows = [["A, as it is", side.switches.words], ...variants(side.switches.words)];
  find("tried").hidden = false;
  body.replaceChildren();
  let best = -Infinity;
  for (const [what, words] of rows) {
    let answer = "", sure = null;
    try {
      const facts = await ask(side.asked(words));
      [answer, sure] = [inWords(facts.answer), score(facts.answer)];
    } catch (error) {
      if (error.type === "CanceledError") return;
      answer = error.message;
    }
    const use = make("button", { type: "button", "aria-label": `${what}: show as B`, onclick: () => showAsB(words) }, "show as B");
    const row = make("tr", {}, make("td", {}, what), make("td", {}, shown(answer)), make("td", { class: "number" }, sure === null ? "" : sure >= 0 && sure <= 1 ? percent(sure) : number(sure)), make("td", {}, words === side.switches.words ? "" : use));
    body.append(row);
    best = Math.max(best, sure ?? -Infinity);
  }
}

function showAsB(words) {
  find("compare").checked = true;
  makeSides();
  sides[1].switches.tell(words);
  find("sides").scrollIntoView({ behavior: "smooth" });
}

async function save(where) {
  const [side] = sides;
  const inputs = bench.model.inputs.filter((input) => bench.pictures[input.name]).map((input) => input.name);
  const name = find("save-name").value.trim();
  const came = await post("api/save", { model: bench.model.id, contract: side.switches.words, inputs, name, where });
  if (where === "beside") {
    find("saved").replaceChildren(`Written: ${shown(came.path)} `, make("button", { type: "button", onclick: () => doing(() => openModel(came)) }, "Open it"));
    return;
  }
  const address = URL.createObjectURL(await came.blob()), link = make("a", { href: address, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 60000);
  find("saved").textContent = "Downloaded.";
}

async function copy() {
  try {
    await navigator.clipboard.writeText(find("code").textContent);
    find("copied").textContent = "Copied.";
  } catch {
    getSelection().selectAllChildren(find("code"));
    find("copied").textContent = "Selected: copy it with the keyboard.";
  }
}

// The beginning.

function listen() {
  const on = (id, event, work) => find(id).addEventListener(event, (happened) => { happened.preventDefault(); doing(() => work(happened)); });
  on("evaluate", "click", evaluate);
  on("stop", "click", stop);
  on("camera", "click", startCamera);
  on("camera-stop", "click", stopCamera);
  on("camera-take", "click", takeFrame);
  on("try", "click", tryOthers);
  on("save-form", "submit", () => save("beside"));
  on("save-download", "click", () => save("download"));
  on("copy", "click", copy);
  find("compare").addEventListener("change", () => { if (bench.model) { makeSides(); evaluate(); } });
  for (const id of ["model-file", "picture-file"]) {
    find(id).addEventListener("change", () => doing(async () => {
      const [file] = find(id).files;
      if (file) await (id === "model-file" ? takeFile(file) : takePicture(file));
      find(id).value = "";
    }));
  }
  addEventListener("dragover", (event) => { event.preventDefault(); document.body.classList.add("dragged"); });
  addEventListener("dragleave", (event) => { if (!event.relatedTarget) document.body.classList.remove("dragged"); });
  addEventListener("drop", (event) => {
    event.preventDefault();
    document.body.classList.remove("dragged");
    const [file] = event.dataTransfer.files;
    if (file) doing(() => takeFile(file));
  });
  addEventListener("paste", (event) => {
    const [file] = event.clipboardData.files;
    if (!file) return;
    event.preventDefault();
    doing(() => takeFile(file));
  });
}

async function begin() {
  bench.state = await get("api/state");
  const samples = bench.state.samples.map(({ name }) => make("button", { type: "button", onclick: () => doing(async () => {
    const opened = await post("api/samples", { name });
    await openModel(opened.model, opened.picture || null);
  }) }, shown(name.replace(".onnx", ""))));
  if (samples.length) find("samples").append(make("span", { class: "soft" }, "or try"), ...samples);
  listen();
  showPicture();
  if (bench.state.model) await openModel(bench.state.model, bench.state.picture || null);
}

doing(begin);
