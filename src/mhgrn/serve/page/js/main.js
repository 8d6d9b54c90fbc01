/** The page: asks what the view says, and shows the answers. */

import { showAbout } from "./about.js";
import { showAnswer } from "./answer.js";
import { Api, ApiError } from "./api.js";
import { showBeside } from "./compare-models.js";
import { showVersus } from "./compare-choice.js";
import { byId, keepingFocus } from "./dom.js";
import { showExamples } from "./examples.js";
import { GraphPicture } from "./graph-picture.js";
import { QuestionForm } from "./question-form.js";
import { asRead, isOpen } from "./ranking.js";
import { shareActions } from "./share.js";
import { EMPTY, fromFragment, isChanged, toFragment } from "./state.js";
import { askToken } from "./token-prompt.js";
import { WhatIf } from "./what-if.js";
import { litSentences, showWhy } from "./why.js";
import { asSentence, count, factKey, factSentence, percent, sameFact } from "./words.js";

/** @typedef {import("./types.js").Answers} Answers */
/** @typedef {import("./types.js").Asked} Asked */
/** @typedef {import("./types.js").Fact} Fact */
/** @typedef {import("./types.js").Relation} Relation */
/** @typedef {import("./types.js").Service} Service */
/** @typedef {import("./state.js").View} View */

const PROPOSED = 6; // choices of a question without choices
const RANKED = 8; // answers of a model that takes no choices

class Page {
  constructor() {
    this.api = new Api(askToken);
    this.view = EMPTY;
    /** @type {Answers | null} */
    this.answers = null;
    /** @type {Service | null} */
    this.service = null;
    /** @type {Relation[]} */
    this.relations = [];
    /** @type {Map<string | null, Promise<Relation[]>>} by model */
    this.loading = new Map();
    this.asking = new AbortController();
    const go = (/** @type {View} */ view, /** @type {string[]} */ ...keys) => void this.go(view, { keys });
    this.form = new QuestionForm(byId("ask"), (question, choices, model) => void this.ask(question, choices, model));
    this.whatIf = new WhatIf(byId("what-if"), this.api, () => this.loadRelations(this.view.model), go);
    this.picture = new GraphPicture(
      byId("picture"),
      (fact) => this.switchOff(fact),
      (fact) => this.switchOn(fact),
    );
    this.actions = shareActions(
      () => this.answers?.now,
      () => this.picture.toSvg(),
      (text) => this.announce(text),
    );
    litSentences(byId("why"));
    window.addEventListener("popstate", () => void this.restore());
  }

  async start() {
    try {
      const [service, { examples }] = await Promise.all([this.api.get("model"), this.api.get("examples")]);
      this.service = service;
      this.form.use(service);
      byId("served").textContent = served(service);
      showExamples(byId("examples"), examples, (example) => void this.go({ ...EMPTY, ...example, model: this.view.model }, { fill: true }));
    } catch (error) {
      this.complain(error);
    }
    await this.restore();
  }

  /** Show what the address says. */
  async restore() {
    const view = fromFragment(window.location.hash);
    this.form.fill(view.question, view.choices, view.model);
    if (!view.question) this.close();
    else if (view.choices.length || this.takesNone(view.model)) await this.go(view, { record: false });
    else await this.propose(view.question, view.model);
  }

  /** Whether a model takes no choices. @param {string | null} model */
  takesNone(model) {
    const models = this.service?.models ?? [];
    return isOpen(models.find(({ name }) => name === model) ?? models[0]);
  }

  close() {
    this.view = EMPTY;
    this.answers = null;
    document.body.classList.remove("answered");
    byId("answering").hidden = true;
  }

  /** A new question drops the changes; new choices keep them. @param {string} question @param {string[]} choices @param {string | null} model */
  async ask(question, choices, model) {
    if (!choices.length && !this.takesNone(model)) return this.propose(question, model);
    const kept = question === this.view.question ? this.view : EMPTY;
    const versus = kept.versus !== null && choices.includes(kept.versus) ? kept.versus : null;
    const beside = kept.beside === model ? null : kept.beside;
    await this.go({ ...kept, question, choices, model, versus, beside });
  }

  /** The best concepts of the graph become the choices of a question without choices. @param {string} question @param {string | null} model */
  async propose(question, model) {
    this.asking.abort();
    const asking = (this.asking = new AbortController());
    this.working(true);
    this.form.complain();
    try {
      const { ranking } = await this.api.ask({ question, model, n: PROPOSED, paths: 1, effects: false }, asking.signal);
      if (asking.signal.aborted || !ranking) return;
      const choices = ranking.answers.map(({ concept }) => concept);
      await this.go({ ...EMPTY, question, choices, model }, { fill: true });
      this.form.tell(`The model proposed these: the best ${choices.length} of ${ranking.candidates} concepts of the graph. Change them as you like.`);
    } catch (error) {
      if (!asking.signal.aborted) this.complain(error);
    } finally {
      if (this.asking === asking) this.working(false);
    }
  }

  /** @param {Fact} fact */
  switchOff(fact) {
    void this.go({ ...this.view, off: [...this.view.off, fact] }, { keys: [`undo off ${factKey(fact)}`] });
  }

  /** @param {Fact} fact */
  switchOn(fact) {
    void this.go({ ...this.view, off: this.view.off.filter((other) => !sameFact(other, fact)) });
  }

