"""The tools as pydantic models, for the libraries whose documentation declares them so."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class Arguments(BaseModel):
    # As the schemas say: nothing but the declared properties.
    model_config = ConfigDict(extra="forbid")


class Forecast(Arguments):
    """Tell the weather of a city for some days."""

    city: str
    days: int | None = Field(default=None, ge=1)


class Transfer(Arguments):
    """Pay an account."""

    to: str
    cents: int
    memo: str | None = None


class Purge(Arguments):
    """Delete what lies in a folder, or everything."""

    folder: str | None = None


class Now(Arguments):
    """Tell the time."""


class Scale(Arguments):
    """Scale the picture."""

    by: float


class Count(Arguments):
    """Count to a number."""

    n: int


MODELS: dict[str, type[Arguments]] = {
    "forecast": Forecast, "transfer": Transfer, "purge": Purge, "now": Now, "scale": Scale, "count": Count,
}  # fmt: skip
