"""The catalog's own objects: names, listings, locations, models, volumes."""
