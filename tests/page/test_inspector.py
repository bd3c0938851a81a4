"""The step inspector, looked at through a browser: recorded runs, a run with draws, damaged data."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

pytestmark = pytest.mark.browser
WELCOME = Path(__file__).resolve().parents[2] / "assets/recorded/gallery/chat"
LANES = {"dflash": "1-dflash", "eagle3": "2-eagle3", "ngram": "3-ngram", "none": "4-none"}
WORDS = [" a", " b", " c"]
WITHOUT = (
    "This run was recorded without probabilities: "
    "set “Recorded probabilities” above 0 under Settings and ask again."
)

# A root of its own: these tests are about the inspector, not about how the view opens it.
MOUNT = """([name, width]) => {
  const root = document.body.appendChild(document.createElement('div'));
  root.className = 'dv-root stage';
  root.dataset.width = width;
  window.asked = [];
  const lane = view.lanes.get(name);
  const show = (at, position = null) => {
    window.at = at;
    inspector.show(lane, at, position);
  };
  window.inspector = new DFlashViz.Inspector(root, new DFlashViz.Popover(root), {
    step: (delta) => { asked.push(['step', delta]); show(at + delta); },
    jump: (kind, direction) => asked.push(['jump', kind, direction]),
    select: (i) => { asked.push(['select', i]); show(at, i); },
    close: () => { asked.push(['close']); inspector.hide(); },
  });
  window.inspect = show;
}"""
TABLE = """() => [...document.querySelectorAll('.stage .dv-positions tbody tr')].map(
  (row) => [...row.children].map((cell) => cell.textContent))"""
LIST = """(who) => [...document.querySelectorAll('.stage .dv-list-' + who + ' .dv-entry')].map((entry) => [
  entry.querySelector('.dv-token').textContent,
  entry.querySelector('.dv-entry-p').textContent,
  entry.querySelector('.dv-entry-tags').textContent])"""


def recorded(lane: str) -> list[dict]:
    """The lines of the greeting run's lane."""
    with gzip.open(WELCOME / f"{LANES[lane]}.jsonl.gz", "rt") as file:
        return [json.loads(line) | {"lane": lane} for line in file]


def steps(lines: list[dict]) -> list[dict]:
    return [line for line in lines if line["type"] == "step"]


def as_document(lines: list[dict]) -> str:
    """A live document of one lane: everything in it is shown at once."""
    return "".join(
        json.dumps(line) + "\n" for line in [{"type": "run", "origin": "live", "prompt": ""}, *lines]
    )


def ids_of(document, words: list[str]) -> list[int]:
    """Token ids whose texts the header tells."""
    ids, new = document._ids(words)
    header = next(line for line in document.lines if line["type"] == "header")
    header.setdefault("tokens", {}).update(new)
    return ids


def positions(document, accepted: int, own: str, **more) -> list[dict]:
    """Positions of a block of ``WORDS``: the target gives 0.4 to each, 0.6 to ``own``, by hand."""
    ids = ids_of(document, [*WORDS, own])
    told = [
        {"target": [[ids[3], 0.6], [i, 0.4]], "drafter": [[i, 0.9]], "p_target_drafted": 0.4} for i in ids[:3]
    ]
    told.append({"target": [[ids[3], 0.6]]})
    told[accepted] |= more
    return told


@pytest.fixture
def inspect(open_page, feed):
    """Opens a page with a lane's document and the inspector: ``inspect(text, lane)``."""

    def inspect_(text, lane: str = "dflash", phone: bool = False):
        page = open_page(phone=phone)
        feed(page, text)
        page.evaluate(MOUNT, [lane, "narrow" if phone else "wide"])
        return page

    return inspect_


def show(page, at: int, position: int | None = None) -> str:
    """Shows a step; returns its sentence."""
    page.evaluate("([at, position]) => inspect(at, position)", [at, position])
    return sentence(page)


def sentence(page) -> str:
    return page.locator(".stage .dv-sentence").inner_text()


def asked(page) -> list:
    return page.evaluate("asked.splice(0)")


