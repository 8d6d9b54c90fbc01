"""Coverage of grounding: CommonsenseQA names the concept that each question was written around. Is it found?

    mhgrn kg build ../shared/data/conceptnet/assertions-en.csv.gz -o graph/
    python benchmarks/grounding_coverage.py --kg graph/ [--data ../shared/data] [--split dev] [--json FILE]

Counts the questions whose ``question_concept`` is among the concepts of every one of their statements, on the question's side or
the answer's, by the same name or by the same lemmas. For the others it counts the first reason that applies.
"""

import argparse
import json
from collections import Counter
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from measuring import add_json_option, write_json
from mhgrn.grounding.grounder import Grounder
from mhgrn.grounding.index import ConceptIndex
from mhgrn.grounding.lemmas import DETERMINERS, LONGEST, STOP_WORDS, concept_pattern, lemma, lemmatize, respelt, tokenize
from mhgrn.grounding.statements import fill_in_the_blank
from mhgrn.kg import KnowledgeGraph
from mhgrn.kg.names import concept_name

DATA = Path(__file__).parents[2] / "shared" / "data"


def is_part(part: list[str], whole: list[str]) -> bool:
    return any(whole[i : i + len(part)] == part for i in range(len(whole) - len(part) + 1))


def without_determiners(words: list[str]) -> list[str]:
    return [word for word in words if word not in DETERMINERS]


def reason(concept: str, stem: str, statement: str, graph: KnowledgeGraph, published: bool) -> str:
    """Why the concept is not found in the statement."""
    words, asked, stated = tokenize(concept), tokenize(stem), tokenize(statement)
    roots, asked_roots = [lemma(word) for word in words], [lemma(word) for word in asked]
    if graph.find(concept_name(concept)) is None and not ConceptIndex.of(graph).with_pattern(lemmatize(concept)):
        return "not in the graph"
    gapless = [lemma(word) for word in without_determiners(asked)]
    if is_part(roots, asked_roots) or is_part([lemma(word) for word in without_determiners(words)], gapless):
        if len(words) > LONGEST:
            return f"in the stem: more than {LONGEST} words"
        if concept_pattern(concept) is None:
            return "in the stem: never looked for (stop words, words that say nothing, or a pronoun at its edge)"
        if not set(roots) <= {lemma(word) for word in stated}:
            return "in the stem: holds the question word, which the statement lacks"
        if published and any(word in STOP_WORDS for word in words):
            return "in the stem: dropped for a stop word in it"
        if published and not is_part(roots, asked_roots):
            return "in the stem: with an article or possessive between its words"
        if published and words[-1].endswith(("er", "e")):
            return "in the stem: dropped as a longer form of another word of the stem"
        return "in the stem: not among the shortest names of its span"
    compound, respelt_stem = "".join(roots), [respelt(root) for root in asked_roots]
    if is_part([respelt(root) for root in roots], respelt_stem) or any(
        compound == "".join(asked_roots[i : i + n]) for n in (1, 2, 3) for i in range(len(asked_roots))
    ):
        return "not in the stem: another spelling of it is"
    missing = [word for word, root in zip(words, roots, strict=True) if root not in asked_roots]
    if not missing:
        return "not in the stem: its words are, apart"
    if all(get_close_matches(word, asked, cutoff=0.75) for word in missing):
        return "not in the stem: a word like it is (misspelt?)"
    return "not in the stem: none of its words is" if len(missing) == len(words) else "not in the stem: some of its words are"


def measure(questions: list[dict[str, Any]], graph: KnowledgeGraph, published: bool) -> dict[str, Any]:
    grounder = Grounder(graph, published)
    found: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    examples: dict[str, list[str]] = {}
    concepts = statements = 0
    for row in questions:
        stem, concept = row["question"]["stem"], row["question"]["question_concept"]
        choices = [choice["text"] for choice in row["question"]["choices"]]
        mentions = [grounder.mentions(fill_in_the_blank(stem, choice), choice) for choice in choices]
        concepts += sum(len(m.question) for m in mentions)
        statements += len(mentions)
        names = [{graph.name(c) for c in m.question + m.answer} for m in mentions]
        by_lemmas = [lemmatize(concept) in set(map(lemmatize, found_names)) for found_names in names]
        asked = [lemmatize(concept) in {lemmatize(graph.name(c)) for c in m.question} for m in mentions]
        found["by lemmas, on either side, in every statement"] += all(by_lemmas)
        found["by lemmas, on either side, in some statement"] += any(by_lemmas)
        found["by lemmas, on the question's side, in every statement"] += all(asked)
        found["by name, on either side, in every statement"] += all(concept_name(concept) in found_names for found_names in names)
        if not all(by_lemmas):
            missed = choices[by_lemmas.index(False)]
            why = reason(concept, stem, fill_in_the_blank(stem, missed), graph, published)
            reasons[why] += 1
            examples.setdefault(why, []).append(concept)
    return {
        "questions": len(questions),
        "found": dict(found),
        "missed": dict(reasons.most_common()),
        "examples": examples,
        "question concepts per statement": concepts / statements,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kg", type=Path, required=True, help="folder of a built graph")
    parser.add_argument("--data", type=Path, default=DATA, help="folder that holds csqa")
    parser.add_argument("--split", choices=("dev", "train"), default="dev")
    parser.add_argument("--examples", action="store_true", help="also print the concepts that were missed")
    add_json_option(parser)
    options = parser.parse_args()
    graph = KnowledgeGraph.load(options.kg)
    lines = (options.data / "csqa" / f"{options.split}_rand_split.jsonl").read_text(encoding="utf-8").splitlines()
    questions = [json.loads(line) for line in lines]
    result = {}
    for label, published in (("default", False), ("published", True)):
        result[label] = counts = measure(questions, graph, published)
        each = counts["question concepts per statement"]
        print(f"{label} rules: {counts['questions']:,} questions, {each:.2f} question concepts per statement")
        for what, count in counts["found"].items():
            print(f"  {count:6,} {count / counts['questions']:6.1%}  {what}")
        there = counts["questions"] - sum(n for why, n in counts["missed"].items() if why.startswith("not in the"))
        share = counts["found"]["by lemmas, on either side, in every statement"] / there
        print(
            f"  {there:6,} {there / counts['questions']:6.1%}  are in the graph and in their stem; of these {share:.1%} are found"
        )
        for why, count in counts["missed"].items():
            print(
                f"  {count:6,} {count / counts['questions']:6.1%}  missed, {why}"
                + (f" {counts['examples'][why]}" if options.examples else "")
            )
    write_json(options.json, result)


if __name__ == "__main__":
    main()
