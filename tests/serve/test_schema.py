"""Requests that schemathesis makes from the description: none ends with a 5xx or a traceback."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings

schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed")

from schemathesis.specs.openapi import checks as specs  # noqa: E402

from tamis.serve.app import create_app  # noqa: E402
from tamis.serve.engine import Engine  # noqa: E402
from tamis.serve.logs import json_logs  # noqa: E402
from tamis.serve.metrics import Metrics  # noqa: E402
from tamis.serve.openapi import openapi  # noqa: E402
from tamis.serve.service import Service  # noqa: E402
from tamis.serve.settings import Limits, ModelPlace, ServeSettings  # noqa: E402

LIMITS = Limits(documents=20, text_characters=2000, body_bytes=50_000, body_seconds=5)
SCHEMA = schemathesis.openapi.from_dict(openapi())


@pytest.fixture(scope="module")
def app(tiny_cross_encoder: Path, reranking_sieve: Path) -> Any:
    places = (
        ModelPlace("docs", str(reranking_sieve)),
        ModelPlace("tiny", str(tiny_cross_encoder)),
    )
    found = ServeSettings(places, limits=LIMITS, threads=1)
    metrics = Metrics()
    engine = Engine.open(found, metrics)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "close", lambda: None)  # every request has a lifespan of its own
        yield create_app(Service(engine, found, None, metrics))
    engine.close()


@SCHEMA.parametrize()  # type: ignore[untyped-decorator]
@settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_every_path(case: Any, app: Any) -> None:
    case.headers = {**(case.headers or {}), "host": "127.0.0.1"}
    log = io.StringIO()
    with json_logs(log):
        response = case.call(app=app, base_url="http://127.0.0.1")
    assert response.status_code < 500, (case.body, response.text)
    assert "Traceback" not in response.text
    case.validate_response(
        response,
        checks=[
            schemathesis.checks.not_a_server_error,
            specs.response_schema_conformance,
            specs.status_code_conformance,
            specs.content_type_conformance,
        ],
    )
    for line in log.getvalue().splitlines():
        assert json.loads(line)["level"] != "error"