def test_a_recorded_rejection(inspect) -> None:
    page = inspect(as_document(recorded("dflash")))
    assert show(page, 1) == (
        "Clear miss at position 5: the drafter said “␣process” (0.463); "
        "the target gives it 0.26 and prefers “␣biological” with 0.701."
    )
    rows = page.evaluate(TABLE)
    assert rows[0] == ["1", "ynthesis", "0.996", "0.999", "ynthesis", "✓ accepted"]
    assert rows[4] == ["5", "␣process", "0.463", "0.260", "␣biological", "✗ rejected"]
    assert rows[5] == ["Had the draft been followed, the target would have said:"]
    assert rows[6] == ["6", "–", "–", "–", "␣that", "not reached"]
    assert page.locator(".stage [aria-selected=true]").get_attribute("data-position") == "4", "the break"
    assert page.evaluate(LIST, "drafter")[:2] == [
        ["␣process", "0.463", "▸ drafted"],
        ["␣biological", "0.439", "● emitted"],
    ]
    assert page.evaluate(LIST, "target")[:2] == [
        ["␣biological", "0.701", "● emitted"],
        ["␣process", "0.260", "▸ drafted"],
    ]
    assert page.locator(".stage .dv-inspector-title").inner_text().split() == "● dflash Step 1 of 41".split()
    assert page.locator(".stage .dv-draw").count() == 0, "no draws at temperature 0"


def test_discarded_tokens_keep_what_the_target_would_have_said(inspect) -> None:
    lines = recorded("eagle3")
    page = inspect(as_document(lines), "eagle3")
    show(page, 2, 3)
    rows = page.evaluate(TABLE)
    assert rows[2] == ["Had the draft been followed, the target would have said:"]
    assert rows[3] == ["3", "␣light", "0.476", "0.069", "␣carbon", "· discarded"]
    told = steps(lines)[2]["positions"][3]
    assert [row[1] for row in page.evaluate(LIST, "target")] == [
        f"{p:.3f}" if p >= 0.0005 else "<0.001" for _, p in told["target"]
    ]
    assert "Had the draft been followed up to here" in page.locator(".stage .dv-lists-box").inner_text()


@pytest.mark.parametrize("name", LANES)
def test_every_recorded_step_is_judged_as_its_numbers_say(inspect, name: str) -> None:
    lines = recorded(name)
    page = inspect(as_document(lines), name)
    count = len(steps(lines))
    told = page.evaluate(
        "([lane, n]) => Array.from({length: n}, (_, at) => { inspect(at); return"
        " [DFlashViz.breakKind(view.lanes.get(lane), at), inspector.node.textContent]; })",
        [name, count],
    )
    seen = set()
    for step, (kind, text) in zip(steps(lines), told, strict=True):
        accepted, drafted = step.get("num_accepted", 0), step.get("drafted", [])
        if step.get("prefill"):
            expected = "prefill"
        elif not drafted:
            expected = "undrafted"
        elif "last" not in step:
            expected = "cut"
        elif accepted == len(drafted):
            expected = "full"
        else:
            position = step["positions"][accepted]
            own = dict(map(tuple, position["target"]))[step["emitted"][-1]]
            expected = "near" if position["p_target_drafted"] >= own / 2 else "clear"
        assert kind == expected, step["index"]
        assert not [word for word in ("undefined", "NaN", "null", "[object") if word in text], step["index"]
        seen.add(kind)
    assert page.problems == []
    drafting = {"dflash": {"prefill", "near", "clear", "full", "cut"}, "none": {"prefill", "undrafted"}}
    assert seen >= drafting.get(name, {"prefill", "clear"})


def test_each_method_is_drawn_in_its_own_way(inspect, make_document) -> None:
    page = inspect(as_document(recorded("dflash")))
    show(page, 1)
    frame = page.locator(".stage .dv-pass")
    assert frame.locator(".dv-pass-label").inner_text() == "one pass"
    labels = frame.locator(".dv-slot-label").all_inner_texts()
    assert labels == ["⚓ anchor", *(f"slot {i}" for i in range(1, 6))]
    page = inspect(as_document(recorded("eagle3")), "eagle3")
    show(page, 2)
    assert page.locator(".stage .dv-pass").count() == 0
    assert page.locator(".stage .dv-picture").inner_text().split() == (
        "␣process ⚓ anchor → ␣that pass 1 → ␣converts pass 2 → ␣light pass 3 "
        "→ ␣energy pass 4 → ␣into pass 5".split()
    )


