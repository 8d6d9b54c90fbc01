/** The question's part of the graph as a picture. */

import { h, put, s } from "./dom.js";
import { drawnGraph } from "./graph-data.js";
import { layout } from "./graph-layout.js";
import { standalone } from "./graph-svg.js";
import { light, lights, onLit } from "./lit.js";
import { asSentence, counted, listed, relationWords, shortened } from "./words.js";
import { Zoom } from "./zoom.js";

/** @typedef {import("./types.js").Answers} Answers */
/** @typedef {import("./types.js").Fact} Fact */
/** @typedef {import("./state.js").View} View */
/** @typedef {import("./graph-data.js").Dot} Dot */
/** @typedef {import("./graph-data.js").Line} Line */
/** @typedef {import("./graph-data.js").Drawn} Drawn */
/** @typedef {{group: SVGGElement, box: SVGRectElement, text: SVGTextElement, dot: SVGElement, width: number, rank: number, hasRoom: boolean}} DotShape */
/** @typedef {{group: SVGGElement, line: SVGPathElement, target: SVGPathElement, name: SVGTextElement | null, nameWidth: number, bend: number, bulge: number}} LineShape */
/** @typedef {{left: number, top: number, right: number, bottom: number}} Rectangle */

const PILL = 26; // height of a name
const LONGEST = 26; // characters of a name
const DOT = 4.5; // radius of a concept without its name …
const CROWDED_DOT = 3; // … and among many concepts in a small picture
const SMALL = 500; // width of a small picture
const ROOM = 0.42; // share of the picture that names may cover when concepts are placed …
const CROWDED_ROOM = 0.16; // … and among many concepts
const CROWD = 60; // concepts
const NAMED_AT = [0.5, 0.4, 0.6, 0.3, 0.7, 0.2, 0.8]; // where along a line its relation may be written, best first
const SHIFTS = [[0, 0], [0, 15], [0, -15], [15, 0], [-15, 0], [0, 30], [0, -30], [30, 0], [-30, 0]]; // of a name on a path, if there is no room
const BEND = 18; // between facts about the same two concepts …
const MOST_BEND = 60; // … if they are few
const HELP = "Graph of the question. Plus and minus zoom, arrow keys move, 0 shows everything. The facts are also listed below.";

const HINT = "Point at a line to read its fact, click it to switch it off. To zoom with the wheel, click the picture first.";
const TOUCH_HINT = "Tap a line to read its fact and to switch it off. Zoom with two fingers.";
const BY_TOUCH = window.matchMedia("(pointer: coarse)").matches;

export class GraphPicture {
  /**
   * @param {HTMLElement} parent
   * @param {(fact: Fact) => void} switchOff
   * @param {(fact: Fact) => void} switchOn
   */
  constructor(parent, switchOff, switchOn) {
    this.switchOff = switchOff;
    this.switchOn = switchOn;
    /** @type {Drawn} */
    this.drawn = { dots: [], lines: [], hidden: new Set(), leftOut: { nodes: 0, edges: 0 } };
    /** @type {DotShape[]} */
    this.dots = [];
    /** @type {LineShape[]} */
    this.lines = [];
    /** @type {import("./graph-layout.js").Places} */
    this.places = { x: new Float64Array(0), y: new Float64Array(0) };
    this.unused = false; // the graph is switched off
    this.unnamed = 0; // concepts in view without their name
    this.size = { width: 0, height: 0 };
    this.radius = DOT; // of a concept without its name
    /** @type {Line | null} */
    this.selected = null;
    this.frame = 0;
    this.svg = s("svg", { class: "graph", role: "img", "aria-label": "Graph of the question" });
    this.stage = h("div", { class: "stage", tabindex: 0, role: "group", "aria-label": HELP }, this.svg);
    this.caption = h("p", { class: "caption" });
    this.about = h("p", { class: "hint left-out" });
    this.list = h("ul", { class: "all-facts" });
    this.all = h("details", { class: "listed", toggle: () => this.listFacts() }, h("summary"), this.list);
    this.zoom = new Zoom(this.stage, () => this.redraw());
    this.buttons = [
      zoomButton("−", "Zoom out", () => this.zoom.farther()),
      zoomButton("+", "Zoom in", () => this.zoom.closer()),
      zoomButton("Show all", "Show the whole picture", () => this.zoom.whole()),
    ];
    put(
      parent,
      h("div", { class: "heading" }, h("h2", { id: "picture-heading" }, "The facts in a picture"), h("div", { class: "zoom" }, ...this.buttons)),
      this.stage,
      this.caption,
      legend(),
      this.about,
      this.all,
    );
    onLit((lit) => this.lightUp(lit));
    this.stage.addEventListener("click", (event) => event.target === this.svg && this.select(null));
    new ResizeObserver(() => this.resized()).observe(this.stage);
    const colors = window.matchMedia("(prefers-color-scheme: dark)");
    colors.addEventListener("change", () => this.redraw());
  }

