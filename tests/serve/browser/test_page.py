"""The page in a real browser, against the real server on the built-in model: asking, picture, what if, comparing."""

from typing import Any

import pytest

from serve.browser.acting import OFF, answered, as_percent, ask_typed, lit_facts, settled, shares
from serve.browser.driving import CHOICES, QUESTION, fragment, large_answer


def reasons(answer: dict[str, Any]) -> list[list[str]]:
    """The facts that the page shows first."""
    return [one["fact"] for one in answer["evidence"]["facts"]] or answer["paths"][0]["facts"]


class TestAsking:
    def test_typed_question_is_answered_with_a_bar_for_every_choice_and_reasons(self, new_page, address):
        page = new_page()
        ask_typed(page)
        answer = answered(page, address)
        assert shares(page) == [as_percent(answer["probabilities"][choice]) for choice in CHOICES]
        assert page.inner_text("#answer .verdict strong") == answer["choice"] == "school"
        said = page.locator("#why .sentence").all_inner_texts()
        carrying = [one["sentence"] for one in answer["evidence"]["facts"]]
        assert said == carrying + [sentence for path in answer["paths"] for sentence in path["sentences"]]
        looked = page.locator("#why details.looked")
        assert (looked.get_attribute("open") is None) == bool(carrying)
        assert f"Answer: school, {shares(page)[0]}" in page.inner_text("#announcement")

    def test_facts_that_carry_the_answer_come_first_and_attention_behind_a_switch(self, new_page, address):
        asked = "After hours of heavy rain, what do you find on the street?", ["puddle", "umbrella", "desert", "cloud", "car"]
        page = new_page(fragment(question=asked[0], choices=asked[1]))
        page.wait_for_selector("#why .matters .sentence")
        assert page.locator("#why .matters .sentence").first.inner_text() == "Rain can lead to a puddle."
        looked = page.locator("#why details.looked")
        assert not looked.locator(".sentence").first.is_visible()
        looked.locator("summary").click()
        assert looked.locator(".sentence").first.is_visible()

    def test_an_answer_that_is_not_sure_enough_is_called_a_guess(self, new_page, address):
        choices = ["seven", "nine", "four", "six"]
        answer = answered(new_page(), address, question="Which number am I thinking of?", choices=choices)
        assert answer["abstained"]
        page = new_page(fragment(question=answer["question"], choices=choices))
        assert page.inner_text("#answer .badge") == "Best guess"
        assert f"not sure enough: answers below {answer['abstain_below']:.0%} are often wrong" in page.inner_text("#answer .unsure")
        page = new_page(fragment())
        assert page.inner_text("#answer .badge") == "Answer"
        assert page.locator("#answer .unsure").count() == 0

    def test_bars_are_as_wide_as_the_probabilities(self, new_page):
        page = new_page(fragment())
        widths = page.eval_on_selector_all(
            "#answer .bar", "bars => bars.map((bar) => bar.getBoundingClientRect().width / bar.parentElement.clientWidth)"
        )
        assert widths[0] == pytest.approx(float(shares(page)[0].removeprefix("over ").rstrip("%")) / 100, abs=0.01)
        assert max(widths[1:]) < 0.05

    def test_example_is_asked_by_one_click(self, new_page):
        page = new_page()
        example = page.locator(".example").first
        question = example.locator(".example-question").inner_text()
        example.click()
        page.wait_for_selector("#answering:not([hidden])")
        assert page.inner_text("#answer .asked") == question
        assert page.get_by_label("Question", exact=True).input_value() == question

    def test_without_choices_the_model_proposes_them(self, new_page):
        page = new_page()
        assert "at least two choices, or none" in page.inner_text("#choices-hint")
        page.get_by_label("Question", exact=True).fill("Where would a child sit at a desk?")
        page.get_by_role("button", name="Ask", exact=True).click()
        page.locator("#answer .bars li").nth(5).wait_for()
        assert "The model proposed these: the best 6 of" in page.inner_text("#choices-hint")
        proposed = [page.get_by_label(f"Choice {i}", exact=True).input_value() for i in range(1, 7)]
        assert all(proposed)
        assert page.inner_text("#answer .verdict strong") in proposed
        assert page.url.count("c=") == 6  # a link reproduces the view

    def test_one_choice_and_unknown_concepts_are_refused_at_their_fields(self, new_page):
        page = new_page()
        page.get_by_label("Question", exact=True).fill("zzqx?")
        page.get_by_role("button", name="Ask", exact=True).click()
        page.locator("#question-error", has_text="names no concept of the graph").wait_for()
        page.get_by_label("Choice 1", exact=True).fill("sea")
        page.get_by_role("button", name="Ask", exact=True).click()
        assert page.inner_text("#choices-error").startswith("One choice is not enough.")
        assert page.locator("#answering").is_hidden()

    def test_empty_question_and_repeated_choices_are_refused_at_their_fields(self, new_page):
        page = new_page()
        page.get_by_role("button", name="Ask", exact=True).click()
        assert page.inner_text("#question-error") == "Type a question first."
        page.get_by_label("Question", exact=True).fill("Where?")
        for i in (1, 2):
            page.get_by_label(f"Choice {i}", exact=True).fill("sea")
        page.get_by_role("button", name="Ask", exact=True).click()
        assert "given twice" in page.inner_text("#choices-error")

    def test_error_of_the_server_is_shown_at_its_field(self, new_page):
        page = new_page(fragment(choices=["x" * 1500, "sea"]))
        page.wait_for_selector("#choices-error:not(:empty)")
        assert page.get_by_label("Choice 1", exact=True).get_attribute("aria-invalid") == "true"
        page.goto("about:blank")
        page = new_page(fragment(choices=["sea"]))
        page.wait_for_selector("#choices-error:not(:empty)")

    def test_busy_server_is_reported_and_asked_again(self, new_page):
        page = new_page()
        error = {"error": {"message": "Too many questions wait", "field": None, "limit": None}}
        refuse = {"status": 503, "headers": {"Retry-After": "7"}, "json": error}
        page.route("**/v1/ask", lambda route: route.fulfill(**refuse), times=1)
        ask = page.get_by_role("button", name="Ask", exact=True)
        page.get_by_label("Question", exact=True).fill(QUESTION)
        for i in (1, 2):
            page.get_by_label(f"Choice {i}", exact=True).fill(CHOICES[i])
        ask.click()
        page.wait_for_selector("#ask-error:not(:empty)")
        assert "Try again in 7 seconds" in page.inner_text("#ask-error")
        ask.click()
        page.wait_for_selector("#answering:not([hidden])")
        assert page.inner_text("#ask-error") == ""

    def test_lines_pasted_into_a_choice_become_choices(self, new_page):
        page = new_page()
        page.get_by_label("Choice 1", exact=True).focus()
        page.evaluate("""() => {
            const data = new DataTransfer();
            data.setData("text", "sea\\ntree\\nsky");
            const paste = new ClipboardEvent("paste", {clipboardData: data, bubbles: true, cancelable: true});
            document.activeElement.dispatchEvent(paste);
        }""")
        assert page.eval_on_selector_all(".choices input", "found => found.map((input) => input.value)") == ["sea", "tree", "sky"]
        page.get_by_label("Remove choice 2").click()
        assert page.eval_on_selector_all(".choices input", "found => found.map((input) => input.value)") == ["sea", "sky"]


