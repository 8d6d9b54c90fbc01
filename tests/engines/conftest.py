"""A cluster of two nodes for all tests of a module. A process can be connected to one cluster at a time."""

import os
from collections.abc import Iterator
from typing import Any

import pytest

from ray_cluster import cluster_of


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    pytest.importorskip("ray")
    if not hasattr(os, "fork"):
        pytest.skip("Ray clusters on one machine need Linux or macOS")
    with cluster_of(2) as cluster:
        yield cluster
