"""``python -m mhgrn.starter``: train the starter model again and put it into the package, for developers."""

import shutil
import sys
import tempfile
from pathlib import Path

from mhgrn.io.checksums import seal
from mhgrn.io.markers import write_marker
from mhgrn.progress import say
from mhgrn.runs import CONFIG, MARKER, WEIGHTS, read_about
from mhgrn.starter import SHIPPED, Starter

KEPT = (MARKER, CONFIG, WEIGHTS)


def ship(folder: Path) -> None:
    """Train the starter model and write it to ``folder`` in the form that the package has. The same machine gives the same bytes.

    Args:
        folder: The folder to write.
    """
    from mhgrn.training.loop import train

    with tempfile.TemporaryDirectory() as place:
        starter = Starter.build(Path(place))
        run = train(starter.data, starter.config(), Path(place) / "run", starter.graph).folder
        about = read_about(run)
        folder.mkdir(parents=True, exist_ok=True)
        for path in folder.iterdir():
            path.unlink()
        for name in KEPT:
            shutil.copyfile(run / name, folder / name)
    # no paths of the machine that trained it; the graph is built beside the run
    about |= {"graph": "graph", "relative": {"graph": "../graph"}, "data": about["data"] | {"folder": ""}}
    seal(folder)
    write_marker(folder / MARKER, about)
    seal(folder)


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else SHIPPED
    ship(target)
    say(f"the starter model is in {target}")
