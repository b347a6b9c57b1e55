"""A real browser for tests: headless Chromium of the system, driven by its ChromeDriver."""

from __future__ import annotations

import shutil
from pathlib import Path

from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service

_BROWSERS = ("chromium", "chromium-browser", "google-chrome")

# As root, without a screen, and without a word to anybody else: a browser has much to tell its maker at each start.
_FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--hide-scrollbars",
    "--window-size=1300,1100",
)


def find_browser() -> tuple[str, str] | None:
    """Where Chromium and its driver are, where both are installed."""
    browser = next((path for name in _BROWSERS if (path := shutil.which(name))), None)
    driver = shutil.which("chromedriver")
    return (browser, driver) if browser and driver else None


def open_browser(profile: Path, *flags: str) -> Chrome:
    """A browser with an empty profile. Close it with `quit`."""
    found = find_browser()
    assert found is not None, "there is no chromium with its chromedriver: apt-get install chromium chromium-driver"
    browser, driver = found
    options = ChromeOptions()
    options.binary_location = browser
    for flag in (*_FLAGS, f"--user-data-dir={profile}", *flags):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return Chrome(options=options, service=Service(executable_path=driver))
