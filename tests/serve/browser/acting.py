"""What the tests of the page do and read, again and again."""

from typing import Any

from serve.browser.driving import CHOICES, QUESTION

OFF = "child,AtLocation,playground"
HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script>"


def ask_typed(page: Any, question: str = QUESTION, choices: tuple[str, ...] = CHOICES) -> None:
    page.get_by_label("Question", exact=True).fill(question)
    for i, choice in enumerate(choices, start=1):
        if page.get_by_label(f"Choice {i}", exact=True).count() == 0:
            page.click("text=Add a choice")
        page.get_by_label(f"Choice {i}", exact=True).fill(choice)
    page.get_by_role("button", name="Ask", exact=True).click()
    page.wait_for_selector("#answering:not([hidden])")


def answered(page: Any, address: str, **more: Any) -> Any:
    """What the API answers."""
    body = {"question": QUESTION, "choices": list(CHOICES), **more}
    return page.request.post(f"{address}v1/ask", data=body).json()


def settled(page: Any) -> None:
    """Wait until the page has shown the answer it asked for."""
    page.wait_for_selector("body:not(.working)")
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def shares(page: Any) -> list[str]:
    return page.locator("#answer .bars .share").all_inner_texts()


def as_percent(share: float) -> str:
    """A share as the page prints it."""
    if share < 1 and share >= 0.9995:
        return "over 99.9%"
    return "under 0.1%" if 0 < share < 0.0005 else f"{share:.1%}"


def lit_facts(page: Any) -> list[str]:
    return page.eval_on_selector_all(".edge.lit", "found => found.map((edge) => edge.dataset.fact)")
