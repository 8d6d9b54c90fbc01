/** Answers of a model that ranks the concepts of its graph: no choices are given. */

import { h } from "./dom.js";
import { asSentence, count, counted, label } from "./words.js";

/** @typedef {import("./types.js").Answer} Answer */
/** @typedef {import("./types.js").Model} Model */

/** @param {Model | undefined} model */
export function isOpen(model) {
  return model?.task === "open";
}

/** The same answer with concepts as they are read. @param {Answer} answer @returns {Answer} */
export function asRead(answer) {
  if (!answer.ranking) return answer;
  const read = (/** @type {Record<string, any>} */ named) => Object.fromEntries(Object.entries(named).map(([name, value]) => [label(name), value]));
  const ranking = {
    ...answer.ranking,
    answers: answer.ranking.answers.map((one) => ({ ...one, concept: label(one.concept) })),
    ...(answer.ranking.set ? { set: answer.ranking.set.map(label) } : {}),
  };
  const concepts = { ...answer.concepts, choices: read(answer.concepts.choices) };
  const evidence = answer.evidence && { ...answer.evidence, answer_without: label(answer.evidence.answer_without) };
  return { ...answer, choice: label(answer.choice), probabilities: read(answer.probabilities), ranking, concepts, evidence };
}

/** The answers that the model gives as right. @param {Answer} answer */
export function rightOnes(answer) {
  return new Set([answer.choice, ...(answer.ranking?.set ?? [])]);
}

/** The best path to each answer, by its name. @param {Answer} answer @returns {Map<string, string>} */
export function bestPaths(answer) {
  const found = (answer.ranking?.answers ?? []).filter(({ paths }) => paths?.length);
  return new Map(found.map(({ concept, paths }) => /** @type {[string, string]} */ ([concept, paths?.[0]?.text ?? ""])));
}

/** What the answers have in common, and how many there are. @param {Answer} answer */
export function aboutRanking({ ranking }) {
  if (!ranking) return null;
  const set = ranking.set ?? [];
  const more = set.length - set.filter((name) => ranking.answers.some(({ concept }) => concept === name)).length;
  return h(
    "ul",
    { class: "notes ranked" },
    ranking.shared_path && h("li", {}, asSentence(`path to the answers: ${ranking.shared_path}`)),
    set.length > 1 && h("li", {}, `${counted(set.length, "answer")} in all${more > 0 ? `, ${count(more)} of them not shown` : ""}.`),
    h("li", {}, `${counted(ranking.candidates, "concept")} of the graph ranked.`),
  );
}
