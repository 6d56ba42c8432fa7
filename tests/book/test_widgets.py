"""What readers can touch, driven in headless Chromium from a file, without a network: by keyboard, day and night."""

import re

import pytest

from gpumf_study import results, widgets
from gpumf_study.experiments.gpumf import race_steps, sgd_schemes
from gpumf_study.experiments.thesis import crossover
from support import ROOT

pytestmark = pytest.mark.browser
STATIC = ROOT / "book/_static"
PHONE, DESK = {"width": 390, "height": 844}, {"width": 1280, "height": 900}
WHERE = {"race": "learn/races", "convergence": "learn/races", "crossover": "results/als_or_sgd",
         "roofline": "learn/roofline"}  # fmt: skip


@pytest.fixture(scope="module")
def made():
    """Each widget as its chapter makes it."""
    load = results.load
    steps, settings, schemes = (load(name).frame for name in ("race_steps", "crossover", "sgd_schemes"))
    static = sgd_schemes.figure(schemes, ["ml-100k"], labels=["hogwild", "fast"])
    return {"race": widgets.race(steps, race_steps.figure(steps)),
            "convergence": widgets.convergence(
                sgd_schemes.courses(schemes), "SGD", static, ["ordered", "hogwild", "fast"],
            ), "crossover": widgets.crossover(settings, crossover.figure(settings)),
            "roofline": widgets.roofline(load("als_versions").frame, load("ceilings").frame, static)}  # fmt: skip


@pytest.fixture(scope="module")
def file(made, tmp_path_factory):
    """A page with all of them, styled and moved by the book's own files."""
    return written(tmp_path_factory.mktemp("page") / "page.html", made.values())


def written(page, widgets):
    body = "".join(widget._repr_html_() for widget in widgets)
    page.write_text(
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f'<link rel="stylesheet" href="{(STATIC / "gpumf.css").as_uri()}">'
        f'<article class="bd-article">{body}</article>'
        f'<script src="{(STATIC / "gpumf.js").as_uri()}"></script>',
        encoding="utf-8",
    )
    return page


@pytest.fixture(params=[PHONE, DESK], ids=["phone", "desk"])
def page(browser, file, request):
    with browser.new_context(offline=True, viewport=request.param) as context:
        context.set_default_timeout(120_000)
        page = context.new_page()
        complaints = []
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda message: message.type == "error" and complaints.append(message.text))
        page.goto(file.as_uri())
        yield page
        assert complaints == []


def part(page, kind):
    return page.locator(f'.gpumf-widget[data-kind="{kind}"]')


def says(page, kind):
    return part(page, kind).locator('[aria-live="polite"]').inner_text()


def pressed(page, control, *keys):
    control.focus()
    for key in keys:
        page.keyboard.press(key)


@pytest.mark.parametrize(("kind", "chapter"), WHERE.items())
def test_a_chapter_has_it(kind, chapter):
    assert f"widgets.{kind}(" in (ROOT / f"book/{chapter}.ipynb").read_text(encoding="utf-8")


def test_a_drawing_with_words_takes_the_place_of_the_picture(page, made):
    for kind in made:
        assert part(page, kind).locator("img").count() == 0
        assert part(page, kind).get_by_role("img").get_attribute("aria-label")
        unnamed = (
            part(page, kind)
            .locator("select, input")
            .evaluate_all(
                "nodes => nodes.filter(node => !node.labels.length || !node.labels[0].textContent.trim()).length"
            )
        )
        assert unnamed == 0
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


def test_without_the_script_the_pictures_stay(browser, file, made):
    with browser.new_context(offline=True, java_script_enabled=False) as context:
        context.set_default_timeout(120_000)
        page = context.new_page()
        page.goto(file.as_uri())
        for kind, widget in made.items():
            image = part(page, kind).locator("img")
            assert image.get_attribute("alt") == widget.alt and image.bounding_box()["height"] > 80


