// The page: what goes in, two settings side by side, and what comes out.
import { answerOf, arrayOf, inWords, pictureWith, placementInWords, tensorOf, timesOf } from "./answer.js";
import { find, get, inFull, leadOn, make, post, Refused, shown, upload } from "./parts.js";
import { differing, isOther, Switches } from "./switches.js";
import { Trials } from "./trials.js";

/** What is open. Of the inputs that take pictures, `chosen` is the one whose picture and settings are on the screen. */
const bench = { state: null, model: null, pictures: {}, texts: {}, chosen: "", running: new Set(), isWaiting: false };

// Words that everybody should read.

function tell(error) {
  const notice = find("notice");
  notice.hidden = error === null;
  notice.textContent = error === null ? "" : shown(inFull(error));
  if (error !== null && !(error instanceof Refused)) console.warn(error);
}

/** Runs what a button does; an error is shown. */
async function doing(work) {
  tell(null);
  try {
    return await work();
  } catch (error) {
    tell(error);
    return null;
  }
}

// One setting, and what comes of it: A, and B beside it.

class Side {
  constructor(letter) {
    [this.letter, this.model, this.facts, this.look] = [letter, bench.model.id, null, { read: "", channel: -1 }];
    this.contracts = {}; // their words, by input
    this.element = make("div", { class: `side ${letter.toLowerCase()}` });
    this.switches = new Switches(bench.state.controls, (words) => {
      this.contracts[bench.chosen] = words;
      this.took.textContent = "";
      doing(evaluate);
    });
    const part = (words, extra = {}) => make("section", { "aria-label": `${words} ${letter}`, ...extra }, make("h2", {}, this.mark(), words));
    [this.tensor, this.answer, this.times, this.settings] =
      [part("What the model is given"), part("What it answers"), part("Time", { class: "wide" }), part("Settings", { class: "wide" })];
    this.summary = make("p", { class: "best", "aria-live": "polite" });
    [this.tensorPart, this.answerPart, this.timePart] = [make("div"), make("div"), make("div")];
    this.described = make("p", { class: "words" });
    this.tensor.append(this.tensorPart);
    this.answer.append(this.summary, this.answerPart);
    this.times.append(this.timePart);
    this.settings.append(this.takeFrom(), this.switches.element, this.described, this.config());
    this.element.append(this.tensor, this.answer, this.times, this.settings);
  }

  mark() {
    return make("span", { class: "letter", "aria-hidden": "true" }, this.letter);
  }

  takeFrom() {
    const button = (name, wordsOf) => make("button", { type: "button", onclick: () => this.take(name, wordsOf()) }, name);
    const presets = bench.state.presets.map(({ name, words }) => button(name, () => words));
    this.took = make("p", { class: "soft", role: "status" });
    return make("div", {}, make("div", { class: "tools" }, make("span", { class: "soft" }, "Take from"),
      button("the model", () => statedBy(bench.chosen).words), ...presets), this.took);
  }

