"""What hostile text may do: dotted look-ups in an example, sandboxed templates, and a deadline for patterns."""

from predictor.fields.deadline import cpu_deadline
from predictor.fields.lookup import available_fields, lookup_field, template_fields
from predictor.fields.templates import compile_template, render_template, template_names

__all__ = [
    "available_fields",
    "compile_template",
    "cpu_deadline",
    "lookup_field",
    "render_template",
    "template_fields",
    "template_names",
]
