"""How often a run that was trained on choices finds the right answer without them: python benchmarks/proposals.py

The questions are dev questions of the starter set whose right choice is a concept of the graph. Their choices are dropped. Printed
are the shares of questions whose right answer is proposed, and is among the first 1, 6 and 10 answers.
"""

import argparse
import json
from pathlib import Path

import numpy as np

import mhgrn
from mhgrn.errors import UserError
from mhgrn.kg.names import concept_name
from mhgrn.kg.sentences import label
from mhgrn.progress import track
from mhgrn.questions.reading import read_questions
from mhgrn.starter import HERE

FILES = ("dev", "everyday-dev")
FIRST = (1, 6, 10)


def measured(qa: mhgrn.QuestionAnswerer, name: str, limit: int | None) -> dict[str, float]:
    """The shares of the questions of one file."""
    asked = [(question.stem, question.choices[question.answer or 0]) for question in read_questions(HERE / f"{name}.jsonl")]
    asked = [(stem, right) for stem, right in asked if qa.graph.find(concept_name(right)) is not None]
    asked = [asked[i] for i in np.random.default_rng(0).permutation(len(asked))[:limit]]
    rows = []
    for stem, right in track(asked, name):
        try:
            found = [one.concept for one in qa.rank(stem, n=1_000, paths=1, effects=False).ranking or []]
        except UserError:  # the question names no concept
            found = []
        place = found.index(label(concept_name(right))) if label(concept_name(right)) in found else len(found) + 1_000
        rows.append([place < 1_000, *(place < first for first in FIRST)])
    shares = np.mean(rows, axis=0).tolist()
    return {
        "questions": len(asked),
        "proposed": shares[0],
        **{f"first {n}": share for n, share in zip(FIRST, shares[1:], strict=True)},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", help="folder of a run on the starter's graph; by default the built-in model")
    parser.add_argument("--limit", type=int, help="random questions of each file")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the result to a file")
    chosen = parser.parse_args()
    qa = mhgrn.load(chosen.run)
    result = {name: measured(qa, name, chosen.limit) for name in FILES}
    for name, found in result.items():
        shares = ", ".join(f"{key} {value:.1%}" for key, value in found.items() if key != "questions")
        print(f"{name}: {found['questions']:,.0f} questions, {shares}")
    if chosen.json:
        chosen.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
