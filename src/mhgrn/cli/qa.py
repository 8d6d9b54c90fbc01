"""mhgrn prepare, train, eval, predict, ensemble, encoders, ask, demo: from questions to answers."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a trained run.", show_default=False)]
Kg = Annotated[
    Path | None,
    typer.Option("--kg", help="The run's graph, if it has moved, or another graph of the same schema.", show_default=False),
]
Features = Annotated[
    str | None,
    typer.Option(help="Node features: names, random, a .npy file, or a built folder. Unset: as trained.", show_default=False),
]
Declared = Annotated[
    str | None,
    typer.Option("--dataset", help="A known data set's name or a YAML file, to read the questions by.", show_default=False),
]


def prepare(
    questions: Annotated[
        Path,
        typer.Argument(
            help="A YAML file that declares a data set, a folder with train*, dev* and test* files, or one file.",
            show_default=False,
        ),
    ],
    kg: Annotated[Path, typer.Option("--kg", help="Folder of a built graph.", show_default=False)],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to write.", show_default=False)],
    dataset: Declared = None,
    statement: Annotated[
        str, typer.Option(help="How stem and choice make a statement: fill-in-the-blank, append, or auto (as declared).")
    ] = "auto",
    max_nodes: Annotated[
        int | None,
        typer.Option(min=1, help="Cap on a subgraph's nodes (published: 200). Unset: no cap.", show_default=False),
    ] = None,
    max_degree: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="For graphs with hubs: mentioned concepts with more neighbours are not followed to other nodes. Unset: all are.",
            show_default=False,
        ),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(help="Folder for a report with path counts, as `mhgrn data report` writes it.", show_default=False),
    ] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Threads. Unset: as many as cores.", show_default=False)] = None,
    as_json: AsJson = False,
) -> None:
    """Ground questions in a graph and extract their subgraphs."""
    from mhgrn.errors import UserError
    from mhgrn.kg import KnowledgeGraph
    from mhgrn.subgraphs.prepared import PrepareOptions
    from mhgrn.subgraphs.prepared import prepare as prepare_data
    from mhgrn.subgraphs.report import check_output
    from mhgrn.subgraphs.report import report as make_report

    threads = {"workers": workers} if workers else {}
    options = PrepareOptions(statement, max_nodes, max_degree, dataset=dataset, **threads)
    if report is not None:
        check_output(report)
        if report.resolve() == output.resolve():
            raise UserError(f"{output} cannot hold both the data and its report; name another folder by --report.")
    data = prepare_data(questions, KnowledgeGraph.load(kg), output, options)
    if report is not None:
        make_report(data, kg=kg).save(report)
    about = data.about
    if as_json:
        print(json.dumps({"prepared": str(output), **{k: about[k] for k in ("splits", "statements", "settings", "report")}}))
        return
    splits = ", ".join(f"{count:,} {split}" for split, count in about["splits"].items())
    print(f"{output}: {splits} questions, {about['statements']:,} statements ({about['settings']['statement']})")
    for name, value in about["report"].items():
        shown = ", ".join(f"{k} {v:,}" for k, v in value.items()) if isinstance(value, dict) else f"{value:,}"
        print(f"  {name}: {shown}")


def train(
    data: Annotated[Path, typer.Option("--data", help="Folder of a prepared data set.", show_default=False)],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the run.", show_default=False)],
    config: Annotated[Path | None, typer.Option(help="YAML file of settings.", show_default=False)] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A setting, e.g. mhgrn.hops=3; may be repeated.", show_default=False),
    ] = None,
    kg: Annotated[Path | None, typer.Option("--kg", help="The data's graph, if it has moved.", show_default=False)] = None,
    force: Annotated[bool, typer.Option("--force", help="Begin anew, and replace the run that is there.")] = False,
    as_json: AsJson = False,
) -> None:
    """Train a model; the best epoch on dev is kept. `mhgrn settings` lists what can be set.

    Ctrl-C saves; the same command goes on from there, as it does after a crash. Under `torchrun` or `accelerate launch`,
    several processes train together.
    """
    from mhgrn.config import Config
    from mhgrn.subgraphs.prepared import PreparedData

    loaded_config = Config.load(config, settings)
    loaded = PreparedData.load(data)
    graph = loaded.load_graph(kg)
    from mhgrn.training.distributed import Processes
    from mhgrn.training.loop import train as train_model

    run = train_model(loaded, loaded_config, output, graph, force)
    if not Processes().is_main:
        return
    metrics = run.about.get("metrics", {})
    if as_json:
        print(json.dumps({"run": str(output), **metrics}))
    elif metrics:
        print(f"{output}: dev accuracy {metrics['dev_accuracy']:.1%} (epoch {metrics['epoch']})")


def show_settings(
    config: Annotated[Path | None, typer.Option(help="YAML file of settings.", show_default=False)] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A setting, e.g. preset=paper.", show_default=False)
    ] = None,
) -> None:
    """All settings of `train` as YAML, with their meanings; a file to begin one's own with."""
    from mhgrn.config import Config

    print(Config.load(config, settings).explained())


