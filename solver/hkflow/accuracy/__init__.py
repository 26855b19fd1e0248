"""How accurate a run is: error bars from companions of it, coarser and tighter ones."""
