"""Settings: sources in order, types, suggestions, secrets, and what is required together."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stormjay import settings
from stormjay.errors import SettingsError
from stormjay.settings_rows import settings_rows

KEY = "a-key-that-is-long"


class Place:
    """A folder with a settings file and an environment."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {"HOME": str(folder / "home")}

    def toml(self, text: str) -> None:
        (self.folder / "stormjay.toml").write_text(text, encoding="utf-8")

    def load(self, *enable: str, **environment: str) -> settings.Loaded:
        return settings.load(environment={**self.environment, **environment}, folder=self.folder, enable=enable)

    def problems(self, *enable: str, **environment: str) -> tuple[str, ...]:
        with pytest.raises(SettingsError) as caught:
            self.load(*enable, **environment)
        return caught.value.details


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_defaults_need_nothing_and_lie_under_the_users_data_folder(place: Place) -> None:
    loaded = place.load()
    assert loaded.file is None
    assert loaded.settings.web.port == 8420
    assert loaded.settings.data_dir == str(place.folder / "home/.local/share/stormjay")
    assert loaded.settings.journal_file == place.folder / "home/.local/share/stormjay/weatherstation.db"
    assert all(origin == "default" for _, _, origin in loaded.explain())


def test_xdg_data_home_moves_the_data_folder(place: Place) -> None:
    assert place.load(XDG_DATA_HOME="/x").settings.data_dir == "/x/stormjay"
    assert place.load(STORMJAY_DATA_DIR="/y").settings.store_file == Path("/y/store.db")
    assert place.load(WEATHERSTATION_DB_PATH="/z/w.db").settings.journal_file == Path("/z/w.db")


def test_each_source_beats_the_one_before(place: Place) -> None:
    place.toml('[weather.delivery]\napi_url = "https://file.example"\n')
    assert place.load().settings.weather.delivery.api_url == "https://file.example"
    (place.folder / ".env").write_text("API_URL='https://envfile.example'\n", encoding="utf-8")
    loaded = place.load()
    assert loaded.settings.weather.delivery.api_url == "https://envfile.example"
    assert str(loaded.origins["weather", "delivery", "api_url"]).endswith(".env: API_URL")
    seed = {"API_URL": "https://seed.example"}
    assert place.load(**seed).settings.weather.delivery.api_url == "https://seed.example"
    ours = {**seed, "STORMJAY_WEATHER__DELIVERY__API_URL": "https://ours.example"}
    loaded = place.load(**ours)
    assert loaded.settings.weather.delivery.api_url == "https://ours.example"
    assert str(loaded.origins["weather", "delivery", "api_url"]) == "environment: STORMJAY_WEATHER__DELIVERY__API_URL"


def test_every_variable_of_the_seeds_is_taken(place: Place) -> None:
    weather = place.load(
        API_URL="https://api.example/",
        API_KEY=KEY,
        MESHTASTIC_DEVICE="/dev/ttyUSB0",
        MESHTASTIC_RECONNECT_DELAY_SEC="7",
        MESHTASTIC_WATCHDOG_ENABLED="off",
        MESHTASTIC_WATCHDOG_TIMEOUT_SEC="120",
        DB_RETENTION_ENABLED="yes",
        DB_RETENTION_DAYS="30",
        DB_RETENTION_BATCH_SIZE="10",
        DB_RETENTION_MAX_BATCHES="5",
        TABLE_NAME="Other",
        API_SHARED_SECRET=KEY,
        ALLOWED_CORS_ORIGIN="https://page.example",
    ).settings.weather
    assert (weather.delivery.api_key, weather.cloud.api_shared_secret) == (KEY, KEY)
    assert weather.radio.source == "serial:///dev/ttyUSB0"
    assert (weather.radio.reconnect_delay_seconds, weather.radio.watchdog_enabled) == (7, False)
    assert weather.radio.watchdog_timeout_seconds == 120
    assert (weather.retention.enabled, weather.retention.days) == (True, 30)
    assert (weather.retention.batch_size, weather.retention.max_batches) == (10, 5)
    assert (weather.cloud.table_name, weather.cloud.allowed_cors_origin) == ("Other", "https://page.example")