@pytest.mark.parametrize(
    ("source", "found"), [([37 - 1, 2], True), ([38 - 1, 2], False), (None, False), (["x", {}], False)]
)
def test_copied_text_is_highlighted_where_it_stands(inspect, source, found: bool) -> None:
    lines = recorded("ngram")
    prompt = len(lines[0]["prompt_token_ids"])
    step = steps(lines)[92]
    if source:
        step["source"] = [prompt + source[0] if isinstance(source[0], int) else source[0], source[1]]
    page = inspect(as_document(lines), "ngram")
    assert show(page, 92).startswith(
        "Clear miss at position 3: the copied text said “␣essential”; the target gives it"
    )
    draft = page.locator(".stage .dv-draft")
    if not found:
        assert "where it stands was not recorded" in draft.inner_text()
        return
    pieces = draft.locator(
        ".dv-quote-copied .dv-quote-text, .dv-quote-matched .dv-quote-text"
    ).all_inner_texts()
    assert pieces == [".␣This", "␣process␣is␣essential␣for␣life", ".␣This"]
    assert draft.locator(".dv-quote-label").all_inner_texts() == ["matched", "copied", "matched"]
    assert "Copied from: answer, token 37" in draft.inner_text()
    forms = page.evaluate(
        """['matched', 'copied'].map((kind) => getComputedStyle(
          document.querySelector(`.dv-quote-${kind} .dv-quote-text`)).textDecorationStyle)"""
    )
    assert forms == ["dotted", "double"], "in form, not in colour alone"
    assert "A copied token has no probability." in page.locator(".stage .dv-list-drafter").inner_text()


def test_copied_from_the_prompt(inspect, make_document) -> None:
    document = make_document(lane="ngram").header()
    ids = ids_of(document, ["<|im_start|>", "say", "\n", *WORDS])
    document.lines[-1]["prompt_token_ids"] = ids
    document.prefill("say").block(WORDS, 1, " x", source=[3, 2])
    page = inspect(document.text, "ngram")
    show(page, 1)
    text = page.locator(".stage .dv-draft").inner_text()
    for words in ("Copied from: prompt, token 4", "<|im_start|>", "↵"):
        assert words in text


def test_the_draw_that_rejected(inspect, make_document) -> None:
    document = make_document(k=3).header()
    document.lines[-1]["sampling"] = {"temperature": 1.0}
    document.prefill()
    document.block(WORDS, 1, " x", positions=positions(document, 1, " x", draw=[0.21, 1, 0.64]))
    document.block(WORDS, 1, " x", positions=positions(document, 1, " x", draw=[0.21341, 1, 0.21344]))
    document.block(WORDS, 1, " x", positions=positions(document, 1, " x"))
    page = inspect(document.text)
    assert show(page, 1) == (
        "Rejected by the draw at position 2: the drafter said “␣b” (0.9); accepted with probability "
        "min(1, p/q) = min(1, 0.21 / 1) = 0.21, the draw was 0.64, which is above it. "
        "The recovered token, drawn from the rest of the target’s distribution, is “␣x”."
    )
    rows = page.evaluate(TABLE)
    assert rows[2] == ["Had the draft been followed, the target’s most probable token would have been:"]
    assert page.locator(".stage .dv-positions thead").inner_text().split("\t")[4] == "target’s best"
    draw = page.locator(".stage .dv-draw").inner_text()
    assert draw.endswith("p and q are after temperature and top-p; the lists are at temperature 1.")
    for word, meaning in (("p", "after temperature and top-p"), ("q", "vLLM’s default"), ("draw", "uniform")):
        page.locator(".stage .dv-terms .dv-term", has_text=word).first.click()
        assert meaning in page.locator(".stage .dv-popover").inner_text()
    assert "= 0.21341, the draw was 0.21344, which is above it" in show(page, 2), (
        "as many decimals as it takes"
    )
    assert show(page, 3).endswith(
        "The recovered token, drawn from the rest of the target’s distribution, is “␣x”. "
        "The draw was not recorded."
    )
    show(page, 1, 2)
    assert (
        "the target’s most probable token would have been"
        in page.locator(".stage .dv-lists-box").inner_text()
    )


