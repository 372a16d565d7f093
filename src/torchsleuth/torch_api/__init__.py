"""Every private torch name that torchsleuth uses, with what differs between versions.

Supported: torch 2.11 to the newest.  Names are looked up when they are needed, never at import, so that importing this
file costs nothing and a name that moved breaks one function here and nothing else.
"""

from torchsleuth.torch_api.compiled import (
    CompileWatch as CompileWatch,
    compiling_nothing as compiling_nothing,
    user_compiled as user_compiled,
    watching_compilation as watching_compilation,
    why_compilation_is_off as why_compilation_is_off,
)
from torchsleuth.torch_api.compiling import (
    allowed_to_break as allowed_to_break,
    backend_parts as backend_parts,
    changed_configs as changed_configs,
    compile_id as compile_id,
    config_modules as config_modules,
    donated_inputs as donated_inputs,
    forward_metadata as forward_metadata,
    is_float_argument as is_float_argument,
    negative_view as negative_view,
    suppresses_errors as suppresses_errors,
    with_lazy_bits_of as with_lazy_bits_of,
    without_lazy_bits as without_lazy_bits,
)
from torchsleuth.torch_api.debugging import (
    FakeCall as FakeCall,
    NoFakeAnswer as NoFakeAnswer,
    alias_sets as alias_sets,
    aot as aot,
    core_decompositions as core_decompositions,
    decomposed as decomposed,
    inductor_decompositions as inductor_decompositions,
    invoke_subgraph as invoke_subgraph,
    is_higher_order as is_higher_order,
    real_constants_allowed as real_constants_allowed,
    register_backend as register_backend,
    run_without_modes as run_without_modes,
    schema_text as schema_text,
    script as script,
    signature as signature,
    traced_inputs as traced_inputs,
)
from torchsleuth.torch_api.draws import (
    draw_in_order as draw_in_order,
    draw_like_eager as draw_like_eager,
    drawing_in_order as drawing_in_order,
    drawing_like_eager as drawing_like_eager,
)
from torchsleuth.torch_api.explaining import (
    backend_named as backend_named,
    bytecode_is_kept as bytecode_is_kept,
    counting as counting,
    gave_up_silently as gave_up_silently,
    interned_trace_strings as interned_trace_strings,
    no_more_trace as no_more_trace,
    on_bytecode as on_bytecode,
    on_trace as on_trace,
    run_instead as run_instead,
    trace_formatter as trace_formatter,
)
from torchsleuth.torch_api.frames import calling_modules as calling_modules, compiled_locals as compiled_locals
from torchsleuth.torch_api.hooks import (
    boxed as boxed,
    copy_call_marks as copy_call_marks,
    is_backward_code as is_backward_code,
    is_cacheable_compiler as is_cacheable_compiler,
    is_control_flow as is_control_flow,
    save_no_graphs as save_no_graphs,
    symbols_of as symbols_of,
    unboxed as unboxed,
    unwrap_backend as unwrap_backend,
)
from torchsleuth.torch_api.limits import (
    LimitReached as LimitReached,
    limit_raised as limit_raised,
    told_of_the_limit as told_of_the_limit,
)
from torchsleuth.torch_api.names import (
    qualified_name as qualified_name,
    resolve as resolve,
)
from torchsleuth.torch_api.operators import (
    casts as casts,
    dispatch_mode as dispatch_mode,
    modes_off as modes_off,
    on_real_values as on_real_values,
    reads_bits as reads_bits,
    written_arguments as written_arguments,
)
from torchsleuth.torch_api.own_scripts import (
    flat as flat,
    read_repro_inputs as read_repro_inputs,
    replace_run_repro as replace_run_repro,
)
from torchsleuth.torch_api.planting import (
    Compiler as Compiler,
    aot_eager_with as aot_eager_with,
    compile_with_inductor as compile_with_inductor,
    copy_of_graph as copy_of_graph,
    custom_op_functions as custom_op_functions,
    inductor_with as inductor_with,
)
from torchsleuth.torch_api.toolchain import (
    cpp_compiler as cpp_compiler,
    probe_vector_instructions as probe_vector_instructions,
)
from torchsleuth.torch_api.trials import (
    forget_compilation as forget_compilation,
    switch_compilation as switch_compilation,
    use_caches as use_caches,
)
from torchsleuth.torch_api.user_kernels import kernel_call as kernel_call, user_kernel as user_kernel
from torchsleuth.torch_api.values import (
    digest as digest,
    expression_of as expression_of,
    has_hooks as has_hooks,
    hint_of as hint_of,
    holding as holding,
    is_fake as is_fake,
    is_symbolic as is_symbolic,
    is_wrapper_subclass as is_wrapper_subclass,
    is_zero_tensor as is_zero_tensor,
    make_graph_module as make_graph_module,
    make_zero_tensor as make_zero_tensor,
    quantization_of as quantization_of,
    source_name as source_name,
    takes_any_gradient as takes_any_gradient,
    version_of as version_of,
    wrapped_tensors as wrapped_tensors,
)
