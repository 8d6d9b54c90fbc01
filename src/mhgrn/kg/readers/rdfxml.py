"""RDF/XML, the format of most OWL files."""

import re
from collections.abc import Iterator
from itertools import chain

from mhgrn.errors import UserError
from mhgrn.kg.readers._lines import millions
from mhgrn.kg.readers._rdf import RdfReader
from mhgrn.kg.readers._xml import XmlPieces

LONGEST = 1 << 24  # bytes of a tag or a text, as in the other formats of RDF
_DECLARED = 1 << 20  # bytes in which a document type declaration has to end
_ENTITY = re.compile(rb"""<!ENTITY\s+%?\s*\S+\s+(?:"([^"]*)"|'([^']*)'|(SYSTEM|PUBLIC))""")


class RdfXmlReader(RdfReader):
    """RDF/XML. Entities may stand for texts, as in many OWL files, but not for other entities or files."""

    name = "rdfxml"
    endings = (".rdf", ".owl")
    parser = "RDF_XML"

    @classmethod
    def recognizes(cls, line: str) -> bool:
        return line.lstrip().startswith("<rdf:RDF")

    def checked_pieces(self, content: Iterator[bytes]) -> Iterator[bytes]:
        start = b""
        while len(start) < _DECLARED and (piece := next(content, b"")):
            start += piece
            if b"<!DOCTYPE" not in start and len(start) > 1 << 16:
                break
        for text, other, is_file in _ENTITY.findall(start.partition(b"<!DOCTYPE")[2]):
            if is_file or b"&" in text + other or b"%" in text + other:
                raise UserError(f"{self.path}: an entity that names another entity or a file is not read, for safety; delete it.")
        xml = XmlPieces(self.path, LONGEST)  # the parser of RDF takes a truncated file for a complete one
        size = 0  # of the text since the last tag
        for piece in chain([start], content):
            xml.feed(piece)
            size = len(piece) - place if (place := piece.rfind(b"<")) >= 0 else size + len(piece)
            if size > LONGEST:
                raise UserError(f"{xml.place}: a text of more than {millions(LONGEST)} characters; is this a file of a graph?")
            yield piece
        xml.finish()
