// SPDX-License-Identifier: BSD-3-Clause
#include "report_page.hpp"

namespace reprieve::tool {

std::string_view page_style() {
  return R"(
:root{color-scheme:light dark;--page:#fff;--ink:#1b1f24;--soft:#57606a;--line:#d0d7de;--card:#f6f8fa;--link:#0550ae;
--kept:#2da07a;--kept-back:#c9eadf;--lost:#cf222e;--lost-back:#ffd1cc;--save:#d4a100;--restore:#0969da;
--restore-back:#b6dcff;--startup:#8c959f;--queue:#e3e7eb;--idle:#8c959f;--idle-back:#e3e7eb;--notice:#8250df}
@media (prefers-color-scheme:dark){:root{--page:#0d1117;--ink:#e6edf3;--soft:#9aa4af;--line:#30363d;--card:#161b22;
--link:#79c0ff;--kept:#3fb68b;--kept-back:#174a3a;--lost:#ff6a60;--lost-back:#5c1a17;--save:#e3b341;--restore:#58a6ff;
--restore-back:#123a66;--startup:#6e7681;--queue:#21262d;--idle:#6e7681;--idle-back:#21262d;--notice:#bc8cff}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:1100px;padding:16px;background:var(--page);color:var(--ink);
font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;overflow-wrap:anywhere}
h1{font-size:1.5rem;margin:0}h2{font-size:1.25rem;margin:0 0 .25rem}h3{font-size:1.05rem;margin:1.75rem 0 .5rem}
p{margin:.4rem 0}a{color:var(--link)}.soft{color:var(--soft)}
section{border-top:2px solid var(--line);margin-top:2rem;padding-top:1.25rem}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:10px;margin:.75rem 0;padding:0}
.tiles div{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:8px 12px}
.tiles dt{color:var(--soft);font-size:.85rem}.tiles dd{margin:0;font-size:1.15rem;font-weight:600}
.tiles dd small{display:block;font-size:.8rem;font-weight:400;color:var(--soft)}
.scroll{overflow-x:auto}
table{border-collapse:collapse;font-size:.92rem;min-width:min(100%,420px)}
th,td{text-align:left;padding:4px 14px 4px 0;border-bottom:1px solid var(--line);vertical-align:top;
unicode-bidi:isolate;overflow-wrap:normal}
th{color:var(--soft);font-weight:600}td.n,th.n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}
td.w{min-width:14rem;overflow-wrap:anywhere}td.t{white-space:nowrap}
svg{display:block;width:100%;height:auto}svg.patterns{position:absolute}svg.timeline{min-width:760px}
svg.sums{height:36px;border-radius:4px}svg.swatch{display:inline-block;width:18px;height:14px;vertical-align:-2px}
svg text{font-size:13px;fill:var(--soft)}text.end{text-anchor:end}text.middle{text-anchor:middle}
svg text.on-bar{text-anchor:middle;font-size:15px;font-weight:600;fill:var(--ink);stroke:var(--page);stroke-width:3px;
paint-order:stroke}
.grid{stroke:var(--line);stroke-width:1}.steps{fill:none;stroke:var(--ink);stroke-width:2}
.save{fill:var(--page);stroke:var(--ink);stroke-width:1.5}.notice line{stroke:var(--notice);stroke-dasharray:4 3}
.notice path{fill:var(--notice)}.cut{fill:none;stroke:var(--lost);stroke-width:3}.left{fill:var(--ink)}
.done{fill:var(--kept);stroke:var(--ink);stroke-width:1.5}
.k-kept{fill:var(--kept)}.k-lost{fill:url(#p-lost)}.k-unsaved{fill:url(#p-unsaved)}.k-save{fill:var(--save)}
.k-restore{fill:url(#p-restore)}.k-startup{fill:var(--startup)}.k-queue{fill:var(--queue);stroke:var(--line)}
.k-unknown{fill:url(#p-unknown)}.bar{fill:var(--restore)}.bar-light{fill:var(--restore-back)}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:2px 18px;margin:.5rem 0;padding:0;font-size:.88rem}
.charts{display:flex;flex-wrap:wrap;gap:8px 24px}.charts figure{flex:1 1 320px;margin:0}
figcaption{font-size:.88rem;color:var(--soft)}
pre{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:12px;font-size:.85rem;
white-space:pre-wrap;overflow-wrap:anywhere;margin:.5rem 0}
.loss{border-left:4px solid var(--lost);padding:2px 0 2px 12px;margin:.75rem 0}.sources{font-size:.88rem}
footer{border-top:1px solid var(--line);margin-top:2rem;padding-top:.75rem;font-size:.88rem;color:var(--soft)}
@media (max-width:600px){.wide{display:none}th,td{padding-right:10px}}
@media print{:root{--page:#fff;--ink:#000;--soft:#444;--line:#bbb;--card:#fff;--kept-back:#c9eadf;--lost-back:#ffd1cc;
--restore-back:#b6dcff;--queue:#e3e7eb;--idle-back:#e3e7eb}body{max-width:none;padding:0;font-size:11pt}
*{print-color-adjust:exact;-webkit-print-color-adjust:exact}.scroll{overflow:visible}svg.timeline{min-width:0}
h3,figure,.loss,tr,.tiles div{break-inside:avoid}h2,h3{break-after:avoid}}
)";
}

}  // namespace reprieve::tool
