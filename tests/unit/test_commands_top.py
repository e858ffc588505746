"""What the verbs for the whole installation make of an answer."""

from __future__ import annotations

from stormjay.commands import status_for_people


def test_a_status_for_people_has_one_line_per_figure_that_says_something() -> None:
    answer = {
        "ok": True,
        "statistics": [
            {"name": "delivery_waiting", "label": "Waiting for delivery", "labels": {"destination": "api"}, "value": 3},
            {"name": "weather_texts", "label": "Texts", "labels": {}, "value": 7},
            {"name": "last_success_timestamp_seconds", "label": "Last delivery", "labels": {}, "value": 1.7e9},
            {"name": "nothing", "label": "Nothing yet", "labels": {}, "value": 0},
            {"name": "for_machines_only", "label": "", "labels": {}, "value": 5},
        ],
    }
    assert status_for_people(answer) == {"ok": True, "statistics": {"Waiting for delivery (api)": 3, "Texts": 7}}
