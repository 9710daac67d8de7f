"""What Flower starts: `app` for the server, named in the folder that is submitted."""

from unisono.deployment.server import main
from unisono.engines.flower.app import server_app

app = server_app(main)
