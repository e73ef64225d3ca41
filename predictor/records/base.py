"""The frozen base of every record, content hashes, name-derived seeds and provenance."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict


class Record(BaseModel):
    """Immutable, strict about unknown keys, and NaN-safe through JSON."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants", use_attribute_docstrings=True)

    def to_json(self) -> str:
        """Compact JSON on one line; NaN and infinity stay what they are."""
        return self.model_dump_json()

    def content_hash(self) -> str:
        """Hash of the canonical JSON: equal records have equal hashes on every machine."""
        return content_hash(self.model_dump(mode="json"))


def content_hash(value: Any) -> str:
    """32 hexadecimal digits fixed by a JSON value alone: keys sorted, no spaces, NaN as `NaN`."""
    canonical = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.blake2b(canonical.encode(), digest_size=16).hexdigest()


def derive_seed(*parts: str | int) -> int:
    """A 63-bit seed fixed by its parts alone, so adding an example changes no other example."""
    digest = hashlib.blake2b(json.dumps(parts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def only_json(value: dict[str, Any]) -> dict[str, Any]:
    """The value itself; ValueError for dates, bytes, sets, cycles and half surrogate pairs, which JSON cannot say.

    They would fail later otherwise: when the record is hashed or written, or a prompt is encoded.
    """
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"holds something that JSON cannot say: {error}") from None
    return value


JsonFields = Annotated[dict[str, Any], AfterValidator(only_json)]
"""Free-form named values, as far as JSON can say them."""


class Provenance(Record):
    """Where a record comes from: enough to find the code, the settings and the machine's software again."""

    time_utc: str
    """ISO 8601 with microseconds, UTC."""
    versions: dict[str, str] = {}
    """Installed versions of the packages that can change the result."""
    git_commit: str = "unknown"
    git_dirty: bool = False
    config_key: str = ""
    """Hash of the study's resolved configuration."""
    engine: str = ""
    engine_version: str = ""
