"""One cluster of two nodes for all tests of this folder that need no cluster of their own."""

import os
from collections.abc import Iterator
from typing import Any

import pytest

from ray_cluster import cluster_of


@pytest.fixture(scope="package")
def cluster() -> Iterator[Any]:
    pytest.importorskip("ray")
    if not hasattr(os, "fork"):
        pytest.skip("Ray clusters on one machine need Linux or macOS")
    with cluster_of(2) as cluster:
        yield cluster
