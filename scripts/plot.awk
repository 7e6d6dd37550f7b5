# SPDX-License-Identifier: Apache-2.0
# One SVG of three log-log panels from "panel series x ms" lines; see scripts/bench-growth.
function log10(v) { return log(v) / log(10) }
function value_of(panel, x, ms) { return panel == "sessions" ? x * execs * 1000 / ms : ms }
{
    if (!($1 in panels)) { panels[$1] = ++panel_count; panel_name[panel_count] = $1 }
    p = $1
    if (!((p, $2) in series)) { series[p, $2] = ++series_count[p]; series_name[p, series_count[p]] = $2 }
    s = p SUBSEP series[p, $2]
    px[s, ++points[s]] = $3 + 0
    v = value_of(p, $3, $4)
    py[s, points[s]] = v
    if (!(p in low_x) || $3 < low_x[p]) low_x[p] = $3 + 0
    if (!(p in high_x) || $3 + 0 > high_x[p]) high_x[p] = $3 + 0
    if (!(p in low_y) || v < low_y[p]) low_y[p] = v
    if (!(p in high_y) || v > high_y[p]) high_y[p] = v
}
function at_x(p, x) { return left + (log10(x) - log10(low_x[p])) / span_x * width }
function at_y(y) { return top + height - (log10(y) - floor_y) / (ceil_y - floor_y) * height }
function panel(p, column,    s, i, decade, path, color, x, y) {
    left = 70 + column * 400; top = 50; width = 300; height = 300
    span_x = log10(high_x[p]) - log10(low_x[p]); if (span_x == 0) span_x = 1
    floor_y = int(log10(low_y[p])); if (floor_y > log10(low_y[p])) floor_y--
    ceil_y = int(log10(high_y[p])) + 1
    printf "<text x=\"%d\" y=\"30\" font-weight=\"bold\">%s</text>\n", left, title[p]
    for (decade = floor_y; decade <= ceil_y; decade++) {
        y = at_y(10 ^ decade)
        printf "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" stroke=\"#ddd\"/>", left, y, left + width, y
        printf "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n", left - 6, y + 4, 10 ^ decade
    }
    for (i = 1; i <= series_count[p]; i++) {
        s = p SUBSEP i
        color = colors[(i - 1) % 6 + 1]
        order(s)
        path = ""
        for (j = 1; j <= points[s]; j++) {
            x = at_x(p, px[s, j]); y = at_y(py[s, j])
            path = path sprintf("%s%.1f,%.1f", j == 1 ? "M" : " L", x, y)
            printf "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>", x, y, color
            if (i == 1)
                printf "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%d</text>", x, top + height + 16, px[s, j]
        }
        printf "<path d=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"2\"/>\n", path, color
        printf "<text x=\"%d\" y=\"%d\" fill=\"%s\">%s</text>\n", left, top + height + 36 + 16 * (i - 1), color,
            series_name[p, i]
    }
}
function order(s,    i, j, t) {
    for (i = 1; i < points[s]; i++) for (j = i + 1; j <= points[s]; j++) if (px[s, j] < px[s, i]) {
        t = px[s, i]; px[s, i] = px[s, j]; px[s, j] = t
        t = py[s, i]; py[s, i] = py[s, j]; py[s, j] = t
    }
}
END {
    split("#1f77b4 #d62728 #2ca02c #9467bd #ff7f0e #8c564b", colors, " ")
    title["files"] = "ms by files of the repository"
    title["changes"] = "ms by changes in 1,000 files"
    title["sessions"] = "commands a second by sessions at once"
    print "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"1200\" height=\"500\""
    print "    font-family=\"sans-serif\" font-size=\"12\">"
    print "<rect width=\"1200\" height=\"500\" fill=\"white\"/>"
    column = 0
    split("files changes sessions", wanted, " ")
    for (k = 1; k <= 3; k++) if (wanted[k] in panels) panel(wanted[k], column++)
    print "</svg>"
}
