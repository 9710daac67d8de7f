"""Messages that wait in memory: handed out until answered, and gone when nobody waits for them."""

import asyncio
from types import SimpleNamespace

import pytest

from unisono.engines.flower import mailboxes
from unisono.engines.flower.mailboxes import (
    ANSWERED,
    ASKED,
    AWAIT,
    BACK,
    BEAT,
    DEADLINE,
    END,
    NOTHING,
    OUT,
    Mailboxes,
)
from unisono.engines.flower.public_gateway import SHORT

NODE, OTHER = 7, 9


class Office:
    """Boxes, whoever asks at them, and who was seen."""

    def __init__(self):
        self.seen = []
        self.boxes = Mailboxes(lambda headers: headers.get(b"node"), self.seen.append)

    async def party(self, purpose=AWAIT, identifier=NOTHING, reply=b"", node=NODE, signer=NODE):
        """(identifier, message) for a party that asks; None for nothing; or a status."""
        return await self.asks(ASKED.pack(node, purpose, identifier) + reply, signer)

    async def asks(self, body, signer=NODE):
        events, status = [], []

        async def receive():
            return {"type": "http.request", "body": body}

        async def send(event):
            status.append(event.get("status"))
            events.append(event.get("body", b""))

        headers = [] if signer is None else [(b"node", signer)]
        await self.boxes.for_party({"headers": headers}, receive, send)
        if status[0] != 200:
            return status[0]
        answer = b"".join(events)
        return (answer[:16], answer[ANSWERED.size :]) if answer else None

    async def server(self, requests, deadline=5.0, hangs_up=None):
        """Replies by node, and None for who is no resident."""
        parts = [DEADLINE.pack(deadline)]
        for node, data in requests.items():
            parts += [OUT.pack(node, len(data)), data]
        whole, found = b"".join(parts), bytearray()
        pieces = [whole[i : i + 5] for i in range(0, len(whole), 5)]  # cut anywhere

        async def receive():
            if pieces:
                piece = pieces.pop(0)
                return {"type": "http.request", "body": piece, "more_body": bool(pieces)}
            await (hangs_up or asyncio.Event()).wait()
            return {"type": "http.disconnect"}

        async def send(event):
            found.extend(event.get("body", b""))

        await self.boxes.for_server({}, receive, send)
        replies = {}
        while found:
            node, resident, length = BACK.unpack_from(found)
            data = bytes(found[BACK.size : BACK.size + length])
            replies[node] = data if resident else None
            del found[: BACK.size + length]
        return replies


class Loop(asyncio.SelectorEventLoop):
    """Time passes only when nobody has anything to do, on however slow a machine."""

    def __init__(self):
        super().__init__()
        self.now, select = 1e5, self._selector.select

        def pass_time(timeout=None):
            self.now += 0.0 if not timeout else timeout + 1e-6
            return select(0)

        self._selector.select = pass_time

    def time(self):
        return self.now

    def run_in_executor(self, executor, function, *given):
        """At once: a thread would take time that does not pass here."""
        done = self.create_future()
        done.set_result(function(*given))
        return done


def now():
    return asyncio.get_running_loop().time()


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    monkeypatch.setattr(mailboxes, "time", SimpleNamespace(monotonic=now))


def run(scenario):
    with asyncio.Runner(loop_factory=Loop) as runner:
        return runner.run(asyncio.wait_for(scenario(Office()), 20))


async def briefly():
    await asyncio.sleep(0.05)


def test_a_message_comes_at_once_and_its_reply_with_the_next_request():
    async def scenario(office):
        asking = asyncio.create_task(office.party())
        await briefly()
        exchange = asyncio.create_task(office.server({NODE: b"question"}))
        identifier, message = await asking
        assert message == b"question"
        again = asyncio.create_task(office.party(identifier=identifier, reply=b"answer"))
        assert await exchange == {NODE: b"answer"}
        await office.party(END)
        assert await again is None

    run(scenario)


def test_a_message_waits_for_a_party_that_comes_later():
    async def scenario(office):
        exchange = asyncio.create_task(office.server({NODE: b"a", OTHER: b"b"}))
        await briefly()
        for node in (NODE, OTHER):
            identifier, message = await office.party(node=node, signer=node)
            await office.party(END, identifier, message.upper(), node, node)
        assert await exchange == {NODE: b"A", OTHER: b"B"}

    run(scenario)


def test_a_message_that_was_not_answered_is_handed_out_again():
    """The connection broke on the way to the party, or its process was killed."""

    async def scenario(office):
        exchange = asyncio.create_task(office.server({NODE: b"a"}))
        await briefly()
        first, second = await office.party(), await office.party()
        assert first == second
        await office.party(END, first[0], b"A")
        await office.party(END, first[0], b"another")  # a reply counts once
        assert await exchange == {NODE: b"A"}

    run(scenario)


