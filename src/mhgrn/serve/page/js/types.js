/**
 * Types of the API, see `/docs`.
 *
 * @typedef {[head: string, relation: string, tail: string]} Fact
 * @typedef {{entity: string, facts: Fact[], concepts: string[], text: string, probability: number, ties: number,
 *   without: number[] | null, without_path: number | null, sentences: string[]}} Path
 * @typedef {{name: string, label: string, role: "question" | "choice" | "between", choices: number[]}} GraphNode
 * @typedef {{head: number, relation: string, tail: number, sentence: string, added: boolean}} GraphEdge
 * @typedef {{nodes: GraphNode[], edges: GraphEdge[], left_out: {nodes: number, edges: number}}} Subgraph
 * @typedef {{fact: Fact, sentence: string, difference_without: number}} ContrastFact
 * @typedef {{this: string, other: string, difference: number, facts: ContrastFact[]}} Contrast
 * @typedef {{facts: {fact: Fact, sentence: string, without: number}[], dependent: boolean, sufficient: boolean, necessary: boolean,
 *   only: number, without: number, without_graph: number, answer_only: string, answer_without: string,
 *   answer_without_graph: string, summary: string, is_answer?: boolean}} Evidence
 * @typedef {{question: string, choice: string, probabilities: Record<string, number>, paths: Path[],
 *   concepts: {question: string[], choices: Record<string, string[]>}, notes: string[],
 *   masses: Record<string, number> | null, without_graph: number | null, evidence: Evidence | null, subgraph?: Subgraph, contrast?: Contrast | null,
 *   abstain_below?: number, abstained?: boolean, ranking?: Ranking}} Answer
 * @typedef {{answers: {concept: string, probability: number, paths?: {text: string}[]}[], candidates: number, shared_path?: string,
 *   set?: string[]}} Ranking
 * @typedef {{question: string, choices?: string[], n?: number, facts?: Fact[], without?: Fact[], graph?: boolean, paths?: number,
 *   by?: "evidence" | "attention", effects?: boolean, subgraph?: boolean, contrast?: string | null, model?: string | null}} Asked
 * @typedef {{name: string, label: string, facts: number}} Concept
 * @typedef {{name: string, sentence: string}} Relation
 * @typedef {{question: string, choices: string[]}} Example
 * @typedef {{name: string, task: "choices" | "open", encoder: string, text_precision: string, graph_encoder: string, parameters: number,
 *   graph: {concepts: number, facts: number, relations: number, fingerprint: string},
 *   training: Record<string, unknown>, accuracy: Record<string, unknown>}} Model
 * @typedef {{question: number, choice: number, choices: number, facts: number, body: number}} Limits
 * @typedef {{models: Model[], limits: Limits}} Service
 *
 * The answers that a view shows: without changes, with them (null if there are none), and of the model beside it.
 * @typedef {{before: Answer, now: Answer, beside: Answer | null}} Answers
 */

export {};