def evaluate(
    run: RunFolder,
    split: Annotated[str, typer.Option(help="train, dev or test.")] = "test",
    data: Annotated[
        Path | None,
        typer.Option("--data", help="Prepared data, if not the run's own place for it.", show_default=False),
    ] = None,
    kg: Kg = None,
    features: Features = None,
    as_json: AsJson = False,
) -> None:
    """A run's accuracy on a split of prepared data."""
    from mhgrn.runs import Run, find_data

    loaded = find_data(run, data)
    loaded.answered_split(split)
    from mhgrn.training.loop import evaluate as evaluate_run

    result = evaluate_run(Run.load(run, kg, features), loaded, split)
    if as_json:
        print(json.dumps(result))
        return
    beside = f"most edges {result['most_edges']:.1%}"
    print(f"{split}: accuracy {result['accuracy']:.1%} of {result['questions']:,} questions ({beside})")


def predict(
    run: RunFolder,
    questions: Annotated[Path, typer.Argument(help="JSON lines, JSON, CSV, TSV (also .gz) or Parquet.", show_default=False)],
    output: Annotated[Path, typer.Option("--output", "-o", help="JSON lines to write.", show_default=False)],
    dataset: Declared = None,
    kg: Kg = None,
    features: Features = None,
) -> None:
    """Answer every question of a file; one JSON object a line, with probabilities and paths."""
    from mhgrn.errors import UserError
    from mhgrn.io.atomic import check_file_writable, write_text
    from mhgrn.progress import track
    from mhgrn.questions.question import read_questions

    check_file_writable(output)
    if output.exists() and questions.exists() and output.samefile(questions):
        raise UserError(f"{output} is the file of questions; name another file to write to.")
    asked = list(read_questions(questions, dataset))
    if not asked:
        raise UserError(f"{questions} holds no question.")
    from mhgrn.inference import load

    qa = load(run, kg, features)
    rows: list[dict[str, Any]] = []
    for question in track(asked, "answering"):
        answer = qa.answer(question, paths=1, effects=False)
        label = question.label(list(answer.probabilities).index(answer.choice))
        rows.append({"id": question.id, "answerKey": label, **answer.to_dict()})
    write_text(output, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    known = [(q.label(q.answer), row["answerKey"]) for q, row in zip(asked, rows, strict=True) if q.answer is not None]
    accuracy = f", {sum(a == b for a, b in known) / len(known):.1%} right" if known else ""
    print(f"{output}: {len(rows):,} answers{accuracy}")


def ensemble(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN…", help="Folders of two or more trained runs.", show_default=False)],
    split: Annotated[str, typer.Option(help="train, dev or test.")] = "test",
    vote: Annotated[
        Literal["mean", "majority"],
        typer.Option(help="mean: the highest mean probability; majority: most runs' choice. The first of tied choices wins."),
    ] = "mean",
    data: Annotated[
        Path | None,
        typer.Option("--data", help="Prepared data, if not each run's own place for it.", show_default=False),
    ] = None,
    kg: Kg = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="JSON lines of predictions to write.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Let several runs answer a split together; they may be of different graph encoders."""
    from mhgrn.training.ensemble import ensemble as together

    result = together(runs, split, vote, data, kg, output)
    if as_json:
        print(json.dumps(result.to_dict()))
        return
    for member in result.members:
        alone = f", accuracy {member.accuracy:.1%}" if member.accuracy is not None else ""
        print(f"  {member.run}: {member.graph_encoder}{alone}")
    accuracy = f"accuracy {result.accuracy:.1%} of" if result.accuracy is not None else "answers to"
    print(f"{split}, {vote} of {len(result.members)} runs: {accuracy} {result.questions:,} questions")


def encoders(
    sentence_dim: Annotated[int, typer.Option(min=1, help="Width of a statement's vector.")] = 1024,
    feature_dim: Annotated[int, typer.Option(min=1, help="Width of the node features.")] = 1024,
    relations: Annotated[int, typer.Option(min=1, help="Relations of the graph, their reverses not counted.")] = 17,
    as_json: AsJson = False,
) -> None:
    """List the graph encoders: what each computes, its settings and its parameters, by default and as published."""
    from mhgrn.catalogue import catalogue

    entries = catalogue(sentence_dim, feature_dim, relations)
    if as_json:
        print(json.dumps([asdict(entry) for entry in entries], ensure_ascii=False))
        return
    print(f"parameters at sentence width {sentence_dim}, feature width {feature_dim}, {relations} relations and their reverses")
    print("\n".join(str(entry) for entry in entries))


def ask(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a trained run, or `starter`.", show_default=False)],
    question: Annotated[str, typer.Argument(help="The question.", show_default=False)],
    choice: Annotated[
        list[str] | None, typer.Option("--choice", "-c", help="A choice; give two or more.", show_default=False)
    ] = None,
    fact: Annotated[
        list[str] | None,
        typer.Option(
            "--fact",
            metavar="HEAD,RELATION,TAIL",
            help="A fact to take as known beside the graph's, e.g. quokka,IsA,marsupial; may be repeated.",
            show_default=False,
        ),
    ] = None,
    paths: Annotated[int, typer.Option(min=1, max=1000, help="How many of the best paths to show.")] = 3,
    effects: Annotated[
        bool, typer.Option(help="Show what the answer's probability is without each shown fact, and without the graph.")
    ] = True,
    attention: Annotated[
        bool, typer.Option("--attention", help="With --json: every attention weight, by relation and by concept.")
    ] = False,
    kg: Kg = None,
    features: Features = None,
    as_json: AsJson = False,
) -> None:
    """Answer a question and show the facts the answer rests on."""
    from mhgrn.errors import UserError
    from mhgrn.questions.question import Question

    if attention and not as_json:
        raise UserError("--attention is printed as JSON only; add --json.")
    asked = Question.asked(question, choice or [])
    facts = [_fact(text) for text in fact or []]
    from mhgrn.inference import load

    qa = load(None if str(run) == "starter" else run, kg, features)
    answer = qa.answer(asked, facts, paths=paths, effects=effects, attention=attention)
    print(json.dumps(answer.to_dict(), ensure_ascii=False) if as_json else answer)


def _fact(text: str) -> tuple[str, str, str]:
    from mhgrn.errors import UserError

    parts = [part.strip() for part in text.split(",")]
    if len(parts) != 3 or not all(parts):
        raise UserError(f"the fact {text!r} is not of the form HEAD,RELATION,TAIL, e.g. quokka,IsA,marsupial.")
    return parts[0], parts[1], parts[2]


def demo(
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Folder to work in. Unset: the user's cache.", show_default=False),
    ] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the results to this file.", show_default=False)] = None,
    seed: Annotated[int, typer.Option(min=0)] = 0,
) -> None:
    """Build the starter graph, train on the starter questions, compare with two baselines, answer three new questions."""
    from mhgrn.starter.demo import run_demo

    run_demo(output, json_file, seed)


def add_to(app: typer.Typer) -> None:
    """Add these commands at the top level."""
    for name, command in (
        ("demo", demo),
        ("ask", ask),
        ("prepare", prepare),
        ("train", train),
        ("settings", show_settings),
        ("eval", evaluate),
        ("predict", predict),
        ("ensemble", ensemble),
        ("encoders", encoders),
    ):
        app.command(name)(command)
