"""mhgrn text: tune text encoders on a graph, and measure them."""

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from mhgrn.cli._options import (
    AllowDownload,
    AllowPickle,
    AsJson,
    Dataset,
    Force,
    GraphFolder,
    Output,
    Questions,
    file_to_write,
)
from mhgrn.cli._output import check_one_output, show, show_json

if TYPE_CHECKING:
    from mhgrn.questions.question import Question
    from mhgrn.text.tuning import Tuned

PANEL = "Train"

app = typer.Typer(
    help="Tune text encoders on a graph, and measure them without training.", no_args_is_help=True, rich_help_panel=PANEL
)


@app.callback()
def text() -> None:
    pass


@app.command()
def score(
    questions: Questions,
    model: Annotated[
        str, typer.Option(help="minilm, bge-small, smollm2, gemma3-270m, a folder, a GGUF file, or a Hugging Face hub name.")
    ] = "minilm",
    measure: Annotated[
        Literal["cosine", "length", "pmi"] | None,
        typer.Option(
            help="cosine: similarity of question and choice. length: log-likelihood of the choice per token. pmi: pointwise mutual"
            " information of question and choice. Unset: pmi for causal language models, cosine for others.",
            show_default=False,
        ),
    ] = None,
    prompt: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help="length, pmi: text before the choice; {question} is the question. Unset: as likelihood.prompt.",
            show_default=False,
        ),
    ] = None,
    split: Annotated[str, typer.Option("--split", help="train, dev or test, of a dataset with splits.")] = "dev",
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first questions.", show_default=False)] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", parser=file_to_write, help="Write the scores as JSON lines.", show_default=False
        ),
    ] = None,
    dataset: Dataset = None,
    allow_download: AllowDownload = False,
    allow_pickle: AllowPickle = False,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Measure the accuracy of a text encoder or a language model on questions, without training."""
    from mhgrn.errors import UserError
    from mhgrn.io.atomic import check_file_writable, write_text
    from mhgrn.printing import strict_json

    check_one_output(output, as_json)
    if output is not None:
        check_file_writable(output, force)
    if measure == "cosine" and prompt is not None:
        raise UserError("--prompt is for --measure length or pmi, not for cosine.")
    asked = _questions(questions, dataset, split, limit)
    from mhgrn.text.zero_shot import zero_shot

    found = zero_shot(model, asked, measure, prompt, allow_download, allow_pickle)
    if output is not None:
        rows = [{"id": question.id, "scores": scores} for question, scores in zip(asked, found.scores, strict=True)]
        write_text(output, "".join(strict_json(row) + "\n" for row in rows))
    if as_json:
        about = {"model": model, "measure": found.measure, "questions": found.answered, "accuracy": found.accuracy}
        show_json(about | {"standard_error": found.standard_error})
        return
    says = f"accuracy {found.accuracy:.1%} ± {found.standard_error:.1%} of {found.answered:,} questions"
    show(f"{model}, {found.measure}: {says}")


@app.command()
def tune(
    graph: GraphFolder,
    output: Output,
    budget: Annotated[str, typer.Option(help="Time to spend, for example 90s, 30m or 2h.")] = "30m",
    steps: Annotated[int | None, typer.Option(min=1, help="Number of steps, instead of a budget.", show_default=False)] = None,
    encoder: Annotated[str, typer.Option(help="Text encoder to tune: a name, a folder, or a hub name.")] = "minilm",
    train: Annotated[
        Literal["all", "lora", "linear"],
        typer.Option(help="What is trained: all weights, or an adapter of about a megabyte: a LoRA or a linear map."),
    ] = "all",
    encoding: Annotated[
        Literal["auto", "separate", "pair"], typer.Option(help="Encode question and answer separately or as a pair.")
    ] = "auto",
    without_questions: Annotated[
        list[Path] | None,
        typer.Option(
            help="Leave out the facts that connect a concept of one of these questions with one of its choices. May be repeated.",
            show_default=False,
        ),
    ] = None,
    questions: Annotated[
        list[Path] | None,
        typer.Option(
            help="Questions with answers to train on too: a file, or the training split of a dataset. May be repeated.",
            show_default=False,
        ),
    ] = None,
    measure: Annotated[
        Path | None,
        typer.Option(help="Questions to measure the encoder with, before and after tuning.", show_default=False),
    ] = None,
    keep: Annotated[float, typer.Option(min=0, max=1, help="Share of the untuned weights in the result.")] = 0.4,
    batch_size: Annotated[int, typer.Option(min=2, help="Questions per step.")] = 192,
    learning_rate: Annotated[
        float | None, typer.Option(help="Highest learning rate. Unset: by what is trained.", show_default=False)
    ] = None,
    distill: Annotated[
        float, typer.Option(min=0, help="Weight of a loss term that keeps the similarities of the untuned encoder. 0: none.")
    ] = 0.0,
    lora_layers: Annotated[
        Literal["attention", "all"],
        typer.Option(help="Linear layers that a LoRA changes: query, key and value of the attention, or all."),
    ] = "attention",
    lora_rank: Annotated[int, typer.Option(min=1, help="Rank of a LoRA.")] = 16,
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 0,
    allow_download: AllowDownload = False,
    allow_pickle: AllowPickle = False,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Tune a text encoder on the facts of a graph. Use the result with `--set text.encoder=FOLDER`.

    Ctrl-C and SIGTERM save a checkpoint. The same command resumes.
    """
    from mhgrn.kg import KnowledgeGraph
    from mhgrn.progress import seconds_of
    from mhgrn.text.tuning import TuneOptions
    from mhgrn.text.tuning import tune as tune_encoder
    from mhgrn.text.tuning.pairs import PairOptions

    seconds = seconds_of(budget, "--budget")
    loaded = KnowledgeGraph.load(graph)
    without = [question for path in without_questions or () for question in _all_questions(path)]
    asked = _questions(measure, None, "dev", None) if measure is not None else []
    labeled = [question for path in questions or () for question in _questions(path, None, "train", None)]
    options = TuneOptions(
        encoder=encoder,
        train=train,
        encoding=encoding,
        steps=steps,
        budget=seconds,
        batch_size=batch_size,
        learning_rate=learning_rate,
        keep=keep,
        distill=distill,
        lora_layers=lora_layers,
        lora_rank=lora_rank,
        pairs=PairOptions(seed=seed),
    )
    tuned = tune_encoder(loaded, output, options, without, asked, force, allow_download, allow_pickle, labeled)
    if as_json:
        show_json(
            {"encoder": str(output), "steps": tuned.steps}
            | {name: list(pair) for name in ("held_out", "questions") if (pair := getattr(tuned, name)) is not None}
        )
        return
    show(f"{output}: {tuned.steps:,} steps{_held_out(tuned)}")
    if tuned.questions is not None:
        show(f"cosine on {measure}: {tuned.questions[0]:.1%} before, {tuned.questions[1]:.1%} after")
    show(f"Use it with --set text.encoder={output}")


