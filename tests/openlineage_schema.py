"""Check events against the classes that OpenLineage generates from its JSON schema, and against our own facet schema.

The schema itself is not in the package of the client, and its copy is not part of the project. Each class has its
fields, their types, which of them are required, and the address of the schema that it was generated from.
"""

import importlib
import json
import pkgutil
import re
import types
import typing
from enum import Enum
from pathlib import Path
from typing import Any

import attr
import jsonschema
import openlineage.client.generated
from openlineage.client.generated import base

from pststream.base import lineage_events

FACET_FILE = Path(lineage_events.__file__).parent / "lineage_ledger_facet.json"
PRIMITIVES: dict[Any, dict[str, Any]] = {
    str: {"type": "string"}, int: {"type": "integer"}, bool: {"type": "boolean"}, float: {"type": "number"}, Any: {},
}  # fmt: skip
FORMATS: dict[str, str] = {
    "eventTime": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)",
    "runId": r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}",
    **dict.fromkeys(("producer", "_producer", "schemaURL", "_schemaURL"), r"[a-z][a-z0-9+.-]*:[^\s]+"),
}
"""By field: the form of its text. The schema has them as the formats date-time, uuid and uri."""


def schema_of(kind: type) -> dict[str, Any]:
    """Return the JSON schema of a class; a class that has fields of its own type refers to itself."""
    definitions: dict[str, Any] = {}
    return {**_schema_of_class(kind, definitions), "$defs": definitions}


def _schema_of_class(kind: type, definitions: dict[str, Any]) -> dict[str, Any]:
    name = f"{kind.__module__}.{kind.__name__}"
    if name not in definitions:
        definitions[name] = {}
        definitions[name] |= _schema_of_fields(kind, definitions)
    return {"$ref": f"#/$defs/{name}"}


def _schema_of_fields(kind: type, definitions: dict[str, Any]) -> dict[str, Any]:
    fields = {field.name: field for field in attr.fields(kind)}
    hints = typing.get_type_hints(kind)
    properties = {name: _schema_of_type(hints[name], definitions) for name in fields}
    for name in properties.keys() & FORMATS.keys():
        properties[name] = {"type": "string", "pattern": f"^{FORMATS[name]}$"}
    always = {"producer", "schemaURL", "_producer", "_schemaURL"}
    required = [name for name, field in fields.items() if field.default is attr.NOTHING or name in always]
    return {"type": "object", "properties": properties, "required": required}


def _schema_of_type(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON schema of the type of a field."""
    if kind in PRIMITIVES:
        return PRIMITIVES[kind]
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        return {"anyOf": [_schema_of_type(one, definitions) for one in arguments if one is not type(None)]}
    if origin is list:
        return {"type": "array", "items": _schema_of_type(arguments[0], definitions)}
    if origin is dict:
        return {"type": "object", "additionalProperties": _schema_of_type(arguments[1], definitions)}
    if issubclass(kind, Enum):
        return {"enum": [one.value for one in kind]}
    return _schema_of_class(kind, definitions)


def _facet_classes() -> dict[str, type]:
    """Return the classes of OpenLineage's facets by the address of their schema."""
    classes = {}
    for module in pkgutil.iter_modules(openlineage.client.generated.__path__):
        loaded = importlib.import_module(f"openlineage.client.generated.{module.name}")
        for one in vars(loaded).values():
            if isinstance(one, type) and issubclass(one, base.BaseFacet):
                classes[one._get_schema()] = one
    return classes


FACETS = _facet_classes()
ADDED = "tags"
"""The facet that the client itself adds to each run: its version."""


def check_event(event: dict[str, Any]) -> None:
    """Fail unless an event and each of its facets are valid, and the sender is the producer of all of them."""
    jsonschema.validate(event, schema_of(base.RunEvent))
    assert event["schemaURL"] == base.RunEvent._get_schema()
    kinds = {"run": base.RunFacet, "job": base.JobFacet}
    places = [(kind, event[name].get("facets", {})) for name, kind in kinds.items()]
    for side, own in (("inputs", base.InputDatasetFacet), ("outputs", base.OutputDatasetFacet)):
        for dataset in event[side]:
            places.append((base.DatasetFacet, dataset.get("facets", {})))
            places.append((own, dataset.get(f"{side[:-1]}Facets", {})))
    for kind, facets in places:
        for name, facet in facets.items():
            assert re.fullmatch(r"[a-z]\w*", name)
            assert name == ADDED or facet["_producer"] == event["producer"] == lineage_events.PRODUCER
            _check_facet(name, facet, kind)


def _check_facet(name: str, facet: dict[str, Any], kind: type) -> None:
    """Fail unless a facet is one of OpenLineage for this place, or our own, and is valid."""
    if facet["_schemaURL"] in FACETS:
        facet_class = FACETS[facet["_schemaURL"]]
        assert issubclass(facet_class, kind)
        assert f"{name[0].upper()}{name[1:]}{kind.__name__}" == facet_class.__name__
        jsonschema.validate(facet, schema_of(facet_class))
        return
    document = json.loads(FACET_FILE.read_text("utf-8"))
    address, _, pointer = facet["_schemaURL"].partition("#/$defs/")
    assert address == document["$id"] and pointer in document["$defs"], "the facet has no schema of ours"
    assert name in document["properties"] and kind is base.RunFacet
    theirs, own = document["$defs"][pointer]["allOf"]
    assert theirs["$ref"] == base.RunFacet._get_schema()
    jsonschema.validate(facet, schema_of(base.RunFacet))
    jsonschema.validate(facet, own)
