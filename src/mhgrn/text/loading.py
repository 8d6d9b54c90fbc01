"""Text encoders by name: built in, of another package, or a model of the transformers library."""

import os
from pathlib import Path

from mhgrn.errors import UserError
from mhgrn.io.places import places
from mhgrn.io.remote import cached_versions, local_folder, url_of
from mhgrn.plugins import Plugins
from mhgrn.printing import shortened
from mhgrn.text.adapters import adapted, adapter_base, is_adapter, is_linear
from mhgrn.text.encoder import TextEncoder
from mhgrn.text.hugging_face import HuggingFaceEncoder
from mhgrn.text.settings import TextEncoderSettings
from mhgrn.text.tuned import TunedEncoder, read_tuned

TEXT_ENCODERS: Plugins[type[TextEncoder]] = Plugins(
    "text encoder", "mhgrn.text_encoders", "mhgrn.text.encoders", "mhgrn.text.encoder:TextEncoder"
)


def load_text_encoder(
    settings: TextEncoderSettings, place: str | Path | None = None, allow_download: bool = False, allow_pickle: bool = False
) -> TextEncoder:
    """The text encoder that the settings name: an installed one, a folder, or a name on the Hugging Face hub.

    The folder may hold an adapter; see :mod:`mhgrn.text.adapters`. A tuned encoder reads texts as it was tuned, unless the settings
    say otherwise.

    Args:
        settings: The settings of the section ``text``.
        place: Another place of the same encoder: a folder, its URL or a name. None: ``settings.encoder``.
        allow_download: Download a model that is not on this machine. Otherwise the network is never used.
        allow_pickle: Load ``.bin`` weights if there are no safetensors. Pickle files can run code.

    >>> load_text_encoder(TextEncoderSettings()).width
    384
    """
    name = settings.encoder if place is None else str(place)
    if (url := url_of(name)) is not None:
        name = str(_fetched(url, allow_download or place is not None))
    if name in TEXT_ENCODERS.built_in() or (name in TEXT_ENCODERS.entry_points() and not Path(name).is_dir()):
        return TEXT_ENCODERS.load(name)(settings)
    if not os.path.isdir(name):  # unlike Path.is_dir, False for a name that cannot be a path
        return HuggingFaceEncoder(settings, name, allow_download, allow_pickle)
    folder = Path(name)
    tuned = read_tuned(folder)
    if tuned is not None:
        settings = tuned.applied(settings)
    if is_adapter(folder):
        return _load_adapted(settings, folder, tuned, allow_download, allow_pickle)
    return HuggingFaceEncoder(settings, name, allow_download, allow_pickle)


def _fetched(url: str, allow_download: bool) -> Path:
    """The folder of a text encoder at a URL. The network is only used if that is allowed."""
    if allow_download:
        return local_folder(url)
    for place in cached_versions(url):
        return place
    raise UserError(f"the text encoder {url} is not on this machine; add --allow-download to fetch it.")


def _load_adapted(
    settings: TextEncoderSettings, folder: Path, tuned: TunedEncoder | None, allow_download: bool, allow_pickle: bool
) -> TextEncoder:
    encoder = _base_of(settings, folder, tuned, allow_download, allow_pickle)
    if is_linear(folder) and encoder.pooling == "pooler":
        raise UserError(f"{folder} maps vectors of separate texts linearly; set text.encoding=separate, or text.pooling=mean.")
    encoder.model = adapted(encoder.model, folder)
    encoder.folder = folder.absolute()
    encoder.eval()
    return encoder


def _base_of(
    settings: TextEncoderSettings, folder: Path, tuned: TunedEncoder | None, allow_download: bool, allow_pickle: bool
) -> TextEncoder:
    """The text encoder that an adapter changes: beside it if both were moved together, or where it was."""
    moved = () if tuned is None else places(folder, tuned.base, None)
    problem: UserError | None = None
    for place in (*map(str, moved), adapter_base(folder)):
        if os.path.isdir(place) and is_adapter(Path(place)):
            raise UserError(f"{folder} adapts {place}, which is an adapter itself; tune a model instead.")
        try:
            url = url_of(place)  # named by a file, not by the user
            found = place if url is None else _fetched(url, allow_download)
            encoder = load_text_encoder(settings, found, allow_download, allow_pickle)
        except UserError as error:
            problem = problem or UserError(f"{folder} adapts another text encoder. {error}")
            continue
        expected = tuned.base_checksum if tuned is not None and tuned.pooling == encoder.pooling else None
        if expected in (None, encoder.checksum()):
            return encoder
        problem = UserError(f"{folder} adapts {shortened(place)}, whose weights have changed since; tune it again.")
    assert problem is not None
    raise problem
