/** Numbers and facts in words. */

/** @typedef {import("./types.js").Fact} Fact */
/** @typedef {import("./types.js").Relation} Relation */

export const PRINTED = 0.001; // the last digit of a percentage

/** @param {number} share */
export function percent(share) {
  if (share > 0 && share < PRINTED / 2) return "under 0.1%";
  if (share < 1 && share >= 1 - PRINTED / 2) return "over 99.9%";
  return `${(100 * share).toFixed(1)}%`;
}

/** @param {number} share */
export function roundPercent(share) {
  return share > 0 && share < 0.005 ? "under 1%" : `${Math.round(100 * share)}%`;
}

/** The change of a probability, in percentage points. @param {number} before @param {number} now */
export function change(before, now) {
  const points = 100 * (now - before);
  if (Math.abs(points) < 100 * PRINTED / 2) return "no change";
  return `${points > 0 ? "+" : "−"}${Math.abs(points).toFixed(1)} points`;
}

/** How many times as likely, from log odds. @param {number} logOdds */
export function times(logOdds) {
  const odds = Math.exp(Math.abs(logOdds));
  if (odds < 1.05) return "about as likely as";
  return `${odds < 10 ? odds.toFixed(1) : count(Number(odds.toPrecision(2)))} times as likely as`;
}

/** @param {number} number */
export function count(number) {
  return number.toLocaleString("en-US");
}

/** @param {number} number @param {string} one @param {string} [many] */
export function counted(number, one, many = `${one}s`) {
  return `${count(number)} ${number === 1 ? one : many}`;
}

/** A concept as it is read. @param {string} name */
export function label(name) {
  return name.replaceAll("_", " ");
}

/** A relation in words: AtLocation is "at location". @param {string} name */
export function relationWords(name) {
  return label(name).replace(/(?<=[a-z0-9])(?=[A-Z])/g, " ").toLowerCase();
}

/** @param {string} text */
export function asSentence(text) {
  const trimmed = text.trim();
  const first = trimmed.charAt(0).toUpperCase() + trimmed.slice(1);
  return /[.!?…]$/.test(first) ? first : `${first}.`;
}

/** @param {Fact} fact */
export function factKey(fact) {
  return fact.join("\t");
}

/** @param {Fact} one @param {Fact} other */
export function sameFact(one, other) {
  return factKey(one) === factKey(other);
}

/**
 * A fact as a sentence, from the template of its relation if that is known.
 * @param {Fact} fact
 * @param {Relation[]} relations
 */
export function factSentence([head, relation, tail], relations) {
  const known = relations.find(({ name }) => name === relation);
  const template = known?.sentence ?? `{head} — ${relation} → {tail}`;
  const text = template.replace(/\{head\}|\{tail\}/g, (place) => label(place === "{head}" ? head : tail) || "…");
  return asSentence(text);
}

/** @param {string} text @param {number} most */
export function shortened(text, most) {
  const letters = [...text];
  return letters.length > most ? `${letters.slice(0, most - 1).join("").trimEnd()}…` : text;
}

/** Texts as a list in English. @param {string[]} texts */
export function listed(texts) {
  return texts.length < 2 ? texts.join("") : `${texts.slice(0, -1).join(", ")} and ${texts[texts.length - 1]}`;
}
