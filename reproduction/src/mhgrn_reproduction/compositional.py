"""Train every system on the generated tasks, to show which tasks it can solve and which it cannot."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mhgrn.config import section
from mhgrn.errors import UserError, did_you_mean
from mhgrn.progress import bar
from mhgrn_reproduction.tasks import RELATIONS, TASKS, Task, feature_table, questions

if TYPE_CHECKING:
    from torch import Tensor

    from mhgrn.batching.graph_batch import GraphBatch
    from mhgrn.config import Config
    from mhgrn.model import KnowledgeAwareQA

TRAIN, TEST, BATCH = 256, 256, 32  # questions
EPOCHS = 80
LEARNING_RATE = 0.003
LEARNT = 0.01  # training stops below this mean loss of an epoch
GIVEN_UP = 2  # training stops after this many epochs if the choices of every question still have equal scores
TIE = 1e-4  # scores that differ by less are equal; rounding differences are about 1e-6
SOLVED = 0.95  # minimum accuracy of a solved task
TEXT_DIM = 4  # width of the text vector, which is constant
PLOT = "compositional.svg"

# small models without dropout, so that equal scores stay equal during training
SMALL: dict[str, dict[str, Any]] = {
    "gcn": {"hidden_dim": 24, "dropout": 0.0},
    "rgcn": {"hidden_dim": 24, "dropout": 0.0},
    "gconattn": {"hidden_dim": 24, "dropout": 0.0},
    "kvmem": {"hidden_dim": 24, "memory_dim": 24, "dropout": 0.0},
    "rn": {"hidden_dim": 24, "mlp_dim": 48, "out_dim": 24, "dropout": 0.0},
    "khop_rn": {"hidden_dim": 24, "mlp_dim": 48, "out_dim": 24, "dropout": 0.0},
    "kagnet": {"hidden_dim": 24, "gcn_dim": 24, "node_dim": 24, "path_dim": 24, "pair_dim": 24, "dropout": 0.0},
    "mhgrn": {"hidden_dim": 24, "attention_dim": 8, "dropout": 0.0},
}


@dataclass(frozen=True)
class System:
    """A graph encoder with its settings, and the tasks that it should solve. On other tasks, both choices get equal scores."""

    name: str
    encoder: str
    settings: dict[str, Any] = field(default_factory=dict)
    solves: frozenset[str] = frozenset()
    fixed: bool = False  # fix MHGRN's relation weights W at 1

    def config(self) -> "Config":
        from mhgrn.config import Config

        here = section(self.encoder)
        return Config.of({"graph_encoder": self.encoder, here: SMALL.get(here, {}) | self.settings, "score_dropout": 0.0})


def _systems() -> Iterator[System]:
    for name in ("none", "most-edges", "edge-types", "gconattn", "kvmem", "gcn", "gsc", "rn"):
        yield System(name, name)
    every = frozenset(TASKS)
    two = every - {"composition-3"}
    yield System("rgcn, 2 layers", "rgcn", {"layers": 2}, two - {"type"})
    yield System("rgcn, 3 layers", "rgcn", {"layers": 3}, every - {"type", "transition"})
    yield System("rgcn, 3 layers, self-loops", "rgcn", {"layers": 3, "self_loop": True}, every - {"type"})
    for hops, tasks in ((2, two), (3, every)):
        yield System(f"khop-rn, K = {hops}", "khop-rn", {"hops": hops}, tasks - {"order", "transition"})
    for hops, tasks in ((2, two), (3, every)):
        yield System(f"kagnet, K = {hops}", "kagnet", {"hops": hops}, tasks)
    yield System("mhgrn, K = 1", "mhgrn", {"hops": 1})
    yield System("mhgrn, K = 2", "mhgrn", {"hops": 2}, two)
    yield System("mhgrn, K = 3", "mhgrn", {"hops": 3}, every)
    for part in ("transition", "type_attention", "typed_transform"):
        yield System(f"mhgrn, K = 2, without {part}", "mhgrn", {"without": [part]}, two)
    neither = ["type_attention", "typed_transform"]
    yield System(f"mhgrn, K = 2, without {', '.join(neither)}", "mhgrn", {"without": neither}, two - {"type"})
    yield System("mhgrn, K = 2, W = 1", "mhgrn", {}, two, fixed=True)
    without = {"without": ["transition"]}
    yield System("mhgrn, K = 2, W = 1, without transition", "mhgrn", without, two - {"order", "transition"}, fixed=True)


SYSTEMS = tuple(_systems())


@dataclass(frozen=True)
class Outcome:
    """The accuracy on test questions and the share of ties of a system on a task, for each seed. A tie counts as half correct."""

    task: str
    system: str
    accuracy: list[float]
    ties: list[float]
    expected: bool  # whether the system should solve the task

    @property
    def mean(self) -> float:
        return sum(self.accuracy) / len(self.accuracy)

    @property
    def blind(self) -> bool:
        """Whether both choices got equal scores in every question of every seed."""
        return all(share == 1 for share in self.ties)

    @property
    def came_out(self) -> bool:
        return all(a >= SOLVED for a in self.accuracy) if self.expected else self.blind

    def __str__(self) -> str:
        return f"{100 * self.mean:.1f}{'=' if self.blind else ' '}{' ' if self.came_out else '!'}"


@dataclass(frozen=True)
class Outcomes:
    """The outcomes of all systems and tasks."""

    tasks: tuple[str, ...]
    systems: tuple[str, ...]
    seeds: int
    cells: dict[tuple[str, str], Outcome]

    def to_dict(self) -> dict[str, Any]:
        cells = [asdict(cell) | {"blind": cell.blind, "came_out": cell.came_out} for cell in self.cells.values()]
        counts = {"seeds": self.seeds, "train_questions": TRAIN, "test_questions": TEST}
        return {**counts, "tasks": {name: TASKS[name].about for name in self.tasks}, "outcomes": cells}

    def __str__(self) -> str:
        wide = max(map(len, self.systems)) + 2
        lines = [f"{name}: {TASKS[name].about}" for name in self.tasks]
        lines += ["", " " * wide + "".join(f"{name:>15}" for name in self.tasks)]
        for system in self.systems:
            lines.append(f"{system:<{wide}}" + "".join(f"{self.cells[system, task]!s:>15}" for task in self.tasks))
        return "\n".join(line.rstrip() for line in [*lines, "", *self.notes()])

    def notes(self) -> list[str]:
        seeds = f"mean of {self.seeds} seeds" if self.seeds > 1 else "one seed"
        cells = self.cells.values()
        return [
            f"Accuracy in per cent on {TEST} test questions with two choices, {seeds}; a tie counts as half correct.",
            "= both choices of every question have equal scores.",
            f"! differs from the expected outcome: {sum(not cell.came_out for cell in cells)} of {len(cells)}.",
        ]

    def plot(self, folder: Path) -> Path:
        """Draw the table into ``folder``."""
        from mhgrn.drawing.figures import plotting, write_figure

        with plotting():
            from matplotlib.figure import Figure
            from matplotlib.patches import Rectangle

            figure = Figure(figsize=(3.2 + 1.25 * len(self.tasks), 1.0 + 0.3 * len(self.systems)), layout="constrained")
            axes = figure.add_subplot()
            values = [[100 * self.cells[system, task].mean for task in self.tasks] for system in self.systems]
            edges = [[place - 0.5 for place in range(count + 1)] for count in (len(self.tasks), len(self.systems))]
            axes.pcolormesh(*edges, values, cmap="Blues", vmin=45, vmax=140, edgecolors="white", linewidth=1)
            axes.invert_yaxis()
            for row, system in enumerate(self.systems):
                for column, task in enumerate(self.tasks):
                    cell = self.cells[system, task]
                    text = "cannot" if cell.blind else f"{100 * cell.mean:.1f}"
                    axes.text(column, row, text, ha="center", va="center", fontsize=9, color="#999999" if cell.blind else "black")
                    if not cell.came_out:
                        box = Rectangle((column - 0.48, row - 0.45), 0.96, 0.9, fill=False, edgecolor="#c0392b", linewidth=1.5)
                        axes.add_patch(box)
            axes.set_xticks(range(len(self.tasks)), self.tasks)
            axes.xaxis.tick_top()
            axes.set_yticks(range(len(self.systems)), self.systems)
            axes.tick_params(length=0)
            axes.spines[:].set_visible(False)
            folder.mkdir(parents=True, exist_ok=True)
            write_figure(figure, folder / PLOT)
        return folder / PLOT


def check_plots(folder: Path) -> None:
    """Check, before any training, that the folder can be written and that matplotlib is installed."""
    from mhgrn.drawing.figures import plotting

    for place in (folder, *folder.parents):
        if place.exists() and not place.is_dir():
            raise UserError(f"{place} is a file; name a folder for the figure.")
    with plotting():
        pass


def run(only: Iterable[str] = (), seeds: int = 3, systems: Sequence[System] = SYSTEMS) -> Outcomes:
    """Train every system on every task, or on the tasks ``only``, once per seed, and evaluate it on test questions.

    The result is deterministic: all random numbers depend on the seed, and one thread computes.
    """
    tasks = [TASKS[name] for name in _known(only)]
    if seeds < 1:
        raise UserError(f"the number of seeds is {seeds}; it should be 1 or more.")
    found: dict[tuple[str, str], list[tuple[float, float]]] = {(s.name, t.name): [] for s in systems for t in tasks}
    with _repeatable(), bar("experiments", len(found) * seeds) as advance:
        done = 0
        for task in tasks:
            for seed in range(seeds):
                train, test = (batches(task, count, seed, split) for split, count in enumerate((TRAIN, TEST)))
                for system in systems:
                    advance(done, f"{task.name}, {system.encoder}")
                    found[system.name, task.name].append(judged(trained(system, train, seed), test))
                    done += 1
        advance(done)
    cells = {}
    for system in systems:
        for task in tasks:
            accuracy, ties = map(list, zip(*found[system.name, task.name], strict=True))
            cells[system.name, task.name] = Outcome(task.name, system.name, accuracy, ties, task.name in system.solves)
    return Outcomes(tuple(task.name for task in tasks), tuple(system.name for system in systems), seeds, cells)


def _known(only: Iterable[str]) -> list[str]:
    """The named tasks in their usual order; all tasks if no name is given."""
    wanted = set(only)
    for name in sorted(wanted - set(TASKS)):
        raise UserError(f"there is no task {name!r}.{did_you_mean(name, TASKS)}")
    return [name for name in TASKS if not wanted or name in wanted]


@contextmanager
def _repeatable() -> Iterator[None]:
    """Use one thread, because sums depend on the number of threads, and restore the caller's random state afterwards."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        torch.set_num_threads(threads)


