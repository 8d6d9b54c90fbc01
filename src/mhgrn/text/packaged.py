"""Language models whose GGUF file is inside an installed package."""

from abc import abstractmethod
from importlib import util
from pathlib import Path
from typing import ClassVar

from mhgrn.errors import UserError
from mhgrn.text.encoder import Pretrained, TextEncoder
from mhgrn.text.gguf import converted
from mhgrn.text.hugging_face import load_pretrained


class PackagedModel(TextEncoder):
    """Base class of causal language models that a package contains as a GGUF file."""

    install: ClassVar[str]  # the command that installs the package

    @classmethod
    @abstractmethod
    def parts(cls) -> list[Path]:
        """The GGUF file, or the files that it was divided into."""

    @classmethod
    def model_folder(cls) -> Path:
        """The folder of the converted model."""
        return converted(cls.parts(), cls.name)

    @property
    def files(self) -> Path:
        return self.model_folder()

    def load(self) -> Pretrained:
        return load_pretrained(str(self.model_folder()), self.name)


def package_files(module: str, pattern: str, name: str, install: str) -> list[Path]:
    """Files of an installed package, which is not imported.

    Args:
        module: The name of the package when it is imported.
        pattern: Of the files, within the package.
        name: The name of the text encoder in messages.
        install: The command that installs the package.
    """
    spec = util.find_spec(module)
    found = sorted(Path(spec.origin).parent.glob(pattern)) if spec is not None and spec.origin is not None else []
    if not found:
        raise UserError(f"the text encoder {name!r} is not installed: {install}")
    return found
