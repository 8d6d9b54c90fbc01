/** A text field with completion, by the ARIA combobox pattern. */

import { h, put } from "./dom.js";

/** @typedef {{value: string, text: string, detail: string}} Suggestion */

const WAIT = 120; // milliseconds without a key before suggestions are asked for
let made = 0;

export class Combobox {
  /**
   * @param {string} name
   * @param {(text: string, signal: AbortSignal) => Promise<Suggestion[]>} suggest
   * @param {() => void} changed
   * @param {string} [placeholder]
   */
  constructor(name, suggest, changed, placeholder = "") {
    const id = `combobox-${++made}`;
    this.suggest = suggest;
    this.changed = changed;
    /** @type {Suggestion[]} */
    this.found = [];
    this.active = -1;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.timer = undefined;
    this.asked = new AbortController();
    this.list = h("ul", { id: `${id}-list`, role: "listbox", class: "suggestions", "aria-label": name, hidden: true });
    this.input = h("input", {
      id,
      type: "text",
      role: "combobox",
      autocomplete: "off",
      autocapitalize: "off",
      spellcheck: "false",
      placeholder,
      "aria-autocomplete": "list",
      "aria-expanded": "false",
      "aria-controls": `${id}-list`,
      "aria-describedby": "fact-error",
      "data-key": `combobox ${name}`,
      input: () => this.typed(),
      focus: () => this.soon(),
      blur: () => this.close(),
      keydown: (/** @type {KeyboardEvent} */ event) => this.key(event),
    });
    this.element = h("div", { class: "combobox" }, h("label", { for: id }, name), this.input, this.list);
    /** @type {Map<string, string>} the name behind a text that was picked */
    this.names = new Map();
  }

  /** The name that was picked, or the text that was typed. */
  get value() {
    const text = this.input.value.trim();
    return this.names.get(text) ?? text;
  }

  clear() {
    this.input.value = "";
  }

  typed() {
    this.changed();
    this.soon();
  }

  /** Suggest when nothing is typed for a moment. */
  soon() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.refresh(), WAIT);
  }

  async refresh() {
    this.asked.abort();
    const asked = (this.asked = new AbortController());
    try {
      const found = await this.suggest(this.input.value.trim(), asked.signal);
      if (!asked.signal.aborted && document.activeElement === this.input) this.open(found);
    } catch {
      this.close(); // completion is a help; adding the fact reports what is wrong
    }
  }

  /** @param {Suggestion[]} found */
  open(found) {
    this.found = found;
    this.active = -1;
    const rows = found.map((suggestion, i) =>
      h(
        "li",
        {
          id: `${this.list.id}-${i}`,
          role: "option",
          "aria-selected": "false",
          pointerdown: (/** @type {Event} */ event) => {
            event.preventDefault();
            this.pick(i);
          },
        },
        h("span", { class: "suggested" }, suggestion.text),
        h("span", { class: "detail" }, suggestion.detail),
      ),
    );
    put(this.list, ...rows);
    this.show(found.length > 0);
  }

  close() {
    clearTimeout(this.timer);
    this.asked.abort();
    this.show(false);
  }

  /** @param {boolean} shown */
  show(shown) {
    this.list.hidden = !shown;
    this.input.setAttribute("aria-expanded", String(shown));
    if (!shown) this.input.removeAttribute("aria-activedescendant");
  }

  /** @param {number} i */
  pick(i) {
    const { value, text } = this.found[i];
    this.names.set(text, value);
    this.input.value = text;
    this.close();
    this.changed();
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (event.isComposing) return;
    const isOpen = !this.list.hidden;
    if ((event.key === "ArrowDown" || event.key === "ArrowUp") && !isOpen) void this.refresh();
    else if (event.key === "ArrowDown") this.move(1);
    else if (event.key === "ArrowUp") this.move(-1);
    else if (event.key === "Enter" && isOpen && this.active >= 0) this.pick(this.active);
    else if (event.key === "Escape" && isOpen) this.close();
    else if (event.key === "Tab" && isOpen && this.active >= 0) return this.pick(this.active);
    else return;
    event.preventDefault();
  }

  /** @param {number} by */
  move(by) {
    const rows = [...this.list.children];
    this.active = this.active < 0 && by < 0 ? rows.length - 1 : (this.active + by + rows.length) % rows.length;
    rows.forEach((row, i) => row.setAttribute("aria-selected", String(i === this.active)));
    rows[this.active].scrollIntoView({ block: "nearest" });
    this.input.setAttribute("aria-activedescendant", rows[this.active].id);
  }
}
