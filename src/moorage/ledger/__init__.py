"""The one writer of every fact: append(draft) → receipt."""