def test_an_empty_reply_says_that_there_will_be_none():
    async def scenario(office):
        exchange = asyncio.create_task(office.server({NODE: b"a"}, deadline=15.0))
        await briefly()
        identifier, _ = await office.party()
        began = now()
        await office.party(END, identifier, b"")
        assert await exchange == {}
        assert now() - began < 1.0

    run(scenario)


def test_nobody_answers_for_another():
    async def scenario(office):
        exchange = asyncio.create_task(office.server({NODE: b"a", OTHER: b"b"}, deadline=0.5))
        await briefly()
        identifier, _ = await office.party()
        assert await office.party(BEAT, identifier, b"forged", OTHER, OTHER) is None
        assert await office.party(END, identifier, b"forged", NODE, OTHER) == 401
        assert await office.party(END, identifier, b"forged", NODE, None) == 401
        assert await exchange == {}

    run(scenario)


@pytest.mark.parametrize("body", [b"", bytes(ASKED.size - 1)])
def test_a_request_that_names_no_node_is_refused(body):
    async def scenario(office):
        assert await office.asks(body) == 401

    run(scenario)


def test_after_the_deadline_nobody_is_asked_any_more():
    """A party that comes too late pays for nothing."""

    async def scenario(office):
        await office.party(BEAT)
        began = now()
        assert await office.server({NODE: b"a"}, deadline=0.3) == {}
        assert 0.2 < now() - began < 2.0
        asking = asyncio.create_task(office.party())
        await briefly()
        assert not asking.done()
        await office.party(END)
        assert await asking is None

    run(scenario)


def test_when_the_servers_part_is_killed_nobody_is_asked_any_more():
    async def scenario(office):
        gone = asyncio.Event()
        exchange = asyncio.create_task(office.server({NODE: b"a"}, 15.0, gone))
        await briefly()
        gone.set()
        assert await exchange == {}
        asking = asyncio.create_task(office.party())
        await briefly()
        assert not asking.done()
        await office.party(END)
        await asking

    run(scenario)


def test_whoever_never_asks_here_is_no_resident(monkeypatch):
    monkeypatch.setattr(mailboxes, "_INTRODUCTION", 0.2)

    async def scenario(office):
        exchange = asyncio.create_task(office.server({NODE: b"a", OTHER: b"b"}))
        await briefly()
        identifier, _ = await office.party()
        await office.party(END, identifier, b"A")
        assert await exchange == {NODE: b"A", OTHER: None}

    run(scenario)


def test_a_node_that_was_a_resident_may_come_back_as_a_supernode(monkeypatch):
    """Once it has taken its leave; and it is known from then on, until it asks here again."""
    monkeypatch.setattr(mailboxes, "_INTRODUCTION", 0.2)

    async def scenario(office):
        await office.party(BEAT)
        assert await office.server({NODE: b"a"}, deadline=0.4) == {}
        await office.party(END)
        assert await office.server({NODE: b"a"}) == {NODE: None}
        began = now()
        assert await office.server({NODE: b"a"}) == {NODE: None}
        assert now() - began < 0.15
        asking = asyncio.create_task(office.party())
        await briefly()
        exchange = asyncio.create_task(office.server({NODE: b"a"}))
        identifier, _ = await asking
        await office.party(END, identifier, b"A")
        assert await exchange == {NODE: b"A"}

    run(scenario)


def test_a_reply_with_which_a_party_leaves_is_not_taken_for_silence(monkeypatch):
    monkeypatch.setattr(mailboxes, "_INTRODUCTION", 0.0)

    async def scenario(office):
        await office.party(BEAT)
        exchange = asyncio.create_task(office.server({NODE: b"a", OTHER: b"b"}))
        await briefly()
        identifier, _ = await office.party()
        await office.party(END, identifier, b"A")
        assert await exchange == {NODE: b"A", OTHER: None}

    run(scenario)


def test_whoever_hangs_up_in_the_middle_of_a_request_has_said_nothing():
    async def scenario(office):
        sent = []

        async def receive():
            return {"type": "http.disconnect"}

        async def send(event):
            sent.append(event)

        await office.boxes.for_party({"headers": []}, receive, send)
        await office.boxes.for_server({}, receive, send)
        assert sent == []

    run(scenario)


def test_a_request_waits_only_so_long(monkeypatch):
    monkeypatch.setattr(mailboxes, "LONGEST_WAIT", 0.1)

    async def scenario(office):
        assert await office.party() is None
        exchange = asyncio.create_task(office.server({NODE: b"a"}))
        await briefly()
        identifier, _ = await office.party()
        await office.party(END, identifier, b"A")
        assert await exchange == {NODE: b"A"}

    run(scenario)


