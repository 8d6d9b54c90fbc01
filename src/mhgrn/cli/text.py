"""mhgrn text: measure text encoders and language models."""

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from mhgrn.cli._options import AllowDownload, AllowPickle, AsJson, Dataset, Questions
from mhgrn.cli._output import show, show_json

if TYPE_CHECKING:
    from mhgrn.questions.question import Question

PANEL = "Train"

app = typer.Typer(help="Measure text encoders without training.", no_args_is_help=True, rich_help_panel=PANEL)


@app.callback()
def text() -> None:
    pass


@app.command()
def score(
    questions: Questions,
    model: Annotated[str, typer.Option(help="Text encoder: a name, a folder, or a Hugging Face hub name.")] = "minilm",
    measure: Annotated[
        Literal["cosine"] | None,
        typer.Option(help="cosine: similarity of question and choice.", show_default=False),
    ] = None,
    split: Annotated[str, typer.Option("--split", help="train, dev or test, of a dataset with splits.")] = "dev",
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first questions.", show_default=False)] = None,
    dataset: Dataset = None,
    allow_download: AllowDownload = False,
    allow_pickle: AllowPickle = False,
    as_json: AsJson = False,
) -> None:
    """Measure the accuracy of a text encoder on questions without training."""
    asked = _questions(questions, dataset, split, limit)
    from mhgrn.text.loading import load_text_encoder
    from mhgrn.text.settings import TextEncoderSettings
    from mhgrn.text.zero_shot import ZeroShot, cosine_scores

    encoder = load_text_encoder(TextEncoderSettings(encoder=model, encoding="separate"), None, allow_download, allow_pickle)
    found = ZeroShot.of(cosine_scores(encoder, asked), asked)
    if as_json:
        show_json({"model": model, "measure": "cosine", "questions": found.answered, "accuracy": found.accuracy})
        return
    show(f"{model}, cosine: accuracy {found.accuracy:.1%} of {found.answered:,} questions")


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
