"""What the rules of the diagnosis look for, one function each; ``dflash_viz.metrics.diagnosis`` asks them."""
