/** Copy the link, download the answer as JSON and the picture as SVG. */

import { h } from "./dom.js";

/**
 * @param {() => unknown} answer
 * @param {() => string | null} picture
 * @param {(text: string) => void} announce
 */
export function shareActions(answer, picture, announce) {
  const link = h("input", { type: "text", readonly: true, class: "link", "aria-label": "Link to this view", hidden: true });
  const copy = h("button", { type: "button", class: "quiet", id: "copy-link", click: () => void share() }, "Copy link");
  const json = h("button", { type: "button", class: "quiet", id: "save-json", click: () => saveJson() }, "Save JSON");
  const svg = h("button", { type: "button", class: "quiet", id: "save-svg", click: () => saveSvg() }, "Save picture");

  async function share() {
    const address = window.location.href;
    try {
      await navigator.clipboard.writeText(address);
      copy.textContent = "Link copied";
      announce("The link is copied.");
      setTimeout(() => (copy.textContent = "Copy link"), 2000);
    } catch {
      link.value = address; // no permission to write: show the link instead
      link.hidden = false;
      link.select();
    }
  }

  function saveJson() {
    save(`${JSON.stringify(answer(), null, 2)}\n`, "application/json", "answer.json");
  }

  function saveSvg() {
    const drawn = picture();
    if (drawn) save(drawn, "image/svg+xml", "answer.svg");
  }

  return h("div", { class: "actions" }, copy, json, svg, link);
}

/** @param {string} text @param {string} type @param {string} name */
function save(text, type, name) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  h("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}
