"""The page in a real browser: sharing, safety, accessibility and weight."""

import json
from typing import Any
from xml.etree import ElementTree

import pytest

from serve.browser.acting import HOSTILE, OFF, answered, ask_typed, settled
from serve.browser.driving import CHOICES, QUESTION, axe_script, fragment

FIRST_VIEW = 300_000  # bytes
WIDTHS = (360, 768, 1024, 1280, 1600)


class TestSharing:
    def test_link_reproduces_the_view(self, new_page, address):
        page = new_page(
            fragment(versus="kitchen", off=OFF, add="ocean,IsA,school"), permissions=["clipboard-read", "clipboard-write"]
        )
        page.click("#copy-link")
        page.wait_for_selector("text=Link copied")
        link = page.evaluate("navigator.clipboard.readText()")
        assert link.startswith(address)
        other = new_page(link.removeprefix(address))
        for part in ("#answer .verdict", "#answer .bars", "#answer .changes", "#why", "#versus"):
            assert other.inner_text(part) == page.inner_text(part)
        assert other.locator(".changes li").count() == 2

    def test_address_keeps_every_character(self, new_page):
        page = new_page()
        view = {
            "question": "a & b = c? #1 + 100% “é” 日本\nline",
            "choices": ["x,y", "\\", "", " z "],
            "added": [["a,b", "Is\\A", "c\\,d"]],
            "off": [["日本", "AtLocation", "<b>"]],
            "graph": False,
            "versus": "",
            "model": "m&m",
            "beside": None,
        }
        kept = page.evaluate(
            """async (view) => {
            const { toFragment, fromFragment } = await import("/static/js/state.js");
            return fromFragment(new URL(toFragment(view), location.href).hash);
        }""",
            view,
        )
        assert kept == view

    def test_answer_is_saved_as_json(self, new_page, address, downloads):
        page = new_page(fragment())
        assert json.loads(downloads(page, "#save-json")) == answered(page, address, subgraph=True)

    def test_picture_is_saved_as_svg(self, new_page, downloads):
        page = new_page(fragment(add=f"ocean,IsA,{HOSTILE}"))
        settled(page)
        saved = downloads(page, "#save-svg")
        root = ElementTree.fromstring(saved)
        texts = {element.text for element in root.iter("{http://www.w3.org/2000/svg}text")}
        assert {"child", "school", "kitchen", "ocean"} <= texts
        assert b"<script" not in saved
        assert b"class=" not in saved  # it does not need the style sheet of the page
        assert root.get("width")


class TestSafety:
    def test_hostile_texts_are_shown_as_text(self, new_page):
        choices = [HOSTILE, "__proto__", "constructor"]
        page = new_page(fragment(HOSTILE, choices, add=f"{HOSTILE},IsA,{HOSTILE}x", versus="__proto__"))
        settled(page)
        assert page.inner_text("#answer .asked") == HOSTILE
        assert {text.removesuffix("Answer") for text in page.locator("#answer .choice").all_inner_texts()} == set(choices)
        assert HOSTILE.lower() in page.inner_text(".changes .what").lower()
        assert page.locator("#main img, #main script").count() == 0

    def test_token_is_asked_for_and_kept_in_memory_only(self, new_page, address):
        page = new_page()
        seen: list[str | None] = []

        def guard(route: Any) -> None:
            seen.append(route.request.headers.get("authorization"))
            if seen[-1] == "Bearer secret":
                return route.continue_()
            return route.fulfill(status=401, json={"error": {"message": "a token is needed", "field": None, "limit": None}})

        page.route("**/v1/**", guard)
        page.goto(address + fragment())
        page.reload()
        page.locator("#token").fill("wrong")
        page.keyboard.press("Enter")
        page.wait_for_selector("text=This token was refused")
        page.locator("#token").fill("secret")
        page.keyboard.press("Enter")
        page.wait_for_selector("#answering:not([hidden])")
        assert {None, "Bearer wrong", "Bearer secret"} == set(seen)
        kept = page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie, location.href])")
        assert "secret" not in kept