  /** @param {View} view @param {Answers} answers */
  show(view, answers) {
    this.drawn = drawnGraph(view, answers);
    this.unused = !view.graph;
    this.selected = null;
    this.make();
    this.zoom.whole();
    this.place();
    this.say();
    this.all.open = false;
    const { lines } = this.drawn;
    put(/** @type {Element} */ (this.all.firstElementChild), `All ${counted(lines.length, "fact")} of the picture as a list`);
    this.all.hidden = lines.length === 0;
    this.svg.setAttribute("aria-label", described(this.drawn));
  }

  /** The picture as an SVG document. */
  toSvg() {
    return this.drawn.dots.length ? standalone(this.svg, this.size.width, this.size.height) : null;
  }

  make() {
    const { dots, lines, hidden } = this.drawn;
    const pairs = new Map();
    for (const line of lines) {
      const pair = [line.from, line.to].sort((a, b) => a - b).join();
      pairs.set(pair, [...(pairs.get(pair) ?? []), line]);
    }
    const order = { plain: 0, off: 1, added: 2, path: 3 };
    for (const together of pairs.values()) together.sort((/** @type {Line} */ a, /** @type {Line} */ b) => order[b.kind] - order[a.kind]);
    this.lines = lines.map((line) => this.makeLine(line, pairs.get([line.from, line.to].sort((a, b) => a - b).join())));
    const ranks = ranked(dots);
    this.dots = dots.map((dot, i) => this.makeDot(dot, ranks[i]));
    const behind = lines.map((_, i) => i).sort((a, b) => order[lines[a].kind] - order[lines[b].kind] || a - b);
    const names = this.lines.flatMap(({ name }) => name ?? []);
    const shown = this.dots.filter((_, i) => !hidden.has(i)).sort((a, b) => b.rank - a.rank);
    put(
      this.svg,
      s("defs", {}, ...["plain", "path", "added", "off"].map(arrow)),
      s("g", { class: "lines" }, ...behind.map((i) => this.lines[i].group)),
      s("g", { class: "line-names" }, ...names),
      s("g", { class: "dots" }, ...shown.map(({ group }) => group)),
    );
    this.svg.classList.toggle("unused", this.unused);
    this.svg.classList.toggle("crowded", lines.length > 60 || dots.length > CROWD);
    for (const shape of this.dots) shape.width = Math.ceil(textWidth(shape.text)) + 20;
    for (const shape of this.lines) if (shape.name) shape.nameWidth = textWidth(shape.name);
  }

  /** @param {Dot} dot @param {number} rank @returns {DotShape} */
  makeDot(dot, rank) {
    const text = s("text", { class: "name" }, shortened(dot.label, LONGEST));
    const box = s("rect", { class: "pill", height: PILL, rx: dot.role === "choice" ? 5 : PILL / 2 });
    const mark = dot.role === "choice" ? s("rect", { class: "mark" }) : s("circle", { class: "mark" });
    const kinds = ["dot", dot.role, dot.onPath && "on-path", dot.isAnswer && "answer"].filter(Boolean).join(" ");
    const group = s("g", { class: kinds }, mark, box, text);
    const keys = this.drawn.lines.filter(({ fact }) => fact[0] === dot.name || fact[2] === dot.name).map(({ key }) => key);
    lights(group, keys);
    group.addEventListener("pointerover", () => this.explain(`${dot.label}: ${counted(keys.length, "fact")} in this picture`));
    return { group, box, text, dot: mark, width: 0, rank, hasRoom: false };
  }

