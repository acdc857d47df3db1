"""An identity provider in this process: a discovery document, keys, and tokens of any kind, also invalid ones."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

AUDIENCE = "moorage"


class Key:
    def __init__(self, id: str) -> None:
        self.id = id
        self.private = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    @property
    def published(self) -> dict[str, Any]:
        jwk: dict[str, Any] = jwt.algorithms.RSAAlgorithm.to_jwk(self.private.public_key(), as_dict=True)
        return {**jwk, "kid": self.id, "use": "sig", "alg": "RS256"}


class Issuer:
    """Serves until the end of its context. `requests` counts how often its keys were read."""

    def __init__(self) -> None:
        self.keys = [Key("k1")]
        self.requests = 0
        self.stated_issuer: str | None = None
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path.endswith("openid-configuration"):
                    body: Any = {"issuer": issuer.stated_issuer or issuer.url, "jwks_uri": f"{issuer.url}/keys"}
                else:
                    issuer.requests += 1
                    body = {"keys": [key.published for key in issuer.keys]}
                self.send_response(200)
                self.end_headers()
                self.wfile.write(json.dumps(body).encode())

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def token(self, *, key: Key | None = None, header: dict[str, Any] | None = None, **claims: Any) -> str:
        """A token for ann, valid for an hour unless the claims say otherwise. A claim of None is left out."""
        now = int(time.time())
        given = {
            "iss": self.url,
            "aud": AUDIENCE,
            "sub": "1",
            "email": "ann@example.com",
            "iat": now,
            "exp": now + 3600,
            **claims,
        }
        signed_by = key or self.keys[-1]
        return jwt.encode(
            {name: value for name, value in given.items() if value is not None},
            signed_by.private,
            algorithm="RS256",
            headers={"kid": signed_by.id, **(header or {})},
        )

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
