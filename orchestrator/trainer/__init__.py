"""Programs of the nodes. Of the control side they import only the modules that both sides share."""