  /** @param {Line} line @param {Line[]} together facts about the same two concepts @returns {LineShape} */
  makeLine(line, together) {
    const bend = (line.from < line.to ? 1 : -1) * bends(together.length)[together.indexOf(line)];
    const { dots } = this.drawn;
    const bulge = dots[line.from].role !== dots[line.to].role ? 0 : { question: 1, choice: -1, between: 0 }[dots[line.from].role];
    const drawn = s("path", { class: "line", "marker-end": `url(#arrow-${line.kind})` });
    const target = s("path", { class: "target" });
    const group = s("g", { class: `edge ${line.kind}`, "data-fact": line.key, click: () => !this.zoom.dragged && this.select(line) }, target, drawn);
    lights(group, [line.key], line.key);
    const isNamed = line.kind !== "plain" || this.drawn.lines.length <= 10;
    const name = isNamed ? s("text", { class: `line-name ${line.kind}` }, relationWords(line.fact[1])) : null;
    return { group, line: drawn, target, name, nameWidth: 0, bend, bulge };
  }

  resized() {
    const { clientWidth: width, clientHeight: height } = this.stage;
    if (!width || (width === this.size.width && height === this.size.height)) return;
    this.zoom.whole();
    this.place();
  }

  place() {
    const { clientWidth: width, clientHeight: height } = this.stage;
    if (!width) return;
    this.size = { width, height };
    this.radius = this.drawn.dots.length > CROWD && width < SMALL ? CROWDED_DOT : DOT;
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    let covered = 0;
    const room = (this.drawn.dots.length > CROWD ? CROWDED_ROOM : ROOM) * width * height;
    /** @type {import("./graph-layout.js").Box[]} */
    const boxes = this.drawn.dots.map(({ role }) => ({ role, halfWidth: this.radius + 2, halfHeight: this.radius + 2 }));
    const byRank = this.byRank();
    for (const shape of this.dots) shape.hasRoom = false;
    for (const i of byRank) {
      covered += (this.dots[i].width + 12) * (PILL + 10);
      if (covered > room) break;
      boxes[i].halfWidth = this.dots[i].width / 2 + 5;
      boxes[i].halfHeight = PILL / 2 + 4;
      this.dots[i].hasRoom = true;
    }
    const links = this.drawn.lines.map(({ from, to }) => /** @type {[number, number]} */ ([from, to])).filter(([a, b]) => a !== b);
    this.places = layout(boxes, links, width, height);
    this.redraw();
  }

  /** Numbers of the concepts, the most important first. */
  byRank() {
    return this.dots.map((_, i) => i).sort((a, b) => this.dots[a].rank - this.dots[b].rank);
  }

