// The program that Netron's `view.View` expects around it, in place of its own browser.js: no telemetry, no consent,
// no menu, nothing stored, and no address but those of this page.

import { get } from "../static/parts.js";
import { BinaryStream } from "./netron/base.js";

const MODULES = new Set(["./onnx", "./onnx-proto", "./onnx-schema"]);
const MODEL = "model.onnx"; // the file's own name decides nothing

export class Host {
  /**
   * @param {{say: function, ask: function, hush: function, drawn: function}} page says something, asks whether to
   * cancel, takes that back, and is notified of a drawing.
   */
  constructor(page) {
    this._page = page;
    this._options = new Map();
    this._assets = new Map();
  }

  get window() {
    return window;
  }

  get document() {
    return document;
  }

  get type() {
    return "winml-py";
  }

  get version() {
    return null;
  }

  environment(name) {
    return { name: "winml-py", menu: false, packaged: false, repository: "" }[name];
  }

  async view(view) {
    this._view = view;
  }

  async start() {
    const response = await get(`model${location.search}`);
    this._view.show("welcome spinner");
    const stream = new BinaryStream(new Uint8Array(await response.arrayBuffer()));
    const context = {
      identifier: MODEL,
      stream,
      asset: (file) => this.asset(file),
      fetch: (file) => this.fetch(file),
      require: (id) => this.require(id),
      error: (error) => this.exception(error),
    };
    await this._view.open(context);
    this._view.show(null);
  }

  async require(id) {
    if (!MODULES.has(id)) {
      throw new Error("The renderer cannot read this file as an ONNX model.");
    }
    return import(`./netron/${id.slice(2)}.js`);
  }

  worker() {
    return new Worker(new URL("./netron/worker.js", import.meta.url), { type: "module" });
  }

  async asset(file) {
    if (!this._assets.has(file)) {
      this._assets.set(
        file,
        fetch(new URL(`./netron/${encodeURIComponent(file)}`, import.meta.url)).then((response) => response.text()),
      );
    }
    return this._assets.get(file);
  }

  async fetch() {
    throw new Error("Weights in files beside the model are not shown.");
  }

  async message(text, isAlert, action) {
    if (!text) {
      this._page.hush();
      return 0;
    }
    if (isAlert) {
      this._page.say(text);
      return 0;
    }
    return this._page.ask(text, action);
  }

  event(name, facts) {
    if (name === "screen_view" && facts.screen_name === "default") {
      this._page.drawn();
    }
  }

  exception(error) {
    if (error) {
      this._page.say(error.message);
    }
  }

  get(name) {
    return this._options.get(name);
  }

  set(name, value) {
    this._options.set(name, value);
  }

  delete(name) {
    this._options.delete(name);
  }

  update() {}

  async execute() {}

  async export() {}

  openURL() {}
}
