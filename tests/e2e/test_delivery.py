"""Deliver by commands to real servers on loopback: after kills no message is lost, and no secret is disclosed."""

import json
import os
import random
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import boto3
import pytest

from pststream.base import names
from pststream.pipeline.delivery.deliver import deliver
from pststream.settings import load_settings
from pststream.state.home import Home
from pststream.tables.delta_tables import read_table
from tests.command_process import CommandProcess
from tests.commands import KILLED, Result, run_apart
from tests.fuzz.cases import seeds
from tests.matched_homes import add_matched_batch, add_standing, add_subscriptions, retractions_of
from tests.moto_process import CREDENTIALS, moto_server
from tests.oracles.delivery import expected_messages
from tests.receiver import SECRET, Receiver, receiving
from tests.sinks import by_subscription, without_repeats

pytestmark = pytest.mark.e2e

TOKEN = "a-token-that-no-log-may-show"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """Make a home with four finished batches, two with retractions or changes of answers alone."""
    home = Home(tmp_path / "home")
    home.init()
    keys, standing = add_subscriptions(home, 6), add_standing(home, 4)
    rows = add_matched_batch(home, keys, 10, seed=1, minutes=0, standing=standing)
    add_matched_batch(home, keys, 10, seed=2, minutes=30, standing=standing)
    add_matched_batch(home, keys, 5, seed=3, minutes=90, retractions=retractions_of(rows, keys[0]))
    add_matched_batch(home, keys[:0], 2, seed=4, minutes=120, standing=standing)
    return home


def set_up(home: Home, receiver: Receiver | None = None, **keys: Any) -> dict[str, str]:
    """Add a webhook and a file sink to the settings; return the environment with their secrets."""
    hook = {"kind": "webhook", "networks": "127.0.0.0/8", "timeout_seconds": 30, "messages": 2, "tries": 3} | keys
    folder = {"kind": "file", "target": str(Path(home.path).parent / "delivered"), "messages": 3}
    environment = {}
    with open(Path(home.path) / "pststream.toml", "a") as file:
        for name, table in (("files", folder), ("hook", hook)):
            if name == "files" or receiver is not None:
                lines = [f"[sinks.{name}]", *(f"{key} = {json.dumps(value)}" for key, value in table.items())]
                file.write("\n".join(lines) + "\n")
    if receiver is not None:
        environment = {"PSTSTREAM_SINK_HOOK_SECRET": SECRET, "PSTSTREAM_SINK_HOOK_TARGET": f"{receiver.url}?t={TOKEN}"}
    return environment


def run_deliver(home: Home, environment: dict[str, str], *arguments: str) -> Result:
    return run_apart("deliver", "--home", home.path, "--json", *arguments, environment=environment)


def written(home: Home) -> list[dict[str, Any]]:
    """Read the messages in the folder of the file sink, in the order of the files."""
    files = sorted((Path(home.path).parent / "delivered").iterdir())
    assert all(file.suffix == ".jsonl" for file in files), files
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


@pytest.mark.promise
@pytest.mark.slow
@seeds(3)
def test_killed_at_any_time(home: Home, seed: int) -> None:
    """Kill the process after some requests, repeatedly, while the webhook fails and loses responses."""
    rnd = random.Random(seed)
    expected = expected_messages(home)
    with receiving(failing=0.1, losing=0.1, seconds=0.06, draw=random.Random(seed)) as receiver:
        environment = set_up(home, receiver, lanes=1 + seed, tries=8)
        command = ["deliver", "--home", home.path, "--quiet"]
        kills = 0
        for _ in range(5):
            after = receiver.requests + rnd.randint(2, 8)
            process = CommandProcess(command, {**os.environ, **environment})
            while receiver.requests < after and process.poll() is None:
                time.sleep(0.005)
            process.kill()
            kills += process.poll() == KILLED
        assert kills >= 2
        for _ in range(20):
            if run_deliver(home, environment).json["sinks"]["hook"]["state"] == "ok":
                break
        received = without_repeats(receiver.taken)
    assert {message["id"] for message in received} == {message["id"] for message in expected}
    assert by_subscription(received) == by_subscription(expected)
    assert len(receiver.taken) > len(expected), "nothing came twice: nobody was killed at work"
    assert written(home) == expected


def test_dead_letters_by_command(home: Home) -> None:
    expected = expected_messages(home)
    with receiving(refuses={message["id"] for message in expected[2:9]}) as receiver:
        environment = set_up(home, receiver)
        assert run_deliver(home, environment).code == 0

        def letters(*arguments: str) -> Result:
            return run_apart("dead-letters", *arguments, "--home", home.path, environment=environment)

        listed = letters("list", "--sink", "hook", "--json").json["dead_letters"]
        assert {row["message_id"] for row in listed} == {message["id"] for message in expected[2:9]}
        assert letters("replay").code == 1
        receiver.refuses.clear()
        assert "7 delivered, 0 dead letters left" in letters("replay", "--sink", "hook").out
        assert sorted(m["id"] for m in receiver.taken) == sorted(m["id"] for m in expected)
        assert letters("list").out == "no dead letters\n"
        assert letters("list", "--sink", "none").code == 2


