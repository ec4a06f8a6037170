"""MSL to C++: threadgroup variables and function constants get storage, attributes go.

Address spaces and the word `kernel` stay: msl/softmetal_words.h makes them macros.
"""

from __future__ import annotations

import re

from .errors import MslError
from .kernels import max_threads
from .model import Declarations, Function, FunctionConstant, ProgramConstant, ThreadgroupVariable
from .parser import parse, statement_starts
from .restrictions import CONTRACTION
from .swizzles import rewrite_assignments
from .tokens import TokenStream, is_name

UNSUFFIXED_FLOAT = re.compile(
    r"(?:\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][+-]?\d+)?|0[xX][\da-fA-F.]+[pP][+-]?\d+"
)
_SUFFIXED_FLOAT = re.compile(r"(\d*\.?\d*(?:[eE][+-]?\d+)?)(h|H|bf|BF)")


def analyse(source: str) -> tuple[TokenStream, Declarations]:
    """Tokens and declarations of a preprocessed file."""
    tokens = TokenStream(source)
    return tokens, parse(tokens)


def rewrite(tokens: TokenStream, found: Declarations) -> None:
    """Change the tokens, in place, into C++ for msl/softmetal_msl.h."""
    _Rewriter(tokens, found).run()


class _Rewriter:
    def __init__(self, tokens: TokenStream, found: Declarations) -> None:
        self.tokens = tokens
        self.found = found
        self.variable_count = 0

    def run(self) -> None:
        self.tokens.drop_directives(CONTRACTION)
        self._literals()
        self._constant_queries()
        rewrite_assignments(self.tokens, self.found)
        variables = self._threadgroup_variables()
        for start, end in self.tokens.attributes.items():
            self.tokens.remove(start, end)
        for start, end in [*self.found.duplicates, *self.found.instantiations]:
            self.tokens.remove(start, end)
        for member in self.found.static_members:
            # In C++14 a constant of class type would need a definition; bfloat is none in MSL.
            self.tokens.prepend(member, "inline ")
        self._function_constants()
        for kernel, own in variables:
            self._requirements(kernel, own)

    # ---- words ----

    def _literals(self) -> None:
        """1.0 is a float in MSL; 1.0h and 1.0bf are a half and a bfloat."""
        tokens = self.tokens
        for i, kind in enumerate(tokens.kind):
            if kind != "number":
                continue
            literal = tokens.text[i]
            if UNSUFFIXED_FLOAT.fullmatch(literal):
                tokens.replace(i, literal + "f")
            elif suffixed := _SUFFIXED_FLOAT.fullmatch(literal):
                digits = suffixed[1]
                if not re.search(r"[.eE]", digits):
                    digits += "."
                constructor = "half" if suffixed[2] in "hH" else "bfloat"
                tokens.replace(i, f"{constructor}({digits}f)")

    # ---- function constants ----

    def _constant_queries(self) -> None:
        """is_function_constant_defined(x) reads a flag beside x."""
        tokens = self.tokens
        for i, token in enumerate(tokens.text):
            if token == "is_function_constant_defined" and tokens.text[i + 1] == "(":
                tokens.replace(i, "")
                last = tokens.match[i + 1] - 1
                tokens.replace(last, "softmetal_defined_" + tokens.text[last])

    def _function_constants(self) -> None:
        for constant in self.found.function_constants:
            self._specialised_storage(constant)
        dependent = {c.name for c in self.found.function_constants}
        for program_constant in self.found.program_constants:
            self._computed_constant(program_constant, dependent)

    def _specialised_storage(self, constant: FunctionConstant) -> None:
        """A function constant is written by the host before a kernel runs, so it is not const."""
        tokens = self.tokens
        for i in range(constant.start, constant.name_at):
            if tokens.text[i] == "constant":
                tokens.replace(i, "static")
        tokens.append(constant.name_at, f"; static bool softmetal_defined_{constant.name}")

    def _computed_constant(self, constant: ProgramConstant, dependent: set[str]) -> None:
        """A constant computed from function constants is computed again after they are set."""
        tokens = self.tokens
        used = set(tokens.text[constant.equals + 1 : constant.end])
        if not used & (dependent | {"is_function_constant_defined"}):
            return
        dependent.add(constant.name)
        for i in range(constant.start, constant.equals):
            if tokens.text[i] == "constant":
                tokens.replace(i, "static")
            elif tokens.text[i] in ("const", "constexpr"):
                tokens.replace(i, "")
        value = tokens.printed(constant.equals + 1, constant.end)
        tokens.append(
            constant.end,
            f" static void softmetal_compute_{constant.name}() {{ {constant.name} = {value}; }}",
        )
        self.found.computed_constants.append(
            "::".join(["", *constant.namespace, f"softmetal_compute_{constant.name}"])
        )

    # ---- threadgroup variables ----

    def _threadgroup_variables(self) -> list[tuple[Function, list[ThreadgroupVariable]]]:
        """`threadgroup T a[4];` becomes a reference into the threadgroup's memory."""
        result = []
        for function in self.found.functions:
            if not function.body or function.is_class:
                continue
            own = [
                variable
                for i in range(function.body[0] + 1, function.body[1])
                if self.tokens.text[i] == "threadgroup"
                if (variable := self._threadgroup_variable(i)) is not None
            ]
            if own and not function.is_kernel:
                raise MslError(
                    "a variable in the threadgroup address space can only be declared in a kernel; "
                    f"pass it to '{function.name}' as a pointer",
                    self.tokens.location(own[0].start),
                )
            for variable in own:
                self._place_variable(variable)
            if function.is_kernel:
                result.append((function, own))
        return result

    def _threadgroup_variable(self, i: int) -> ThreadgroupVariable | None:
        """If the word at i declares a variable (not a pointer or reference): what it declares."""
        tokens = self.tokens
        if tokens.text[i - 1] not in (";", "{", "}", "static", "volatile", ")"):
            return None
        end = i
        while tokens.text[end] != ";":
            if tokens.text[end] in ("*", "&", ")", "}"):
                return None
            if tokens.text[end] == "=":
                raise MslError(
                    "a threadgroup variable cannot be initialized: its threads must write it",
                    tokens.location(i),
                )
            angle_end = tokens.template_end(end) if tokens.text[end] == "<" else None
            if tokens.text[end] in ("(", "["):
                end = tokens.skip_brackets(end)
            else:
                end = angle_end or end + 1
        names = [self._declared_name(a, b) for a, b in tokens.split(i + 1, end)]
        return ThreadgroupVariable(i, end, names)

    def _declared_name(self, start: int, end: int) -> int:
        """The name in `T name[4]`, `name[4]`: what stands before the first bound."""
        i = start
        while i < end and (self.tokens.text[i] != "[" or i in self.tokens.attributes):
            i += 1
        return i - 1

    def _place_variable(self, variable: ThreadgroupVariable) -> None:
        tokens = self.tokens
        tokens.replace(variable.start, "typedef")
        if tokens.text[variable.start - 1] == "static":
            tokens.replace(variable.start - 1, "")
        for at in variable.names:
            name = tokens.text[at]
            self.variable_count += 1
            tokens.replace(at, f"softmetal_type_of_{name}")
            tokens.append(
                variable.end,
                f" softmetal_type_of_{name}& {name} = ::softmetal::threadgroup_variable<"
                f'softmetal_type_of_{name}, {self.variable_count}>("{name}");',
            )

    # ---- what a kernel needs ----

    def _requirements(self, kernel: Function, variables: list[ThreadgroupVariable]) -> None:
        """After each kernel: functions with its template parameters that give its limits.

        softmetal_memory_of_NAME() sums its threadgroup variables: it repeats their typedefs and the
        declarations that those use. softmetal_threads_of_NAME() is its maximum of threads.
        """
        tokens = self.tokens
        header = tokens.printed(kernel.start, kernel.template_end)
        end = kernel.name_at + 1
        if tokens.text[end] == "<":
            end = tokens.template_end(end) or end
        name = tokens.printed(kernel.name_at, end)
        lines = self._declarations_for(kernel, variables)
        sizes = [
            f"::softmetal::variable_size<softmetal_type_of_{tokens.text[at]}>()"
            for variable in variables
            for at in variable.names
        ]
        total = " + ".join(["0u", *sizes])
        threads = max_threads(tokens, kernel)
        tokens.append(
            kernel.end - 1,
            f" {header} inline uint softmetal_memory_of_{name}()"
            f" {{ {' '.join(lines)} return {total}; }}"
            f" {header} inline uint softmetal_threads_of_{name}() {{ return {threads}; }}",
        )

    def _declarations_for(
        self, kernel: Function, variables: list[ThreadgroupVariable]
    ) -> list[str]:
        """The variables' typedefs, and before them whatever local names their types use."""
        tokens = self.tokens
        ends = {v.start: v.end for v in variables}
        wanted = {t for v in variables for t in tokens.text[v.start : v.end] if is_name(t)}
        lines: list[str] = []
        for i in reversed(statement_starts(tokens, kernel.body or (0, 0))):
            declared = self._local_declaration(i)
            if i in ends or (tokens.text[i] == "static" and i + 1 in ends):
                start = i if i in ends else i + 1
                lines.append(tokens.printed(start, ends[start]) + ";")
            elif declared and (declared[0] in wanted or declared[0] == "namespace"):
                end = declared[1]
                wanted.update(t for t in tokens.text[i:end] if is_name(t))
                lines.append(tokens.printed(i, end) + ";")
        lines.reverse()
        return lines

    def _local_declaration(self, i: int) -> tuple[str, int] | None:
        """(name, end) of a constant, `using` or `typedef` that starts at i."""
        tokens = self.tokens
        word = tokens.text[i]
        if word not in ("constexpr", "const", "constant", "static", "using", "typedef"):
            return None
        end = i
        while tokens.text[end] != ";":
            if tokens.text[end] in ("}", ")"):
                return None
            end = tokens.skip_brackets(end) if tokens.text[end] in ("(", "[", "{") else end + 1
        if word == "using":
            return tokens.text[i + 1], end
        if word == "typedef":
            return tokens.text[end - 1], end
        equals = next((k for k in range(i, end) if tokens.text[k] == "="), None)
        return (tokens.text[equals - 1], end) if equals else None
