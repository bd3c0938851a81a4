"""The house keeps its order: who imports whom, and what the repository may hold."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "dflash_viz"
# What each package of ours may import from the others; the data flows one way.
ALLOWED = {
    "hooks": set(),
    "weights": set(),
    "trace": set(),
    "lanes": {"hooks.wire", "trace", "weights"},
    "results": {"trace"},
    "metrics": {"trace", "results"},
    "views": {"metrics", "trace", "results"},
    "space": {"lanes", "weights.resolver"},
    "ui": {"lanes", "trace", "results", "metrics", "views", "weights", "bench", "space"},
    "bench": {"hooks.wire", "lanes", "trace", "results", "metrics", "weights"},
}


def imports(file: Path) -> set[str]:
    """Every module that a file imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: relative import"
            found.add(node.module or "")
    return found


def files(package: str) -> list[Path]:
    return sorted((PACKAGE / package).rglob("*.py"))


def test_only_hooks_import_vllm_and_only_ui_imports_gradio() -> None:
    for file in [*PACKAGE.rglob("*.py"), ROOT / "app.py"]:
        tops = {name.partition(".")[0] for name in imports(file)}
        package = file.relative_to(ROOT).parts[1] if file.is_relative_to(PACKAGE) else "app"
        assert "vllm" not in tops or package == "hooks", file
        assert "gradio" not in tops or package in ("ui", "app"), file


def test_data_flows_one_way() -> None:
    packages = {p.parent.name for p in PACKAGE.glob("*/__init__.py")}
    assert packages == set(ALLOWED)
    for package, allowed in ALLOWED.items():
        for file in files(package):
            for name in imports(file):
                if not name.startswith("dflash_viz."):
                    continue
                inner = name.removeprefix("dflash_viz.")
                own = inner.partition(".")[0] == package
                assert own or any(inner == a or inner.startswith(a + ".") for a in allowed), (
                    f"{file} imports {name}"
                )


def test_the_app_builds_without_vllm_and_torch() -> None:
    code = (
        "import sys; sys.modules.update(vllm=None, torch=None, transformers=None);"
        "from dflash_viz.ui import create_app; create_app(None, [])"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, timeout=120)


def test_no_file_is_too_large_for_a_space() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    names = [name for name in listed.stdout.split("\0") if name]
    assert names
    too_large = [n for n in names if (ROOT / n).is_file() and (ROOT / n).stat().st_size > 10_000_000]
    assert not too_large


def tracked() -> list[Path]:
    """Every text file of the repository."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    paths = [ROOT / name for name in listed.stdout.split("\0") if name]
    return [p for p in paths if p.is_file() and p.suffix not in {".safetensors", ".gz", ".png"}]


def test_links_in_the_documents_lead_somewhere() -> None:
    documents = [p for p in tracked() if p.suffix == ".md"]
    assert len(documents) >= 4
    for document in documents:
        for target in re.findall(r"\]\(([^)#]+)", document.read_text()):
            if not target.startswith("http"):
                assert (document.parent / target).exists(), f"{document.name}: {target}"


def test_the_repository_speaks_of_the_product_alone() -> None:
    words = [
        "/wo" + "rk/",
        "/ro" + "ot/",
        "TO" + "DO",
        "FIX" + "ME",
        "pypi" + ".org",
        "NotImplemented" + "Error",
    ]
    for path in tracked():
        text = path.read_text(errors="replace")
        assert not [word for word in words if word in text], path
