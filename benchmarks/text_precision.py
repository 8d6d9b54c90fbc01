"""Speed and accuracy of the text encoder for answering: with padding, without padding (float32), and in 8 bits (int8).

    python benchmarks/text_precision.py [--run RUN] [--data DIR] [--questions N] [--part N] [--rounds N] [--json FILE]

Each form encodes the stem and the choices of one CommonsenseQA dev question at a time, as `mhgrn ask` does; the forms take turns on
the same questions. Then float32 and int8 encode all texts and answer all questions: cosine distances and accuracies. RUN
should be trained on CommonsenseQA with a text encoder like BERT; the starter model is the default.
"""

import argparse
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional

from graphs import DATA
from measuring import Sample, add_json_option, compare, sample, write_json
from mhgrn.inference import QuestionAnswerer
from mhgrn.questions.question import Question
from mhgrn.questions.reading import read_questions
from mhgrn.runs import Run
from mhgrn.scoring import Scorer, TextMemory
from mhgrn.starter import find_run
from mhgrn.text.encoder import TextEncoder
from mhgrn.text.packed import TextPrecision

PRECISIONS: tuple[TextPrecision, ...] = ("float32", "int8")


def encode(scorer: Scorer, questions: list[Question]) -> None:
    """Encode the texts of one question at a time; nothing is known from earlier questions."""
    with torch.inference_mode():
        for question in questions:
            TextMemory(scorer).text([question.stem] * len(question.choices), question.choices)


def speed(run: Run, encoders: dict[str, TextEncoder], questions: list[Question], options: argparse.Namespace) -> dict[str, Any]:
    """Time of one question's texts in each form."""
    starts = dict.fromkeys(encoders, 0)

    def form(name: str) -> Callable[[], Sample]:
        scorer = Scorer(replace(run, encoder=encoders[name]))

        def take() -> Sample:
            part = [questions[i % len(questions)] for i in range(starts[name], starts[name] + options.part)]
            starts[name] += options.part
            return sample(lambda: encode(scorer, part))._replace(calls=len(part))

        return take

    comparison = compare({name: form(name) for name in encoders}, options.rounds)
    found: dict[str, Any] = {"comparison": comparison.as_json()}
    for name in encoders:
        wall, cpu = comparison.seconds(name).scaled(1e3)
        print(f"{name:<16} {wall.text(' ms')} for the texts of a question, {cpu.text(' ms')} of processor time")
    for name in list(encoders)[1:]:
        ratio = comparison.ratio(next(iter(encoders)), name)
        found[name] = ratio.as_json()
        print(f"{name} is {ratio.times()} as fast as with padding")
    print(comparison.conditions())
    return found


def distances(one: TextEncoder, other: TextEncoder, questions: list[Question]) -> torch.Tensor:
    """Cosine distances between the vectors of all texts in two forms."""
    texts = sorted({text for question in questions for text in (question.stem, *question.choices)})
    return 1 - functional.cosine_similarity(one.embed_all(texts, "").double(), other.embed_all(texts, "").double(), dim=1)


def right(qa: QuestionAnswerer, questions: list[Question]) -> list[bool]:
    answers = qa.ask_many(questions, effects=False, paths=1)
    return [
        question.answer is not None and answer.choice == question.choices[question.answer]
        for question, answer in zip(questions, answers, strict=True)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--run", default="starter", help="folder of a trained run")
    parser.add_argument("--questions", type=int, help="how many dev questions; all by default")
    parser.add_argument("--part", type=int, default=64, help="questions in each sample of the time")
    parser.add_argument("--rounds", type=int, default=5)
    add_json_option(parser)
    options = parser.parse_args()
    run = Run.load(find_run(options.run))
    questions = list(read_questions(next((options.data / "csqa").glob("dev*.jsonl"))))[: options.questions]
    encoders: dict[str, TextEncoder] = {"padded": run.encoder}
    encoders |= {precision: run.encoder.for_answering(precision) for precision in PRECISIONS}
    found: dict[str, Any] = {"speed": speed(run, encoders, questions, options)}
    away = distances(encoders["padded"], encoders["int8"], questions)
    found["distance"] = {"mean": float(away.mean()), "max": float(away.max()), "texts": len(away)}
    print(f"cosine distance of int8 from padded float32, {len(away):,} texts: mean {away.mean():.5f}, max {away.max():.5f}")
    exact, fast = (right(QuestionAnswerer(run, text_precision=precision), questions) for precision in PRECISIONS)
    found["accuracy"] = dict(zip(PRECISIONS, (sum(exact) / len(exact), sum(fast) / len(fast)), strict=True))
    points = 100 * (found["accuracy"]["int8"] - found["accuracy"]["float32"])
    changed = sum(one != other for one, other in zip(exact, fast, strict=True))
    shown = ", ".join(f"{precision} {share:.2%}" for precision, share in found["accuracy"].items())
    print(f"accuracy on {len(questions):,} questions: {shown}")
    print(f"difference {points:+.2f} points; {changed} answers became right or wrong")
    write_json(options.json, found)


if __name__ == "__main__":
    main()
