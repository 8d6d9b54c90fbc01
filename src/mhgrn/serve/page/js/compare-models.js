/** Two models side by side on the same question. */

import { bars } from "./bars.js";
import { h, put } from "./dom.js";
import { asSentence, percent } from "./words.js";

/** @typedef {import("./types.js").Answer} Answer */
/** @typedef {import("./types.js").Answers} Answers */
/** @typedef {import("./types.js").Model} Model */
/** @typedef {import("./state.js").View} View */

/**
 * @param {HTMLElement} parent
 * @param {View} view
 * @param {Answers} answers
 * @param {Model[]} models
 * @param {(view: View, ...keys: string[]) => void} go
 */
export function showBeside(parent, view, answers, models, go) {
  const mine = view.model ?? models[0]?.name;
  const task = models.find(({ name }) => name === mine)?.task;
  const others = models.filter((model) => model.name !== mine && model.task === task);
  parent.hidden = !others.length;
  if (parent.hidden) return put(parent);
  const select = h(
    "select",
    { id: "other-model", "data-key": "other model", change: () => go({ ...view, beside: select.value || null }, "other model") },
    h("option", { value: "" }, "choose one"),
    ...others.map(({ name }) => h("option", { value: name }, name)),
  );
  select.value = answers.beside ? (view.beside ?? "") : "";
  put(
    parent,
    h("h2", { id: "beside-heading" }, "Compare two models"),
    h("p", { class: "field inline" }, h("label", { for: "other-model" }, `Compare “${mine}” with`), select),
    answers.beside && h("p", { class: "lead" }, verdict(mine, answers.now, view.beside ?? "", answers.beside)),
    answers.beside &&
      h("div", { class: "side-by-side" }, column(mine, answers.now, view.choices), column(view.beside ?? "", answers.beside, view.choices)),
  );
}

/** @param {string} mine @param {Answer} now @param {string} other @param {Answer} beside */
function verdict(mine, now, other, beside) {
  if (now.choice === beside.choice) return `Both models answer “${now.choice}”.`;
  return `“${mine}” answers “${now.choice}”, “${other}” answers “${beside.choice}”.`;
}

/** @param {string} name @param {Answer} answer @param {string[]} order */
function column(name, answer, order) {
  const best = answer.paths.find((path) => path.facts.length);
  const sentences = (answer.evidence?.facts.map((one) => one.sentence) ?? best?.sentences ?? []).map(asSentence);
  return h(
    "article",
    { "aria-label": `Model ${name}` },
    h("h3", {}, name),
    h("p", { class: "verdict" }, h("strong", {}, answer.choice), ` ${percent(answer.probabilities[answer.choice])}`),
    bars(answer, null, order),
    h("p", { class: "because" }, sentences.length ? sentences.join(" ") : asSentence(answer.evidence?.summary ?? "No facts of the graph lead to this answer.")),
  );
}
