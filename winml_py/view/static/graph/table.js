// The kernels as a table that is sorted by a click on a head, and filtered.

import { make, shown } from "../static/parts.js";

const SHOWN = 2000; // rows; the filter reaches the others

const numbers = new Intl.NumberFormat("en", { maximumFractionDigits: 1, minimumFractionDigits: 1 });

export function microseconds(value) {
  return value >= 1000 ? `${numbers.format(value / 1000)} ms` : `${numbers.format(value)} µs`;
}

const COLUMNS = {
  name: (row) => row.name,
  operator: (row) => row.operator,
  place: (row) => row.place,
  time: (row) => row.busy_us,
};

export class NodeTable {
  /** @param {HTMLTableElement} element @param {function} pick is called with the row that was chosen. */
  constructor(element, pick) {
    this._element = element;
    this._pick = pick;
    this._rows = [];
    this._lines = new Map();
    this._filter = "";
    this._order = "time";
    this._isDown = true;
    for (const button of element.tHead.querySelectorAll("button")) {
      button.addEventListener("click", () => this._sortBy(button.dataset.column));
    }
  }

  show(rows) {
    this._rows = rows;
    this._render();
  }

  filter(text) {
    this._filter = text.toLowerCase();
    this._render();
  }

  /** Marks the rows of these, and brings the first one into view. */
  mark(rows) {
    const chosen = new Set(rows);
    let isFirst = true;
    for (const [row, line] of this._lines) {
      line.classList.toggle("chosen", chosen.has(row));
      if (chosen.has(row) && isFirst) {
        isFirst = false;
        const body = this._element.closest(".scrolled");
        const [inner, outer] = [line.getBoundingClientRect(), body.getBoundingClientRect()];
        if (inner.top < outer.top + 40 || inner.bottom > outer.bottom) {
          body.scrollTop += inner.top - outer.top - outer.height / 2;
        }
      }
    }
  }

  _sortBy(column) {
    this._isDown = column === this._order ? !this._isDown : column === "time";
    this._order = column;
    this._render();
  }

  _render() {
    for (const head of this._element.tHead.querySelectorAll("th")) {
      const isSorted = head.querySelector("button")?.dataset.column === this._order;
      if (isSorted) {
        head.setAttribute("aria-sort", this._isDown ? "descending" : "ascending");
      } else {
        head.removeAttribute("aria-sort");
      }
    }
    const value = COLUMNS[this._order];
    const compare = (a, b) =>
      typeof value(a) === "number" ? value(a) - value(b) : value(a).localeCompare(value(b), "en", { numeric: true });
    const words = (row) => `${row.name} ${row.operator} ${row.place} ${row.covers.join(" ")}`.toLowerCase();
    const rows = this._rows.filter((row) => words(row).includes(this._filter)).sort(compare);
    if (this._isDown) {
      rows.reverse();
    }
    this._lines = new Map(rows.slice(0, SHOWN).map((row) => [row, this._line(row)]));
    const more = rows.length - SHOWN;
    const lines = [...this._lines.values()];
    if (more > 0) {
      lines.push(make("tr", {}, make("td", { colspan: 4 }, `${more} more: filter for them.`)));
    }
    this._element.tBodies[0].replaceChildren(...lines);
  }

  _line(row) {
    const bar = make("span", { class: "bar" });
    bar.style.width = `${100 * row.heat * row.heat}%`;
    const notes = [row.is_optimizers ? origin(row) : "", row.reason].filter(Boolean);
    return make("tr", { class: "kernel" },
      make("td", { class: "name" },
        make("button", { type: "button", onclick: () => this._pick(row) }, shown(row.name)),
        ...notes.map((note) => make("small", {}, shown(note)))),
      make("td", { class: "operator" }, shown(row.operator)),
      make("td", { class: "place" }, make("span", { class: `swatch place-${row.color}` }), row.place),
      make("td", { class: "number" }, microseconds(row.busy_us), bar));
  }
}

function origin(row) {
  return row.covers.length ? `made by the optimizer, from ${row.covers.join(", ")}` : "made by the optimizer";
}
