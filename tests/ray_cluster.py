"""Ray clusters on this machine, for tests."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

FEW = {"include_dashboard": False, "include_log_monitor": False, "no_monitor": True}  # processes that tests do not need
NODE = {"num_cpus": 1, "object_store_memory": 80 << 20}


@contextmanager
def cluster_of(nodes: int) -> Iterator[Any]:
    """A cluster with as many nodes, each with a raylet of its own, to which this process is connected."""
    import ray
    from ray.cluster_utils import Cluster

    before = dict(os.environ)
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), *filter(None, [before.get("PYTHONPATH")])])
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
    cluster = Cluster(initialize_head=True, head_node_args=NODE | FEW)
    try:
        for _ in range(nodes - 1):
            cluster.add_node(**NODE)
        ray.init(address=cluster.address, log_to_driver=False)
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()
        for name in set(os.environ) - set(before):
            del os.environ[name]
        os.environ.update(before)


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
