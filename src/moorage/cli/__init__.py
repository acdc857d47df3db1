"""The `moorage` command: one module per verb. A verb imports its heavy dependencies when it runs, not before."""
