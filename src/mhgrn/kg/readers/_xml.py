"""XML in pieces: whether it is well-formed, and where it is not."""

from pathlib import Path
from xml.parsers import expat

from mhgrn.errors import UserError
from mhgrn.kg.readers._lines import LONGEST_LINE, millions


class XmlPieces:
    """Parses a file piece by piece, in memory that does not grow with it.

    Entities of other files are not read, and the parser refuses entities that grow.

    Args:
        path: The file, for messages.
        longest: The largest number of bytes of a tag.
    """

    def __init__(self, path: Path, longest: int = LONGEST_LINE) -> None:
        self.path, self._longest, self._fed = path, longest, 0
        self.parser = expat.ParserCreate(namespace_separator=" ")
        self.parser.buffer_text = True

    @property
    def place(self) -> str:
        """The file and the line, as messages name them."""
        return f"{self.path}:{self.parser.CurrentLineNumber}"

    def feed(self, piece: bytes) -> None:
        """Parse the next piece of the file."""
        self._fed += len(piece)
        self._parse(piece, False)
        if self._fed - max(self.parser.CurrentByteIndex, 0) > self._longest + len(piece):
            raise UserError(f"{self.place}: a tag of more than {millions(self._longest)} characters; is this a file of a graph?")

    def finish(self) -> None:
        """Check that the file is complete."""
        self._parse(b"", True)

    def _parse(self, piece: bytes, is_end: bool) -> None:
        try:
            self.parser.Parse(piece, is_end)
        except expat.ExpatError as error:
            reason = expat.errors.messages[error.code]
            raise UserError(f"{self.path}:{error.lineno}: not XML ({reason}); is the file damaged or truncated?") from None
