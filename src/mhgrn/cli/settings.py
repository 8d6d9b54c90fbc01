"""mhgrn settings: list the settings of a training."""

from mhgrn.cli._options import ConfigFile, Settings
from mhgrn.cli._output import show

PANEL = "Train"


def settings(config: ConfigFile = None, overrides: Settings = None) -> None:
    """Print all settings of `train` as commented YAML: a file to start your own from."""
    from mhgrn.config import Config

    show(Config.load(config, overrides, all_encoders=True).explained())