  /** Takes settings as a whole, and says which of them are others now. */
  take(name, words) {
    const changed = differing(this.words, words, bench.state.controls);
    this.switches.tell(words);
    this.took.textContent = `${shown(name)} changed ${changed.join(", ") || "nothing"}.`;
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
      make("div", { class: "tools" }, make("button", { type: "button", onclick: take }, "Use it"),
        make("label", { class: "button", for: file.id }, "Choose the file"), file));
  }

  async takeConfig(text) {
    let values;
    try {
      values = JSON.parse(text);
    } catch (error) {
      throw new Refused("The config is not JSON.", String(error.message));
    }
    this.take("the config", (await post("api/config", values)).words);
  }

  /** The settings of the chosen input. */
  get words() {
    return this.contracts[bench.chosen];
  }

  /** The server request for these settings; the chosen input's may differ. */
  asked(words = this.words) {
    const inputs = {};
    for (const { name } of bench.model.inputs) {
      const contract = name === bench.chosen ? words : this.contracts[name];
      if (bench.pictures[name]) inputs[name] = { picture: bench.pictures[name].id, contract };
      else if (bench.texts[name] !== undefined && bench.texts[name].trim() !== "") inputs[name] = { text: bench.texts[name] };
    }
    return { model: this.model, inputs };
  }

  /** Shows the settings of the chosen input. */
  showSettings() {
    const { words } = this;
    this.settings.hidden = !words;
    if (words) this.switches.show(words, inputOf(bench.chosen).channels);
    const input = this.facts && this.facts.inputs.find((one) => one.name === bench.chosen);
    this.described.textContent = input && input.contract ? input.contract.text : "";
  }

  show(facts) {
    this.facts = facts;
    this.summary.className = "best";
    this.summary.textContent = shown(inWords(facts.answer));
    this.answerPart.replaceChildren(answerOf(facts));
    this.timePart.replaceChildren(timesOf(facts));
    for (const input of facts.inputs) if (input.contract) this.contracts[input.name] = input.contract.words;
    this.showTensors();
    for (const side of sides) if (side !== this && side.facts && side.reading !== readingOfAll()) side.showTensors();
    this.showSettings();
  }

  showTensors() {
    const { facts } = this;
    this.reading = readingOfAll();
    this.tensorPart.classList.remove("old");
    this.tensorPart.replaceChildren(...facts.inputs.filter((input) => input.tensor || input.array).map((input) => make("div", { class: "field" },
      facts.inputs.length > 1 ? make("h3", {}, shown(input.name)) : null,
      input.tensor ? tensorOf(facts, input, this.look, this.reading) : arrayOf(input))));
  }

  fail(error) {
    this.facts = null;
    this.summary.className = "error";
    this.summary.textContent = shown(inFull(error));
    this.answerPart.replaceChildren();
    this.timePart.replaceChildren();
    this.tensorPart.classList.add("old"); // it is of the settings before
    this.described.textContent = "";
  }
}

let sides = [];

/**
 * How tensors are read where nobody chose: of settings that are the file's, by these. Where a side has others, the file's
 * contract is in question, and the numbers are shown alone: on both sides, for they are compared.
 */
const readingOfAll = () => (sides.every(({ facts }) => !facts || facts.inputs.every((input) => !input.tensor || input.is_as_stated)) ? "model" : "numbers");

// Evaluating: the latest settings win.

let jobs = 0;

async function ask(asked) {
  const job = `${Date.now()}-${(jobs += 1)}-${Math.random()}`;
  bench.running.add(job);
  const late = setTimeout(() => { find("stop").hidden = false; }, 400);
  try {
    return await post("api/evaluate", { ...asked, job });
  } finally {
    clearTimeout(late);
    bench.running.delete(job);
    find("stop").hidden = bench.running.size === 0;
  }
}

const stop = () => Promise.all([...bench.running].map((job) => post("api/cancel", { job })));

let loop = null;

/** Evaluates the current page; a call during an evaluation stops it, and starts again. */
function evaluate() {
  bench.isWaiting = true;
  if (loop) return stop().then(() => loop);
  loop = evaluateAll().finally(() => { loop = null; });
  return loop;
}

async function evaluateAll() {
  trials.age();
  while (bench.isWaiting) {
    bench.isWaiting = false;
    if (!bench.model || !isReady()) return;
    for (const side of sides) {
      side.element.classList.add("busy");
      try {
        const facts = await ask(side.asked());
        if (!bench.isWaiting) side.show(facts);
      } catch (error) {
        if (!bench.isWaiting) side.fail(error);
      }
      side.element.classList.remove("busy");
      if (bench.isWaiting) break;
    }
  }
  showPicture();
  showProgram();
  if (!find("others").hidden) doing(() => trials.begin(sides[0], inputOf(bench.chosen)));
}

/** Whether every input that takes a picture has one; others are made up. */
const isReady = () => bench.model.inputs.every((input) => !input.contract || bench.pictures[input.name]);

