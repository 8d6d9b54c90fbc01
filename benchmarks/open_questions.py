"""Questions without choices: time of one answer, its growth with the moves followed, and training against a dense recursion.

    python benchmarks/open_questions.py --kg GRAPH [--hops K] [--questions N] [--rounds N] [--run RUN] [--json FILE]

Topics are heads or tails of random facts, so that concepts with many facts are drawn often. Attention is that of an untrained
model, so that no relation is skipped and everything that K moves reach is ranked. The dense recursion multiplies the vectors of a
batch of questions by one sparse matrix of torch for each relation and its reverse, weighted by attention, at every hop (as
TransferNet does). It computes the same weights, which is checked. Text is encoded beforehand on both sides.

With ``--run``, whole questions are timed as well: ``ask`` of a run of task=open with dev questions of its data, without evidence.
"""

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from measuring import add_json_option, compare, sample, write_json
from mhgrn.config import OpenSettings
from mhgrn.kg.graph import KnowledgeGraph
from mhgrn.open.model import Nodes, OpenModel, answer_losses
from mhgrn.open.moves import Moves
from mhgrn.open.recursion import Walker, WalkOptions

WIDTH, BATCH = 384, 8
NO_NODES = Nodes(torch.zeros(0, 0), torch.zeros(0, 0))


def dense_weights(matrices: list[Tensor], topics: list[int], attention: Tensor) -> list[Tensor]:
    """The weights of walks of each length into all concepts, by sparse matrix products: K tensors [N, Q]."""
    here = torch.zeros(matrices[0].shape[0], len(topics), dtype=torch.float64)
    here[topics, torch.arange(len(topics))] = 1.0
    found = []
    for k in range(attention.shape[1]):
        here = sum((matrix @ here) * attention[:, k, r] for r, matrix in enumerate(matrices))  # type: ignore[assignment]
        found.append(here)
    return found


def matrices_of(moves: Moves) -> list[Tensor]:
    """One matrix for each label, with a row for each concept that its moves lead to."""
    source = np.repeat(np.arange(len(moves)), np.diff(moves.ptr))
    made = []
    for label in range(moves.labels):
        places = moves.label == label
        index = torch.from_numpy(np.stack([moves.target[places].astype(np.int64), source[places]]))
        values = torch.ones(index.shape[1], dtype=torch.float64)
        made.append(torch.sparse_coo_tensor(index, values, (len(moves), len(moves))).coalesce().to_sparse_csr())
    return made


def moves_followed(moves: Moves, topic: int, hops: int) -> int:
    """The moves that leave the concepts within ``hops - 1`` moves of a topic, hop by hop."""
    degree, here, total = np.diff(moves.ptr), np.array([topic]), 0
    for _ in range(hops):
        total += int(degree[here].sum())
        here = np.unique(np.concatenate([moves.target[moves.ptr[i] : moves.ptr[i + 1]] for i in here]))
        here = here[here != topic]
    return total


def quantiles(times: list[tuple[float, float]]) -> dict[str, float]:
    """Milliseconds of processor time and of wall-clock time."""
    kinds = dict(zip(("processor", "wall"), np.array(times).T, strict=True))
    at = {"median": 0.5, "90 %": 0.9, "max": 1.0}
    return {f"{name}, {kind}": 1000 * float(np.quantile(kinds[kind], share)) for kind in kinds for name, share in at.items()}


def timed(step: Callable[[], object], repeats: int = 3) -> tuple[float, float]:
    """The least processor time and the least wall-clock time of a step, in seconds."""
    found = []
    for _ in range(repeats):
        began, cpu = time.perf_counter(), time.process_time()
        step()
        found.append((time.process_time() - cpu, time.perf_counter() - began))
    return min(cpu for cpu, _ in found), min(wall for _, wall in found)


