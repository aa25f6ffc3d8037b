"""Arm's CPUs on any machine: what LLVM compiles for them, and what Linux says."""

from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from unittest import mock

import llvmlite.binding as llvm
from llvmlite import ir

from tests.support.cpu_ways import half_vectors
from twom_dist.kernels.cpu import units
from twom_dist.kernels.cpu.products.microkernel import WIDEST, multiply_panel

TRIPLE = "aarch64-linux-gnu"


def compile_for(cpu, features):
    """Return the assembly of a kernel of the widest panels."""
    address = ir.IntType(64)
    module = ir.Module()
    module.triple = TRIPLE
    kind = ir.FunctionType(ir.VoidType(), [address] * 10)
    function = ir.Function(module, kind, "kernel")
    builder = ir.IRBuilder(function.append_basic_block())
    with half_vectors(features):
        zero = ir.Constant(ir.IntType(8), 0)
        multiply_panel(WIDEST, builder, zero, *function.args)
    builder.ret_void()
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple(TRIPLE)
    described = ",".join(f"+{x}" for x in features)
    machine = target.create_target_machine(cpu=cpu, features=described, opt=3)
    parsed = llvm.parse_assembly(str(module))
    tuning = llvm.create_pipeline_tuning_options(speed_level=3)
    builder = llvm.create_pass_builder(machine, tuning)
    builder.getModulePassManager().run(parsed, builder)
    return machine.emit_assembly(parsed)


@contextmanager
def linux_on(cpu, granted):
    """Yield what lists the features; `granted`: bits of both words of capabilities."""
    auxiliary = SimpleNamespace(getauxval=lambda kind: granted)
    changes = [
        (units, "get_host_cpu_name", lambda: cpu),
        (units, "get_host_cpu_features", lambda: {"neon": True}),
        (units.platform, "machine", lambda: "aarch64"),
        (units.sys, "platform", "linux"),
        (units.ctypes, "CDLL", lambda _: auxiliary),
    ]
    units.find_features.cache_clear()
    with ExitStack() as stack:
        stack.callback(units.find_features.cache_clear)
        for change in changes:
            stack.enter_context(mock.patch.object(*change))
        yield units.find_features
