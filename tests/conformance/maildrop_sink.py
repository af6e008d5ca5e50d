"""A sink that is not part of the package: a file for each message of a folder, for `test_new_sink.py`."""

from pathlib import Path

from pststream.base.errors import SettingError
from pststream.delivery.sinks.contract import MessageBatch, Refusal, SinkKind
from pststream.delivery.sinks.settings import SinkSettings


class MaildropSink:
    """Writes each message to a file of its own; refuses retractions."""

    max_bytes = 1_000_000
    lanes = 1

    def __init__(self, settings: SinkSettings) -> None:
        self.max_messages = settings.messages or 5
        self._folder = Path(settings.target)

    def deliver(self, batch: MessageBatch) -> list[Refusal]:
        """Write the messages of a batch; a repeated message overwrites its file."""
        accepted = [message for message in batch.messages if message.kind != "retracted"]
        for message in accepted:
            (self._folder / message.id).write_bytes(message.body)
        return [Refusal(message, "no retractions here") for message in batch.messages if message not in accepted]


def _check_settings(settings: SinkSettings, in_file: bool) -> None:
    if not Path(settings.target).is_absolute():
        raise SettingError(f"sinks.{settings.name}.target", "is not an absolute path")


def _find_delivery_obstacle(settings: SinkSettings) -> str:
    return "" if Path(settings.target).is_dir() else "its folder is missing"


KIND = SinkKind(
    "maildrop",
    "a folder",
    MaildropSink,
    _find_delivery_obstacle,
    _check_settings,
    max_lanes=2,
    normal_target=lambda path: path,
)
