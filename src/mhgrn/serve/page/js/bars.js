/** The probability of every choice as a bar; with changes, before and now. */

import { h } from "./dom.js";
import { bestPaths, rightOnes } from "./ranking.js";
import { change, percent } from "./words.js";

/** @typedef {import("./types.js").Answer} Answer */

/**
 * @param {Answer} now
 * @param {Answer | null} before the answer without changes, if there are changes
 * @param {string[]} order choices in the order they were typed
 */
export function bars(now, before, order) {
  const known = now.ranking ? now.ranking.answers.map(({ concept }) => concept) : Object.keys(now.probabilities);
  const names = now.ranking ? known : known.sort((one, other) => order.indexOf(one) - order.indexOf(other));
  const list = h("ul", { class: before ? "bars compared" : "bars" });
  const right = rightOnes(now);
  const paths = bestPaths(now);
  for (const name of names) {
    const share = now.probabilities[name];
    const old = before?.probabilities[name];
    const isAnswer = right.has(name);
    list.append(
      h(
        "li",
        { class: isAnswer ? "best" : null },
        h("span", { class: "choice" }, name, isAnswer && h("span", { class: "badge" }, now.abstained ? "Best guess" : "Answer")),
        h("span", { class: "share" }, percent(share)),
        old !== undefined && track(old, "before"),
        track(share, "now"),
        old !== undefined && h("span", { class: "moved" }, `before ${percent(old)}, ${change(old, share)}`),
        paths.has(name) && h("span", { class: "path" }, paths.get(name)),
      ),
    );
  }
  return list;
}

/** @param {number} share @param {string} kind */
function track(share, kind) {
  const bar = h("span", { class: "bar" });
  bar.style.width = `${100 * share}%`;
  return h("span", { class: `track ${kind}`, "aria-hidden": "true" }, bar);
}
