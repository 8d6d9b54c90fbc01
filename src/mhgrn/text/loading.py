"""Text encoders by name: built in, of another package, or a model of the transformers library."""

import os
from pathlib import Path

from mhgrn.errors import UserError
from mhgrn.plugins import Plugins
from mhgrn.text.adapters import adapted, adapter_base, is_adapter
from mhgrn.text.encoder import TextEncoder
from mhgrn.text.hugging_face import HuggingFaceEncoder
from mhgrn.text.settings import TextEncoderSettings

TEXT_ENCODERS: Plugins[type[TextEncoder]] = Plugins(
    "text encoder", "mhgrn.text_encoders", "mhgrn.text.encoders", "mhgrn.text.encoder:TextEncoder"
)


def load_text_encoder(
    settings: TextEncoderSettings, place: str | Path | None = None, allow_download: bool = False, allow_pickle: bool = False
) -> TextEncoder:
    """The text encoder that the settings name: an installed one, a folder, or a name on the Hugging Face hub.

    The folder may hold an adapter; see :mod:`mhgrn.text.adapters`.

    Args:
        settings: The settings of the section ``text``.
        place: Another place of the same encoder: a folder or a name. None: ``settings.encoder``.
        allow_download: Download a hub model that is not on this machine. Otherwise the network is never used.
        allow_pickle: Load ``.bin`` weights if there are no safetensors. Pickle files can run code.

    >>> load_text_encoder(TextEncoderSettings()).width
    384
    """
    name = settings.encoder if place is None else str(place)
    if name in TEXT_ENCODERS.built_in() or (name in TEXT_ENCODERS.entry_points() and not Path(name).is_dir()):
        return TEXT_ENCODERS.load(name)(settings)
    folder = Path(name)
    if os.path.isdir(name) and is_adapter(folder):  # unlike Path.is_dir, isdir is False for a name that cannot be a path
        return _load_adapted(settings, folder, allow_download, allow_pickle)
    return HuggingFaceEncoder(settings, name, allow_download, allow_pickle)


def _load_adapted(settings: TextEncoderSettings, folder: Path, allow_download: bool, allow_pickle: bool) -> TextEncoder:
    base = adapter_base(folder)
    if os.path.isdir(base) and is_adapter(Path(base)):
        raise UserError(f"{folder} adapts {base}, which is an adapter itself; tune a model instead.")
    encoder = load_text_encoder(settings, base, allow_download, allow_pickle)
    encoder.model = adapted(encoder.model, folder)
    encoder.folder = folder.absolute()
    encoder.eval()
    return encoder
