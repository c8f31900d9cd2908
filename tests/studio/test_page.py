"""The page as a person sees it, in a browser."""

import json
from typing import TYPE_CHECKING

from tests.helpers.studio import PATIENCE, Studio

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page, Route

DRAW_WISHES, DRAW_SAMPLER = slice(3, 5), 7
"""Where samples, steps and sampler stand in what the page sends."""
DRAW_AND_CANCEL = """() => new Promise(done => {
    const look = () => {
        const said = document.querySelector('#draw-shown .progress-text')?.innerText ?? '';
        if (!said.includes('digits-mdlm')) return requestAnimationFrame(look);
        document.querySelector('#draw-cancel').click();
        done();
    };
    document.querySelector('#draw-button').click();
    look();
})"""
"""As soon as it is under way: on a busy machine each click from outside takes the browser seconds."""


def note(page: "Page", text: str) -> None:
    """Wait until a card says so."""
    page.locator("#draw-shown .note", has_text=text).first.wait_for()


def test_nothing_comes_from_elsewhere(browser: "Browser", open_studio: Studio) -> None:
    context = browser.new_context()
    page = context.new_page()
    asked, complaints = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.goto(open_studio.url)
    page.wait_for_selector("#draw-shown img", timeout=1000 * PATIENCE)
    elsewhere = [url for url in asked if not url.startswith((open_studio.url, "data:", "blob:"))]
    assert len(asked) > 10
    assert (elsewhere, complaints) == ([], [])
    context.close()


def test_both_runs_are_drawn_side_by_side_and_again_with_more_steps(page: "Page") -> None:
    assert page.locator("#draw-shown figcaption").all_inner_texts() == ["digits-mdlm · MDLM", "digits-vadd · VADD"]
    note(page, "1 step · 1 evaluation")
    first = page.locator("#draw-shown img").last.get_attribute("src")
    page.locator("#draw-steps input[type=number]").fill("8")
    page.locator("#draw-button").click()
    note(page, "8 steps · 8 evaluations")
    assert page.locator("#draw-shown img").last.get_attribute("src") != first


def test_the_scrubber_goes_back_to_all_masked_and_files_can_be_kept(page: "Page") -> None:
    page.locator("#draw-scrubber input[type=range]").fill("0")
    note(page, "step 0 of 1 · 4,096 of 4,096 positions masked")
    page.locator("#draw-scrubber input[type=range]").fill("1")
    note(page, "step 1 of 1 · 0 of 4,096 positions masked")
    page.locator("#draw-files").click()
    with page.expect_download() as download:
        page.locator("a[download$='.npy']").first.click()
    assert download.value.suggested_filename == "digits-mdlm-1-steps.npy"
    offered = [link.get_attribute("download") or "" for link in page.locator("a[download]").all()]
    assert [name.rsplit(".")[-1] for name in offered] == ["png", "gif", "npy"] * 2
    assert download.value.path().stat().st_size > 64 * 64


def test_a_text_that_is_a_script_is_shown_and_not_run(page: "Page") -> None:
    for run in ("digits-mdlm", "digits-vadd"):
        page.locator("#runs").get_by_label(run, exact=True).uncheck()
    page.locator("#runs").get_by_label("script").check()
    page.locator("#draw-shown pre").first.wait_for()
    assert page.title() == "vadd studio"
    assert page.locator("#draw-shown script").count() == 0


def test_the_newest_choice_counts_whatever_is_answered_last(page: "Page") -> None:
    """What used to go wrong by chance: the answer to "no run" is held back until the next choice has been answered."""
    held: list[Route] = []

    def hold_back(route: "Route") -> None:
        asked = (route.request.post_data_json or {}).get("data", [])
        held.append(route) if [] in asked else route.continue_()

    page.route("**/queue/join**", hold_back)
    for run in ("digits-mdlm", "digits-vadd"):
        page.locator("#runs").get_by_label(run, exact=True).uncheck()
    page.locator("#runs").get_by_label("script").check()
    page.locator("#draw-shown pre").first.wait_for()
    page.evaluate(
        """() => new MutationObserver(() => { window.late ||= document.body.innerText.includes("Choose a run above"); })
                 .observe(document.body, {childList: true, subtree: true, characterData: true})"""
    )
    with page.expect_response("**/queue/join**"):
        held[0].continue_()
    page.locator("#draw-steps input[type=number]").fill("2")
    page.locator("#draw-button").click()
    note(page, "2 steps")
    assert page.evaluate("window.late") is not True
    page.unroute("**/queue/join**")
    page.locator("#runs").get_by_label("script").uncheck()
    page.get_by_text("Choose a run above").wait_for()
    assert page.locator(".toast-body").count() == 0


