/** Why: the facts that carry the answer, and the paths that the model looked at, in sentences. */

import { h, put, toggle } from "./dom.js";
import { lights, onLit } from "./lit.js";
import { PRINTED, asSentence, count, factKey, percent, roundPercent } from "./words.js";

/** @typedef {import("./types.js").Answer} Answer */
/** @typedef {import("./types.js").Evidence} Evidence */
/** @typedef {import("./types.js").Fact} Fact */
/** @typedef {import("./types.js").Path} Path */

const SWITCHED_OFF = "the graph is switched off."; // a note that the page says in its own words

/**
 * @param {HTMLElement} parent
 * @param {Answer} answer
 * @param {boolean} graph whether the graph is used
 * @param {(fact: Fact) => void} switchOff
 */
export function showWhy(parent, answer, graph, switchOff) {
  const paths = answer.paths.filter((path) => path.facts.length);
  const notes = answer.notes.filter((note) => graph || note !== SWITCHED_OFF);
  const looked = h("ol", { class: "paths" }, ...paths.map((path) => shownPath(path, answer, switchOff)));
  put(
    parent,
    h("h2", { id: "why-heading" }, "Why"),
    h("p", { class: "lead" }, lead(answer, paths, graph)),
    answer.evidence && answer.evidence.facts.length > 0 && h("ol", { class: "paths" }, shownEvidence(answer.evidence, answer, switchOff)),
    answer.without_graph !== null &&
      graph &&
      h("p", { class: "text-only" }, `From the text alone, without any facts, “${answer.choice}” would have ${percent(answer.without_graph)}.`),
    answer.evidence && paths.length > 0
      ? h("details", { class: "looked", open: !answer.evidence.facts.length }, h("summary", {}, "Where the model looked"), looked)
      : looked,
    notes.length > 0 && h("ul", { class: "notes" }, ...notes.map((note) => h("li", {}, asSentence(note)))),
  );
}

/** The smallest set of facts that carries the answer.
 * @param {Evidence} evidence @param {Answer} answer @param {(fact: Fact) => void} switchOff */
function shownEvidence(evidence, answer, switchOff) {
  const keys = evidence.facts.map((one) => factKey(one.fact));
  const now = answer.probabilities[answer.choice];
  const several = evidence.facts.length > 1;
  const facts = evidence.facts.map((one) => shownFact(one.fact, one.sentence, several ? one.without : undefined, now, keys, "fact", switchOff));
  const these = several ? "these facts" : "this fact";
  const isStill = answer.ranking ? evidence.is_answer : evidence.answer_without === answer.choice;
  const becomes = isStill ? "" : answer.ranking ? ", no answer any more" : `, the answer becomes “${evidence.answer_without}”`;
  const said = [effect(`With only ${these}`, now, evidence.only), effect(`without ${these}`, now, evidence.without) + becomes];
  const carries = evidence.sufficient && evidence.necessary;
  const shown = h(
    "li",
    { class: carries ? "reasons matters" : "reasons" },
    h("p", { class: "reason" }, carries ? "Because" : "Nearest to a reason"),
    h("ul", {}, ...facts),
    h("p", { class: "weight" }, said.join(" · ")),
  );
  lights(shown, keys);
  return shown;
}

/** A fact with its effect and a switch.
 * @param {Fact} fact @param {string} sentence @param {number | undefined} after @param {number} now @param {string[]} keys
 * @param {string} kind @param {(fact: Fact) => void} switchOff */
function shownFact(fact, sentence, after, now, keys, kind, switchOff) {
  const key = factKey(fact);
  const said = asSentence(sentence);
  const row = h(
    "li",
    { class: "fact", "data-fact": key },
    h("span", { class: "sentence" }, said),
    after !== undefined && h("span", { class: "effect" }, effect("Without it", now, after)),
    toggle(`Use this fact: ${said}`, true, () => switchOff(fact), { "data-key": `${kind} ${key}`, title: "Switch this fact off" }),
  );
  lights(row, keys, key);
  return row;
}

/** @param {Answer} answer @param {Path} path */
function matters(answer, path) {
  return path.without_path !== null && answer.probabilities[answer.choice] - path.without_path >= PRINTED;
}

/** @param {Answer} answer @param {Path[]} paths @param {boolean} graph */
function lead(answer, paths, graph) {
  if (!graph) return "The graph is switched off, so there are no facts behind this answer. It comes from the text alone.";
  if (answer.evidence) return evidenceLead(answer.evidence, answer.choice);
  if (!paths.length) return "No facts of the graph lead to this answer. It comes from the text alone.";
  if (paths.some((path) => matters(answer, path))) return `These facts lead from the question to “${answer.choice}”.`;
  return `The model looked at these facts, but without them “${answer.choice}” would be about as likely.`;
}

/** @param {Evidence} evidence @param {string} choice */
function evidenceLead(evidence, choice) {
  const summary = asSentence(evidence.summary.replace(/:$/, "."));
  if (!evidence.facts.length || !(evidence.sufficient && evidence.necessary)) return summary;
  return evidence.facts.length > 1 ? `These facts carry the answer “${choice}”.` : `This fact carries the answer “${choice}”.`;
}

/** @param {Path} path @param {Answer} answer @param {(fact: Fact) => void} switchOff */
function shownPath(path, answer, switchOff) {
  const keys = path.facts.map(factKey);
  const now = answer.probabilities[answer.choice];
  const facts = path.facts.map((fact, i) =>
    shownFact(fact, path.sentences?.[i] ?? fact.join(" "), path.without?.[i], now, keys, answer.evidence?.facts.length ? "path fact" : "fact", switchOff),
  );
  const said = [
    `${roundPercent(path.probability)} of the model’s attention`,
    path.ties > 1 && `one of ${count(path.ties)} such paths`,
    path.without_path !== null && path.facts.length > 1 && effect("without these facts", now, path.without_path),
  ].filter(Boolean);
  const shown = h(
    "li",
    { class: matters(answer, path) ? "reasons matters" : "reasons" },
    h("p", { class: "reason" }, matters(answer, path) ? "Because" : "Looked at"),
    h("ul", {}, ...facts),
    h("p", { class: "weight" }, said.join(" · ")),
  );
  lights(shown, keys);
  return shown;
}

/** @param {string} without @param {number} now @param {number} after */
function effect(without, now, after) {
  return `${without}: ${percent(after) === percent(now) ? "no change" : percent(after)}`;
}

/** Light up the sentences of facts that are pointed at. @param {HTMLElement} parent */
export function litSentences(parent) {
  onLit((lit) => {
    for (const row of parent.querySelectorAll(".fact")) {
      const key = /** @type {HTMLElement} */ (row).dataset.fact ?? "";
      row.classList.toggle("lit", lit !== null && (lit.main === null ? lit.facts.has(key) : lit.main === key));
    }
  });
}
