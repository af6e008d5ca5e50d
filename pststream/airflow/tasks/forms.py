"""Define fields of trigger forms, and templates that turn them into arguments of a job."""

from typing import Any

from airflow.sdk import Param

from pststream.airflow.dag_options import DagOptions


def home_field(options: DagOptions) -> Param:
    """Return the field *Home*."""
    return _place(options, "home", "Home", "Folder or prefix of the tables.", "`PSTSTREAM_HOME`")


def landing_field(options: DagOptions) -> Param:
    """Return the field *Landing folder*."""
    what = "A folder or `s3://bucket/prefix` with `objects/` and `requests/`."
    return _place(options, "landing", "Landing folder", what, "`PSTSTREAM_LANDING`, else `landing` in the home")


def _place(options: DagOptions, name: str, title: str, what: str, otherwise: str) -> Param:
    if options.home:
        empty = f"that of the DAG, {options.home if name == 'home' else options.landing or options.home + '/landing'}"
    elif options.conn_id:
        empty = f"that of the connection `{options.conn_id}`"
    else:
        empty = f"Airflow's variable `{options.named(name)}`, else {otherwise}"
    return Param(
        None,
        type=["null", "string"],
        minLength=1,
        title=title,
        description=f"{what} Empty: {empty}. Others only if `[pststream] allowed_{name}s` lists them.",
        section="Where",
    )


def field(kind: str, title: str, description: str, section: str, default: Any = None, **bounds: Any) -> Param:
    """Return a field of this JSON type, with bounds of JSON Schema; it may be left empty if it has no default."""
    types = ["null", kind] if default is None else kind
    return Param(default, type=types, title=title, description=description, section=section, **bounds)


def optional(field: str) -> str:
    """Return the template of `--field-name=VALUE`; an empty field leaves the value to the home's settings."""
    value = f"params.get({field!r})"
    return f"--{field.replace('_', '-')}={{{{ '' if {value} is none else {value} }}}}"


def flag(field: str) -> str:
    """Return the template of `--field-name`, for a ticked box."""
    return f"{{{{ '--{field.replace('_', '-')}' if params.get({field!r}) else '' }}}}"