@dataclass(frozen=True)
class TaskBatch:
    """A batch of questions. The two choices of a question are adjacent graphs."""

    graphs: "GraphBatch"
    features: "Tensor"  # [N, feature_dim]
    answers: "Tensor"  # [questions]


def batches(task: Task, count: int, seed: int, split: int = 0) -> list[TaskBatch]:
    """Random questions of a task in batches."""
    import torch

    from mhgrn.batching.graph_batch import GraphBatch

    asked = list(questions(task, count, seed, split))
    table = torch.from_numpy(feature_table())
    made = []
    for start in range(0, count, BATCH):
        part = asked[start : start + BATCH]
        graphs = GraphBatch.collate([choice for one in part for choice in one.choices], RELATIONS)
        made.append(TaskBatch(graphs, table[graphs.concepts], torch.tensor([one.answer for one in part])))
    return made


def scores(model: "KnowledgeAwareQA", batch: TaskBatch) -> "Tensor":
    """The scores [questions, 2] of a model whose text input is constant."""
    import torch

    from mhgrn.text.tokens import Tokens

    graphs = batch.graphs.num_graphs
    text = batch.features.new_ones(graphs, TEXT_DIM)
    tokens = Tokens(text[:, None], torch.ones(graphs, 1, dtype=torch.bool))
    found: Tensor = model(text, batch.features, batch.graphs, tokens).score
    return found.view(-1, 2)


