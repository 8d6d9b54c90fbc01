"""SPARQL: a query of an endpoint, or of files of RDF, gives a file of statements that a graph is built from."""

import io
import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from http.client import HTTPException
from itertools import count
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen

from mhgrn.errors import UserError
from mhgrn.io.atomic import partial_file
from mhgrn.kg.columns import ROLES, known_columns
from mhgrn.kg.readers import find_reader
from mhgrn.kg.readers._lines import pieces
from mhgrn.kg.readers._rdf import BASE, RDFS, Pieces, RdfReader, oxigraph
from mhgrn.kg.readers.ntriples import NTriplesReader
from mhgrn.printing import printable
from mhgrn.progress import say

LIMIT = re.compile(r"\b(limit|offset)\s+\d+\s*(?:(?:limit|offset)\s+\d+\s*)?$", re.IGNORECASE)  # at the end of a query
TIMEOUT = 120  # seconds to wait for the next byte: queries may take long
SHOWN = 300  # characters of an answer that refuses a query
# what is asked for, and what an answer may be
STATEMENTS = {"application/n-triples": "N_TRIPLES", "text/turtle": "TURTLE", "application/rdf+xml": "RDF_XML"}
SOLUTIONS = {
    "application/sparql-results+json": "JSON",
    "application/json": "JSON",
    "application/sparql-results+xml": "XML",
    "text/tab-separated-values": "TSV",
}


def query(sources: Sequence[str | Path], sparql: str, output: str | Path, page_size: int | None = None) -> int:
    """Run a SPARQL query and write what it finds as statements, in Turtle.

    Args:
        sources: The address of an endpoint (``https://...``), or files of RDF.
        sparql: A CONSTRUCT query, or a SELECT query with the variables ``?head ?relation ?tail`` (or other names that
            :ref:`tables <columns>` use for them). Variables such as ``?headLabel`` give labels.
        output: The file to write, ending in ``.ttl``.
        page_size: Ask an endpoint for so many results at a time, by LIMIT and OFFSET, until there are no more; for endpoints that
            limit an answer. The query should have ORDER BY, since an endpoint may return results in any order otherwise.

    Returns:
        The number of statements.

    >>> query(["https://query.wikidata.org/sparql"], "CONSTRUCT { ... } WHERE { ... }", "facts.ttl")  # doctest: +SKIP
    """
    path = Path(output)
    if path.suffix != ".ttl":
        raise UserError(f"{path} does not end in .ttl; the statements are written as Turtle.")
    addresses = [str(source) for source in sources if str(source).startswith(("http://", "https://"))]
    if addresses and len(sources) > 1:
        raise UserError("an endpoint is queried alone; name one address, or files of RDF.")
    if page_size is not None and (not addresses or page_size < 1):
        raise UserError("--page-size is a positive number of results of an endpoint; files are read at once.")
    if page_size is not None and (found_limit := LIMIT.search(sparql)):
        raise UserError(f"the query has a {found_limit[1].upper()} of its own; remove it, or --page-size.")
    with partial_file(path) as partial, tempfile.TemporaryDirectory(dir=partial.parent, prefix=".query.") as folder:
        found = (
            _paged(addresses[0], sparql, page_size)
            if addresses
            else _local([Path(source) for source in sources], sparql, Path(folder))
        )
        with partial.open("wb") as file:
            written = _write(found, file)
        if not written:
            raise UserError("the query finds nothing; no file was written.")
    return written


def _local(paths: Sequence[Path], sparql: str, folder: Path) -> Iterator[Any]:
    """The statements that a query of files gives."""
    ox = oxigraph()
    store = ox.Store(str(folder))
    for path in paths:
        reader = find_reader(path)
        kind = "N_TRIPLES" if reader is NTriplesReader else reader.parser if issubclass(reader, RdfReader) else None
        if kind is None:
            raise UserError(f"{path} is not a file of RDF, but of the format {reader.name}; only RDF is queried.")
        say(f"loading {path} …")
        stream = io.BufferedReader(Pieces(pieces(path, lambda done: None)), 1 << 16)
        try:
            store.bulk_load(stream, format=getattr(ox.RdfFormat, kind), base_iri=BASE, lenient=True)
        except SyntaxError as error:
            raise UserError(f"{path}: {printable(str(error))}; is this a file of the format {reader.name}?") from None
    try:
        found = store.query(sparql, use_default_graph_as_union=True)
    except SyntaxError as error:
        raise UserError(f"the query is not SPARQL: {printable(str(error))}.") from None
    if isinstance(found, ox.QueryBoolean):
        raise UserError("an ASK query finds no facts; use CONSTRUCT, or SELECT ?head ?relation ?tail.")
    yield from found if isinstance(found, ox.QueryTriples) else _solved(found, [v.value for v in found.variables])


