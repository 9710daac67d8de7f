"""The keystream is RFC 8439's ChaCha20, read once, and never copied."""

import copy
import os
import pickle

import numpy as np
import pytest

from unisono.core.noise import Keystream
from unisono.core.noise import keystream as keystream_module
from unisono.errors import GrantMisused, InvalidInput

RFC_KEY = bytes(range(32))


def test_rfc_8439_section_2_4_2_keystream() -> None:
    """Section 2.4.2 encrypts from block 1; XOR gives the keystream."""
    plaintext = (
        b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the "
        b"future, sunscreen would be it."
    )
    ciphertext = bytes.fromhex(
        "6e2e359a2568f98041ba0728dd0d6981e97e7aec1d4360c20a27afccfd9fae0bf91b65c5524733ab8f593dabcd"
        "62b3571639d624e65152ab8f530c359f0861d807ca0dbf500d6a6156a38e088a22b65e52bc514d16ccf806818c"
        "e91ab77937365af90bbf74a35be6b40b8eedf2785e42874d"
    )
    stream = Keystream(RFC_KEY, bytes.fromhex("000000000000004a00000000"))
    stream.bytes(64)
    mask = stream.bytes(len(plaintext))
    assert bytes(a ^ b for a, b in zip(plaintext, mask, strict=True)) == ciphertext


def test_rfc_8439_appendix_a1_blocks() -> None:
    """Appendix A.1, test vectors 1 and 2: zero key and nonce, blocks 0 and 1."""
    stream = Keystream(bytes(32))
    assert stream.bytes(64).hex() == (
        "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
        "da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586"
    )
    assert stream.bytes(64).hex() == (
        "9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed"
        "29b721769ce64e43d57133b074d839d531ed1f28510afb45ace10a1f4b794d6f"
    )


def test_words_are_the_bytes_in_little_endian_order_however_they_are_read() -> None:
    whole = Keystream(RFC_KEY).bytes(8 * 200_000)
    stream = Keystream(RFC_KEY)
    parts = [stream.words(n) for n in (0, 1, 7, 199_992)]
    assert np.concatenate(parts).astype("<u8").tobytes() == whole
    assert stream.position == 8 * 200_000
    assert parts[0].dtype == np.uint64


def test_children_and_extensions_are_distinct_and_do_not_depend_on_the_position() -> None:
    stream = Keystream(RFC_KEY)
    seen = [stream.child(label).bytes(16) for label in (b"", b"\x01", b"a", 0, 1, -1, 256, 2**70)]
    stream.words(3)
    seen += [stream.extension(position).bytes(16) for position in (0, 1, 8, 16)]
    seen += [Keystream(RFC_KEY).bytes(16), Keystream(RFC_KEY, b"n" * 12).child(1).bytes(16)]
    assert len(set(seen)) == len(seen)
    later = Keystream(RFC_KEY)
    later.words(100)
    assert later.child(1).bytes(16) == Keystream(RFC_KEY).child(1).bytes(16)
    assert later.extension(8).bytes(16) == stream.extension(8).bytes(16)


def test_a_child_is_handed_out_once() -> None:
    stream = Keystream(RFC_KEY)
    stream.child(5)
    with pytest.raises(GrantMisused, match="repeat its noise"):
        stream.child(5)


def test_only_words_already_read_are_extended() -> None:
    stream = Keystream(RFC_KEY)
    stream.words(1)
    for position in (-1, 1, 8):
        with pytest.raises(GrantMisused):
            stream.extension(position)


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_copies_are_refused(duplicate: object) -> None:
    with pytest.raises(GrantMisused):
        duplicate(Keystream(RFC_KEY))  # type: ignore[operator]


def test_another_process_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Keystream(RFC_KEY)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    for use in (lambda: stream.words(1), lambda: stream.child(0)):
        with pytest.raises(GrantMisused, match="process"):
            use()


def test_the_block_counter_never_wraps(monkeypatch: pytest.MonkeyPatch) -> None:
    assert keystream_module.CAPACITY_BYTES == 64 * 2**32
    monkeypatch.setattr(keystream_module, "CAPACITY_BYTES", 128)
    stream = Keystream(RFC_KEY)
    stream.words(16)
    with pytest.raises(GrantMisused, match="counter would repeat"):
        stream.bytes(1)
    with pytest.raises(GrantMisused):
        Keystream(RFC_KEY).words(2**40)


@pytest.mark.parametrize("key", [b"", bytes(31), bytes(33), "0" * 32, None, bytearray(32)])
def test_wrong_keys_are_refused_without_printing_them(key: object) -> None:
    with pytest.raises(InvalidInput, match="32 bytes"):
        Keystream(key)  # type: ignore[arg-type]


def test_wrong_nonces_labels_and_counts_are_refused() -> None:
    with pytest.raises(InvalidInput, match="12 bytes"):
        Keystream(RFC_KEY, bytes(8))
    stream = Keystream(RFC_KEY)
    for label in (True, 1.5, "a", None):
        with pytest.raises(InvalidInput):
            stream.child(label)  # type: ignore[arg-type]
    for count in (-1, 1.0, True):
        with pytest.raises(InvalidInput):
            stream.words(count)  # type: ignore[arg-type]


def test_the_key_is_not_printed() -> None:
    assert repr(Keystream(RFC_KEY)) == "Keystream(<secret key>, position=0)"
