"""What `trivet up` makes of its options and of the last time."""

from __future__ import annotations

from pathlib import Path

import pytest

from flows.running.settings import Settings
from flows.service.api import Refused
from flows.service.place import Place, ServiceSettings, UpOptions, differences, read_last_settings, settle_settings
from flows.service.served_collections import Folders

BEFORE = settle_settings(UpOptions(port=4300), None, {}, secret="key")
CPU = settle_settings(UpOptions(pools=("cpu",)), None, {}, secret="key")


def settled(wanted: UpOptions, before: ServiceSettings | None = None, **environment: str) -> ServiceSettings:
    return settle_settings(wanted, before, environment, secret="key")


@pytest.mark.parametrize(
    ("wanted", "before", "port", "pools"),
    [
        (UpOptions(), None, 4200, ("cpu", "gpu")),
        (UpOptions(), BEFORE, 4300, ("cpu", "gpu")),
        (UpOptions(), CPU, 4200, ("cpu",)),
        (UpOptions(port=4400, pools=("gpu",)), BEFORE, 4400, ("gpu",)),
    ],
    ids=["first", "as before", "pools as before", "others"],
)
def test_what_nobody_names_stays_as_it_was(
    wanted: UpOptions, before: ServiceSettings | None, port: int, pools: tuple[str, ...]
) -> None:
    asked = settled(wanted, before)
    assert (asked.port, asked.pools) == (port, pools)


@pytest.mark.parametrize("server", ["http://host:4200", "http://host:4200/", "http://host:4200/api"])
def test_a_server_is_named_with_or_without_its_api(server: str) -> None:
    asked = settled(UpOptions(workers_only=True), PREFECT_API_URL=server)
    assert (asked.api_url, asked.ui_url) == ("http://host:4200/api", "http://host:4200")


def test_another_server_is_a_change() -> None:
    elsewhere = settled(UpOptions(workers_only=True), BEFORE, PREFECT_API_URL="http://host")
    assert differences(BEFORE, elsewhere) == ["server"]


def test_joining_ones_own_server_is_refused() -> None:
    with pytest.raises(Refused, match="own server"):
        settled(UpOptions(workers_only=True), BEFORE, PREFECT_API_URL="http://127.0.0.1:4300/api")


@pytest.mark.parametrize(
    ("wanted", "said"),
    [(UpOptions(), []), (UpOptions(port=4301), ["port"]), (UpOptions(pools=("cpu",)), ["pools"])],
    ids=["nothing", "port", "gpu"],
)
def test_what_has_changed_is_said(wanted: UpOptions, said: list[str]) -> None:
    assert differences(BEFORE, settled(wanted, BEFORE)) == said


@pytest.mark.parametrize(
    "name",
    [
        *("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "MY_GATEWAY_KEY", "HF_TOKEN", "AWS_SECRET_ACCESS_KEY"),
        *("TRIVET_MODELS", "TRIVET_DATA_DIR", "TRIVET_SANDBOX_PYTHON", "DATABASE_URL", "PGPASSWORD", "OPENAI_BASE_URL"),
        *("CUDA_VISIBLE_DEVICES", "VLLM_CPU_KVCACHE_SPACE", "OMP_NUM_THREADS", "PREFECT_LOGGING_LEVEL", "https_proxy"),
    ],
)
def test_a_variable_that_changed_is_named_and_not_shown(name: str) -> None:
    none, old, new = (settled(UpOptions(), None, **values) for values in ({}, {name: "s-old"}, {name: "s-new"}))
    assert differences(none, old) == differences(old, new) == differences(new, none) == [f"the variable {name}"]
    assert "s-new" not in new.model_dump_json()


@pytest.mark.parametrize("field", sorted(set(Settings.model_fields) - {"home"}))
def test_no_setting_changes_unnoticed(field: str) -> None:
    name = str(Settings.model_fields[field].validation_alias)
    assert differences(settled(UpOptions()), settled(UpOptions(), None, **{name: "new"})) == [f"the variable {name}"]


@pytest.mark.parametrize("name", ["TERM", "SSH_TTY", "SHLVL", "PREFECT_API_URL", "PREFECT_HOME", "TRIVET_TIMEZONE"])
def test_another_shell_and_what_only_deploying_reads_start_nothing_again(name: str) -> None:
    assert differences(settled(UpOptions()), settled(UpOptions(), None, **{name: "another"})) == []


def test_another_auth_string_is_said_and_tells_nothing_of_variables() -> None:
    """Their hashes have it as their key."""
    old, new = (settle_settings(UpOptions(), None, {"HF_TOKEN": "hf"}, secret=secret) for secret in ("guess", "word"))
    assert differences(old, new) == ["auth"]


def test_collections_stay_until_others_are_named_and_are_only_those_of_our_own_server() -> None:
    shown = UpOptions(collections={"law": Folders(index=Path("/law"))})
    asked = settled(shown, BEFORE)
    assert differences(BEFORE, asked) == ["collections"]
    assert settled(UpOptions(), asked).collections == shown.collections
    with pytest.raises(Refused, match="--index and --documents"):
        settled(shown._replace(workers_only=True), PREFECT_API_URL="http://host:4200")


def test_another_folder_starts_nothing_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    before = settled(UpOptions())
    monkeypatch.chdir(tmp_path)
    assert differences(before, settled(UpOptions())) == []


def test_what_an_earlier_version_was_asked_for_is_read(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.prepare()
    place.keep(place.asked, '{"port": 4300, "host": "127.0.0.1", "tls": null, "workers_only": false, "folder": "/"}')
    before = read_last_settings(place)
    assert before
    assert before.port == 4300
