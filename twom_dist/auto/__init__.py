"""From which size on products go through int8, by the chip that multiplies."""
