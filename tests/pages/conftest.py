"""Reports of real runs, and Chromium without a window.

The tests marked ``browser`` need selenium (the extra of that name), and Chromium with its driver.
"""

import json
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import onnxcast
from onnxcast_cli import main

ROOT = Path(__file__).parents[2]
MODEL = ROOT / "models/files/digits_resnet_ts.onnx"
SAMPLES = ROOT / "models/files/digits_resnet_ts.npz"

_FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="session")
def report() -> dict[str, Any]:
    """The report of a real run with Casts, a longer chain and a node that is kept wide."""
    result = onnxcast.optimize(
        MODEL,
        fp32_cast="all",
        target="ascend910b",
        keep_ops=["Relu"],
        inputs=SAMPLES,
        drawing=True,
    )
    found: dict[str, Any] = json.loads(result.report.to_json())
    return found


@pytest.fixture(scope="session")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two runs of the zoo, the reports of both, and their page."""
    folder = tmp_path_factory.mktemp("zoo")
    places = ["--cache", str(folder / "cache"), "--expected", str(folder / "expected")]
    tokens = ["--token", "all-fp16", "--token", "matmult"]
    monday = ["edge_captured_subgraph", *tokens[:2]]
    kept = ["--reports", str(folder / "reports")]
    tuesday = ["digits_resnet_ts", "edge_captured_subgraph", *tokens, *kept]
    for day, chosen in {"monday": monday, "tuesday": tuesday}.items():
        main(["zoo", "run", *chosen, *places, "--results", str(folder / f"{day}.jsonl")])
    stores = [str(folder / f"{run}.jsonl") for run in ("monday", "tuesday")]
    page = ["-o", str(folder / "zoo.html"), "--reports", str(folder / "reports")]
    assert main(["zoo", "report", *stores, *page]) == 0
    return folder


class Browser:
    """Chromium, told which page to show; it must be quiet."""

    def __init__(self, driver: Any) -> None:
        self._driver = driver

    def open(self, path: Path) -> float:
        """Show a page; return the seconds until it is ready."""
        start = time.perf_counter()
        self._driver.get(path.as_uri())
        self.wait("document.body?.dataset.ready === 'yes'")
        return time.perf_counter() - start

    def ask(self, script: str, *arguments: object) -> Any:
        """What an expression is in the page."""
        return self._driver.execute_script(f"return {script}", *arguments)

    def wait(self, script: str) -> None:
        """Wait until an expression holds."""
        deadline = time.perf_counter() + 30
        while not self.ask(script):
            assert time.perf_counter() < deadline, f"never: {script}"
            time.sleep(0.02)

    def click(self, selector: str) -> None:
        """Click the first element that a selector finds, as a person would."""
        self._driver.find_element("css selector", selector).click()

    def press(self, selector: str, keys: str) -> None:
        """Give an element the focus, and press keys."""
        self._driver.find_element("css selector", selector).send_keys(keys)

    def resize(self, width: int, height: int) -> None:
        """Give the window another size."""
        self._driver.set_window_size(width, height)

    def prefer(self, scheme: str) -> None:
        """Let the system ask for light or dark pages."""
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self._driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})

    def said(self) -> list[str]:
        """What is on the console."""
        return [entry["message"] for entry in self._log("browser")]

    def requested(self) -> list[str]:
        """The addresses that files asked for, but for those that hold what they name."""
        events = (json.loads(entry["message"])["message"] for entry in self._log("performance"))
        sent = [
            event["params"]["request"]["url"]
            for event in events
            if event["method"] == "Network.requestWillBeSent"
            and event["params"]["documentURL"].startswith("file:")  # else it is Chromium's own
        ]
        return [address for address in sent if not address.startswith("data:")]

    def _log(self, kind: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._driver.get_log(kind)
        return found


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    program = shutil.which("chromium") or shutil.which("google-chrome")
    helper = shutil.which("chromedriver")
    if program is None or helper is None:
        pytest.fail("no Chromium with its driver on the PATH; install chromium and chromium-driver")
    try:
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service
    except ImportError:
        pytest.fail("no selenium; install it by: pip install -e '.[dev,browser]'")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for flag in (*_FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('chromium')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(helper))
    try:
        yield driver
    finally:
        driver.quit()


@pytest.fixture
def browser(chromium: Any) -> Iterator[Browser]:
    """A browser; after each test it must have said nothing and asked for nothing but the page."""
    found = Browser(chromium)
    found.said(), found.requested()
    yield found
    assert found.said() == []
    asked = found.requested()
    assert asked
    assert {address.partition(":")[0] for address in asked} == {"file"}


Written = Callable[[str], Path]


@pytest.fixture
def written(tmp_path: Path) -> Written:
    """Writes a page to a file."""

    def write(page: str) -> Path:
        path = tmp_path / "page.html"
        path.write_text(page, encoding="utf-8")
        return path

    return write
