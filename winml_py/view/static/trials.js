// Trials of A: with one setting changed at a time, and on other pictures.
import { find, make, number, percent, shown } from "./parts.js";
import { nameOf, scoresOf } from "./answer.js";
import { variants } from "./switches.js";

const SUBSTITUTES = [["", "this picture"], ["turned", "turned by 180°"], ["black", "black"], ["white", "white"], ["noise", "noise"]];
const QUICK = 1500; // milliseconds that all rows may take together for the table to appear automatically
const MAX_ROWS = 16;

/** A share with as many digits as it takes to tell it from 100 %, and from 0. */
export function exactly(share) {
  const rest = Math.min(share, 1 - share) * 100;
  if (rest === 0) return `${share * 100} %`;
  return rest > 0 && rest < 0.05 ? `${(share * 100).toFixed(Math.min(12, 1 - Math.floor(Math.log10(rest))))} %` : percent(share);
}

/** The score of a class, or of the best one; for a class that is not listed, the score it is below. */
function scoreOf(answer, wished) {
  const { scores, areShares } = scoresOf(answer), spelled = areShares ? exactly : number;
  if (!scores.length) return "";
  if (!wished) return spelled(scores[0].score);
  const one = scores.find(({ name }) => name === wished);
  return one ? spelled(one.score) : answer.objects ? "" : `below ${spelled(scores.at(-1).score)}`;
}

/** The rows of a table, as they arrive; `words` names each, and rows whose answer differs from the first are marked. */
class Rows {
  constructor(table) {
    [this.table, this.rows, this.body] = [find(table), [], make("tbody")];
  }

  add(row, wished, ...more) {
    this.rows.push(row);
    const isOther = row.answer && this.rows[0].answer && nameOf(row.answer) !== nameOf(this.rows[0].answer);
    row.score = make("td", { class: "number" }, row.answer ? scoreOf(row.answer, wished) : "");
    const words = row.answer ? nameOf(row.answer) : `cannot be bound: ${row.error}`;
    this.body.append(make("tr", { class: isOther ? "other" : false },
      make("td", {}, row.what), make("td", { class: row.answer ? false : "soft" }, shown(words)), row.score, ...more));
  }

  show() {
    this.table.tBodies[0].replaceWith(this.body);
    this.table.hidden = false;
    this.table.classList.remove("old");
  }

  get classes() {
    return new Set(this.rows.flatMap(({ answer }) => (answer ? scoresOf(answer).scores.map(({ name }) => name) : [])));
  }
}

export class Trials {
  /** `ask` evaluates what a side asks for; `showAsB` shows words beside A. */
  constructor(ask, showAsB) {
    [this.ask, this.showAsB, this.number, this.settings] = [ask, showAsB, 0, null];
    find("wished").addEventListener("change", () => this.showScores());
  }

  /** A has changed: the tables show its earlier settings. */
  age() {
    this.number += 1;
    for (const name of ["tried", "moved"]) find(name).classList.add("old");
    find("try-old").hidden = find("tried").hidden;
    find("ties").replaceChildren();
    find("moves").textContent = "";
  }

  clear() {
    this.number += 1;
    for (const name of ["tried", "moved", "try-old"]) find(name).hidden = true;
    for (const name of ["ties", "wished", "untried", "moves"]) find(name).replaceChildren();
    find("wished").closest("label").hidden = true;
  }

  /** A was evaluated; for a quick model, the table appears automatically. */
  begin(side, input) {
    const { decode, ...times } = side.facts.times; // it is decoded already
    const all = Object.values(times).reduce((sum, one) => sum + one, 0) * MAX_ROWS;
    return all < QUICK ? this.trySettings(side, input, true) : null;
  }

  async answer(asked) {
    try {
      return { answer: (await this.ask({ ...asked, is_trial: true })).answer };
    } catch (error) {
      if (error.type === "CanceledError") return null;
      return { error: error.message };
    }
  }

  async trySettings(side, input, isQuiet = false) {
    const mine = (this.number += 1), own = side.words, rows = new Rows("tried"), { list, untried } = variants(own, input);
    find("tried").setAttribute("aria-busy", "true");
    if (!isQuiet) rows.show();
    for (const [what, words] of [["A, as it is", own], ...list]) {
      const came = await this.answer(side.asked(words));
      if (!came || mine !== this.number) return;
      const use = make("button", { type: "button", "aria-label": `${what}: show as B`, onclick: () => this.showAsB(words) }, "show as B");
      rows.add({ what, ...came }, find("wished").value, make("td", {}, words === own || !came.answer ? "" : use));
    }
    rows.show();
    find("tried").setAttribute("aria-busy", "false");
    this.settings = rows;
    find("try-old").hidden = true;
    this.showClasses();
    this.showTies();
    find("untried").textContent = `Not in this table: ${untried.join(", ")}, and two changes at once. If none is right, change these in the settings.`;
  }

  showClasses() {
    const { value } = find("wished"), classes = [...this.settings.classes].sort();
    find("wished").closest("label").hidden = !classes.length;
    find("wished").replaceChildren(make("option", { value: "" }, "the row’s own answer"),
      ...classes.map((name) => make("option", { value: name, selected: name === value }, shown(name))));
    this.showScores();
  }

  showScores() {
    for (const { answer, score } of this.settings.rows) score.textContent = answer ? scoreOf(answer, find("wished").value) : "";
  }

  /** Which answers several rows give: the picture does not tell these settings apart. */
  showTies() {
    const [first, ...others] = this.settings.rows.filter(({ answer }) => answer), groups = new Map();
    for (const row of first ? others : []) {
      const name = nameOf(row.answer);
      if (name !== nameOf(first.answer)) groups.set(name, [...(groups.get(name) || []), row.what]);
    }
    const ties = [...groups].filter(([, rows]) => rows.length > 1);
    find("ties").replaceChildren(...ties.map(([name, rows]) =>
      make("p", {}, `${rows.length} rows give “${shown(name)}”: ${rows.join("; ")}. Another picture may distinguish them.`)));
  }

  /** The same settings on other pictures: an answer that does not move says nothing of the picture. */
  async tryPictures(side) {
    const mine = (this.number += 1), rows = new Rows("moved");
    rows.show();
    find("moves").textContent = "";
    for (const [name, what] of SUBSTITUTES) {
      const came = await this.answer({ ...side.asked(), substitute: name });
      if (!came || mine !== this.number) return;
      rows.add({ what, ...came }, "");
    }
    const answers = new Set(rows.rows.map(({ answer }) => (answer ? nameOf(answer) : "")));
    find("moves").textContent = answers.size === 1
      ? "The same answer for all of them: with A’s settings, the model sees almost nothing of the picture. Usually the range, or the mean and std, are wrong."
      : "The answer depends on the picture.";
  }
}
