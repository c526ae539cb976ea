# SPDX-License-Identifier: BSD-3-Clause
"""The site, as Sphinx makes it for target `docs`: its form, and its pages (docs_pages.py)."""

import pathlib
import re
import sys

sys.dont_write_bytecode = True  # beside the sources
root = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(pathlib.Path(__file__).parent), str(root / "src/bindings/python")]

import docs_pages  # noqa: E402
import furo  # noqa: E402

project = "Reprieve"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.githubpages", "sphinx_copybutton"]
suppress_warnings = ["misc.highlighting_failure"]  # examples with "..." in them
myst_heading_anchors = 4  # the names that links use, as on GitHub
default_role = "code"
highlight_language = "text"

autodoc_mock_imports = ["reprieve._c_interface", "reprieve._message_codes"]
autodoc_member_order = "bysource"
napoleon_use_ivar = True

html_theme = "furo"
html_static_path = ["docs.css", "docs.js"]
html_css_files = ["night.css", "docs.css"]
html_js_files = ["docs.js"]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
copybutton_prompt_text = "$ "


def mend_theme(folder):
    """Debian packs the sources of the theme: its script in two files, no colours for the system's night."""
    theme = pathlib.Path(furo.__file__).parent / "theme/furo/static"
    script, style = (theme / "scripts/furo.js").read_text(), (theme / "styles/furo.css").read_text()
    (folder / "scripts").mkdir(parents=True)
    if script.startswith("import "):
        parts = (theme / "scripts/gumshoe-patched.js").read_text(), script.partition("\n")[2]
        (folder / "scripts/furo.js").write_text("\n".join(parts))
    night = re.search(r'body\[data-theme="dark"\] ({[^}]*})', style)
    rule = f'@media screen and (prefers-color-scheme: dark) {{ body:not([data-theme="light"]) {night[1]} }}\n' if night else ""
    (folder / "night.css").write_text(rule)


def write(app, config):
    folder = pathlib.Path(app.srcdir)
    docs_pages.write(root, folder, config.repository)
    mend_theme(folder / "static")
    config.html_title = f"{project} {config.release}"
    config.html_static_path.append(str(folder / "static"))


def mark_code(app, what, name, obj, options, lines):
    """Indented lines after a text are code, in docstrings as in Markdown."""
    for i in range(len(lines) - 1, 1, -1):
        if lines[i].startswith("    ") and not lines[i - 1] and lines[i - 2] and not lines[i - 2].startswith(" "):
            lines[i:i] = [".. code-block:: python", ""]


def setup(app):
    app.add_config_value("repository", "", "env")
    app.connect("autodoc-process-docstring", mark_code, priority=400)
    app.connect("config-inited", write)
