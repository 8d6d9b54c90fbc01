"""Make screenshots of the main states of the page: python tests/serve/browser/screenshots.py -o FOLDER

Every state is shown narrow and wide, light and dark. The server is started on the built-in model; --address uses a running one. The
picture of the README, docs/images/service.png, is answered-wide-light.png of `--only answered --window`.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

from PIL import Image

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))

from serve.browser.driving import another_run, browser, fragment, large_answer, served

SIZES = {"narrow": (360, 740), "wide": (1600, 1000)}
SCHEMES = ("light", "dark")
BREAD = {"question": "What would you use to cut a slice of bread?", "choices": ["knife", "plate", "butter", "oven", "baker"]}


class State(NamedTuple):
    fragment: str = ""
    prepare: Callable[[Any], None] | None = None  # before the page is opened
    act: Callable[[Any], None] | None = None  # after it is shown


def _many(page: Any) -> None:
    page.route("**/v1/ask", lambda route: route.fulfill(json=large_answer(route.fetch().json())))


def _point(page: Any) -> None:
    page.locator("#why .fact").first.hover()


def _complete(page: Any) -> None:
    page.get_by_label("Concept", exact=True).first.focus()
    page.keyboard.type("bre")
    page.wait_for_selector("[role=option]")


def _ask_without_choices(page: Any) -> None:
    page.get_by_label("Question", exact=True).fill("Where does a fish live?")
    page.get_by_role("button", name="Ask", exact=True).click()
    page.locator("#answer .bars li").nth(5).wait_for()


STATES = {
    "first": State(),
    "answered": State(fragment(**BREAD)),
    "pointed-at": State(fragment(**BREAD), act=_point),
    "what-if": State(fragment(**BREAD, off="knife,UsedFor,slicing", versus="knife")),
    "graph-off": State(fragment(**BREAD, graph="off")),
    "completion": State(fragment(**BREAD), act=_complete),
    "two-models": State(fragment(**BREAD, beside="other")),
    "200-nodes": State(fragment(), prepare=_many),
    "no-choices": State(act=_ask_without_choices),
    "refused": State(fragment(choices=["sea", "x" * 1500])),
}


def save(picture: bytes, path: Path) -> None:
    """Write a picture with the 256 colors that cover most: a third of the size, and the page has few colors."""
    full = Image.open(BytesIO(picture)).convert("RGB")
    full.quantize(256, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(path, optimize=True)


def shoot(started: Any, address: str, folder: Path, names: list[str], whole: bool) -> None:
    """Write one picture per state, size and scheme."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        state = STATES[name]
        for size, (width, height) in SIZES.items():
            for scheme in SCHEMES:
                viewport = {"width": width, "height": height}
                context = started.new_context(viewport=viewport, color_scheme=scheme, reduced_motion="reduce")
                page = context.new_page()
                if state.prepare:
                    state.prepare(page)
                page.goto(address + state.fragment, wait_until="networkidle")
                if state.act:
                    state.act(page)
                path = folder / f"{name}-{size}-{scheme}.png"
                save(page.screenshot(full_page=whole), path)
                print(path)
                context.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FOLDER", help="folder to write to")
    parser.add_argument("--address", help="address of a running server, instead of starting one")
    parser.add_argument("--only", nargs="+", choices=list(STATES), default=list(STATES), metavar="STATE", help=", ".join(STATES))
    parser.add_argument("--window", action="store_true", help="only what fits into the window, not the whole page")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        runs = ["starter", str(another_run(Path(folder)))] if "two-models" in chosen.only else ["starter"]
        with nullcontext(chosen.address) if chosen.address else served(*runs) as address, browser() as started:
            shoot(started, address, chosen.output, chosen.only, not chosen.window)


if __name__ == "__main__":
    main()
