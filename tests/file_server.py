"""A local HTTP server with configurable faults."""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import PurePosixPath


@dataclass
class Behavior:
    """The served files and the faults of the server.

    Args:
        cuts: for each request in turn, the number of bytes after which the connection is dropped.
        after_cut: files to serve instead after the first dropped connection.
        fixed_version: send the same ETag for every content.
        length: ``Content-Length``, ``chunked`` or nothing.
        stalls: wait for this event after half of the body.
    """

    files: dict[str, bytes] = field(default_factory=dict)
    cuts: list[int] = field(default_factory=list)
    after_cut: dict[str, bytes] = field(default_factory=dict)
    ranges: bool = True
    supports_if_range: bool = True
    validator: str = "ETag"  # or Last-Modified, or nothing
    fixed_version: bool = False
    length: str = "Content-Length"
    error: int = 0
    stalls: threading.Event | None = None
    requests: list[dict[str, str]] = field(default_factory=list)
    sent: int = 0

    def version(self, body: bytes) -> str:
        number = 0 if self.fixed_version else sum(body) % 60
        return f'"{number}"' if self.validator == "ETag" else f"Wed, 21 Oct 2015 07:28:{number:02} GMT"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        how: Behavior = self.server.how  # type: ignore[attr-defined]
        how.requests.append(dict(self.headers.items()))
        self.close_connection = True
        body = how.files.get(PurePosixPath(self.path).name)
        if how.error or body is None:
            self.send_error(how.error or 404)
            return
        version, start = how.version(body), 0
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        fresh = not how.supports_if_range or self.headers.get("If-Range", version) == version
        if asked and how.ranges and fresh:
            start = int(asked[1])
            if start >= len(body):
                self.send_error(416)
                return
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        else:
            self.send_response(200)
        if how.validator:
            self.send_header(how.validator, version)
        rest = body[start:]
        if how.length == "Content-Length":
            self.send_header("Content-Length", str(len(rest)))
        elif how.length == "chunked":
            self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        cut = how.cuts.pop(0) if how.cuts else None
        self._send(rest if cut is None else rest[:cut], is_whole=cut is None)
        if cut is not None:
            how.files |= how.after_cut

    def _send(self, rest: bytes, is_whole: bool) -> None:
        how: Behavior = self.server.how  # type: ignore[attr-defined]
        how.sent += len(rest)
        if how.length == "chunked":
            rest = b"%x\r\n%b\r\n" % (len(rest), rest) if rest else b""
            rest += b"0\r\n\r\n" if is_whole else b""
        half = len(rest) // 2 if how.stalls else len(rest)
        self.wfile.write(rest[:half])
        self.wfile.flush()
        if how.stalls:
            how.stalls.wait(30)
            self.wfile.write(rest[half:])


@contextmanager
def serving(how: Behavior) -> Iterator[str]:
    """Serve ``how.files`` and yield the address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    server.handle_error = lambda *_: None  # type: ignore[method-assign]  # a client that disconnected
    server.how = how  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def closed_port() -> str:
    """Return an address at which no server listens."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.server_close()
    return f"http://127.0.0.1:{server.server_address[1]}"
