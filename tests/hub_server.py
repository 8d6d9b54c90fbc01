"""A small stand-in for the Hugging Face hub: repositories in memory, over HTTP."""

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

SHA = "0123456789abcdef0123456789abcdef01234567"


class Hub(ThreadingHTTPServer):
    """The server and its repositories: the files of each, by name."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.repositories: dict[str, dict[str, bytes]] = {}
        self.requests: list[str] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.server.requests.append(f"{self.command} {path}")
        for name, files in self.server.repositories.items():
            api = f"/api/models/{name}"
            if path in (api, f"{api}/revision/main", f"{api}/revision/{SHA}"):
                self._reply({"id": name, "modelId": name, "sha": SHA, "siblings": [{"rfilename": file} for file in files]})
                return
            if path.startswith(f"{api}/tree/"):
                self._reply([{"type": "file", "path": f, "size": len(c), "oid": _etag(c)} for f, c in files.items()])
                return
            for file, content in files.items():
                if path in (f"/{name}/resolve/{SHA}/{file}", f"/{name}/resolve/main/{file}"):
                    headers = {"ETag": f'"{_etag(content)}"', "X-Repo-Commit": SHA, "Content-Type": "application/octet-stream"}
                    self._send(200, content, headers)
                    return
        self._reply({"error": "Repository not found"}, 404, {"X-Error-Code": "RepoNotFound"})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        path = unquote(urlsplit(self.path).path)
        self.server.requests.append(f"POST {path}")
        if path == "/api/repos/create":
            asked = json.loads(body)
            name = f"{asked['organization']}/{asked['name']}" if asked.get("organization") else asked["name"]
            self.server.repositories[name] = {}
            self._reply({"url": f"{self.server.address}/{name}", "id": name, "name": name})
        elif "/preupload/" in path:
            files = [{"path": file["path"], "uploadMode": "regular", "shouldIgnore": False} for file in json.loads(body)["files"]]
            self._reply({"files": files})
        elif "/commit/" in path:
            name = path.removeprefix("/api/models/").partition("/commit/")[0]
            for line in body.splitlines():
                entry = json.loads(line)
                if entry["key"] == "file":
                    self.server.repositories[name][entry["value"]["path"]] = base64.b64decode(entry["value"]["content"])
            address = f"{self.server.address}/{name}/commit/{SHA}"
            self._reply({"success": True, "commitOid": SHA, "commitUrl": address, "hookOutput": ""})
        else:  # /api/validate-yaml
            self._reply({"errors": [], "warnings": []})

    def _reply(self, value: object, status: int = 200, headers: dict[str, str] | None = None) -> None:
        self._send(status, json.dumps(value).encode(), {"Content-Type": "application/json", **(headers or {})})

    def _send(self, status: int, content: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for key, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


def _etag(content: bytes) -> str:
    return hashlib.sha1(content).hexdigest()


@contextmanager
def hub() -> Iterator[Hub]:
    """Run a hub in a thread of this process."""
    server = Hub()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
