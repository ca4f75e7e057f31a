"""A certificate authority in a directory, for clusters without one: ca.crt and ca.key, then NAME.crt and NAME.key.

    CA         EC P-256, self-signed, may sign leaves only (path length 0)
    NAME       EC P-256, CN = NAME, SANs NAME and its addresses, for clients and servers alike: a switch is both

Law: private keys are 0600 from their first byte on, and no file is replaced unless that was asked for. ca.key is
needed to issue certificates only: it stays in the directory, and daemons get ca.crt.
"""

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from paceline.commands.arguments import CommandError

CA = "ca"
CLOCK_SKEW = timedelta(minutes=5)  # hosts whose clocks are a little behind must not refuse a new certificate

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?")  # as a file and in DNS
MAX_NAME_CHARS = 64  # of a CN


@dataclass(frozen=True, slots=True)
class Issued:
    """One certificate in the directory."""

    name: str
    certificate: Path
    key: Path
    addresses: tuple[str, ...]
    expires: datetime
    trusted: bool  # signed by the CA that is here now

    def days_left(self, now: datetime) -> int:
        return (self.expires - now).days


def init(directory: Path, days: int, force: bool, now: datetime) -> Issued:
    """A new CA. Replacing a CA makes every certificate that it issued worthless."""
    _refuse_existing(directory, CA, force)
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Paceline CA")])
    builder = _builder(name, name, key, days, now)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(key_cert_sign=True, crl_sign=True), critical=True)
    return _write(directory, CA, builder.sign(key, SHA256()), key)


def issue(directory: Path, name: str, addresses: Iterable[str], days: int, force: bool, now: datetime) -> Issued:
    """A certificate for a host or switch."""
    check_names({name: ()})
    ca, ca_key = _load(directory, CA), _load_ca_key(directory)
    _refuse_existing(directory, name, force)
    ca_days_left = (ca.not_valid_after_utc - now).days
    if days > ca_days_left:
        raise CommandError(f"found --days {days}, expected at most {ca_days_left}: then the CA itself expires")
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = _builder(subject, ca.subject, key, days, now)
    sans = [x509.DNSName(name), *(_general_name(address) for address in addresses if address != name)]
    both_ways = [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]
    authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key())
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_usage(digital_signature=True), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage(both_ways), critical=False)
    builder = builder.add_extension(x509.SubjectAlternativeName(dict.fromkeys(sans)), critical=False)
    builder = builder.add_extension(authority, critical=False)
    return _write(directory, name, builder.sign(ca_key, SHA256()), key)


def check_names(names: Mapping[str, Iterable[str]]) -> None:
    """Raises CommandError for one that no certificate can be made for; addresses by name."""
    for name, addresses in names.items():
        if not _NAME.fullmatch(name) or len(name) > MAX_NAME_CHARS or name == CA:
            raise CommandError(f"found name {name!r}, expected a host's or switch's: letters, digits, dots and dashes")
        for address in addresses:
            _general_name(address)


def is_good(directory: Path, name: str, addresses: Iterable[str], days: int, now: datetime) -> bool:
    """There is a certificate with these addresses, from the CA that is here, for more than so many days."""
    if not all((directory / f"{name}.{kind}").exists() for kind in ("crt", "key")):
        return False
    found = _describe(directory, name, _load(directory, name), _load(directory, CA))
    wanted = {str(_general_name(address).value) for address in addresses if address != name}
    return found.trusted and wanted <= {*found.addresses} and found.days_left(now) > days


def issued(directory: Path) -> list[Issued]:
    """The CA, then every certificate by name."""
    ca = _load(directory, CA)
    names = sorted({path.stem for path in directory.glob("*.crt")} - {CA})
    return [_describe(directory, name, _load(directory, name), ca) for name in [CA, *names]]


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: int, now: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _usage(**allowed: bool) -> x509.KeyUsage:
    uses = ["digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement"]
    uses += ["key_cert_sign", "crl_sign", "encipher_only", "decipher_only"]
    return x509.KeyUsage(**(dict.fromkeys(uses, False) | allowed))


def _general_name(address: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(address))
    except ValueError:
        pass
    if not _NAME.fullmatch(address):
        raise CommandError(f"found --address {address!r}, expected an IP address or a DNS name")
    return x509.DNSName(address)


def _describe(directory: Path, name: str, certificate: x509.Certificate, ca: x509.Certificate) -> Issued:
    try:
        sans = [*certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value]
    except x509.ExtensionNotFound:
        sans = []
    addresses = tuple(str(san.value) for san in sans if str(san.value) != name)
    try:
        certificate.verify_directly_issued_by(ca)
        trusted = True
    except (InvalidSignature, ValueError, TypeError):
        trusted = False
    expires = certificate.not_valid_after_utc
    return Issued(name, directory / f"{name}.crt", directory / f"{name}.key", addresses, expires, trusted)


def _load(directory: Path, name: str) -> x509.Certificate:
    path = directory / f"{name}.crt"
    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except FileNotFoundError:
        hint = f"; make one with: paceline certs init {directory}" if name == CA else ""
        raise CommandError(f"{path}: no such file{hint}") from None
    except ValueError:
        raise CommandError(f"{path}: found no certificate, expected one in PEM") from None


def _load_ca_key(directory: Path) -> ec.EllipticCurvePrivateKey:
    path = directory / f"{CA}.key"
    try:
        key = load_pem_private_key(path.read_bytes(), None)
    except (ValueError, TypeError):  # TypeError: it has a password
        key = None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != _load(directory, CA).public_key():
        raise CommandError(f"{path}: expected the private key of {CA}.crt, in PEM without a password")
    return key


def _refuse_existing(directory: Path, name: str, force: bool) -> None:
    for path in (directory / f"{name}.crt", directory / f"{name}.key"):
        if not force and os.path.lexists(path):
            raise CommandError(f"{path} is there already; --force replaces it")


def _write(directory: Path, name: str, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Issued:
    """The key first: after a crash there may be a key without a certificate, never a certificate without a key."""
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    _write_file(directory / f"{name}.key", pem, 0o600)
    _write_file(directory / f"{name}.crt", certificate.public_bytes(Encoding.PEM), 0o644)
    ca = certificate if name == CA else _load(directory, CA)
    return _describe(directory, name, certificate, ca)


def _write_file(path: Path, content: bytes, mode: int) -> None:
    """All or nothing: a reader sees the old file or the new one."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        file = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
        with os.fdopen(file, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def utc_now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)