def test_a_label_can_be_asked_of_the_runs_that_know_some(page: "Page") -> None:
    assert not page.locator("#draw-label").is_visible()
    page.locator("#runs").get_by_label("digits-mdlm", exact=True).uncheck()
    page.locator("#runs").get_by_label("named", exact=True).check()
    page.locator("#draw-label input").click()
    assert page.get_by_role("option").all_inner_texts()[1:] == [str(digit) for digit in range(10)]
    before = page.locator("#draw-shown img").last.get_attribute("src")
    page.get_by_role("option", name="3").click()
    note(page, "label 3 · 1 step")
    assert page.locator("#draw-shown .note", has_text="label").count() == 1
    assert page.locator("#draw-shown img").last.get_attribute("src") != before
    page.locator("#runs").get_by_label("named", exact=True).uncheck()
    page.locator("#draw-label").wait_for(state="hidden")


def test_a_draw_that_takes_long_is_cancelled_and_what_was_drawn_before_stays(page: "Page") -> None:
    before = page.locator("#draw-shown img").last.get_attribute("src")

    def ask_for_much(route: "Route") -> None:
        """What the server allows at most; the slider ends where it makes sense. Remasking asks the network at every
        step, the others only where something is revealed: too quick to be cancelled.
        """
        asked = json.loads(route.request.post_data or "")
        asked["data"][DRAW_WISHES], asked["data"][DRAW_SAMPLER] = [256, 1024], "remask"
        route.continue_(post_data=json.dumps(asked))

    page.route("**/queue/join**", ask_for_much)
    page.evaluate(DRAW_AND_CANCEL)
    page.unroute("**/queue/join**")
    page.locator("#draw-said", has_text="Cancelled").wait_for()
    page.locator("#draw-shown .progress-text").wait_for(state="detached")
    assert page.locator("#draw-shown img").last.get_attribute("src") == before
    # The next one does not wait for it, and what was said is gone.
    page.locator("#draw-steps input[type=number]").fill("2")
    page.locator("#draw-button").click()
    note(page, "2 steps")
    page.locator("#draw-said", has_text="Cancelled").wait_for(state="hidden")


def test_two_visitors_do_not_disturb_each_other(page: "Page", visitors: "BrowserContext", open_studio: Studio) -> None:
    other = visitors.new_page()
    other.goto(open_studio.url)
    other.wait_for_selector("#draw-shown img")
    page.locator("#draw-steps input[type=number]").fill("4")
    page.locator("#draw-button").click()
    note(page, "4 steps")
    note(other, "1 step ·")
    other.locator("#draw-scrubber input[type=range]").fill("0")
    note(other, "step 0 of 1")
    note(page, "4 steps")
    other.close()


def test_a_mistake_is_a_message_and_the_server_lives(page: "Page") -> None:
    page.get_by_role("button", name="How to draw").click()
    page.get_by_label("Sampler").click()
    page.get_by_role("option", name="first-hitting").click()
    page.locator("#draw-button").click()
    page.locator("#draw-shown .problem", has_text="first-hitting").wait_for()
    page.get_by_label("Sampler").click()
    page.get_by_role("option", name="parallel").click()
    page.locator("#draw-button").click()
    note(page, "1 step · 1 evaluation")


def test_it_fits_a_telephone_in_the_dark(browser: "Browser", open_studio: Studio) -> None:
    context = browser.new_context(viewport={"width": 400, "height": 800}, color_scheme="dark")
    page = context.new_page()
    page.goto(open_studio.url)
    page.wait_for_selector("#draw-shown img", timeout=1000 * PATIENCE)
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    top = "document.querySelector('{}').getBoundingClientRect().top"
    assert page.evaluate(top.format("#draw-shown")) < page.evaluate(top.format("#draw-steps"))
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert max(map(int, dark.removeprefix("rgb(").removesuffix(")").split(","))) < 64
    context.close()


