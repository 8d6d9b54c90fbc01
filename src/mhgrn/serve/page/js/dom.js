/** Elements of the page. Texts only ever become text nodes. */

const SVG = "http://www.w3.org/2000/svg";

/** @typedef {Node | string | null | undefined | false} Child */
/** @typedef {Record<string, string | number | boolean | null | undefined | ((event: any) => void)>} Attributes */

/**
 * Make an element. Functions become listeners, `true` an empty attribute; `null` and `false` are omitted.
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Attributes} [attributes]
 * @param {...Child} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function h(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/**
 * Make an SVG element.
 * @template {keyof SVGElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Attributes} [attributes]
 * @param {...Child} children
 * @returns {SVGElementTagNameMap[Tag]}
 */
export function s(tag, attributes = {}, ...children) {
  return filled(/** @type {SVGElementTagNameMap[Tag]} */ (document.createElementNS(SVG, tag)), attributes, children);
}

/**
 * @template {Element} Made
 * @param {Made} made
 * @param {Attributes} attributes
 * @param {Child[]} children
 */
function filled(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(name, value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(name, String(value));
  }
  made.append(...present(children));
  return made;
}

/** @param {Child[]} children @returns {(Node | string)[]} */
function present(children) {
  return /** @type {(Node | string)[]} */ (children.filter((child) => child || child === ""));
}

/**
 * Replace what an element contains.
 * @param {Element} parent
 * @param {...Child} children
 */
export function put(parent, ...children) {
  parent.replaceChildren(...present(children));
}

/** @param {string} id @returns {HTMLElement} */
export function byId(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page has no element ${id}`);
  return found;
}

/**
 * Run a function that replaces elements, then focus the element that carries the same `data-key` as before, or the first of
 * the given keys.
 * @param {() => void} change
 * @param {...string} keys
 */
export function keepingFocus(change, ...keys) {
  const before = /** @type {HTMLElement | null} */ (document.activeElement);
  const kept = before?.dataset?.key;
  change();
  if (before?.isConnected && before !== document.body && keys.length === 0) return;
  for (const key of [...keys, ...(kept ? [kept] : [])]) {
    const found = /** @type {HTMLElement | null} */ (document.querySelector(`[data-key="${CSS.escape(key)}"]`));
    if (found) return found.focus();
  }
}

/**
 * A switch that is on or off.
 * @param {string} name
 * @param {boolean} on
 * @param {() => void} flip
 * @param {Attributes} [attributes]
 */
export function toggle(name, on, flip, attributes = {}) {
  return h(
    "button",
    { type: "button", role: "switch", class: "switch", "aria-checked": String(on), "aria-label": name, click: flip, ...attributes },
    h("span", { class: "knob" }),
  );
}
