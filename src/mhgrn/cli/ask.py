"""mhgrn ask: answer one question and explain the answer."""

from typing import Annotated, Any

import typer

from mhgrn.cli._options import (
    AbstainBelow,
    AllowDownload,
    AllowPickle,
    AsJson,
    By,
    Coverage,
    Device,
    NamedRun,
    RunEncoder,
    RunFeatures,
    RunGraph,
    TextPrecision,
)
from mhgrn.cli._output import show, show_json

PANEL = "Ask"


def ask(
    run: NamedRun,
    question: Annotated[str, typer.Argument(help="The question.", show_default=False)],
    choice: Annotated[
        list[str] | None,
        typer.Option("--choice", "-c", help="A choice. Give two or more, or none to rank concepts.", show_default=False),
    ] = None,
    fact: Annotated[
        list[str] | None,
        typer.Option(
            "--fact",
            metavar="HEAD,RELATION,TAIL",
            help="A fact to add to the graph for this answer, for example quokka,IsA,marsupial. May be repeated.",
            show_default=False,
        ),
    ] = None,
    without: Annotated[
        list[str] | None,
        typer.Option(
            "--without",
            metavar="HEAD,RELATION,TAIL",
            help="A fact of the graph to leave out for this answer. May be repeated.",
            show_default=False,
        ),
    ] = None,
    contrast: Annotated[
        str | None,
        typer.Option("--contrast", metavar="CHOICE", help="Also say why the answer rather than this choice.", show_default=False),
    ] = None,
    n: Annotated[int, typer.Option("-n", min=1, max=10_000, help="Without choices: number of answers.")] = 10,
    by: By = "evidence",
    as_triples: Annotated[bool, typer.Option("--facts", help="Show facts as triples instead of sentences.")] = False,
    paths: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=1000,
            help="Number of paths to show, best first (default: 3, or 1 to each answer without choices).",
            show_default=False,
        ),
    ] = None,
    effects: Annotated[
        bool, typer.Option(help="Compute what the facts shown do to the answer. Without it, only attention is shown.")
    ] = True,
    attention: Annotated[
        bool, typer.Option("--attention", help="With --json: every attention weight, by relation and by concept.")
    ] = False,
    kg: RunGraph = None,
    features: RunFeatures = None,
    encoder: RunEncoder = None,
    allow_download: AllowDownload = False,
    allow_pickle: AllowPickle = False,
    abstain_below: AbstainBelow = None,
    coverage: Coverage = None,
    device: Device = "cpu",
    text_precision: TextPrecision = "float32",
    as_json: AsJson = False,
) -> None:
    """Answer a question and show the facts behind the answer.

    Without choices, concepts of the graph are ranked. [..] in the question marks the concept to start from.
    """
    from mhgrn.errors import UserError
    from mhgrn.inference.asked import check_probability
    from mhgrn.questions.question import Question
    from mhgrn.starter import load

    if attention and not as_json:
        raise UserError("--attention is printed as JSON only; add --json.")
    check_probability("--abstain-below", abstain_below)
    check_probability("--coverage", coverage)
    facts, left_out = ([_fact(text) for text in given or []] for given in (fact, without))
    if not choice:
        qa = load(run, kg, features, device, encoder, allow_download, allow_pickle, text_precision)
        options: dict[str, Any] = {"n": n, "paths": paths or 1, "effects": effects, "without": left_out}
        if attention or contrast is not None:
            name = "--attention" if attention else "--contrast"
            raise UserError(f"{name} is for questions with choices; give choices with -c.")
        answer = qa.ask(question, None, facts, abstain_below=abstain_below, coverage=coverage, **options)
        if as_json:
            show_json(answer.to_dict())
        else:
            show(answer.text(as_triples, paths or 1))
        return
    asked = Question.asked(question, choice)
    qa = load(run, kg, features, device, encoder, allow_download, allow_pickle, text_precision)
    options = {"abstain_below": abstain_below, "coverage": coverage, "contrast": contrast, "paths": paths or 3}
    answer = qa.answer(asked, facts, without=left_out, by=by, effects=effects, attention=attention, **options)
    if as_json:
        show_json(answer.to_dict())
    else:
        show(answer.text(as_triples))


def _fact(text: str) -> tuple[str, str, str]:
    from mhgrn.errors import UserError
    from mhgrn.printing import shortened

    parts = [part.strip() for part in text.split(",")]
    if len(parts) != 3 or not all(parts):
        raise UserError(f"the fact {shortened(text)} is not of the form HEAD,RELATION,TAIL, for example quokka,IsA,marsupial.")
    return parts[0], parts[1], parts[2]
