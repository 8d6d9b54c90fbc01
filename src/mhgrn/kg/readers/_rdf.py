"""What the readers of RDF formats share: statements become facts, labels and relations between classes.

The parser is that of pyoxigraph. It reads a file in pieces, resolves nothing on the network and expands no entities of XML.
"""

import io
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, ClassVar
from urllib.parse import unquote

from mhgrn.errors import UserError
from mhgrn.kg.reader import BadRow, Found, GraphReader, Label, SkippedRow
from mhgrn.kg.readers._lines import pieces

BASE = "http://base.invalid/"  # of relative addresses in files that name no base
RDF, RDFS, OWL = (f"http://www.w3.org/{of}#" for of in ("1999/02/22-rdf-syntax-ns", "2000/01/rdf-schema", "2002/07/owl"))
SKOS = "http://www.w3.org/2004/02/skos/core#"
SCHEMA_ORG, FOAF = ("http://schema.org/", "https://schema.org/"), "http://xmlns.com/foaf/0.1/"
OBO, IN_OWL = "http://purl.obolibrary.org/obo/", "http://www.geneontology.org/formats/oboInOwl#"
WIKIBASE, WIKIDATA = "http://wikiba.se/ontology#", "http://www.wikidata.org/"

PREFERRED = {f"{SKOS}prefLabel", f"{RDFS}label"}
ALIASES = {
    f"{SKOS}altLabel",
    f"{SKOS}hiddenLabel",
    f"{FOAF}name",
    f"{IN_OWL}hasExactSynonym",
    f"{IN_OWL}hasNarrowSynonym",
    f"{IN_OWL}hasBroadSynonym",
    f"{IN_OWL}hasRelatedSynonym",
    *(f"{space}{name}" for space in SCHEMA_ORG for name in ("name", "alternateName")),
}
# texts about a thing, which are no concepts
TEXTS = {
    f"{RDFS}comment",
    f"{SKOS}definition",
    f"{SKOS}note",
    f"{SKOS}scopeNote",
    f"{SKOS}editorialNote",
    f"{SKOS}changeNote",
    f"{SKOS}historyNote",
    f"{SKOS}example",
    f"{SKOS}notation",
    f"{OBO}IAO_0000115",
    "http://purl.org/dc/terms/description",
    "http://purl.org/dc/elements/1.1/description",
    *(f"{space}description" for space in SCHEMA_ORG),
}
# what a file says about its vocabulary, not about the world
VOCABULARIES = (RDF, OWL, RDFS, WIKIBASE)
KINDS = {f"{OWL}{name}" for name in ("Class", "NamedIndividual", "Restriction", "Ontology", "Axiom", "Thing")} | {
    f"{OWL}{name}Property" for name in ("Object", "Annotation", "Datatype", "Transitive", "Symmetric", "Functional", "Inverse")
}
KINDS |= {f"{RDF}Property", f"{RDFS}Class", f"{RDFS}Resource", f"{SKOS}Concept", f"{SKOS}ConceptScheme"}
TYPE, CLASSES = f"{RDF}type", {f"{RDFS}subClassOf", f"{RDFS}subPropertyOf", f"{OWL}equivalentClass", f"{OWL}sameAs"}
LABELS = PREFERRED | ALIASES
MOST_LABELS = 100_000  # that are kept to name predicates
MOST_FAILURES = 1000  # malformed statements of a file
OBO_ID = re.compile(re.escape(OBO) + r"([A-Za-z][A-Za-z0-9]*)_([0-9]+)$")


