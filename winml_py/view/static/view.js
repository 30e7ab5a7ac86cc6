// The page: what goes in, two settings side by side, and what comes out.
import { answerOf, inWords, pictureWith, placementInWords, tensorOf, timesOf } from "./answer.js";
import { doing, find, get, make, on, post, Refused, shown, table, upload } from "./parts.js";
import { isSame, Switches, variants } from "./switches.js";

/** What is open. Of the inputs that take pictures, `chosen` is the one whose picture and settings are on the screen. */
const bench = { state: null, model: null, pictures: {}, texts: {}, chosen: "", running: null };

const inputOf = (name) => bench.model.inputs.find((input) => input.name === name);
const pictureInputs = () => bench.model.inputs.filter((input) => input.contract).map((input) => input.name);

// One setting, and what comes of it: A, and B beside it.

class Side {
  constructor(letter, contracts) {
    [this.letter, this.contracts, this.facts, this.reading] = [letter, { ...contracts }, null, ""]; // contracts by input
    this.switches = new Switches(bench.state.switches, (words) => {
      this.contracts[bench.chosen] = words;
      doing(evaluate);
    });
    const part = (title, extra, ...children) => make("section", { "aria-label": `${title} ${letter}`, ...extra },
      make("h2", {}, make("span", { class: "letter", "aria-hidden": "true" }, letter), title), ...children);
    [this.tensorPart, this.answerPart, this.timePart] = [make("div"), make("div"), make("div")];
    this.summary = make("p", { class: "best", "aria-live": "polite" });
    this.settings = part("Settings", { class: "wide" }, this.takeFrom(), this.switches.element, this.config());
    this.element = make("div", { class: `side ${letter.toLowerCase()}` }, part("What the model is given", {}, this.tensorPart),
      part("What it answers", {}, this.summary, this.answerPart), part("Time", { class: "wide" }, this.timePart), this.settings);
    this.showSettings();
  }

  takeFrom() {
    const stated = ["the model", () => inputOf(bench.chosen).contract], named = Object.entries(bench.state.presets).map(([name, words]) => [name, () => words]);
    const buttons = [stated, ...named].map(([name, words]) => make("button", { type: "button", onclick: () => this.switches.tell(words()) }, name));
    return make("div", { class: "tools" }, make("span", { class: "soft" }, "Take from"), ...buttons);
  }

  config() {
    const text = make("textarea", { rows: 4, spellcheck: "false", "aria-label": `A config for ${this.letter}`, placeholder: '{"image_processor_type": "ViTImageProcessor", …}' });
    return make("details", {}, make("summary", {}, "From a config of Hugging Face or timm"),
      make("p", { class: "soft" }, "Paste a preprocessor_config.json or timm’s config.json. To use a file for A, drop it anywhere on the page."), text,
      make("div", { class: "tools" }, make("button", { type: "button", onclick: () => doing(() => this.takeConfig(text.value)) }, "Use it")));
  }

  async takeConfig(text) {
    let values;
    try {
      values = JSON.parse(text);
    } catch (error) {
      throw new Refused("The config is not JSON.", String(error.message));
    }
    this.switches.tell(await post("api/config", values));
  }

  /** The server request for these settings; those of the chosen input may be others. */
  request(words = this.contracts[bench.chosen]) {
    const inputs = {};
    for (const { name } of bench.model.inputs) {
      const contract = name === bench.chosen ? words : this.contracts[name];
      if (bench.pictures[name]) inputs[name] = { picture: bench.pictures[name].id, contract };
      else if (bench.texts[name]) inputs[name] = { text: bench.texts[name] };
    }
    return { model: bench.model.id, inputs };
  }

  showSettings() {
    const words = this.contracts[bench.chosen];
    this.settings.hidden = !words;
    if (words) this.switches.show(words);
  }

  show(facts) {
    this.facts = facts;
    this.summary.className = "best";
    this.summary.textContent = shown(inWords(facts.answer));
    this.answerPart.replaceChildren(answerOf(facts));
    this.timePart.replaceChildren(timesOf(facts));
    Object.assign(this.contracts, facts.contracts);
    this.showSettings();
  }

  /** The tensors, read as was chosen; or with their settings undone where these are the file's, or else as numbers. */
  showTensors(isTrusted) {
    if (!this.facts) return;
    const reading = this.reading || (isTrusted ? "undone" : "numbers");
    const choose = (chosen) => {
      this.reading = chosen;
      this.showTensors(isTrusted);
    };
    this.tensorPart.classList.remove("old");
    this.tensorPart.replaceChildren(...Object.keys(this.facts.tensors).map((name) => tensorOf(this.facts, name, reading, choose)));
  }

  fail(error) {
    this.facts = null;
    this.summary.className = "error";
    this.summary.textContent = shown(error.message);
    this.answerPart.replaceChildren();
    this.timePart.replaceChildren();
    this.tensorPart.classList.add("old"); // it is of the settings before
  }
}

let sides = [];

