"""Kernels in LLVM's language as a CPU gets them that need not be this one."""

import inspect
import re
from types import SimpleNamespace

import pytest
from llvmlite import binding, ir

from tests.support.skips import is_x86_linux


def assemble(intrinsic, cpu: str) -> list[str]:
    """Assemble a kernel of addresses and numbers; list its lines."""
    if not is_x86_linux():
        pytest.skip("LLVM assembles for its own family of CPUs alone")
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    module = ir.Module()
    module.triple = "x86_64-unknown-linux-gnu"
    define = intrinsic._defn
    signature, generate = define(*[None] * len(inspect.signature(define).parameters))
    given = [ir.IntType(x.bitwidth) for x in signature.args]
    kind = ir.FunctionType(ir.VoidType(), given)
    function = ir.Function(module, kind, "kernel")
    builder = ir.IRBuilder(function.append_basic_block())
    context = SimpleNamespace(get_dummy_value=lambda: None)
    generate(context, builder, signature, function.args)
    builder.ret_void()
    parsed = binding.parse_assembly(str(module))
    target = binding.Target.from_triple(module.triple)
    machine = target.create_target_machine(cpu=cpu, opt=3)
    options = binding.create_pipeline_tuning_options(speed_level=3)
    passes = binding.create_pass_builder(machine, options)
    passes.getModulePassManager().run(parsed, passes)
    text = machine.emit_assembly(parsed)
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    return [line for line in lines if line and not re.match(r"\.(?!L)", line)]


def find_loops(lines: list[str]) -> list[list[str]]:
    """List the innermost loops: lines from a label to the jump back to it."""
    found: list[list[str]] = []
    for last, line in enumerate(lines):
        jump = re.fullmatch(r"j\w+\s+(\S+)", line)
        if jump is None or f"{jump[1]}:" not in lines[:last]:
            continue
        first = last - lines[:last][::-1].index(f"{jump[1]}:")
        if not any(re.match(r"[\w.]+:", inner) for inner in lines[first:last]):
            found.append(lines[first:last])
    return found
