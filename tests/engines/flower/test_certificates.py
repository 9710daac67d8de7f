"""Certificates and transport keys do what they are for, seen by Python's own TLS."""

import socket
import ssl
import threading

import pytest
from cryptography.hazmat.primitives import serialization

from unisono.engines.flower.certificates import (
    generate_node_keys,
    issue,
    load_node_keys,
    load_public_key,
    public_path,
)
from unisono.errors import InvalidInput


def handshake(server, authority, host):
    """Whether a client that trusts `authority` accepts the server as `host`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(server.certificate, server.key)
    ours, theirs = socket.socketpair()

    def accept():
        try:
            with context.wrap_socket(ours, server_side=True) as connection:
                connection.recv(1)
        except OSError:
            pass

    thread = threading.Thread(target=accept)
    thread.start()
    client = ssl.create_default_context(cafile=str(authority))
    try:
        with client.wrap_socket(theirs, server_hostname=host) as connection:
            connection.send(b"x")
        return True
    except ssl.SSLCertVerificationError:
        return False
    finally:
        theirs.close()
        thread.join(5)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    return issue(folder, ["server.example", "127.0.0.1", "::1"])


@pytest.mark.parametrize("host", ["server.example", "127.0.0.1", "::1"])
def test_the_server_is_accepted_under_the_names_it_was_given(files, host):
    assert handshake(files, files.authority, host)


@pytest.mark.parametrize("host", ["other.example", "127.0.0.2"])
def test_and_under_no_other(files, host):
    assert not handshake(files, files.authority, host)


def test_another_authority_is_not_believed(files, tmp_path):
    assert not handshake(files, issue(tmp_path, ["127.0.0.1"]).authority, "127.0.0.1")


def test_a_server_moves_without_new_files_for_the_parties(tmp_path):
    first = issue(tmp_path, ["127.0.0.1"])
    kept = first.authority.read_bytes()
    second = issue(tmp_path, ["moved.example"])
    assert second.authority.read_bytes() == kept
    assert handshake(second, second.authority, "moved.example")
    assert not handshake(second, second.authority, "127.0.0.1")


def test_secrets_are_for_their_owner_only(files, tmp_path):
    generate_node_keys(tmp_path / "party")
    folder = files.key.parent
    for path in (files.key, folder / "authority.key", tmp_path / "party"):
        assert path.stat().st_mode & 0o777 == 0o600, path


def test_transport_keys_survive_the_file(tmp_path):
    private, public = generate_node_keys(tmp_path / "party")
    loaded, loaded_public = load_node_keys(tmp_path / "party")
    assert loaded.private_numbers() == private.private_numbers()
    shared = serialization.load_ssh_public_key(public_path(tmp_path / "party").read_bytes())
    assert shared.public_numbers() == public.public_numbers() == loaded_public.public_numbers()
    assert public.curve.name == "secp384r1"


def test_keys_are_not_overwritten_and_others_not_accepted(tmp_path, files):
    generate_node_keys(tmp_path / "party")
    with pytest.raises(InvalidInput, match="never overwritten"):
        generate_node_keys(tmp_path / "party")
    with pytest.raises(InvalidInput, match="cannot be read"):
        load_node_keys(tmp_path / "missing")
    with pytest.raises(InvalidInput, match="OpenSSH"):
        load_node_keys(files.key)
    for path in (files.authority, tmp_path / "party", tmp_path / "missing"):
        with pytest.raises(InvalidInput, match="public half"):
            load_public_key(path)
    load_public_key(tmp_path / "party.pub")
    with pytest.raises(InvalidInput, match="no host"):
        issue(tmp_path, [])
