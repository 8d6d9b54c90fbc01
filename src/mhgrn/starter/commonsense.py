"""The commonsense model: a model of any graph of everyday facts, without labelled questions.

A text encoder reads the graph, questions are made from its facts, and a model is trained on them. The stages are the commands
``mhgrn text tune``, ``mhgrn synthesize``, ``mhgrn prepare`` and ``mhgrn train``, with the settings of the starter model.
"""

from dataclasses import replace
from pathlib import Path

from mhgrn.errors import UserError
from mhgrn.io.cache import user_cache
from mhgrn.io.locks import locked
from mhgrn.kg import KnowledgeGraph
from mhgrn.kg.graph import MARKER as GRAPH
from mhgrn.progress import say
from mhgrn.questions.question import Question
from mhgrn.runs import MARKER as RUN
from mhgrn.runs import Run, read_about
from mhgrn.starter import COMMONSENSE, HERE, TEXT_WEIGHT, Starter, calibrate_on_everyday_questions, reweight
from mhgrn.starter.mixture import everyday_questions, read_rows, write_rows
from mhgrn.subgraphs.prepared import MARKER as PREPARED
from mhgrn.subgraphs.prepared import PreparedData, PrepareOptions, prepare
from mhgrn.synthesis import SynthesisOptions, synthesize
from mhgrn.text.tuned import MARKER as TUNED
from mhgrn.text.tuned import read_about as read_tuning
from mhgrn.text.tuning import TuneOptions, tune

TUNING_SHARE = 0.65  # of the time; the rest is for questions and training
QUESTIONS = SynthesisOptions(
    count=12_000, hops=(1,), distractors="random", combined=0.6, negated=0.15, hide=0.5, split=(0.95, 0.05, 0.0)
)
TEXT_WEIGHT_ALONE = 66.0  # of the cosine, without everyday questions; chosen on everyday-dev.jsonl for a model of the starter graph
TRAINING = {"epochs": 2, "patience": 2, "batch_size": 32, "schedule": "warmup_linear", "learning_rate": 1e-3}


def commonsense_folder() -> Path:
    """The folder of the commonsense model."""
    return user_cache() / COMMONSENSE


def commonsense_run() -> Path:
    """The run folder of the commonsense model, which :func:`make_commonsense` makes."""
    run = commonsense_folder() / "run"
    if not _is_finished(run):
        raise UserError("the commonsense model is not there yet; make it with `make commonsense`, or `mhgrn commonsense GRAPH`.")
    return run


def make_commonsense(
    graph: str | Path,
    folder: str | Path | None = None,
    budget: float = 3000.0,
    options: TuneOptions | None = None,
    questions: SynthesisOptions = QUESTIONS,
    everyday: bool = False,
) -> Run:
    """Make a model that answers questions from a graph. A call that was interrupted is resumed.

    Args:
        graph: The folder of the graph.
        folder: Where to write. By default the folder of :func:`commonsense_folder`, where ``mhgrn ask commonsense`` finds it.
        budget: Seconds to spend, about two thirds of them on the text encoder.
        options: Of the tuning; its budget is a share of ``budget``.
        questions: How questions are made.
        everyday: Also train on the everyday questions of the starter set: three quarters in the text encoder, one in the model.

    >>> make_commonsense("build/conceptnet/graph")  # doctest: +SKIP
    """
    from mhgrn.training.loop import train

    place = commonsense_folder() if folder is None else Path(folder)
    source = KnowledgeGraph.load(graph)
    with locked(place.with_name(f".{place.name}.lock"), busy=f"another process makes the model in {place}; wait for it."):
        own = _copy(source, place / "graph")
        encoder = place / "encoder"
        if not ((encoder / TUNED).is_file() and read_tuning(encoder)["finished"]):
            say("1/4  tuning the text encoder on the graph")
            asked = [Question.from_dict(row) for row in everyday_questions(HERE, "text")] if everyday else []
            tune(own, encoder, replace(options or TuneOptions(labeled=32), budget=TUNING_SHARE * budget), questions=asked)
        elif everyday != ("questions" in read_tuning(encoder)):
            begun = "without" if everyday else "with"
            raise UserError(
                f"{place} was begun {begun} everyday questions; use the same options, delete it, or name another folder."
            )
        if not (place / "prepared" / PREPARED).is_file():
            say("2/4  making questions from the facts of the graph")
            synthesize(own, place / "questions", questions)
            if everyday:
                train_questions = place / "questions" / "train.jsonl"
                write_rows(train_questions, [*read_rows(train_questions), *everyday_questions(HERE, "model")])
            say("3/4  preparing the questions")
            prepare(place / "questions", own, place / "prepared", PrepareOptions())
        run = place / "run"
        if _is_finished(run):
            trained = Run.load(run)
        else:
            say("4/4  training on the questions")
            config = Starter.config(text={"encoder": str(encoder)}, training=TRAINING)
            trained = train(PreparedData.load(place / "prepared"), config, run, own)
        if reweight(trained, TEXT_WEIGHT if everyday else TEXT_WEIGHT_ALONE) or trained.calibration is None:
            calibrate_on_everyday_questions(trained)  # the questions of its own dev are made from the graph
        return trained


def _is_finished(run: Path) -> bool:
    return (run / RUN).is_file() and bool(read_about(run).get("finished"))


def _copy(graph: KnowledgeGraph, place: Path) -> KnowledgeGraph:
    """The graph beside the model, so that both can be moved; another graph there is refused."""
    if (place / GRAPH).is_file():
        there = KnowledgeGraph.load(place)
        if there.fingerprint != graph.fingerprint:
            raise UserError(f"{place.parent} was begun with another graph than {graph.folder}; delete it, or name another folder.")
        return there
    graph.save(place)
    return KnowledgeGraph.load(place)
