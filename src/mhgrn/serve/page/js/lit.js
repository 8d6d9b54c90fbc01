/** The facts that are pointed at. Sentences and picture both listen, so pointing at one lights up the other. */

/** Keys of facts; `main` is the one that is pointed at itself. @typedef {{facts: Set<string>, main: string | null}} Lit */

/** @type {Set<(lit: Lit | null) => void>} */
const listeners = new Set();

/** @param {(lit: Lit | null) => void} listener */
export function onLit(listener) {
  listeners.add(listener);
}

/** @param {Iterable<string> | null} facts @param {string | null} [main] */
export function light(facts, main = null) {
  const lit = facts && { facts: new Set(facts), main };
  for (const listener of listeners) listener(lit);
}

/**
 * Light facts up while an element is pointed at or has the focus.
 * @param {Element} element
 * @param {Iterable<string>} facts
 * @param {string | null} [main]
 */
export function lights(element, facts, main = null) {
  const on = (/** @type {Event} */ event) => {
    event.stopPropagation();
    light(facts, main);
  };
  element.addEventListener("pointerover", on);
  element.addEventListener("pointerleave", () => light(null));
  if (element instanceof SVGElement) return; // listening for the focus would make each line of the picture a stop of the Tab key
  element.addEventListener("focusin", on);
  element.addEventListener("focusout", () => light(null));
}
