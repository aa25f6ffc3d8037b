"""Encoded tiles kept per process, found by weak reference to their block.

An entry dies with its block; a byte budget drops the least recently used ones. If a
block may be refilled in place, its key must contain its fingerprint.
"""

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable

from ..kernels.device_memory import on_full
from ..kernels.protocol import Encoded
from ..typing import Array

_Owners = tuple[weakref.ref[Array], ...]


class EncodedCache:
    """Keep what `encode` made of a block while the block lives and the budget lasts."""

    def __init__(self) -> None:
        self._entries: OrderedDict[Hashable, tuple[_Owners, Encoded]] = OrderedDict()
        # Reentrant: a weak reference may die, and call back, while we hold it.
        self._lock = threading.RLock()
        self._making: dict[Hashable, threading.Lock] = {}
        self.nbytes = 0
        self.encoded = self.reused = 0  # tiles encoded, and found here

    def get(
        self,
        block: Array,
        key: Hashable,
        encode: Callable[[], Encoded],
        budget: int,
        exponents: Array | None = None,
    ) -> Encoded:
        """Return the encoded form of block under key, making it if need be.

        `exponents`: an array on a device, which joins the key by identity. A new entry
        is kept if it fits into `budget` bytes; older ones make room for it.
        """
        owners = (block,) if exponents is None else (block, exponents)
        full_key = (*map(id, owners), key)
        with self._lock:
            making = self._making.setdefault(full_key, threading.Lock())
        # Two tasks of one worker often want the same tile at once: one makes it.
        try:
            with making:
                with self._lock:
                    references, found = self._entries.get(full_key, ((), None))
                    owned = (r() is x for r, x in zip(references, owners, strict=True))
                    if found is not None and all(owned):
                        self._entries.move_to_end(full_key)
                        self.reused += 1
                        return found
                encoded = encode()
                with self._lock:
                    self.encoded += 1
                    self._store(full_key, owners, encoded, budget)
                return encoded
        finally:
            with self._lock:
                self._making.pop(full_key, None)

    def _store(
        self,
        full_key: Hashable,
        owners: tuple[Array, ...],
        encoded: Encoded,
        budget: int,
    ) -> None:
        self._drop(full_key)
        if encoded.nbytes > budget:
            return
        while self._entries and self.nbytes + encoded.nbytes > budget:
            self._drop(next(iter(self._entries)))
        references = tuple(
            weakref.ref(x, lambda _: self._drop(full_key)) for x in owners
        )
        self._entries[full_key] = (references, encoded)
        self.nbytes += encoded.nbytes

    def _drop(self, full_key: Hashable) -> None:
        with self._lock:
            entry = self._entries.pop(full_key, None)
            if entry is not None:
                self.nbytes -= entry[1].nbytes

    def clear(self) -> None:
        """Drop every entry and reset the counters."""
        with self._lock:
            self._entries.clear()
            self.nbytes = self.encoded = self.reused = 0

    def __len__(self) -> int:
        return len(self._entries)


encoded_tiles = EncodedCache()
on_full.append(encoded_tiles.clear)
