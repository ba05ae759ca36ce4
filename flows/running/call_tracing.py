"""Spans of model calls on their way to the OpenTelemetry collector of OTEL_EXPORTER_OTLP_ENDPOINT."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from flows.running.environment import program
from flows.running.settings import settings
from tasks.call_spans import trace_with

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

log = logging.getLogger(__name__)

LAST_WORDS_MS = 5_000
"""Longest wait for the collector when the process ends."""


def trace_calls() -> None:
    """Begin to send, if a collector is configured; once for each process. The packages read their own OTEL_ variables.

    Where the program that runs this has a tracer already, the spans go to that one.
    """
    if not settings().otlp_endpoint:
        return
    try:
        from opentelemetry import trace
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult
    except ModuleNotFoundError as error:
        remedy = "run `pip install 'trivet[otel]'`, or unset OTEL_EXPORTER_OTLP_ENDPOINT"
        log.warning("model calls are not traced: %s is missing; %s", error.name, remedy)
        return

    class Exporter(OTLPSpanExporter):
        """Says once that the collector is away, where the package's own says it for each try."""

        said = False

        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            result = super().export(spans)
            if result is SpanExportResult.FAILURE and not self.said:
                self.said = True
                log.warning("the collector of OTEL_EXPORTER_OTLP_ENDPOINT takes no spans; runs go on without it")
            return result

    logging.getLogger(OTLPSpanExporter.__module__).setLevel(logging.CRITICAL)
    if not isinstance(trace.get_tracer_provider(), TracerProvider):
        provider = TracerProvider(resource=Resource.create({"service.name": "trivet", "service.version": program()}))
        provider.add_span_processor(BatchSpanProcessor(Exporter(timeout=LAST_WORDS_MS // 1000)))
        trace.set_tracer_provider(provider)
    trace_with(trace.get_tracer("trivet"))
