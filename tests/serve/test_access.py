"""Who may ask: keys, names of this machine, pages of other origins."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.testclient import TestClient
from tests.serve.applications import KEY, OTHER_KEY, RANK, client_of

from tamis.errors import InputError
from tamis.serve.auth import Keys
from tamis.serve.engine import Engine


def test_keys(engine: Engine, tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(f"# of the team\n\n{KEY}\n{OTHER_KEY}\n")
    with client_of(engine, Keys.read(file)) as client:
        for headers in (
            {"authorization": f"Bearer {KEY}"},
            {"x-api-key": "another-key-of-the-team"},
        ):
            assert client.post("/v2/rerank", json=RANK, headers=headers).status_code == 200
            assert client.get("/metrics", headers=headers).status_code == 200
        for headers in ({}, {"authorization": f"Bearer {KEY}x"}, {"authorization": f"Basic {KEY}"}):
            response = client.post("/v2/rerank", json=RANK, headers=headers)
            assert response.status_code == 401
            assert response.headers["www-authenticate"] == "Bearer"
            assert KEY not in response.text
            assert client.get("/metrics", headers=headers).status_code == 401
        for path in ("/health", "/ready", "/docs", "/openapi.json"):
            assert client.get(path).status_code == 200, path


@pytest.mark.parametrize("text", ["", "# nothing\n", "short\n", "a-key-that-is-löng-enough\n"])
def test_a_file_without_good_keys_is_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(text, "utf-8")
    with pytest.raises(InputError, match="key"):
        Keys.read(file)


@pytest.mark.parametrize("content", [b"secret-key \xff\xfe\n", "secret-key".encode("utf-16")])
def test_a_file_that_is_not_text_is_refused_without_its_content(
    content: bytes, tmp_path: Path
) -> None:
    (tmp_path / "keys").write_bytes(content)
    for path in (tmp_path / "keys", tmp_path):
        with pytest.raises(InputError) as refused:
            Keys.read(path)
        assert refused.value.hint and "secret" not in f"{refused.value} {refused.value.hint}"
        assert refused.value.__cause__ is None or isinstance(refused.value.__cause__, OSError)


def test_a_file_of_keys_may_begin_with_a_mark_of_its_encoding(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text(f"{KEY}\r\n", "utf-8-sig")
    assert Keys.read(tmp_path / "keys").has(KEY)


def test_without_keys_another_name_of_this_machine_is_refused(client: TestClient) -> None:
    response = client.get("/info", headers={"host": "rebound.example:80"})
    assert response.status_code == 403
    for host in ("localhost:8080", "127.0.0.1", "[::1]:8080"):
        assert client.get("/info", headers={"host": host}).status_code == 200


def test_cors_is_off_unless_an_origin_is_named(engine: Engine, client: TestClient) -> None:
    asked = {"origin": "https://app.example", "access-control-request-method": "POST"}
    assert "access-control-allow-origin" not in client.options("/rerank", headers=asked).headers
    with client_of(engine, cors_origins=("https://app.example",)) as open_client:
        allowed = open_client.options("/rerank", headers=asked)
        assert allowed.headers["access-control-allow-origin"] == "https://app.example"
        other = open_client.options("/rerank", headers={**asked, "origin": "https://other.example"})
        assert "access-control-allow-origin" not in other.headers


def test_a_page_of_a_named_origin_can_read_errors(engine: Engine) -> None:
    origin = {"origin": "https://app.example"}
    with client_of(engine, Keys.of([KEY]), cors_origins=("https://app.example",)) as client:
        for headers, status in (({}, 401), ({"x-api-key": KEY}, 422)):
            refused = client.post("/v1/rerank", json={"query": 1}, headers={**headers, **origin})
            assert refused.status_code == status and refused.headers["x-request-id"]
            assert refused.headers["access-control-allow-origin"] == "https://app.example"
        asked = {**origin, "access-control-request-method": "POST"}
        assert client.options("/v1/rerank", headers=asked).headers["x-request-id"]


def test_a_reload_needs_a_key(client: TestClient, engine: Engine) -> None:
    assert client.post("/admin/reload").status_code == 403
    with client_of(engine, Keys.of([KEY])) as guarded:
        assert guarded.post("/admin/reload").status_code == 401
        done = guarded.post("/admin/reload", headers={"authorization": f"Bearer {KEY}"})
        assert done.json()["models"] == ["tiny", "docs"]
        assert guarded.post("/v1/rerank", json=RANK, headers={"x-api-key": KEY}).status_code == 200