  /**
   * Ask for a view and show it. Nothing changes if the server refuses it.
   * @param {View} view
   * @param {{record?: boolean, fill?: boolean, keys?: string[]}} [options] record: make a new entry in the browser's history;
   *   keys: what gets the focus
   */
  async go(view, { record = true, fill = false, keys = [] } = {}) {
    this.asking.abort();
    const asking = (this.asking = new AbortController());
    this.working(true);
    this.form.complain();
    if (fill) this.form.fill(view.question, view.choices, view.model);
    try {
      const [answers, relations] = await Promise.all([this.fetch(view, asking.signal), this.loadRelations(view.model)]);
      if (asking.signal.aborted) return;
      const added = view.added.length > this.view.added.length;
      const isNew = view.question !== this.view.question || view.choices !== this.view.choices;
      this.view = view;
      this.answers = answers;
      this.relations = relations;
      if (record && toFragment(view) !== window.location.hash) window.history.pushState(null, "", toFragment(view) || window.location.pathname);
      if (added) this.whatIf.clear();
      keepingFocus(() => this.show(view, answers), ...keys);
      if (isNew) reveal();
    } catch (error) {
      if (!asking.signal.aborted) this.complain(error);
    } finally {
      if (this.asking === asking) this.working(false);
    }
  }

  /** @param {View} view @param {AbortSignal} signal @returns {Promise<Answers>} */
  async fetch(view, signal) {
    const { question, choices, model } = view;
    const ranked = this.takesNone(model);
    const asked = ranked ? { question, model, subgraph: true, n: RANKED, paths: 1 } : { question, choices, model, subgraph: true };
    const changes = { facts: view.added, without: view.off, ...(ranked ? {} : { graph: view.graph }) };
    const changed = isChanged(view);
    const now = this.api.ask({ ...asked, ...(changed ? changes : {}), ...(ranked ? {} : { contrast: view.versus }) }, signal);
    const before = changed ? this.api.ask({ ...asked, ...(ranked ? {} : { contrast: null }) }, signal) : now;
    const beside = view.beside === null ? null : this.api.ask({ ...asked, ...changes, model: view.beside, subgraph: false }, signal);
    const answers = await Promise.all([before, now, beside]);
    return { before: asRead(answers[0]), now: asRead(answers[1]), beside: answers[2] && asRead(answers[2]) };
  }

  /** @param {string | null} model @returns {Promise<Relation[]>} */
  async loadRelations(model) {
    const known = this.loading.get(model) ?? this.api.get("relations", model === null ? {} : { model }).then((found) => found.relations);
    this.loading.set(model, known);
    known.catch(() => this.loading.delete(model));
    return known;
  }

  /** @param {View} view @param {Answers} answers */
  show(view, answers) {
    const go = (/** @type {View} */ next, /** @type {string[]} */ ...keys) => void this.go(next, { keys });
    const models = this.service?.models ?? [];
    document.body.classList.add("answered");
    byId("answering").hidden = false;
    showAnswer(byId("answer"), view, answers, (fact) => this.sentence(fact), go, this.actions);
    showWhy(byId("why"), answers.now, view.graph, (fact) => this.switchOff(fact));
    this.whatIf.show(view, answers.now.ranking !== undefined);
    showVersus(byId("versus"), view, answers.now, go);
    showBeside(byId("beside"), view, answers, models, go);
    this.picture.show(view, answers);
    showAbout(byId("about"), answers.now, models.find(({ name }) => name === view.model) ?? models[0]);
    document.title = `${view.question} · mhgrn`;
    this.announce(spoken(view, answers));
  }

  /** @param {Fact} fact */
  sentence(fact) {
    const key = factKey(fact);
    for (const { subgraph } of [this.answers?.now, this.answers?.before].filter((answer) => answer !== undefined)) {
      const edge = subgraph?.edges.find(
        ({ head, relation, tail }) => factKey([subgraph.nodes[head].name, relation, subgraph.nodes[tail].name]) === key,
      );
      if (edge) return asSentence(edge.sentence);
    }
    return factSentence(fact, this.relations);
  }

  /** Show an error at the field it concerns. @param {unknown} error */
  complain(error) {
    const known = error instanceof ApiError ? error : new ApiError(`Something went wrong in this page: ${error}`, 0);
    if (/^facts/.test(known.field ?? "") && this.answers) this.whatIf.complain(asSentence(known.message));
    else this.form.complain(asSentence(known.message), known.field);
  }

  /** @param {boolean} working */
  working(working) {
    document.body.classList.toggle("working", working);
    this.form.working(working);
  }

  /** @param {string} text */
  announce(text) {
    byId("announcement").textContent = text;
  }
}

/** In one column, fold the examples and go to the answer. */
function reveal() {
  const examples = byId("examples").querySelector("details");
  if (!window.matchMedia("(max-width: 56rem)").matches) return;
  if (examples) examples.open = false;
  byId("answer").scrollIntoView();
}

/** @param {Service} service */
function served({ models }) {
  if (models.length > 1) return `${models.length} models`;
  return models.map(({ graph }) => `${count(graph.facts)} facts about ${count(graph.concepts)} concepts`).join("");
}

/** @param {View} view @param {Answers} answers */
function spoken(view, { before, now }) {
  const said = `Answer: ${now.choice}, ${percent(now.probabilities[now.choice])}.`;
  return isChanged(view) ? `${said} Before your changes: ${before.choice}, ${percent(before.probabilities[before.choice])}.` : said;
}

void new Page().start();
