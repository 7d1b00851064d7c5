"""Docstrings as Markdown: stars are stars, a name with spaces and a text is an item of a list, classes have signatures."""

import re

import griffe

ENTRY = re.compile(r"(\w[\w, ]*?) {2,}(\S.*)")
"""`name, other name     what they mean`."""
FIELD = re.compile(r"eqx\.field\((?:.*\bdefault=(?P<default>[^,)]+))?.*\)")
"""A field of an equinox Module that says more than its default."""


class PlainDocstrings(griffe.Extension):
    """Called by griffe, which reads the source for mkdocstrings."""

    def on_object(self, *, obj, **_) -> None:
        if obj.docstring is not None:
            signature = _signature(obj) if obj.is_class and "__init__" not in obj.members else ""
            obj.docstring.value = signature + as_markdown(obj.docstring.value)


def _signature(cls) -> str:
    """What a Module without an `__init__` of its own is made of."""
    fields = [member for member in cls.members.values() if member.is_attribute and _is_field(member)]
    declared = "".join(f"    {_declared(field)},\n" for field in fields)
    return f"```python\n{cls.name}(\n{declared})\n```\n\n" if fields else ""


def _is_field(attribute) -> bool:
    return attribute.annotation is not None and not attribute.name.startswith("_") and "property" not in attribute.labels


def _declared(field) -> str:
    """`name: type = default`."""
    value = "" if field.value is None else str(field.value)
    if found := FIELD.fullmatch(value):
        value = found["default"] or ""
    return f"{field.name}: {field.annotation}" + (f" = {value}" if value else "")


def as_markdown(docstring: str) -> str:
    return "\n\n".join(_paragraph(paragraph) for paragraph in re.split(r"\n\s*\n", docstring.strip("\n")))


def _paragraph(text: str) -> str:
    """Formulas that stand apart stay as they are, tables become lists, prose is escaped."""
    lines = text.splitlines()
    if all(line.startswith("    ") for line in lines):
        return text
    if not ENTRY.fullmatch(lines[0]):
        return _escaped(text)
    entries: list[str] = []
    for line in lines:
        if found := ENTRY.fullmatch(line):
            names = ", ".join(f"`{name.strip()}`" for name in found[1].split(","))
            entries.append(f"- {names}: {_escaped(found[2])}")
        else:
            entries[-1] += f" {_escaped(line.strip())}"
    return "\n".join(entries)


def _escaped(text: str) -> str:
    """Without emphasis, links and tags, outside of code."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else re.sub(r"([*_\[\]<\\])", r"\\\1", part) for part in parts)
