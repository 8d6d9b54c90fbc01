"""What the readers of RDF formats share: statements become facts, labels and relations between classes.

The parser is that of pyoxigraph. It reads a file in pieces, resolves nothing on the network and expands no entities of XML.
"""

import io
import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple
from urllib.parse import unquote

from mhgrn.errors import UserError
from mhgrn.kg.reader import BadRow, Found, GraphReader, Label, SkippedRow
from mhgrn.kg.readers._lines import pieces, text_pieces

BASE = "http://base.invalid/"  # of relative addresses in files that name no base
RDF, RDFS, OWL = (f"http://www.w3.org/{of}#" for of in ("1999/02/22-rdf-syntax-ns", "2000/01/rdf-schema", "2002/07/owl"))
SKOS = "http://www.w3.org/2004/02/skos/core#"
SCHEMA_ORG, FOAF = ("http://schema.org/", "https://schema.org/"), "http://xmlns.com/foaf/0.1/"
OBO, IN_OWL = "http://purl.obolibrary.org/obo/", "http://www.geneontology.org/formats/oboInOwl#"
WIKIBASE, WIKIDATA = "http://wikiba.se/ontology#", "http://www.wikidata.org/"

# kinds of predicates
PREFERRED, ALIAS, DESCRIPTION, VOCABULARY = "label", "alias", "description", "vocabulary"
TYPE, CLASSES, RESTRICTION, FACT = "type", "classes", "restriction", "fact"
PREDICATES = {
    **dict.fromkeys((f"{SKOS}prefLabel", f"{RDFS}label"), PREFERRED),
    **dict.fromkeys((f"{SKOS}altLabel", f"{SKOS}hiddenLabel", f"{FOAF}name"), ALIAS),
    **{f"{IN_OWL}has{kind}Synonym": ALIAS for kind in ("Exact", "Narrow", "Broad", "Related")},
    **{f"{space}{name}": ALIAS for space in SCHEMA_ORG for name in ("name", "alternateName")},
    # texts about a thing, which are no concepts
    **{f"{SKOS}{name}": DESCRIPTION for name in ("definition", "note", "scopeNote", "editorialNote", "changeNote", "historyNote")},
    **{f"{SKOS}{name}": DESCRIPTION for name in ("example", "notation")},
    **{
        f"{space}description": DESCRIPTION
        for space in (*SCHEMA_ORG, "http://purl.org/dc/terms/", "http://purl.org/dc/elements/1.1/")
    },
    **dict.fromkeys((f"{RDFS}comment", f"{OBO}IAO_0000115"), DESCRIPTION),
    **dict.fromkeys((f"{RDFS}subClassOf", f"{RDFS}subPropertyOf", f"{OWL}equivalentClass", f"{OWL}sameAs"), CLASSES),
    **{f"{OWL}{name}": RESTRICTION for name in ("onProperty", "someValuesFrom", "hasValue", "allValuesFrom")},
    f"{RDF}type": TYPE,
}
VOCABULARIES = (RDF, OWL, RDFS, WIKIBASE)  # what a file says about its vocabulary, not about the world
KINDS = {f"{OWL}{name}" for name in ("Class", "NamedIndividual", "Restriction", "Ontology", "Axiom", "Thing")} | {
    f"{OWL}{name}Property" for name in ("Object", "Annotation", "Datatype", "Transitive", "Symmetric", "Functional", "Inverse")
}
KINDS |= {f"{RDF}Property", f"{RDFS}Class", f"{RDFS}Resource", f"{SKOS}Concept", f"{SKOS}ConceptScheme"}
MOST_LABELS = 100_000  # that are kept to name predicates
LONGEST_LABEL = 1000  # characters of each
MOST_NODES = 200_000  # nodes without a name that wait for the rest of a restriction
CLASS = "subject"
ROLES = ("subject", "relation", "filler")
PARTS = {CLASS: "subject", f"{OWL}onProperty": "relation"} | dict.fromkeys(
    (f"{OWL}{name}" for name in ("someValuesFrom", "hasValue", "allValuesFrom")), "filler"
)  # statements of a restriction
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
        ox = oxigraph()
        restrictions = _Restrictions()
        left_out: Counter[str] = Counter()
        kinds: dict[str, str] = {}  # of predicates
        labels: dict[str, str] = {}  # the first labels, one of which may name a predicate that is used later
        for number, statement in enumerate(self._statements(), start=1):
            if isinstance(statement, tuple):
                yield statement
                continue
            subject, relation, target = statement.subject, statement.predicate.value, statement.object
            is_literal, is_blank = isinstance(target, ox.Literal), isinstance(subject, ox.BlankNode)
            has_blank = isinstance(target, ox.BlankNode)
            kind = kinds.get(relation) or kinds.setdefault(relation, _kind(relation))
            if is_blank or has_blank:
                about = None
                if is_blank and kind == RESTRICTION and not is_literal and not has_blank:
                    about = restrictions.add(subject.value, relation, target.value)
                elif kind == CLASSES and not is_blank:
                    about = restrictions.add(target.value, CLASS, subject.value, number)
                elif not (is_blank and (kind == TYPE or (relation.startswith(OWL) and not is_literal and not has_blank))):
                    left_out["statements about nodes without a name"] += 1
                if about is not None:
                    kinds.setdefault(about.relation, FACT)
                    yield about.row()
            elif kind in (PREFERRED, ALIAS):
                if is_literal:
                    language = (target.language or "").partition("-")[0]
                    text = target.value
                    if kind == PREFERRED and len(labels) < MOST_LABELS and len(text) <= LONGEST_LABEL and self.is_wanted(language):
                        labels.setdefault(subject.value, text)
                    yield Label(compact(subject.value), text, language, kind == PREFERRED)
            elif kind in (DESCRIPTION, VOCABULARY, RESTRICTION):
                left_out["descriptions" if kind == DESCRIPTION else "statements about the vocabulary"] += 1
            elif is_literal and not self.is_wanted(target.language):
                yield number, SkippedRow("other_language")
            elif kind != TYPE or target.value not in KINDS:
                yield number, [compact(subject.value), local_name(relation), target.value if is_literal else compact(target.value)]
        if count := restrictions.unfinished():
            left_out["statements about nodes without a name"] += count
        for predicate in sorted(labels.keys() & kinds.keys()):
            self.relations.label(local_name(predicate), labels[predicate])
        self.notes += [f"{self.path}: left out: {what} ({count:,})." for what, count in sorted(left_out.items())]

    def _statements(self) -> Iterator[Any]:
        """Yield the statements of the file, and for each malformed one its line number and a BadRow."""
        ox = oxigraph()
        content = self.checked_pieces(text_pieces(self.path, pieces(self.path, self.advance)))
        stream = io.BufferedReader(Pieces(content), 1 << 16)
        parsed = ox.parse(stream, format=getattr(ox.RdfFormat, self.parser), base_iri=BASE, lenient=True)
        failures = number = 0
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
            except MemoryError:  # of the parser, which limits its buffer
                problem = f"a statement of more than 16 million characters after statement {number:,}"
                raise UserError(f"{self.path}: {problem}; is this a file of the format {self.name}?") from None
            else:
                number += 1
                yield statement

    def checked_pieces(self, content: Iterator[bytes]) -> Iterator[bytes]:
        """Yield the content of the file after checks of the format."""
        return content


