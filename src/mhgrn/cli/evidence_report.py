"""mhgrn evidence-report: how useful the evidence of a run is."""

from pathlib import Path
from typing import Annotated

import typer

from mhgrn.cli._options import AllowDownload, AsJson, Device, Force, NamedRun, RunGraph, file_to_write
from mhgrn.cli._output import check_one_output, show, show_json

PANEL = "Ask"


def evidence_report(
    run: NamedRun,
    questions: Annotated[
        Path,
        typer.Argument(
            help="JSON lines of questions with `support` (facts) or `fact1` (a text, as OpenBookQA); `starter`: the built-in ones.",
            show_default=False,
        ),
    ],
    budget: Annotated[int, typer.Option(min=1, max=100_000, help="Tokens of the evidence.")] = 300,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first questions.", show_default=False)] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(help="A way to choose facts to compare; may be repeated. Unset: all.", show_default=False),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="Also measure a causal language model that reads the facts: smollm2, gemma3-270m, a folder, a GGUF file or a hub"
            " name.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            parser=file_to_write,
            help="JSON file to write. With it, an interrupted measurement resumes.",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 0,
    kg: RunGraph = None,
    allow_download: AllowDownload = False,
    device: Device = "cpu",
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Measure evidence: recall of known facts and concepts, and the accuracy of a language model that reads it.

    Compared with BM25 over all facts, cosine of the text encoder, shortest paths and random facts, within the same budget.
    """
    from mhgrn.errors import UserError, did_you_mean
    from mhgrn.io.atomic import check_file_writable, write_text
    from mhgrn.io.replacing import is_standard_output
    from mhgrn.printing import strict_json
    from mhgrn.starter import HERE, load
    from mhgrn.usefulness.retrieval import METHODS

    check_one_output(output, as_json)
    for name in method or ():
        if name not in METHODS:
            raise UserError(f"unknown method {name}.{did_you_mean(name, METHODS)} Methods: {'; '.join(METHODS)}.")
    path = HERE / "test.jsonl" if str(questions) == "starter" and not questions.exists() else questions
    if not path.is_file():
        raise UserError(f"{path} is not a file; name a file of JSON lines.")
    if output is not None:
        check_file_writable(output, force)
    from mhgrn.usefulness import measure_usefulness
    from mhgrn.usefulness.gold import read_gold

    qa = load(run, kg, device=device)
    gold = read_gold(path, qa.run.graph, limit)
    keeps = output is not None and not is_standard_output(output)
    progress_file = output.with_name(f"{output.name}.partial") if output is not None and keeps else None
    found = measure_usefulness(qa, gold, budget, model, method or METHODS, seed, allow_download, progress_file)
    if output is not None and keeps:
        write_text(output, strict_json(found.to_dict()) + "\n")
    if as_json or (output is not None and not keeps):
        show_json(found.to_dict())
    else:
        show(found)
