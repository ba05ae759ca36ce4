"""An alert that is not taken is kept, sent again, and sent no more once it was taken."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from flows.service import alerts
from flows.service.alerts import NotTaken, Outbox
from flows.service.place import Place
from tests.service.hooks import Hook, hook_on_loopback, webhook
from tests.service.serviced import free_port


@pytest.fixture
def hook() -> Iterator[Hook]:
    with hook_on_loopback() as listening:
        yield listening


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path)
    made.prepare()
    return made


def test_what_is_refused_is_sent_until_it_is_taken_and_no_more(hook: Hook, place: Place) -> None:
    hook.answers = [503, 302, 500]
    with pytest.raises(NotTaken, match="answers 503; the alert is kept"):
        Outbox(place).tell(hook.block, '{"text": "MATH500 fell"}')

    left = [not Outbox(place).deliver(lambda: hook.block) for _ in range(4)]  # as after restarts

    assert left == [True, True, False, False]
    assert (len(hook.asked), hook.taken) == (4, ['{"text": "MATH500 fell"}'])


def test_what_is_taken_at_once_is_sent_once(hook: Hook, place: Place) -> None:
    outbox = Outbox(place)
    outbox.tell(hook.block, "one")
    assert outbox.deliver(lambda: hook.block)
    assert hook.asked == ["one"]


def test_alerts_of_an_address_that_is_away_go_to_the_one_that_is_set_in_its_place(hook: Hook, place: Place) -> None:
    outbox, away = Outbox(place), webhook(f"http://127.0.0.1:{free_port()}/")
    for nth, text in enumerate(("first", "second", "second")):
        with pytest.raises(NotTaken, match="no answer"):
            outbox.tell(away, text)
        [file] = set(place.kept_alerts()) - {one for one in place.kept_alerts() if one.read_text() != text}
        os.utime(file, (file.stat().st_mtime + nth, file.stat().st_mtime + nth))

    assert not outbox.deliver(lambda: None)
    assert outbox.deliver(lambda: hook.block)
    assert hook.taken == ["first", "second"]


def test_one_that_is_refused_stands_in_the_way_of_no_other(hook: Hook, place: Place) -> None:
    outbox, hook.answers = Outbox(place), [503, 503, 400]
    for text in ("one", "other"):
        with pytest.raises(NotTaken):
            outbox.tell(hook.block, text)

    assert not outbox.deliver(lambda: hook.block)
    assert len(hook.taken) == 1


def test_of_two_processes_that_find_an_alert_one_sends_it(hook: Hook, place: Place) -> None:
    hook.answers = [503]
    with pytest.raises(NotTaken):
        Outbox(place).tell(hook.block, "one")
    both = [threading.Thread(target=Outbox(place).deliver, args=(lambda: hook.block,)) for _ in range(2)]
    for one in both:
        one.start()
    for one in both:
        one.join()
    assert hook.taken == ["one"]


def test_an_alert_that_nobody_took_for_a_month_is_given_up(hook: Hook, place: Place) -> None:
    outbox, hook.answers = Outbox(place), [503]
    with pytest.raises(NotTaken):
        outbox.tell(hook.block, "old")
    [file] = place.kept_alerts()
    os.utime(file, (0, 0))
    assert outbox.deliver(lambda: hook.block)
    assert (len(hook.asked), alerts.GIVEN_UP_S) == (1, 30 * 24 * 3600)
