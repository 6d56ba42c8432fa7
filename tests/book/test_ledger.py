"""The ledger: every figure, table and claim with its verdict and the page that shows it, and a filter that works."""

import re
from html import escape

import pytest

pytest.importorskip("IPython")

from gpumf_study import chapters, claims, experiments, ledger
from support import ROOT


@pytest.fixture(scope="module")
def frame():
    return ledger.table()


def test_every_figure_and_table_of_the_publications_is_there_and_shown_by_a_page(frame):
    pages, known = chapters.pages(), experiments.figures_and_tables()
    for one in known.itertuples():
        rows = frame[(frame.publication == one.source) & (frame.figure_or_table == one.figure_or_table)]
        assert len(rows), f"no claim is on {one.source}, {one.figure_or_table}"
        if not (rows.verdict == claims.MISSING).all():
            shown = rows.experiment.map(pages).dropna()
            assert len(shown), f"{one.source}, {one.figure_or_table} is measured, and no page shows it"
            assert all((ROOT / f"book/{page}.ipynb").is_file() for page in shown)


def test_every_claim_has_one_row_with_value_interval_repeats_data_and_machine(frame):
    text = ledger.as_html(frame)
    rows = re.findall(r"<tr>\s*<td>(.*?)</tr>", text, re.DOTALL)
    assert len(rows) == len(frame) == frame.id.nunique() > 150
    assert "nan" not in re.sub(r"<[^>]*>", " ", text).lower().split()
    measured = frame[frame.value.notna() & (frame.publication != "gpumf")]
    assert measured.data.isin(["real", "synthetic"]).all() and measured.device.notna().all()


def test_counts_of_verdicts_add_up(frame):
    table = ledger.counts(frame).set_index("publication")
    for source, title in ledger.TITLES.items():
        assert table.loc[title].iloc[1:].sum() == (frame.publication == source).sum()
        assert re.fullmatch(r"(\d+) of (\d+), (\d+) in part", table.loc[title].iloc[0])


@pytest.mark.parametrize("name", ["README.md", "book/intro.md"])
def test_readme_and_home_page_show_the_counts_of_the_ledger(frame, name):
    text, counted = (ROOT / name).read_text(encoding="utf-8"), ledger.counts(frame).astype(str)
    rows = [re.split(r" \| ", line.strip("| ")) for line in text.splitlines() if line.startswith("| ")]
    for row in [list(counted), *counted.to_numpy().tolist()]:
        assert row in rows
    held = (frame.publication != "gpumf") & (frame.verdict == "replicated")
    assert f"**{held.sum()} are replicated**" in text


@pytest.fixture
def ledger_page(frame, tmp_path):
    """The address of a page of the ledger alone."""
    static, path = ROOT / "book/_static", tmp_path / "page.html"
    path.write_text(
        f'<!doctype html><meta charset="utf-8"><link rel="stylesheet" href="{(static / "gpumf.css").as_uri()}">'
        f'<article class="bd-article"><div>{ledger.as_html(frame)}</div></article>'
        f'<script src="{(static / "gpumf.js").as_uri()}"></script>',
        encoding="utf-8",
    )
    return path.as_uri()


@pytest.mark.browser
@pytest.mark.slow
def test_readers_filter_the_claims_and_keep_them_as_csv(frame, browser, ledger_page):
    with browser.new_context(offline=True) as context:
        context.set_default_timeout(120_000)
        page = context.new_page()
        page.goto(ledger_page)
        assert f"{len(frame)} of {len(frame)} rows" in page.inner_text('[aria-live="polite"]')
        missed, own = frame.verdict == "not replicated", frame.publication == "gpumf"
        for label, refuted in (("does not hold", (missed & own).sum()), ("not replicated", (missed & ~own).sum())):
            page.get_by_label("Verdict").select_option(label=label)
            assert refuted and f"{refuted} of" in page.inner_text('[aria-live="polite"]')
        with page.expect_download() as download:
            page.get_by_role("button", name="Download as CSV").click()
        lines = download.value.path().read_text(encoding="utf-8").splitlines()
        assert len(lines) == refuted + 1 and lines[0].startswith('"claim","verdict"')
        page.get_by_label("Search").fill("no claim has these words")
        assert "0 of" in page.inner_text('[aria-live="polite"]')


@pytest.mark.browser
@pytest.mark.slow
def test_on_a_phone_a_claim_is_a_card_that_shows_its_verdict(browser, ledger_page):
    with browser.new_context(offline=True, viewport={"width": 390, "height": 844}) as context:
        page = context.new_page()
        page.goto(ledger_page)
        row = page.locator("tbody tr").first
        verdict = row.locator('[data-label="verdict"]').bounding_box()
        assert verdict["x"] >= 0 and verdict["x"] + verdict["width"] <= 390
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        page.get_by_label("Search").fill("no claim has these words")
        assert not row.is_visible()


def test_published_ratios_have_their_unit_even_where_nothing_is_measured(frame):
    text = ledger.as_html(frame)
    for row in frame[frame.published.notna()].itertuples():
        statement = re.escape(escape(row.statement))
        shown = re.search(rf"<td>{statement}</td>\s*<td>[^<]*</td>\s*<td>([^<]*)</td>", text)[1]
        ratio = re.search("[Ss]peed-up| over that ", row.statement)
        assert not ratio or re.match(r"[\d.,]+ [x%]", shown), (row.id, shown)
