"""The command `moorage`: one file per verb. Heavy parts are imported by the verb that needs them, when it runs."""
