"""mhgrn demo: the whole system on the starter set, from text files to explained answers."""

from pathlib import Path
from typing import Any

from mhgrn.errors import UserError
from mhgrn.inference import QuestionAnswerer
from mhgrn.io.atomic import check_file_writable
from mhgrn.io.markers import write_json
from mhgrn.io.replacing import is_standard_output
from mhgrn.progress import say
from mhgrn.starter import NEW_QUESTIONS, Starter, cache_folder, resume_or_train
from mhgrn.training.evaluation import evaluate, most_edges_accuracy


def run_demo(folder: Path | None, json_file: Path | None, seed: int, force: bool = True) -> dict[str, Any]:
    """Build, prepare, train, compare and answer. Print the result and return it."""
    folder = folder or cache_folder()
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is not a folder; name a folder to work in.")
    if json_file is not None:
        check_file_writable(json_file, force)
    say(f"1/4  building the starter graph and preparing its questions in {folder}")
    starter = Starter.build(folder)
    graph, data = starter.graph, starter.data
    say(
        f"     {len(graph):,} concepts, {graph.fact_count:,} facts; "
        + ", ".join(f"{n} {s}" for s, n in data.about["splits"].items())
        + " questions"
    )
    say("2/4  training MHGRN on text and graph")
    run = resume_or_train(data, starter.config(seed=seed), folder / "run", graph)
    say("3/4  training without the graph, to compare")
    text_run = resume_or_train(data, starter.config(seed=seed, graph_encoder="none"), folder / "text-run", graph)
    accuracy = {
        "mhgrn": evaluate(run, data, "test")["accuracy"],
        "text": evaluate(text_run, data, "test")["accuracy"],
        "most_edges": most_edges_accuracy(data, "test"),
    }
    say("4/4  answering new questions\n")
    qa = QuestionAnswerer(run)
    answers = [qa.ask(question, choices) for question, choices in NEW_QUESTIONS]
    result = {
        "accuracy": accuracy,
        "test_questions": len(data.split("test")),
        "seed": seed,
        "answers": [a.to_dict() for a in answers],
    }
    if json_file is not None:
        write_json(json_file, result)
    text = _text(result, [str(answer) for answer in answers], folder)
    (say if json_file is not None and is_standard_output(json_file) else print)(text)
    return result


def _text(result: dict[str, Any], answers: list[str], folder: Path) -> str:
    run = "starter" if folder == cache_folder() else folder / "run"
    accuracy = result["accuracy"]
    return "\n".join(
        [
            f"accuracy on {result['test_questions']} held-out questions with five choices each",
            f"  text and graph (MHGRN, K = 2)   {accuracy['mhgrn']:.1%}",
            f"  text only                       {accuracy['text']:.1%}",
            f"  edge-count baseline             {accuracy['most_edges']:.1%}",
            "",
            "\n\n".join(answers),
            "",
            f'Ask it yourself: mhgrn ask {run} "Where do you keep milk?" -c refrigerator -c oven -c drawer',
        ]
    )
