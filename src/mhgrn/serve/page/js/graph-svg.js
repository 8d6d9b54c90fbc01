/** The picture as a document of its own, with the style of every shape written into it. */

import { s } from "./dom.js";

const STYLES = [
  "fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "opacity", "visibility", "display",
  "font-family", "font-size", "font-weight", "text-anchor", "dominant-baseline", "paint-order", "stroke-linejoin",
]; // prettier-ignore

/** @param {SVGSVGElement} svg @param {number} width @param {number} height @returns {string} */
export function standalone(svg, width, height) {
  const copy = /** @type {SVGSVGElement} */ (svg.cloneNode(true));
  const originals = [...svg.querySelectorAll("*")];
  const copies = [...copy.querySelectorAll("*")];
  originals.forEach((original, i) => {
    const style = getComputedStyle(original);
    if (style.visibility === "hidden" || original.matches(".target")) return copies[i].remove();
    for (const name of STYLES) copies[i].setAttribute(name, style.getPropertyValue(name));
    copies[i].removeAttribute("class");
  });
  const background = getComputedStyle(svg).getPropertyValue("--surface").trim() || "#fff";
  copy.prepend(s("rect", { width, height, fill: background }));
  copy.prepend(s("title", {}, svg.getAttribute("aria-label") ?? ""));
  for (const [name, value] of Object.entries({ width, height, viewBox: `0 0 ${width} ${height}` })) copy.setAttribute(name, String(value));
  copy.removeAttribute("class");
  return `<?xml version="1.0" encoding="UTF-8"?>\n${new XMLSerializer().serializeToString(copy)}\n`;
}
