"""Files that let the two ends of a connection recognise each other.

    authority.crt, authority.key   signs the server's certificate; parties hold the .crt only
    server.crt, server.key         what the server shows; names the hosts it may be reached at
    <party>, <party>.pub           a party's transport key (EC P-384); the server knows .pub

These keys protect the connection. They say nothing about what a message means: a party's
statements are signed with its Ed25519 key from the roster, which the server cannot replace.
"""

import datetime
import ipaddress
import os
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from unisono.errors import InvalidInput

CURVE = ec.SECP384R1()
NodeKeys = tuple[ec.EllipticCurvePrivateKey, ec.EllipticCurvePublicKey]
_YEARS = 5
# A certificate is valid from a little before it was made: clocks of two machines differ.
_SLACK = datetime.timedelta(hours=1)


class ServerFiles(NamedTuple):
    """What a server with TLS reads at its start."""

    authority: Path
    certificate: Path
    key: Path


def issue(folder: Path, hosts: Sequence[str]) -> ServerFiles:
    """A server certificate for `hosts` (names or addresses) under the folder's authority.

    The authority is made on the first call and kept, so that a server can move to another
    host without new files for the parties.
    """
    if not hosts:
        raise InvalidInput("a server certificate for no host: name at least one, such as 127.0.0.1")
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    files = ServerFiles(folder / "authority.crt", folder / "server.crt", folder / "server.key")
    authority, signer = _authority(files.authority, folder / "authority.key")
    key = ec.generate_private_key(CURVE)
    builder = _certificate(hosts[0], authority.subject, key.public_key(), authority=False)
    builder = builder.add_extension(
        x509.SubjectAlternativeName([_general_name(host) for host in hosts]), critical=False
    ).add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    certificate = builder.add_extension(
        x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
    ).sign(signer, hashes.SHA384())
    write_secret(files.key, _pem(key))
    files.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    return files


def generate_node_keys(path: Path) -> NodeKeys:
    """A new transport key in `path` (mode 0600) and `path`.pub; an existing one is not replaced."""
    if path.exists():
        raise InvalidInput(f"{path} exists: a key is never overwritten; choose another name")
    private = ec.generate_private_key(CURVE)
    write_secret(
        path,
        private.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.OpenSSH,
            serialization.NoEncryption(),
        ),
    )
    public = private.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    public_path(path).write_bytes(public + b"\n")
    return private, private.public_key()


def public_path(path: Path) -> Path:
    """Where the public half of the key in `path` lies."""
    return path.with_name(path.name + ".pub")


def statement(authority: bytes | None, path: str, timestamp: str) -> bytes:
    """What a party signs with each request: for the server of this authority (PEM) and no other.

    Flower signs the time alone. Whoever runs one server could show that to another one, and be
    the party there for as long as it counts.
    """
    return f"unisono request {_fingerprint(authority)} {path} {timestamp}".encode()


@lru_cache(maxsize=8)
def _fingerprint(authority: bytes | None) -> str:
    if authority is None:
        return "without TLS"
    return x509.load_pem_x509_certificate(authority).fingerprint(hashes.SHA256()).hex()


def load_public_key(path: Path) -> ec.EllipticCurvePublicKey:
    """The public half of a transport key; anything else is refused."""
    try:
        key = serialization.load_ssh_public_key(path.read_bytes())
    except (OSError, ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise InvalidInput(
            f"{path} is not the public half of a transport key: take the .pub file of `keygen`"
        )
    return key


def load_node_keys(path: Path) -> NodeKeys:
    """The transport key in `path`, as the resident party needs it."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InvalidInput(
            f"the transport key {path} cannot be read ({error.strerror}): "
            "make one with `unisono keygen`"
        ) from None
    try:
        private = serialization.load_ssh_private_key(data, password=None)
    except ValueError:
        private = None
    if not isinstance(private, ec.EllipticCurvePrivateKey):
        raise InvalidInput(
            f"{path} is not an unencrypted EC key in OpenSSH format: make one with `unisono keygen`"
        )
    return private, private.public_key()


def write_secret(path: Path, data: bytes) -> None:
    """Writes a file that only its owner could ever read, also while it is being written."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)


def _authority(
    certificate_path: Path, key_path: Path
) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    """The folder's authority: read if it is there, else made."""
    if certificate_path.exists() and key_path.exists():
        key = serialization.load_pem_private_key(key_path.read_bytes(), password=None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        return x509.load_pem_x509_certificate(certificate_path.read_bytes()), key
    key = ec.generate_private_key(CURVE)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Unisono study authority")])
    certificate = _certificate("", name, key.public_key(), authority=True).sign(
        key, hashes.SHA384()
    )
    write_secret(key_path, _pem(key))
    certificate_path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    return certificate, key


def _certificate(
    host: str, issuer: x509.Name, public: ec.EllipticCurvePublicKey, *, authority: bool
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    # 64 characters are the most a common name may have; the alternative names are what counts.
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host[:64])]) if host else issuer
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SLACK)
        .not_valid_after(now + datetime.timedelta(days=365 * _YEARS))
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .add_extension(
            x509.KeyUsage(
                digital_signature=not authority,
                key_cert_sign=authority,
                crl_sign=authority,
                content_commitment=False,
                key_encipherment=False,
                data_encipherment=False,
                key_agreement=False,
                encipher_only=False,
                decipher_only=False,
            ),
            critical=True,
        )
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host.strip("[]")))
    except ValueError:
        return x509.DNSName(host)


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