def test_a_sink_that_is_down_is_told_of(home: Home) -> None:
    with receiving(status=500) as receiver:
        environment = set_up(home, receiver)
        done = run_deliver(home, environment)
        assert done.code == 1
        assert done.json["sinks"]["hook"]["reason"] == "HTTP status 500"
        assert done.json["sinks"]["files"]["state"] == "ok"
        only = run_deliver(home, environment, "--sink", "files")
        assert only.code == 0 and list(only.json["sinks"]) == ["files"]
    assert run_deliver(home, environment, "--sink", "nobody").code == 2


@pytest.mark.slow
@pytest.mark.parametrize("fault", [{"status": 503}, pytest.param({"seconds": 30.0}, marks=pytest.mark.deep)])
def test_dead_for_an_hour_of_the_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: dict[str, Any]) -> None:
    """All messages arrive in order when the webhook recovers; the file sink never waits for it."""
    home = Home(tmp_path / "home")
    home.init()
    keys = add_subscriptions(home, 5)
    with receiving(**fault) as receiver:
        for name, value in set_up(home, receiver, timeout_seconds=0.3, tries=2, lanes=2).items():
            monkeypatch.setenv(name, value)
        settings = load_settings(home.path)
        for number in range(8):
            add_matched_batch(home, keys, 5, seed=number, minutes=10 * number)
            outcome = deliver(home, settings)["sinks"]
            assert (outcome["hook"]["state"], outcome["hook"]["batches_left"]) == ("down", number + 1)
            assert outcome["files"]["state"] == "ok" and outcome["files"]["seconds"] < 30
            assert written(home) == expected_messages(home)
        receiver.status, receiver.seconds, receiver.losing = 200, 0.0, 0.0
        patient = replace(settings, sinks=tuple(replace(sink, timeout_seconds=60.0) for sink in settings.sinks))
        assert deliver(home, patient)["sinks"]["hook"]["state"] == "ok"
        received = without_repeats(receiver.taken)
    expected = expected_messages(home)
    assert by_subscription(received) == by_subscription(expected) and len(received) == len(expected)
    assert not read_table(home.table(names.DEAD_LETTERS)).num_rows


@pytest.mark.deep
def test_queues_and_topics(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    with moto_server() as url:
        environment = {**CREDENTIALS, "AWS_ENDPOINT_URL": url}
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        sqs, sns = boto3.client("sqs"), boto3.client("sns")
        queue = sqs.create_queue(QueueName="m.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
        behind = sqs.create_queue(QueueName="behind")["QueueUrl"]
        arn = sqs.get_queue_attributes(QueueUrl=behind, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        topic = sns.create_topic(Name="matches")["TopicArn"]
        raw = {"RawMessageDelivery": "true"}
        sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn, Attributes=raw)
        with open(Path(home.path) / "pststream.toml", "a") as file:
            file.write(f'[sinks.q]\nkind = "sqs"\ntarget = "{queue}"\nlanes = 4\n')
            file.write(f'[sinks.t]\nkind = "sns"\ntarget = "{topic}"\n')
        done = run_deliver(home, environment)
        assert done.code == 0, done.err
        again = run_deliver(home, environment)
        assert {sink["delivered"] for sink in again.json["sinks"].values()} == {0}
        expected = expected_messages(home)
        for target, ordered in ((queue, True), (behind, False)):
            messages = []
            while got := sqs.receive_message(QueueUrl=target, MaxNumberOfMessages=10).get("Messages"):
                messages += [json.loads(message["Body"]) for message in got]
                for message in got:
                    sqs.delete_message(QueueUrl=target, ReceiptHandle=message["ReceiptHandle"])
            assert sorted(m["id"] for m in messages) == sorted(m["id"] for m in expected)
            if ordered:
                assert by_subscription(messages) == by_subscription(expected)
        assert CREDENTIALS["AWS_SECRET_ACCESS_KEY"] not in done.out + done.err + contents_of(home)


@pytest.mark.parametrize("behaviour", [{}, {"status": 500}, {"status": 302}, {"losing": 1.0}])
def test_no_secret_is_disclosed(home: Home, behaviour: dict[str, Any]) -> None:
    """No secret appears in the outputs, in any table or file of the home, or in clear text at the webhook."""
    with receiving(**behaviour) as receiver:
        environment = set_up(home, receiver, tries=1)
        results = [run_deliver(home, {**environment, "PSTSTREAM_TRACEBACK": "1"})]
        results += [
            run_apart(command, "--home", home.path, environment=environment) for command in ("status", "doctor")
        ]
    results.append(run_deliver(home, environment))
    text = "".join(result.out + result.err for result in results) + contents_of(home)
    for hidden in (SECRET, TOKEN):
        assert hidden not in text
    assert SECRET.encode() not in b"".join(receiver.bodies)
    assert "hook" in text


def contents_of(home: Home) -> str:
    """Return all texts of a home's files, Parquet decoded."""
    files = [path for path in Path(home.path).rglob("*") if path.is_file() and path.suffix != ".parquet"]
    tables = [read_table(home.table(name)).to_pylist() for name in (names.DELIVERIES, names.DEAD_LETTERS)]
    return "".join(path.read_text("utf-8", "replace") for path in files) + json.dumps(tables, default=str)
