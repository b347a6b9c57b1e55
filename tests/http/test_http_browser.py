"""The dashboard in a real browser, on a real daemon. Run where Chromium and its driver are installed.

``make test-browser`` runs these and fails without a browser; ``make test`` runs them where there is one.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar
from urllib.request import urlopen

from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from twisted.trial.runner import TestLoader, TestSuite
from twisted.trial.unittest import SynchronousTestCase

from tests.rigs.daemon import DEADLINE_SECONDS, Daemon
from tests.rigs.http.browser import find_browser, open_browser
from tests.rigs.sesp_client import Sesp

T = TypeVar("T")

HOSTILE = "<img src=x onerror=alert(1)>"

# Who has the focus, whether that can be seen, and whether it is in sight below the head of the page.
_FOCUS = """
const element = document.activeElement, style = getComputedStyle(element), box = element.getBoundingClientRect();
const head = element.closest("header, .skip") ? 0 : document.querySelector("header").getBoundingClientRect().bottom;
return [element.id || element.textContent.trim(), style.outlineStyle === "solid" && parseFloat(style.outlineWidth) >= 2,
  box.top >= head - 1 && box.bottom <= innerHeight + 1 && box.left >= 0];
"""

RELOADED = "the configuration was read again"

# What has to be called something, by its role in the tree that a screen reader gets.
_NAMED = frozenset({"button", "combobox", "figure", "image", "img", "link", "meter", "region", "searchbox", "table"})


def testSuite() -> TestSuite:
    """What trial loads of this module: nothing where no browser is found, which `tests.__main__` tells of."""
    return TestLoader().loadClass(BrowserTests) if find_browser() is not None else TestSuite()


class BrowserTests(SynchronousTestCase):
    """One daemon, one browser, and a person at it."""

    def setUp(self) -> None:
        directory = Path(self.mktemp()).resolve()
        directory.mkdir()
        self.config = directory / "streamd.toml"
        self.rules("")
        self.daemon = Daemon(str(directory / "daemon"), "--config", str(self.config))
        self.addCleanup(self.daemon.close)
        self.daemon.start()
        self.browser = open_browser(directory / "profile")
        self.addCleanup(self.browser.quit)
        self.address = f"http://localhost:{self.daemon.port('http')}/"
        self.shots = os.environ.get("STREAMD_SCREENSHOTS")

    # -- what a person does --------------------------------------------------------------------------------------------

    def wait(self, what: str, look: Callable[[], T | None]) -> T:
        """What is looked for, when it is there."""
        end = time.monotonic() + DEADLINE_SECONDS
        while time.monotonic() < end:
            try:
                if found := look():
                    return found
            except StaleElementReferenceException:
                pass  # the page has moved on
        raise AssertionError(f"no {what}; the page says {self.text('body')[:2000]!r}")

    def text(self, selector: str) -> str:
        return self.browser.find_element(By.CSS_SELECTOR, selector).text

    def texts(self, selector: str) -> list[str]:
        return [each.text for each in self.browser.find_elements(By.CSS_SELECTOR, selector)]

    def open(self, query: str = "") -> None:
        """Open a page, and wait until it lives."""
        self.browser.get(self.address + query)
        self.wait("life", lambda: self.text("#state") == "ready")

    def rules(self, text: str) -> None:
        """Write the daemon's file, with these rules of access."""
        self.config.write_text(f'data_dir = "{self.config.parent}/data"\n{text}')

    def change_rules(self, text: str) -> None:
        """Put other rules in force."""
        self.rules(text)
        self.daemon.log[:] = [line.replace(RELOADED, "") for line in self.daemon.log]
        os.kill(self.daemon.pid, signal.SIGHUP)
        self.daemon.wait_for_line(RELOADED)

    def see_events(self, count: int) -> None:
        """Let so many events go by, as somebody else gets them."""
        with urlopen(f"{self.address}events", timeout=DEADLINE_SECONDS) as stream:
            while count:
                count -= stream.readline().startswith(b"data: ")

    def press(self, *keys: str) -> None:
        ActionChains(self.browser).send_keys(*keys).perform()

    def shoot(self, name: str) -> None:
        """Keep a picture, where somebody wants one."""
        if self.shots:
            os.makedirs(self.shots, exist_ok=True)
            self.browser.save_screenshot(os.path.join(self.shots, f"{name}.png"))

    def complaints(self) -> list[str]:
        """What the browser had to complain of: a script that failed, or something that the policy forbids."""
        return [entry["message"] for entry in self.browser.get_log("browser") if entry["level"] == "SEVERE"]

    def run_script(self, script: str) -> Any:
        return self.browser.execute_script(script)

    def emulate(self, scheme: str) -> None:
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    # -- what is seen --------------------------------------------------------------------------------------------------

    def test_overview(self) -> None:
        """Figures move while something happens, and the plots are drawn."""
        with Sesp(self.daemon) as sesp:
            sesp.ask("#orders")
            sesp.ask("@orders")
            self.open()
            self.wait("segment", lambda: self.texts("#segments th") == ["orders"])
            for number in range(50):
                sesp.ask(f">message {number}")
            self.wait("records", lambda: self.texts("#segments td")[:1] == ["50"])
            self.wait("rate", lambda: self.run_script("return document.querySelectorAll('#latency path').length") == 2)
            self.assertIn("appended", self.run_script("return document.getElementById('throughput-text').textContent"))
            points = (
                "return document.querySelector('#segments .spark polyline').getAttribute('points').split(' ').length"
            )
            self.wait("spark", lambda: self.run_script(points) > 1)
            # Only the page itself is connected beside SESP, and does not count.
            self.wait("connections", lambda: self.text("#now-connections") == "1")
            ActionChains(self.browser).move_to_element(self.browser.find_element(By.ID, "latency")).perform()
            self.wait("crosshair", lambda: "p99" in self.text("#latency .value"))
            self.shoot("overview")
            self.open("?view=system")
            rows = self.wait("protocols", lambda: self.texts("#protocols th"))
            self.assertEqual(rows, ["controller", "faststream", "fujin", "http", "pravega", "sesp", "smq"])
            self.assertIn("after fdatasync", self.text("#store"))
            self.assertIn("message_bytes_max", self.text("#limits"))
            self.assertFalse(self.browser.find_element(By.ID, "live").is_displayed())
        self.shoot("system")
        self.assertEqual(self.complaints(), [])

    def test_sorted(self) -> None:
        """Each column sorts by itself, one way and then the other, and says so."""
        with Sesp(self.daemon) as sesp:
            for name in "bca":
                sesp.ask(f"#{name}")
            for name, count in (("b", 1), ("c", 3), ("a", 2)):
                with Sesp(self.daemon) as writer:
                    writer.ask(f"@{name}")
                    for _ in range(count):
                        writer.ask(">x")
        self.open()
        self.wait("topics", lambda: self.texts("#segments th") == ["a", "b", "c"])
        for key, order in (("name", "cba"), ("messages", "cab"), ("size", "cab"), ("recent", "acb")):
            button = self.browser.find_element(By.CSS_SELECTOR, f"[data-sort={key}]")
            button.send_keys(Keys.ENTER)
            self.wait(key, lambda order=order: self.texts("#segments th") == list(order))  # type: ignore[misc]
            self.assertTrue(
                self.run_script(f"return document.querySelector('[data-sort={key}]').parentElement.ariaSort")
            )
            button.send_keys(Keys.ENTER)
            self.wait(key, lambda order=order: self.texts("#segments th") == list(order)[::-1])  # type: ignore[misc]

    def test_quick_start(self) -> None:
        """Who has no topics reads what to type, with the ports of this daemon; it goes with the first topic."""
        self.open()
        text = self.wait("start", lambda: self.text("#start-text"))
        self.assertIn(f"{self.address}topics/first?create=true", text)
        self.assertIn(f"telnet 127.0.0.1 {self.daemon.port('sesp')}", text)
        with Sesp(self.daemon) as sesp:
            sesp.ask("#first")
        self.wait("topic", lambda: not self.browser.find_element(By.ID, "start").is_displayed())

    def test_many_segments(self) -> None:
        """Thousands are searched, sorted and paged with the keyboard alone, and the address keeps what was asked."""
        with Sesp(self.daemon) as sesp:
            for number in range(1200):
                sesp.ask(f"#topic-{number:04}")
        self.open()
        self.wait("page", lambda: len(self.texts("#segments th")) == 50)
        self.assertEqual(self.text("#page"), "Page 1 of 24")
        self.browser.find_element(By.ID, "later").send_keys(Keys.ENTER)
        self.wait("next page", lambda: self.texts("#segments th")[:1] == ["topic-0050"])
        search = self.browser.find_element(By.ID, "search")
        search.send_keys("PIC-119")
        self.wait("what was searched", lambda: self.texts("#segments th") == [f"topic-119{n}" for n in range(10)])
        self.assertIn("search=PIC-119", self.browser.current_url)
        self.assertNotIn("page=", self.browser.current_url)
        self.browser.refresh()
        self.wait("the same", lambda: len(self.texts("#segments th")) == 10)
        self.browser.find_element(By.ID, "search").send_keys("nothing")
        self.wait("nothing", lambda: "No topic" in self.text("#segments-none"))
        self.assertEqual(self.complaints(), [])

    def test_segment(self) -> None:
        """A segment's records are text, whatever they hold; new ones come by themselves, and old ones are found."""
        with Sesp(self.daemon) as sesp:
            sesp.ask(f"#{HOSTILE}")
            sesp.ask(f"@{HOSTILE}")
            for number in range(45):
                sesp.ask(f">{HOSTILE} {number}")
            self.open()
            link = self.wait("segment", lambda: self.browser.find_elements(By.CSS_SELECTOR, "#segments a"))[0]
            link.send_keys(Keys.ENTER)
            self.wait("records", lambda: len(self.texts("#records summary")) == 20)
            self.assertEqual(self.text("h1#segment-name"), HOSTILE)
            self.assertEqual(self.texts("#records summary")[0], f"{HOSTILE} 44")
            sesp.ask(">something \x01\x02\x03\x04 else \x05\x06")
            self.wait("new one", lambda: "binary" in self.texts("#records li")[0])
        self.assertIn("something .... e", self.texts("#records summary")[0])
        self.shoot("segment")
        self.browser.find_element(By.ID, "older").click()
        self.wait("older", lambda: self.texts("#records summary")[-1:] == [f"{HOSTILE} 6"])
        self.browser.find_element(By.ID, "latest").click()
        self.wait("latest", lambda: "binary" in "".join(self.texts("#records li")[:1]))
        self.assertEqual(self.run_script("return document.images.length"), 0)
        self.assertEqual(self.complaints(), [])

    def test_no_such_segment(self) -> None:
        """A segment that is not there is told, and shown when it is made."""
        self.open("?segment=later")
        self.wait("notice", lambda: "There is no topic" in self.text("#segment-notice"))
        with Sesp(self.daemon) as sesp:
            sesp.ask("#later")
            self.wait("facts", lambda: "none, the next is 0" in self.text("#segment-facts"))

    def test_lost(self) -> None:
        """When the daemon is gone the page says so, and it comes back with it."""
        self.daemon.options += ["--http", f"tcp:{self.daemon.port('http')}:interface=127.0.0.1"]
        self.daemon.options = _last(self.daemon.options, "--http")
        self.open()
        self.assertEqual(self.daemon.terminate(), 0, self.daemon.output)
        self.wait("loss", lambda: self.text("#state") == "no connection")
        self.assertIn("What is shown is of", self.text("#notice"))
        self.shoot("lost")
        self.daemon.start()
        self.wait("return", lambda: self.text("#state") == "ready")
        self.assertFalse(self.browser.find_element(By.ID, "notice").is_displayed())

    def test_not_allowed(self) -> None:
        """Who no rule fits reads what to do; what it was shown before goes, and all comes when a rule does."""
        with Sesp(self.daemon) as sesp:
            for command in ("#orders", "@orders", ">message", "#secret"):
                sesp.ask(command)
        self.open()
        self.wait("segments", lambda: self.texts("#segments th") == ["orders", "secret"])
        self.change_rules('[[access]]\nwho = "user:0"\nallow = ["read"]\n')
        reason = self.wait("reason", lambda: self.text("#notice"))
        self.assertRegex(
            reason, r'^no rule of access matches you: .* with "net:(127\.0\.0\.1|::1)" as who, see \[\[access\]\]'
        )
        self.assertEqual(self.text("#state"), "not allowed")
        self.assertFalse(self.browser.find_element(By.ID, "overview").is_displayed())
        self.shoot("not-allowed")
        self.browser.refresh()
        self.wait("the same", lambda: self.text("#notice") == reason)
        self.change_rules('[[access]]\nwho = "anyone"\nallow = ["write"]\ntopics = ["orders"]\n')
        self.wait("what is allowed", lambda: self.texts("#segments th") == ["orders"])
        self.assertEqual(self.text("#segments-total"), "1, those that you have a right on")
        self.assertFalse(self.browser.find_element(By.ID, "notice").is_displayed())
        self.open("?segment=orders")
        self.wait("no records", lambda: "no right to read" in self.text("#records-none"))
        self.assertIn("0 to 0", self.text("#segment-facts"))
        self.assertEqual(self.texts("#records summary"), [])
        self.browser.get(f"{self.address}?segment=secret")
        self.wait("reason", lambda: "gives you a right on a topic of this name" in self.text("#notice"))

    # -- with the keyboard alone ---------------------------------------------------------------------------------------

    def test_keyboard(self) -> None:
        """Every stop can be seen, none is hidden below the head, and behind the last one the way goes on."""
        with Sesp(self.daemon) as sesp:
            for number in range(60):
                sesp.ask(f"#topic-{number:02}")
        self.open()
        self.wait("segments", lambda: len(self.texts("#segments th")) == 50)
        stops: list[str] = []
        while len(stops) < 100:
            self.press(Keys.TAB)
            name, visible, in_sight = self.run_script(_FOCUS)
            if name.startswith("Skip to the content") and len(name) > 30:
                break  # the page as a whole: the way went on from its last stop
            self.assertTrue(visible and in_sight, (name, visible, in_sight))
            stops.append(name)
        rows = [f"topic-{number:02}" for number in range(50)]
        columns = ["Topic", "Messages", "Size", "Lag", "Written", "State"]
        head = ["Skip to the content", "streamd", "pause", "to-topics", "to-system", "search", *columns]
        self.assertEqual(stops, [*head, *rows, "earlier", "later", "Metrics", "Ready?"])

    def test_skip(self) -> None:
        """The first stop leads to the content, past the head of the page."""
        self.open()
        self.press(Keys.TAB)
        self.shoot("skip")
        self.press(Keys.ENTER, Keys.TAB)
        self.assertEqual(self.run_script(_FOCUS)[0], "to-topics")

    def test_focus_stays(self) -> None:
        """Rows that change their places do not take the focus away, nor does the last page."""
        with Sesp(self.daemon) as sesp:
            for number in range(60):
                sesp.ask(f"#topic-{number:02}")
            self.open("?sort=recent&search=topic-5")
            self.wait("segments", lambda: len(self.texts("#segments a")) == 10)
            last = self.browser.find_elements(By.CSS_SELECTOR, "#segments a")[-1]
            name = last.text
            self.run_script("document.querySelector('#segments tr:last-child a').focus()")
            sesp.ask(f"@{name}")
            sesp.ask(">x")
            self.wait("move", lambda: self.texts("#segments a")[0] == name)
            self.assertEqual(self.run_script(_FOCUS)[0], name)
            self.open()
            self.wait("segments", lambda: len(self.texts("#segments a")) == 50)
            self.browser.find_element(By.ID, "later").send_keys(Keys.ENTER)
            self.wait("last page", lambda: len(self.texts("#segments a")) == 10)
            self.browser.find_element(By.ID, "later").send_keys(Keys.ENTER)
            self.assertEqual(self.run_script(_FOCUS)[0], "later")
            self.assertIn("page=2", self.browser.current_url)

    def test_details(self) -> None:
        """A message opens with the keyboard: JSON is laid out. Another offset is a number away."""
        with Sesp(self.daemon) as sesp:
            for command in ("#a", "@a", *(f'>{{"id": {number}}}' for number in range(30))):
                sesp.ask(command)
        self.open("?segment=a")
        self.wait("messages", lambda: len(self.texts("#records summary")) == 20)
        self.run_script("document.querySelector('#records summary').focus()")
        self.press(Keys.ENTER)
        self.wait("JSON", lambda: self.text("#records details[open] pre") == '{\n  "id": 29\n}')
        self.assertRegex(self.texts("#records .quiet")[0], r":\d\d\.\d{3} (Z|.\d\d:\d\d)$")
        self.browser.find_element(By.ID, "jump").send_keys("3", Keys.ENTER)
        self.wait("offset", lambda: self.texts("#records .record-number")[-1:] == ["3"])
        self.assertEqual(self.complaints(), [])

    def test_pause(self) -> None:
        """What moves can be made to hold still, and go on."""
        with Sesp(self.daemon) as sesp:
            sesp.ask("#a")
            self.open("?segment=a")
            self.wait("segment", lambda: "none, the next is 0" in self.text("#segment-facts"))
            self.browser.find_element(By.ID, "pause").send_keys(Keys.ENTER)
            self.assertEqual((self.text("#state"), self.text("#pause")), ("paused", "Go on"))
            sesp.ask("@a")
            sesp.ask(">x")
            self.see_events(3)
            self.assertEqual(self.texts("#records summary"), [])
            self.browser.find_element(By.ID, "pause").send_keys(Keys.ENTER)
            self.wait("record", lambda: self.texts("#records summary") == ["x"])
            self.assertEqual((self.text("#state"), self.text("#pause")), ("ready", "Pause"))

    # -- how it looks --------------------------------------------------------------------------------------------------

    def test_schemes(self) -> None:
        """Light and dark follow the system."""
        grounds = []
        for scheme in ("light", "dark"):
            self.emulate(scheme)
            self.open()
            grounds.append(self.run_script("return getComputedStyle(document.body).backgroundColor"))
            self.shoot(scheme)
        self.assertEqual(grounds, ["rgb(244, 246, 248)", "rgb(17, 22, 28)"])

    def test_phone(self) -> None:
        """On a phone nothing is wider than the screen; what is, scrolls in its own place."""
        with Sesp(self.daemon) as sesp:
            sesp.ask(f"#{'long-name-' * 20}")
        metrics = {"width": 360, "height": 740, "deviceScaleFactor": 1, "mobile": True}
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        for query in ("", f"?segment={'long-name-' * 20}"):
            self.open(query)
            self.wait("content", lambda: self.texts("#segments th") or self.text("#segment-facts"))
            width = self.run_script("return document.documentElement.scrollWidth")
            self.assertLessEqual(width, 360)
            self.shoot(f"phone{'-segment' if query else ''}")

    def test_names_for_all(self) -> None:
        """Whoever does not see the page hears what each part is: every control and picture has a name."""
        self.open()
        tree = self.browser.execute_cdp_cmd("Accessibility.getFullAXTree", {})
        unnamed = []
        for node in tree["nodes"]:
            role = node.get("role", {}).get("value")
            named = node.get("ignored") or node.get("name", {}).get("value")
            if role in _NAMED and not named:
                unnamed.append(role)
        self.assertEqual(unnamed, [])


def _last(options: list[str], name: str) -> list[str]:
    """The options without all but the last one of a name."""
    at = [place for place, each in enumerate(options) if each == name]
    for place in reversed(at[:-1]):
        del options[place : place + 2]
    return options