def _paged(address: str, sparql: str, page_size: int | None) -> Iterator[Any]:
    """The statements that an endpoint gives, in one answer or in pages."""
    if page_size is None:
        yield from _asked(address, sparql)
        return
    for offset in count(0, page_size):
        say(f"asking for results from {offset + 1:,} …")
        is_empty = True
        for statement in _asked(address, f"{sparql}\nLIMIT {page_size} OFFSET {offset}"):
            is_empty = False
            yield statement
        if is_empty:
            return


def _asked(address: str, sparql: str) -> Iterator[Any]:
    """The statements that an endpoint gives in one answer."""
    ox = oxigraph()
    headers = {
        "User-Agent": "mhgrn",
        "Accept": ", ".join([*STATEMENTS, *SOLUTIONS]),
        "Content-Type": "application/x-www-form-urlencoded",
    }
    try:
        with urlopen(Request(address, urlencode({"query": sparql}).encode(), headers), timeout=TIMEOUT) as response:
            kind = response.headers.get_content_type()
            if kind in STATEMENTS:
                yield from ox.parse(response, format=getattr(ox.RdfFormat, STATEMENTS[kind]), base_iri=address, lenient=True)
            elif kind in SOLUTIONS:
                found = ox.parse_query_results(response, format=getattr(ox.QueryResultsFormat, SOLUTIONS[kind]))
                if isinstance(found, ox.QueryBoolean):
                    raise UserError("an ASK query finds no facts; use CONSTRUCT, or SELECT ?head ?relation ?tail.")
                yield from _solved(found, [v.value for v in found.variables])
            else:
                raise UserError(f"{address} answers with {printable(kind)}, not with statements; is it a SPARQL endpoint?")
            while response.read(1 << 16):
                pass
            if response.length:  # the library takes a connection that is cut for the end of the answer
                raise HTTPException(f"{response.length:,} bytes are missing")
    except HTTPError as error:
        reason = printable(" ".join(error.read(SHOWN).decode(errors="replace").split()))
        raise UserError(f"{address} answers {error.code} {error.reason}: {reason}") from None
    except URLError as error:
        raise UserError(f"{address} cannot be reached ({error.reason}).") from None
    except (OSError, HTTPException, SyntaxError, ValueError) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(f"{address}: the answer cannot be read to its end ({printable(str(error))}); ask again.") from None


def _solved(solutions: Iterable[Any], variables: list[str]) -> Iterator[Any]:
    """The statements of a SELECT query: a fact and its labels for each solution."""
    ox = oxigraph()
    labels = {name: name.removesuffix("Label") for name in variables if name.endswith("Label")}
    plain = [name for name in variables if name not in labels]
    places = known_columns(plain, "the query")
    if places is None:
        raise UserError(f"the query has the variables {', '.join(plain)}; name the parts of a fact ?head, ?relation and ?tail.")
    names = [plain[places[role]] for role in ROLES[:3]]
    label = ox.NamedNode(f"{RDFS}label")
    for solution in solutions:
        head, relation, tail = (solution[name] for name in names)
        if head is None or relation is None or tail is None:
            continue
        yield ox.Triple(_resource(head), _resource(relation), tail)
        for name, of in labels.items():
            if of in names and solution[name] is not None:
                yield ox.Triple(_resource(solution[of]), label, solution[name])


def _resource(term: Any) -> Any:
    """A term as the subject or the relation of a statement. A text becomes an address that readers take for the text."""
    ox = oxigraph()
    return ox.NamedNode(BASE + quote(term.value, safe="")) if isinstance(term, ox.Literal) else term


def _write(statements: Iterable[Any], file: Any) -> int:
    ox = oxigraph()
    number = 0
    for statement in statements:
        triple = getattr(statement, "triple", statement)
        file.write(ox.serialize([triple], format=ox.RdfFormat.N_TRIPLES))
        number += 1
    return number
