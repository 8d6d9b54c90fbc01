"""mhgrn evidence: facts and paths that may help with a question, for people and for language models."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mhgrn.cli._options import (
    AllowDownload,
    AllowPickle,
    AsJson,
    Dataset,
    Device,
    Force,
    NamedRun,
    RunEncoder,
    RunFeatures,
    RunGraph,
    file_to_write,
)
from mhgrn.cli._output import show, show_json, show_written

if TYPE_CHECKING:
    from mhgrn.questions.question import Question

PANEL = "Ask"


def evidence(
    run: NamedRun,
    question: Annotated[str | None, typer.Argument(help="The question.", show_default=False)] = None,
    choice: Annotated[
        list[str] | None,
        typer.Option("--choice", "-c", help="A choice; two or more, or none for an open question.", show_default=False),
    ] = None,
    budget: Annotated[
        int, typer.Option(min=1, max=1_000_000, help="Largest number of tokens, by the tokenizer of the run's text encoder.")
    ] = 300,
    context: Annotated[bool, typer.Option("--context", help="Print only a block of text to put before a question.")] = False,
    questions: Annotated[
        Path | None,
        typer.Option(help="A file of questions instead of one; .txt: one open question per line.", show_default=False),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            parser=file_to_write,
            help="With --questions: JSON lines to write; - is standard output.",
            show_default=False,
        ),
    ] = None,
    dataset: Dataset = None,
    kg: RunGraph = None,
    features: RunFeatures = None,
    encoder: RunEncoder = None,
    allow_download: AllowDownload = False,
    allow_pickle: AllowPickle = False,
    device: Device = "cpu",
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Show facts and paths of the graph that may help with a question, as sentences, best first, within a token budget."""
    from mhgrn.errors import UserError
    from mhgrn.io.atomic import check_file_writable, write_text
    from mhgrn.printing import strict_json
    from mhgrn.progress import track

    if (question is None) == (questions is None):
        raise UserError("give a question, or a file of questions (--questions FILE).")
    if as_json and context:
        raise UserError("--json and --context are two forms of the same result; leave one out.")
    asked: list[Question | str] = []
    if questions is None:
        if output is not None or dataset is not None:
            raise UserError(f"{'-o' if output is not None else '--dataset'} is for --questions.")
    else:
        if output is None:
            raise UserError("--questions needs -o FILE, the file to write.")
        if choice or context or as_json:
            raise UserError("--questions writes JSON lines; leave out --choice, --context and --json.")
        check_file_writable(output, force)
        if output.exists() and questions.exists() and output.samefile(questions):
            raise UserError(f"{output} is the file of questions; name another file to write to.")
        asked = _asked(questions, dataset)
    from mhgrn.starter import load

    if question is not None:
        found = load(run, kg, features, device, encoder, allow_download, allow_pickle).evidence(question, choice or None, budget)
        if as_json:
            show_json(found.to_dict())
        else:
            show(found.context(provenance=True) if context else found)
        return
    assert output is not None
    qa = load(run, kg, features, device, encoder, allow_download, allow_pickle)
    rows = []
    for number, one in enumerate(track(asked, "gathering evidence"), start=1):
        gathered = qa.evidence(one, budget=budget)
        name = str(number) if isinstance(one, str) else one.id
        rows.append({"id": name, **gathered.to_dict(), "context": gathered.context()})
    write_text(output, "".join(strict_json(row) + "\n" for row in rows))
    show_written(output, f"evidence for {len(rows):,} questions")


def _asked(path: Path, dataset: str | None) -> "list[Question | str]":
    """The questions of a file."""
    from mhgrn.errors import UserError
    from mhgrn.questions.reading import read_questions

    if path.suffix.lower() == ".txt" and dataset is None:
        if not path.is_file():
            raise UserError(f"{path} does not exist; name a file of questions.")
        try:
            found: list[Question | str] = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
        except UnicodeDecodeError:
            raise UserError(f"{path} is not UTF-8; save it as UTF-8.") from None
    else:
        found = list(read_questions(path, dataset))
    if not found:
        raise UserError(f"{path} contains no questions.")
    return found
