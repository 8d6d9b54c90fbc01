/** What is shown, and the address that says so. It is kept in the fragment, which browsers do not send to the server. */

import { factKey } from "./words.js";

/** @typedef {import("./types.js").Fact} Fact */
/**
 * @typedef {{question: string, choices: string[], added: Fact[], off: Fact[], graph: boolean, versus: string | null,
 *   model: string | null, beside: string | null}} View
 */

/** @type {View} */
export const EMPTY = { question: "", choices: [], added: [], off: [], graph: true, versus: null, model: null, beside: null };

/** @param {View} view */
export function isChanged(view) {
  return view.added.length > 0 || view.off.length > 0 || !view.graph;
}

/** @param {View} view @returns {string} */
export function toFragment(view) {
  const parts = new URLSearchParams();
  if (view.question) parts.append("q", view.question);
  for (const choice of view.choices) parts.append("c", choice);
  for (const fact of view.added) parts.append("add", joined(fact));
  for (const fact of view.off) parts.append("off", joined(fact));
  if (!view.graph) parts.append("graph", "off");
  if (view.versus !== null) parts.append("versus", view.versus);
  if (view.model !== null) parts.append("model", view.model);
  if (view.beside !== null) parts.append("beside", view.beside);
  const text = parts.toString();
  return text && `#${text}`;
}

/** @param {string} fragment @returns {View} */
export function fromFragment(fragment) {
  const parts = new URLSearchParams(fragment.replace(/^#/, ""));
  return {
    question: parts.get("q") ?? "",
    choices: parts.getAll("c"),
    added: facts(parts.getAll("add")),
    off: facts(parts.getAll("off")),
    graph: parts.get("graph") !== "off",
    versus: parts.get("versus"),
    model: parts.get("model"),
    beside: parts.get("beside"),
  };
}

/** Facts are written as head,relation,tail; a comma or backslash inside a name follows a backslash. @param {Fact} fact */
function joined(fact) {
  return fact.map((part) => part.replace(/[\\,]/g, "\\$&")).join(",");
}

/** @param {string[]} texts @returns {Fact[]} */
function facts(texts) {
  const found = texts.map(split).filter((parts) => parts.length === 3 && parts.every(Boolean));
  const distinct = new Map(found.map((parts) => [factKey(/** @type {Fact} */ (parts)), /** @type {Fact} */ (parts)]));
  return [...distinct.values()];
}

/** @param {string} text */
function split(text) {
  const parts = [""];
  for (let i = 0; i < text.length; i++) {
    if (text[i] === ",") parts.push("");
    else parts[parts.length - 1] += text[i] === "\\" ? (text[++i] ?? "") : text[i];
  }
  return parts;
}