function makeSides() {
  const letters = find("compare").checked ? ["A", "B"] : ["A"], [first] = sides;
  const stated = Object.fromEntries(pictureInputs().map((name) => [name, inputOf(name).contract]));
  sides = letters.map((letter, at) => sides[at] || new Side(letter, first ? first.contracts : stated));
  find("sides").replaceChildren(...sides.map((side) => side.element));
  find("sides").classList.toggle("two", letters.length > 1);
}

// Evaluating: the latest settings win. The server stops an evaluation when nobody waits for it any more.

/** Runs evaluations until they end, or others begin; `work` is called with the signal that stops them. */
async function runAlone(work) {
  if (bench.running) bench.running.abort();
  const mine = new AbortController();
  bench.running = mine;
  find("stop").hidden = false;
  await work(mine.signal, () => mine !== bench.running);
  if (mine !== bench.running) return;
  find("stop").hidden = true;
  bench.running = null;
}

const evaluate = () => runAlone(async (signal, isOver) => {
  if (pictureInputs().some((name) => !bench.pictures[name])) return; // other inputs are made up
  find("tried").replaceChildren();
  find("try").disabled = true;
  for (const side of sides) {
    side.element.classList.add("busy");
    try {
      const facts = await post("api/evaluate", side.request(), signal);
      if (isOver()) return;
      side.show(facts);
    } catch (error) {
      if (isOver()) return;
      side.fail(error);
    }
    side.element.classList.remove("busy");
  }
  const isTrusted = sides.every((side) => pictureInputs().every((name) => inputOf(name).is_stated && isSame(side.contracts[name], inputOf(name).contract)));
  for (const side of sides) side.showTensors(isTrusted);
  showPicture();
  find("try").disabled = false;
  const [{ facts }] = sides;
  find("program").hidden = !facts;
  find("save").hidden = find("others").hidden = !facts || !bench.chosen;
  find("code").textContent = facts ? facts.code : "";
  find("copied").textContent = "";
});

/** A with one setting changed at a time. */
const tryOthers = () => runAlone(async (signal, isOver) => {
  const rows = [], [side] = sides;
  for (const [name, words] of variants(side.contracts[bench.chosen], inputOf(bench.chosen).is_free)) {
    let answer = "", use = "";
    try {
      answer = inWords((await post("api/evaluate", { ...side.request(words), is_trial: true }, signal)).answer);
      use = make("button", { type: "button", "aria-label": `${name}: show as B`, onclick: () => showAsB(words) }, "show as B");
    } catch (error) {
      answer = `cannot be bound: ${error.message}`;
    }
    if (isOver() || signal.aborted) return;
    rows.push([name, answer, rows.length ? use : ""]);
    find("tried").replaceChildren(table(["changed", "answer", ""], rows));
  }
  find("tried").append(make("p", { class: "soft" }, "This table does not cover other sizes and scalings, the kernel, the padding, or two changes at once."));
});

function showAsB(words) {
  find("compare").checked = true;
  makeSides();
  sides[1].switches.tell(words);
  find("sides").scrollIntoView();
}

// What goes in.

function showPicture() {
  const name = bench.chosen, picture = bench.pictures[name], frame = find("picture");
  find("placed").replaceChildren();
  if (!picture) {
    frame.replaceChildren(make("p", {}, bench.model ? "Drop a picture here" : "Drop an .onnx file here"));
    return;
  }
  const placed = sides.filter(({ facts }) => facts && facts.placements[name]);
  frame.replaceChildren(pictureWith(picture, placed.map(({ letter, facts }) => ({ letter, seen: facts.placements[name].seen }))));
  find("placed").replaceChildren(...placed.map(({ letter, facts }) => make("p", {}, placed.length > 1 ? `${letter}: ` : "", placementInWords(facts.placements[name]))));
}

function showInputs() {
  const names = pictureInputs();
  find("picture-part").hidden = !names.length;
  find("choose").hidden = names.length < 2;
  find("chosen").replaceChildren(...names.map((name) => make("option", { value: name }, shown(name))));
  find("fields").replaceChildren(...bench.model.inputs.map(({ name, words, contract }) => {
    const title = `${shown(name)}: ${shown(words)}`;
    if (contract) return make("p", { class: "soft" }, title);
    const text = make("textarea", { rows: 3, spellcheck: "false", placeholder: "Numbers, text or JSON. If empty, the values are made up" });
    text.addEventListener("change", () => {
      bench.texts[name] = text.value.trim();
      doing(evaluate);
    });
    return make("label", { class: "field" }, make("span", {}, title), text);
  }));
}

async function openModel(facts, picture = Object.values(bench.pictures)[0]) {
  bench.model = facts;
  [bench.pictures, bench.texts, bench.chosen, sides] = [{}, {}, pictureInputs()[0] || "", []];
  if (picture) for (const name of pictureInputs()) bench.pictures[name] = picture;
  find("model-name").textContent = shown(facts.name);
  document.title = `${shown(facts.name)}: what the model sees`;
  find("model-about").textContent = shown(facts.description || facts.outputs.map((one) => `${one.name}: ${one.words}`).join("; "));
  find("save-name").value = `${facts.name.replace(/\.onnx$/i, "")}_contract.onnx`;
  find("saved").textContent = "";
  find("isolation").hidden = facts.is_isolated;
  find("compare").closest("label").hidden = !bench.chosen;
  if (!bench.chosen) find("compare").checked = false;
  makeSides();
  showInputs();
  showPicture();
  showAddress();
  await evaluate();
}

