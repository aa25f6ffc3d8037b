"""cuLaunchKernelEx, as cuda.h declares it, for functions that stand for it."""

import ctypes

_WORD, _SHORT = ctypes.c_void_p, ctypes.c_uint


class Config(ctypes.Structure):
    """A CUlaunchConfig."""

    _fields_ = [
        *(("grid", _SHORT * 3), ("block", _SHORT * 3), ("shared", _SHORT)),
        *(("stream", _WORD), ("attributes", _WORD), ("count", _SHORT)),
    ]

    def overlaps(self):
        """Tell whether a launch is allowed to begin before others have ended."""
        if not self.count:
            return False
        found = (_SHORT * 18).from_address(self.attributes)
        assert (self.count, *found) == (1, 6, 0, 1, *[0] * 15)
        return True


# A configuration, function, parameters, extra.
LAUNCH = ctypes.CFUNCTYPE(
    *(ctypes.c_int, ctypes.POINTER(Config), ctypes.c_size_t, ctypes.c_size_t, _WORD)
)
