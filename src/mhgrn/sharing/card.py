"""The model card: a generated description of a model in the form of the Hugging Face hub."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from mhgrn.errors import UserError
from mhgrn.printing import printable, shortened
from mhgrn.runs import CONFIG, Run
from mhgrn.sharing.measured import Evaluation, Measured, read_measured


def model_card(run: Run, reference: str, with_graph: bool, about: Mapping[str, str]) -> str:
    """A description of the model in the form of the Hugging Face hub: YAML, then Markdown.

    Args:
        run: The run.
        reference: What the graph is.
        with_graph: Whether the graph is packed along.
        about: ``license``, ``training_data``, ``limits`` and ``title`` in words; what is missing is said to be missing.
    """
    unknown = sorted(set(about) - {"license", "training_data", "limits", "title"})
    if unknown:
        raise UserError(f"a model card has no entry {shortened(unknown[0])}; give license, training_data, limits or title.")
    config, metrics, data, measured = run.config, run.about.get("metrics", {}), run.about["data"], read_measured(run)
    head = {"library_name": "mhgrn", "tags": ["mhgrn", "question-answering", "knowledge-graph"]}
    if "license" in about:
        head["license"] = about["license"]
    packed = "It is packed along." if with_graph else "It is not packed along: name its folder with `kg`."
    load = 'qa = mhgrn.load("FOLDER OR OWNER/NAME"' + ("" if with_graph else ', kg="GRAPH"') + ")"
    lines = [
        f"# {_words(about.get('title', 'A model of mhgrn'))}",
        "",
        "It answers multiple-choice questions with a text encoder and a knowledge graph, and shows the facts behind each answer.",
        "",
        "```python",
        "import mhgrn",
        "",
        load,
        'print(qa.ask("QUESTION", ["CHOICE", "CHOICE"]))',
        "```",
        "",
        "## Model",
        "",
        f"- Graph encoder: `{_words(config.graph_encoder)}`; text encoder: `{_words(Path(config.text.encoder).name)}`",
        f"- Graph: {_words(reference)}. {packed}",
        f"- Settings: `{CONFIG}`",
        "",
        "## Training data",
        "",
        _words(about.get("training_data", "Not described by the author.")),
        f"Fingerprint of the prepared questions: `{_words(data.get('fingerprint', ''))}`.",
        "",
        "## Accuracy and calibration",
        "",
        _accuracy(metrics),
        *(_evaluated(split, found) for split, found in measured.evaluation.items()),
        _calibration(run),
        "",
        "## Faithfulness of explanations",
        "",
        *_faithfulness(measured),
        "",
        "## Limits",
        "",
        _words(about.get("limits", "Not described by the author.")),
        "The model knows what its graph and its text encoder know. It always chooses one of the given choices.",
        "",
        "## License",
        "",
        _words(about.get("license", "Not stated. The graph and the training questions may have licenses of their own.")),
    ]
    return f"---\n{yaml.safe_dump(head, sort_keys=False)}---\n\n" + "\n".join(lines) + "\n"


def _accuracy(metrics: Mapping[str, Any]) -> str:
    accuracy = metrics.get("dev_accuracy")
    if not isinstance(accuracy, float):
        return "The accuracy is not stored."
    measured = f"Accuracy on the dev questions: {accuracy:.1%} (epoch {metrics.get('epoch')})."
    return f"{measured} They chose the epoch, so it is a little high."


def _evaluated(split: str, found: Evaluation) -> str:
    return (
        f"On {found.questions:,} {_words(split)} questions: accuracy {found.accuracy:.1%}, expected calibration error"
        f" {found.expected_calibration_error:.1%}, Brier score {found.brier_score:.3f}, negative log-likelihood"
        f" {found.negative_log_likelihood:.3f} (`mhgrn eval`, {_words(found.date)})."
    )


def _calibration(run: Run) -> str:
    if run.calibration is None:
        return "The model is not calibrated: its probabilities may be too high."
    fitted = f"fitted on {run.calibration.questions:,} questions ({_words(run.calibration.source)})"
    return f"Probabilities are calibrated: scores are divided by {run.calibration.temperature:.3g}, {fitted}."


def _faithfulness(measured: Measured) -> list[str]:
    found = measured.faithfulness
    if found is None:
        return ["Not measured. `mhgrn faithfulness RUN --store` measures it for the card."]
    lines = [
        f"`mhgrn faithfulness` on {found.questions:,} {_words(found.split)} questions, {found.explained:,} of them explained"
        f" ({_words(found.date)}); 95 % bootstrap intervals in brackets.",
        "",
        *(f"- Accuracy {_words(name)}: {value}." for name, value in found.accuracy.items()),
        f"- The answer depends on the graph for {found.depends} of the questions: without the graph it changes, or its probability"
        " moves by more than 0.1.",
    ]
    if found.sufficient is not None and found.necessary is not None:
        lines.append(
            f"- Of these answers, {found.sufficient} stay the same with only the shown facts, and {found.necessary} change without"
            " them or lose more than half of what the graph gave them."
        )
    return lines


def _words(text: str) -> str:
    """A text for one line of a card: no line breaks, no control characters, no HTML."""
    return printable(" ".join(str(text).split())).replace("<", "&lt;").replace("`", "'")
