"""The page of a model that takes no choices, in a real browser."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest

from serve.browser.acting import settled
from serve.browser.driving import missing_browser, served

ASKED = "who directed the films of [Actor 3]"


@pytest.fixture(scope="module")
def address(film_run: Path) -> Iterator[str]:
    """The address of a server with a run of open questions, and the built-in model."""
    if reason := missing_browser():
        pytest.skip(reason)
    with served(str(film_run), "starter") as found:
        yield found


def test_an_open_question_is_answered_with_a_ranking_reasons_and_a_picture(new_page, address):
    page = new_page()
    assert page.locator("fieldset").is_hidden()
    assert "finds the answers in its graph" in page.inner_text("form")
    page.get_by_label("Question", exact=True).fill(ASKED)
    page.get_by_role("button", name="Ask", exact=True).click()
    page.wait_for_selector("#answering:not([hidden])")
    settled(page)
    answer = page.request.post(f"{address}v1/ask", data={"question": ASKED, "n": 8, "paths": 1, "subgraph": True}).json()
    names = [one["concept"].replace("_", " ") for one in answer["ranking"]["answers"]]
    rows = page.locator("#answer .bars > li")
    assert [text.split("\n")[0].removesuffix("Answer").strip() for text in rows.all_inner_texts()] == names
    assert page.locator("#answer .badge").count() == len(answer["ranking"]["set"])
    assert rows.nth(0).locator(".path").inner_text() == answer["ranking"]["answers"][0]["paths"][0]["text"]
    assert "stars (backwards), then directed by" in page.inner_text("#answer")
    assert page.locator("#why > .paths .sentence").count() == len(answer["evidence"]["facts"])
    assert page.locator("#picture .dot.answer").count() == 1
    assert page.locator("#versus").is_hidden()
    assert page.locator(".graph-switch").is_hidden()


def test_a_fact_is_switched_off_and_the_answers_change(new_page):
    page = new_page("#" + urlencode({"q": ASKED}))
    settled(page)
    before = page.inner_text("#answer .verdict strong")
    for _ in range(page.locator("#why .matters .fact").count()):
        page.locator("#why .matters [role=switch]").first.click()
        settled(page)
        if page.inner_text("#answer .verdict strong") != before:
            break
    assert page.inner_text("#answer .verdict strong") != before
    assert "Your changes" in page.inner_text("#answer")
    page.get_by_role("button", name="Undo", exact=False).first.click()
    settled(page)
    assert page.inner_text("#answer .verdict strong") == before


def test_another_model_takes_choices(new_page):
    page = new_page()
    page.get_by_label("Model", exact=True).select_option("starter")
    assert page.locator("fieldset").is_visible()
    page.get_by_label("Model", exact=True).select_option(index=0)
    assert page.locator("fieldset").is_hidden()
    page.get_by_label("Question", exact=True).fill("who directed [Flim 1]")
    page.get_by_role("button", name="Ask", exact=True).click()
    page.locator("#question-error", has_text="is not a concept").wait_for()
