/** Why this choice rather than that one. */

import { h, put } from "./dom.js";
import { lights } from "./lit.js";
import { asSentence, factKey, times } from "./words.js";

/** @typedef {import("./types.js").Answer} Answer */
/** @typedef {import("./types.js").ContrastFact} ContrastFact */
/** @typedef {import("./state.js").View} View */

const FELT = 0.005; // smallest change of the log odds that is shown

/**
 * @param {HTMLElement} parent
 * @param {View} view
 * @param {Answer} answer
 * @param {(view: View, ...keys: string[]) => void} go
 */
export function showVersus(parent, view, answer, go) {
  parent.hidden = answer.ranking !== undefined;
  if (parent.hidden) return put(parent);
  const others = Object.keys(answer.probabilities).filter((choice) => choice !== answer.choice);
  const select = h(
    "select",
    { id: "other-choice", "data-key": "other choice", change: () => go({ ...view, versus: select.value || null }, "other choice") },
    h("option", { value: "" }, "choose one"),
    ...others.map((choice) => h("option", { value: choice }, choice)),
  );
  select.value = view.versus !== null && others.includes(view.versus) ? view.versus : "";
  put(
    parent,
    h("h2", { id: "versus-heading" }, "Compare with another choice"),
    h("p", { class: "field inline" }, h("label", { for: "other-choice" }, `Why “${answer.choice}” rather than`), select),
    ...(answer.contrast && select.value ? shown(answer.contrast) : []),
  );
}

/** @param {import("./types.js").Contrast} contrast */
function shown(contrast) {
  const { this: one, other, difference, facts } = contrast;
  const weighed = facts.map((fact) => ({ ...fact, weight: difference - fact.difference_without }));
  const felt = weighed.filter(({ weight }) => Math.abs(weight) >= FELT);
  const most = Math.max(...felt.map(({ weight }) => Math.abs(weight)), FELT);
  const verdict = difference >= 0 ? `“${one}” is ${times(difference)} “${other}”.` : `“${other}” is ${times(difference)} “${one}”.`;
  return [
    h("p", { class: "lead" }, verdict),
    ...group(`Facts that speak for “${one}”`, felt.filter(({ weight }) => weight > 0), one, other, most),
    ...group(`Facts that speak for “${other}”`, felt.filter(({ weight }) => weight < 0), one, other, most),
    felt.length === 0 && h("p", { class: "hint" }, "No single fact makes a difference between these two."),
  ];
}

/**
 * @param {string} heading
 * @param {(ContrastFact & {weight: number})[]} facts
 * @param {string} one
 * @param {string} other
 * @param {number} most
 */
function group(heading, facts, one, other, most) {
  if (!facts.length) return [];
  const rows = facts.map(({ fact, sentence, weight, difference_without: without }) => {
    const bar = h("span", { class: "bar" });
    bar.style.width = `${(100 * Math.abs(weight)) / most}%`;
    const after = without >= 0 ? `“${one}” is ${times(without)} “${other}”` : `“${other}” is ${times(without)} “${one}”`;
    const row = h(
      "li",
      { class: "fact" },
      h("span", { class: "sentence" }, asSentence(sentence)),
      h("span", { class: "track now", "aria-hidden": "true" }, bar),
      h("span", { class: "effect" }, `Without it: ${after}`),
    );
    lights(row, [factKey(fact)], factKey(fact));
    return row;
  });
  return [h("h3", {}, heading), h("ul", { class: "weighed" }, ...rows)];
}
