"""Text encoders by name: built in, of another package, or a model of the transformers library."""

from pathlib import Path

from mhgrn.plugins import Plugins
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
    return HuggingFaceEncoder(settings, name, allow_download, allow_pickle)