def test_what_is_painted_over_is_filled_in_with_the_mouse_and_with_the_keyboard(page: "Page") -> None:
    page.get_by_role("tab", name="Infill").click()
    canvas = page.locator("#painter canvas")
    # The picture comes when somebody looks; an empty canvas is 300 wide.
    page.wait_for_function("document.querySelector('#painter canvas')?.width === 320")
    box = canvas.bounding_box()
    assert box is not None
    row = box["y"] + 1.5 * box["height"] / 8  # the lower half is to be filled anyway
    page.mouse.move(box["x"] + 2, row)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] - 2, row, steps=16)
    page.mouse.up()
    page.locator("#infill-button").click()
    page.locator("#infill-shown .note", has_text="40 of 64 values filled").nth(1).wait_for()
    assert page.locator("#infill-shown img").count() == 4  # what is given, and completions, of both runs
    # And with the keyboard: everything is forgotten, one pixel is drawn.
    page.locator("#infill-blank").click()
    page.wait_for_function(
        """() => document.querySelector('#painter canvas').getContext('2d').getImageData(0, 0, 320, 320).data
                 .every((level, place) => level === [118, 128, 148, 255][place % 4])"""
    )
    page.locator("#painter").get_by_label("light").check()
    page.locator("#painter canvas").focus()
    for key in ("ArrowRight", "ArrowRight", " "):
        page.keyboard.press(key)
    page.locator("#infill-button").click()
    page.locator("#infill-shown .note", has_text="63 of 64 values filled").nth(1).wait_for()


def choose(page: "Page", run: str) -> None:
    """This run alone, for all tabs."""
    page.locator("#runs").get_by_label(run, exact=True).check()
    for name in page.locator("#runs input:checked").evaluate_all("boxes => boxes.map(box => box.name)"):
        if name != run:
            page.locator("#runs").get_by_label(name, exact=True).uncheck()


def test_gaps_in_a_text_and_in_a_point_are_filled(page: "Page") -> None:
    page.get_by_role("tab", name="Infill").click()
    choose(page, "script")
    page.get_by_label("Text with gaps").fill("<script>____</")
    page.locator("#infill-button").click()
    page.locator("#infill-shown mark").first.wait_for()
    assert page.locator("#infill-shown pre").count() == 8
    assert page.locator("#infill-shown pre").first.inner_text().startswith("<script>")
    choose(page, "vadd")
    page.locator("#infill-points").get_by_label("second").check()
    page.locator("#infill-points input[type=number]").fill("5")
    page.locator("#infill-button").click()
    page.locator("#infill-shown .note", has_text="0 to 7").wait_for()
    sizes = page.locator("#infill-shown img").evaluate_all(
        "all => all.map(one => [one.naturalWidth, one.naturalHeight])"
    )
    assert sizes == [[10, 10], [120, 60]]


def test_a_latent_slider_and_the_map_move_the_picture(page: "Page") -> None:
    page.get_by_role("tab", name="Latent").click()
    page.locator("#latent-shown img").wait_for()
    label = page.locator("#latent-slider-0").inner_text()
    assert "nats" in label
    for end in ("-3", "3"):
        with page.expect_response("**/live/latent") as answer:
            page.locator("#latent-slider-0 input[type=range]").fill(end)
        picture = answer.value.text().split('src="')[1].split('"')[0]
        page.wait_for_function("src => document.querySelector('#latent-shown img').src === src", arg=picture)
    page.locator("#latent-pad canvas").focus()
    page.keyboard.press("ArrowLeft")
    page.wait_for_function("document.querySelector('#latent-slider-0 input[type=number]').value < 3")
    page.locator("#latent-walk").click()
    page.locator("#latent-path img").last.wait_for()
    page.locator("#latent-vary").click()
    page.locator("#latent-varied img").last.wait_for()
    # The map of points is another picture than that of the run before.
    corner = "document.querySelector('#latent-pad canvas').toDataURL()"
    before = page.evaluate(corner)
    choose(page, "vadd")
    page.locator("#latent-slider-2").wait_for(state="hidden")
    page.wait_for_function(f"before => {corner} !== before", arg=before)
    # Nor do its paths stay; and points are drawn as z distributes them, not only at the likeliest place.
    assert page.locator("#latent-path img, #latent-varied img").count() == 0
    assert page.locator("#latent-temperature input[type=number]").input_value() == "1"
    choose(page, "digits-mdlm")
    page.locator("#latent-shown .problem", has_text="has no latent").wait_for()
    page.locator("#latent-slider-0").wait_for(state="hidden")
    choose(page, "digits-vadd")
    page.locator("#latent-slider-5").wait_for()
    assert page.locator("#latent-temperature input[type=number]").input_value() == "0"


def test_who_comes_by_keyboard_sees_where_they_are(page: "Page") -> None:
    page.locator("#runs input").first.focus()
    reached = set()
    for _ in range(24):
        page.keyboard.press("Tab")
        kind, outlined = page.evaluate(
            """() => {
                const {outlineStyle, boxShadow} = getComputedStyle(document.activeElement);
                return [document.activeElement.type, outlineStyle !== 'none' || boxShadow !== 'none'];
            }"""
        )
        assert outlined or kind is None, kind
        reached.add(kind)
    assert reached >= {"checkbox", "range", "number", "submit"}
