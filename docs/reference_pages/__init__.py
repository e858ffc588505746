"""The reference pages that are written from the code; ``pages()`` is the whole of it.

A test compares what it returns with what is kept in ``docs/reference``.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from docs.reference_pages.commands import commands_page
from docs.reference_pages.database import database_page
from docs.reference_pages.http import http_pages
from docs.reference_pages.metrics import metrics_page
from docs.reference_pages.mqtt import mqtt_page
from stormjay.settings_reference import reference_markdown

REFERENCE = Path(__file__).parents[1] / "reference"


def pages() -> dict[str, str]:
    """Return the text of every generated file by its name in ``docs/reference``."""
    http_page, description = asyncio.run(http_pages())
    return {
        "settings.md": reference_markdown(),
        "commands.md": commands_page(),
        "metrics.md": metrics_page(),
        "mqtt.md": mqtt_page(),
        "database.md": database_page(),
        "http.md": http_page,
        "openapi.json": json.dumps(description, indent=1, sort_keys=True, ensure_ascii=False) + "\n",
    }
