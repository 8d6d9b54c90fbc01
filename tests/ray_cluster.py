"""Ray clusters on this machine, for tests."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

FEW = {"include_dashboard": False, "include_log_monitor": False, "no_monitor": True}  # processes that tests do not need
NODE = {"num_cpus": 1, "object_store_memory": 80 << 20}


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


@contextmanager
def cluster_of(nodes: int, **head: Any) -> Iterator[Any]:
    """A cluster with as many nodes, each with a raylet of its own, to which this process is connected.

    Args:
        nodes: The number of nodes.
        head: More arguments of the first node.
    """
    import ray
    from ray.cluster_utils import Cluster

    before = dict(os.environ)
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), *filter(None, [before.get("PYTHONPATH")])])
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
    os.environ |= {"RAY_CLIENT_SERVER_CHECK_CHANNEL_TIMEOUT_S": "300"}
    os.environ |= {"RAY_worker_niceness": "0"}  # by default workers wait for everything else on the machine
    cluster = Cluster(initialize_head=True, head_node_args=NODE | FEW | head)
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