function showPicture() {
  const name = bench.chosen, picture = bench.pictures[name], frame = find("picture");
  if (!picture) {
    find("placed").replaceChildren();
    frame.replaceChildren(make("p", {}, bench.model ? "Drop a picture here" : "Drop an .onnx file here"));
    return;
  }
  const parts = sides.flatMap((side, at) => {
    const input = side.facts && side.facts.inputs.find((one) => one.name === name);
    return input && input.placement ? [{ placement: input.placement, letter: side.letter, className: at ? "second" : "" }] : [];
  });
  frame.replaceChildren(pictureWith(picture, parts.map(({ placement, ...part }) => ({ seen: placement.seen, ...part }))));
  find("placed").replaceChildren(...parts.map(({ letter, placement }) => make("p", {}, parts.length > 1 ? `${letter}: ` : "", placementInWords(placement))));
}

function showProgram() {
  const [{ facts }] = sides;
  find("program").hidden = !facts;
  find("save").hidden = find("others").hidden = !facts || !facts.inputs.some((input) => input.contract);
  if (facts) find("code").textContent = facts.code;
  find("copied").textContent = "";
}

// What goes in.

const inputOf = (name) => bench.model.inputs.find((input) => input.name === name);
const statedBy = (name) => inputOf(name).contract;
const pictureInputs = () => bench.model.inputs.filter((input) => input.contract).map((input) => input.name);

/** Shows another input's picture and settings. */
function choose(name) {
  bench.chosen = name;
  sides.forEach((side) => side.showSettings());
  showPicture();
}

function showChoice() {
  const names = pictureInputs();
  find("choose").hidden = names.length < 2;
  find("chosen").replaceChildren(...names.map((name) => make("option", { value: name, selected: name === bench.chosen }, shown(name))));
}

function showFields() {
  const inputs = bench.model.inputs, hasPictures = inputs.some((input) => input.contract);
  find("picture-part").hidden = !hasPictures;
  find("fields").replaceChildren(...inputs.map((input) => {
    const id = `input-${inputs.indexOf(input)}`, isText = !input.contract;
    const field = make("div", { class: "field" }, make("label", { for: id }, `${shown(input.name)}: ${shown(input.words)}`));
    if (!isText) {
      return make("p", { class: "soft" }, `${shown(input.name)}: ${shown(input.words)}`);
    }
    const text = make("textarea", { id, rows: 3, spellcheck: "false", placeholder: "empty: example values. Numbers, a text, or JSON", onchange: () => { bench.texts[input.name] = text.value; doing(evaluate); } });
    text.value = bench.texts[input.name] || "";
    const note = make("span", { class: "soft", role: "status" });
    const fill = () => doing(async () => {
      const made = await post("api/example", { model: bench.model.id, input: input.name });
      bench.texts[input.name] = text.value = made.text ?? "";
      note.textContent = made.made_up ? `example: ${made.made_up}` : "";
      await evaluate();
    });
    field.append(text, make("div", { class: "tools" }, make("button", { type: "button", onclick: fill }, "Example values"), note));
    return field;
  }));
}

// Models and pictures that come.

async function openModel(facts, picture = null) {
  const before = Object.values(bench.pictures)[0] || null;
  bench.model = facts;
  [bench.pictures, bench.texts, bench.chosen] = [{}, {}, pictureInputs()[0] || ""];
  trials.clear();
  find("model-name").textContent = shown(facts.name);
  document.title = `${shown(facts.name)}: what the model sees`;
  find("model-about").textContent = shown(facts.description || facts.outputs.map((one) => `${one.name}: ${one.words}`).join("; "));
  find("outdated").hidden = !facts.outdated.length;
  find("outdated").textContent = shown(facts.outdated.join(" "));
  find("saved").textContent = "";
  find("save-name").value = facts.name.replace(/\.onnx$/i, "") + "_contract.onnx";
  find("save-beside").hidden = !facts.path;
  find("isolation").hidden = facts.is_isolated;
  find("compare").closest("label").hidden = !bench.chosen;
  if (!bench.chosen) find("compare").checked = false;
  makeSides();
  showChoice();
  const shownPicture = picture || before;
  if (shownPicture) for (const name of pictureInputs()) bench.pictures[name] = shownPicture;
  showFields();
  showPicture();
  showAddress();
  await evaluate();
}

