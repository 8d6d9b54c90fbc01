/** The probability of every choice as a bar; with changes, before and now. */

import { h } from "./dom.js";
import { change, percent } from "./words.js";

/** @typedef {import("./types.js").Answer} Answer */

/**
 * @param {Answer} now
 * @param {Answer | null} before the answer without changes, if there are changes
 * @param {string[]} order choices in the order they were typed
 */
export function bars(now, before, order) {
  const names = Object.keys(now.probabilities).sort((one, other) => order.indexOf(one) - order.indexOf(other));
  const list = h("ul", { class: before ? "bars compared" : "bars" });
  for (const name of names) {
    const share = now.probabilities[name];
    const old = before?.probabilities[name];
    const isAnswer = name === now.choice;
    list.append(
      h(
        "li",
        { class: isAnswer ? "best" : null },
        h("span", { class: "choice" }, name, isAnswer && h("span", { class: "badge" }, "Answer")),
        h("span", { class: "share" }, percent(share)),
        old !== undefined && track(old, "before"),
        track(share, "now"),
        old !== undefined && h("span", { class: "moved" }, `before ${percent(old)}, ${change(old, share)}`),
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
