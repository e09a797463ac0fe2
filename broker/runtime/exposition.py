"""Metrics as Prometheus reads them (text format 0.0.4). Pure: values in, lines out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from broker.metrics import DURATION_BOUNDS, Distribution, Metric, MetricKind, MetricSpec

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
_BOUND_TEXTS: Final = tuple(format(bound, ".6g") for bound in DURATION_BOUNDS)


def head_lines(spec: MetricSpec) -> str:
    """HELP and TYPE of a metric."""
    documentation = spec.documentation.replace("\\", r"\\").replace("\n", r"\n")
    return f"# HELP {spec.name} {documentation}\n# TYPE {spec.name} {spec.kind}\n"


def sample_line(name: str, labels: Iterable[tuple[str, str]], value: float) -> str:
    """One sample."""
    texts = ",".join(f'{label}="{text.translate(_ESCAPES)}"' for label, text in labels)
    return (
        f"{name}{{{texts}}} {format_value(value)}\n" if texts else f"{name} {format_value(value)}\n"
    )


def format_value(value: float) -> str:
    """Whole numbers without a point."""
    return str(int(value)) if value == int(value) else repr(float(value))


def stored_lines(metric: Metric[Any]) -> Iterator[str]:
    """The samples of a metric that holds its values, a child at a time."""
    spec = metric.spec
    for texts, child in list(metric.children.items()):
        labels = list(zip(spec.labels, texts, strict=True))
        if spec.kind is MetricKind.HISTOGRAM:
            yield _distribution_lines(spec.name, labels, child)
        else:
            yield sample_line(spec.name, labels, child.value)


def _distribution_lines(
    name: str, labels: list[tuple[str, str]], distribution: Distribution
) -> str:
    lines = []
    count = 0
    for text, in_bucket in zip(_BOUND_TEXTS, distribution.counts, strict=False):
        count += in_bucket
        lines.append(sample_line(f"{name}_bucket", [*labels, ("le", text)], count))
    count += distribution.counts[-1]
    lines.append(sample_line(f"{name}_bucket", [*labels, ("le", "+Inf")], count))
    lines.append(sample_line(f"{name}_sum", labels, distribution.sum))
    lines.append(sample_line(f"{name}_count", labels, count))
    return "".join(lines)
