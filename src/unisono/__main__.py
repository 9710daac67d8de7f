"""`python -m unisono` is the `unisono` program."""

from unisono.cli import main

if __name__ == "__main__":
    main()