  redraw() {
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => this.draw());
  }

  draw() {
    const { scale, x: left, y: top } = this.zoom;
    const { width, height } = this.size;
    const at = (/** @type {number} */ i) => ({ x: this.places.x[i] * scale + left, y: this.places.y[i] * scale + top });
    const inView = (/** @type {{x: number, y: number}} */ p) => p.x >= -20 && p.x <= width + 20 && p.y >= -20 && p.y <= height + 20;
    /** @type {Rectangle[]} */
    const taken = [];
    /** @type {Rectangle[]} */
    const bounds = [];
    let unnamed = 0;
    const visible = this.byRank().filter((i) => !this.drawn.hidden.has(i));
    const marks = visible.map(at);
    for (const i of visible) {
      const shape = this.dots[i];
      const place = at(i);
      const { role, onPath } = this.drawn.dots[i];
      const covered = (/** @type {Rectangle} */ pill) => marks.filter((mark) => overlap(pill, around(mark, this.radius, this.radius), 0)).length - 1;
      const isFree = (/** @type {Rectangle} */ pill) =>
        !taken.some((other) => overlap(pill, other, 3)) && (shape.hasRoom || role !== "between" || covered(pill) === 0);
      const pills = (onPath ? SHIFTS : SHIFTS.slice(0, 1)).map(([x, y]) =>
        around(within({ x: place.x + x, y: place.y + y }, shape.width / 2, width), shape.width / 2, PILL / 2),
      );
      const pill = inView(place) ? (pills.find(isFree) ?? null) : null;
      if (pill) taken.push(pill);
      else if (inView(place)) unnamed++;
      bounds[i] = pill ?? around(place, this.radius + 1, this.radius + 1);
      this.moveDot(shape, place, pill);
    }
    const blocked = visible.map((i) => bounds[i]);
    this.lines.forEach((shape, k) => {
      const { from, to } = this.drawn.lines[k];
      const name = this.moveLine(shape, at(from), at(to), bounds[from], bounds[to], blocked);
      if (name) blocked.push(name);
    });
    this.unnamed = unnamed;
    this.sayHidden();
    const [out, , whole] = this.buttons;
    out.disabled = whole.disabled = this.zoom.isWhole;
  }

  /** @param {DotShape} shape @param {{x: number, y: number}} place @param {Rectangle | null} pill */
  moveDot(shape, place, pill) {
    shape.group.classList.toggle("named", pill !== null);
    const { radius } = this;
    if (shape.dot instanceof SVGCircleElement) set(shape.dot, { cx: place.x, cy: place.y, r: radius });
    else set(shape.dot, { x: place.x - radius, y: place.y - radius, width: 2 * radius, height: 2 * radius });
    const middle = pill ? { x: (pill.left + pill.right) / 2, y: (pill.top + pill.bottom) / 2 } : place;
    set(shape.box, { x: middle.x - shape.width / 2, y: middle.y - PILL / 2, width: shape.width });
    set(shape.text, middle);
  }

  /**
   * @param {LineShape} shape
   * @param {{x: number, y: number}} from
   * @param {{x: number, y: number}} to
   * @param {Rectangle} start
   * @param {Rectangle} end
   * @param {Rectangle[]} taken
   * @returns {Rectangle | null} where the name of the relation is
   */
  moveLine(shape, from, to, start, end, taken) {
    const length = Math.hypot(to.x - from.x, to.y - from.y) || 1;
    const control = {
      x: (from.x + to.x) / 2 - ((to.y - from.y) / length) * 2 * shape.bend,
      y: (from.y + to.y) / 2 + ((to.x - from.x) / length) * 2 * shape.bend,
    };
    control.x += shape.bulge * Math.min(20 + 0.25 * length, 80);
    const a = leaving(start, control, 1);
    const b = leaving(end, control, 4);
    const path = `M${round(a.x)} ${round(a.y)}Q${round(control.x)} ${round(control.y)} ${round(b.x)} ${round(b.y)}`;
    shape.line.setAttribute("d", path);
    shape.target.setAttribute("d", path);
    if (!shape.name) return null;
    const places = NAMED_AT.map((share) => along(a, control, b, share));
    const isLong = Math.hypot(b.x - a.x, b.y - a.y) > 24;
    const box = (/** @type {{x: number, y: number}} */ place) => around(place, shape.nameWidth / 2, 7);
    const inside = { left: 2, top: 2, right: this.size.width - 2, bottom: this.size.height - 2 };
    const fits = (/** @type {Rectangle} */ name) => holds(inside, name) && !taken.some((other) => overlap(name, other, 1));
    const free = isLong ? places.find((place) => fits(box(place))) : undefined;
    shape.name.classList.toggle("shown", free !== undefined);
    set(shape.name, { ...(free ?? places[0]) });
    return free ? box(free) : null;
  }

  /** @param {import("./lit.js").Lit | null} lit */
  lightUp(lit) {
    this.svg.classList.toggle("lighting", lit !== null && lit.facts.size > 0);
    const touched = new Set();
    this.drawn.lines.forEach(({ key, from, to }, i) => {
      const isLit = lit?.facts.has(key) ?? false;
      this.lines[i].group.classList.toggle("lit", isLit);
      this.lines[i].group.classList.toggle("main", isLit && lit?.main === key);
      this.lines[i].name?.classList.toggle("lit", isLit);
      if (isLit) touched.add(from).add(to);
    });
    this.dots.forEach(({ group }, i) => group.classList.toggle("lit", touched.has(i)));
    const main = lit?.main ? this.drawn.lines.find(({ key }) => key === lit.main) : undefined;
    if (main) this.explain(asSentence(main.sentence));
    else if (!lit) this.say();
  }

  /** @param {Line | null} line */
  select(line) {
    this.selected = line;
    this.say();
  }

  say() {
    const line = this.selected;
    if (!line) return this.explain(this.unused ? "The graph is switched off: these facts are not used." : "");
    const isOff = line.kind === "off";
    const flip = () => (isOff ? this.switchOn : this.switchOff)(line.fact);
    put(
      this.caption,
      `${asSentence(line.sentence)} `,
      line.kind !== "added" && h("button", { type: "button", class: "undo", click: flip }, isOff ? "Switch it on again" : "Switch this fact off"),
    );
  }

  /** @param {string} text */
  explain(text) {
    if (this.selected && !text) return;
    put(this.caption, text || (BY_TOUCH ? TOUCH_HINT : HINT));
    this.caption.classList.toggle("quiet-text", !text);
  }

  sayHidden() {
    const { dots, leftOut } = this.drawn;
    const out = [leftOut.nodes && counted(leftOut.nodes, "concept"), leftOut.edges && counted(leftOut.edges, "fact")];
    const parts = out.filter((part) => typeof part === "string");
    const texts = [
      dots.length === 0 && "No concept of the question or the choices is in the graph.",
      parts.length && `To keep the picture readable, ${listed(parts)} ${parts.length > 1 || leftOut.nodes + leftOut.edges > 1 ? "are" : "is"} not drawn.`,
      this.unnamed && `${counted(this.unnamed, "name")} ${this.unnamed === 1 ? "is" : "are"} hidden where there is no room. Zoom in to read ${this.unnamed === 1 ? "it" : "them"}.`,
    ];
    this.about.textContent = texts.filter(Boolean).join(" ");
  }

  listFacts() {
    if (!this.all.open) return put(this.list);
    const rows = this.drawn.lines.map((line) => {
      const isOff = line.kind === "off";
      const flip = () => (isOff ? this.switchOn : this.switchOff)(line.fact);
      const sentence = asSentence(line.sentence);
      const name = `${isOff ? "Switch on" : "Switch off"}: ${sentence}`;
      const button = h("button", { type: "button", class: "undo", "aria-label": name, click: flip }, isOff ? "Switch on" : "Switch off");
      const row = h("li", { class: line.kind }, h("span", {}, sentence), line.kind !== "added" && button);
      lights(row, [line.key], line.key);
      return row;
    });
    put(this.list, ...rows);
  }
}

