/** The question and its choices. */

import { h, put } from "./dom.js";
import { isOpen } from "./ranking.js";

/** @typedef {import("./types.js").Service} Service */

const HINT = "Give at least two choices, or none: then the model proposes the best concepts of its graph.";
const NO_CHOICES = "This model finds the answers in its graph. Mark the concept to start from with [brackets], or let the model find it.";

export class QuestionForm {
  /**
   * @param {HTMLElement} parent
   * @param {(question: string, choices: string[], model: string | null) => void} ask
   */
  constructor(parent, ask) {
    this.ask = ask;
    /** @type {Service | null} */
    this.service = null;
    this.question = h("textarea", {
      id: "question",
      rows: 2,
      "aria-describedby": "question-error",
      placeholder: "Where would a child learn to read?",
      keydown: (/** @type {KeyboardEvent} */ event) => this.submitOnEnter(event),
    });
    this.questionError = h("p", { class: "error", id: "question-error" });
    this.choices = h("ol", { class: "choices" });
    this.choicesHint = h("p", { class: "hint", id: "choices-hint" }, HINT);
    this.choicesError = h("p", { class: "error", id: "choices-error" });
    this.more = h("button", { type: "button", class: "quiet", click: () => this.addChoice().focus() }, "+ Add a choice");
    this.model = h("select", { id: "model", change: () => this.fit() });
    this.topicHint = h("p", { class: "hint", hidden: true }, NO_CHOICES);
    this.modelRow = h("p", { class: "field", hidden: true }, h("label", { for: "model" }, "Model"), this.model);
    this.problem = h("p", { class: "error", id: "ask-error", role: "alert" });
    this.button = h("button", { type: "submit", class: "primary" }, "Ask");
    this.fields = h(
      "fieldset",
      { "aria-describedby": "choices-hint choices-error" },
      h("legend", {}, "Choices"),
      this.choicesHint,
      this.choices,
      this.choicesError,
      this.more,
    );
    this.form = h(
      "form",
      { novalidate: true, autocomplete: "off", submit: (/** @type {Event} */ event) => this.submit(event) },
      h("p", { class: "field" }, h("label", { for: "question" }, "Question"), this.question),
      this.topicHint,
      this.questionError,
      this.fields,
      this.modelRow,
      this.button,
      this.problem,
    );
    put(parent, this.form);
    this.fill("", []);
  }

  /** @param {Service} service */
  use(service) {
    this.service = service;
    this.modelRow.hidden = service.models.length < 2;
    put(this.model, ...service.models.map(({ name }) => h("option", { value: name }, name)));
    this.question.maxLength = service.limits.question;
    for (const input of this.inputs()) input.maxLength = service.limits.choice;
    this.fit();
  }

  /** Whether the chosen model takes no choices. */
  isOpen() {
    const models = this.service?.models ?? [];
    return isOpen(models.find(({ name }) => name === this.model.value) ?? models[0]);
  }

  /** Hide the choices of a model that takes none. */
  fit() {
    this.fields.hidden = this.isOpen();
    this.topicHint.hidden = !this.isOpen();
    this.question.placeholder = this.isOpen() ? "" : "Where would a child learn to read?";
  }

  /** @param {string} question @param {string[]} choices @param {string | null} [model] */
  fill(question, choices, model = null) {
    this.question.value = question;
    this.tell(HINT);
    put(this.choices);
    for (const choice of choices) this.addChoice(choice);
    while (this.inputs().length < 2) this.addChoice();
    if (this.service) this.model.value = model ?? this.service.models[0]?.name ?? "";
    this.fit();
    this.complain();
  }

  /** Say something about the choices. @param {string} text */
  tell(text) {
    this.choicesHint.textContent = text;
  }

  inputs() {
    return [...this.choices.querySelectorAll("input")];
  }

