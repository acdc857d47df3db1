"""The running server: settings, composition, telemetry, serving."""
