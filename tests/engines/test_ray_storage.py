"""A Ray cluster of two nodes, each with its own cache: graphs at URLs are fetched once by each node."""

import os
import shutil
from pathlib import Path

import pytest

from mhgrn.engines import engine_named
from mhgrn.io.remote import cached_versions
from mhgrn.kg import KnowledgeGraph
from mhgrn.subgraphs import prepared
from mhgrn.subgraphs.prepared import PrepareOptions, prepare
from ray_cluster import NODE, cluster_of, content
from storage import separate_cache

pytest.importorskip("ray")
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="Ray clusters on one machine need Linux or macOS")
OPTIONS = PrepareOptions(statement="fill-in-the-blank", workers=1)


def test_each_node_fetches_the_graph_once_into_its_cache(
    starter_graph: KnowledgeGraph, small_questions: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert starter_graph.folder is not None
    shutil.copytree(starter_graph.folder, tmp_path / "shared" / "graph")
    url = f"file://{tmp_path}/shared/graph"
    caches = [separate_cache(tmp_path / name) for name in ("first", "second", "driver")]
    monkeypatch.setattr(prepared, "PART", 9)
    monkeypatch.setenv("MHGRN_CACHE", str(caches[0]))  # of the first node
    with cluster_of(1) as cluster:
        cluster.add_node(**NODE, env_vars={"MHGRN_CACHE": str(caches[1])})
        monkeypatch.setenv("MHGRN_CACHE", str(caches[2]))  # of this process
        on_ray = prepare(small_questions, url, tmp_path / "a" / "data", OPTIONS, engine=engine_named("ray"))
    local = prepare(small_questions, url, tmp_path / "b" / "data", OPTIONS)
    assert content(on_ray.folder) == content(local.folder)
    assert on_ray.about["graph"] == url
    for cache in caches:
        monkeypatch.setenv("MHGRN_CACHE", str(cache))
        (folder,) = cached_versions(url)
        assert content(folder) == content(starter_graph.folder)
        assert [path.name for path in (cache / "fetched").iterdir()] == [folder.parent.name]  # no lock, no second version
