"""Define the field `home` of all trigger forms, and templates that turn form fields into arguments of a job."""

from airflow.sdk import Param

HOME = Param(
    None,
    type=["null", "string"],
    minLength=1,
    title="Home",
    description="Folder or prefix of the tables. Empty: Airflow's variable `pststream_home`, else `PSTSTREAM_HOME`.",
    section="Where",
)
HOME_ARGUMENT = "--home={{ params.home or var.value.get('pststream_home', '') }}"


def optional(field: str) -> str:
    """Return the template of `--field-name=VALUE`; an empty field leaves the value to the home's settings."""
    return f"--{field.replace('_', '-')}={{{{ '' if params.{field} is none else params.{field} }}}}"


def flag(field: str) -> str:
    """Return the template of `--field-name`, for a ticked box."""
    return f"{{{{ '--{field.replace('_', '-')}' if params.{field} else '' }}}}"
