"""Prometheus metrics of one service."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
SIZES = (1, 2, 4, 8, 16, 32, 64)


class Metrics:
    """The metrics, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.requests = Counter(
            "mhgrn_requests", "Requests by route, method and status.", ["route", "method", "status"], registry=registry
        )
        self.seconds = Histogram("mhgrn_request_seconds", "Latency of requests.", ["route"], buckets=SECONDS, registry=registry)
        self.rejected = Counter("mhgrn_rejected", "Requests that were refused, by reason.", ["reason"], registry=registry)
        self.dropped = Counter(
            "mhgrn_dropped", "Questions dropped before they were computed, by reason.", ["reason"], registry=registry
        )
        self.queued = Gauge("mhgrn_queue_depth", "Questions that wait.", registry=registry)
        self.batch = Histogram("mhgrn_batch_size", "Questions computed together.", buckets=SIZES, registry=registry)
        self.computing = Histogram("mhgrn_batch_seconds", "Time to compute a batch.", buckets=SECONDS, registry=registry)
        self.failed = Counter("mhgrn_failed", "Questions that failed with an unexpected error.", registry=registry)
        self.text_bytes = Gauge("mhgrn_text_memory_bytes", "Bytes of memorized text vectors.", registry=registry)
        self.ready = Gauge("mhgrn_ready", "1 if the models are loaded and warm.", registry=registry)
        self.replicas = Gauge("mhgrn_replicas", "Processes that compute questions.", registry=registry)

    def text(self) -> bytes:
        """All metrics in the text format of Prometheus."""
        return generate_latest(self.registry)