@pytest.mark.parametrize(("accepted", "side"), [(0, "above it"), (1, "not above it")])
def test_the_side_of_the_draw_is_what_vllm_decided(inspect, make_document, accepted: int, side: str) -> None:
    document = make_document(k=3).header()
    document.lines[-1]["sampling"] = {"temperature": 1.0}
    told = positions(document, 0, " x", draw=[0.2, 1, 0.2 if accepted == 0 else 0.2000001])
    page = inspect(document.prefill().block(WORDS, accepted, " x", positions=told).text)
    show(page, 1, 0)
    assert f", which is {side}." in page.locator(".stage .dv-draw").inner_text(), (
        "recorded numbers are rounded"
    )


def test_each_list_says_what_was_given(inspect) -> None:
    expected = {
        "dflash": ("in one pass, without the other slots’ tokens", "the drafted tokens before this position"),
        "eagle3": ("the drafted tokens before this position",) * 2,
    }
    for lane, meanings in expected.items():
        page = inspect(as_document(recorded(lane)), lane)
        show(page, 2)
        for who, meaning in zip(("drafter", "target"), meanings, strict=True):
            page.locator(f".stage .dv-list-{who} .dv-term").click()
            words = page.locator(".stage .dv-popover").inner_text()
            assert meaning in words
            assert ("other slots" in words) == ("other slots" in meaning)
            page.keyboard.press("Escape")


@pytest.mark.parametrize(
    ("method", "words", "pieces"),
    [
        ("mtp", "One pass of the drafter for each token", 7),
        ("suffix", "where it stands was not recorded", 0),
        ("ngram_gpu", "where it stands was not recorded", 0),
        ("medusa", "How this method drafts is not drawn here.", 0),
    ],
)
def test_a_method_is_only_drawn_as_it_drafts(
    inspect, make_document, method: str, words: str, pieces: int
) -> None:
    document = make_document(k=3).header().prefill()
    document.block(WORDS, 1, " x", positions=positions(document, 1, " x"))
    document.lines[1]["fingerprint"]["method"] = method
    page = inspect(document.text)
    said = show(page, 1)
    draft = page.locator(".stage .dv-draft")
    assert words in draft.inner_text()
    assert draft.locator(".dv-slots > *").count() == pieces
    copies = method in ("suffix", "ngram_gpu")
    assert ("the copied text said" in said) == copies


@pytest.mark.parametrize(
    ("prompt", "least", "nothing"),
    [
        (["a", "b"], 1, False),
        (["a", "b"], 2, True),
        (["a", "b", "b", "a"], 2, True),
        (["b", "a", "b"], 2, False),
        ([], 1, False),
    ],
)
def test_that_nothing_was_found_is_looked_up(
    inspect, make_document, prompt, least: int, nothing: bool
) -> None:
    document = make_document(lane="ngram", k=3).header()
    header = document.lines[-1]
    header["prompt_token_ids"] = ids_of(document, prompt)
    header["fingerprint"]["prompt_lookup_min"] = header["fingerprint"]["prompt_lookup_max"] = least
    page = inspect(document.prefill("a").plain(" y").text, "ngram")
    show(page, 1)
    words = page.locator(".stage .dv-draft").inner_text()
    assert ("Nothing to copy: the last tokens" in words) == nothing
    assert ("No draft in this step" in words) != nothing


def test_space_and_enter_choose_a_row(inspect) -> None:
    page = inspect(as_document(recorded("dflash")))
    show(page, 4)
    page.locator(".stage .dv-position-row").nth(2).focus()
    page.evaluate("() => { document.onkeydown = ({ key }) => asked.push(['heard', key]); }")
    page.keyboard.press(" ")
    page.keyboard.press("Enter")
    assert [call[0] for call in asked(page)] == ["select", "select"], "the stage hears nothing of it"


