"""What the code has is documented, what is generated is up to date, and what the documents point at is there."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from docs.reference_pages import REFERENCE, commands, metrics, pages
from typer.core import TyperGroup

from stormjay.cli import app
from stormjay.settings_rows import settings_rows
from tests.repository import markdown
from tests.repository.files import ROOT, files, name_of, python_files, tree_of

DOCUMENTS = [path for path in files() if path.suffix == ".md"]


def reference(name: str) -> str:
    return (REFERENCE / name).read_text(encoding="utf-8")


def leads_somewhere(path: Path, link: str) -> bool:
    """Tell whether a link in the file at ``path`` has its file, inside the repository, and its heading there."""
    target, _, anchor = link.partition("#")
    place = (path.parent / target).resolve() if target else path
    if not place.exists() or not place.is_relative_to(ROOT):
        return False
    return not anchor or anchor in markdown.anchors(place.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_relative_links_lead_somewhere(path: Path) -> None:
    found = markdown.links(path.read_text(encoding="utf-8"))
    assert [link for link in found if not re.match(r"[a-z]+:", link) and not leads_somewhere(path, link)] == []


def test_generated_pages_are_up_to_date() -> None:
    stale = [name for name, text in pages().items() if not (REFERENCE / name).exists() or reference(name) != text]
    assert stale == [], "run: make docs"


def test_every_setting_is_documented() -> None:
    page = reference("settings.md")
    assert [setting.name for setting in settings_rows() if f"`{setting.variable}`" not in page] == []
    assert [alias for setting in settings_rows() for alias in setting.row.aliases if f"`{alias}`" not in page] == []
    assert [setting.name for setting in settings_rows() if not setting.row.text.strip()] == []


def test_every_command_and_option_is_documented_and_has_help() -> None:
    page = reference("commands.md")
    for name, command in commands.commands():
        assert command.help, name
        assert command.hidden or f"## {name}\n" in page
        for parameter in commands.parameters(command):
            assert parameter.help, f"{name} {parameter.name}"


def test_every_metric_is_documented() -> None:
    page = reference("metrics.md")
    declared = metrics.metrics()
    assert len(declared) > 10
    assert [metric.name for metric in declared if f"`{metric.name}`" not in page] == []
    assert [metric.name for metric in declared if not metric.help.strip()] == []


def test_every_route_is_documented_in_words() -> None:
    """The page is made of every route of the application; here each has a purpose beside its path."""
    description = json.loads(reference("openapi.json"))
    operations = {f"{verb} {path}": one for path, item in description["paths"].items() for verb, one in item.items()}
    assert [name for name, operation in operations.items() if not operation.get("summary")] == []
    others = reference("http.md").partition("## Pages and files")[2]
    rows = [line for line in others.splitlines() if line.startswith(("| GET", "| POST"))]
    assert rows
    assert [row for row in rows if not row.split("|")[3].strip()] == []


def test_every_mqtt_topic_is_documented() -> None:
    """A topic is an f-string that begins with the base topic or the discovery prefix; the page has its like."""
    page = reference("mqtt.md")
    found = {topic for path in python_files("src") for topic in _topics(path)}
    assert len(found) >= 5
    assert [topic for topic in sorted(found) if not re.search(f"`{topic}`", page)] == []


def _topics(path: Path) -> Iterator[str]:
    """Yield each topic of a module as a pattern: any one level in the place of what is filled in or a wildcard."""
    for node in ast.walk(tree_of(path)):
        if not isinstance(node, ast.JoinedStr) or len(node.values) < 2:
            continue
        first, second = node.values[:2]
        begins = isinstance(first, ast.FormattedValue) and re.search(r"(base_topic|prefix)$", ast.unparse(first.value))
        if begins and isinstance(second, ast.Constant) and str(second.value).startswith("/"):
            parts = [str(part.value) if isinstance(part, ast.Constant) else "+" for part in node.values]
            yield re.escape("".join(parts)).replace(re.escape("+"), "[^/`]+")


def _verb(call: str) -> str | None:
    """Return what is wrong with the call of a verb, or None."""
    command: object = typer.main.get_command(app)
    words = call.split()[1:]
    if words[:1] == ["--config"]:
        words = words[2:]
    while isinstance(command, TyperGroup) and words and not words[0].startswith("-"):
        choices = words[0].split("|")
        missing = [choice for choice in choices if choice not in command.commands]
        if missing:
            return f"{call}: no verb {missing[0]}"
        command, words = command.commands[choices[0]], words[1:]
    known = {"--help"}
    for parameter in getattr(command, "params", ()):
        known |= {*parameter.opts, *parameter.secondary_opts}
    wrong = [word for word in words if word.startswith("-") and word.partition("=")[0] not in known]
    return f"{call}: no option {wrong[0]}" if wrong else None


def test_every_command_in_the_documents_exists() -> None:
    wrong = [
        f"{name_of(path)}: {fault}"
        for path in DOCUMENTS
        for call in markdown.commands(path.read_text(encoding="utf-8"), "stormjay")
        if (fault := _verb(call)) is not None
    ]
    assert wrong == []


def test_every_setting_in_the_documents_exists() -> None:
    """Keys of TOML examples and ``STORMJAY_`` variables in prose are settings of the table."""
    names = {re.sub(r"<[^>]*>", "*", setting.name) for setting in settings_rows()}
    names |= {f"{re.sub(r'<[^>]*>', '*', setting.name)}_file" for setting in settings_rows() if setting.row.hide}
    variables = {setting.variable for setting in settings_rows()}
    variables |= {f"{setting.variable}_FILE" for setting in settings_rows() if setting.row.hide}
    wrong = []
    for path in DOCUMENTS:
        text = path.read_text(encoding="utf-8")
        wrong += [f"{name_of(path)}: {key}" for key in _toml_keys(text) if not _is_setting(key, names)]
        found = set(re.findall(r"\bSTORMJAY_[A-Z0-9_]*[A-Z0-9]", text)) if path.name != "settings.md" else set()
        wrong += [f"{name_of(path)}: {name}" for name in sorted(found - variables - {"STORMJAY_CONFIG"})]
    assert wrong == []


def _toml_keys(text: str) -> list[str]:
    keys = []
    for block in re.findall(r"```toml\n(.*?)```", text, flags=re.DOTALL):
        section = ""
        for line in block.splitlines():
            if heading := re.fullmatch(r"\[([^\]]+)\]", line.strip()):
                section = heading.group(1)
            elif pair := re.match(r"([a-z_]+)\s*=", line):
                keys.append(f"{section}.{pair.group(1)}" if section else pair.group(1))
    return keys


def _is_setting(key: str, names: set[str]) -> bool:
    bare = re.sub(r'"[^"]*"', "*", key)
    parts = bare.split(".")
    forms = {bare} | {".".join([*parts[:index], "*", *parts[index + 1 :]]) for index in range(len(parts))}
    return bool(forms & names)


def test_every_kind_of_case_has_a_driver() -> None:
    from tests.cases import run  # noqa: PLC0415 - the drivers import the whole product; only this test needs them

    missing = set()
    for path in run.files_in(run.HERE):
        stage = re.search(r'"stage":\s*"([^"]+)"', path.read_text(encoding="utf-8"))
        assert stage is not None, path.name
        missing |= {part for part in run.stages_of(stage.group(1)) if run.driver_of(part) is None}
    assert missing == set()
