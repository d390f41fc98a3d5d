#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Write a psisim workload trace of any PyTorch module, on a CPU.

    export_torch.py torchvision:resnet50 --input 3,224,224 --batch 1 -o resnet-50.trace
    export_torch.py --module my_model.py:build --input 1,105,105 --input 1,105,105 -o my-model.trace
    export_torch.py --module my_lm.py:build --input int64:128 --leaf DecoderLayer -o my-lm.trace

One row is one leaf module, one module of a class named by --leaf, or one function called outside of those (a residual
sum, torch.cat, an attention written with functions), in order of execution. The columns are described in
traces/workload-trace.h. What is counted:

  flops      2 per multiply-add of every matrix product and convolution that runs, element-wise work 0; the backward
             has one such product for each operand that needs a gradient, so the first layer has no input part
  bytes      per kernel: activations read and written once (batch norm reads twice); parameters are left out. The
             backward reads the output's gradient and the saved tensors and writes the input's gradient; a product has
             a kernel for each operand's gradient, which reads the output's gradient again
  saved      what autograd really keeps (saved_tensors_hooks), whole storages, each counted at the first row that keeps
             it, parameters and buffers never; integers and booleans in a column of their own
  inputs     the rows whose outputs are read, found by the storages of the tensors

A complete example. File two.py:

    import torch
    class Two(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)
        def forward(self, x):
            return x + self.b(torch.relu(self.a(x)))
    def build():
        return Two()

`export_torch.py --module two.py:build --input 8 --name two` prints

    psisim-trace 1
    # traces/export_torch.py --module two.py:build --input 8 --name two
    # torch 1.13.0a0
    name two
    parameters 144
    name    parameters  forward_flops  backward_flops  forward_bytes  ...  saved_bytes  output_bytes  inputs  ...
    a       72          128            128             64             ...  32           32            -       ...
    relu    0           0              0               64             ...  32           32            0       ...
    b       72          128            256             64             ...  0            32            1       ...
    add     0           0              0               96             ...  0            32            2       ...

(with tabs between the columns), and `psisim run --model two.trace --machine a100` uses it.

A model of the transformers library is a module like any other; no weights are needed, and without --leaf the integers it
computes its masks from have rows too. File lm.py:

    from transformers import AutoModelForCausalLM, LlamaConfig
    def build():
        return AutoModelForCausalLM.from_config(LlamaConfig(num_hidden_layers=4, use_cache=False))

`export_torch.py --module lm.py:build --input int64:512 --leaf LlamaDecoderLayer -o lm.trace`. Where psisim knows the
family, `--model config.json` tells it more: degrees, attention kernels and sequence length can change.

