"""Fields that the trigger forms share, and how an empty one is passed on: not at all."""

from airflow.sdk import Param

HOME = Param(
    None,
    type=["null", "string"],
    minLength=1,
    title="Home",
    description="Folder of the tables. Empty: Airflow's variable `pststream_home`, else `PSTSTREAM_HOME`.",
    section="Where",
)
HOME_ARGUMENT = "--home={{ params.home or var.value.get('pststream_home', '') }}"


def optional(field: str) -> str:
    """The argument `--field-name=VALUE` from the form; an empty field leaves it to the home's settings."""
    return f"--{field.replace('_', '-')}={{{{ '' if params.{field} is none else params.{field} }}}}"


def flag(field: str) -> str:
    """The argument `--field-name` if the form's box is ticked."""
    return f"{{{{ '--{field.replace('_', '-')}' if params.{field} else '' }}}}"
