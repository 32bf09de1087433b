"""What an entry of the catalogue says of a model: where it comes from, on what it is run."""

__all__ = ["Entry", "Exported", "Installed", "Made", "Origin", "Packaged", "Tolerance", "Wheel"]

import dataclasses
from typing import TypeAlias


@dataclasses.dataclass(frozen=True)
class Packaged:
    """A file of this package.

    Attributes:
        file: Its name in ``files/``.
    """

    file: str

    def __str__(self) -> str:
        return "packaged"


@dataclasses.dataclass(frozen=True)
class Made:
    """A model that seeded code of ours builds, with its samples.

    Attributes:
        module: The module of `onnxcast_models.recipes` that has the code.
    """

    module: str

    def __str__(self) -> str:
        return "seeded code"


@dataclasses.dataclass(frozen=True)
class Installed:
    """A file that a package which onnxcast needs anyway brings along.

    Attributes:
        package: Name of the package, as it is imported.
        member: Path of the model in it.
        sha256: Of the member, in hex.
    """

    package: str
    member: str
    sha256: str

    def __str__(self) -> str:
        return self.package


@dataclasses.dataclass(frozen=True)
class Wheel:
    """A member of a wheel that a package registry has.

    Attributes:
        package: Name of the package.
        version: The exact version.
        member: Path of the model inside the wheel.
        sha256: Of the member, in hex.
    """

    package: str
    version: str
    member: str
    sha256: str

    def __str__(self) -> str:
        return f"{self.package}=={self.version}"


@dataclasses.dataclass(frozen=True)
class Exported:
    """A model that a seeded recipe exports: random weights, or trained on the spot.

    Attributes:
        module: The module of `onnxcast_models.recipes` that has the recipe.
        needs: The packages that it imports; all are in the extra ``zoo``.
    """

    module: str
    needs: tuple[str, ...]

    def __str__(self) -> str:
        return f"recipe, {self.needs[-1]}"


Origin: TypeAlias = Packaged | Made | Installed | Wheel | Exported


@dataclasses.dataclass(frozen=True)
class Tolerance:
    """What passes for one model instead of the format's default.

    Attributes:
        value: As for ``onnxcast optimize --tolerance``.
        reason: Why the default does not fit.
    """

    value: float
    reason: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Entry:
    """One model.

    Attributes:
        name: Names its files, too.
        kind: What it does.
        licence: SPDX expression of the model's licence.
        origin: Where it comes from.
        tags: What to choose it by.
        tolerance: None for the defaults of the formats.
    """

    name: str
    kind: str
    licence: str
    origin: Origin
    tags: frozenset[str] = frozenset()
    tolerance: Tolerance | None = None
