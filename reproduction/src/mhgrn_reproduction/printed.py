"""Experiments that train nothing: tables and figures from what the code, the data or a finished run can show."""

import math
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mhgrn.config import Config
from mhgrn.encoders import graph_encoders
from mhgrn.errors import UserError
from mhgrn.io.atomic import write_text
from mhgrn.io.markers import read_marker, write_json
from mhgrn.progress import track
from mhgrn.questions.reading import check_questions
from mhgrn.subgraphs.extract import ANSWER, OTHER, QUESTION, Subgraph
from mhgrn.subgraphs.prepared import PreparedData
from mhgrn_reproduction.cells import made
from mhgrn_reproduction.formats import Printed, check
from mhgrn_reproduction.sources import Sources
from mhgrn_reproduction.tables import FIGURE, TABLE, grid, try_to_draw
from mhgrn_reproduction.titles import PRINTED

if TYPE_CHECKING:
    from mhgrn.model import KnowledgeAwareQA

FORMAT = 1
RESULT = "result.json"
YES, NO = "yes", "no"
Row = list[str]


def result(name: str, columns: Sequence[str], rows: Sequence[Row], notes: Sequence[str] = (), **more: Any) -> dict[str, Any]:
    """What such an experiment leaves behind."""
    return {
        "format": FORMAT,
        "experiment": name,
        **made(),
        "columns": list(columns),
        "rows": list(rows),
        "notes": list(notes),
        **more,
    }


def remarks(found: dict[str, Any]) -> list[str]:
    """What to know of a table's numbers."""
    code = f", commit {found['commit']}" if found["commit"] else ""
    return [*found["notes"], f"Made {found['date']}{code}."]


def markdown(found: dict[str, Any]) -> str:
    """A section with the table and its notes."""
    about = PRINTED[found["experiment"]]
    heading = f"### {found['experiment']} ({about.place}: {about.title})"
    return "\n".join([heading, "", grid(found["columns"], found["rows"]), "", *(f"- {line}" for line in remarks(found))]) + "\n"


def save(found: dict[str, Any], folder: Path, draw: Callable[[Path], None] | None = None, replace: bool = True) -> None:
    """Write ``result.json``, ``table.md``, and where matplotlib is installed what ``draw`` draws.

    Unless ``replace``, a result that is ``of`` something else stays.
    """
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is not a folder; name another by --results.")
    if not replace and (folder / RESULT).is_file():
        before = read(folder).get("of")
        if before is not None and before != found.get("of"):
            was = ", ".join(f"{key} {value}" for key, value in before.items())
            raise UserError(
                f"{folder} has a result of {was}. Keep it apart with --results FOLDER, or have it replaced with --force."
            )
    write_json(folder / RESULT, found)
    write_text(folder / TABLE, markdown(found))
    if draw is not None:
        try_to_draw(draw, folder / FIGURE)


def read(folder: Path) -> dict[str, Any]:
    """``result.json`` of a folder, checked."""
    found = read_marker(folder, RESULT, "result", FORMAT)
    check(found, Printed, folder / RESULT)
    if found["experiment"] not in PRINTED:
        raise UserError(f"{folder / RESULT} is of no experiment that this version of mhgrn knows; run one again.")
    return found


PAPER_PROPERTIES = {  # relations, interpretable, scalable in nodes, in hops
    "gcn": (NO, NO, YES, YES),
    "rgcn": (YES, NO, YES, YES),
    "kagnet": (YES, YES, NO, NO),
    "mhgrn": (YES, YES, YES, YES),
}


def properties() -> dict[str, Any]:
    """Table 1: every graph encoder is run on a graph and on the same graph with other relations."""
    from mhgrn.encoders._paths import PathEncoder

    rows = []
    for name in graph_encoders.built_in():
        kind = graph_encoders.load(name)
        paper = PAPER_PROPERTIES.get(name)
        tells = _yes(_tells_relations_apart(name)) if kind.uses_graph else "–"
        paths = _yes(not issubclass(kind, PathEncoder)) if kind.uses_graph else "–"
        rows.append([name, tells, _yes(kind.has_paths), paths, ", ".join(paper) if paper else "–"])
    columns = [
        "graph encoder",
        "tells relations apart",
        "shows paths",
        "lists no paths one by one",
        "paper: relations, paths, nodes, hops",
    ]
    notes = [
        "Tells relations apart: its score of a random graph changes when every fact gets another relation.",
        "The paper's properties are multi-relational, interpretable, scalable by nodes, by hops; an encoder that lists paths one by"
        " one is neither of the last two."
        " What that costs: `mhgrn reproduce scalability`.",
    ]
    return result("properties", columns, rows, notes)


def _yes(value: bool) -> str:
    return YES if value else NO


def _tells_relations_apart(name: str) -> bool:
    import torch

    graph = random_subgraph(12, 20, 5, np.random.default_rng(0))
    model = small_model(name, 5)
    for parameter in model.parameters():  # some begin at zero, where nothing can be told apart
        torch.nn.init.normal_(parameter, std=0.3)
    other = Subgraph(graph.concepts, graph.types, graph.head, (graph.relation + 1) % 5, graph.tail)
    scores = [step(model, [each], 5, learn=False) for each in (graph, other)]
    return not torch.allclose(scores[0], scores[1], atol=1e-7)


