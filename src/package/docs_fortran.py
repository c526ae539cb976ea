# SPDX-License-Identifier: BSD-3-Clause
"""The reference of the Fortran module, from its sources and from what c_interface.cmake made of the headers of C."""

import itertools
import re

from docs_headers import prose, split

HEAD = re.compile(r" *(?!end )[^!']*?(?:function|subroutine) (\w+)\(([^)]*)\)")
TYPE = re.compile(r"((?: *!>.*\n)*)  type(?:, bind\(c\))? :: (reprieve_\w+)\n((?s:.*?))  end type")
BINDING = re.compile(r"((?: *!>.*\n)*) *(?:procedure|generic) :: (\w+)(?: => ([\w, ]+?))?(?: *!<(.*))?\n")


def procedures_in(text):
    """By name: the comment above it, its head, and the declarations below."""
    result, comment, lines = {}, "", iter(text.splitlines())
    for line in lines:
        if line.lstrip().startswith("!>"):
            comment += line + "\n"
            continue
        if head := HEAD.match(line):
            declarations = list(itertools.takewhile(lambda each: "::" in each, lines))
            result.setdefault(head[1], (comment, line.strip(), declarations))
        comment = ""
    return result


def code(procedures, name, shown):
    """The head with the declarations of the arguments, under the name by which programs call it."""
    _, head, declarations = procedures[name]
    of_interest = set(re.findall(r"\w+", head)) - {"self"}
    kept = [line.strip() for line in declarations if of_interest & set(re.findall(r"\w+", line.split("::")[1]))]
    return "```fortran\n" + "\n  ".join([re.sub(rf"\b{name}\b", shown, head), *kept]) + "\n```\n\n"


def section(text):
    public = set(re.findall(r"\breprieve_\w+", " ".join(re.findall(r"public :: (.*)", text)))) - {"reprieve_finish"}
    procedures = procedures_in(text)
    result = ""
    for comment, name, body in TYPE.findall(text):
        if name not in public:
            continue
        components, _, bindings = body.partition("  contains\n")
        result += f"\n## {name}\n\n{prose(comment)}\n\n"
        if "private" not in components and not bindings:
            shown, said = split(components)
            result += f"```fortran\ntype :: {name}\n{shown}\nend type\n```\n\n{said}\n"
        bound = {}
        for above, shown, names, beside in BINDING.findall(bindings):
            names = [each for each in (names or shown).split(", ") if each in procedures]
            if names:
                bound.setdefault(shown, (names, []))[1].extend([above, beside, *(procedures[each][0] for each in names)])
        for shown, (names, comments) in bound.items():
            result += f"\n### {name}%{shown}\n\n{code(procedures, names[0], shown)}"
            result += "\n\n".join(filter(None, dict.fromkeys(map(prose, comments)))) + "\n"
    for name in procedures:
        if name in public:
            result += f"\n## {name}\n\n{code(procedures, name, name)}{prose(procedures[name][0])}\n"
    return result


def reference(sources, generated):
    texts = {path.name: path.read_text() for path in [*sources.glob("*.F90"), *generated.iterdir()]}
    result = "# Fortran reference\n\n" + prose(re.search(r"((?:!>.*\n)+)module reprieve\n", texts["reprieve.F90"])[1]) + "\n"
    for name in ("state", "loop", "settings", "errors", "callbacks"):
        result += section(re.sub(r"#include <(.*)>", lambda found: texts[found[1]], texts[f"reprieve_{name}.F90"]))
    constants = re.findall(r"^  (integer, parameter :: .*)$", texts["reprieve_c.F90"], re.MULTILINE)
    return result + "\n## Constants\n\n```fortran\n" + "\n".join(constants) + "\n```\n"
