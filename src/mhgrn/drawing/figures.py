"""Image files from matplotlib, which is imported when it is used. The same figure gives the same bytes."""

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mhgrn.errors import UserError
from mhgrn.io.atomic import check_file_writable, write_bytes
from mhgrn.io.replacing import is_special
from mhgrn.progress import say

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ENDINGS = (".svg", ".png")


@contextmanager
def plotting() -> Iterator[None]:
    """Matplotlib with its default style, not the user's, and with text stored as text; a ``UserError`` if it is not installed."""
    try:
        import matplotlib
    except ImportError:
        raise UserError("drawing needs matplotlib; install it with: pip install 'mhgrn[plots]'") from None
    from matplotlib import style

    settings: dict[Any, Any] = {"svg.fonttype": "none", "svg.hashsalt": "mhgrn"}
    with warnings.catch_warnings(), style.context("default"), matplotlib.rc_context(settings):
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")  # write_figure reports it
        yield


def check_image(path: Path, force: bool = True) -> None:
    """Refuse a file that cannot be written, before the image is computed.

    Args:
        path: the image. Standard output, devices and FIFOs get SVG, unless their ending says otherwise.
        force: replace an existing file.
    """
    if path.suffix.lower() not in ENDINGS and not is_special(path):
        raise UserError(f"{path} does not end in {' or '.join(ENDINGS)}; the ending decides the image format.")
    check_file_writable(path, force)


def write_figure(figure: "Figure", path: Path, dots_per_inch: int = 150) -> None:
    """Write a figure in the format of the file's ending, completely or not at all."""
    kind = path.suffix.lower().removeprefix(".") or "svg"
    image = io.BytesIO()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        # without dates and versions, which differ between days and machines
        metadata = {"Date": None, "Creator": None} if kind == "svg" else {"Software": None}
        figure.savefig(image, format=kind, dpi=dots_per_inch, metadata=metadata)
    if kind == "png" and any("missing from font" in str(warning.message) for warning in caught):
        say(f"{path}: the font lacks some characters, which appear as boxes; an .svg file keeps them as text.")
    write_bytes(path, image.getvalue())