def asked(run: Path, questions: int) -> list[tuple[float, float]]:
    """The times of whole questions: finding the topic, encoding the text, walks and ranking."""
    import mhgrn
    from mhgrn.inference.open import OpenAnswerer

    qa = mhgrn.load(run)
    assert isinstance(qa, OpenAnswerer)
    data = qa.open_run.find_data()
    stems = [data.questions[number].stem for number in list(data.splits["dev"])[:questions]]
    qa.ask(stems[0], paths=0)  # loads and compiles
    return [timed(lambda stem=stem: qa.ask(stem, paths=0)) for stem in stems]  # type: ignore[misc]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kg", type=Path, required=True, help="folder of a graph")
    parser.add_argument("--hops", type=int, default=3)
    parser.add_argument("--questions", type=int, default=100, help="whose time is measured")
    parser.add_argument("--rounds", type=int, default=3, help="of the comparison with the dense recursion")
    parser.add_argument("--run", type=Path, help="a run of task=open, to time whole questions")
    add_json_option(parser)
    options = parser.parse_args()
    graph = KnowledgeGraph.load(options.kg)
    moves, rng = Moves.of(graph), np.random.default_rng(0)
    torch.manual_seed(0)
    warnings.filterwarnings("ignore", message="Sparse")  # torch calls its sparse matrices a beta feature
    model = OpenModel(OpenSettings(hops=options.hops, dropout=0.0), WIDTH, moves.labels)
    walker = Walker(moves, model.options)
    sources = np.repeat(np.arange(len(moves)), np.diff(moves.ptr))
    topics = rng.choice(sources, options.questions)
    vectors = torch.randn(options.questions, WIDTH)
    times, followed = [], []
    with torch.inference_mode():
        for q, topic in enumerate(topics.tolist()):
            own, vector = [np.array([topic])], vectors[q : q + 1]
            if not q:
                model.rank(walker, own, vector, NO_NODES)  # compiles
            times.append(timed(lambda own=own, vector=vector: model.rank(walker, own, vector, NO_NODES).scores.softmax(0)))  # type: ignore[misc]
            followed.append(moves_followed(moves, topic, options.hops))
    seconds = [cpu for cpu, _ in times]
    many = np.array(followed) >= np.median(followed)
    exponent = float(np.polyfit(np.log(np.array(followed)[many]), np.log(np.array(seconds)[many]), 1)[0])
    explained = float(np.corrcoef(followed, seconds)[0, 1] ** 2)
    milliseconds = quantiles(times)
    print(f"{graph}: K = {options.hops}, {options.questions} questions, {torch.get_num_threads()} threads")
    print("one question, ms:", "; ".join(f"{name} {value:.1f}" for name, value in milliseconds.items()))
    print(f"moves followed: median {np.median(followed):,.0f}, max {max(followed):,}; time grows with their power {exponent:.2f}")
    print(f"a linear function of the moves followed explains {explained:.0%} of the variance of the time")
    whole = quantiles(asked(options.run, options.questions)) if options.run is not None else {}
    if whole:
        print("a whole question, ms:", "; ".join(f"{name} {value:.1f}" for name, value in whole.items()))

    returning = Walker(moves, WalkOptions(returns=True))
    matrices, batch = matrices_of(moves), topics[:BATCH].tolist()
    attention = model.attend(vectors[:BATCH]).relations.detach()
    reached = returning.reach([np.array([topic]) for topic in batch], attention)
    dense = torch.stack(dense_weights(matrices, batch, attention), 2)  # [N, Q, K]
    for q in range(BATCH):
        part = slice(int(reached.ptr[q]), int(reached.ptr[q + 1]))
        torch.testing.assert_close(reached.weights[part], dense[reached.concepts[part], q], rtol=1e-9, atol=0)
    answers = [reached.concepts[reached.ptr[q] : reached.ptr[q] + 1] for q in range(BATCH)]

    def walks_step() -> None:
        ranked = model.rank(returning, [np.array([topic]) for topic in batch], vectors[:BATCH], NO_NODES)
        answer_losses(ranked, answers).mean().backward()  # type: ignore[no-untyped-call]

    def dense_step() -> None:
        attended = model.attend(vectors[:BATCH])
        weights = torch.stack(dense_weights(matrices, batch, attended.relations), 2)
        total = (weights * attended.lengths).sum(2)
        right = torch.stack([total[torch.from_numpy(answers[q]), q].sum() for q in range(BATCH)])
        (total.sum(0).log() - right.log()).mean().backward()  # type: ignore[no-untyped-call]

    forms = {"walks": lambda: sample(walks_step), "dense": lambda: sample(dense_step)}
    comparison = compare(forms, options.rounds, threads=torch.get_num_threads())
    rate = comparison.per_round(lambda of: BATCH / of["walks"])
    print(f"training on batches of {BATCH}: {rate.cpu.median:,.0f} questions per second of processor time")
    print(f"the dense recursion takes {comparison.ratio('dense', 'walks').cpu.median:.1f}x the processor time")
    print(comparison.conditions())
    numbers: dict[str, Any] = {"milliseconds": milliseconds, "exponent": exponent, "linear": explained, "whole": whole}
    numbers["training"] = comparison.as_json()
    write_json(options.json, numbers)


if __name__ == "__main__":
    main()