@pytest.mark.parametrize("text", [
    "[weather.delivery]\nschedule_seconds = [30, nan]", "[weather.ranges]\ntemp_c = [-inf, inf]",
    '[weather.delivery]\napi_key = "a\\r\\nb: c"', '[weather.cloud]\nallowed_cors_origin = "*\\r\\nx: y"',
    '[weather]\ndatabase = "a\\u0000b"', '[weather.cloud]\ntable_name = "sqlite_master"',
    "[web]\nport = " + "9" * 5000, "a = " + "[" * 3000 + "]" * 3000,
], ids=lambda text: text[:30])  # fmt: skip
def test_what_would_break_a_part_later_is_refused_at_once(place: Place, text: str) -> None:
    (place.folder / "stormjay.toml").write_text(text, encoding="utf-8")
    assert len(place.problems()) == 1


def test_a_blank_variable_of_the_seeds_counts_as_absent(place: Place) -> None:
    problems = place.problems("weather.delivery", API_URL=" ", API_KEY="")
    assert [problem.split(" is missing")[0] for problem in problems] == [
        "weather.delivery.api_url",
        "weather.delivery.api_key",
    ]
    assert "STORMJAY_WEATHER__DELIVERY__API_KEY" in problems[1]


def test_the_env_file_is_read_as_the_seeds_worker_reads_it(place: Place) -> None:
    file = place.folder / "worker.env"
    file.write_text('# comment\n\nexport API_URL="https://a.example"\nAPI_KEY=k=v\nOTHER=1\n', encoding="utf-8")
    delivery = place.load(WEATHERSTATION_ENV_PATH=str(file)).settings.weather.delivery
    assert (delivery.api_url, delivery.api_key) == ("https://a.example", "k=v")
    file.write_text("API_URL https://a.example\n", encoding="utf-8")
    assert place.problems(WEATHERSTATION_ENV_PATH=str(file)) == (f"{file} line 1: there is no = in it",)
    assert "no file" in place.problems(WEATHERSTATION_ENV_PATH="/nowhere/.env")[0]


def test_tables_of_entries_work_from_the_environment(place: Place) -> None:
    weather = place.load(
        STORMJAY_WEATHER__STATIONS__5C32D4D9__NAME="Garden",
        STORMJAY_WEATHER__STATIONS__5C32D4D9__ELEVATION_M="412.5",
        STORMJAY_WEATHER__RANGES__PRESSURE_HPA="550, 1200",
        STORMJAY_WEATHER__ALLOW_CHANNELS="[0, 2]",
        STORMJAY_WEATHER__DESTINATIONS__ATTIC__API_URL="http://attic.example",
        STORMJAY_WEATHER__DESTINATIONS__ATTIC__API_KEY=KEY,
        STORMJAY_WEATHER__DESTINATIONS__ATTIC__FROM="start",
    ).settings.weather
    assert weather.stations["!5c32d4d9"].name == "Garden"
    assert weather.stations["!5c32d4d9"].elevation_m == 412.5
    assert weather.ranges == {"pressure_hpa": (550.0, 1200.0)}
    assert weather.allow_channels == (0, 2)
    assert weather.destinations["attic"].start_from == "start"


def test_an_entry_that_is_only_named_exists(place: Place) -> None:
    place.toml('[weather.stations."!5c32d4d9"]\n')
    assert list(place.load().settings.weather.stations) == ["!5c32d4d9"]


def test_secrets_come_from_files_too(place: Place) -> None:
    secret = place.folder / "secret"
    secret.write_text(f"{KEY}\n", encoding="utf-8")
    place.toml(f'[weather.cloud]\napi_shared_secret = "other"\napi_shared_secret_file = "{secret}"\n')
    loaded = place.load(API_KEY_FILE=str(secret), STORMJAY_WEATHER__STATIONS__5C32D4D9__KEY_FILE=str(secret))
    weather = loaded.settings.weather
    assert (weather.delivery.api_key, weather.cloud.api_shared_secret) == (KEY, KEY)
    assert weather.stations["!5c32d4d9"].key == KEY
    assert "API_KEY_FILE" in str(loaded.origins["weather", "delivery", "api_key"])
    assert "cannot be read" in place.problems(API_KEY_FILE="/nowhere/key")[0]