/** The model and the picture in the address: loaded again, the page has them, and so have its other pages. */
function showAddress() {
  const picture = bench.pictures[bench.chosen], query = new URLSearchParams({ model: bench.model.id, ...(picture ? { picture: picture.id } : {}) });
  history.replaceState(null, "", `?${query}`);
  leadOn();
}

function makeSides() {
  const isCompared = find("compare").checked;
  sides = (isCompared ? ["A", "B"] : ["A"]).map((letter) => sides.find((side) => side.letter === letter && side.model === bench.model.id) || newSide(letter));
  const others = find("others"); // it may be in a side that goes
  find("sides").replaceChildren(...sides.map((side) => side.element));
  find("sides").classList.toggle("two", isCompared);
  if (isCompared) find("sides").after(others); // as wide as both
  else sides[0].answer.after(others);
}

function newSide(letter) {
  const side = new Side(letter), other = sides.find((one) => one.model === bench.model.id);
  side.contracts = other ? { ...other.contracts } : Object.fromEntries(pictureInputs().map((name) => [name, statedBy(name).words]));
  side.showSettings();
  return side;
}

async function takePicture(file, name) {
  if (!bench.model) throw new Refused("Open a model first.", "");
  if (!bench.chosen) throw new Refused("This model takes no pictures.", "Write its inputs into the fields.");
  const picture = await send("pictures", file, name || file.name || "picture.png");
  for (const each of pictureInputs()) if (each === bench.chosen || !bench.pictures[each]) bench.pictures[each] = picture;
  showPicture();
  showAddress();
  await evaluate();
}

/** Sends a file. One that is too large would be refused while it is sent, which browsers call no answer. */
async function send(kind, file, name) {
  const most = bench.state.most_bytes;
  if (file.size > most) throw new Refused(`${name} has ${Math.ceil(file.size / 2 ** 20)} MB, and the page takes ${most / 2 ** 20} MB.`, "Open it by its path: winml-py view MODEL PICTURE.");
  return upload(`api/${kind}?${new URLSearchParams({ name })}`, file);
}

async function takeFile(file) {
  if (/\.onnx$/i.test(file.name)) await openModel(await send("models", file, file.name));
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

const trials = new Trials(ask, showAsB);

function showAsB(words) {
  find("compare").checked = true;
  makeSides();
  sides[1].switches.tell(words);
  find("sides").scrollIntoView({ behavior: "smooth" });
}

async function save(where) {
  const [{ contracts }] = sides, inputs = pictureInputs().filter((input) => bench.pictures[input]);
  const contract = contracts[inputs[0]], name = find("save-name").value.trim();
  if (inputs.some((input) => isOther(contracts[input], contract))) {
    throw new Refused("The inputs have different settings, but a model’s metadata hold one contract.", "Give them the same settings, or use the Python below, which binds each with its own.");
  }
  const came = await post("api/save", { model: bench.model.id, contract, inputs, name, where });
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
  on("try", "click", () => trials.trySettings(sides[0], inputOf(bench.chosen)));
  on("move", "click", () => trials.tryPictures(sides[0]));
  on("save-form", "submit", () => save("beside"));
  on("save-download", "click", () => save("download"));
  on("copy", "click", copy);
  find("compare").addEventListener("change", () => doing(async () => { if (bench.model) { makeSides(); await evaluate(); } }));
  find("chosen").addEventListener("change", () => choose(find("chosen").value));
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
  bench.state = await get(`api/state${location.search}`);
  listen();
  showPicture();
  if (bench.state.model) await openModel(bench.state.model, bench.state.picture || null);
}

doing(begin);