class TestPicture:
    def test_sentence_lights_up_its_path_and_edge_its_sentence(self, new_page, address):
        page = new_page(fragment())
        settled(page)
        page.locator("#why .fact").first.hover()
        assert sorted(lit_facts(page)) == sorted("\t".join(fact) for fact in reasons(answered(page, address)))
        page.mouse.move(5, 5)
        assert lit_facts(page) == []
        page.locator(".edge.path .target").last.dispatch_event("pointerover")
        (fact,) = lit_facts(page)
        assert {row.get_attribute("data-fact") for row in page.locator("#why .fact.lit").all()} == {fact}
        sentence = page.locator("#why .fact.lit .sentence").first.inner_text()
        assert page.inner_text(".caption") == sentence

    def test_edge_is_found_under_the_mouse(self, new_page):
        page = new_page(fragment())
        settled(page)
        place = page.locator(".edge.path .line").last.evaluate("""(line) => {
            const at = line.getPointAtLength(line.getTotalLength() * 0.25);
            const box = line.ownerSVGElement.getBoundingClientRect();
            return {x: box.left + at.x, y: box.top + at.y};
        }""")
        page.mouse.move(place["x"], place["y"])
        assert len(lit_facts(page)) == 1

    def test_question_left_choices_right_others_between(self, new_page):
        page = new_page(fragment())
        settled(page)
        middles = {
            role: page.eval_on_selector_all(f".dot.{role} .pill", "found => found.map((x) => x.getBoundingClientRect().left)")
            for role in ("question", "between", "choice")
        }
        assert max(middles["question"]) < min(middles["between"]) <= max(middles["between"]) < min(middles["choice"])

    @pytest.mark.parametrize("width", [360, 1600])
    def test_names_never_overlap_and_what_is_left_out_is_said(self, new_page, address, width):
        page = new_page(width=width)
        page.route("**/v1/ask", lambda route: route.fulfill(json=large_answer(route.fetch().json())))
        page.goto(address + fragment("Where would a child learn to write?"))
        page.reload()
        page.wait_for_selector(".dot.named")
        settled(page)
        overlapping = """() => {
            const stage = document.querySelector(".stage").getBoundingClientRect();
            const boxes = [...document.querySelectorAll(".dot.named .pill")].map((pill) => pill.getBoundingClientRect());
            const shown = boxes.filter((box) => box.right > stage.left && box.left < stage.right);
            const over = shown.filter((a, i) => shown.some((b, j) => i < j && a.left < b.right && b.left < a.right
                && a.top < b.bottom && b.top < a.bottom));
            return [shown.length, over.length];
        }"""
        named, over = page.evaluate(overlapping)
        assert page.locator(".dot").count() == 200
        assert 5 <= named < 100
        assert over == 0
        about = page.inner_text(".left-out")
        assert "134 concepts and 978 facts are not drawn" in about
        assert f"{200 - named} names are hidden" in about
        page.locator(".stage").focus()
        for _ in range(4):
            page.keyboard.press("+")
        settled(page)
        hidden = page.locator(".left-out").inner_text()
        assert f"{200 - named} names" not in hidden
        assert page.evaluate(overlapping)[1] == 0

    def test_zoom_and_pan_by_keyboard_wheel_mouse_and_buttons(self, new_page):
        page = new_page(fragment())
        settled(page)

        def place() -> tuple[float, float]:
            settled(page)
            box = page.locator(".dot.question").first.evaluate(
                "(dot) => { const m = dot.querySelector('.mark'); return [+m.getAttribute('cx'), +m.getAttribute('cy')]; }"
            )
            return box[0], box[1]

        start = place()
        page.locator(".stage").focus()
        page.keyboard.press("ArrowRight")
        assert place() == start  # the whole picture is in view
        page.keyboard.press("+")
        near = place()
        page.keyboard.press("ArrowRight")
        assert place() != near
        page.keyboard.press("0")
        assert place() == start
        box = page.locator(".stage").bounding_box()
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        page.mouse.wheel(0, -300)
        wheeled = place()
        assert wheeled != start
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] / 2 - 40, box["y"] + box["height"] / 2 - 30, steps=4)
        page.mouse.up()
        dragged = place()
        assert dragged != wheeled
        page.get_by_label("Show the whole picture").click()
        assert place() == start
        page.get_by_label("Zoom in").click()
        assert place() != start

    def test_wheel_scrolls_the_page_until_the_picture_has_the_focus(self, new_page):
        page = new_page(fragment(), width=800, height=500)
        settled(page)
        page.locator(".stage").hover()
        before = page.evaluate("scrollY")
        page.mouse.wheel(0, 200)
        page.wait_for_function("(before) => scrollY > before", arg=before)
        assert page.locator(".stage.near").count() == 0

    def test_two_fingers_zoom(self, new_page):
        page = new_page(fragment(), width=400, height=800, has_touch=True, is_mobile=True)
        page.locator(".stage").scroll_into_view_if_needed()
        settled(page)
        box = page.locator(".stage").bounding_box()
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        session = page.context.new_cdp_session(page)
        for kind, spread in (("touchStart", 20), ("touchMove", 50), ("touchMove", 90), ("touchEnd", 0)):
            points = [{"x": x - spread, "y": y, "id": 0}, {"x": x + spread, "y": y, "id": 1}] if spread else []
            session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
        settled(page)
        assert page.locator(".stage.near").count() == 1

    def test_layout_is_the_same_every_time_and_inside_the_picture(self, new_page):
        page = new_page()
        places = page.evaluate("""async () => {
            const { layout } = await import("/static/js/graph-layout.js");
            const roles = ["question", "choice", "between", "between", "between"];
            const boxes = [...Array(120).keys()].map((i) => ({role: roles[i % 5], halfWidth: 6, halfHeight: 6}));
            const links = [...Array(300).keys()].map((i) => [i % 120, (i * 7 + 3) % 120]).filter(([a, b]) => a !== b);
            const run = () => { const { x, y } = layout(boxes, links, 600, 400); return [[...x], [...y]]; };
            return [run(), run()];
        }""")
        assert places[0] == places[1]
        xs, ys = places[0]
        assert all(0 <= x <= 600 for x in xs)
        assert all(0 <= y <= 400 for y in ys)


