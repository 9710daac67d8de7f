"""A `ClientApp` for stock SuperNodes that tells its function what the node was configured with."""

from collections.abc import Callable, Mapping

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from unisono.engines.flower.messages import MESSAGE_TYPE, unwrap, wrap


def configured_app(answer: Callable[[bytes, Mapping[str, str]], bytes]) -> ClientApp:
    """An app that answers each message with answer(bytes, the node's configuration)."""
    app = ClientApp()

    @app.query(MESSAGE_TYPE.partition(".")[2])
    def query(message: Message, context: Context) -> Message:
        configuration = {key: str(value) for key, value in context.node_config.items()}
        return Message(wrap(answer(unwrap(message), configuration)), reply_to=message)

    return app