def untrained(system: System, seed: int) -> "KnowledgeAwareQA":
    """An untrained model."""
    import torch

    from mhgrn.encoders.base import Dims
    from mhgrn.encoders.mhgrn import MHGRN
    from mhgrn.model import assemble
    from mhgrn.nn.conv import MHGRNLayer

    torch.manual_seed(seed)
    model = assemble(system.config(), TEXT_DIM, Dims(TEXT_DIM, feature_table().shape[1], 2 * RELATIONS, TEXT_DIM))
    if system.fixed:
        assert isinstance(model.graph_encoder, MHGRN)
        for layer in model.graph_encoder.layers:
            assert isinstance(layer, MHGRNLayer)
            for weights in layer.messages.parameters():
                torch.nn.init.ones_(weights).requires_grad_(False)
    return model


def trained(system: System, train: Sequence[TaskBatch], seed: int) -> "KnowledgeAwareQA":
    """A model trained for at most ``EPOCHS`` epochs. Training stops early if the loss is small or all scores stay equal."""
    import torch
    from torch.nn.functional import cross_entropy

    model = untrained(system, seed)
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.Adam(parameters, LEARNING_RATE) if parameters else None
    for epoch in range(EPOCHS if optimizer else 0):
        assert optimizer is not None
        total, apart = 0.0, False
        for batch in train:
            optimizer.zero_grad()
            score = scores(model, batch)
            loss = cross_entropy(score, batch.answers)
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            total += loss.item() / len(train)
            apart = apart or bool((_lead(score.detach(), batch).abs() > TIE).any())
        if total < LEARNT or (not apart and epoch + 1 >= GIVEN_UP):
            break
    return model.eval()


def judged(model: "KnowledgeAwareQA", test: Sequence[TaskBatch]) -> tuple[float, float]:
    """The accuracy, with a tie as half correct, and the share of ties."""
    import torch

    with torch.inference_mode():
        lead = torch.cat([_lead(scores(model, batch), batch) for batch in test])
    ties = float((lead.abs() <= TIE).double().mean())
    return float((lead > TIE).double().mean()) + ties / 2, ties


def _lead(score: "Tensor", batch: TaskBatch) -> "Tensor":
    """The score of the correct choice minus that of the wrong one: [questions]."""
    right = score.gather(1, batch.answers[:, None]) - score.gather(1, 1 - batch.answers[:, None])
    return right[:, 0]
