"""`kafka-share watch`: a live view of one share group. `rates` measures, `view` draws, `command` loops."""
