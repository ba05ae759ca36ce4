"""The file of the supervisor, and the choice of Prefect's database."""

from __future__ import annotations

import configparser
import os
import time
from pathlib import Path

import pytest

from flows.service import server_database, supervising
from flows.service.api import Database
from flows.service.place import Place, ServiceSettings
from flows.service.supervising import Program, config_of, environment_of, programs_of
from storage.embedded import Cluster

SECRET = "trivet:secret"
SQLITE = Database(kind="sqlite", kept=False, why="test", url="sqlite+aiosqlite:///prefect.db")


def config(home: Path, asked: ServiceSettings) -> configparser.RawConfigParser:
    read = configparser.RawConfigParser()
    read.read_string(config_of(Place(home), programs_of(asked, SQLITE, umask=0o022)))
    return read


def test_the_file_holds_no_path_below_the_home_but_the_commands(tmp_path: Path) -> None:
    home = tmp_path / "50% of; it #1"
    read = config(home, ServiceSettings(folder="/"))
    paths = [value for section in read for key, value in read[section].items() if key != "command"]
    assert [path for path in paths if str(home) in path] == []


def test_each_pool_has_a_worker_that_is_started_again_for_ever(tmp_path: Path) -> None:
    read = config(tmp_path, ServiceSettings(folder="/"))
    assert {"program:server", "program:cpu", "program:gpu"} <= set(read)
    assert (read["program:gpu"]["autorestart"], read["program:gpu"]["environment"]) == (
        "true",
        'TRIVET_GPU_DEPLOYMENT=""',
    )
    assert "program:gpu" not in config(tmp_path, ServiceSettings(pools=("cpu",), folder="/"))


def test_what_has_died_three_times_is_failed_and_can_be_woken(tmp_path: Path) -> None:
    place, mended = Place(tmp_path), tmp_path / "mended"
    place.prepare()
    dies = Program("cpu", ("sh", "-c", f"test -e {mended} && exec sleep 600"), order=1, stop_s=1)
    supervising.start(place, [dies], os.environ | {supervising.MARK: place.mark}, folder="/")
    try:
        while [part.state for part in supervising.read_parts(place) or []] != ["failed"]:
            time.sleep(0.05)
        assert place.log_of("supervisor").read_text().count("exited: cpu (") == 3
        mended.touch()
        supervising.restart_waiting(place)
        assert [part.pid is not None for part in supervising.read_parts(place) or []] == [True]
    finally:
        supervising.end(supervising.find_processes(place.mark), grace_s=10)


def test_a_long_home_has_its_socket_elsewhere(tmp_path: Path) -> None:
    place = Place(tmp_path / ("long" * 30))
    assert not place.control.is_relative_to(place.home)
    assert Place(tmp_path / ("other" * 30)).control != place.control


@pytest.mark.parametrize(("gpu", "named"), [(True, "gpu-step/gpu"), (False, None)], ids=["gpu", "no gpu"])
def test_gpu_steps_go_to_the_pool_where_it_has_a_worker(tmp_path: Path, gpu: bool, named: str | None) -> None:
    told = environment_of(
        Place(tmp_path), ServiceSettings(pools=("cpu", "gpu") if gpu else ("cpu",), folder="/"), SQLITE, SECRET, {}
    )
    assert told.get("TRIVET_GPU_DEPLOYMENT") == named


def test_the_database_of_another_server_is_not_handed_on(tmp_path: Path) -> None:
    base = {"PREFECT_API_AUTH_STRING": "old", "PREFECT_SERVER_DATABASE_CONNECTION_URL": "postgresql://old"}
    told = environment_of(Place(tmp_path), ServiceSettings(folder="/"), SQLITE, SECRET, base)
    assert (told["PREFECT_API_AUTH_STRING"], told["PREFECT_SERVER_DATABASE_CONNECTION_URL"]) == (SECRET, SQLITE.url)


def test_the_users_database_comes_first(tmp_path: Path) -> None:
    url = "postgresql+asyncpg://me:secret@host/prefect"
    chosen = server_database.choose_database(Place(tmp_path), {"PREFECT_SERVER_DATABASE_CONNECTION_URL": url})
    assert (chosen.kind, chosen.kept, chosen.url) == ("postgresql", False, url)
    assert "secret" not in chosen.model_dump_json() + repr(chosen)


def test_without_pg_trgm_it_is_sqlite_that_only_we_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_database, "EXTENSION", "nobody_has_this")
    place = Place(tmp_path)
    place.prepare()
    chosen = server_database.choose_database(place, {})
    assert (chosen.kind, "nobody_has_this" in chosen.why) == ("sqlite", True)
    assert (place.home / "prefect" / "prefect.db").stat().st_mode & 0o777 == 0o600


def test_the_service_goes_on_with_the_database_in_which_commands_have_kept_their_runs(tmp_path: Path) -> None:
    file = tmp_path / "prefect" / "prefect.db"
    file.parent.mkdir()
    file.touch()
    chosen = server_database.choose_database(Place(tmp_path), {})
    assert (chosen.url, "the runs of this home are in it" in chosen.why) == (f"sqlite+aiosqlite:///{file}", True)


def test_only_a_postgresql_with_the_extension_is_offered(tmp_path: Path) -> None:
    with_it = {each.folder for each in Cluster(tmp_path, extension="pg_trgm").programs()}
    assert [folder for folder in with_it if "pixeltable" in str(folder)] == []
    assert with_it < {each.folder for each in Cluster(tmp_path).programs()}