def test_the_newest_request_of_a_party_counts():
    async def scenario(office):
        old = asyncio.create_task(office.party())
        await briefly()
        new = asyncio.create_task(office.party())
        assert await old is None
        exchange = asyncio.create_task(office.server({NODE: b"a"}))
        identifier, _ = await new
        await office.party(END, identifier, b"A")
        assert await exchange == {NODE: b"A"}

    run(scenario)


def test_requests_say_that_a_party_is_there_until_its_last():
    """Saying so ends no request that waits."""

    async def scenario(office):
        waiting = asyncio.create_task(office.party())
        await briefly()
        await office.party(BEAT)
        assert not waiting.done()
        assert office.seen == [NODE, NODE]
        await office.party(END)
        assert await waiting is None
        assert office.seen == [NODE, NODE]

    run(scenario)


def test_nothing_is_kept_of_an_exchange_that_is_over():
    async def scenario(office):
        for number in range(20):
            exchange = asyncio.create_task(office.server({NODE: bytes(100)}))
            await briefly()
            identifier, _ = await office.party()
            if number % 2:
                await office.party(END, identifier, b"A")
            else:
                await office.party(END, identifier, b"")
            await exchange
        (box,) = office.boxes._boxes.values()
        assert not box.messages
        assert box.waiting is None

    run(scenario)


class Slow:
    """A party's request whose body comes in pieces, when the test says so."""

    def __init__(self, office, identifier, purpose=BEAT):
        self.pieces, self.status = asyncio.Queue(), []
        self._say(ASKED.pack(NODE, purpose, identifier))

        async def send(event):
            self.status.append(event.get("status"))

        scope = {"headers": [(b"node", NODE)]}
        self.task = asyncio.create_task(office.boxes.for_party(scope, self.pieces.get, send))

    def _say(self, data, more=True):
        self.pieces.put_nowait({"type": "http.request", "body": data, "more_body": more})

    async def send(self, size, more=True):
        for _ in range(size // SHORT):
            self._say(b"x" * SHORT)
        self._say(b"x" * (size % SHORT), more)
        await briefly()


def kept(office):
    """Bytes of long replies that are in memory."""
    box = office.boxes._boxes.get(NODE)
    return 0 if box is None or box._upload is None else len(box._upload[1])


LARGE = 20 * SHORT + 7


async def asked(office):
    """A message that is with its party, and the exchange that waits for it."""
    exchange = asyncio.create_task(office.server({NODE: b"question"}, 1.0))
    await briefly()
    identifier, _ = await office.party()
    return identifier, exchange


def test_a_long_reply_arrives_whole():
    async def scenario(office):
        identifier, exchange = await asked(office)
        slow = Slow(office, identifier)
        await slow.send(LARGE)
        assert kept(office) == LARGE
        await slow.send(5, more=False)
        assert await exchange == {NODE: b"x" * (LARGE + 5)}
        assert kept(office) == 0
        await slow.task

    run(scenario)


def test_a_long_reply_that_nobody_asked_for_takes_no_memory():
    async def scenario(office):
        unasked = [Slow(office, NOTHING), Slow(office, b"n" * 16)]
        for slow in unasked:
            await slow.send(LARGE)
            assert kept(office) == 0
            await slow.send(5, more=False)
            assert slow.status[0] == 200
            await slow.task

    run(scenario)


def test_a_party_has_one_long_reply_at_a_time():
    async def scenario(office):
        identifier, exchange = await asked(office)
        first, second = Slow(office, identifier), Slow(office, identifier)
        await first.send(LARGE)
        await second.send(LARGE + 9)
        assert kept(office) == LARGE + 9
        await first.send(5, more=False)  # it was given up, and says nothing any more
        await second.send(5, more=False)
        assert await exchange == {NODE: b"x" * (LARGE + 14)}

    run(scenario)


def test_of_a_long_reply_that_never_ends_nothing_is_left_after_the_deadline():
    async def scenario(office):
        identifier, exchange = await asked(office)
        slow = Slow(office, identifier)
        await slow.send(LARGE)
        own = office.boxes._boxes[NODE]._upload[1]
        assert await exchange == {}
        assert (kept(office), len(own)) == (0, 0)
        await slow.send(LARGE)
        assert (kept(office), len(own)) == (0, 0)
        slow.task.cancel()

    run(scenario)


def test_a_request_that_does_not_come_to_its_end_is_given_up(monkeypatch):
    async def scenario(office):
        monkeypatch.setattr(mailboxes, "_BEGINNING", 0.1)
        slow = Slow(office, NOTHING)
        await asyncio.wait_for(slow.task, 5)
        assert slow.status[0] == 408

    run(scenario)