def _held_out(tuned: "Tuned") -> str:
    """What a tuned encoder achieves on facts that were held out, in words."""
    if tuned.held_out is None:
        return "; the graph is too small to hold facts out"
    before, after = tuned.held_out
    if before is None:
        return f"; {after:.1%} of held-out facts answered right among five names"
    return f"; answers to held-out facts {before:.1%} before, {after:.1%} after"


def _all_questions(path: Path) -> "list[Question]":
    """The questions of a file, or of all splits of a dataset."""
    from mhgrn.questions.datasets import Dataset
    from mhgrn.questions.reading import read_questions, read_splits

    if path.is_file() and path.suffix.lower() not in (".yaml", ".yml"):
        return list(read_questions(path))
    return [question for questions in read_splits(Dataset.find(path)).values() for question in questions]


def _questions(path: Path, dataset: str | None, split: str, limit: int | None) -> "list[Question]":
    """The questions of a file, or of a split of a dataset."""
    from mhgrn.errors import UserError
    from mhgrn.questions.datasets import Dataset
    from mhgrn.questions.reading import read_questions, read_splits

    if path.is_file() and path.suffix.lower() not in (".yaml", ".yml"):
        found = list(islice(read_questions(path, dataset), limit))
    else:
        splits = read_splits(Dataset.find(path, dataset))
        if split not in splits:
            raise UserError(f"{path} has no split {split}; it has {', '.join(splits)}.")
        found = splits[split][:limit]
    if not found:
        raise UserError(f"{path} contains no questions.")
    return found
