"""Workers of another home reach the server by TLS alone, through the proxy of `deployments/tls.cfg`."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.service.serviced import ROOT, free_port, service_home

pytestmark = [
    pytest.mark.drill,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not (shutil.which("haproxy") and shutil.which("openssl")), reason="no haproxy, or no openssl"),
]


def test_a_worker_elsewhere_works_through_the_proxy(tmp_path: Path) -> None:
    key, certificate, pem = (tmp_path / name for name in ("key.pem", "authority.pem", "trivet.pem"))
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *subject]
    subprocess.run([*command, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    pem.write_bytes(certificate.read_bytes() + key.read_bytes())
    with service_home() as one, service_home() as two:
        one.up("--pools", "cpu")
        ports = {"443": free_port(), "8443": free_port()}
        here = {f"bind :{public} ssl": f"bind 127.0.0.1:{own} ssl" for public, own in ports.items()}
        here |= {"server:4200": f"127.0.0.1:{one.port}", "pages:8766": "127.0.0.1:9"}
        here |= {"/usr/local/etc/haproxy/trivet.pem": str(pem)}
        text = (ROOT / "deployments" / "tls.cfg").read_text()
        for there, own in here.items():
            text = text.replace(there, own)
        config = tmp_path / "haproxy.cfg"
        config.write_text(text)
        proxy = subprocess.Popen(["haproxy", "-f", str(config)])
        try:
            variables = {
                "PREFECT_API_URL": f"https://localhost:{ports['443']}/api",
                "PREFECT_API_AUTH_STRING": one.place.auth.read_text(),
                "PREFECT_API_SSL_CERT_FILE": str(certificate),
            }
            done = two.trivet("up", "--json", "--workers-only", "--pools", "gpu", **variables)
            assert done.code == 0, done.stderr + two.logs()
            [worker] = one.api.post("/work_pools/gpu/workers/filter", {})
            assert worker["status"] == "ONLINE"
            assert two.trivet("down").code == 0
        finally:
            proxy.terminate()
            proxy.wait(10)
