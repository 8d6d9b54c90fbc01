/** The graph that is drawn: that of the answer, with the facts that were switched off. */

import { factKey } from "./words.js";

/** @typedef {import("./types.js").Answers} Answers */
/** @typedef {import("./types.js").Fact} Fact */
/** @typedef {import("./types.js").Subgraph} Subgraph */
/** @typedef {import("./state.js").View} View */
/** @typedef {{name: string, label: string, role: "question" | "choice" | "between", onPath: boolean, isAnswer: boolean, degree: number}} Dot */
/** @typedef {{key: string, fact: Fact, from: number, to: number, sentence: string, kind: "plain" | "path" | "added" | "off", onPath: boolean}} Line */
/** @typedef {{dots: Dot[], lines: Line[], hidden: Set<number>, leftOut: {nodes: number, edges: number}}} Drawn */

/** @type {Subgraph} */
const NONE = { nodes: [], edges: [], left_out: { nodes: 0, edges: 0 } };

/**
 * The concepts of the unchanged answer come first and are always placed, so that a change moves as little as possible.
 * @param {View} view
 * @param {Answers} answers
 * @returns {Drawn}
 */
export function drawnGraph(view, { before, now }) {
  const old = before.subgraph ?? NONE;
  const current = view.graph ? (now.subgraph ?? NONE) : old;
  const numbers = new Map();
  /** @type {Dot[]} */
  const dots = [];
  for (const node of [...old.nodes, ...current.nodes]) {
    if (numbers.has(node.name)) continue;
    numbers.set(node.name, dots.length);
    dots.push({ name: node.name, label: node.label, role: node.role, onPath: false, isAnswer: false, degree: 0 });
  }
  const reasons = [...now.paths.flatMap((path) => path.facts), ...(now.evidence?.facts ?? []).map((one) => one.fact)];
  const onPaths = new Set(view.graph ? reasons.map(factKey) : []);
  const off = new Set(view.off.map(factKey));
  const added = new Set(view.added.map(factKey));
  /** @type {Map<string, Line>} */
  const lines = new Map();
  for (const graph of current === old ? [old] : [current, old]) {
    for (const edge of graph.edges) {
      const [head, tail] = [graph.nodes[edge.head], graph.nodes[edge.tail]];
      /** @type {Fact} */
      const fact = [head.name, edge.relation, tail.name];
      const key = factKey(fact);
      const kind = off.has(key) ? "off" : edge.added || added.has(key) ? "added" : onPaths.has(key) ? "path" : "plain";
      if (lines.has(key) || (graph === old && current !== old && kind !== "off")) continue;
      const [from, to] = [numbers.get(head.name), numbers.get(tail.name)];
      lines.set(key, { key, fact, from, to, sentence: edge.sentence, kind, onPath: onPaths.has(key) });
    }
  }
  markDots(dots, [...lines.values()], numbers, view, now);
  const shown = new Set(current.nodes.map(({ name }) => numbers.get(name)));
  for (const line of lines.values()) shown.add(line.from).add(line.to);
  const hidden = new Set(dots.map((_, i) => i).filter((i) => !shown.has(i)));
  return { dots, lines: [...lines.values()], hidden, leftOut: current.left_out };
}

/** @param {Dot[]} dots @param {Line[]} lines @param {Map<string, number>} numbers @param {View} view @param {import("./types.js").Answer} now */
function markDots(dots, lines, numbers, view, now) {
  for (const line of lines) {
    for (const i of [line.from, line.to]) {
      dots[i].degree++;
      dots[i].onPath ||= line.onPath;
    }
  }
  for (const name of now.concepts.choices[now.choice] ?? []) {
    const dot = dots[numbers.get(name) ?? -1];
    if (dot?.role === "choice") dot.isAnswer = true;
  }
  if (!view.graph) return;
  for (const name of now.paths.flatMap((path) => path.concepts)) {
    const dot = dots[numbers.get(name) ?? -1];
    if (dot) dot.onPath = true;
  }
}