class RdfReader(GraphReader):
    """A format of RDF. Subclasses name the parser's format.

    A resource is a concept whose id is its address, ``HP:0001250`` for OBO's and ``Q42`` for Wikidata's. Labels (``rdfs:label``,
    ``skos:prefLabel``) and aliases (``skos:altLabel``, synonyms of OBO, ``schema:alternateName``) name it. What OWL says about a
    class by a restriction (``subClassOf [onProperty part_of; someValuesFrom X]``) is a fact. Literals are concepts, except
    descriptions. Nodes without a name are left out.
    """

    parser: ClassVar[str]
    """The name of the format in pyoxigraph."""
    heeds = frozenset({"language"})
    has_ids = True

    def rows(self) -> Iterator[Found]:
        restrictions: dict[str, dict[str, str]] = {}  # what is said about nodes without a name
        waiting: list[tuple[int, str, str]] = []  # classes that such a node describes
        left_out: Counter[str] = Counter()
        predicates: set[str] = set()
        labels: dict[str, str] = {}  # the first labels, one of which may name a predicate that is used later
        for number, statement in enumerate(self._statements(), start=1):
            if isinstance(statement, tuple):
                yield statement
                continue
            subject, relation, target = statement.subject, statement.predicate.value, statement.object
            is_literal, is_blank = _is_literal(target), _is_blank(subject)
            if is_blank and relation.startswith(OWL) and not is_literal and not _is_blank(target):
                restrictions.setdefault(subject.value, {})[relation.removeprefix(OWL)] = target.value
            elif relation in CLASSES and _is_blank(target) and not is_blank:
                waiting.append((number, subject.value, target.value))
            elif is_blank and relation == TYPE:
                pass
            elif is_blank or _is_blank(target):
                left_out["statements about nodes without a name"] += 1
            elif relation in TEXTS:
                left_out["descriptions"] += 1
            elif relation in LABELS:
                if is_literal:
                    language = (target.language or "").partition("-")[0]
                    if relation in PREFERRED and self.is_wanted(language) and len(labels) < MOST_LABELS:
                        labels.setdefault(subject.value, target.value)
                    yield Label(compact(subject.value), target.value, language, relation in PREFERRED)
            elif relation == TYPE and target.value in KINDS:
                pass
            elif relation.startswith(VOCABULARIES) and relation not in CLASSES and relation != TYPE:
                left_out["statements about the vocabulary"] += 1
            elif is_literal and not self.is_wanted(target.language):
                yield number, SkippedRow("other_language")
            else:
                predicates.add(statement.predicate.value)
                yield number, [compact(subject.value), local_name(relation), target.value if is_literal else compact(target.value)]
        for number, subject, blank in waiting:
            found = restrictions.get(blank, {})
            filler = next((found[name] for name in ("someValuesFrom", "hasValue", "allValuesFrom") if name in found), None)
            if filler is None or "onProperty" not in found:
                left_out["statements about nodes without a name"] += 1
            else:
                predicates.add(found["onProperty"])
                yield number, [compact(subject), local_name(found["onProperty"]), compact(filler)]
        for predicate in sorted(predicates.intersection(labels)):
            self.relations.label(local_name(predicate), labels[predicate])
        self.notes += [f"{self.path}: left out: {what} ({count:,})." for what, count in sorted(left_out.items())]

    def _statements(self) -> Iterator[Any]:
        """Yield the statements of the file, and for each malformed one its line number and a BadRow."""
        ox = oxigraph()
        content = self.checked_pieces(pieces(self.path, self.advance))
        stream = io.BufferedReader(Pieces(content), 1 << 16)
        parsed = ox.parse(stream, format=getattr(ox.RdfFormat, self.parser), base_iri=BASE, lenient=True)
        failures = 0
        while True:
            try:
                statement = next(parsed)
            except StopIteration:
                return
            except SyntaxError as error:
                failures += 1
                problem = re.sub(r"^Parser error .*?: | \(line \d+\)$", "", str(error))
                if failures > MOST_FAILURES:
                    raise UserError(f"{self.path}:{error.lineno}: {problem}; is this a file of the format {self.name}?") from None
                yield error.lineno or 1, BadRow(problem)
            except ValueError as error:  # not UTF-8
                raise UserError(f"{self.path}: {error}; is this a file of the format {self.name}?") from None
            else:
                yield statement

    def checked_pieces(self, content: Iterator[bytes]) -> Iterator[bytes]:
        """Yield the content of the file after checks of the format."""
        return content


class Pieces(io.RawIOBase):
    """A file made of pieces."""

    def __init__(self, content: Iterator[bytes]) -> None:
        self._content, self._rest = content, b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._rest = self._rest or next(self._content, b"")
        taken = self._rest[: len(buffer)]
        buffer[: len(taken)] = taken
        self._rest = self._rest[len(taken) :]
        return len(taken)


def oxigraph() -> Any:
    """The library that reads RDF."""
    try:
        import pyoxigraph
    except ImportError:
        raise UserError("RDF files and SPARQL need the pyoxigraph library: pip install 'mhgrn[rdf]'.") from None
    return pyoxigraph


def _is_blank(term: Any) -> bool:
    return type(term).__name__ == "BlankNode"


def _is_literal(term: Any) -> bool:
    return type(term).__name__ == "Literal"


def compact(address: str) -> str:
    """Return the id of a resource: its address, or the usual short form.

    >>> compact("http://purl.obolibrary.org/obo/HP_0001250"), compact("http://www.wikidata.org/entity/Q42")
    ('HP:0001250', 'Q42')
    >>> compact("http://dbpedia.org/resource/Paris")
    'http://dbpedia.org/resource/Paris'
    """
    if found := OBO_ID.match(address):
        return f"{found[1]}:{found[2]}"
    if address.startswith(BASE):
        return unquote(address.removeprefix(BASE))
    return address.removeprefix(f"{WIKIDATA}entity/")


def local_name(address: str) -> str:
    """Return the last part of an address.

    >>> local_name("http://www.w3.org/2004/02/skos/core#broader"), local_name("http://www.wikidata.org/prop/direct/P31")
    ('broader', 'P31')
    """
    return unquote(re.split(r"[/#]", address.rstrip("/#"))[-1])
