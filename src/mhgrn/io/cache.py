"""The user's cache folder."""

import os
from pathlib import Path

from platformdirs import user_cache_path


def user_cache() -> Path:
    """Return the folder for files that can be rebuilt: ``$MHGRN_CACHE``, or the operating system's cache folder."""
    override = os.environ.get("MHGRN_CACHE")
    return Path(override) if override else user_cache_path("mhgrn", appauthor=False)