/** @param {string} text @param {string} name @param {() => void} act */
function zoomButton(text, name, act) {
  return h("button", { type: "button", class: "quiet", "aria-label": name, title: name, click: act }, text);
}

function legend() {
  const key = (/** @type {string} */ kind, /** @type {string} */ text) => h("li", { class: kind }, text);
  return h(
    "ul",
    { class: "legend", "aria-label": "Legend" },
    key("question", "in the question"),
    key("choice", "a choice"),
    key("answer", "the answer"),
    key("between", "between them"),
    key("path", "facts under Why"),
  );
}

/** @param {Drawn} drawn */
function described({ dots, lines }) {
  const of = (/** @type {string} */ role) => dots.filter((dot) => dot.role === role).length;
  const parts = [`${counted(of("question"), "concept")} of the question`, `${of("choice")} of the choices`, `${of("between")} between them`];
  return `Graph of ${listed(parts)}, with ${counted(lines.length, "fact")}`;
}

/** Order in which names get room. @param {Dot[]} dots */
function ranked(dots) {
  const weight = (/** @type {Dot} */ dot) =>
    1000 * Number(dot.onPath) + 600 * Number(dot.isAnswer) + 500 * Number(dot.role === "choice") + 400 * Number(dot.role === "question") + Math.min(dot.degree, 99);
  const order = dots.map((_, i) => i).sort((a, b) => weight(dots[b]) - weight(dots[a]) || a - b);
  /** @type {number[]} */
  const ranks = [];
  order.forEach((i, rank) => (ranks[i] = rank));
  return ranks;
}

