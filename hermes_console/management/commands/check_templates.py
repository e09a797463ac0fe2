"""`manage.py check_templates`: every template compiles; every url, static, include and extends in
it resolves.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.staticfiles import finders
from django.core.management.base import BaseCommand, CommandError
from django.template import Engine, TemplateDoesNotExist, TemplateSyntaxError
from django.template.base import Node
from django.template.defaulttags import URLNode
from django.template.loader_tags import ExtendsNode, IncludeNode
from django.templatetags.static import StaticNode
from django.urls import URLPattern, URLResolver, get_resolver


class Command(BaseCommand):
    help = "Compile all templates and check what they refer to."

    def handle(self, *_args: Any, **_options: Any) -> None:
        problems = list(find_problems(Path(settings.TEMPLATES[0]["DIRS"][0])))
        if problems:
            raise CommandError("\n".join(problems))
        self.stdout.write("templates: fine")


def find_problems(directory: Path) -> Iterator[str]:
    """One sentence per problem, with the template's name."""
    engine = Engine.get_default()
    routes = set(route_names(get_resolver().url_patterns, ""))
    for file in sorted(directory.rglob("*.html")):
        name = file.relative_to(directory).as_posix()
        try:
            template = engine.get_template(name)
        except TemplateSyntaxError as error:
            yield f"{name}: {error}"
            continue
        for node in all_nodes(template.nodelist):
            problem = reference_problem(node, engine, routes)
            if problem:
                yield f"{name}: {problem}"


def all_nodes(nodes: Any) -> Iterator[Node]:
    """Every node, inner ones too."""
    for node in nodes:
        yield node
        for attribute in getattr(node, "child_nodelists", ()):
            yield from all_nodes(getattr(node, attribute, None) or ())


def reference_problem(node: Node, engine: Engine, routes: set[str]) -> str | None:
    """What is wrong with the node's constant reference; None for nothing or a variable."""
    if isinstance(node, URLNode):
        name = _constant(node.view_name)
        return f"no address is named {name!r}" if name and name not in routes else None
    if isinstance(node, StaticNode):
        name = _constant(node.path)
        return f"no static file {name!r}" if name and finders.find(name) is None else None
    if isinstance(node, IncludeNode | ExtendsNode):
        name = _constant(node.template if isinstance(node, IncludeNode) else node.parent_name)
        try:
            if name:
                engine.get_template(name)
        except TemplateDoesNotExist:
            return f"no template {name!r}"
        except TemplateSyntaxError:
            return None  # told for that template itself
    return None


def route_names(patterns: list[Any], prefix: str) -> Iterator[str]:
    """`namespace:name` of every address."""
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            inner = f"{prefix}{pattern.namespace}:" if pattern.namespace else prefix
            yield from route_names(pattern.url_patterns, inner)
        elif isinstance(pattern, URLPattern) and pattern.name:
            yield prefix + pattern.name


def _constant(expression: Any) -> str | None:
    """The text of a quoted argument; None for a variable."""
    value = getattr(expression, "var", expression)
    return value if isinstance(value, str) else None
