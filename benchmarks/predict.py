"""Answers to CommonsenseQA's dev questions in batches, against one question at a time, with paths, without and with effects.

    python benchmarks/predict.py [--run RUN] [--data DIR] [--questions N] [--rounds N] [--batch-size N] [--json FILE]

Without ``--run`` a model is trained for one epoch on a few questions: the time of an answer does not depend on how good it is. Its
node features are random vectors, because features are only looked up.

Batched answers to all questions and single answers to a part of them take turns; times are per question. ``predict`` answers in
batches, ``ask`` one question at a time. The time of a stage is the wall-clock time inside it. While the model and the decoding of
one batch run, a thread grounds and encodes the next, so the stages of batched answers sum to more than their total.
"""

import argparse
import json
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import mhgrn
from graphs import DATA, graph_of
from measuring import Comparison, Measure, Sample, add_json_option, compare, sample, write_json
from mhgrn.inference import QuestionAnswerer
from mhgrn.questions.question import Question
from mhgrn.questions.reading import read_questions
from mhgrn.scoring import Scorer, TextMemory

TRAINED_ON = 200  # questions
STAGES: dict[tuple[type, str], str] = {
    (TextMemory, "text"): "text",
    (QuestionAnswerer, "_subgraphs"): "graph",
    (Scorer, "graphs"): "graph",
    (Scorer, "__call__"): "graph",
    (QuestionAnswerer, "_decode"): "decoding",
    (QuestionAnswerer, "_with_effects"): "effects",
}


class StageTimes:
    """Wall-clock seconds inside the stages of answering. The graph encoder's work for effects counts as effects."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._methods = {place: getattr(*place) for place in STAGES}

    def __enter__(self) -> "StageTimes":
        for (owner, name), method in self._methods.items():
            setattr(owner, name, self._timed(method, STAGES[owner, name]))
        return self

    def __exit__(self, *_: object) -> None:
        for (owner, name), method in self._methods.items():
            setattr(owner, name, method)

    def _timed(self, method: Callable[..., Any], stage: str) -> Callable[..., Any]:
        @wraps(method)
        def timed(*args: Any, **options: Any) -> Any:
            began, graph = time.perf_counter(), self.seconds["graph"]
            try:
                return method(*args, **options)
            finally:
                if stage == "effects":
                    self.seconds["graph"] = graph
                self.seconds[stage] += time.perf_counter() - began

        return timed

    def take(self, questions: int) -> dict[str, float]:
        """Milliseconds per question since the last call."""
        found = {stage: 1e3 * self.seconds[stage] / questions for stage in dict.fromkeys(STAGES.values())}
        self.seconds.clear()
        return found


def questions_file(data: Path, split: str) -> Path:
    return next((data / "csqa").glob(f"{split}*.jsonl"))


def trained_run(data: Path, work: Path) -> Path:
    """A run trained for one epoch on the first questions."""
    questions = work / "questions"
    questions.mkdir()
    for split, count in (("train", TRAINED_ON), ("dev", 50)):
        lines = questions_file(data, split).read_text(encoding="utf-8").splitlines(keepends=True)[:count]
        (questions / f"{split}.jsonl").write_text("".join(lines), encoding="utf-8")
    graph = mhgrn.KnowledgeGraph.load(graph_of(data, None, work))
    prepared = mhgrn.prepare(questions, graph, work / "prepared")
    config = mhgrn.Config.of({"features": "random", "training": {"epochs": 1}})
    mhgrn.train(prepared, config, work / "run", graph)
    return work / "run"


def measure(
    qa: QuestionAnswerer, stages: StageTimes, questions: list[Question], options: argparse.Namespace, effects: bool
) -> dict[str, Any]:
    """Compare both forms; ``options.part`` questions a round are answered one at a time."""
    batch_size, part, rounds = options.batch_size, options.part, options.rounds
    times: dict[str, Counter[str]] = {"batched": Counter(), "single": Counter()}
    start = 0

    def batched() -> Sample:
        taken = sample(lambda: list(qa.ask_many(questions, batch_size=batch_size, paths=1, effects=effects, by="attention")))
        times["batched"].update(stages.take(len(questions)))  # type: ignore[arg-type]
        return taken._replace(calls=len(questions))

    def single() -> Sample:
        nonlocal start
        asked = [questions[i % len(questions)] for i in range(start, start + part)]
        start += part
        taken = sample(lambda: [qa.answer(question, paths=1, effects=effects, by="attention") for question in asked])
        times["single"].update(stages.take(part))  # type: ignore[arg-type]
        return taken._replace(calls=part)

    comparison: Comparison = compare({"batched": batched, "single": single}, rounds)
    speedup: Measure = comparison.ratio("single", "batched")
    print(f"\n{'with' if effects else 'without'} effects: batches are {speedup.times()} as fast as one question at a time")
    found: dict[str, Any] = {"speedup": speedup.as_json(), "comparison": comparison.as_json(), "stages": {}}
    for form, totals in times.items():
        each = {stage: milliseconds / (rounds + 1) for stage, milliseconds in totals.items()}
        wall, cpu = comparison.seconds(form).scaled(1e3)
        shown = ", ".join(f"{stage} {milliseconds:.1f}" for stage, milliseconds in each.items() if milliseconds)
        print(f"  {form:<8} {wall.text(' ms')} a question, {cpu.text(' ms')} of processor time; {shown}")
        found["stages"][form] = each
    print(comparison.conditions())
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--run", type=Path, help="folder of a trained run")
    parser.add_argument("--questions", type=int, help="how many dev questions; all by default")
    parser.add_argument("--part", type=int, default=128, help="questions a round that are answered one at a time")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    add_json_option(parser)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        qa = mhgrn.load(options.run or trained_run(options.data, Path(work)))
        questions = list(read_questions(questions_file(options.data, "dev")))[: options.questions]
        print(f"{len(questions):,} questions, batches of {options.batch_size}")
        with StageTimes() as stages:
            numbers = {
                name: measure(qa, stages, questions, options, effects)
                for name, effects in (("without effects", False), ("with effects", True))
            }
    write_json(options.json, json.loads(json.dumps(numbers)))


if __name__ == "__main__":
    main()