/** How far the lines between the same two concepts bend, the straightest first. @param {number} lines */
function bends(lines) {
  const step = Math.min(BEND, (2 * MOST_BEND) / lines);
  const all = [...Array(lines).keys()].map((i) => (i - (lines - 1) / 2) * step);
  return all.sort((a, b) => Math.abs(a) - Math.abs(b));
}

/** @param {string} kind */
function arrow(kind) {
  const attributes = { id: `arrow-${kind}`, class: `arrow ${kind}`, viewBox: "0 0 8 8", refX: 6, refY: 4, markerWidth: 8, markerHeight: 8 };
  return s("marker", { ...attributes, orient: "auto", markerUnits: "userSpaceOnUse" }, s("path", { d: "M0 0.6 7.4 4 0 7.4z" }));
}

/** @param {SVGTextElement} text */
function textWidth(text) {
  return text.getComputedTextLength();
}

/** @param {Element} element @param {Record<string, number>} attributes */
function set(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(round(value)));
}

/** @param {number} value */
function round(value) {
  return Math.round(value * 10) / 10;
}

/** @param {{x: number, y: number}} place @param {number} halfWidth @param {number} halfHeight @returns {Rectangle} */
function around({ x, y }, halfWidth, halfHeight) {
  return { left: x - halfWidth, top: y - halfHeight, right: x + halfWidth, bottom: y + halfHeight };
}

/** Keep a name inside the picture. @param {{x: number, y: number}} place @param {number} half @param {number} width */
function within(place, half, width) {
  return { x: Math.min(Math.max(place.x, half + 2), Math.max(width - half - 2, half + 2)), y: place.y };
}

/** A point of a quadratic curve. @param {{x: number, y: number}} a @param {{x: number, y: number}} control @param {{x: number, y: number}} b @param {number} t */
function along(a, control, b, t) {
  const at = (/** @type {"x" | "y"} */ axis) => (1 - t) ** 2 * a[axis] + 2 * t * (1 - t) * control[axis] + t ** 2 * b[axis];
  return { x: at("x"), y: at("y") };
}

/** @param {Rectangle} outer @param {Rectangle} inner */
function holds(outer, inner) {
  return inner.left >= outer.left && inner.top >= outer.top && inner.right <= outer.right && inner.bottom <= outer.bottom;
}

/** @param {Rectangle} one @param {Rectangle} other @param {number} gap */
function overlap(one, other, gap) {
  return one.left < other.right + gap && other.left < one.right + gap && one.top < other.bottom + gap && other.top < one.bottom + gap;
}

/** Where a line from the middle of a rectangle to a point leaves it, with a gap. @param {Rectangle} box @param {{x: number, y: number}} to @param {number} gap */
function leaving(box, to, gap) {
  const middle = { x: (box.left + box.right) / 2, y: (box.top + box.bottom) / 2 };
  const dx = to.x - middle.x;
  const dy = to.y - middle.y;
  const share = Math.min(((box.right - box.left) / 2 + gap) / (Math.abs(dx) || 1e-9), ((box.bottom - box.top) / 2 + gap) / (Math.abs(dy) || 1e-9), 1);
  return { x: middle.x + dx * share, y: middle.y + dy * share };
}
