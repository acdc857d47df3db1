"""An identity provider in this process: a discovery document, keys, and tokens of any kind, also invalid ones."""

from __future__ import annotations

import hashlib
import json
import secrets
import threading
import time
from base64 import b64encode, urlsafe_b64encode
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qsl, urlencode

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
    """Serves until the end of its context. `requests` counts how often its keys were read.

    A browser that logs in is ann at once. `id_claims` replace the claims of its ID tokens, and `secret` is what this
    provider requires of its client, if anything.
    """

    def __init__(self, host: str = "127.0.0.1") -> None:
        self.keys = [Key("k1")]
        self.requests = 0
        self.stated_issuer: str | None = None
        self.secret: str | None = None
        self.id_claims: dict[str, Any] = {}
        self.codes: dict[str, dict[str, str]] = {}
        """The authorization request of each code that was not redeemed."""
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                path, _, query = self.path.partition("?")
                if path == "/authorize":
                    self.send_response(302)
                    self.send_header("location", issuer.authorize(dict(parse_qsl(query))))
                    self.end_headers()
                elif path.endswith("openid-configuration"):
                    self._answer(200, issuer.description)
                else:
                    issuer.requests += 1
                    self._answer(200, {"keys": [key.published for key in issuer.keys]})

            def do_POST(self) -> None:
                form = dict(parse_qsl(self.rfile.read(int(self.headers["content-length"])).decode()))
                token = issuer.redeem(form, self.headers["authorization"])
                self._answer(*((400, {"error": "invalid_grant"}) if token is None else (200, {"id_token": token})))

            def _answer(self, status: int, body: Any) -> None:
                self.send_response(status)
                self.end_headers()
                self.wfile.write(json.dumps(body).encode())

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://{host}:{self._server.server_address[1]}"

    @property
    def description(self) -> dict[str, str]:
        return {
            "issuer": self.stated_issuer or self.url,
            "jwks_uri": f"{self.url}/keys",
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
        }

    def authorize(self, request: dict[str, str]) -> str:
        """Where a browser goes that has logged in: the address in its request, with a code."""
        assert (request["response_type"], request["code_challenge_method"]) == ("code", "S256"), request
        code = secrets.token_urlsafe()
        self.codes[code] = request
        return f"{request['redirect_uri']}?{urlencode({'code': code, 'state': request['state'], 'iss': self.url})}"

    def redeem(self, form: dict[str, str], authorization: str | None) -> str | None:
        """The ID token for a code, or None. A code works once, for the client that asked for it."""
        request = self.codes.pop(form.get("code", ""), None)
        if request is None or form["grant_type"] != "authorization_code":
            return None
        challenge = urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest()).decode().rstrip("=")
        if challenge != request["code_challenge"]:
            return None
        if any(form[name] != request[name] for name in ("client_id", "redirect_uri")):
            return None
        if self.secret is not None:
            given = b64encode(f"{request['client_id']}:{self.secret}".encode()).decode()
            if authorization != f"Basic {given}":
                return None
        return self.token(**{"aud": request["client_id"], "nonce": request["nonce"], **self.id_claims})

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
