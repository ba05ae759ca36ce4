"""Certificates, tokens and versions of a second machine, without a server."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509

from flows.service.api import Refused
from flows.service.asked_service import Wanted, address_in, differences, pools_in, settle
from flows.service.joining import tokens
from flows.service.joining.certificates import checked, own_certificate
from flows.service.joining.joined import Joined, joined_of, leave_server
from flows.service.joining.offering import is_same
from flows.service.place import Place
from flows.service.run_server import main as serve
from flows.service.service_start import up


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path / "home")
    made.prepare()
    return made


def test_a_certificate_is_made_once_for_an_address(place: Place) -> None:
    first = own_certificate(place, "10.0.0.1")
    assert own_certificate(place, "10.0.0.1") == first
    assert own_certificate(place, "10.0.0.2").pin != first.pin
    assert [file.stat().st_mode & 0o777 for file in (first.file, first.key)] == [0o600, 0o600]


def test_it_signs_nothing_but_itself(place: Place) -> None:
    made = own_certificate(place, "trivet.example")
    leaf = x509.load_pem_x509_certificate(made.file.read_bytes())
    assert made.authority == made.file.read_text()
    assert not leaf.extensions.get_extension_for_class(x509.BasicConstraints).value.ca


def test_a_certificate_for_another_address_is_refused(place: Place) -> None:
    made = own_certificate(place, "10.0.0.1")
    with pytest.raises(Refused, match=r"is not for 10\.0\.0\.9 but for .*10\.0\.0\.1"):
        checked(made.file, made.key, "10.0.0.9")


def test_the_key_of_another_certificate_is_refused(place: Place, tmp_path: Path) -> None:
    made, other = own_certificate(place, "10.0.0.1"), Place(tmp_path / "other")
    other.prepare()
    with pytest.raises(Refused, match="is not the key of"):
        checked(made.file, own_certificate(other, "10.0.0.1").key, "10.0.0.1")


def test_a_certificate_whose_time_is_over_is_refused(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flows.service.joining.certificates.VALID", timedelta(hours=-1))
    with pytest.raises(Refused, match="renew it"):
        own_certificate(place, "10.0.0.1")


def test_a_token_opens_until_the_next_one(place: Place) -> None:
    first = tokens.offer(place, "https://10.0.0.1:4200", "pin")
    assert tokens.read_token(first.line()) == first
    assert tokens.opens(place, first.secret)
    second = tokens.offer(place, "https://10.0.0.1:4200", "pin")
    assert [tokens.opens(place, each.secret) for each in (first, second)] == [False, True]
    tokens.withdraw(place)
    assert not tokens.opens(place, second.secret)


def test_a_token_opens_for_an_hour(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "VALID", timedelta(seconds=-1))
    assert not tokens.opens(place, tokens.offer(place, "https://10.0.0.1:4200", "pin").secret)


def test_the_file_of_a_token_tells_no_secret(place: Place) -> None:
    token, file = tokens.offer(place, "https://10.0.0.1:4200", "pin"), place.folder / tokens.FILE
    assert token.secret not in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600


def test_half_a_token_is_refused_and_not_shown(place: Place) -> None:
    line = tokens.offer(place, "https://10.0.0.1:4200", "pin").line()
    with pytest.raises(Refused) as refused:
        tokens.read_token(line[:-9])
    assert line[:20] not in str(refused.value)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("0.1.0+6c1f2ab9", "0.1.0+6c1f2ab9", True),
        ("0.1.0+6c1f2ab9", "0.1.0", True),
        ("0.1.0+6c1f2ab9", "0.1.0+000000ff", False),
        ("0.1.0", "0.2.0", False),
    ],
)
def test_versions(one: str, other: str, same: bool) -> None:
    assert is_same(one, other) is same


@pytest.mark.parametrize(
    ("listen", "port", "address"),
    [
        ("10.0.0.1", None, ("10.0.0.1", None)),
        ("10.0.0.1:4300", None, ("10.0.0.1", 4300)),
        ("host.example", 4300, ("host.example", 4300)),
        ("[fd00::1]:4300", None, ("fd00::1", 4300)),
        ("fd00::1", None, ("fd00::1", None)),
    ],
)
def test_addresses(listen: str, port: int | None, address: tuple[str, int | None]) -> None:
    assert address_in(listen, port) == address


@pytest.mark.parametrize("listen", ["0.0.0.0", ":4200", "10.0.0.1:port", "https://10.0.0.1"])
def test_an_address_that_nobody_reaches_is_refused(listen: str) -> None:
    with pytest.raises(Refused, match="--listen"):
        address_in(listen, None)


def test_pools_are_named_or_left_out() -> None:
    assert [pools_in("gpu", no_gpu=False), pools_in("gpu, cpu", no_gpu=True)] == [("gpu",), ("cpu",)]
    for named, no_gpu in (("gpu", True), ("tpu", False)):
        with pytest.raises(Refused, match="--pools"):
            pools_in(named, no_gpu=no_gpu)


def test_another_address_is_a_change() -> None:
    before, now = (settle(Wanted(listen=listen), None, {}, secret="key") for listen in (None, "10.0.0.1"))
    assert differences(before, now) == ["address: 10.0.0.1 in place of 127.0.0.1"]


def test_a_certificate_without_its_key_is_refused(place: Place) -> None:
    wanted = Wanted(listen="127.0.0.2", certificate=Path("server.pem"))
    with pytest.raises(Refused, match="belong together"):
        up(place, wanted, {}, say=print)


def test_a_server_beyond_loopback_wants_an_auth_string(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PREFECT_SERVER_API_AUTH_STRING", raising=False)
    with pytest.raises(Refused, match="AUTH_STRING is not set"):
        serve("4200", "10.0.0.1")


def test_who_leaves_keeps_nothing(place: Place) -> None:
    joined = Joined(
        api_url="https://10.0.0.1:4200/api",
        auth="worker:secret",
        authority=None,
        store="s3://bucket",
        database_url="postgresql://host/trivet",
        models=None,
        gpu_deployment=None,
    )
    place.keep(place.folder / "joined.json", joined.model_dump_json())
    assert joined_of(place) == joined
    leave_server(place)
    assert joined_of(place) is None
