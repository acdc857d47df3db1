"""The ledger, through which every fact is written: append(draft) → receipt."""