  addChoice(text = "") {
    const input = h("input", {
      type: "text",
      maxlength: this.service?.limits.choice,
      "aria-describedby": "choices-error",
      paste: (/** @type {ClipboardEvent} */ event) => this.pasteLines(event, input),
    });
    input.value = text;
    const remove = h("button", { type: "button", class: "quiet remove", click: () => this.removeChoice(row) }, "×");
    const row = h("li", {}, input, remove);
    this.choices.append(row);
    this.number();
    return input;
  }

  /** @param {HTMLLIElement} row */
  removeChoice(row) {
    const near = row.nextElementSibling ?? row.previousElementSibling;
    row.remove();
    while (this.inputs().length < 2) this.addChoice();
    this.number();
    (near?.querySelector("input") ?? this.inputs()[0]).focus();
  }

  /** Several pasted lines are several choices. @param {ClipboardEvent} event @param {HTMLInputElement} input */
  pasteLines(event, input) {
    const lines = (event.clipboardData?.getData("text") ?? "").split(/\r?\n/).map((line) => line.trim());
    const [first, ...others] = lines.filter(Boolean);
    if (!others.length) return;
    event.preventDefault();
    input.value = first;
    for (const line of others) {
      const free = this.inputs().find((other) => !other.value) ?? this.addChoice();
      free.value = line;
    }
  }

  number() {
    const most = this.service?.limits.choices ?? Infinity;
    const inputs = this.inputs();
    inputs.forEach((input, i) => {
      input.setAttribute("aria-label", `Choice ${i + 1}`);
      const remove = /** @type {HTMLButtonElement} */ (input.nextElementSibling);
      remove.setAttribute("aria-label", `Remove choice ${i + 1}`);
      remove.hidden = inputs.length <= 2 && !input.value;
    });
    this.more.hidden = inputs.length >= most;
  }

  /** Enter asks, Shift+Enter starts a new line. @param {KeyboardEvent} event */
  submitOnEnter(event) {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    this.form.requestSubmit();
  }

  /** @param {Event} event */
  submit(event) {
    event.preventDefault();
    const question = this.question.value.trim();
    const choices = this.isOpen() ? [] : this.inputs().map((input) => input.value.trim()).filter(Boolean);
    const repeated = choices.find((choice, i) => choices.indexOf(choice) < i);
    this.complain();
    if (!question) this.complain("Type a question first.", "question");
    else if (choices.length === 1) this.complain("One choice is not enough. Type another one, or leave all empty.", "choices");
    else if (repeated !== undefined) this.complain(`The choice “${repeated}” is given twice.`, "choices");
    else this.ask(question, choices, this.service && this.service.models.length > 1 ? this.model.value : null);
  }

  /** Show an error at the field it concerns. @param {string} [message] @param {string | null} [field] */
  complain(message = "", field = null) {
    const choice = /^choices\D+(\d+)/.exec(field ?? "");
    const isQuestion = /^question/.test(field ?? "");
    const isChoices = /^choice/.test(field ?? "");
    this.questionError.textContent = isQuestion ? message : "";
    this.choicesError.textContent = isChoices ? message : "";
    this.problem.textContent = isQuestion || isChoices ? "" : message;
    const inputs = this.inputs();
    const written = inputs.filter((input) => input.value.trim());
    const wrong = isChoices ? (choice ? written[Number(choice[1])] : (inputs.find((input) => !input.value.trim()) ?? inputs[0])) : null;
    this.question.toggleAttribute("aria-invalid", isQuestion);
    if (isQuestion) this.question.setAttribute("aria-invalid", "true");
    for (const input of inputs) {
      if (input === wrong) input.setAttribute("aria-invalid", "true");
      else input.removeAttribute("aria-invalid");
    }
    (isQuestion ? this.question : wrong)?.focus();
  }

  /** @param {boolean} working */
  working(working) {
    this.button.textContent = working ? "Asking…" : "Ask";
    this.form.toggleAttribute("aria-busy", working);
    if (working) this.form.setAttribute("aria-busy", "true");
  }
}
