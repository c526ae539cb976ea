# SPDX-License-Identifier: BSD-3-Clause
"""The pages of the site, from those of the tree: each gets a short address, and its links lead to what the site has.

The navigation is that of apps/guide/README.md. Files of the tree to which a page links become pages too, which show their
text; with an address of the repository (`repository`), the links lead there instead.
"""

import os
import pathlib
import re
import shutil

import docs_fortran
import docs_headers

GUIDE = "apps/guide/README.md"
NAMES = {"README.md": "index", "configs/README.md": "settings", "SECURITY.md": "reports"}
# A block of code, code in a line, or the target of a link.
CODE_OR_LINK = re.compile(r"^ *```.*?^ *```$|`[^`]*`|(?<=\]\()([^()\s#]+)(#[^()\s]*)?(?=\))", re.MULTILINE | re.DOTALL)
# Of an entry on the page of the messages: the search leads to it, and links by troubleshooting/#rpv-0101.
MESSAGE_CODE = re.compile(r"^- (RPV-(\d{4}))", re.MULTILINE)


def name_of(path):
    """Of the page of this file: apps/guide/state.md is /state/, slurm/README.md is /slurm/."""
    path = pathlib.PurePosixPath(path)
    return NAMES.get(str(path), (path.parent.name if path.name == "README.md" else path.stem).lower())


class Pages:
    def __init__(self, root, folder, repository):
        self.root, self.folder, self.repository = root, folder, repository
        self.texts = {}
        guide = (root / GUIDE).read_text()
        self.sections = {
            title: {self.target(GUIDE, link): text for text, link in re.findall(r"\[([^]]*)\]\(([^)]*)\)", section)}
            for title, section in re.findall(r"^## (.*)\n((?:(?!## ).*\n)+)", guide, re.MULTILINE)
        }
        self.sections["Start"] = {GUIDE: ".md", **self.sections["Start"]}
        self.pages = ["README.md", *(path for paths in self.sections.values() for path in paths)]

    def target(self, page, link):
        return os.path.relpath(self.root / os.path.dirname(page) / link, self.root)

    def show(self, path):
        """The name of a page with the text of a file, or with the names of the files in a folder."""
        name = f"files/{path}"
        source = self.root / path
        text = "\n".join(sorted(each.name for each in source.iterdir())) if source.is_dir() else source.read_text()
        language = {".cpp": "cpp", ".hpp": "cpp", ".h": "c", ".c": "c", ".py": "python", ".json": "json", ".f90": "fortran",
                    ".F90": "fortran", ".md": "markdown"}.get(source.suffix, "text")
        self.texts[name] = f"---\norphan: true\nnosearch: true\n---\n# {path}\n\n`````{language}\n{text.rstrip()}\n`````\n"
        return name

    def moved(self, page, found):
        """What stands in place of a link to a file of the tree."""
        link, anchor = found[1], found[2] or ""
        if link is None or re.match("[a-z]+:", link):
            return found[0]
        path = self.target(page, link)
        if not (self.root / path).exists():
            return found[0]  # of which Sphinx warns
        if path in self.pages:
            return f"{name_of(path)}.md{anchor}"
        if path.endswith((".svg", ".png")):
            shutil.copy(self.root / path, self.folder)
            return os.path.basename(path)
        return f"{self.repository}/{path}" if self.repository else f"{self.show(path)}.md"

    def add(self, path):
        text, name = (self.root / path).read_text(), name_of(path)
        if name in self.texts:
            raise ValueError(f"{path}: another page has the address /{name}/: NAMES in docs_pages.py can change it")
        text = CODE_OR_LINK.sub(lambda found: self.moved(path, found), text)
        self.texts[name] = MESSAGE_CODE.sub(r'- <span id="rpv-\2"></span>{index}`\1`', text)

    def add_reference(self):
        rows = names = c = ""
        for header, (about, text) in docs_headers.references(self.root / "include", self.folder.parent / "xml").items():
            if header.endswith(".h"):
                c += f"{about}\n\n{text}\n"
                continue
            name = "cpp/" + header.removesuffix(".hpp")
            self.texts[name] = f"# {header}\n\n```cpp\n#include <reprieve/{header}>\n```\n\n{about}\n\n{text}"
            names += f"{name}\n"
            rows += f"- [{header}]({name}.md): " + about.split("\n\n")[0].replace("\n", " ") + "\n"
        self.texts["cpp"] = f"# C++ reference\n\nThe public headers:\n\n{rows}" + tree("", names)
        self.texts["c"] = f"# C reference\n\n{c}"
        self.texts["fortran"] = docs_fortran.reference(self.root / "src/bindings/fortran", self.folder.parent / "fortran")
        self.texts["python-reference"] = python_reference(self.root / "src/bindings/python/reprieve/__init__.py")
        self.sections["Look up"] |= dict.fromkeys(["cpp.md", "c.md", "fortran.md", "python-reference.md"], ".md")

    def write(self):
        for path in self.pages:
            self.add(path)
        self.add_reference()
        for title, paths in self.sections.items():
            self.texts["index"] += tree(title, "\n".join(map(entry, paths.values(), map(name_of, paths))))
        for name, text in self.texts.items():
            file = self.folder / f"{name}.md"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)


def python_reference(module):
    """What the module shows, its errors last."""
    names = sorted(re.findall(r'^    "(\w+)",$', module.read_text(), re.MULTILINE), key=lambda name: name.endswith("Error"))
    shown = ".. automodule:: reprieve\n"
    for name in names:
        kind = "function" if name.islower() else "exception" if name.endswith("Error") else "class"
        shown += f"\n.. auto{kind}:: reprieve.{name}\n"
        if kind != "function":
            shown += "   :members:\n   :inherited-members: dict, object\n   :exclude-members: add_note, with_traceback\n"
    return f"# Python reference\n\n```{{eval-rst}}\n{shown}```\n"


def entry(text, name):
    """Of the navigation: under the page's own title, where the guide has but the name of its file."""
    return name if text.endswith(".md") else f"{text[0].upper()}{text[1:]} <{name}>"


def tree(caption, names):
    return f"\n```{{toctree}}\n:hidden:\n{caption and ':caption: '}{caption}\n\n{names}\n```\n"


def write(root, folder, repository):
    shutil.rmtree(folder)
    folder.mkdir()
    Pages(root, folder, repository).write()
