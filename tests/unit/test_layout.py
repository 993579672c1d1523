"""Where tests and their helpers lie: unit tests as the package does, helpers in tests/support, and no test imports another."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.project import PROJECT

# What unit tests mirror: a folder of theirs is one below these, or has the name of another package at the top of the project.
PACKAGE = "plugins/streams_recovery"
BESIDE = ("bench", "documentation", "embedded", "spark_jobs")


def stray_imports(root: Path) -> list[str]:
    """Test modules that something imports."""
    found = []
    for path in sorted((root / "tests").rglob("*.py")):
        names = {name for name in imported_names(path.read_text()) if name.startswith("tests.")}
        found += [f"{path.relative_to(root)} imports {name}" for name in sorted(names) if is_test(root, name)]
    return found


def imported_names(text: str) -> set[str]:
    """The dotted names that a module imports, anywhere in it: modules, and what is taken from them."""
    return {name for node in ast.walk(ast.parse(text)) for name in _names(node)}


def _names(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module is not None:
        # What is imported may be a module itself.
        yield from (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))


def is_test(root: Path, name: str) -> bool:
    """True for the dotted name of a test module or of a ``conftest.py``."""
    path = root.joinpath(*name.split(".")).with_suffix(".py")
    return path.is_file() and (path.name.startswith("test_") or path.name == "conftest.py")


def stray_folders(root: Path) -> list[str]:
    """Folders of unit tests that mirror nothing."""
    unit = root / "tests" / "unit"
    folders = {path.parent.relative_to(unit) for path in unit.rglob("*.py")} - {Path()}
    return [str(folder) for folder in sorted(folders) if not (root / mirrored(folder)).is_dir()]


def mirrored(folder: Path) -> Path:
    """The folder whose modules the unit tests of a folder are about."""
    return folder if folder.parts[0] in BESIDE else PACKAGE / folder


def stray_helpers(root: Path) -> list[str]:
    """Modules that hold neither tests nor fixtures, and lie beside those that do."""
    tests = root / "tests"
    found = (path.relative_to(tests) for path in sorted(tests.rglob("*.py")))
    return [str(path) for path in found if path.parts[0] != "support" and not path.name.startswith("test_") and path.name != "conftest.py"]


def test_nothing_imports_a_test_module() -> None:
    assert stray_imports(PROJECT) == [], "what several tests need belongs into tests/support, a fixture into the nearest conftest.py"


def test_unit_tests_lie_as_the_package_does() -> None:
    assert stray_folders(PROJECT) == [], f"tests/unit has the folders of {PACKAGE}"


def test_helpers_lie_in_support() -> None:
    assert stray_helpers(PROJECT) == [], "helpers belong into tests/support, in the folder of their subject"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project whose tests lie as they should."""
    for file in ("unit/core/test_a.py", "unit/embedded/demo/test_b.py", "unit/conftest.py", "support/kafka/rows.py", "system/test_c.py"):
        path = tmp_path / "tests" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("from tests.support.kafka import rows\nfrom tests.support.kafka.rows import row\n")
    (tmp_path / PACKAGE / "core").mkdir(parents=True)
    (tmp_path / "embedded" / "demo").mkdir(parents=True)
    return tmp_path


def test_a_project_in_order_has_nothing_to_find(project: Path) -> None:
    assert (stray_imports(project), stray_folders(project), stray_helpers(project)) == ([], [], [])


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("from tests.unit.core.test_a import row\n", "tests.unit.core.test_a"),
        ("from tests.unit.core import test_a\n", "tests.unit.core.test_a"),
        ("def test():\n    import tests.unit.core.test_a\n", "tests.unit.core.test_a"),
        ("from tests.unit.conftest import row\n", "tests.unit.conftest"),
    ],
)
@pytest.mark.parametrize("file", ["system/test_c.py", "support/kafka/rows.py"])
def test_an_import_of_a_test_module_is_found_wherever_it_stands(project: Path, file: str, text: str, name: str) -> None:
    (project / "tests" / file).write_text(text)
    assert stray_imports(project) == [f"tests/{file} imports {name}"]


@pytest.mark.parametrize("folder", ["rooms", "core/rooms", "embedded/rooms", "streams_recovery"])
def test_a_folder_that_mirrors_nothing_is_found(project: Path, folder: str) -> None:
    path = project / "tests" / "unit" / folder / "test_a.py"
    path.parent.mkdir()
    path.touch()
    assert stray_folders(project) == [folder]


@pytest.mark.parametrize("file", ["unit/core/values.py", "helpers.py", "system/rows.py"])
def test_a_helper_beside_tests_is_found(project: Path, file: str) -> None:
    (project / "tests" / file).touch()
    assert stray_helpers(project) == [file]


# Where code may take something from a folder of the package.
USERS = (PACKAGE, "tests", "dags", "spark_jobs", "documentation", "embedded", "bench", "examples")


def taken(root: Path) -> set[str]:
    """The dotted names that are imported anywhere, and the attributes of what was imported that are used."""
    found: set[str] = set()
    for path in (one for folder in USERS for one in (root / folder).rglob("*.py")):
        tree = ast.parse(path.read_text())
        nodes = list(ast.walk(tree))
        found |= {name for node in nodes for name in _names(node)}
        known = {
            alias.asname or alias.name: f"{one.module}.{alias.name}"
            for one in nodes
            if isinstance(one, ast.ImportFrom)
            for alias in one.names
        }
        uses = (node for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name))
        found |= {f"{known[node.value.id]}.{node.attr}" for node in uses if node.value.id in known}
    return found


def idle_offers(root: Path) -> list[str]:
    """What a folder of the package imports from its modules, so that others take it from there, and does not use itself, although nobody takes it."""
    used, found = taken(root), set[str]()
    for path in (root / PACKAGE).rglob("__init__.py"):
        tree = ast.parse(path.read_text())
        folder = ".".join(path.parent.relative_to(root / "plugins").parts)
        own = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        imports = (node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module != "__future__")
        offered = {alias.asname or alias.name for node in imports for alias in node.names}
        found |= {f"{folder}.{name}" for name in offered - own} - used
    return sorted(found)


def test_a_folder_offers_only_what_is_taken_from_it() -> None:
    assert idle_offers(PROJECT) == [], "import it where it is used, or nowhere"


def test_what_nobody_takes_from_a_folder_is_found(tmp_path: Path) -> None:
    folder = tmp_path / PACKAGE / "operations"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("from streams_recovery.operations.one import called, imported, left, used\n\nkept = used\n")
    (folder / "user.py").write_text(
        "from streams_recovery import operations\nfrom streams_recovery.operations import imported\n\noperations.called()\n"
    )
    assert idle_offers(tmp_path) == ["streams_recovery.operations.left"]
