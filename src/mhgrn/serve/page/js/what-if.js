/** What if: add a fact, switch the graph off. Facts are switched off where they are shown. */

import { Combobox } from "./combobox.js";
import { h, put, toggle } from "./dom.js";
import { counted, factSentence, sameFact } from "./words.js";

/** @typedef {import("./api.js").Api} Api */
/** @typedef {import("./types.js").Concept} Concept */
/** @typedef {import("./types.js").Fact} Fact */
/** @typedef {import("./types.js").Relation} Relation */
/** @typedef {import("./state.js").View} View */

export class WhatIf {
  /**
   * @param {HTMLElement} parent
   * @param {Api} api
   * @param {() => Promise<Relation[]>} relations
   * @param {(view: View, ...keys: string[]) => void} go
   */
  constructor(parent, api, relations, go) {
    this.api = api;
    this.go = go;
    this.relations = relations;
    /** @type {Relation[]} */
    this.known = [];
    /** @type {View | null} */
    this.view = null;
    const changed = () => void this.preview();
    this.head = new Combobox("Concept", (text, signal) => this.concepts(text, signal), changed, "child");
    this.relation = new Combobox("Relation", (text) => this.matching(text), changed, "… at …");
    this.tail = new Combobox("Other concept", (text, signal) => this.concepts(text, signal), changed, "library");
    this.said = h("p", { class: "preview", "aria-live": "polite" });
    this.error = h("p", { class: "error", id: "fact-error", role: "alert" });
    this.graph = h("p", { class: "graph-switch" });
    this.lead = h("p", { class: "lead" });
    const form = h(
      "form",
      { novalidate: true, autocomplete: "off", class: "add-fact", submit: (/** @type {Event} */ event) => this.add(event) },
      h("h3", {}, "Add a fact"),
      h("div", { class: "fact-fields" }, this.head.element, this.relation.element, this.tail.element),
      this.said,
      this.error,
      h("button", { type: "submit", class: "secondary" }, "Add this fact"),
    );
    put(
      parent,
      h("h2", { id: "what-if-heading" }, "What if …"),
      this.lead,
      this.graph,
      form,
    );
  }

  /** @param {View} view @param {boolean} needsGraph whether there is no answer without the graph */
  show(view, needsGraph) {
    this.view = view;
    this.graph.hidden = needsGraph;
    this.lead.textContent = `Change the facts and see how the answer changes. Switch facts off under Why or in the picture. You can also ${needsGraph ? "" : "switch off the whole graph or "}add a fact.`;
    const flip = () => this.go({ ...view, graph: !view.graph }, "use graph");
    put(
      this.graph,
      toggle("Use the graph", view.graph, flip, { "data-key": "use graph" }),
      h("span", { "aria-hidden": "true" }, view.graph ? "The graph is used" : "The graph is switched off"),
    );
    this.error.textContent = "";
  }

  /** @param {string} message */
  complain(message) {
    this.error.textContent = message;
    this.head.input.focus();
  }

  clear() {
    for (const box of [this.head, this.relation, this.tail]) box.clear();
    this.said.textContent = "";
  }

  /** @param {string} text @param {AbortSignal} signal */
  async concepts(text, signal) {
    if (!text) return [];
    const model = this.view?.model ?? null;
    /** @type {{concepts: Concept[]}} */
    const found = await this.api.get("concepts", { prefix: text, limit: 8, ...(model === null ? {} : { model }) }, signal);
    return found.concepts.map(({ name, label: read, facts }) => ({ value: name, text: read, detail: counted(facts, "fact") }));
  }

  /** @param {string} text */
  async matching(text) {
    const wanted = text.toLowerCase();
    const relations = await this.relations();
    const all = relations.map(({ name, sentence }) => ({ value: name, text: inWords(sentence), detail: name }));
    return all.filter((one) => one.text.toLowerCase().includes(wanted) || one.detail.toLowerCase().includes(wanted));
  }

  /** @returns {Fact} */
  fact() {
    const typed = this.relation.value;
    const named = this.known.find(({ name, sentence }) => name.toLowerCase() === typed.toLowerCase() || inWords(sentence) === typed);
    return [this.head.value, named?.name ?? typed, this.tail.value];
  }

  async preview() {
    this.known = await this.relations();
    const [head, relation, tail] = this.fact();
    this.error.textContent = "";
    const begun = (head || tail) && this.known.some(({ name }) => name === relation);
    this.said.textContent = begun ? factSentence([head, relation, tail], this.known) : "";
  }

  /** @param {Event} event */
  async add(event) {
    event.preventDefault();
    this.known = await this.relations();
    const fact = this.fact();
    const boxes = [this.head, this.relation, this.tail];
    const empty = boxes.find((box) => !box.value);
    if (!this.view) return;
    if (empty) {
      this.error.textContent = "A fact needs a concept, a relation and another concept.";
      return empty.input.focus();
    }
    if (!this.known.some(({ name }) => name === fact[1])) {
      this.error.textContent = `“${this.relation.value}” is not a relation of this graph. Choose one from the list.`;
      return this.relation.input.focus();
    }
    if (this.view.added.some((other) => sameFact(other, fact))) {
      this.error.textContent = "This fact is added already.";
      return;
    }
    this.go({ ...this.view, added: [...this.view.added, fact] }, `undo add ${fact.join("\t")}`);
  }
}

/** A template with gaps for its concepts. @param {string} template */
function inWords(template) {
  return template.replace(/\{head\}|\{tail\}/g, "…");
}
