/** Questions to start with. */

import { h, put } from "./dom.js";
import { listed } from "./words.js";

/** @typedef {import("./types.js").Example} Example */

/**
 * @param {HTMLElement} parent
 * @param {Example[]} examples
 * @param {(example: Example) => void} ask
 */
export function showExamples(parent, examples, ask) {
  if (!examples.length) return put(parent);
  const rows = examples.map((example) =>
    h(
      "li",
      {},
      h(
        "button",
        { type: "button", class: "example", click: () => ask(example) },
        h("span", { class: "example-question" }, example.question),
        example.choices.length > 0 && h("span", { class: "example-choices" }, listed(example.choices)),
      ),
    ),
  );
  put(parent, h("details", { open: true }, h("summary", {}, h("h2", {}, "Examples")), h("ul", { class: "examples" }, ...rows)));
}
