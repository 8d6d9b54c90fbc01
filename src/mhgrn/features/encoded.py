"""Node features from a text encoder, in builds that can be interrupted and resumed."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from json import dumps, loads
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
from pydantic import Field
from safetensors.torch import load, save
from torch import Tensor

from mhgrn.engines import Engine, Session, Work, session_of
from mhgrn.engines.engine import Context, Item, place_on_nodes
from mhgrn.engines.worker import check_same
from mhgrn.errors import UserError
from mhgrn.features.accumulate import Accumulator
from mhgrn.features.folder import FeatureFolder, Request
from mhgrn.features.loading import FEATURE_SOURCES
from mhgrn.features.source import FeatureSource
from mhgrn.features.verbalize import BATCH
from mhgrn.io.fingerprint import fingerprint
from mhgrn.kg.graph import Ints, KnowledgeGraph
from mhgrn.progress import bar, say
from mhgrn.settings import NoEffect
from mhgrn.settings import Settings as AnySettings
from mhgrn.text.encoder import TextEncoder
from mhgrn.text.loading import load_text_encoder
from mhgrn.text.settings import TextEncoderSettings

STEP = 2048  # triples or names between two checkpoints
SAMPLE = 256  # triples or names for measuring the rate
LONG = 16 * STEP  # builds of this size print an estimate first

EncodedRows = tuple[Ints, Tensor, Tensor]  # rows, sums, counts


@dataclass(frozen=True)
class Estimate:
    """The duration of a build, measured on a sample, and the disk space it needs."""

    items: int
    rate: float  # items per second
    seconds: float
    bytes: int

    def __str__(self) -> str:
        rate = f"{self.rate:,.0f}" if self.rate >= 10 else f"{self.rate:.2g}"
        return f"{self.items:,} to encode at {rate} per second: {_duration(self.seconds)}, {self.bytes / 1e9:.1f} GB of disk"


@dataclass(frozen=True)
class ResumableBuild:
    """A build in steps, each of which is a checkpoint. ``encode`` gives the sums and counts of the items with given numbers."""

    request: Request
    items: int
    dim: int
    encode: Callable[[Ints], EncodedRows]

    def estimate(self, left: int | None = None) -> Estimate:
        """Measure the rate on a sample of all items, after a warm-up."""
        sample = np.unique(np.linspace(0, self.items - 1, min(SAMPLE, self.items)).astype(np.int64))
        self.encode(sample[: len(sample) // 4 + 1])
        began = time.perf_counter()
        self.encode(sample)
        rate = len(sample) / (time.perf_counter() - began)
        left = self.items if left is None else left
        return Estimate(left, rate, left / rate, len(self.request.concepts) * (self.dim * 6 + 16))

    def build(
        self, folder: str | Path | None, force: bool = True, engine: Engine | None = None, context: Context | None = None
    ) -> FeatureFolder:
        """Encode all items and write the folder. An interrupted build of the same request is resumed.

        Args:
            folder: See :meth:`FeatureSource.build`.
            force: See :meth:`FeatureSource.build`.
            engine: Where to encode, of :func:`mhgrn.engines.engine_named`. None: in this process.
            context: With an engine: what nodes need to make the same plan.
        """
        place, found = self.request.find(folder, force)
        if found is not None:
            return found
        # another step size would add the same vectors in another order, which changes the last digits
        key = fingerprint(self.request.key, STEP, BATCH)
        with Accumulator(place, key, len(self.request.concepts), self.dim) as table, session_of(engine, place) as session:
            if table.steps:
                say(f"resuming after {self._done(table)}")
            left = self.items - table.steps * STEP
            if left >= LONG and session is None:
                say(f"{self.estimate(left)}. You can stop at any time; the same command resumes the build.")
            try:
                with bar(f"encoding {self.request.source['from']}", self.items) as advance:
                    steps = [(start, min(start + STEP, self.items)) for start in range(table.steps * STEP, self.items, STEP)]
                    advance(table.steps * STEP)
                    for (_, end), rows in zip(steps, self._encoded(steps, session, context), strict=True):
                        table.add(*rows)
                        advance(end)
            except KeyboardInterrupt:
                say(f"stopped after {self._done(table)}; the same command resumes the build.")
                raise
            covered = self.request.concepts[table.covered()]
            written = self.request.write(place, covered, table.means(), self.dim)
            table.remove()
        return written

    def _encoded(self, steps: Sequence[tuple[int, int]], session: Session | None, context: Context | None) -> Iterator[EncodedRows]:
        """What ``encode`` gives of each step."""
        if session is None:
            return (self.encode(np.arange(start, end)) for start, end in steps)
        assert context is not None
        called = str(self.request.source["from"])
        parts = [[{"id": f"{called} {start + 1:,} to {end:,}", "start": start, "end": end}] for start, end in steps]
        work = Work(rows_of_step, context, parts, torch.get_num_threads(), "steps", is_kept=False)
        return map(_rows_from, session.map(work))

    def _done(self, table: Accumulator) -> str:
        return f"{min(table.steps * STEP, self.items):,} of {self.items:,} {self.request.source['from']}"


def feature_encoder(name: str = "minilm", allow_download: bool = False, allow_pickle: bool = False) -> TextEncoder:
    """A text encoder for node features, see :func:`load_text_encoder`. Its texts are mean-pooled, so it needs no pooler."""
    return load_text_encoder(TextEncoderSettings(encoder=name, pooling="mean"), None, allow_download, allow_pickle)


def rows_of_step(context: Context, items: list[Item]) -> bytes:
    """What a build encodes in one step, as a safetensors file. The process keeps the plan of the build."""
    plan = _planned(dumps(context, sort_keys=True))
    (step,) = items
    rows, sums, counts = plan.encode(np.arange(step["start"], step["end"]))
    content: bytes = save({"rows": torch.from_numpy(rows), "sums": sums.contiguous(), "counts": counts.contiguous()})
    return content


def _rows_from(content: bytes) -> EncodedRows:
    found = load(content)
    return found["rows"].numpy(), found["sums"], found["counts"]


@lru_cache(maxsize=1)
def _planned(context: str) -> ResumableBuild:
    about = loads(context)
    kind = FEATURE_SOURCES.load(about["source"])
    assert issubclass(kind, EncodedSource)
    graph = KnowledgeGraph.load(about["graph"])
    settings = kind.Settings.model_validate(about["settings"])
    source = kind(graph, settings, feature_encoder(settings.encoder, **about["access"]))
    check_same(f"the graph {about['graph']} or the text encoder", source.fingerprints(), about["fingerprints"])
    plan = source.plan(about["only"])
    check_same("what is encoded", {"concepts": plan.request.key}, {"concepts": about["key"]})
    return plan


class EncodedSourceSettings(AnySettings):
    encoder: Annotated[str, NoEffect()] = Field("minilm", description="a text encoder, as text.encoder; identified by its weights")


class EncodedSource(FeatureSource):
    """Base class of the sources that a text encoder makes; they can resume an interrupted build.

    Args:
        graph: The graph whose concepts get vectors.
        settings: Options of the source.
        encoder: The text encoder. None: the one that the settings name.
    """

    Settings = EncodedSourceSettings
    settings: EncodedSourceSettings
    opens_directly = False

    def __init__(self, graph: KnowledgeGraph, settings: AnySettings | None = None, encoder: TextEncoder | None = None) -> None:
        super().__init__(graph, settings)
        self.encoder = feature_encoder(self.settings.encoder) if encoder is None else encoder
        self.dim = self.encoder.width

    def plan(self, only: Iterable[str | Path] = ()) -> "ResumableBuild":
        """The work of a build: to estimate it, or to do it."""
        raise NotImplementedError

    def build(self, folder: str | Path | None = None, only: Iterable[str | Path] = (), force: bool = True) -> FeatureFolder:
        return self.plan(only).build(folder, force)

    def build_on(
        self,
        engine: Engine,
        folder: str | Path | None = None,
        only: Iterable[str | Path] = (),
        force: bool = True,
        allow_download: bool = False,
        allow_pickle: bool = False,
    ) -> FeatureFolder:
        """The same on an engine, of :func:`mhgrn.engines.engine_named`.

        Args:
            engine: Where to encode.
            folder: See :meth:`FeatureSource.build`.
            only: See :meth:`FeatureSource.build`.
            force: See :meth:`FeatureSource.build`.
            allow_download: How nodes load the text encoder, see :func:`load_text_encoder`.
            allow_pickle: The same.
        """
        if self.graph.folder is None:
            raise UserError("save the graph first; the nodes of a cluster read it from its folder.")
        only = list(only)
        plan, settings = self.plan(only), self.settings.model_dump(mode="json")
        context = {
            "source": self.name,
            "settings": settings | {"encoder": place_on_nodes(self.settings.encoder)},
            "graph": place_on_nodes(self.graph.folder),
            "only": [place_on_nodes(data) for data in only],
            "access": {"allow_download": allow_download, "allow_pickle": allow_pickle},
            "fingerprints": self.fingerprints(),
            "key": plan.request.key,
        }
        return plan.build(folder, force, engine, context)

    def fingerprints(self) -> dict[str, str]:
        """What a node must have in common with this machine."""
        return {"graph": self.graph.fingerprint, "text encoder": self.encoder.checksum()}

    def encoder_identity(self) -> dict[str, str]:
        return {"name": self.encoder.settings.encoder, "weights": self.encoder.identity()["weights"]}


def _duration(seconds: float) -> str:
    """
    >>> _duration(20), _duration(300), _duration(5000)
    ('less than a minute', 'about 5 minutes', 'about 1.4 hours')
    """
    if seconds < 55:
        return "less than a minute"
    if seconds < 90 * 60 and round(seconds / 60) < 60:
        return f"about {max(round(seconds / 60), 2)} minutes" if seconds > 90 else "about a minute"
    return f"about {seconds / 3600:.1f} hours"
