"""The TLS of a broker's listeners: a context from PEM files, and certificates that are made and thrown away.

`ReferenceBroker` asks for both. The private keys of the latter lie in a folder that only this user can read, for the
clients of a test; it is gone with the object.
"""

from __future__ import annotations

import shutil
import ssl
import tempfile
import weakref
from pathlib import Path
from typing import TYPE_CHECKING

from kafka_share.broker.security.settings import ClientAuth, TlsFiles
from kafka_share.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable

    import trustme

_VERIFY = {
    ClientAuth.NONE: ssl.CERT_NONE,
    ClientAuth.REQUESTED: ssl.CERT_OPTIONAL,
    ClientAuth.REQUIRED: ssl.CERT_REQUIRED,
}


def server_context(files: TlsFiles, client_auth: ClientAuth) -> ssl.SSLContext:
    """TLS 1.2 or later. Raises `ConfigurationError` for files that cannot be read or do not fit together."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(files.certificate, files.key)
        if files.authority is not None:
            context.load_verify_locations(files.authority)
    except OSError as error:
        raise ConfigurationError(f"the broker's certificates cannot be used: {error}") from None
    context.verify_mode = _VERIFY[client_auth]
    return context


class ThrowAwayCertificates:
    """An authority of its own, with a certificate for these hosts. Raises `ConfigurationError` without trustme."""

    def __init__(self, hosts: Iterable[str]) -> None:
        try:
            import trustme
        except ImportError:
            raise ConfigurationError(
                "certificates to throw away need trustme: install kafka-share[broker-tls], or give your own"
            ) from None
        self._folder = Path(tempfile.mkdtemp(prefix="kafka-share-tls-"))
        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        self._authority = trustme.CA()
        authority = self._folder / "ca.pem"
        authority.write_bytes(self._authority.cert_pem.bytes())
        certificate, key = self._write("server", self._authority.issue_cert(*hosts))
        self.files: TlsFiles = TlsFiles(certificate, key, authority)

    def client(self, name: str) -> tuple[Path, Path]:
        """The files of a certificate and key for a client with this common name."""
        return self._write("client", self._authority.issue_cert("localhost", common_name=name))

    def _write(self, kind: str, issued: trustme.LeafCert) -> tuple[Path, Path]:
        folder = Path(tempfile.mkdtemp(prefix=f"{kind}-", dir=self._folder))
        certificate, key = folder / "certificate.pem", folder / "key.pem"
        certificate.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        key.write_bytes(issued.private_key_pem.bytes())
        return certificate, key