def test_a_lost_update_is_stepped_through(page, made):
    host, data = part(page, "race"), made["race"].data
    lost = next(k for k, one in enumerate(data["orders"]) if "lost" in one["outcome"])
    host.locator("select").select_option(index=lost)
    step, back = host.get_by_role("button", name="Step"), host.get_by_role("button", name="Back")
    assert back.is_disabled() and f"p = {data['user']:g}" in says(page, "race")
    for k, one in enumerate(data["orders"][lost]["steps"], 1):
        pressed(page, step, "Enter")
        assert says(page, "race").startswith(f"Step {k} of ")
        assert f"update {one['update']} {one['access']}s" in says(page, "race")
    assert step.is_disabled() and data["orders"][lost]["outcome"] in says(page, "race")
    pressed(page, back, " ")
    assert not step.is_disabled()


def test_a_lost_update_plays(page, made):
    host = part(page, "race")
    host.get_by_role("button", name="Play").click()
    page.wait_for_function(
        "document.querySelector('[data-kind=race] .gpumf-says').textContent.startsWith('Step 2')", timeout=120_000
    )
    host.get_by_role("button", name="Pause").click()
    assert host.get_by_role("button", name="Play").is_visible()


def test_schemes_sets_and_axes_are_chosen(page, made):
    host, data = part(page, "convergence"), made["convergence"].data
    drawn = host.locator("path[data-scheme]")
    main = [line["name"] for line in next(iter(data["sets"].values())) if line["main"]]
    assert drawn.evaluate_all("nodes => nodes.map(node => node.dataset.scheme)") == main
    host.locator("select").nth(0).select_option(label="MovieLens 100K")
    ended = [line for line in data["sets"]["MovieLens 100K"] if line["main"] and line["errors"][-1]]
    best = min(ended, key=lambda line: line["errors"][-1])
    assert f"{best['name']}: RMSE {best['errors'][-1]:.4f}" in says(page, "convergence")
    box = host.get_by_label("fast, FP32", exact=True)
    pressed(page, box, " ")
    assert drawn.count() == len(main) + 1 and "fast, FP32: RMSE" in says(page, "convergence")
    pressed(page, box, " ")
    before = drawn.first.get_attribute("d")
    host.locator("select").nth(1).select_option(label="epochs")
    assert drawn.first.get_attribute("d") != before and host.get_by_text("epochs", exact=True).count() > 1
    assert drawn.count() == len(main)


def test_sliders_ask_for_the_nearest_setting(page, made):
    host, settings = part(page, "crossover"), made["crossover"].data["settings"]
    density, factors, users, items = (host.locator("input[type=range]").nth(k) for k in range(4))
    pressed(page, factors, "End")
    pressed(page, density, "Home")
    for slider in (users, items):
        pressed(page, slider, "Home")
    most = max(one["factors"] for one in settings)
    sparsest = min((one for one in settings if one["factors"] == most), key=lambda one: one["row"])
    told = says(page, "crossover")
    assert f"{most} factors ({sparsest['data']}" in told and "outside of what was measured" in told
    assert f"{'ALS' if sparsest['ratio'] > 1 else 'SGD'} is faster there" in told
    assert users.get_attribute("aria-valuetext") == "100"
    pressed(page, density, "End")
    pressed(page, users, *["PageUp"] * 4)
    assert says(page, "crossover") != told


def test_versions_are_picked_under_the_roof(page, made):
    host, settings = part(page, "roofline"), made["roofline"].data["settings"]
    marks = host.locator("g circle, g rect")
    for setting in settings:
        host.locator("select").nth(0).select_option(label=setting["name"])
        for version in setting["versions"]:
            host.locator("select").nth(1).select_option(label=version["name"])
            told = says(page, "roofline")
            assert told.startswith(f"{version['name']}, {setting['name']}.")
            shares = [float(share) for share in re.findall(r"([\d.]+) % of its roofline bound", told)]
            assert len(shares) == 2 and all(0 < share <= 100 for share in shares)
        assert marks.count() == 2 * len(setting["versions"]) + 2, "two open ones of the version that is picked"


def test_drawings_are_legible_by_night(page):
    """On the white sheet of the figures, whatever the theme."""
    page.evaluate("document.documentElement.dataset.theme = 'dark'")
    colours = page.locator(".gpumf-picture > svg").evaluate_all(
        "nodes => nodes.map(n => getComputedStyle(n).backgroundColor)"
    )
    assert set(colours) == {"rgb(255, 255, 255)"}