def test_hidden_it_keeps_no_run(inspect) -> None:
    page = inspect(as_document(recorded("dflash")))
    show(page, 4)
    page.evaluate("inspector.hide()")
    kept = "(({lane, titled, drawn, rows, table}) => [lane, titled, drawn, rows, table.rows])(inspector)"
    assert page.evaluate(kept) == [None, None, None, [], []]
    assert show(page, 4)
    assert page.locator(".stage .dv-position-row").count() == 6, "opened again it is whole"


def test_why_nothing_was_rejected(inspect, make_document) -> None:
    document = make_document(k=3).header().prefill()
    document.block(WORDS, 3, " x", positions=positions(document, 3, " x")).block(WORDS, 3, None, emit=2)
    document.block(WORDS, 0, " x", padded=True).plain(" y")
    page = inspect(document.text)
    without = " " + WITHOUT
    assert show(page, 0) == "Prefill, not a draft: the target’s token is “The”." + without
    assert (
        show(page, 1)
        == "Full block: all 3 drafted tokens were accepted; the target adds the bonus token “␣x” with 0.6."
    )
    assert page.evaluate(TABLE)[3] == ["4", "␣x", "–", "0.600", "␣x", "★ bonus"]
    assert page.locator(".stage [aria-selected=true]").get_attribute("data-position") == "3", (
        "the bonus position"
    )
    assert show(page, 2) == (
        "Cut block: a stop condition or the token limit ended the answer after 2 emitted tokens of this "
        "step; 3 of 3 drafted tokens accepted." + without
    )
    assert "vLLM verified placeholders" in show(page, 3)
    assert page.locator(".stage .dv-picture").count() == 0
    assert show(page, 4).startswith("No draft in this step: the target’s token is “␣y”.")


def test_without_probabilities_it_says_what_to_do(inspect, make_document) -> None:
    page = inspect(make_document(k=3).header().prefill().block(WORDS, 1, " x").text)
    assert show(page, 1) == (
        "Rejected at position 2: the target prefers “␣x” to the drafted “␣b”. " + WITHOUT
    )
    assert page.evaluate(TABLE)[0] == [
        "1",
        "␣a",
        "not recorded",
        "not recorded",
        "not recorded",
        "✓ accepted",
    ]
    assert page.locator(".stage .dv-list .dv-dim").all_inner_texts() == ["not recorded", "not recorded"]


DAMAGED = [
    None,
    "x",
    {},
    [None, 7, "x", []],
    [{}],
    [{"target": None, "drafter": "x", "p_target_drafted": "0.5"}] * 4,
    [{"target": [None, [], ["1", 0.5], [1, "x"], [1, -1], [1, 7]], "drafter": [[1.5, 0.5]], "draw": "abc"}]
    * 4,
    [{"target": [[10**12, 0.5]], "p_target_drafted": -0.0, "draw": [1, 0, 1]}] * 9,
    [{"draw": [0.1, None, 0.5]}] * 4,
    [{"draw": []}, {"draw": [0.5]}],
]


SHOW_DAMAGED = """(records) => records.flatMap((record) => {
  const { steps } = view.lanes.get('dflash');
  steps.forEach((step) => Object.assign(step, { positions: record, source: record }));
  return steps.flatMap((step, at) => [null, 0, 3, 99, -1].map((position) => {
    inspect(at, position);
    return inspector.node.textContent;
  }));
})"""


def test_damaged_records_never_break_it(inspect, make_document) -> None:
    document = make_document(k=3).header()
    document.lines[-1]["sampling"] = {"temperature": 1}
    document.prefill().block(WORDS, 1, " x").block(WORDS, 3, " x").block(WORDS, 3, None).plain(" y")
    for lane in ("dflash", "ngram"):
        document.lines[1]["fingerprint"]["method"] = lane
        page = inspect(document.text)
        texts = page.evaluate(SHOW_DAMAGED, DAMAGED)
        assert len(texts) == len(DAMAGED) * len(document.steps) * 5
        assert all("not recorded" in text for text in texts)
        assert show(page, 999) == "This step is not known."
        assert page.problems == []


