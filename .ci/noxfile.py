"""The matrix of Pythons and dependencies: `nox -f .ci/noxfile.py`.

Needs nox with uv (`pip install nox[uv]`) and the interpreters that it names. The whole suite, which
takes some minutes each time, is run on request: `nox -f .ci/noxfile.py -s suite lowest_suite`.
"""

from pathlib import Path

import nox

ROOT = Path(__file__).parents[1]
PYTHONS = ["3.10", "3.11", "3.12", "3.13"]

nox.options.sessions = ["installed", "lowest"]
nox.options.default_venv_backend = "uv"
nox.options.error_on_missing_interpreters = True


@nox.session(python=PYTHONS)
def installed(session: nox.Session) -> None:
    """The wheel with the newest dependencies does what a user would first do with it."""
    _smoke(session)


@nox.session(python=PYTHONS[0])
def lowest(session: nox.Session) -> None:
    """So it does with the lowest that pyproject.toml allows."""
    _smoke(session, "--resolution", "lowest-direct")


@nox.session(python=[PYTHONS[0], PYTHONS[-1]])
def suite(session: nox.Session) -> None:
    """All tests on the oldest and the newest Python."""
    session.install(f"{ROOT}[dev]")
    session.chdir(ROOT)
    session.run("pytest")


@nox.session(python=PYTHONS[0])
def lowest_suite(session: nox.Session) -> None:
    """All tests with the lowest dependencies."""
    session.install("--resolution", "lowest-direct", f"{ROOT}[dev]")
    session.chdir(ROOT)
    session.run("pytest")


def _smoke(session: nox.Session, *resolution: str) -> None:
    built = Path(session.create_tmp())
    session.run_install("uv", "build", "--quiet", "--sdist", "--out-dir", built, ROOT)
    (sdist,) = built.glob("onnxcast-*.tar.gz")
    session.run_install("uv", "build", "--quiet", "--wheel", "--out-dir", built, sdist)
    (wheel,) = built.glob("onnxcast-*.whl")
    session.install(*resolution, wheel)
    session.install("pytest")
    # From elsewhere, so that nothing of the checkout is imported.
    session.chdir(built)
    session.run("pytest", "--noconftest", "-p", "no:cacheprovider", ROOT / ".ci" / "smoke.py")
