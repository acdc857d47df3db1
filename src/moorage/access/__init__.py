"""Who may: the seam that every use case asks."""
