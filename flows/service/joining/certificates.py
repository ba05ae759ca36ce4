"""The certificate of a server that listens beyond loopback: one of its own making, or the user's."""

from __future__ import annotations

import hashlib
import ipaddress
import ssl
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from flows.service.api import Refused
from flows.service.place import Place

VALID = timedelta(days=3650)
"""Of one that we make: clients trust it by its fingerprint, and a new one would have to be joined again."""
LEFT = timedelta(days=30)
"""One that we made is made again when less than this is left."""


class Certificate(NamedTuple):
    """Files of a server, and what clients compare."""

    file: Path
    key: Path
    pin: str
    """SHA-256 of the certificate, hexadecimal."""
    authority: str | None
    """PEM of what clients trust; None: one of the authorities that every machine trusts has signed it."""


def own_certificate(place: Place, host: str) -> Certificate:
    """The certificate of this home for `host`; made where there is none, or where it does not fit. Raises Refused."""
    file, key = place.folder / "tls.pem", place.folder / "tls-key.pem"
    try:
        found = checked(file, key, host)
        if _expiry(_chain(file)[0]) - datetime.now(UTC) > LEFT:
            return found
    except Refused:  # there is none, or it is for another address
        pass
    secret = ec.generate_private_key(ec.SECP256R1())
    place.keep(key, secret.private_bytes(*_PLAIN).decode())
    place.keep(file, _signed(secret, host).public_bytes(serialization.Encoding.PEM).decode())
    return checked(file, key, host)


_PLAIN = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


def _signed(key: ec.EllipticCurvePrivateKey, host: str) -> x509.Certificate:
    """A certificate that signs nothing but itself."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "trivet")])
    now, public = datetime.now(UTC), key.public_key()
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(public)
    builder = builder.serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(now - timedelta(days=1)).not_valid_after(now + VALID)
    subject = x509.SubjectKeyIdentifier.from_public_key(public)
    names = [_general(each) for each in dict.fromkeys((host, "127.0.0.1", "localhost"))]
    for extension, critical in (
        (x509.SubjectAlternativeName(names), False),
        (x509.BasicConstraints(ca=False, path_length=None), True),
        (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False),
        (subject, False),
        (x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(subject), False),
    ):
        builder = builder.add_extension(extension, critical=critical)
    return builder.sign(key, hashes.SHA256())


def _general(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def checked(file: Path, key: Path, host: str) -> Certificate:
    """The certificate of these files, if it can serve `host` now. Raises Refused."""
    chain = _chain(file)
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(file, key, password=_no_password)
    except (OSError, ValueError) as error:
        raise Refused(f"{key} is not the key of {file} ({error}); name a PEM key without a password") from error
    leaf, now = chain[0], datetime.now(UTC)
    if not leaf.not_valid_before_utc <= now < _expiry(leaf):
        raise Refused(
            f"{file} is valid from {leaf.not_valid_before_utc:%Y-%m-%d} to {_expiry(leaf):%Y-%m-%d}; renew it"
        )
    if not _covers(leaf, host):
        raise Refused(f"{file} is not for {host} but for {', '.join(_names(leaf)) or 'no name'}; listen there")
    return Certificate(file, key, pin_of(leaf.public_bytes(serialization.Encoding.DER)), _authority(chain))


def _no_password() -> str:
    raise ValueError("it has a password")


def pin_of(der: bytes) -> str:
    """Fingerprint of a certificate in DER."""
    return hashlib.sha256(der).hexdigest()


def _chain(file: Path) -> Sequence[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(file.read_bytes())
    except (OSError, ValueError) as error:
        raise Refused(f"{file} holds no certificate ({error}); name a PEM file, the server's own first") from error


def _expiry(leaf: x509.Certificate) -> datetime:
    return leaf.not_valid_after_utc


def _covers(leaf: x509.Certificate, host: str) -> bool:
    names = _names(leaf)
    _, _, parent = host.partition(".")
    return host.lower() in names or f"*.{parent.lower()}" in names


def _names(leaf: x509.Certificate) -> list[str]:
    try:
        names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    addresses = [str(each) for each in names.get_values_for_type(x509.IPAddress)]
    return [*(each.lower() for each in names.get_values_for_type(x509.DNSName)), *addresses]


def _authority(chain: Sequence[x509.Certificate]) -> str | None:
    """The certificates of the chain that signed themselves."""
    roots = [each for each in chain if each.issuer == each.subject]
    return "".join(each.public_bytes(serialization.Encoding.PEM).decode() for each in roots) or None
