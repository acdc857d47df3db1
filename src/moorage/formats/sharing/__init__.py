"""The wire format of Delta Sharing: lines, capabilities and file ids. Pure."""
