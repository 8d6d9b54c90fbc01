/** More about the answer and the model, for those who want to know. */

import { h, put } from "./dom.js";
import { count, label, listed, percent } from "./words.js";

/** @typedef {import("./types.js").Answer} Answer */
/** @typedef {import("./types.js").Model} Model */

const MASSES = {
  walks: "on paths from the question",
  circles: "on paths that visit a concept twice",
  no_path: "on concepts that no path reaches",
  itself: "on the choice itself",
};

const TRAINING = ["data", "questions", "epochs", "batch_size", "learning_rate", "train_fraction", "precision"];

/** @param {HTMLElement} parent @param {Answer} answer @param {Model | undefined} model */
export function showAbout(parent, answer, model) {
  const found = answer.ranking ? [] : Object.entries(answer.concepts.choices);
  put(
    parent,
    h(
      "details",
      {},
      h("summary", {}, h("h2", {}, "More about this answer")),
      pairs([
        ["Found in the question", names(answer.concepts.question)],
        ...found.map(([choice, concepts]) => /** @type {[string, string]} */ ([`Found in “${choice}”`, names(concepts)])),
        ...Object.entries(answer.masses ?? {})
          .filter(([, mass]) => mass > 0)
          .map(([name, mass]) => /** @type {[string, string]} */ ([`Attention ${MASSES[/** @type {keyof MASSES} */ (name)] ?? name}`, percent(mass)])),
      ]),
    ),
    model && h("details", {}, h("summary", {}, h("h2", {}, "About the model")), pairs(described(model))),
  );
}

/** @param {string[]} concepts */
function names(concepts) {
  return concepts.length ? listed(concepts.map(label)) : "no concept of the graph";
}

/** @param {Model} model @returns {[string, string][]} */
function described(model) {
  return [
    ["Name", model.name],
    ["Text encoder", `${model.encoder} (${model.text_precision})`],
    ["Answers", model.task === "open" ? "questions without choices" : "questions with choices; without them, it proposes some"],
    ["Graph encoder", model.graph_encoder],
    ["Parameters", count(model.parameters)],
    ["Graph", `${count(model.graph.concepts)} concepts, ${count(model.graph.facts)} facts, ${count(model.graph.relations)} relations`],
    ["Fingerprint of the graph", model.graph.fingerprint],
    ...flat("Accuracy", model.accuracy),
    ...flat("Training", Object.fromEntries(TRAINING.filter((name) => model.training[name]).map((name) => [name, model.training[name]]))),
  ];
}

/** @param {string} name @param {unknown} value @returns {[string, string][]} */
function flat(name, value) {
  if (value === null || value === undefined) return [];
  if (Array.isArray(value)) return [[name, value.map((inner) => plain(inner)).join(", ")]];
  if (typeof value === "object") return Object.entries(value).flatMap(([key, inner]) => flat(`${name}: ${label(key).replace(/ accuracy$/, "")}`, inner));
  return [[name, plain(value, name.startsWith("Accuracy"))]];
}

/** @param {unknown} value @param {boolean} [isShare] */
function plain(value, isShare = false) {
  if (typeof value !== "number") return String(value);
  return isShare && value <= 1 ? percent(value) : count(value);
}

/** @param {[string, string][]} rows */
function pairs(rows) {
  return h("dl", {}, ...rows.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
}
