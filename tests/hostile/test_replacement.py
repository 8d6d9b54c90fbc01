"""A folder that is loaded while another process replaces it is one version of it, never a mixture."""

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from forking import Forked
from hostile.folders import Folders
from mhgrn.features.folder import FeatureFolder
from mhgrn.kg import KnowledgeGraph
from mhgrn.subgraphs.prepared import PreparedData, PrepareOptions, prepare
from once import made_once

QUICK = pytest.param(60, id="60 loads")
PATIENCE = 50
LONG = pytest.param(2000, id="2,000 loads", marks=pytest.mark.long)

REPLACING = """
import shutil, sys
from pathlib import Path
from mhgrn.io.folders import new_folder

target, stop, marker, *versions = map(Path, sys.argv[1:])
while not stop.exists():
    for version in versions:
        with new_folder(target, marker.name) as partial:
            shutil.copytree(version, partial, dirs_exist_ok=True)
"""


def digest(*parts: object) -> str:
    found = hashlib.sha256()
    for part in parts:
        found.update(np.ascontiguousarray(part).tobytes() if isinstance(part, np.ndarray) else repr(part).encode())
    return found.hexdigest()


def of_graph(folder: Path, folders: Folders) -> str:
    graph = KnowledgeGraph.load(folder)
    return digest(graph.about, graph.head_ptr, graph.tail, graph.relation, graph.weight, graph.neighbor, list(graph.names))


def of_data(folder: Path, folders: Folders) -> str:
    data = PreparedData.load(folder)
    columns = [data.columns[name] for name in sorted(data.columns)]
    return digest(data.about, data.questions, data.node_ptr, data.edge_ptr, data.cut, data.used, *columns)


def of_features(folder: Path, folders: Folders) -> str:
    features = FeatureFolder.load(folder, KnowledgeGraph.load(folders.graph))
    return digest(features.about, features.concepts, features.vectors, features.mean)


def another_graph(place: Path, folders: Folders) -> None:
    """The same sizes, other names and facts, so that a mixture would load."""
    graph = KnowledgeGraph.load(folders.graph)
    names = [name[::-1] for name in graph.names]
    head, tail = graph.heads()[::-1], np.asarray(graph.tail)[::-1]
    order = np.random.default_rng(0).permutation(len(names))
    weight = None if graph.weight is None else np.asarray(graph.weight)[::-1]
    KnowledgeGraph.from_table(
        names, order[head], np.asarray(graph.relation)[::-1].astype(np.int64), order[tail], weight, graph.schema, {}
    ).save(place)


def another_data(place: Path, folders: Folders) -> None:
    prepare(folders.root / "questions", KnowledgeGraph.load(folders.graph), place, PrepareOptions(max_nodes=3, workers=1))


def another_features(place: Path, folders: Folders) -> None:
    found = FeatureFolder.load(folders.features, KnowledgeGraph.load(folders.graph))
    from mhgrn.features.folder import Request

    request = Request(KnowledgeGraph.load(folders.graph), np.asarray(found.concepts), {"from": "other"})
    request.write(place, np.asarray(found.concepts), [np.asarray(found.vectors) * 2], found.vectors.shape[1])


KINDS: dict[str, tuple[str, Callable[[Path, Folders], str], Callable[[Path, Folders], None]]] = {
    "graph": ("graph.json", of_graph, another_graph),
    "data": ("prepared.json", of_data, another_data),
    "features": ("features.json", of_features, another_features),
}


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    return Folders(made_once(tmp_path_factory, "hostile", Folders.make))


@pytest.mark.parametrize("loads", [QUICK, LONG])
@pytest.mark.parametrize("kind", KINDS)
def test_a_load_sees_one_version_of_a_folder_that_is_replaced(kind: str, loads: int, folders: Folders, tmp_path: Path) -> None:
    marker, read, make_another = KINDS[kind]
    one, other, target = folders.root / kind, tmp_path / "other", tmp_path / "target"
    make_another(other, folders)
    expected = {read(one, folders), read(other, folders)}
    assert len(expected) == 2
    shutil.copytree(one, target)
    stop = tmp_path / "stop"
    writer = Forked(REPLACING, str(target), str(stop), marker, str(one), str(other))
    try:
        seen = [read(target, folders) for _ in range(loads)]
        while set(seen) < expected and len(seen) < PATIENCE * loads:  # the writer may get little processor time
            seen.append(read(target, folders))
    finally:
        stop.touch()
    _, err = writer.communicate()
    assert writer.returncode == 0, err
    mixed = [found for found in seen if found not in expected]
    assert not mixed, f"{len(mixed)} of {loads} loads saw a mixture"
    assert set(seen) == expected  # else nothing was replaced
