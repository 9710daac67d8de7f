"""Compiled programs are kept on disk, so that later processes start faster.

Records are arguments of compiled programs and never constants in them, so the cache holds no
data; its keys tell shapes (numbers of records and features), so it stays in the user's own cache
folder and never travels.
"""

import os
from pathlib import Path

# Programs that compile faster than this are not worth a file.
_SECONDS = 0.2


def cache_folder() -> Path:
    """XDG_CACHE_HOME/unisono/jax, by default under ~/.cache."""
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "unisono" / "jax"


def enable() -> Path | None:
    """Use the folder for all later compilations; None where it cannot be written.

    A folder that the user has configured (JAX_COMPILATION_CACHE_DIR) is left alone.
    """
    import jax

    configured = getattr(jax.config, "jax_compilation_cache_dir", None)
    if configured:
        return Path(configured)
    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError:
        return None
    if not os.access(folder, os.W_OK):
        return None
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", _SECONDS)
    from jax.experimental.compilation_cache import compilation_cache

    # JAX decides once whether there is a cache; it may have compiled something already.
    compilation_cache.reset_cache()
    return folder


__all__ = ["cache_folder", "enable"]