class TestWhatIf:
    def test_fact_is_switched_off_and_on_again(self, new_page, address):
        page = new_page(fragment())
        before = answered(page, address)
        fact = reasons(before)[0]
        page.locator("#why .switch").first.click()
        page.wait_for_selector(".changes")
        now = answered(page, address, without=[fact])
        assert shares(page) == [as_percent(now["probabilities"][choice]) for choice in CHOICES]
        moved = page.locator(".bars .moved").all_inner_texts()
        assert [text.split(",")[0] for text in moved] == [
            f"before {as_percent(before['probabilities'][choice])}" for choice in CHOICES
        ]
        assert page.locator(".bars .track.before").count() == len(CHOICES)
        assert page.locator(".edge.off").get_attribute("data-fact") == "\t".join(fact)
        assert page.evaluate("document.activeElement.textContent") == "Undo"
        page.keyboard.press("Enter")
        page.wait_for_selector(".changes", state="detached")
        assert shares(page) == [as_percent(before["probabilities"][choice]) for choice in CHOICES]
        page.go_back()
        page.wait_for_selector(".changes")
        page.go_forward()
        page.wait_for_selector(".changes", state="detached")

    def test_fact_is_added_with_completion_by_keyboard(self, new_page, address):
        page = new_page(fragment())
        added = answered(page, address, facts=[["ocean", "IsA", "school"]], subgraph=True)["subgraph"]["edges"]
        (sentence,) = (edge["sentence"] for edge in added if edge["added"])
        page.get_by_label("Concept", exact=True).first.focus()
        page.keyboard.type("oce")
        page.wait_for_selector("[role=option]")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        assert page.get_by_label("Concept", exact=True).first.input_value() == "ocean"
        page.keyboard.press("Tab")
        page.keyboard.type("IsA")
        page.wait_for_selector("[role=option]:visible")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Tab")
        page.keyboard.type("school")
        page.wait_for_function("() => /ocean.*school/i.test(document.querySelector('.preview').textContent)")
        page.keyboard.press("Escape")
        page.keyboard.press("Enter")
        page.wait_for_selector(".changes")
        assert page.inner_text(".changes .what") == sentence
        assert page.locator(".edge.added").get_attribute("data-fact") == "ocean\tIsA\tschool"
        assert page.get_by_label("Concept", exact=True).first.input_value() == ""
        page.click(".changes li .undo")
        page.wait_for_selector(".changes", state="detached")
        assert page.locator(".edge.added").count() == 0

    def test_incomplete_and_unknown_facts_are_refused_where_they_are_typed(self, new_page):
        page = new_page(fragment())
        page.click("text=Add this fact")
        page.wait_for_selector("#fact-error >> text=needs a concept")
        for name, text in (("Concept", "ocean"), ("Relation", "swims under"), ("Other concept", "school")):
            page.get_by_label(name, exact=True).first.fill(text)
        page.click("text=Add this fact")
        page.wait_for_selector("#fact-error >> text=is not a relation")
        assert page.locator(".changes").count() == 0

    def test_graph_is_switched_off_and_everything_undone(self, new_page, address):
        page = new_page(fragment(off=OFF))
        page.get_by_role("switch", name="Use the graph").click()
        page.wait_for_selector("text=Graph switched off")
        now = answered(page, address, graph=False, without=[OFF.split(",")])
        assert shares(page) == [as_percent(now["probabilities"][choice]) for choice in CHOICES]
        assert page.locator(".graph.unused").count() == 1
        page.click("text=Undo all changes")
        page.wait_for_selector(".changes", state="detached")
        assert shares(page) == [as_percent(answered(page, address)["probabilities"][choice]) for choice in CHOICES]

    def test_fact_is_switched_off_in_the_list_of_the_picture(self, new_page):
        page = new_page(fragment())
        page.click(".listed summary")
        page.locator(".all-facts button").first.click()
        page.wait_for_selector(".changes")
        assert page.locator(".changes li").count() == 1

    def test_edge_is_clicked_and_switched_off(self, new_page):
        page = new_page(fragment())
        settled(page)
        page.locator(".edge.path").first.dispatch_event("click")
        page.click(".caption button")
        page.wait_for_selector(".changes")

    def test_new_question_drops_the_changes_and_new_choices_keep_them(self, new_page):
        page = new_page(fragment(off=OFF))
        page.get_by_label("Choice 3", exact=True).fill("garage")
        page.get_by_role("button", name="Ask", exact=True).click()
        page.wait_for_selector("#answer >> text=garage")
        assert page.locator(".changes li").count() == 1
        page.get_by_label("Question", exact=True).fill("Where would a child play?")
        page.keyboard.press("Enter")
        page.wait_for_selector(".changes", state="detached")


class TestComparing:
    def test_another_choice(self, new_page, address):
        page = new_page(fragment())
        page.select_option("#other-choice", "kitchen")
        page.wait_for_selector("#versus .lead")
        assert "“school” is" in page.inner_text("#versus .lead")
        assert "times as likely as “kitchen”" in page.inner_text("#versus .lead")
        contrast = answered(page, address, contrast="kitchen")["contrast"]
        said = page.locator("#versus .sentence").all_inner_texts()
        assert said
        assert set(said) <= {fact["sentence"] for fact in contrast["facts"]}

    def test_two_models(self, new_page, address):
        page = new_page(fragment())
        page.select_option("#other-model", "other")
        page.wait_for_selector(".side-by-side")
        columns = page.locator(".side-by-side article")
        for i, model in enumerate(("starter", "other")):
            answer = answered(page, address, model=model)
            assert columns.nth(i).locator("h3").inner_text() == model
            assert columns.nth(i).locator(".share").all_inner_texts() == [as_percent(answer["probabilities"][c]) for c in CHOICES]
        first, second = (columns.nth(i).locator(".share").all_inner_texts() for i in range(2))
        assert first == shares(page) != second
        assert "Both models answer “school”" in page.inner_text("#beside .lead")
