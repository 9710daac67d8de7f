"""A plugin of unisono: the direction in which records differ most."""