def test_hostile_text_stays_text(inspect, make_document) -> None:
    evil = "<img src=x onerror=window.hit=1>"
    document = make_document(k=3, lane="dflash").header().prefill(evil)
    words = [evil, "<script>window.hit=1</script>", "\u202e"]
    ids = ids_of(document, [*words, evil + "!"])
    told = [{"target": [[i, 0.5] for i in ids], "drafter": [[i, 0.1] for i in ids]}] * 4
    page = inspect(document.block(words, 1, evil + "!", positions=told).text)
    assert evil in show(page, 1)
    assert "⟨U+202E⟩" in page.locator(".stage .dv-inspector").inner_text()
    assert page.locator(".stage :is(img, script)").count() == 0
    assert page.evaluate("window.hit") is None


def test_every_move_is_one_key_or_click_away(inspect) -> None:
    page = inspect(as_document(recorded("dflash")))
    show(page, 4)
    for name, expected in (
        ("Previous step", ["step", -1]),
        ("Next step", ["step", 1]),
        ("Previous rejection", ["jump", "rejection", -1]),
        ("Next rejection", ["jump", "rejection", 1]),
        ("Previous full block", ["jump", "full", -1]),
        ("Next full block", ["jump", "full", 1]),
    ):
        page.locator(f".stage .dv-move[aria-label='{name}']").click()
        assert asked(page) == [expected]
    page.locator(".stage .dv-position-row").nth(1).click()
    assert asked(page) == [["select", 1]]
    page.locator(".stage .dv-position-row").nth(1).focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("End")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Home")
    assert [call[1] for call in asked(page)] == [2, 3, 5, 5, 0]
    focused = "document.activeElement.dataset.position"
    assert page.evaluate(focused) == "0"
    page.evaluate("inspect(5)")
    assert page.evaluate(focused) == page.locator(".stage [aria-selected=true]").get_attribute(
        "data-position"
    )
    page.keyboard.press("Escape")
    assert asked(page) == [["close"]]
    assert page.locator(".stage .dv-inspector").is_hidden()


def test_opened_by_keyboard_it_takes_the_focus_and_gives_it_back(inspect) -> None:
    page = inspect(as_document(recorded("dflash")))
    inside = "document.querySelector('.stage .dv-inspector').contains(document.activeElement)"
    page.evaluate(
        """() => {
          const opener = document.body.appendChild(document.createElement('button'));
          opener.textContent = opener.id = 'opener';
          opener.onclick = () => inspect(1);
        }"""
    )
    page.locator("#opener").focus()
    page.keyboard.press("Enter")
    assert page.evaluate(inside)
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.id") == "opener"
    page.evaluate("document.activeElement.blur()")
    page.locator("#opener").click()
    assert page.locator(".stage .dv-inspector").is_visible()
    assert not page.evaluate(inside)


def test_the_first_escape_closes_a_definition_only(inspect) -> None:
    page = inspect(as_document(recorded("dflash")))
    show(page, 1)
    page.locator(".stage .dv-terms .dv-term").click()
    assert "less than half" in page.locator(".stage .dv-popover").inner_text()
    page.keyboard.press("Escape")
    assert page.locator(".stage .dv-popover").is_hidden()
    assert page.locator(".stage .dv-inspector").is_visible()
    page.locator(".stage .dv-list-target .dv-term").click()
    show(page, 2)
    assert page.locator(".stage .dv-popover").is_hidden(), "its word is gone"


