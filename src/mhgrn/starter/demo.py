"""mhgrn demo: the whole system on the starter set, from text files to explained answers."""

from pathlib import Path
from typing import Any

from mhgrn.errors import UserError
from mhgrn.inference import QuestionAnswerer
from mhgrn.io.atomic import check_file_writable
from mhgrn.io.markers import write_json
from mhgrn.io.replacing import is_standard_output
from mhgrn.progress import say
from mhgrn.starter import NEW_QUESTIONS, Starter, cache_folder, calibrate_on_everyday_questions, resume_or_train, reweight
from mhgrn.subgraphs.prepared import PreparedData
from mhgrn.text.encoder import TextEncoder
from mhgrn.text.loading import load_text_encoder
from mhgrn.text.settings import TextEncoderSettings
from mhgrn.text.zero_shot import cosine_scores
from mhgrn.training.evaluation import evaluate, most_edges_accuracy


def run_demo(folder: Path | None, json_file: Path | None, seed: int, force: bool = True) -> dict[str, Any]:
    """Build, prepare, train, compare and answer. Print the result and return it."""
    folder = folder or cache_folder() / "demo"
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is not a folder; name a folder to work in.")
    if json_file is not None:
        check_file_writable(json_file, force)
    say(f"1/3  building the starter graph and preparing its questions in {folder}")
    starter = Starter.build(folder)
    graph, data = starter.graph, starter.data
    say(
        f"     {len(graph):,} concepts, {graph.fact_count:,} facts; "
        + ", ".join(f"{n:,} {s}" for s, n in data.about["splits"].items())
        + " questions"
    )
    say("2/3  training MHGRN on text and graph")
    run = resume_or_train(data, starter.config(seed=seed), folder / "run", graph)
    if reweight(run) or run.calibration is None:
        calibrate_on_everyday_questions(run)
    untrained = load_text_encoder(TextEncoderSettings())
    accuracy = {
        name: {
            "mhgrn": evaluate(run, asked, "test")["accuracy"],
            "cosine": cosine_accuracy(untrained, asked, "test"),
            "most_edges": most_edges_accuracy(asked, "test"),
        }
        for name, asked in (("written", starter.written), ("ordinary", starter.ordinary))
    }
    say("3/3  answering new questions\n")
    qa = QuestionAnswerer(run)
    answers = [qa.ask(question, choices) for question, choices in NEW_QUESTIONS]
    result = {
        "accuracy": accuracy,
        "test_questions": len(starter.written.split("test")),
        "seed": seed,
        "answers": [a.to_dict() for a in answers],
    }
    if json_file is not None:
        write_json(json_file, result)
    text = _text(result, [str(answer) for answer in answers])
    (say if json_file is not None and is_standard_output(json_file) else print)(text)
    return result


def cosine_accuracy(encoder: TextEncoder, data: PreparedData, split: str) -> float:
    """The accuracy of the cosine of question and choice, without training."""
    questions = [data.questions[number] for number in data.answered_split(split)]
    scores = cosine_scores(encoder, questions)
    return sum(found.index(max(found)) == q.answer for found, q in zip(scores, questions, strict=True)) / len(questions)


def _text(result: dict[str, Any], answers: list[str]) -> str:
    accuracy = result["accuracy"]
    labels = {
        "mhgrn": "text and graph (MHGRN, K = 2)",
        "cosine": "text only (cosine, untrained)",
        "most_edges": "edge-count baseline",
    }
    lines = [f"  {label:<34}{accuracy['written'][key]:>10.1%}{accuracy['ordinary'][key]:>20.1%}" for key, label in labels.items()]
    return "\n".join(
        [
            f"accuracy on {result['test_questions']} held-out questions with five choices each",
            f"  {'wrong choices':<34}{'misleading':>10}{'ordinary':>20}",
            *lines,
            "",
            "\n\n".join(answers),
            "",
            'Ask it yourself: mhgrn ask starter "Where do you keep milk?" -c refrigerator -c oven -c drawer',
        ]
    )