def test_a_plain_row_has_no_file_sibling(place: Place) -> None:
    assert "is not a setting" in place.problems(STORMJAY_WEB__PORT_FILE="/etc/port")[0]


def test_all_problems_are_told_at_once_with_place_and_suggestion(place: Place) -> None:
    place.toml(
        '[web]\nprot = 1\nport = "x"\n[weather]\napi_url = "http://x"\n[weather.delivery]\nbatch_size = 0\n'
        '[weather.ranges]\npresure_hpa = [1, 2]\nhumidity_pct = [2, 1]\n[weather.stations.garden]\nname = "a"\n'
    )
    problems = place.problems("weather.bridge", STORMJAY_WEATHER__BRIGDE__ENABLED="1", MESHTASTIC_WATCHDOG_ENABLED="2")
    text = "\n".join(problems)
    assert "[web] prot is not a setting; did you mean web.port?" in text
    assert "[web] port must be a whole number from 0 to 65535, not x" in text
    assert "[weather] api_url is not a setting; did you mean weather.delivery.api_url?" in text
    assert "[weather.delivery] batch_size must be a whole number from 1 to 1000, not 0" in text
    assert "STORMJAY_WEATHER__BRIGDE__ENABLED is not a setting; did you mean weather.bridge.enabled?" in text
    assert "MESHTASTIC_WATCHDOG_ENABLED must be yes or no, not 2" in text
    assert "weather.ranges.presure_hpa is no column of weather_readings; did you mean pressure_hpa?" in text
    assert "weather.ranges.humidity_pct ends (1) before it begins (2)" in text
    assert "'garden' must be a node id" in text
    assert "weather.bridge.output is missing" in text
    assert len(problems) == 10


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("[web\n", "cannot be read"),
        ("web = 3\n", "web is not a setting"),
        ("[web.port]\nx = 1\n", "must be a whole number"),
        ("[nonsense]\n", "nonsense"),
        ("[web]\nport = true\n", "must be a whole number"),
        ("[weather]\nlow_battery_v = nan\n", "must be a number"),
        ('[weather.delivery]\napi_url = "ftp://x"\n', "begins with http:// or https://"),
        ('[weather.delivery]\napi_url = "http://[x"\n', "begins with http:// or https://"),
        ("[weather.delivery]\nschedule_seconds = []\n", "at least one pause"),
        ("[weather.delivery]\nschedule_seconds = [0]\n", "number from 1 to"),
        ('[weather.delivery]\norder = "random"\n', "one of oldest, newest"),
        ("[weather]\nstale_after_seconds = 7200\n", "must be more than"),
        ('[weather]\nallow_nodes = ["5c32d4d9"]\n', "no node id"),
        ('[mqtt]\nbase_topic = "a/#"\n', "must be a topic"),
        ('[web.tokens.a]\ntoken = "short"\nscopes = ["read"]\n', "at least 16 characters"),
        ('[web.tokens.a]\nscopes = ["all"]\n', "one of weather:write, read, admin"),
        (f'[web.tokens.a]\ntoken = "{KEY}"\nscopes = ["read"]\nexpires = "soon"\n', "web.tokens.a.expires"),
        ('[weather.stations."!5c32d4d9"]\ntime_zone = "Mars/Base"\n', "must be a zone such as"),
        ('[weather.stations."!5c32d4d9"]\nlatitude = 47\n', "only one of latitude and longitude"),
        ("[weather.destinations.b]\n", "weather.destinations.b.api_key is missing"),
        ('[weather.destinations."B c"]\nfrom = "now"\n', "must be a name"),
        ("[weather.cloud]\nenabled = true\n", "weather.cloud.api_shared_secret is missing"),
        ("[weather.radio]\nenabled = true\n", "weather.radio.source is missing"),
    ],
)
def test_a_faulty_file_is_told_in_words(place: Place, text: str, part: str) -> None:
    place.toml(text)
    assert any(part in problem for problem in place.problems()), place.problems()


