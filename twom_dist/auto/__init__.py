"""The sizes from which products use int8, for the chip that multiplies."""
