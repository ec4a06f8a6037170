"""What the parser finds in a file. Positions are token indexes."""

from __future__ import annotations

from dataclasses import dataclass, field

Range = tuple[int, int]


@dataclass
class Function:
    """A function, or a class taken as one body (for the question which names it uses)."""

    name: str
    namespace: tuple[str, ...]
    start: int
    end: int
    template_end: int  # end of `template <...>`; start if there is none
    name_at: int = 0
    parameters: list[Range] = field(default_factory=list)
    body: Range | None = None  # with its braces
    is_kernel: bool = False
    is_member: bool = False
    is_class: bool = False

    @property
    def is_template(self) -> bool:
        """Whether it starts with `template <...>`."""
        return self.template_end > self.start


@dataclass
class Instance:
    """`template [[host_name("x")]] kernel void f<float>(...);`"""

    host_name: str
    namespace: tuple[str, ...]
    tokens: list[str]  # f < float >
    at: int

    @property
    def base(self) -> str:
        """The name of the template."""
        end = self.tokens.index("<") if "<" in self.tokens else len(self.tokens)
        return self.tokens[end - 1]

    def expression(self, prefix: str = "") -> str:
        """The specialisation as C++, with `prefix` before its last name."""
        end = self.tokens.index("<") if "<" in self.tokens else len(self.tokens)
        tokens = list(self.tokens)
        tokens[end - 1] = prefix + tokens[end - 1]
        return " ".join(tokens)


@dataclass
class FunctionConstant:
    """`constant T name [[function_constant(index)]];`"""

    name: str
    namespace: tuple[str, ...]
    index: str
    start: int
    name_at: int


@dataclass
class ProgramConstant:
    """`constant T name = value;` at program scope."""

    name: str
    namespace: tuple[str, ...]
    start: int
    equals: int
    end: int  # of the ';'


@dataclass
class ThreadgroupVariable:
    """`threadgroup T a[4], b;` in a kernel."""

    start: int  # the word threadgroup
    end: int  # the ';'
    names: list[int]


@dataclass
class Declarations:
    """Everything that was found."""

    functions: list[Function] = field(default_factory=list)
    instances: list[Instance] = field(default_factory=list)
    function_constants: list[FunctionConstant] = field(default_factory=list)
    program_constants: list[ProgramConstant] = field(default_factory=list)
    computed_constants: list[str] = field(default_factory=list)  # functions that compute them
    aliases: dict[str, set[str]] = field(default_factory=dict)  # name -> names it stands for
    static_members: list[int] = field(default_factory=list)  # static constexpr, of classes
    duplicates: list[Range] = field(default_factory=list)  # differ by address space only
    instantiations: list[Range] = field(default_factory=list)

    def kernels(self) -> list[Function]:
        """Kernel definitions."""
        return [f for f in self.functions if f.is_kernel and f.body]