/** The model and the picture in the address: loaded again, the page has them. */
function showAddress() {
  const picture = bench.pictures[bench.chosen], query = new URLSearchParams({ model: bench.model.id, ...(picture ? { picture: picture.id } : {}) });
  history.replaceState(null, "", `?${query}`);
}

async function takePicture(file, name = file.name) {
  if (!bench.model) throw new Refused("Open a model first.");
  if (!bench.chosen) throw new Refused("This model takes no pictures.", "Enter its inputs in the fields.");
  const picture = await send("pictures", file, name);
  for (const input of pictureInputs()) if (input === bench.chosen || !bench.pictures[input]) bench.pictures[input] = picture;
  showPicture();
  showAddress();
  await evaluate();
}

/** Sends a file. One that is too large would be refused while it is sent, which browsers call no answer. */
async function send(kind, file, name) {
  const most = bench.state.most_bytes;
  if (file.size > most) throw new Refused(`${name} has ${Math.ceil(file.size / 2 ** 20)} MB, but the page accepts at most ${most / 2 ** 20} MB.`, "Open it by its path: winml-py view MODEL PICTURE.");
  return upload(`api/${kind}?${new URLSearchParams({ name })}`, file);
}

async function takeFile(file) {
  if (/\.onnx$/i.test(file.name)) await openModel(await send("models", file, file.name));
  else if (/\.json$/i.test(file.name) && bench.chosen) await sides[0].takeConfig(await file.text());
  else await takePicture(file);
}

// The camera: only while somebody asked for it.

async function startCamera() {
  try {
    find("video").srcObject = await navigator.mediaDevices.getUserMedia({ video: true });
  } catch (error) {
    throw new Refused(`The camera cannot be used: ${error.message}.`);
  }
  find("camera-part").hidden = false;
  await find("video").play();
}

function stopCamera() {
  find("video").srcObject.getTracks().forEach((track) => track.stop());
  find("video").srcObject = null;
  find("camera-part").hidden = true;
}

async function takeFrame() {
  const video = find("video"), canvas = make("canvas", { width: video.videoWidth, height: video.videoHeight });
  canvas.getContext("2d").drawImage(video, 0, 0);
  await takePicture(await new Promise((done) => { canvas.toBlob(done, "image/png"); }), "camera.png");
}

// Saving, copying, and the beginning.

async function save() {
  const inputs = pictureInputs(), [{ contracts }] = sides, contract = contracts[inputs[0]];
  if (inputs.some((input) => !isSame(contracts[input], contract))) {
    throw new Refused("The inputs have different settings, but a model’s metadata can store only one contract.", "Give them the same settings, or use the Python below, which binds each with its own.");
  }
  find("saved").textContent = "Writing…";
  try {
    const response = await post("api/save", { model: bench.model.id, contract, inputs });
    const link = make("a", { href: URL.createObjectURL(await response.blob()), download: find("save-name").value.trim() });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
    find("saved").textContent = "Downloaded.";
  } catch (error) {
    find("saved").textContent = "";
    throw error;
  }
}

async function copy() {
  try {
    await navigator.clipboard.writeText(find("code").textContent);
    find("copied").textContent = "Copied.";
  } catch {
    getSelection().selectAllChildren(find("code"));
    find("copied").textContent = "The code is selected. Copy it with the keyboard.";
  }
}

async function takeChosen(id) {
  const [file] = find(id).files;
  if (file) await takeFile(file);
  find(id).value = "";
}

function listen() {
  on("evaluate", "click", () => bench.model && evaluate());
  on("stop", "click", () => bench.running && bench.running.abort());
  on("camera", "click", startCamera);
  on("camera-stop", "click", stopCamera);
  on("camera-take", "click", takeFrame);
  on("try", "click", tryOthers);
  on("save-form", "submit", save);
  on("copy", "click", copy);
  on("model-file", "change", () => takeChosen("model-file"));
  on("picture-file", "change", () => takeChosen("picture-file"));
  on("compare", "change", () => {
    if (!bench.model) return null;
    makeSides();
    return evaluate();
  });
  on("chosen", "change", () => {
    bench.chosen = find("chosen").value;
    sides.forEach((side) => side.showSettings());
    showPicture();
  });
  addEventListener("dragover", (event) => event.preventDefault());
  for (const [name, source] of [["drop", "dataTransfer"], ["paste", "clipboardData"]]) {
    addEventListener(name, (event) => {
      const [file] = event[source].files;
      if (!file && name === "paste") return; // text, for a field
      event.preventDefault();
      if (file) doing(() => takeFile(file));
    });
  }
}

doing(async () => {
  bench.state = await get(`api/state${location.search}`);
  listen();
  showPicture();
  if (bench.state.model) await openModel(bench.state.model, bench.state.picture);
});
