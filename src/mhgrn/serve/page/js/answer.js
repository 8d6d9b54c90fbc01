/** The answer: its choice, the bars, the changes made so far and a way to undo each. */

import { bars } from "./bars.js";
import { h, put } from "./dom.js";
import { aboutRanking } from "./ranking.js";
import { isChanged } from "./state.js";
import { factKey, percent } from "./words.js";

/** @typedef {import("./types.js").Answers} Answers */
/** @typedef {import("./types.js").Fact} Fact */
/** @typedef {import("./state.js").View} View */

/**
 * @param {HTMLElement} parent
 * @param {View} view
 * @param {Answers} answers
 * @param {(fact: Fact) => string} sentence
 * @param {(view: View, ...keys: string[]) => void} go
 * @param {Node} actions
 */
export function showAnswer(parent, view, { before, now }, sentence, go, actions) {
  const changed = isChanged(view);
  put(
    parent,
    h("div", { class: "heading" }, h("h2", { id: "answer-heading" }, "Answer"), actions),
    h("p", { class: "asked" }, now.question),
    h("p", { class: "verdict" }, h("strong", {}, now.choice), ` ${percent(now.probabilities[now.choice])}`),
    now.abstained && h("p", { class: "unsure" }, `The model is not sure enough: answers below ${wholePercent(now.abstain_below)} are often wrong.`),
    changed && h("p", { class: "turned" }, turned(before.choice, now.choice)),
    bars(now, changed ? before : null, view.choices),
    aboutRanking(now),
    changed && legend(),
    changed && changes(view, sentence, go),
  );
}

/** @param {number | undefined} share */
function wholePercent(share) {
  return `${Math.round(100 * (share ?? 0))}%`;
}

/** @param {string} before @param {string} now */
function turned(before, now) {
  return before === now ? "The answer stays the same with your changes." : `Your changes turn the answer from “${before}” to “${now}”.`;
}

function legend() {
  const key = (/** @type {string} */ kind, /** @type {string} */ text) => h("span", { class: `key ${kind}` }, text);
  return h("p", { class: "keys" }, key("before", "before"), key("now", "with your changes"));
}

/** @param {View} view @param {(fact: Fact) => string} sentence @param {(view: View, ...keys: string[]) => void} go */
function changes(view, sentence, go) {
  const rows = [
    ...(view.graph ? [] : [row("Graph switched off", "The answer comes from the text alone.", { ...view, graph: true }, "undo graph")]),
    ...view.off.map((fact) =>
      row("Switched off", sentence(fact), { ...view, off: view.off.filter((other) => other !== fact) }, `undo off ${factKey(fact)}`),
    ),
    ...view.added.map((fact) =>
      row("Added", sentence(fact), { ...view, added: view.added.filter((other) => other !== fact) }, `undo add ${factKey(fact)}`),
    ),
  ];
  /** @param {string} what @param {string} text @param {View} without @param {string} key */
  function row(what, text, without, key) {
    const undo = h(
      "button",
      { type: "button", class: "undo", "data-key": key, "aria-label": `Undo: ${what}. ${text}`, click: () => go(without, "undo all", "answer heading") },
      "Undo",
    );
    return h("li", {}, h("span", { class: "kind" }, what), h("span", { class: "what" }, text), undo);
  }
  const all = h(
    "button",
    { type: "button", class: "undo all", "data-key": "undo all", click: () => go({ ...view, added: [], off: [], graph: true }, "answer heading") },
    "Undo all changes",
  );
  return h("div", { class: "changes" }, h("h3", {}, "Your changes"), h("ul", {}, ...rows), all);
}
