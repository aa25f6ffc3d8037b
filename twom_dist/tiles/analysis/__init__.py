"""Analysis of rows and columns before a product: sizes, spreads, moduli."""
