"""One server and one browser for all tests of the page. Every page must leave the console empty and stay on its server."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from serve.browser.driving import another_run, browser, missing_browser, served

REFUSED = "Failed to load resource"  # how a browser reports answers like 422, which a test may provoke


@pytest.fixture(scope="session")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server with two models: the built-in one, and `other`."""
    if reason := missing_browser():
        pytest.skip(reason)
    with served("starter", str(another_run(tmp_path_factory.mktemp("other")))) as found:
        yield found


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    if reason := missing_browser():
        pytest.skip(reason)
    with browser() as started:
        yield started


@pytest.fixture
def new_page(chromium: Any, address: str) -> Iterator[Callable[..., Any]]:
    """Open pages; afterwards check what they wrote to the console and whom they called."""
    contexts: list[Any] = []
    said: list[str] = []
    called: list[str] = []

    def opened(fragment: str = "", width: int = 1600, height: int = 1000, **options: Any) -> Any:
        context = chromium.new_context(viewport={"width": width, "height": height}, reduced_motion="reduce", **options)
        contexts.append(context)
        context.set_default_timeout(15_000)
        page = context.new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("dialog", lambda dialog: said.append(f"dialog {dialog.message}"))
        page.on("request", lambda request: called.append(request.url))
        page.goto(address + fragment)
        page.wait_for_selector("#answering:not([hidden]), .error:not(:empty)" if fragment else "#examples button")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert [text for text in said if not text.startswith(REFUSED)] == []
    assert [url for url in called if not url.startswith((address, "blob:"))] == []


@pytest.fixture
def downloads(tmp_path: Path) -> Callable[[Any, str], bytes]:
    """Click a button and return the file that it saves."""

    def saved(page: Any, selector: str) -> bytes:
        with page.expect_download() as download:
            page.click(selector)
        path = tmp_path / download.value.suggested_filename
        download.value.save_as(path)
        return path.read_bytes()

    return saved
