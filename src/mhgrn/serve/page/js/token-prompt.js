/** Ask for the token of the service. */

import { h } from "./dom.js";

/** @param {boolean} refused whether a token was refused before @returns {Promise<string>} */
export function askToken(refused) {
  const token = h("input", { id: "token", type: "password", autocomplete: "off", required: true, "aria-describedby": "token-error" });
  const dialog = h(
    "dialog",
    { class: "card", "aria-labelledby": "token-heading", cancel: (/** @type {Event} */ event) => event.preventDefault() },
    h(
      "form",
      { method: "dialog" },
      h("h2", { id: "token-heading" }, "This service needs a token"),
      h("p", { class: "hint" }, "Ask the person who runs it. The token is forgotten when you close this page."),
      h("p", { class: "field" }, h("label", { for: "token" }, "Token"), token),
      h("p", { class: "error", id: "token-error", role: "alert" }, refused && "This token was refused. Try another one."),
      h("button", { type: "submit", class: "primary" }, "Continue"),
    ),
  );
  document.body.append(dialog);
  dialog.showModal();
  return new Promise((resolve) =>
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(token.value.trim());
    }),
  );
}
