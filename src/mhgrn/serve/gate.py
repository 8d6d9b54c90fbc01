"""What every request passes: headers of the answer, log line and metrics; token, number of requests and size of the body."""

import asyncio
import hmac
import json
import sys
import time
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mhgrn.serve.errors import JsonResponse, failure
from mhgrn.serve.metrics import Metrics
from mhgrn.serve.queue import QueueFull
from mhgrn.serve.settings import ServeSettings

HEADERS = {
    "content-security-policy": (
        "default-src 'self'; img-src 'self' data: blob:; object-src 'none'; base-uri 'none'; form-action 'self';"
        " frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
}
_ENCODED = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
GONE = 499  # status of a request whose client hung up, in logs and metrics
UNKNOWN = "unknown"  # route of a request that fits none
BESIDE = 64  # requests beside the waiting questions
QUESTIONS = ("/v1/ask", "/v1/ask_many")


class Log:
    """Writes lines of JSON to standard error."""

    def __init__(self, is_on: bool) -> None:
        self.is_on = is_on

    def __call__(self, **fields: Any) -> None:
        if self.is_on:
            line = json.dumps({"time": datetime.now(UTC).isoformat(timespec="milliseconds"), **fields})
            print(line, file=sys.stderr, flush=True)

    def error(self, error: BaseException) -> None:
        """An unexpected error, with its traceback. Nobody but the operator sees it."""
        self(event="error", error=type(error).__name__, traceback="".join(traceback.format_exception(error)))


class Observe:
    """Counts, times and logs every request, and adds the headers that browsers need to be safe."""

    def __init__(self, app: ASGIApp, metrics: Metrics, log: Log) -> None:
        self.app, self.metrics, self.log = app, metrics, log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status = time.perf_counter(), GONE
        noted: dict[str, Any] = {}
        scope["noted"] = noted

        async def observed(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *_ENCODED]
            await send(message)

        try:
            await self.app(scope, receive, observed)
        except Exception as error:
            self.log.error(error)
            if status == GONE:
                await failure(500, "an unexpected error; it is in the log of the service.")(scope, receive, observed)
        finally:
            seconds = time.perf_counter() - began
            route = getattr(scope.get("route"), "path", UNKNOWN)
            method = scope["method"] if scope["method"] in ("GET", "HEAD", "POST") else "other"
            self.metrics.requests.labels(route, method, str(status)).inc()
            self.metrics.seconds.labels(route).observe(seconds)
            if route not in ("/livez", "/readyz", "/metrics"):
                self.log(event="request", method=method, route=route, status=status, ms=round(1e3 * seconds, 1), **noted)


def queue_full(full: QueueFull, capacity: int, metrics: Metrics) -> JsonResponse:
    """The answer to a question that finds the queue full."""
    metrics.rejected.labels("queue full").inc()
    return failure(503, str(full), limit=capacity, headers={"Retry-After": str(full.seconds)})


class Gate:
    """Refuses requests to ``/v1`` without the token, too many at once, and bodies that are too large, before they are read.

    Questions that find the queue full are refused here too, so that an overload costs as little as possible.
    """

    def __init__(self, app: ASGIApp, settings: ServeSettings, metrics: Metrics, check_room: Callable[[], None]) -> None:
        self.app, self.settings, self.metrics, self._check_room = app, settings, metrics, check_room
        self._token = None if settings.token is None else f"Bearer {settings.token}".encode()
        self._most = settings.queue + settings.batch + BESIDE
        self._open = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith("/v1/"):
            await self.app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        if self._token is not None and not hmac.compare_digest(headers.get(b"authorization", b""), self._token):
            self.metrics.rejected.labels("token").inc()
            said = {"WWW-Authenticate": "Bearer"}
            await failure(401, "a token is needed: Authorization: Bearer …", "Authorization", headers=said)(scope, receive, send)
        elif self._open >= self._most:
            self.metrics.rejected.labels("requests").inc()
            said = {"Retry-After": "1"}
            await failure(503, "too many requests at once; try again.", limit=self._most, headers=said)(scope, receive, send)
        else:
            self._open += 1
            try:
                if scope["path"] in QUESTIONS:
                    self._check_room()
                await self._with_body(scope, receive, send, headers.get(b"content-length", b""))
            except QueueFull as full:
                await queue_full(full, self.settings.queue, self.metrics)(scope, receive, send)
            finally:
                self._open -= 1

    async def _with_body(self, scope: Scope, receive: Receive, send: Send, length: bytes) -> None:
        """Read the body, of limited size and in limited time, and pass it on."""
        limit = self.settings.limits.body
        too_large = failure(413, f"the body has more than {limit:,} bytes.", limit=limit, headers={"Connection": "close"})
        if length.isdigit() and int(length[:20]) > limit:
            await too_large(scope, receive, send)
            return
        body = b""
        try:
            async with asyncio.timeout(self.settings.deadline):
                while True:
                    message = await receive()
                    if message["type"] != "http.request":
                        return  # the client hung up
                    body += message.get("body", b"")
                    if len(body) > limit:
                        await too_large(scope, receive, send)
                        return
                    if not message.get("more_body", False):
                        break
        except TimeoutError:
            await failure(408, "the body did not arrive in time.", headers={"Connection": "close"})(scope, receive, send)
            return
        is_read = False

        async def replay() -> Message:
            nonlocal is_read
            if is_read:
                return await receive()
            is_read = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self.app(scope, replay, send)
