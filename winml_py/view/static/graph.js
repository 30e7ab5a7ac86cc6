// The page of the graph: the drawing of the installed Netron package, and a table of what runs where, and how long.
import { doing, find, get, leadOn, make, number, Refused, shown, table } from "./parts.js";

const openKey = () => new URLSearchParams(location.search).get("model") || "";

// The drawing. Netron's own host starts its telemetry; this one knows no address but those of this page.

class Host {
  constructor(base) {
    Object.assign(this, { base, window, document, type: "winml-py", version: null, options: new Map() });
  }

  environment(name) {
    return { name: "winml-py", menu: false, packaged: false, repository: "" }[name];
  }

  async view(view) {
    this.drawing = view;
  }

  async start() {
    const response = await get(`api/models/${openKey()}`), stream = new this.base.BinaryStream(new Uint8Array(await response.arrayBuffer()));
    this.drawing.show("welcome spinner");
    await this.drawing.open({
      identifier: "model.onnx", // the file's own name decides nothing
      stream,
      asset: (file) => this.asset(file),
      fetch: () => Promise.reject(new Refused("Weights in files beside the model are not shown.")),
      require: (id) => this.require(id),
      error: (error) => this.exception(error),
    });
    this.drawing.show(null);
  }

  require(id) {
    return import(`./netron/${id.replace("./", "")}.js`);
  }

  worker() {
    return new Worker(new URL("./netron/worker.js", import.meta.url), { type: "module" });
  }

  async asset(file) {
    return (await get(`netron/${encodeURIComponent(file)}`)).text();
  }

  async message(text) {
    if (text) this.exception(new Refused(text));
    return 0;
  }

  exception(error) {
    find("notice").hidden = !error;
    find("notice").textContent = error ? shown(error.message) : "";
  }

  get(name) {
    return this.options.get(name);
  }

  set(name, value) {
    this.options.set(name, value);
  }

  delete(name) {
    this.options.delete(name);
  }

  event() {}

  update() {}

  async execute() {}

  async export() {}

  openURL() {}
}

const read = (markup) => new DOMParser().parseFromString(markup, "text/html");

/** What Netron writes as markup, with names and texts of the model in it, becomes text; styles are set as the policy allows. */
function keepToText() {
  const { setAttribute } = Element.prototype;
  Object.defineProperty(Element.prototype, "innerHTML", {
    set(markup) {
      this.textContent = shown(read(String(markup).replace(/<[^>]*>/g, "")).documentElement.textContent);
    },
  });
  Element.prototype.setAttribute = function set(name, value) {
    if (name === "style") this.style.cssText = value;
    else setAttribute.call(this, name, value);
  };
}

/** Netron's own page gives its style, and the elements that it draws into. */
async function drawGraph() {
  const page = await get("netron/index.html").catch(() => {
    throw new Refused("The drawing needs the package netron.", "pip install 'winml-py[view]'");
  });
  const text = await page.text(), style = new CSSStyleSheet();
  style.replaceSync(/<style>(.*?)<\/style>/s.exec(text)[1]);
  document.adoptedStyleSheets.push(style);
  const parsed = read(text.replace(/<style>.*?<\/style>| style="[^"]*"| href="javascript:[^"]*"/gs, ""));
  parsed.querySelector("#toolbar select").setAttribute("aria-label", "Graph or function");
  for (const id of ["target", "sidebar", "toolbar"]) find("drawing").append(document.importNode(parsed.getElementById(id), true));
  keepToText();
  const [{ View }, base] = await Promise.all([import("./netron/view.js"), import("./netron/base.js")]);
  const view = new View(new Host(base));
  await view.start();
}

// The table.

async function measure() {
  const facts = await get(`api/nodes/${openKey()}`), milliseconds = (time) => `${number(time / 1000)} ms`;
  const places = Object.entries(facts.providers_us).map(([name, time]) => `${name}: ${milliseconds(time)}`);
  const reasons = new Map(facts.on_cpu.map((node) => [node.node, node.reason]));
  const rows = facts.nodes.map(({ name, operator, provider, time }) =>
    [name, operator, provider.replace("ExecutionProvider", ""), milliseconds(time), reasons.get(name) || ""]);
  find("measured").replaceChildren(
    make("p", {}, `${rows.length} nodes of the optimised graph on ${shown(facts.device)}: ${milliseconds(facts.total_us)} per evaluation. ${places.join("; ")}. ${facts.caution}`),
    table(["node", "operator", "runs on", "time", ""], rows));
}

doing(async () => {
  leadOn();
  const drawn = drawGraph().catch((error) => error);
  const measured = measure().catch((error) => {
    find("measured").replaceChildren(make("p", { class: "error" }, shown(error.message)));
  });
  const [error] = await Promise.all([drawn, measured]);
  document.body.dataset.state = "ready";
  if (error) throw error;
});
