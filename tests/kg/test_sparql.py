"""SPARQL queries of files and of a real endpoint: a server on this machine that answers with pyoxigraph."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from harness import Command

from mhgrn.errors import UserError
from mhgrn.kg import build
from mhgrn.kg.sparql import query

ox = pytest.importorskip("pyoxigraph")
DATA = """\
@prefix ex: <http://example.org/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
ex:ann ex:lives ex:rome ; rdfs:label "Ann"@en .
ex:rome ex:in ex:italy ; rdfs:label "Rome"@en .
"""
SELECT = """\
PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#>
SELECT ?head ?headLabel ("lives in" AS ?relation) ?tail ?tailLabel WHERE {
  ?head <http://example.org/lives> ?tail . ?head rdfs:label ?headLabel . ?tail rdfs:label ?tailLabel }
"""
CONSTRUCT = "CONSTRUCT { ?a <http://example.org/country> ?c } WHERE { ?a <http://example.org/lives>/<http://example.org/in> ?c }"


class Endpoint(BaseHTTPRequestHandler):
    """A SPARQL endpoint."""

    store: Any

    def do_POST(self) -> None:
        asked = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())["query"][0]
        try:
            found = self.store.query(asked)
        except SyntaxError as error:
            self.send_response(400)
            self.end_headers()
            self.wfile.write(f"malformed query: {error}".encode())
            return
        if self.path == "/silent":
            self.close_connection = True
            return
        if self.path == "/page":
            kind, content = "text/html", b"<html>"
        elif self.path == "/empty":
            kind, content = "text/turtle", b""
        elif self.path == "/nonsense":
            kind, content = "application/sparql-results+json", b"[1, 2"
        elif isinstance(found, ox.QueryTriples):
            kind, content = "text/turtle", found.serialize(format=ox.RdfFormat.TURTLE)
        else:
            kind, content = "application/sparql-results+json", found.serialize(format=ox.QueryResultsFormat.JSON)
        self.send_response(200)
        self.send_header("Content-Type", kind)
        if self.path == "/closed":
            self.send_header("Content-Length", str(len(content) + 1000))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2] if self.path == "/cut" else content)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def endpoint() -> Iterator[str]:
    store = ox.Store()
    store.load(DATA.encode(), format=ox.RdfFormat.TURTLE)
    with serving(type("Here", (Endpoint,), {"store": store})) as address:
        yield address


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "data.ttl"
    path.write_text(DATA, encoding="utf-8")
    return path


@pytest.mark.parametrize("place", ["file", "endpoint"])
@pytest.mark.parametrize(
    ("sparql", "fact", "count"),
    [(SELECT, ("Ann", "lives in", "Rome"), 3), (CONSTRUCT, ("ann", "country", "italy"), 1)],
)
def test_queries(
    request: pytest.FixtureRequest, tmp_path: Path, place: str, sparql: str, fact: tuple[str, ...], count: int
) -> None:
    out = tmp_path / "facts.ttl"
    assert query([request.getfixturevalue(place)], sparql, out) == count
    graph, _ = build([out])
    found = [tuple(text.removeprefix("http://example.org/") for text in of) for of in graph.facts()]
    assert found == [fact]
    assert not list(tmp_path.glob(".*"))  # no leftovers


@pytest.mark.parametrize(
    ("sparql", "path", "message"),
    [
        ("SELEC", "", r"answers 400 Bad Request: malformed query: error at 1:6"),
        (SELECT, "/page", r"answers with text/html, not with statements; is it a SPARQL endpoint\?"),
        (SELECT, "/cut", r"the answer cannot be read to its end \("),
        (SELECT, "/closed", r"the answer cannot be read to its end \("),
        (CONSTRUCT, "/closed", r"the answer cannot be read to its end \("),
        (SELECT, "/nonsense", r"the answer cannot be read to its end \("),
        (SELECT, "/silent", r"the answer cannot be read to its end \(.*without response"),
        (SELECT, "/empty", "the query finds nothing; no file was written"),
        (SELECT.replace("lives>", "nothing>"), "", "the query finds nothing; no file was written"),
        ("SELECT ?a ?b WHERE { ?a <http://example.org/in> ?b }", "", r"the variables a, b; name the parts of a fact \?head"),
        ("ASK { ?a ?b ?c }", "", "an ASK query finds no facts"),
    ],
)
def test_an_endpoint_that_does_not_answer(endpoint: str, tmp_path: Path, sparql: str, path: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        query([endpoint + path], sparql, tmp_path / "out.ttl")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("sparql", "message"),
    [
        ("SELEC", "the query is not SPARQL: error at 1:6"),
        ("ASK { ?a ?b ?c }", "an ASK query finds no facts"),
        ("SELECT ?head WHERE { ?head ?b ?c }", "name the parts of a fact"),
    ],
)
def test_queries_of_files_that_cannot_be_run(file: Path, tmp_path: Path, sparql: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        query([file], sparql, tmp_path / "out.ttl")
    assert not (tmp_path / "out.ttl").exists()


def test_sources_that_cannot_be_queried(file: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"http://127\.0\.0\.1:1 cannot be reached"):
        query(["http://127.0.0.1:1"], SELECT, tmp_path / "out.ttl")
    with pytest.raises(UserError, match="an endpoint is queried alone"):
        query(["http://127.0.0.1:1", file], SELECT, tmp_path / "out.ttl")
    (tmp_path / "facts.tsv").write_text("a\tb\tc\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"facts\.tsv is not a file of RDF, but of the format tsv"):
        query([tmp_path / "facts.tsv"], SELECT, tmp_path / "out.ttl")
    file.write_text(DATA + "broken", encoding="utf-8")
    with pytest.raises(UserError, match=r"data\.ttl: .*; is this a file of the format turtle"):
        query([file], SELECT, tmp_path / "out.ttl")


def test_an_answer_is_written_while_it_arrives(tmp_path: Path) -> None:
    """The endpoint sends the second half only after the first one is in the file."""
    line = b"<http://example.org/a%d> <http://example.org/lives> <http://example.org/b> .\n"
    seen = list[int]()

    class Slow(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Type", "application/n-triples")
            self.end_headers()
            self.wfile.write(b"".join(line % number for number in range(20_000)))
            for _ in range(600):
                seen[:] = [path.stat().st_size for path in tmp_path.rglob("*out.ttl*") if path.is_file()]
                if sum(seen):
                    break
                time.sleep(0.1)
            self.wfile.write(line % 20_000)

        def log_message(self, *_: object) -> None:
            pass

    with serving(Slow) as address:
        assert query([address], SELECT, tmp_path / "out.ttl") == 20_001
    assert sum(seen) > 0


def test_pages(endpoint: str, tmp_path: Path) -> None:
    ordered = "SELECT ?head ?relation ?tail WHERE { ?head ?relation ?tail } ORDER BY ?head ?relation ?tail"
    for size in (1, 3, 4, 100):
        assert query([endpoint], ordered, tmp_path / "out.ttl", page_size=size) == 4
    assert len(set((tmp_path / "out.ttl").read_text().splitlines())) == 4
    with pytest.raises(UserError, match="the query has a LIMIT of its own"):
        query([endpoint], f"{ordered} LIMIT 3", tmp_path / "other.ttl", page_size=2)
    with pytest.raises(UserError, match="files are read at once"):
        query([tmp_path / "out.ttl"], ordered, tmp_path / "other.ttl", page_size=2)
    assert not (tmp_path / "other.ttl").exists()


def test_the_command_asks_an_endpoint(endpoint: str, tmp_path: Path, here: Command) -> None:
    (tmp_path / "query.rq").write_text(SELECT, encoding="utf-8")
    out = tmp_path / "facts.ttl"
    asked = here("kg", "query", endpoint, "--sparql", tmp_path / "query.rq", "-o", out, "--page-size", 1, "--json")
    assert (asked.code, json.loads(asked.out)["statements"]) == (0, 3)
    built = here("kg", "build", out, "-o", tmp_path / "graph")
    assert built.code == 0
    refused = here("kg", "query", f"{endpoint}/page", "--sparql", tmp_path / "query.rq", "-o", tmp_path / "page.ttl")
    assert refused.code == 2
    assert "Traceback" not in refused.err
    assert not (tmp_path / "page.ttl").exists()


def test_the_command(file: Path, tmp_path: Path, here: Command) -> None:
    (tmp_path / "query.rq").write_text(SELECT, encoding="utf-8")
    out = tmp_path / "facts.ttl"
    done = here("kg", "query", file, "--sparql", tmp_path / "query.rq", "-o", out)
    assert (done.code, done.out) == (0, f"{out}: 3 statements. Build a graph of them: mhgrn kg build {out} -o graph/\n")
    again = here("kg", "query", file, "--sparql", tmp_path / "query.rq", "-o", out)
    assert (again.code, again.err.strip()) == (2, f"mhgrn: {out} exists; name another file, or replace it with --force.")
    missing = here("kg", "query", file, "--sparql", tmp_path / "nothing.rq", "-o", out, "--force")
    assert "nothing.rq cannot be read; name a file with a SPARQL query" in missing.err