Runs with torch 1.13 to 2.15 (from the package index: `pip install torch transformers`). Limits: one forward of the module
in training mode with zeros (integers) or random numbers as input; the loss is not in it; no compiled and no scripted
modules.
"""
import argparse
import importlib.util
import math
import os
import shlex
import sys

try:
    import torch
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_flatten
except ImportError as error:
    sys.exit(f"export_torch.py: torch 1.13 or newer is needed ({error})")

MAXIMUM_INPUTS = 4  # of a row, by the format
COLUMNS = ["name", "parameters", "forward_flops", "backward_flops", "forward_bytes", "backward_bytes", "saved_bytes",
           "output_bytes", "inputs", "saved_index_bytes", "product_outputs", "product_inputs", "product_window",
           "product_groups"]
LEAF_CLASSES = ["MultiheadAttention"]


def tensors_of(value):
    return [leaf for leaf in tree_flatten(value)[0] if isinstance(leaf, torch.Tensor)]


def storage_of(tensor):
    storage = tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage().untyped()
    return storage.data_ptr(), storage.nbytes()


def size_of(tensor):
    return tensor.numel() * tensor.element_size()


class Row:
    def __init__(self, name):
        self.name = name
        self.parameters = 0
        self.forward_flops = self.backward_flops = 0
        self.forward_bytes = self.backward_bytes = 0
        self.saved_bytes = self.saved_index_bytes = 0
        self.output_bytes = 0
        self.n_products = 0
        self.product_outputs = self.product_inputs = self.product_window = self.product_groups = 0
        self.inputs = set()
        self.written = set()        # storages
        self.n_ops = 0              # operators that do work, views are none
        self.needs_grad = False


def product_flops(name, arguments, output):
    """FLOPs of a matrix product or convolution and its differentiable operands; None for anything else."""
    if name in ("mm", "bmm"):
        a, b = arguments[:2]
        return 2 * output.numel() * a.shape[-1], [a, b]
    if name in ("addmm", "baddbmm"):
        a, b = arguments[1:3]
        return 2 * output.numel() * a.shape[-1], [a, b]
    if name in ("mv", "dot"):
        return 2 * arguments[0].numel(), list(arguments[:2])
    if name in ("convolution", "_convolution", "convolution_overrideable", "mkldnn_convolution"):
        data, weight = arguments[:2]
        transposed = len(arguments) > 6 and arguments[6] is True
        # Weights are (out, in / groups, kernel...), transposed (in, out / groups, kernel...).
        return 2 * (data if transposed else output).numel() * math.prod(weight.shape[1:]), [data, weight]
    if name.startswith("_scaled_dot_product") and "backward" not in name:
        query, key, value = arguments[:3]
        scores = query.numel() // query.shape[-1] * key.shape[-2]
        return 2 * scores * (query.shape[-1] + value.shape[-1]), [query, key, value]
    return None


def weight_shape(name, arguments):
    """Features out, features in, window and groups of a product with a weight, 0 groups if it is no convolution; None
    for anything else."""
    if name in ("mm", "addmm"):
        weight = arguments[-1]
        return weight.shape[1], weight.shape[0], 1, 0
    if "convolution" in name and len(arguments) > 8:
        groups = arguments[8]
        outputs, inputs = arguments[1].shape[:2]
        if arguments[6] is True:
            outputs, inputs = inputs, outputs
            outputs *= groups
        else:
            inputs *= groups
        return outputs, inputs, math.prod(arguments[1].shape[2:]), groups
    return None


class Tracer:
    def __init__(self, model, leaf_classes):
        self.model = model
        self.leaf_classes = leaf_classes
        self.rows = []
        self.current = None         # the row that operators go to
        self.depth = 0              # of nested leaf modules
        self.path = []              # names of the modules around, outermost first
        self.producer = {}          # storage -> row number
        self.saved = set()          # storages counted
        self.alive = []             # keeps every tensor, so that no storage address comes twice
        self.names = {}
        self.parameters = {}        # storage -> [elements, needs gradient, counted]
        self.fixed = set()          # storages of parameters and buffers
        for tensor in model.parameters():
            self.parameters[storage_of(tensor)[0]] = [tensor.numel(), tensor.requires_grad, False]
        self.fixed.update(self.parameters)
        self.fixed.update(storage_of(tensor)[0] for tensor in model.buffers() if tensor.numel() > 0)
        self.handles = []

    # Rows -------------------------------------------------------------------------------------------------------

    def open_row(self, name):
        self.current = Row(name)
        return self.current

    def close_row(self, outputs):
        row, self.current = self.current, None
        if row.n_ops == 0:
            return
        number = len(self.rows)
        row.inputs.discard(number)
        row.output_bytes = sum(size_of(t) for t in tensors_of(outputs) if t.is_floating_point())
        count = self.names.get(row.name, 0)
        self.names[row.name] = count + 1
        if count > 0:
            row.name = f"{row.name}_{count}"
        for storage in row.written:
            self.producer[storage] = number
        self.rows.append(row)

    def needs_grad(self, tensor):
        """Does the tensor's gradient have to be computed, for what is known so far?"""
        storage = storage_of(tensor)[0]
        if storage in self.parameters:
            return self.parameters[storage][1]
        if storage in self.current.written:
            return self.current.needs_grad
        return storage in self.producer and self.rows[self.producer[storage]].needs_grad

    # Modules ----------------------------------------------------------------------------------------------------

    def is_leaf(self, module):
        return next(module.children(), None) is None or type(module).__name__ in self.leaf_classes

    def attach(self):
        for name, module in self.model.named_modules():
            self.handles.append(module.register_forward_pre_hook(self.before(name)))
            self.handles.append(module.register_forward_hook(self.after()))

    def before(self, name):
        def hook(module, inputs):
            self.path.append(name)
            if self.depth > 0 or self.is_leaf(module):
                self.depth += 1
                if self.depth == 1:
                    self.open_row(name or type(module).__name__)
        return hook

    def after(self):
        def hook(module, inputs, outputs):
            self.path.pop()
            if self.depth > 0:
                self.depth -= 1
                if self.depth == 0:
                    self.close_row(outputs)
        return hook

    # Operators --------------------------------------------------------------------------------------------------

    def function(self, func, args, kwargs):
        """A torch function; outside of leaf modules it is a row if it does any work."""
        if self.depth > 0 or self.current is not None:
            return func(*args, **kwargs)
        name = getattr(func, "__name__", "function").strip("_")
        prefix = self.path[-1] + "." if self.path and self.path[-1] else ""
        self.open_row(prefix + {"iadd": "add", "radd": "add", "add_": "add"}.get(name, name))
        outputs = None
        try:
            outputs = func(*args, **kwargs)
        finally:
            self.close_row(outputs)
        return outputs

    def operator(self, func, args, kwargs, outputs):
        """An operator below autograd: its FLOPs and bytes go to the row that is open."""
        row = self.current
        out = tensors_of(outputs)
        self.alive.extend(out)
        if row is None or not out:
            return
        name = func.__name__.split(".")[0]
        read = [t for t in tensors_of([args, kwargs]) if t.numel() > 0]
        read_storages = {storage_of(t)[0] for t in read}
        in_place = name.endswith("_") and not name.endswith("__")
        if not in_place and all(storage_of(t)[0] in read_storages for t in out):
            return  # a view
        activations = [t for t in read if storage_of(t)[0] not in self.fixed]
        used = [self.parameters[s] for s in read_storages if s in self.parameters]
        if not activations and not used:
            return  # makes a constant
        row.n_ops += 1
        for tensor in activations:
            storage = storage_of(tensor)[0]
            if storage not in row.written and storage in self.producer:
                row.inputs.add(self.producer[storage])
        for parameter in used:
            if not parameter[2]:
                row.parameters += parameter[0]
                parameter[2] = True

        wants = [t for t in activations if t.is_floating_point() and self.needs_grad(t)]
        written = [t for t in out if t.is_floating_point()]
        read_bytes = sum(size_of(t) for t in activations)
        written_bytes = sum(size_of(t) for t in out)
        gradient_bytes = sum(size_of(t) for t in written)
        passes = 2 if "batch_norm" in name else 1
        row.forward_bytes += passes * read_bytes + written_bytes
        if wants or any(parameter[1] for parameter in used):
            row.backward_bytes += passes * gradient_bytes + sum(size_of(t) for t in wants)
            row.backward_bytes += (passes - 1) * read_bytes  # what pack() counts once
        product = product_flops(name, args, out[0])
        if product is not None:
            flops, operands = product
            n_gradients = sum(self.needs_grad(t) for t in operands)
            row.forward_flops += flops
            if name.startswith("_scaled"):
                row.backward_flops += 5 * flops // 2 if n_gradients > 0 else 0
            else:
                row.backward_flops += flops * n_gradients
                row.backward_bytes += gradient_bytes * max(n_gradients - 1, 0)
            row.n_products += 1
            shape = weight_shape(name, args) if used and row.n_products == 1 else None
            row.product_outputs, row.product_inputs, row.product_window, row.product_groups = shape or (0, 0, 0, 0)
        row.needs_grad = row.needs_grad or bool(wants) or any(parameter[1] for parameter in used)
        row.written.update(storage_of(t)[0] for t in out)

    def pack(self, tensor):
        """Autograd keeps this tensor."""
        self.alive.append(tensor)
        if tensor.numel() > 0 and self.current is not None:
            storage, size = storage_of(tensor)
            if storage not in self.fixed:
                self.current.backward_bytes += size_of(tensor)
                if storage not in self.saved:
                    self.saved.add(storage)
                    if tensor.is_floating_point():
                        self.current.saved_bytes += size
                    else:
                        self.current.saved_index_bytes += size
        return tensor

    def run(self, inputs):
        tracer = self

        class Functions(TorchFunctionMode):
            def __torch_function__(self, func, types, args=(), kwargs=None):
                return tracer.function(func, args, kwargs or {})

        class Operators(TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                outputs = func(*args, **(kwargs or {}))
                tracer.operator(func, args, kwargs or {}, outputs)
                return outputs

        self.attach()
        try:
            with torch.autograd.graph.saved_tensors_hooks(self.pack, lambda tensor: tensor):
                with Operators(), Functions():
                    self.alive.append(self.model(*inputs))
        finally:
            for handle in self.handles:
                handle.remove()


def load_model(arguments):
    if arguments.module:
        path, _, function = arguments.module.rpartition(":")
        if not path or not os.path.isfile(path):
            sys.exit(f"export_torch.py: --module: '{arguments.module}' is not FILE.py:FUNCTION of a file that exists")
        sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
        spec = importlib.util.spec_from_file_location("traced_module", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        if not hasattr(module, function):
            sys.exit(f"export_torch.py: --module: '{path}' has no '{function}'")
        return getattr(module, function)(), function
    library, _, name = (arguments.model or "").partition(":")
    if library != "torchvision" or not name:
        sys.exit(f"export_torch.py: '{arguments.model}' is not torchvision:NAME, and no --module is given")
    import torchvision
    if not hasattr(torchvision.models, name):
        sys.exit(f"export_torch.py: torchvision has no model '{name}'")
    return getattr(torchvision.models, name)(), name


def make_input(text, batch):
    kind, _, shape = text.rpartition(":")
    try:
        sizes = [int(size) for size in shape.split(",")]
    except ValueError:
        sys.exit(f"export_torch.py: --input: '{text}' is not like 3,224,224 or int64:128")
    if kind in ("", "float32"):
        return torch.rand([batch] + sizes)
    if kind == "int64":
        return torch.zeros([batch] + sizes, dtype=torch.int64)
    sys.exit(f"export_torch.py: --input: '{kind}' is not float32 or int64")


def write(tracer, name, batch, command, file):
    rows = tracer.rows
    unused = sum(elements for elements, _, counted in tracer.parameters.values() if not counted)
    if unused:
        print(f"export_torch.py: {unused} parameters are never used; counted with the last row", file=sys.stderr)
        rows[-1].parameters += unused
    print("psisim-trace 1", file=file)
    print(f"# {command}", file=file)
    print(f"# torch {torch.__version__.split('+')[0]}", file=file)
    print(f"name {name}", file=file)
    print(f"parameters {sum(row.parameters for row in rows)}", file=file)
    print("\t".join(COLUMNS), file=file)
    for row in rows:
        inputs = sorted(row.inputs)
        if len(inputs) > MAXIMUM_INPUTS:
            print(f"export_torch.py: {row.name} reads {len(inputs)} rows; the last {MAXIMUM_INPUTS} are written",
                  file=sys.stderr)
            inputs = inputs[-MAXIMUM_INPUTS:]
        cells = {"name": row.name, "inputs": ",".join(map(str, inputs)) or "-"}
        for column in COLUMNS:
            if column not in cells:
                cells[column] = -(-getattr(row, column) // (batch if column.endswith(("_flops", "_bytes")) else 1))
        print("\t".join(str(cells[column]) for column in COLUMNS), file=file)


def main():
    parser = argparse.ArgumentParser(description="write a psisim workload trace of a PyTorch module",
                                     epilog="the docstring of this file has a complete example")
    parser.add_argument("model", nargs="?", help="torchvision:NAME")
    parser.add_argument("--module", help="FILE.py:FUNCTION, a function without arguments that returns a module")
    parser.add_argument("--input", action="append", required=True,
                        help="shape of one sample, without the batch: 3,224,224 or int64:128; once per argument")
    parser.add_argument("--batch", type=int, default=1, help="samples traced; numbers are divided by it")
    parser.add_argument("--leaf", action="append", default=[], help="class whose modules are one row each")
    parser.add_argument("--name", help="name of the model in the trace")
    parser.add_argument("-o", "--output", help="file to write; stdout without")
    arguments = parser.parse_args()
    if arguments.batch < 1:
        sys.exit(f"export_torch.py: --batch: '{arguments.batch}' is less than 1")

    torch.manual_seed(0)
    model, name = load_model(arguments)
    model.train()
    tracer = Tracer(model, LEAF_CLASSES + arguments.leaf)
    tracer.run([make_input(text, arguments.batch) for text in arguments.input])
    if not tracer.rows:
        sys.exit("export_torch.py: the module does no work that can be traced")
    command = "traces/export_torch.py " + " ".join(shlex.quote(word) for word in sys.argv[1:])
    if arguments.output:
        with open(arguments.output, "w", encoding="utf-8") as file:
            write(tracer, arguments.name or name, arguments.batch, command, file)
    else:
        write(tracer, arguments.name or name, arguments.batch, command, sys.stdout)


if __name__ == "__main__":
    main()