def random_subgraph(nodes: int, facts: int, relations: int, rng: np.random.Generator) -> Subgraph:
    """A subgraph with a fifth of its nodes in the question and a tenth in the answer; no two facts join the same two nodes."""
    pairs = rng.choice(nodes * (nodes - 1) // 2, size=min(facts, nodes * (nodes - 1) // 2), replace=False)
    tail = ((1 + np.sqrt(1 + 8 * pairs)) // 2).astype(np.int64)
    tail -= tail * (tail - 1) // 2 > pairs  # where the root was rounded up
    head = pairs - tail * (tail - 1) // 2
    asked, answers = max(1, nodes // 5), max(1, nodes // 10)
    types = np.array([QUESTION] * asked + [ANSWER] * answers + [OTHER] * (nodes - asked - answers))
    return Subgraph(np.arange(nodes), types, head, rng.integers(relations, size=len(head)), tail)


def small_model(name: str, relations: int, *settings: str) -> "KnowledgeAwareQA":
    """An untrained model of the built-in text encoder's widths."""
    import torch

    from mhgrn.encoders.base import Dims
    from mhgrn.model import assemble

    torch.manual_seed(0)
    kind = graph_encoders.load(name)
    config = Config.load(overrides=[f"graph_encoder={name}", *settings])
    dims = Dims(384 if kind.uses_text else 0, 384 if kind.uses_features else 0, 2 * relations, 384)
    return assemble(config, dims.sentence_dim, dims)


def step(model: "KnowledgeAwareQA", graphs: Sequence[Subgraph], relations: int, learn: bool) -> Any:
    """Scores of some graphs with random text and node features; with ``learn``, gradients too."""
    import torch

    from mhgrn.batching.graph_batch import GraphBatch
    from mhgrn.text.tokens import Tokens

    encoder = model.graph_encoder
    model.train(learn)
    generator = torch.Generator().manual_seed(1)
    batch = GraphBatch.collate(graphs, relations, encoder.reach)
    encoder.prepare(batch)
    s = torch.randn(len(graphs), 384 if encoder.uses_text else 0, generator=generator)
    features = torch.randn(batch.num_nodes, 384 if encoder.uses_features else 0, generator=generator)
    tokens = None
    if encoder.uses_tokens:
        tokens = Tokens(torch.randn(len(graphs), 12, 384, generator=generator), torch.ones(len(graphs), 12, dtype=torch.bool))
    with torch.set_grad_enabled(learn):
        score = model(s, features, batch, tokens).score
        if learn:
            score.square().sum().backward()
    return score.detach()


SCALED = {  # how each has K hops
    "rgcn": "rgcn.layers={}",
    "mhgrn": "mhgrn.hops={}",
    "khop-rn": "khop_rn.hops={}",
    "kagnet": "kagnet.hops={}",
}
COMPLEXITY = {"rgcn": "O(mnKΔ)", "mhgrn": "O(m²nKΔ)", "kagnet": "O(mᴷnKΔᴷ)"}
HOPS, NODES = (1, 2, 3, 4, 5), (25, 50, 100, 200, 400)
LONG = 1.0  # seconds of a step after which longer ones are not tried


def scalability(graphs: int = 10, degree: int = 5, repeats: int = 3) -> dict[str, Any]:
    """Figure 7 and table 2: seconds of a training step by hops (100 nodes) and by nodes (K = 2), on random graphs."""
    times: dict[str, dict[str, dict[int, float]]] = {}
    for name in track(SCALED, "measuring steps"):
        times[name] = {
            "hops": _times(name, ((k, k, 100) for k in HOPS), graphs, degree, repeats),
            "nodes": _times(name, ((n, 2, n) for n in NODES), graphs, degree, repeats),
        }
    rows = []
    for name, by in times.items():
        shown = [_milliseconds(by["hops"].get(k)) for k in HOPS] + [_milliseconds(by["nodes"].get(n)) for n in NODES]
        rows.append([name, *shown, COMPLEXITY.get(name, "–")])
    columns = ["graph encoder", *(f"K = {k}" for k in HOPS), *(f"n = {n}" for n in NODES), "paper's time, sparse graph"]
    notes = [
        f"Milliseconds of a training step (forward and backward) on {graphs} random graphs with {degree} facts a node and 17"
        f" relations, median of {repeats}: by hops with 100 nodes, by nodes with K = 2.",
        f"Longer ones are left out once a step takes more than {LONG:g} s. khop-rn and kagnet read at most 5,000 paths of a graph,"
        " their usual limit.",
        "The paper measured on a GPU and reports a ratio of MHGRN's cost to RGCN's that approaches 2; figure 7's numbers are not in"
        " its text.",
    ]
    return result("scalability", columns, rows, notes, seconds=times)


def _times(name: str, sizes: Iterable[tuple[int, int, int]], graphs: int, degree: int, repeats: int) -> dict[int, float]:
    found: dict[int, float] = {}
    for size, hops, nodes in sizes:
        rng = np.random.default_rng(nodes)
        batch = [random_subgraph(nodes, degree * nodes, 17, rng) for _ in range(graphs)]
        model = small_model(name, 17, SCALED[name].format(hops))
        seconds = []
        for _ in range(repeats + 1):  # the first may compile
            began = time.perf_counter()
            step(model, batch, 17, learn=True)
            seconds.append(time.perf_counter() - began)
        found[size] = round(statistics.median(seconds[1:]), 6)
        if found[size] > LONG:
            break
    return found


def _milliseconds(seconds: float | None) -> str:
    return "–" if seconds is None else f"{1000 * seconds:,.1f}"


def draw_scalability(found: dict[str, Any], path: Path) -> None:
    """Two panels: by hops and by nodes."""
    from mhgrn.drawing.figures import check_image, plotting, write_figure

    check_image(path)
    with plotting():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(10, 4), layout="constrained")
        for axes, (by, label) in zip(figure.subplots(1, 2), (("hops", "hops K"), ("nodes", "nodes n, K = 2")), strict=True):
            for name, times in found["seconds"].items():
                axes.plot([int(x) for x in times[by]], [1000 * s for s in times[by].values()], marker="o", label=name)
            measured = max((times[by] for times in found["seconds"].values()), key=len)
            axes.set_xticks([int(x) for x in measured])
            axes.set_xlabel(label)
            axes.set_yscale("log")
            axes.set_ylabel("milliseconds of a training step")
            axes.yaxis.set_major_formatter("{x:,.0f}")
            axes.yaxis.set_minor_formatter("")
            axes.set_yticks([30, 100, 300, 1000])
            axes.grid(alpha=0.3)
            axes.legend(fontsize=8)
        write_figure(figure, path)


PAPER_SPLITS = {
    "commonsenseqa": (9741, 1221, 1140),
    "commonsenseqa-inhouse": (8500, 1221, 1241),
    "openbookqa": (4957, 500, 500),
}


def splits(sources: Sources) -> dict[str, Any]:
    """Table 8: the questions of each split as they are read."""
    rows = []
    for name, paper in PAPER_SPLITS.items():
        checked = check_questions(sources.questions(name), name)
        if checked.problems:
            raise UserError(checked.problems[0])
        counts = [checked.splits[split].questions for split in ("train", "dev", "test")]
        answered = all(found.answered == found.questions for found in checked.splits.values())
        rows.append(
            [name, *(f"{n:,}" for n in counts), _yes(answered), " / ".join(f"{n:,}" for n in paper), _yes(tuple(counts) == paper)]
        )
    columns = ["data set", "train", "dev", "test", "all answered", "paper", "the same"]
    return result("splits", columns, rows)


PAPER_PARAMETERS = {"rn": 399, "rgcn": 365, "gconattn": 453, "mhgrn": 544}


def parameters() -> dict[str, Any]:
    """Table 11: trained parameters outside the text encoder, at the paper's widths."""
    from mhgrn.catalogue import catalogue

    rows = []
    for entry in catalogue():
        if entry.name not in graph_encoders.built_in() or entry.default is None or entry.as_published is None:
            continue
        paper = PAPER_PARAMETERS.get(entry.name)
        same = _yes(math.floor(entry.as_published.parameters / 1000 + 0.5) == paper) if paper else "–"
        ours = [f"{entry.as_published.parameters:,}", f"{entry.default.parameters:,}"]
        rows.append([entry.name, *ours, f"{paper}K" if paper else "–", same])
    notes = ["A statement's vector and node features 1024 wide, 17 relations and their reverses; the score's layer is included."]
    return result("parameters", ["graph encoder", "as published", "by default", "paper", "the same"], rows, notes)


def path_counts(data: PreparedData, hops: int = 5) -> tuple[dict[str, Any], Callable[[Path], None]]:
    """Figure 2: walks by hops and by nodes, and what draws them."""
    from mhgrn.drawing.path_counts import draw_report
    from mhgrn.subgraphs.report import HOW, exponent, report

    found = report(data, hops)
    paths = found.to_dict()["paths"]
    rows = []
    for k in range(hops):
        between, every = (paths[name]["by_hops"][str(k + 1)] for name in ("question_to_answer", "all"))
        power = exponent(found.nodes, found.walks[:, 0, k])
        shown = [f"{between['mean']:,}", f"{between['median']:,}", f"{between['max']:,}", f"{every['mean']:,}"]
        rows.append([str(k + 1), *shown, f"n^{power:.2f}" if power is not None else "–"])
    columns = ["hops", "question to answer, mean", "median", "most", "between any nodes, mean", "question to answer, by nodes n"]
    about = f"{len(data.questions):,} questions of {data.about['dataset']}, {len(found.nodes):,} statements."
    notes = [about, HOW, "The numbers of the paper's figure are not in its text."]
    table = result("path-counts", columns, rows, notes, of={"data set": data.about["dataset"], "hops": hops})
    return table, partial(draw_report, found)
