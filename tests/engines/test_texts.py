"""Text to ids and back is what the Hugging Face class gives, on every miniature's tokenizer and under every option."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from predictor.engines import embedded_models, load_tokenizer, resolve_model
from predictor.engines.texts import ids_text, text_ids

MODELS = [name for name in embedded_models() if name.startswith("miniature/")]
TEXTS = ("", "a", " two  spaces", "line\nbreak", "don't , stop .", "é 漢字 🙂", "<|im_end|> inside a text", "x" * 300)


def from_class(tokenizer: Any, text: str) -> tuple[int, ...]:
    """The class's ids, with nothing added."""
    return tuple(tokenizer(text, add_special_tokens=False)["input_ids"])


@pytest.fixture(params=MODELS)
def tokenizer(request: pytest.FixtureRequest) -> Any:
    """A fresh tokenizer, whose options a test may set."""
    return load_tokenizer(resolve_model(request.param, Path()))


@pytest.mark.parametrize("text", TEXTS)
def test_ids_are_those_of_the_class(tokenizer: Any, text: str) -> None:
    """Spaces, control tokens and letters outside the vocabulary included."""
    assert text_ids(tokenizer, text) == from_class(tokenizer, text)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_texts_are_those_of_the_class(tokenizer: Any, data: st.DataObject) -> None:
    """Any ids, special ones and halves of characters included."""
    ids = data.draw(st.lists(st.integers(0, len(tokenizer) - 1), max_size=12))
    assert ids_text(tokenizer, ids) == tokenizer.decode(ids, skip_special_tokens=True)


@pytest.mark.parametrize("option", ["truncation", "padding", "split_special_tokens"])
def test_an_option_of_the_user_is_honoured(tokenizer: Any, option: str) -> None:
    """Where the library alone would cut, pad or join, the class decides: nothing is cut, nothing padded."""
    if option == "truncation":
        tokenizer.backend_tokenizer.enable_truncation(2)
    elif option == "padding":
        tokenizer.backend_tokenizer.enable_padding(length=100)
    else:
        tokenizer.split_special_tokens = True
    found = text_ids(tokenizer, TEXTS[6])
    # Asked second: the class takes the library's truncation and padding away for good.
    assert found == from_class(tokenizer, TEXTS[6])


def test_clean_up_of_spaces_is_honoured(tokenizer: Any) -> None:
    """The clean-up is the class's own work, and it still happens."""
    tokenizer.clean_up_tokenization_spaces = True
    ids = from_class(tokenizer, TEXTS[4])
    assert ids_text(tokenizer, ids) == tokenizer.decode(ids, skip_special_tokens=True)