def test_problems_never_show_a_secret(place: Place) -> None:
    place.toml('[weather.delivery]\napi_key = ["hush-hush"]\napi_url = "ftp://user:hush-hush@host"\n')
    assert "hush-hush" not in "\n".join(place.problems())


def test_a_named_file_must_exist_and_beats_the_usual_places(place: Place) -> None:
    place.toml("[web]\nport = 1\n")
    other = place.folder / "other.toml"
    other.write_text("[web]\nport = 2\n", encoding="utf-8")
    assert place.load(STORMJAY_CONFIG=str(other)).settings.web.port == 2
    assert "no such settings file" in place.problems(STORMJAY_CONFIG="/nowhere.toml")[0]
    config_home = place.folder / "config"
    (config_home / "stormjay").mkdir(parents=True)
    (config_home / "stormjay/stormjay.toml").write_text("[web]\nport = 3\n", encoding="utf-8")
    (place.folder / "stormjay.toml").unlink()
    assert place.load(XDG_CONFIG_HOME=str(config_home)).settings.web.port == 3


def test_explain_hides_secrets_and_names_origins(place: Place) -> None:
    shown = {
        name: (value, origin)
        for name, value, origin in place.load(
            API_KEY=KEY,
            STORMJAY_MQTT__URL="mqtt://me:pass@broker.example:1883",
            STORMJAY_WEB__TOKENS__GRAFANA__TOKEN=KEY,
            STORMJAY_WEB__TOKENS__GRAFANA__SCOPES="read",
        ).explain()
    }
    assert shown["weather.delivery.api_key"] == (settings.MASK, "environment: API_KEY")
    assert shown["mqtt.url"][0] == f"mqtt://me:{settings.MASK}@broker.example:1883"
    assert shown["web.tokens.grafana.token"][0] == settings.MASK
    assert shown["web.tokens.grafana.scopes"][0] == '["read"]'
    assert shown["weather.cloud.api_shared_secret"] == ("", "default")


def test_the_template_is_valid_and_changes_nothing(place: Place) -> None:
    place.toml(settings.toml_template())
    loaded = place.load()
    assert not loaded.origins
    place.toml(settings.toml_template({"web.port": "99"}))
    assert place.load().settings.web.port == 99


def test_every_line_of_the_template_is_a_setting_when_uncommented() -> None:
    text = "\n".join(
        line.removeprefix("# ")
        for line in settings.toml_template().splitlines()
        if not line.startswith("#") or line.startswith("# [") or " = " in line.split("(")[0]
    )
    tables = tomllib.loads(text)
    assert tables["weather"]["stations"]["!5c32d4d9"]["elevation_m"] == 0
    assert tables["weather"]["delivery"]["schedule_seconds"] == [30, 120, 600, 1800]


def test_the_reference_names_every_row_variable_and_alias() -> None:
    reference = settings.reference_markdown()
    for row in settings_rows():
        assert f"`{row.variable}`" in reference
        assert row.row.text in reference
        assert all(f"`{alias}`" in reference for alias in row.row.aliases)


def test_names_and_aliases_are_unique_and_defaults_fit_their_own_rows() -> None:
    rows = settings_rows()
    assert len({row.variable for row in rows}) == len(rows)
    aliases = [alias for row in rows for alias in row.row.aliases]
    assert len(set(aliases)) == len(aliases)
    for row in rows:
        if row.default is not None:
            assert row.convert(row.default, is_text=False) == row.default


@given(
    st.dictionaries(st.sampled_from([row.variable for row in settings_rows() if "<" not in row.variable]), st.text())
)
def test_any_text_in_a_variable_is_taken_or_told(variables: dict[str, str]) -> None:
    try:
        settings.load(environment={"HOME": "/nowhere", **variables}, folder=Path("/nowhere"))
    except SettingsError as error:
        assert error.details  # noqa: PT017 - either outcome is right; only another exception is not