class Restriction(NamedTuple):
    """What OWL says about a class by a node without a name: ``subClassOf [onProperty relation; someValuesFrom filler]``."""

    number: int
    subject: str
    relation: str
    filler: str

    def row(self) -> tuple[int, list[str]]:
        """Return the fact."""
        return self.number, [compact(self.subject), local_name(self.relation), compact(self.filler)]


class _Restrictions:
    """Puts restrictions together from their statements, in any order.

    Memory does not grow with the file: a complete restriction is given away, and of incomplete ones the last ``MOST_NODES`` are
    kept. In OWL, two classes do not share one.
    """

    def __init__(self) -> None:
        self._nodes: dict[str, dict[str, str]] = {}
        self._numbers: dict[str, int] = {}  # of the statements about classes
        self._dropped = 0  # of those

    def add(self, node: str, part: str, value: str, number: int = 0) -> Restriction | None:
        """Add a statement; return the restriction if it is complete."""
        role = PARTS.get(part)
        if role is None:
            return None
        parts = self._nodes.setdefault(node, {})
        parts[role] = value
        if role == "subject":
            self._numbers[node] = number
        if len(parts) == len(ROLES):
            del self._nodes[node]
            return Restriction(self._numbers.pop(node), **parts)
        if len(self._nodes) > MOST_NODES:
            oldest = next(iter(self._nodes))
            del self._nodes[oldest]
            self._dropped += self._numbers.pop(oldest, None) is not None
        return None

    def unfinished(self) -> int:
        """Return the number of classes whose restriction was not complete."""
        return self._dropped + len(self._numbers)


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


def _kind(predicate: str) -> str:
    return PREDICATES.get(predicate, VOCABULARY if predicate.startswith(VOCABULARIES) else FACT)


def compact(address: str) -> str:
    """Return the id of a resource: its address, or the usual short form.

    >>> compact("http://purl.obolibrary.org/obo/HP_0001250"), compact("http://www.wikidata.org/entity/Q42")
    ('HP:0001250', 'Q42')
    >>> compact("http://dbpedia.org/resource/Paris")
    'http://dbpedia.org/resource/Paris'
    """
    if address.startswith(OBO) and (found := OBO_ID.match(address)):
        return f"{found[1]}:{found[2]}"
    if address.startswith(BASE):
        return unquote(address.removeprefix(BASE))
    return address.removeprefix(f"{WIKIDATA}entity/")


@lru_cache(1 << 12)
def local_name(address: str) -> str:
    """Return the last part of an address.

    >>> local_name("http://www.w3.org/2004/02/skos/core#broader"), local_name("http://www.wikidata.org/prop/direct/P31")
    ('broader', 'P31')
    """
    return unquote(re.split(r"[/#]", address.rstrip("/#"))[-1])