def test_frames_without_news_change_nothing(inspect, feed, make_document) -> None:
    hangul = "한".encode()
    document = make_document(k=3).header().prefill().block([" a", hangul[:1], " b"], 1, hangul[:1])
    page = inspect(document.text)
    show(page, 1)
    changes = """async () => {
      let count = 0;
      const observer = new MutationObserver((records) => { count += records.length; });
      const all = { subtree: true, childList: true, attributes: true, characterData: true };
      observer.observe(inspector.node, all);
      for (let i = 0; i < 5; i += 1) inspector.draw();
      await new Promise((done) => setTimeout(done));
      observer.disconnect();
      return count;
    }"""
    assert page.evaluate(changes) == 0
    feed(page, document.plain(" c"))
    page.evaluate("inspector.draw()")
    assert "Step 1 of 2" in page.locator(".stage .dv-inspector-title").inner_text(), "a live run goes on"


def test_on_a_phone_it_is_a_sheet(inspect) -> None:
    page = inspect(as_document(recorded("dflash")), phone=True)
    show(page, 1)
    sheet, window = page.locator(".stage .dv-inspector").bounding_box(), page.viewport_size
    assert sheet["height"] == pytest.approx(0.6 * window["height"], abs=1)
    assert sheet["y"] + sheet["height"] == pytest.approx(window["height"], abs=1)
    assert sheet["width"] == pytest.approx(window["width"], abs=1)
    small = page.evaluate(
        """() => [...document.querySelectorAll('.stage .dv-inspector :is(button, .dv-position-row)')]
          .map((node) => [node.textContent, node.getBoundingClientRect()])
          .filter(([, box]) => box.width < 44 || box.height < 44).map(([text]) => text)"""
    )
    assert small == []
    inner = page.evaluate("(({scrollWidth, clientWidth}) => [scrollWidth, clientWidth])(inspector.node)")
    assert inner[0] <= inner[1], "nothing hangs over its side"
    show(page, 0)
    assert page.locator(".stage .dv-inspector").bounding_box() == sheet, "it stays whatever it holds"
    show(page, 1)
    page.evaluate("inspector.node.scrollTop = 0")
    page.locator(".stage .dv-position-row").first.tap()
    lists = page.locator(".stage .dv-lists-box").bounding_box()
    assert sheet["y"] < lists["y"] < sheet["y"] + sheet["height"] / 2, "what was asked for comes into sight"
    ends = page.evaluate(
        "scrollTo(0, 1e6), [document.querySelector('.stage'), inspector.node].map((node) => {"
        " const { top, bottom } = node.getBoundingClientRect();"
        " const padding = parseFloat(getComputedStyle(node).paddingBottom);"
        " return node === inspector.node ? top : bottom - padding; })"
    )
    assert ends[0] <= ends[1], "the page's end can be scrolled out from under it"
    page.evaluate("inspector.node.scrollTop = 300")
    bar = page.locator(".stage .dv-inspector-bar").bounding_box()
    assert bar["y"] == pytest.approx(sheet["y"] + 2, abs=1), "the buttons stay in reach"
    page.locator(".stage .dv-inspector-close").tap()
    assert page.locator(".stage .dv-inspector").is_hidden()


def test_on_a_phone_the_block_stays_in_sight(open_page, feed) -> None:
    page = open_page(phone=True)
    feed(page, as_document(recorded("dflash")))
    page.locator(".dv-block .dv-cell").nth(2).tap()
    sheet = page.locator(".dv-inspector")
    sheet.wait_for()
    block = page.locator(".dv-block").bounding_box()
    assert block["y"] >= 0
    assert block["y"] + block["height"] <= sheet.bounding_box()["y"]


def test_from_a_cell_and_back_by_keyboard(open_page, feed) -> None:
    page = open_page()
    feed(page, as_document(recorded("dflash")))
    page.locator(".dv-block .dv-cell[tabindex='0']").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.locator(".dv-inspector").wait_for()
    assert page.evaluate("document.activeElement.className") == "dv-inspector"
    assert page.locator(".dv-inspector [aria-selected=true]").get_attribute("data-position") == "0"
    page.keyboard.press("ArrowLeft")
    page.wait_for_function("document.querySelector('.dv-inspector-step').textContent === 'Step 40 of 41'")
    page.keyboard.press("Escape")
    assert page.locator(".dv-inspector").is_hidden()
    assert page.evaluate("document.activeElement.closest('.dv-block') !== null")
