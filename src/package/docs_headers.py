# SPDX-License-Identifier: BSD-3-Clause
"""The reference of the headers: Doxygen tells what is declared where, the headers have its form and the comment above it."""

import collections
import re
import textwrap
import xml.etree.ElementTree

Symbol = collections.namedtuple("Symbol", "line kind name owner")
SECTION = re.compile(r"/\* -+ (.*?) -+ \*/")
UNSHOWN = re.compile(r"= delete|operator=|~|(\w+)\(\1&& ?\w*\)|Internal to the library")


def prose(comment):
    """A comment as Markdown."""
    text = re.sub(r"^ *(?:///?|!>|/\*\*|\*(?!/)) ?|\s*\*/$", "", comment, flags=re.MULTILINE)
    text = re.sub(r"@param +(\w+(?:, \w+)*) +", lambda names: "\n- `" + names[1].replace(", ", "`, `") + "`: ", text)
    text = re.sub(r"@throws ", "\n\n**Throws** ", text)
    text = re.sub(r"@return ", "\n\n**Returns** ", text)
    text = re.sub(r"@p (\w+)", r"`\1`", text)
    text = re.sub(r"(`[^`]*`|^ {4}.*)|<", lambda found: found[1] or r"\<", text, flags=re.MULTILINE)
    text = re.sub(r"`?apps/guide/(\w+)\.md`?", r"[\1](/\1.md)", text)
    return re.sub(r"@file\s*", "", text).strip()


def symbols_of(folder):
    """All public ones, by header."""
    found = collections.defaultdict(set)
    for path in folder.glob("*.xml"):
        for compound in xml.etree.ElementTree.parse(path).getroot().findall("compounddef"):
            is_class = compound.get("kind") in ("class", "struct")
            owner = compound.findtext("compoundname").removeprefix("reprieve::") if is_class else ""
            place = compound.find("location")
            if is_class and compound.get("prot") == "public":
                found[place.get("file")].add(Symbol(int(place.get("line")), "class", owner, owner))
            elif compound.get("kind") not in ("file", "namespace"):
                continue
            for member in compound.iter("memberdef"):
                place = member.find("location")
                if member.get("prot") == "public" and member.get("kind") not in ("friend", "define"):
                    symbol = Symbol(int(place.get("line")), member.get("kind"), member.findtext("name"), owner)
                    found[place.get("file")].add(symbol)
    return found


def split(code):
    """Declarations without the comments above and beside them, and a list of what these say."""
    shown, said, comment = [], [], ""
    for line in code.splitlines():
        if re.match(r" *(///(?!<)|!>|/\*\*(?!<)| \*)", line):
            comment += line + "\n"
            continue
        line, _, beside = re.sub(r"/\*\*<|///<|!<", "\0", line).partition("\0")
        shown.append(line.rstrip())
        if text := prose(comment + beside):
            name = re.match(r".*?(\w+) *(?:[={;,].*)?$", line.split(" :: ")[-1])[1]
            said.append(f"- `{name}`: " + " ".join(text.split()))
        comment = ""
    return "\n".join(shown), "\n".join(said)


class Header:
    def __init__(self, text, symbols):
        self.lines, self.symbols = text.splitlines(), sorted(symbols)

    def is_comment(self, i):
        return re.match(r" *(///|/\*\*| \*(?!\w))", self.lines[i]) is not None

    def declared(self, symbol):
        """Where it begins, and its lines."""
        first = last = symbol.line - 1
        ends_before = re.compile(r"[;{}:]( .*)?$|^#|^$")
        while not self.is_comment(first - 1) and not ends_before.search(self.lines[first - 1]):
            first -= 1  # template <...>, or a type in a line of its own
        end = {"enum": "}", "variable": ";", "typedef": ";"}.get(symbol.kind, r";|\{")
        depth = 0
        while True:
            line = re.sub(r"//.*|/\*.*?\*/", "", self.lines[last])
            depth += line.count("(") - line.count(")")
            if depth <= 0 and re.search(end + r"(?! *[,)])", line.replace("= {}", "")) or last - first > 60:
                break
            last += 1
        code = textwrap.dedent("\n".join(self.lines[first : last + 1]))
        if "REPRIEVE_EXPORT " in code:
            code = re.sub(r"\n {16}|REPRIEVE_EXPORT ", lambda found: "\n" if found[0][0] == "\n" else "", code)
        if symbol.kind == "function":
            code = re.sub(r"\s+: [\w:]+\(.*|\s*(?<!= )\{.*", ";", code, flags=re.DOTALL)
        return first, last, re.sub(" *// NOLINT.*", "", code)

    def comment_above(self, first):
        i = first
        while i > 0 and self.is_comment(i - 1):
            i -= 1
        return prose("\n".join(self.lines[i:first]))

    def page(self):
        entries, headings, unshown, done, section, is_in_section = [], set(), set(), -1, 0, False
        for symbol in self.symbols:
            first, last, code = self.declared(symbol)
            comment = self.comment_above(first)
            if symbol.kind == "class" and "<" in symbol.name and not comment:  # how a form of template is stored
                unshown.add(symbol.name)
            if first <= done or symbol.owner in unshown or UNSHOWN.search(code) or UNSHOWN.search(comment):
                continue
            for line in self.lines[section:first]:
                if title := SECTION.search(line):
                    entries.append([f"## {title[1]}", "", ""])
                    is_in_section = True
            section = first
            heading = said = ""
            if symbol.kind in ("enum", "variable"):
                code, said = split(code)
            if symbol.kind == "class":
                heading, code = f"{'###' if '::' in symbol.name else '##'} {symbol.name}", ""
            elif not comment and first == done + 1 and entries[-1][1]:
                entries[-1][1] += "\n" + code
                entries[-1][2] += "\n" + said
                done = last
                continue
            elif symbol.kind != "variable" and "::" not in symbol.owner and (symbol.owner, symbol.name) not in headings:
                heading = f"{'###' if symbol.owner or is_in_section else '##'} {symbol.name}"
                headings.add((symbol.owner, symbol.name))
            entries.append([heading, code, f"{comment}\n\n{said}".strip()])
            done = max(done, last) if symbol.kind != "class" else done
        return "".join(f"{heading}\n\n" + (f"```cpp\n{code}\n```\n\n" if code else "") + f"{comment}\n\n"
                       for heading, code, comment in entries)


def about(text):
    """What stands at the top of a header."""
    found = re.search(r"^/// @file\n((?:///.*\n)+)|^ \* @file\n((?: \*(?!/).*\n)+)", text, re.MULTILINE)
    return prose(found[1] or found[2]) if found else ""


def references(include, folder):
    """By header: what it is about, and its page."""
    symbols = symbols_of(folder)
    result = {}
    for path in sorted((include / "reprieve").glob("*.h*")):
        text = path.read_text()
        if symbols[f"reprieve/{path.name}"]:
            result[path.name] = about(text), Header(text, symbols[f"reprieve/{path.name}"]).page()
    return result
