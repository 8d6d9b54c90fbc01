"""`ask` with the smallest set of facts that carries the answer, against `ask --by attention`, one question at a time.

    python benchmarks/evidence.py [--run RUN --questions FILE [--kg GRAPH]] [--count N] [--rounds N] [--json FILE]

Without ``--run`` the starter model answers its own dev questions. The model is loaded before the clock starts. The questions are
spread evenly over the file; both forms answer all of them in turn.
"""

import argparse
from pathlib import Path
from typing import Any

import mhgrn
from measuring import add_json_option, compare, sample, write_json
from mhgrn.questions.reading import read_questions
from mhgrn.starter import HERE


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--run", help="a trained run; the starter model by default")
    parser.add_argument("--kg", type=Path, help="the run's graph, if it has moved")
    parser.add_argument("--questions", type=Path, default=HERE / "dev.jsonl", help="file of questions")
    parser.add_argument("--count", type=int, default=40, help="number of questions")
    parser.add_argument("--rounds", type=int, default=3)
    add_json_option(parser)
    options = parser.parse_args(arguments)
    qa = mhgrn.load(options.run or "starter", options.kg)
    every = list(read_questions(options.questions))
    questions = every[:: max(1, len(every) // options.count)][: options.count]

    def answer_all(by: str) -> list[Any]:
        return [qa.answer(question, by=by).evidence for question in questions]

    compared = compare({by: lambda by=by: sample(lambda: answer_all(by)) for by in ("attention", "evidence")}, options.rounds)  # type: ignore[misc]
    found = answer_all("evidence")
    dependent = [evidence for evidence in found if evidence is not None and evidence.dependent]
    ratio = compared.ratio("evidence", "attention")
    print(f"{len(questions)} questions, {options.rounds} rounds: evidence takes {ratio.times()} as long as attention")
    for by in compared.samples:
        print(f"  {by}: {compared.seconds(by).scaled(1e3 / len(questions)).times()} ms per question".replace("x", ""))
    print(f"  {len(dependent)} answers depend on the graph; a set carries {sum(evidence.carries for evidence in dependent)}")
    print(compared.conditions())
    carried = sum(evidence.carries for evidence in dependent)
    numbers = {"questions": len(questions), "ratio": ratio.as_json(), "dependent": len(dependent), "carried": carried}
    write_json(options.json, numbers | compared.as_json())


if __name__ == "__main__":
    main()
