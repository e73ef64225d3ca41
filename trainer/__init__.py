"""gapcast's compact trainer for on-policy self-distillation; `trainer.train` holds the loop."""