class TestAccess:
    def test_nothing_is_wider_than_the_window(self, new_page):
        page = new_page(fragment(off=OFF, versus="kitchen", beside="other"))
        page.click(".listed summary")
        cut = """found => found.filter((x) => x.scrollWidth > x.clientWidth + 1 && getComputedStyle(x).overflowX === "visible")
            .map((x) => x.outerHTML.slice(0, 80))"""
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 740})
            settled(page)
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert page.eval_on_selector_all("button:not(.switch), h2, .sentence, .choice", cut) == []

    def test_narrow_page_goes_to_the_answer(self, new_page):
        page = new_page(width=360, height=740)
        ask_typed(page)
        settled(page)
        top = page.evaluate("document.querySelector('#answer').getBoundingClientRect().top")
        assert -1 <= top < 700
        assert page.locator("#examples details[open]").count() == 0

    def test_everything_by_keyboard_with_a_visible_focus(self, new_page):
        page = new_page()

        def tab_to(name: str, backwards: bool = False) -> None:
            for _ in range(80):
                page.keyboard.press("Shift+Tab" if backwards else "Tab")
                found, outline = page.evaluate("""() => {
                    const x = document.activeElement;
                    const label = x.getAttribute("aria-label") ?? x.labels?.[0]?.textContent ?? x.textContent;
                    return [label, getComputedStyle(x).outlineStyle + getComputedStyle(x).outlineWidth];
                }""")
                assert outline == "solid3px", found
                if found.startswith(name):
                    return
            raise AssertionError(f"the keyboard does not reach {name}")

        tab_to("Question")
        page.keyboard.type(QUESTION)
        for i, choice in enumerate(CHOICES[:2], start=1):
            tab_to(f"Choice {i}")
            page.keyboard.type(choice)
        page.keyboard.press("Enter")
        page.wait_for_selector("#answering:not([hidden])")
        tab_to("Use this fact")
        page.keyboard.press("Space")
        page.wait_for_selector(".changes")
        assert page.evaluate("document.activeElement.textContent") == "Undo"
        page.keyboard.press("Enter")
        page.wait_for_selector(".changes", state="detached")
        tab_to("Graph of the question")
        tab_to("Use the graph")
        page.keyboard.press("Space")
        page.wait_for_selector("text=Graph switched off")
        assert page.evaluate("document.activeElement.getAttribute('aria-checked')") == "false"
        page.keyboard.press("Space")
        page.wait_for_selector(".changes", state="detached")
        tab_to("Why “school” rather than")
        page.keyboard.press("ArrowDown")
        page.wait_for_selector("#versus .lead")

    @pytest.mark.parametrize("scheme", ["light", "dark"])
    def test_axe_finds_nothing_serious(self, new_page, scheme):
        script = axe_script()
        if script is None:
            pytest.skip("axe-playwright-python, which carries axe-core, is not installed")
        options = {"resultTypes": ["violations"]} | ({} if scheme == "light" else {"runOnly": ["color-contrast"]})
        for view in ("", fragment(off=OFF, versus="kitchen", beside="other"), fragment(choices=["sea"])):
            page = new_page(view, color_scheme=scheme)
            settled(page)
            for summary in page.locator("#answering:not([hidden]) summary").all():
                summary.click()
            page.evaluate(script)
            found = page.evaluate("(options) => axe.run(options)", options)["violations"]
            serious = [one for one in found if one["impact"] in ("serious", "critical")]
            assert [(one["id"], one["nodes"][0]["html"]) for one in serious] == []

    def test_dark_scheme_and_reduced_motion_are_followed(self, new_page):
        colors = {
            scheme: new_page(color_scheme=scheme).evaluate("getComputedStyle(document.body).backgroundColor")
            for scheme in ("light", "dark")
        }
        assert colors["light"] != colors["dark"]
        page = new_page(fragment())
        assert page.eval_on_selector(".bar", "bar => getComputedStyle(bar).transitionProperty") == "none"

    def test_first_view_is_light(self, chromium, address):
        context = chromium.new_context()
        page = context.new_page()
        sizes: list[int] = []
        page.on("response", lambda response: sizes.append(len(response.body())))
        page.goto(address, wait_until="networkidle")
        page.wait_for_selector("#examples button")
        context.close()
        assert len(sizes) > 10
        assert sum(sizes) < FIRST_VIEW
